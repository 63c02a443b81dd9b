"""Who chooses the UDP source ports of a run's queue pairs, where the fabric knows its jobs.

The same one may have jobs start later than their file says, so that their bursts do not meet.

    source_ports.install(chooser)            # mechanisms.registry: this room knows no mechanism

Switches hash a queue pair's source port, so a chooser that knows their hash chooses its path.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from controller.jobs import DeclaredJob
from topologies.extensions import ask_for_mechanisms
from topologies.model import Topology

Ports = npt.NDArray[np.int64]


class PortChooser(Protocol):
    """A mechanism that learns of jobs before they start."""

    def declares(self, topology: Topology) -> bool:
        """Say whether a topology's controller learns of a run's jobs."""

    def ports(self, topology: Topology, jobs: Sequence[DeclaredJob]) -> tuple[Ports, ...] | None:
        """Return the source ports of each job's flows; None: those that they have.

        Raises TopologyError where a job's flows can't be carried.
        """

    def rotates(self, topology: Topology) -> bool:
        """Say whether jobs that repeat iterations start later than they say, where that is good."""

    def late_ps(
        self, topology: Topology, jobs: Sequence[DeclaredJob], starts_ps: Sequence[int]
    ) -> tuple[int, ...]:
        """Return how much later than `starts_ps` jobs start, in fabric ps."""


_installed: list[PortChooser] = []


def install(chooser: PortChooser | None) -> None:
    """Take this mechanism, and no other, from now on."""
    _installed[:] = [] if chooser is None else [chooser]


def chooser_of(topology: Topology) -> PortChooser | None:
    """Return the chooser for a run's jobs; None: this topology has none."""
    if not _installed:
        ask_for_mechanisms()
    return next((each for each in _installed if each.declares(topology)), None)
