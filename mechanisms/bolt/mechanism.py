"""Bolt as a mechanism: what it has of everything that `mechanisms.contract` names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from controller.entries import Entry
from controller.parts import View
from mechanisms.bolt.counters import GRANTS
from mechanisms.bolt.entries import NAME, QUEUE_TABLE, entries
from mechanisms.bolt.settings import BOLT, KEY, SENDER
from mechanisms.contract import Measured, Mechanism
from topologies.errors import FieldPath
from topologies.lint.findings import Remark, Severity
from workloads.lint_transport import class_subject, transport_dscps
from workloads.model import RunFile
from workloads.senders import named


@dataclass(frozen=True)
class BoltMechanism(Mechanism):
    """Switches that grant packets and notify sources of queues, and a sender that follows."""

    def entries(self, view: View) -> Iterator[Entry]:
        """Yield what ports grant."""
        return entries(view)

    def cautions(self, measured: Measured) -> Iterator[str]:
        """Yield that no switch answers."""
        each = measured.data_class
        if SENDER.name not in named(measured.control):
            return
        if each is None or each.setting(KEY) is None:
            yield (
                f"no class of {measured.topology.name} has its switches answer RoCE data "
                f"({KEY}: true), so Bolt's windows only grow, to its line's rate"
            )

    def run_remarks(self, run: RunFile, prefix: FieldPath = ()) -> Iterator[Remark]:
        """Yield the classes of a run's data in which no switch answers."""
        entry: Any = run.transport
        if entry is None or SENDER.name not in named(entry.congestion_control):
            return
        for dscp in transport_dscps(run):
            each = next((c for c in run.topology.classes if dscp in c.dscps), None)
            if each is not None and each.setting(KEY) is not None:
                continue
            what = "it is in no class" if each is None else f"it has no {KEY}"
            message = f"{what}: no switch answers Bolt's senders, whose windows only grow"
            right = f"give its class {KEY}: true, or write congestion_control: none"
            path = ("transport", "congestion_control")
            yield Remark(Severity.WARNING, path, class_subject(dscp, each), message, right)


MECHANISM = BoltMechanism(
    NAME,
    "Bolt",
    settings=(BOLT,),
    sender=SENDER,
    tables=frozenset({QUEUE_TABLE}),
    counters=(GRANTS,),
)
