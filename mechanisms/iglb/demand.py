"""What jobs send, as the planner counts it: bits on links, by flow and by phase of its job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from controller.jobs import DeclaredJob
from mechanisms.iglb.fabric import Fabric, Floats, Ints, sums
from workloads.paths import wire_bytes


@dataclass(frozen=True, eq=False)
class Demand:
    """Flows of jobs, one job's behind the other's, and what they send.

    Of each flow: `source`, `target` (interfaces), `job`, `group` and `weight`, the most bits that
    it has in one phase. Flows of a job in different groups are never under way together. Entries,
    by ascending flow: `flow` sends `bits` in `column`, a phase of its job; job j's columns are
    starts[j] .. starts[j + 1] - 1.
    """

    source: Ints
    target: Ints
    job: Ints
    group: Ints
    weight: Floats
    flow: Ints
    column: Ints
    bits: Floats
    starts: Ints

    def __len__(self) -> int:
        return len(self.source)

    @property
    def columns(self) -> int:
        """How many phases all jobs have together."""
        return int(self.starts[-1])

    @cached_property
    def entry_start(self) -> Ints:
        """Where each flow's entries begin; one more, where the last one's end."""
        return np.searchsorted(self.flow, np.arange(len(self) + 1))

    def rows(self, of_flow: Ints) -> Ints:
        """Return what each flow has for each entry; not copied where a flow has one entry."""
        return of_flow if self._single else of_flow[self.flow]

    @cached_property
    def _single(self) -> bool:
        return len(self.flow) == len(self) and bool((np.diff(self.entry_start) == 1).all())

    @cached_property
    def connection(self) -> Ints:
        """The number of each flow's connection: its job, source and target."""
        width = int(max(self.source.max(initial=0), self.target.max(initial=0))) + 1
        key = (self.job * width + self.source) * width + self.target
        found: Ints = np.unique(key, return_inverse=True)[1].ravel()
        return found

    @cached_property
    def connections(self) -> int:
        """How many there are."""
        return int(self.connection.max(initial=-1)) + 1


def of_job(job: DeclaredJob, fabric: Fabric) -> Demand:
    """Return a job's demand. Raises ValueError for what a declaration cannot say."""
    source, target = (np.asarray(each, dtype=np.int64) for each in (job.source, job.target))
    _check(job, source, target, len(fabric.leaf))
    payload = np.minimum(fabric.payload[source], fabric.payload[target])
    phases = {phase: i for i, phase in enumerate(sorted({each.phase for each in job.sets}))}
    columns = max(1, len(phases))
    flow = _joined([each.flow for each in job.sets])
    column = np.repeat([phases[each.phase] for each in job.sets], [len(s.flow) for s in job.sets])
    wire = wire_bytes(_joined([each.bytes for each in job.sets]), payload[flow])
    key, place = np.unique(flow * columns + column.astype(np.int64), return_inverse=True)
    flow, column = np.divmod(key, columns)
    bits = sums(place, np.asarray(8.0 * wire, dtype=np.float64), len(key))
    weight = np.zeros(len(source))
    np.maximum.at(weight, flow, bits)
    group = _groups(flow, column, len(source), columns)
    none = np.zeros(len(source), dtype=np.int64)
    return Demand(source, target, none, group, weight, flow, column, bits, np.array([0, columns]))


def together(demands: Sequence[Demand]) -> Demand:
    """Return several jobs' demands as one, in this order."""
    if len(demands) == 1:
        return demands[0]
    flows = np.cumsum([0, *map(len, demands)])
    starts = np.cumsum([0, *(each.columns for each in demands)])
    return Demand(
        _joined([each.source for each in demands]),
        _joined([each.target for each in demands]),
        np.repeat(np.arange(len(demands)), np.diff(flows)),
        _joined([each.group for each in demands]),
        np.concatenate([np.empty(0), *(each.weight for each in demands)]),
        _joined([each.flow + at for each, at in zip(demands, flows, strict=False)]),
        _joined([each.column + at for each, at in zip(demands, starts, strict=False)]),
        np.concatenate([np.empty(0), *(each.bits for each in demands)]),
        starts.astype(np.int64),
    )


def _joined(arrays: Sequence[Ints]) -> Ints:
    return np.concatenate([np.empty(0, dtype=np.int64), *arrays]).astype(np.int64)


def _check(job: DeclaredJob, source: Ints, target: Ints, interfaces: int) -> None:
    ends = np.concatenate([source, target])
    if len(source) != len(target):
        raise ValueError(f"job {job.name}: {len(source)} sources and {len(target)} targets")
    if len(ends) and not 0 <= ends.min() <= ends.max() < interfaces:
        raise ValueError(f"job {job.name}: interfaces are numbered from 0 to {interfaces - 1}")
    for each in job.sets:
        if len(each.flow) != len(each.bytes):
            raise ValueError(f"job {job.name}, {each.name}: as many flows as sizes, please")
        if len(each.flow) and not 0 <= each.flow.min() <= each.flow.max() < len(source):
            raise ValueError(f"job {job.name}, {each.name}: it has {len(source)} flows")
        if len(each.bytes) and each.bytes.min() <= 0:
            raise ValueError(f"job {job.name}, {each.name}: sizes are above 0")


def _groups(flow: Ints, column: Ints, flows: int, columns: int) -> Ints:
    """Return the group of each flow: phases that share a flow are one group."""
    of_column = np.arange(columns)
    of_flow = np.zeros(flows, dtype=np.int64)
    while True:
        of_flow[flow] = columns
        np.minimum.at(of_flow, flow, of_column[column])
        least = of_column.copy()
        np.minimum.at(least, column, of_flow[flow])
        if (least == of_column).all():
            return of_flow
        of_column = least
