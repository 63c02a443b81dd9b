"""What is reported to a scheduler of its jobs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controller.jobs import DeclaredJob, PlannedJob, Scheduled
from topologies.model import Topology
from workloads.job_files import PlacedJob


@dataclass(frozen=True)
class QueuePair:
    """One of a job's flows. `source`, `target`: interfaces, as h1 or h1:1.

    `number`: among those of the same two, from 0. `udp_port`: the source port that it is to use.
    `by_entry`: switches have entries for it. `bytes`: payload in all phases of an iteration.
    """

    source: str
    target: str
    number: int
    udp_port: int
    by_entry: bool
    bytes: int


@dataclass(frozen=True)
class Quality:
    """How good the plan of all jobs is; times in seconds of the fabric (`PlannedJob`)."""

    planned_s: float
    bound_s: float
    quality: float
    proof: str
    version: int


@dataclass(frozen=True)
class JobState:
    """A job that runs. `placement`: the interface of each rank.

    `quality` None: no mechanism plans. `planning_s`, `writing_s`, `updates`: what its
    last event took.
    """

    name: str
    placement: tuple[str, ...]
    queue_pairs: tuple[QueuePair, ...]
    quality: Quality | None
    planning_s: float
    writing_s: float
    updates: int

    @property
    def ranks(self) -> int:
        """How many ranks it has."""
        return len(self.placement)


@dataclass(frozen=True)
class JobStates:
    """The jobs that run; `revision` counts changes."""

    jobs: tuple[JobState, ...]
    revision: int


def state_of(
    topology: Topology, placed: PlacedJob, planned: PlannedJob | None, took: Scheduled
) -> JobState:
    """Return a job's state as clients see it."""
    job = placed.declared
    ports = job.udp_port if planned is None else planned.udp_port
    by_entry = np.zeros(len(job), dtype=np.bool_) if planned is None else planned.by_entry
    names = [str(interface.end) for interface in topology.interfaces()]
    total = np.zeros(len(job), dtype=np.int64)
    for each in job.sets:
        np.add.at(total, each.flow, each.bytes)
    columns = (job.source, job.target, _numbers(job), ports, by_entry, total)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return JobState(
        job.name,
        tuple(placed.entry.placement),
        tuple(
            QueuePair(names[a], names[b], n, port, pin, size) for a, b, n, port, pin, size in rows
        ),
        None
        if planned is None
        else Quality(
            planned.planned_s, planned.bound_s, planned.quality, planned.proof, planned.version
        ),
        took.plan_s,
        took.write_s,
        took.updates,
    )


def _numbers(job: DeclaredJob) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Return each flow's number among those of its source and target."""
    pair = job.source * (int(job.target.max(initial=0)) + 1) + job.target
    order = np.argsort(pair, kind="stable")
    begins = np.diff(pair[order], prepend=-1) != 0
    first = np.maximum.accumulate(np.where(begins, np.arange(len(pair)), 0))
    found = np.empty(len(pair), dtype=np.int64)
    found[order] = np.arange(len(pair)) - first
    return found
