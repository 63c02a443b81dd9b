"""Swift as a mechanism: what it has of everything that `mechanisms.contract` names."""

from __future__ import annotations

from dataclasses import dataclass

from mechanisms.contract import Mechanism
from mechanisms.swift.settings import SENDER
from topologies.model import Topology


@dataclass(frozen=True)
class Swift(Mechanism):
    """Swift's sender, which goes by round trips alone."""

    def holds(self, topology: Topology) -> bool:
        """Say no: it has nothing in switches."""
        return False


MECHANISM = Swift("swift", "Swift", sender=SENDER)
