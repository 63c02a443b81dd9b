"""Faults of dynamic thresholds, in topologies and in run files."""

from __future__ import annotations

from collections.abc import Iterator

from mechanisms.ecn_tuning.settings import KEY
from topologies.errors import FieldPath
from topologies.lint.findings import Remark, Severity
from topologies.model import Topology
from workloads.model import RunFile


def tuning_remarks(topology: Topology, prefix: FieldPath) -> Iterator[Remark]:
    """Yield classes that do not mark at all, so that there is nothing to be found."""
    for each in topology.classes:
        if each.setting(KEY) is None or each.setting("ecn") is not None:
            continue
        message = f"has {KEY} and no ecn: its packets are marked only when thresholds were found"
        right = "give it thresholds to begin with, such as ecn: {min: 400kB, max: 1600kB, "
        right += "probability: 20%}"
        path = (*prefix, "classes", each.name, KEY)
        yield Remark(Severity.ERROR, path, f"class {each.name}", message, right)


def room_remarks(run: RunFile, prefix: FieldPath) -> Iterator[Remark]:
    """Yield classes whose queues share a buffer, and that do not say how much of it is theirs."""
    if run.buffer is None:
        return
    for each in run.topology.classes:
        setting = each.setting(KEY)
        if setting is None or setting.room_bytes is not None:
            continue
        message = "its queues share a buffer, and the room of each is taken for its link's queue"
        right = f"say how much a queue may hold: {KEY}: {{room: 4MB}}"
        path = (*prefix, "classes", each.name, KEY)
        yield Remark(Severity.WARNING, path, f"class {each.name}", message, right)
