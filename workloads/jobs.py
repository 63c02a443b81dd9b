"""Jobs: phases in turn, each a collective over the groups of a parallel split, as messages.

At the start of every step each rank has a barrier, a message without bytes that waits for all the
rank has sent and received before and holds the time that it computes. A rank goes on when its own
part is done, not when all are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from topologies.model import Interface
from workloads import collectives
from workloads.collectives import Template
from workloads.dag import FlowKind, FlowTable, MessageTable, Numbers
from workloads.due import DueCollective, Pattern, PlacedPattern, pattern
from workloads.hierarchical import hierarchical
from workloads.ideal import Bounds, Stage
from workloads.in_network import Orders, is_in_network
from workloads.job_schema import (
    AllGatherEntry,
    AllReduceEntry,
    AllToAllEntry,
    BroadcastEntry,
    CollectiveEntry,
    JobEntry,
    PipelineEntry,
    RootedEntry,
    StepEntry,
)
from workloads.limits import TREE_CHUNK
from workloads.model import Span, SpanKind
from workloads.randomness import Random
from workloads.spans import Ideal, Spans
from workloads.splits import groups


def algorithm(value: CollectiveEntry | PipelineEntry) -> str:
    """Return a step's algorithm by name."""
    match value:
        case PipelineEntry():
            return value.schedule
        case AllReduceEntry() | AllGatherEntry() | BroadcastEntry():
            return value.algorithm
        case AllToAllEntry():
            return "direct" if value.fraction == 1 else f"direct 1/{value.fraction}"
        case RootedEntry():
            return "direct"
        case _:
            return "ring"


