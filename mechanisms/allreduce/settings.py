"""AllReduce in topology files: what switches add, and the jobs that use it.

allreduce:
  lanes: 256                 # int32 of a packet that the program adds
  slots: 1024                # of a switch, for all jobs
  class: collective          # of `classes:`
  jobs:
    training: {workers: all, slots: 256, trees: 4}
    other: {workers: [h1, h3, h5]}
    third: {workers: {first: h2, every: 8, count: 128}}
    fourth: {workers: [h2, h4], server: h6}    # best effort: no slots of its own
  best_effort:
    pool: 64                 # cells of a switch that such jobs share
    servers: [h7, h8]        # of the groups of a run file's collectives, in turn
    window: 64               # chunks under way of each of these

Here stands what a file can be asked alone. Whether the jobs fit the fabric says `trees.plan_of`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, StrictBool, model_validator

from topologies.extensions import Setting
from topologies.fields import Count, Model, Name

KEY = "allreduce"

LANES, SLOTS = 32, 256
"""As ALLREDUCE_LANES and ALLREDUCE_SLOTS of p4src/modules/allreduce.p4."""

LEAST_LANES, MOST_LANES = 2, 1024
"""As the module has it; what a packet has more than that nobody adds."""

MOST_WIRE_LANES = 65_535
"""A packet counts them in 16 bits; the MTU allows far fewer."""

MOST_SLOTS = 1 << 20
MOST_SUMS = 1 << 26
"""int32 of a switch's two versions of all slots: 256 MB."""

MOST_JOB_SLOTS = 1 << 15
"""A packet's slot has 15 bits."""

TREES = 8
"""The low bits of an epoch select one of them."""

POOL = 64
"""Cells, where jobs have servers and the file does not say; as ALLREDUCE_POOL of the module."""

MOST_RANKS = 64
"""Workers of a best-effort job: a partial has a bit for each."""

MOST_JOBS = 65_535
"""A packet's job has 16 bits, and 0 is none."""

Level = Literal["leaf", "pod", "core"]

_JOB = re.compile(r"[a-z][a-z0-9_-]{0,31}")


@dataclass(frozen=True)
class Every:
    """Every so manieth host of the topology from `first` on (None: the first one)."""

    first: str | None
    every: int
    count: int | None


@dataclass(frozen=True)
class Job:
    """A job as the file has it.

    `workers`: hosts in the order of their ranks; none: all hosts. `every`: hosts by a rule, in
    place of `workers`. `level`: of its trees' roots, None for the lowest that reaches all workers.
    `base`: the first of its slots at each switch, None for the first that are free. `start`: with
    the fabric; else the job has no slots until it is started. `server`: the host that completes
    what switches do not; the job then has no slots in switches, and `slots` is its workers'.
    """

    name: str
    workers: tuple[str, ...]
    every: Every | None
    slots: int
    trees: int
    level: Level | None
    base: int | None
    start: bool = True
    server: str | None = None


@dataclass(frozen=True)
class BestEffort:
    """What best-effort jobs share. `pool`: cells of a switch, 0 for none: all goes to the servers.

    `servers`: of a run file's groups, one a group; `window`: chunks that each has under way, None
    for what line rate needs.
    """

    pool: int = POOL
    servers: tuple[str, ...] = ()
    window: int | None = None


@dataclass(frozen=True)
class AllReduce:
    """What a file says.

    `lanes`: int32 of a packet that a switch adds; `wire_lanes`: that a packet has. `slots`: of a
    switch. `traffic_class`: the name of a class, None for the usual one.
    """

    lanes: int = LANES
    wire_lanes: int = LANES
    slots: int = SLOTS
    traffic_class: str | None = None
    jobs: tuple[Job, ...] = ()
    best_effort: BestEffort = BestEffort()

    @property
    def cells(self) -> int:
        """Cells of the pool that the program needs: at least one where a job has a server."""
        if not self.best_effort.servers and not any(job.server for job in self.jobs):
            return 0
        return max(self.best_effort.pool, 1)


class EveryEntry(Model):
    """Workers by a rule: every so manieth host, in the file's order."""

    first: Name | None = None
    every: Count = 1
    count: Annotated[int, Field(ge=2, strict=True)] | None = None


def _power_of_two(value: object) -> object:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0 and value & (value - 1):
        near = 1 << value.bit_length() - 1
        raise ValueError(f"has to be a power of two: {near} or {2 * near}, not {value}")
    return value


def _workers(value: object) -> object:
    if isinstance(value, dict):
        return value
    if value == "all":
        return ()
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValueError("workers are all, a list of hosts, or {first: h1, every: 8}")
    for name in value:
        if value.count(name) > 1:
            raise ValueError(f"host {name!r} is named twice: a job has one worker a host")
    if len(value) < 2:
        raise ValueError(f"a job has at least 2 workers, not {len(value)}")
    return tuple(value)


class JobEntry(Model):
    """What a file may say of a job."""

    workers: Annotated[EveryEntry | tuple[str, ...], BeforeValidator(_workers)] = ()
    slots: (
        Annotated[
            int,
            BeforeValidator(_power_of_two),
            Field(ge=1, le=MOST_JOB_SLOTS, strict=True),
        ]
        | None
    ) = None
    trees: Annotated[int, Field(ge=1, le=TREES, strict=True)] = TREES
    level: Level | None = None
    base: Annotated[int, Field(ge=0, lt=MOST_SLOTS, strict=True)] | None = None
    start: StrictBool = True
    server: Name | None = None

    @model_validator(mode="after")
    def _is_one_kind(self) -> Self:
        if self.server is None:
            return self
        if self.base is not None:
            raise ValueError("base: a job with a server has no slots in switches: leave base out")
        if self.level is not None:
            raise ValueError(
                "level: trees of a job with a server have their root at its switch: leave level out"
            )
        if self.server in self.workers:
            raise ValueError(
                f"server: {self.server} is a worker of the job: a host that is none of them"
            )
        return self


