"""ENCC as a mechanism of the house: what it has of everything that `mechanisms.contract` names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mechanisms.contract import Measured, Mechanism
from mechanisms.encc.settings import SENDER
from mechanisms.path_telemetry import hearers
from topologies.errors import FieldPath
from topologies.lint.findings import Remark
from topologies.model import Topology
from workloads.model import RunFile


@dataclass(frozen=True)
class Encc(Mechanism):
    """ENCC's sender; what it hears is another mechanism's."""

    def holds(self, topology: Topology) -> bool:
        """Say no: it has nothing in switches."""
        return False

    def cautions(self, measured: Measured) -> Iterator[str]:
        """Yield that switches write nothing for it."""
        return hearers.caution(measured, SENDER)

    def run_remarks(self, run: RunFile, prefix: FieldPath = ()) -> Iterator[Remark]:
        """Yield that switches write nothing into a run's data."""
        return hearers.remarks(run, SENDER, prefix)


MECHANISM = Encc("encc", "ENCC", sender=SENDER)