def template(value: CollectiveEntry | PipelineEntry, size: int) -> Template:
    """Return a step's messages over a group of `size` ranks."""
    match value:
        case PipelineEntry():
            return collectives.pipeline(size, value)
        case AllReduceEntry(algorithm="tree"):
            chunk = value.chunk or TREE_CHUNK
            return collectives.tree(size, value.bytes, chunk, value.channels)
        case AllReduceEntry(algorithm="hierarchical"):
            inside = value.inside or size
            return hierarchical(size, inside, value.bytes, value.channels)
        case AllReduceEntry() | BroadcastEntry() if is_in_network(value):
            return collectives.in_network(size, value.bytes)
        case AllGatherEntry() if is_in_network(value):
            return collectives.in_network(size, (size - 1) * -(-value.bytes // size))
        case BroadcastEntry():
            passed = (value.root, value.chunk or TREE_CHUNK, value.channels)
            if value.algorithm == "tree":
                return collectives.broadcast_tree(size, value.bytes, *passed)
            return collectives.broadcast_ring(size, value.bytes, *passed)
        case AllReduceEntry():
            return collectives.ring(size, value.bytes, 2 * (size - 1), value.channels)
        case AllToAllEntry():
            return collectives.all_to_all(
                size, value.bytes, value.fraction, value.window, value.channels
            )
        case RootedEntry():
            return collectives.incast(size, value.bytes, value.root, value.channels)
        case _:
            return collectives.ring(size, value.bytes, size - 1, value.channels)


@dataclass(frozen=True)
class _Ends:
    """What ranks wait for before they go on: messages, the rank of each, the stages they end.

    `due`: collectives that have no messages yet, with the ranks of their groups.
    """

    messages: Numbers
    ranks: Numbers
    stages: tuple[Stage, ...] = ()
    due: tuple[tuple[DueCollective, Numbers], ...] = ()


def _together(ends: Sequence[_Ends]) -> _Ends:
    return _Ends(
        np.concatenate([one.messages for one in ends]),
        np.concatenate([one.ranks for one in ends]),
        tuple(stage for one in ends for stage in one.stages),
        tuple(due for one in ends for due in one.due),
    )


class JobPlan:
    """Puts one job's messages, flows and spans into the tables of a run."""

    def __init__(
        self,
        job: JobEntry,
        name: str,
        ranks: Sequence[Interface],
        tables: tuple[FlowTable, MessageTable, Spans],
        due: list[DueCollective] | None = None,
        orders: Orders | None = None,
        random: Random | None = None,
    ) -> None:
        """`due`: takes collectives that have patterns; None: all become messages.

        `orders`: takes messages that programs carry, where there are any. `random`: draws by how
        much a rank's computing takes longer, where the job has `jitter`.
        """
        self.job = job
        self.name = name
        self.flows, self.messages, self.spans = tables
        self.due = due
        self.orders = orders
        self.random = random
        self.ranks = ranks
        self.places = self.flows.places(ranks)
        self.kind = FlowKind(name, job.dscp, job.queue, job.payload, None, job.rate or 0)
        self._stages: list[Stage] = []
        self._templates: dict[tuple[int, int], Template] = {}
        self._placed: dict[tuple[int, ...], PlacedPattern] = {}
        self._ideals: dict[tuple[int, ...], int] = {}
        self._span = -1

    def plan(self) -> None:
        """Add all iterations and phases of the job."""
        job, first = self.job, len(self.messages)
        self._span = self.spans.add(
            Span(SpanKind.JOB, self.name, first, first, 0, job.start, ranks=job.ranks),
            self._job_ideal,
        )
        barrier = self._barrier(None, 0, start_ps=job.start)
        ends = _Ends(barrier, np.arange(job.ranks))
        computing = 0
        for iteration in range(job.iterations):
            behind: list[_Ends] = []
            for number, phase in enumerate(job.phases):
                if phase.compute is not None:
                    computing += phase.compute
                    continue
                prefix = f"iteration {iteration} " if job.iterations > 1 else ""
                path = f"{prefix}phase {number} {phase.label}"
                steps = phase.parallel or [phase]
                if phase.background:
                    ends = self._passed(ends, computing)
                    behind.append(self._phase(path, number, steps, ends, 0))
                else:
                    ends = self._phase(path, number, steps, ends, computing)
                computing = 0
            ends = _together([self._passed(ends, computing), *behind]) if behind else ends
            computing = 0 if behind else computing
        self._barrier(ends, computing)
        self.spans.set_range(self._span, first, len(self.messages))

    # --- phases and steps ------------------------------------------------------------------

    def _phase(
        self, path: str, number: int, steps: Sequence[StepEntry], before: _Ends, computing: int
    ) -> _Ends:
        first = len(self.messages)
        span = self.spans.add(
            Span(SpanKind.PHASE, f"{self.name} {path}", first, first, 0, parent=self._span),
            lambda _: 0,
        )
        ends: list[_Ends] = []
        for place, step in enumerate(steps):
            value = getattr(step, step.kind)
            if isinstance(value, int):  # computing beside others
                barrier = self._barrier(before, computing + value)
                ends.append(_Ends(barrier, np.arange(self.job.ranks)))
                continue
            found = before
            key = (number, place)
            members = groups(self.job, value.over)
            shape = None if self.due is None else pattern(value, members.shape[1])
            if shape is None and key not in self._templates:
                self._templates[key] = template(value, members.shape[1])
            for round_number in range(value.repeat):
                gap = computing if round_number == 0 else 0
                gap += value.compute if isinstance(value, CollectiveEntry) else 0
                barrier = self._barrier(found, gap)
                label = f"{path} {step.label}" if len(steps) > 1 else path
                label += f" round {round_number}" if value.repeat > 1 else ""
                if shape is not None:
                    found = self._due(label, key, value, shape, members, barrier, found, span)
                else:
                    found = self._step(label, key, value, members, barrier, found.stages, span)
            ends.append(found)
        stop = len(self.messages)
        self.spans.set_range(span, first, stop)
        if len(steps) == 1 and len(self.spans) == span + 2:  # one collective, so the same ideal
            self.spans.set_ideal(span, self.spans.ideal_of(span + 1))
        else:
            self.spans.set_ideal(span, lambda bound: self._phase_ideal(bound, first, stop))
        return _together(ends)

    def _step(
        self,
        path: str,
        key: tuple[int, int],
        value: CollectiveEntry | PipelineEntry,
        members: Numbers,
        barrier: Numbers,
        before: tuple[Stage, ...],
        parent: int,
    ) -> _Ends:
        shape = self._templates[key]
        first = len(self.messages)
        ends: list[_Ends] = []
        orders = self.orders if is_in_network(value) else None
        kind = self.kind
        for number, ranks in enumerate(members):
            start = len(self.messages)
            places = self.places[ranks]
            carrying = shape.bytes > 0
            target = shape.target
            if orders is not None:
                workers = [self.ranks[int(rank)] for rank in ranks]
                target = (shape.source + orders.ahead(workers)) % len(ranks)
                orders.add(workers, start, value)
                kind = replace(
                    kind,
                    name=f"{self.name} in-network",
                    payload=orders.payload_of(workers, value),
                    open_loop=True,
                )
            flow = np.zeros(len(shape), dtype=np.int64)
            flow[carrying] = self.flows.flows(
                kind,
                places[shape.source[carrying]],
                places[target[carrying]],
                shape.channel[carrying],
            )
            self.messages.add(flow, shape.bytes, len(shape), gap_ps=shape.gap_ps)
            earlier, later = shape.edges
            self.messages.wait(later + start, earlier + start)
            heads, waiting = shape.heads
            self.messages.wait(heads + start, barrier[ranks[waiting]])
            last, through = shape.ends
            ends.append(_Ends(last + start, ranks[through]))
            group = f" group {number}" if len(members) > 1 else ""
            self.spans.add(
                Span(
                    SpanKind.COLLECTIVE,
                    f"{self.name} {path}{group}",
                    start,
                    len(self.messages),
                    0,
                    parent=parent,
                    algorithm=algorithm(value),
                    ranks=len(ranks),
                    bytes_per_rank=value.bytes,
                ),
                self._collective_ideal((*key, number), start, len(self.messages)),
            )
        found = _together(ends)
        stage = Stage(barrier, members, self.places, first, len(self.messages), before)
        self._stages.append(stage)
        # A rank with nothing to send or receive still computes before it continues.
        every = _Ends(barrier, np.arange(self.job.ranks))
        return _together([_Ends(found.messages, found.ranks, (stage,)), every])

    def _due(
        self,
        path: str,
        key: tuple[int, int],
        value: CollectiveEntry | PipelineEntry,
        shape: Pattern,
        members: Numbers,
        barrier: Numbers,
        before: _Ends,
        parent: int,
    ) -> _Ends:
        """Add a step that is made as it is due."""
        assert self.due is not None
        first = len(self.messages)
        source, target, channel = shape.ends()
        found: list[tuple[DueCollective, Numbers]] = []
        for number, ranks in enumerate(members):
            if (*key, number) not in self._placed:
                places = self.places[ranks]
                flows = self.flows.flows(self.kind, places[source], places[target], channel)
                self._placed[*key, number] = PlacedPattern(shape, flows)
            placed = self._placed[*key, number]
            group = f" group {number}" if len(members) > 1 else ""
            span = self.spans.add(
                Span(
                    SpanKind.COLLECTIVE,
                    f"{self.name} {path}{group}",
                    first,
                    first,
                    0,
                    parent=parent,
                    algorithm=algorithm(value),
                    ranks=len(ranks),
                    bytes_per_rank=value.bytes,
                ),
                self._due_ideal((*key, number), placed),
            )
            found.append((DueCollective(placed, barrier[ranks], span), ranks))
        collectives = tuple(due for due, _ in found)
        self.due.extend(collectives)
        stage = Stage(barrier, members, self.places, first, first, before.stages, collectives)
        self._stages.append(stage)
        return _Ends(barrier, np.arange(self.job.ranks), (stage,), tuple(found))

    def _passed(self, before: _Ends, gap_ps: int) -> _Ends:
        """Return what to wait for behind `before` and some computing."""
        return _Ends(self._barrier(before, gap_ps), np.arange(self.job.ranks))

    def _barrier(self, before: _Ends | None, gap_ps: int, start_ps: int = 0) -> Numbers:
        """Add a barrier of each rank, behind what it waits for."""
        barrier = self.messages.add(
            0, 0, self.job.ranks, start_ps=start_ps, gap_ps=self._computed(gap_ps)
        )
        if before is not None:
            self.messages.wait(barrier[before.ranks], before.messages)
            for stage in before.stages:
                stage.after.append(barrier)
            for due, ranks in before.due:
                due.after.append(barrier[ranks])
        return barrier

    def _computed(self, gap_ps: int) -> Numbers | int:
        """Return how long each rank takes to compute what is `gap_ps` without jitter."""
        most = gap_ps * self.job.jitter >> 32
        if self.random is None or most == 0:
            return gap_ps
        return np.array([gap_ps + self.random.below(most + 1) for _ in range(self.job.ranks)])

    # --- ideal times -----------------------------------------------------------------------

    def _job_ideal(self, bound: Bounds) -> int:
        _, end = bound.staged_ps(*self.spans.range_of(self._span), self._stages)
        return end - self.job.start

    def _phase_ideal(self, bound: Bounds, first: int, stop: int) -> int:
        begin, end = bound.staged_ps(first, stop, self._stages)
        return end - begin

    def _collective_ideal(self, key: tuple[int, ...], first: int, stop: int) -> Ideal:
        def ideal(bound: Bounds) -> int:
            if key not in self._ideals:  # the same in every round and iteration
                self._ideals[key] = bound.ideal_ps(first, stop)
            return self._ideals[key]

        return ideal

    def _due_ideal(self, key: tuple[int, ...], placed: PlacedPattern) -> Ideal:
        def ideal(bound: Bounds) -> int:
            if key not in self._ideals:
                self._ideals[key] = bound.due_ideal_ps(placed)
            return self._ideals[key]

        return ideal
