"""PowerTCP as a mechanism: what it has of everything that `mechanisms.contract` names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mechanisms.contract import Measured, Mechanism
from mechanisms.path_telemetry import hearers
from mechanisms.powertcp.settings import SENDER
from topologies.errors import FieldPath
from topologies.lint.findings import Remark
from topologies.model import Topology
from workloads.model import RunFile

READS = ("hops",)
"""One word for the whole path does not say how fast a queue grows."""


@dataclass(frozen=True)
class PowerTcp(Mechanism):
    """PowerTCP's sender; what it hears is another mechanism's."""

    def holds(self, topology: Topology) -> bool:
        """Say no: it has nothing in switches."""
        return False

    def cautions(self, measured: Measured) -> Iterator[str]:
        """Yield that switches write nothing for it."""
        return hearers.caution(measured, SENDER, READS)

    def run_remarks(self, run: RunFile, prefix: FieldPath = ()) -> Iterator[Remark]:
        """Yield that switches write nothing into a run's data."""
        return hearers.remarks(run, SENDER, prefix, READS)


MECHANISM = PowerTcp("powertcp", "PowerTCP", sender=SENDER)
