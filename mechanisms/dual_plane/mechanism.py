"""Dual-plane NICs as a mechanism of the house: what they have of what `mechanisms.contract` names.

Switches have no part in it but what others tell of dead ways: all of it is done by hosts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mechanisms.contract import Mechanism
from mechanisms.dual_plane.lint import failover_remarks
from mechanisms.dual_plane.settings import SENDER
from mechanisms.dual_plane.words import WORDS
from topologies.errors import FieldPath
from topologies.lint.findings import Remark
from workloads.model import RunFile

NAME = "dual_plane"


@dataclass(frozen=True)
class DualPlaneMechanism(Mechanism):
    """Hosts whose queue pairs share their load over planes, and lose and find these again."""

    def run_remarks(self, run: RunFile, prefix: FieldPath = ()) -> Iterator[Remark]:
        """Yield what is wrong with a run's failover."""
        yield from failover_remarks(run)


MECHANISM = DualPlaneMechanism(NAME, "dual-plane NIC", sender=SENDER, words=WORDS)