def _pool(value: object) -> object:
    return value if value == 0 else _power_of_two(value)


def _servers(value: object) -> object:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValueError("servers are a list of hosts, one for each group that is summed")
    for name in value:
        if value.count(name) > 1:
            raise ValueError(f"host {name!r} is named twice: a host has one server")
    return tuple(value)


class BestEffortEntry(Model):
    """What a file may say of best effort."""

    pool: Annotated[int, BeforeValidator(_pool), Field(ge=0, le=2 * MOST_SLOTS, strict=True)] = POOL
    servers: Annotated[tuple[str, ...], BeforeValidator(_servers)] = ()
    window: (
        Annotated[int, BeforeValidator(_power_of_two), Field(ge=1, le=MOST_JOB_SLOTS, strict=True)]
        | None
    ) = None


def _jobs(value: object) -> object:
    if not isinstance(value, dict):
        return value
    for name in value:
        if not isinstance(name, str) or not _JOB.fullmatch(name):
            raise ValueError(
                f"{name!r} is not a job's name: a small letter, then up to 31 small letters, "
                "digits, - or _"
            )
    if len(value) > MOST_JOBS:
        raise ValueError(f"at most {MOST_JOBS} jobs, not {len(value)}: packets have 16 bits for it")
    return {name: {} if job is None else job for name, job in value.items()}


class AllReduceEntry(Model):
    """What a file may say."""

    lanes: Annotated[
        int, BeforeValidator(_power_of_two), Field(ge=LEAST_LANES, le=MOST_LANES, strict=True)
    ] = LANES
    wire_lanes: Annotated[int, Field(ge=1, le=MOST_WIRE_LANES, strict=True)] | None = None
    slots: Annotated[int, Field(ge=1, le=MOST_SLOTS, strict=True)] = SLOTS
    traffic_class: str | None = Field(default=None, alias="class")
    jobs: Annotated[dict[str, JobEntry], BeforeValidator(_jobs)] = Field(default={})
    best_effort: BestEffortEntry = BestEffortEntry()

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.wire_lanes is not None and self.wire_lanes < self.lanes:
            raise ValueError(
                f"packets of {self.wire_lanes} lanes (wire_lanes) have no {self.lanes} to add: "
                f"lanes: {self.wire_lanes} or fewer"
            )
        reserved = {name: job for name, job in self.jobs.items() if job.server is None}
        pool = self.best_effort.pool
        if (2 * self.slots + pool) * self.lanes > MOST_SUMS and 2 * self.slots < pool:
            raise ValueError(
                f"a pool of {pool} cells beside {self.slots} slots, of {self.lanes} lanes, is more "
                f"than the {MOST_SUMS} sums that a switch has at most: a smaller "
                "best_effort: {pool: ...}"
            )
        if (2 * self.slots + pool) * self.lanes > MOST_SUMS:
            raise ValueError(
                f"{self.slots} slots of {self.lanes} lanes, twice, are "
                f"{2 * self.slots * self.lanes} sums at each switch, and it has at most "
                f"{MOST_SUMS}: slots: {MOST_SUMS // (2 * self.lanes)} or fewer"
            )
        if sum(job.start for job in reserved.values()) > self.slots:
            raise ValueError(f"{len(reserved)} jobs need a slot each, and slots: is {self.slots}")
        share = self.share
        for name, job in reserved.items():
            size = job.slots or share
            if (job.base or 0) + size > self.slots:
                end = f"{job.base} to {job.base + size}" if job.base else f"{size} slots"
                raise ValueError(
                    f"jobs.{name} takes {end}, and a switch has {self.slots}: "
                    f"slots: {(job.base or 0) + size}"
                )
        return self

    @property
    def share(self) -> int:
        """Return the slots of a job that says nothing: equal parts, a power of two."""
        reserved = sum(job.server is None for job in self.jobs.values())
        part = min(max(self.slots // max(reserved, 1), 1), MOST_JOB_SLOTS)
        return 1 << part.bit_length() - 1


def _said(value: object) -> object:
    if value is True:
        return {}
    return None if value is False else value


def _job(name: str, entry: JobEntry, share: int) -> Job:
    by_rule = entry.workers if isinstance(entry.workers, EveryEntry) else None
    return Job(
        name,
        () if isinstance(entry.workers, EveryEntry) else entry.workers,
        Every(by_rule.first, by_rule.every, by_rule.count) if by_rule else None,
        entry.slots or share,
        entry.trees,
        entry.level,
        entry.base,
        entry.start,
        entry.server,
    )


def _setting(entry: AllReduceEntry | None) -> AllReduce | None:
    if entry is None:
        return None
    return AllReduce(
        entry.lanes,
        entry.lanes if entry.wire_lanes is None else entry.wire_lanes,
        entry.slots,
        entry.traffic_class,
        tuple(_job(name, job, entry.share) for name, job in entry.jobs.items()),
        BestEffort(**dict(entry.best_effort)),
    )


ALLREDUCE = Setting(
    KEY,
    Annotated[AllReduceEntry | None, BeforeValidator(_said), AfterValidator(_setting)],
    AllReduce,
    "topology",
)
