"""Collectives that switches carry out: which groups of ranks need a tree, and who gives it to them.

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
from workloads.job_schema import (
    AllGatherEntry,
    AllReduceEntry,
    BroadcastEntry,
    CollectiveEntry,
    JobEntry,
    PipelineEntry,
)
from workloads.limits import IN_NETWORK as ALGORITHM
from workloads.model import Group, RunFile
from workloads.paths import Paths
from workloads.placement import place
from workloads.splits import groups

InNetworkEntry = AllReduceEntry | AllGatherEntry | BroadcastEntry
"""What can be `algorithm: in-network`."""

SUM, ALLGATHER, BROADCAST = range(3)
"""What an order asks for; a Broadcast from root r is BROADCAST + r (programs/allreduce.c)."""


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
    """A mechanism by which switches compute AllReduces, and multicast blocks."""

    def with_groups(self, topology: Topology, groups: Sequence[Group]) -> Topology:
        """Return the topology with what switches need for these groups. Raises GroupError."""

    def payload(self, topology: Topology) -> int:
        """Return how many bytes of a buffer that is summed a packet carries."""

    def block_payload(self, topology: Topology, group: int) -> int:
        """Return how many bytes a block of a group that `with_groups` has put in carries."""

    def workers(self, topology: Topology, group: int) -> Iterator[GroupWorker]:
        """Yield what runs for a group that `with_groups` has put in, rank by rank."""

    def servers(self, topology: Topology, group: int) -> Iterator[GroupWorker]:
        """Yield what runs for a group on hosts that are none of its ranks."""


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
    """Say whether a step is a collective that switches carry out."""
    return isinstance(value, InNetworkEntry) and value.algorithm == ALGORITHM


def order_of(value: CollectiveEntry | PipelineEntry) -> int:
    """Return what a step of `algorithm: in-network` asks its group's programs for."""
    match value:
        case AllGatherEntry():
            return ALLGATHER
        case BroadcastEntry():
            return BROADCAST + value.root
        case _:
            return SUM


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
                    report(here, f"groups over {value.over} have one rank: nothing to send")
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
                            f"{each.host} is in another group of {ALGORITHM} collectives already: "
                            "a host has one worker, so the groups of a run may not overlap",
                        )
                        break
    return list(found.values()), problems


def _steps(
    path: FieldPath, job: JobEntry, report: Any
) -> Iterator[tuple[FieldPath, InNetworkEntry]]:
    for i, phase in enumerate(job.phases):
        steps = phase.parallel or [phase]
        mine = [n for n, step in enumerate(steps) if is_in_network(getattr(step, step.kind))]
        for n in mine:
            where: FieldPath = (*path, "phases", i)
            if phase.parallel is not None:
                where = (*where, "parallel", n)
            value: InNetworkEntry = getattr(steps[n], steps[n].kind)
            here = (*where, steps[n].kind)
            if phase.background or len(mine) > 1:
                report(
                    here,
                    f"{ALGORITHM} collectives of a job go one after the other: no background, "
                    "and one in a parallel phase",
                )
            if value.channels != 1 or getattr(value, "chunk", None) is not None:
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
    """What programs carry: messages of a run, with group, rank and what is asked for.

    `payload`: of a packet that is summed, `block_payloads`: of a block, by group.
    """

    payload: int
    block_payloads: Sequence[int]
    numbers: Mapping[tuple[Endpoint, ...], int]
    paths: Paths
    rows: list[tuple[int, int, int, int]] = field(default_factory=list)
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
        found = aggregation()
        blocks = [found.block_payload(run.topology, group) for group in numbers.values()]
        return cls(found.payload(run.topology), blocks, numbers, Paths(run.topology))

    def payload_of(
        self, members: Sequence[Interface], value: CollectiveEntry | PipelineEntry
    ) -> int:
        """Return how many bytes a packet of a step carries in a group."""
        if order_of(value) == SUM:
            return self.payload
        return self.block_payloads[self._number(members)]

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

    def add(
        self, members: Sequence[Interface], first: int, value: CollectiveEntry | PipelineEntry
    ) -> None:
        """Let a group's program carry a step's messages from `first` on, one a rank."""
        group, what = self._number(members), order_of(value)
        self.rows += [(first + rank, group, rank, what) for rank in range(len(members))]

    def _number(self, members: Sequence[Interface]) -> int:
        return self.numbers[tuple(each.end for each in members)]
