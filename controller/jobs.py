"""Jobs as a scheduler declares them: who will send to whom, by which queue pairs, what at a time.

A scheduler knows how a job is split, so it can say what will be sent before the first packet is.
Learners that plan with that satisfy `JobLearner`; `controller.loop` tells them of JobsSubmitted and
JobsEnded, in both runtimes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from controller.entries import Entry
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
    queue pair. Flows of the same source and target are queue pairs of one connection. `is_open`:
    they send already, and keep the ports that they have; else the planner may choose others.
    `computing`: (phase, seconds) of an iteration: how long ranks compute before they send in that
    phase; a phase above all of `sets` stands for the iteration's end.
    """

    name: str
    source: Ints
    target: Ints
    udp_port: Ints
    sets: tuple[FlowSet, ...]
    is_open: bool = False
    computing: tuple[tuple[int, float], ...] = ()

    def __len__(self) -> int:
        return len(self.source)


@dataclass(frozen=True)
class JobsSubmitted:
    """A scheduler starts jobs. One with the name of a running job takes its place."""

    jobs: tuple[DeclaredJob, ...]


@dataclass(frozen=True)
class JobsEnded:
    """Jobs have ended, by name; unknown names are ignored."""

    names: tuple[str, ...]


@runtime_checkable
class JobLearner(Protocol):
    """A learner that is notified of jobs. Times in ns of the fabric's own clock."""

    def submitted(self, jobs: Iterable[DeclaredJob], now: int) -> Learned | None:
        """Take jobs that start; return what follows from them, None if nothing does."""

    def ended(self, names: Iterable[str], now: int) -> Learned | None:
        """Take notice that jobs have ended."""


@runtime_checkable
class TakesOver(Protocol):
    """A job learner that can go on from what another controller left in switches."""

    def left(self, there: Mapping[str, Iterable[Entry]]) -> None:
        """Take notice of what switches hold, before the first jobs are submitted."""


@dataclass(frozen=True, eq=False)
class PlannedJob:
    """What a learner planned for one job; arrays by its flows.

    `udp_port`: the source port that each queue pair is to have from now on. `by_entry`: whether
    switches have entries for it; other flows go where the hash of their ports sends them. The rest
    is about the plan of all jobs together: `planned_s`, `bound_s`: the largest time that a link
    needs for a phase, and what no plan can go below; `proof`: what proves that, in a word or two.
    `version`: counts plans.
    """

    udp_port: Ints
    by_entry: npt.NDArray[np.bool_]
    planned_s: float
    bound_s: float
    proof: str
    version: int

    @property
    def quality(self) -> float:
        """The bound over what is planned: 1 is the best there is."""
        return self.bound_s / self.planned_s if self.planned_s else 1.0


@runtime_checkable
class JobPlanner(JobLearner, Protocol):
    """A job learner that says what it planned."""

    def planned(self, name: str) -> PlannedJob | None:
        """Return what is planned for a job's flows, None for a job that it does not know."""


class Scheduled(NamedTuple):
    """What an event of jobs took: updates written, seconds to plan, seconds to write."""

    updates: int
    plan_s: float
    write_s: float
