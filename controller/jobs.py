"""Jobs as a scheduler declares them: who will send to whom, by which queue pairs, what at a time.

A scheduler knows how a job is split, so it can say what will be sent before the first packet is.
Learners that plan with that satisfy `JobLearner`; `controller.loop` tells them of JobsSubmitted and
JobsEnded, in both runtimes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from controller.parts import Learned

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class FlowSet:
    """What a job sends in one phase; arrays of equal length.

    `flow[i]`: a number of the job's flows; `bytes[i]` > 0: payload that it carries in the phase.
    Sets of the same `phase` are under way together, those of different phases of a job never are.
    """

    name: str
    phase: int
    flow: Ints
    bytes: Ints


@dataclass(frozen=True, eq=False)
class DeclaredJob:
    """A job's flows, and which of them are busy in which phase; arrays of equal length.

    `source[i]`, `target[i]`: places in `topology.interfaces()`; `udp_port[i]`: source port of the
    queue pair. Flows of the same source and target are queue pairs of one connection.
    """

    name: str
    source: Ints
    target: Ints
    udp_port: Ints
    sets: tuple[FlowSet, ...]

    def __len__(self) -> int:
        return len(self.source)


@dataclass(frozen=True)
class JobsSubmitted:
    """A scheduler starts jobs. One with the name of a running job takes its place."""

    jobs: tuple[DeclaredJob, ...]


@dataclass(frozen=True)
class JobsEnded:
    """Jobs have ended, by name; unknown names are nobody's."""

    names: tuple[str, ...]


@runtime_checkable
class JobLearner(Protocol):
    """A learner that hears of jobs. Times in ns of the fabric's own clock."""

    def submitted(self, jobs: Iterable[DeclaredJob], now: int) -> Learned | None:
        """Take jobs that start; return what follows from them, None if nothing does."""

    def ended(self, names: Iterable[str], now: int) -> Learned | None:
        """Take notice that jobs have ended."""
