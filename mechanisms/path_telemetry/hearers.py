"""Senders that hear what switches write into packets, where no switch writes anything for them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from mechanisms.contract import Measured
from mechanisms.path_telemetry.settings import KEY
from topologies.errors import FieldPath
from topologies.lint.findings import Remark, Severity
from workloads.lint_transport import class_subject, transport_dscps
from workloads.model import RunFile
from workloads.senders import Sender, named


def caution(measured: Measured, sender: Sender, forms: Collection[str] = ()) -> Iterator[str]:
    """Yield that a measurement's senders have nothing to hear.

    `forms`: the formats that it reads; none: all.
    """
    if sender.name not in named(measured.control):
        return
    each = measured.data_class
    setting = None if each is None else each.setting(KEY)
    if setting is None or (forms and setting.format not in forms):
        form = next(iter(forms), "hops")
        yield (
            f"no class of {measured.topology.name} has its switches write into RoCE data "
            f"({KEY}: {form}), so {sender.title} has nothing to go by and sends at its line's rate"
        )


def remarks(
    run: RunFile, sender: Sender, prefix: FieldPath, forms: Collection[str] = ()
) -> Iterator[Remark]:
    """Yield the classes of a run's data into which nothing is written that the sender reads.

    `forms`: the formats that it reads; none: all.
    """
    entry: Any = run.transport
    if entry is None or sender.name not in named(entry.congestion_control):
        return
    for dscp in transport_dscps(run):
        each = next((c for c in run.topology.classes if dscp in c.dscps), None)
        setting = None if each is None else each.setting(KEY)
        said = None if setting is None else setting.format
        if said is not None and (not forms or said in forms):
            continue
        form = next(iter(forms), "hops")
        if each is None:
            what = "it is in no class"
        else:
            what = f"it has no {KEY}" if said is None else f"its {KEY} is {said}"
        message = f"{what}: {sender.title} has nothing to go by, and sends at its line's rate"
        right = f"give its class {KEY}: {form}, or write congestion_control: none"
        path = ("transport", "congestion_control")
        yield Remark(Severity.WARNING, path, class_subject(dscp, each), message, right)
