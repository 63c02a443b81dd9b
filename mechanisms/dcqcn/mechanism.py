"""DCQCN as a mechanism of the house: what it has of everything that `mechanisms.contract` names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from controller.entries import Entry
from controller.parts import View
from mechanisms.contract import Measured, Mechanism
from mechanisms.dcqcn import lint
from mechanisms.dcqcn.entries import TABLE, ecn_entries
from mechanisms.dcqcn.settings import ECN, SENDER
from topologies.errors import FieldPath
from topologies.lint.findings import Remark
from topologies.model import Topology
from workloads.model import RunFile


@dataclass(frozen=True)
class Dcqcn(Mechanism):
    """DCQCN with its ECN marking."""

    def entries(self, view: View) -> Iterator[Entry]:
        """Yield the thresholds at which queues mark."""
        return ecn_entries(view)

    def cautions(self, measured: Measured) -> Iterator[str]:
        """Yield that nothing marks what the senders send."""
        if measured.data_class is None or measured.data_class.setting("ecn") is None:
            name = measured.topology.name
            yield f"no class of {name} marks RoCE data (ecn:), so DCQCN has nothing to react to"

    def remarks(self, topology: Topology, prefix: FieldPath = ()) -> Iterator[Remark]:
        """Yield classes that mark too late."""
        return lint.marking_remarks(topology, prefix)

    def run_remarks(self, run: RunFile, prefix: FieldPath = ()) -> Iterator[Remark]:
        """Yield what is wrong with a run's marking and its senders."""
        yield from lint.buffer_remarks(run, prefix)
        yield from lint.transport_remarks(run, prefix)


MECHANISM = Dcqcn(
    "dcqcn",
    "DCQCN",
    settings=(ECN,),
    sender=SENDER,
    tables=frozenset({TABLE}),
)
