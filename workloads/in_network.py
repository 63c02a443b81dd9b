"""AllReduces that switches compute: which groups of ranks need a tree, and who gives them one.

    in_network.install(aggregation)          # mechanisms.registry: this room knows no mechanism

A group is the ranks of one collective with `algorithm: in-network`. When a run file is loaded, the
installed `Aggregation` puts the groups into its topology; when it is simulated, a program on each
rank's host carries the group's messages, and the engine only says when.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from topologies.errors import FieldPath, Problem, TopologyError
from topologies.extensions import ask_for_mechanisms
from topologies.model import Endpoint, Interface, Topology
from workloads.job_schema import AllReduceEntry, JobEntry
from workloads.model import Group, RunFile
from workloads.paths import Paths
from workloads.placement import place
from workloads.splits import groups

ALGORITHM = "in-network"


@dataclass(frozen=True)
class GroupWorker:
    """A program on a host that carries what a rank of a group sums, and its settings."""

    host: str
    program: str
    settings: Mapping[str, Any]


class GroupError(Exception):
    """A group that its fabric can't serve. `group`: its number; None: whichever."""

    def __init__(self, message: str, group: int | None = None) -> None:
        super().__init__(message)
        self.group = group


class Aggregation(Protocol):
    """A mechanism by which switches compute AllReduces."""

    def with_groups(self, topology: Topology, groups: Sequence[Group]) -> Topology:
        """Return the topology with what switches need for these groups. Raises GroupError."""

    def payload(self, topology: Topology) -> int:
        """Return how many bytes of a buffer a packet carries."""

    def workers(self, topology: Topology, group: int) -> Iterator[GroupWorker]:
        """Yield what runs for a group that `with_groups` has put in, rank by rank."""


_installed: list[Aggregation] = []


def install(aggregation: Aggregation | None) -> None:
    """Take this mechanism, and no other, from now on."""
    _installed[:] = [] if aggregation is None else [aggregation]


def aggregation() -> Aggregation:
    """Return the installed mechanism. Raises GroupError where there is none."""
    if not _installed:
        ask_for_mechanisms()
    if not _installed:
        raise GroupError("no mechanism computes AllReduces in switches")
    return _installed[0]


def is_in_network(value: object) -> bool:
    """Say whether a step is an AllReduce that switches compute."""
    return isinstance(value, AllReduceEntry) and value.algorithm == ALGORITHM


def with_groups(run: RunFile) -> RunFile:
    """Return a checked run with the groups of its jobs, and a topology that serves them.

    Raises TopologyError.
    """
    found, problems = _groups(run)
    if not found and not problems:
        return run
    if not problems:
        try:
            topology = aggregation().with_groups(run.topology, found)
        except GroupError as error:
            path = found[error.group or 0].path
            problems = [run.document.problem(path, str(error))]
    if problems:
        raise TopologyError(problems)
    return run.with_groups(tuple(found), topology)


def _groups(run: RunFile) -> tuple[list[Group], list[Problem]]:
    problems: list[Problem] = []

    def report(path: FieldPath, message: str) -> None:
        problems.append(run.document.problem(path, message))

    jobs = list(zip(run.job_paths, run.jobs, strict=True))
    asked = [list(_steps(path, job, report)) for path, job in jobs]
    if not any(asked) or problems:
        return [], problems
    places = place(run.topology, jobs, run.seed, report)
    found: dict[tuple[Interface, ...], Group] = {}
    owner: dict[str, Group] = {}
    for (path, job), ranks, steps in zip(jobs, places, asked, strict=True):
        if steps:
            _refuse_job(path, job, report)
        for here, value in steps:
            for row in groups(job, value.over):
                if len(row) < 2:
                    report(here, f"groups over {value.over} have one rank: nothing to reduce")
                    break
                members = tuple(ranks[int(rank)] for rank in row)
                if members in found or problems:
                    continue
                group = found[members] = Group(members, here)
                for each in members:
                    other = owner.setdefault(each.host, group)
                    if other is not group:
                        report(
                            here,
                            f"{each.host} is in another group of {ALGORITHM} AllReduces already: "
                            "a host has one worker, so the groups of a run may not overlap",
                        )
                        break
    return list(found.values()), problems


def _steps(
    path: FieldPath, job: JobEntry, report: Any
) -> Iterator[tuple[FieldPath, AllReduceEntry]]:
    for i, phase in enumerate(job.phases):
        steps = phase.parallel or [phase]
        mine = [n for n, step in enumerate(steps) if is_in_network(getattr(step, step.kind))]
        for n in mine:
            where: FieldPath = (*path, "phases", i)
            if phase.parallel is not None:
                where = (*where, "parallel", n)
            value: AllReduceEntry = getattr(steps[n], steps[n].kind)
            here = (*where, "allreduce")
            if phase.background or len(mine) > 1:
                report(
                    here,
                    f"{ALGORITHM} AllReduces of a job go one after the other: no background, and "
                    "one in a parallel phase",
                )
            if value.channels != 1 or value.chunk is not None:
                report(here, f"channels and chunk are of rings and trees, not {ALGORITHM}")
            yield here, value


def _refuse_job(path: FieldPath, job: JobEntry, report: Any) -> None:
    if job.placement == "random":
        report(
            (*path, "placement"),
            f"{ALGORITHM} needs trees that are known before the run's seed: linear, stride or a "
            "list of hosts",
        )
    if job.interfaces == "all":
        report((*path, "interfaces"), f"{ALGORITHM} has one worker a host: first")


@dataclass
class Orders:
    """What programs carry: messages of a run, with group and rank. `payload`: of a packet."""

    payload: int
    numbers: Mapping[tuple[Endpoint, ...], int]
    paths: Paths
    rows: list[tuple[int, int, int]] = field(default_factory=list)
    _ahead: dict[tuple[Endpoint, ...], int] = field(default_factory=dict)

    @classmethod
    def of(cls, run: RunFile) -> Orders | None:
        """Return those of a run, none yet; None where no group is in its network."""
        if not run.groups:
            return None
        numbers = {
            tuple(each.end for each in group.members): number
            for number, group in enumerate(run.groups)
        }
        return cls(aggregation().payload(run.topology), numbers, Paths(run.topology))

    def ahead(self, members: Sequence[Interface]) -> int:
        """Return how many ranks ahead the farthest one from rank 0 is, by shortest paths.

        What a group's ranks send goes that far up, and as far down again.
        """
        key = tuple(each.end for each in members)
        if key not in self._ahead:
            far = np.arange(1, len(members))
            near = np.zeros_like(far)
            delays = self.paths.between(members, near, far).delay_ps
            self._ahead[key] = 1 + int(delays.argmax())
        return self._ahead[key]

    def add(self, members: Sequence[Interface], first: int) -> None:
        """Let a group's program carry messages from `first` on, one a rank."""
        group = self.numbers[tuple(each.end for each in members)]
        self.rows += [(first + rank, group, rank) for rank in range(len(members))]
