"""What an empty fabric would need: the lower bounds that slowdowns are counted against.

The ideal time of a set of messages is the larger of
- the longest chain: messages that wait for each other, each at its own ideal time (`paths`), with
  the computing between them;
- the busiest interface: all that it has to send, or to receive, at its line rate, headers counted,
  and the shortest of its messages' latencies on top.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from topologies.model import Topology
from workloads.dag import Numbers
from workloads.due import DueCollective, PlacedPattern
from workloads.due_ideal import PatternBound
from workloads.message_costs import MessageCosts
from workloads.model import MessageArrays, Records
from workloads.paths import PathTable


@dataclass(frozen=True)
class Bounds:
    """All messages of a run with what bounds them: by message, and the NICs of flows."""

    arrays: MessageArrays
    alone_ps: Numbers  # by message: alone in an empty fabric
    tx_ps: Numbers  # by message: how long it occupies its sender's interface
    rx_ps: Numbers
    sender: Numbers  # by message: number of the interface
    receiver: Numbers
    interfaces: int
    costs: MessageCosts
    _patterns: dict[int, PatternBound] = field(default_factory=dict)

    def of_pattern(self, placed: PlacedPattern) -> PatternBound:
        """Return what bounds messages that are made as they are due."""
        if id(placed) not in self._patterns:
            self._patterns[id(placed)] = PatternBound.of(placed, self.costs)
        return self._patterns[id(placed)]

    def due_ideal_ps(self, placed: PlacedPattern) -> int:
        """Return the ideal time of a collective that is made as it is due."""
        return self.of_pattern(placed).ideal_ps(self.interfaces)

    def finish_ps(self, first: int, stop: int, floor: Numbers | None = None) -> Numbers:
        """Return when each of messages `first` to `stop` - 1 is done at best, from 0 on.

        What they wait for outside the range is taken as done at 0. None is ready before its
        `floor`, which is its start unless given.
        """
        rows = self.arrays.messages[first:stop]
        earlier, later = self.edges(first, stop)
        inside = (later >= first) & (later < stop)
        after = rows["gap_ps"] + self.alone_ps[first:stop]
        begin = rows["start_ps"] if floor is None else floor
        return _longest(begin, after, earlier[inside] - first, later[inside] - first)

    def edges(self, first: int, stop: int) -> tuple[Numbers, Numbers]:
        """Return messages `first` to `stop` - 1 with what waits for them: (earlier, later)."""
        starts = self.arrays.first[first : stop + 1].astype(np.int64)
        later = self.arrays.next[starts[0] : starts[-1]].astype(np.int64)
        return np.repeat(np.arange(first, stop), np.diff(starts)), later

    def staged_ps(self, first: int, stop: int, stages: Sequence[Stage]) -> tuple[int, int]:
        """Return when messages `first` to `stop` - 1, those of stages in turn, begin and end.

        No rank passes a stage sooner than its interface can carry it and the stages before it: what
        it sends comes after its own barrier, what it receives after the first one of its group.
        """
        floor = self.arrays.messages["start_ps"][first:stop].copy()
        done = np.zeros(stop - first, dtype=np.int64)
        last, free = 0, dict[int, Numbers]()
        inside = [stage for stage in stages if first <= stage.barrier[0] and stage.stop <= stop]
        behind = [int(after[0]) for stage in inside for after in stage.after]
        cuts = {first, stop, *(stage.stop for stage in inside), *behind}
        ordered = sorted(cut for cut in cuts if first <= cut <= stop)
        for begin, end in itertools.pairwise(ordered):
            here = slice(begin - first, end - first)
            done[here] = self.finish_ps(begin, end, floor[here])
            earlier, later = self.edges(begin, end)
            onward = (later >= end) & (later < stop)
            np.maximum.at(floor, later[onward] - first, done[earlier[onward] - first])
            for stage in inside:
                if stage.stop != end:
                    continue
                passed = self._passed_ps(stage, done[stage.barrier - first], free)
                last = max(last, int(passed.max()))
                for due in stage.due:
                    through = self.of_pattern(due.placed).through_ps(done[due.heads - first])
                    last = max(last, int(through.max()))
                    for after in due.after:
                        if after[-1] < stop:
                            floor[after - first] = np.maximum(floor[after - first], through)
                for after in stage.after:
                    if after[-1] < stop:
                        floor[after - first] = np.maximum(floor[after - first], passed)
        ready = done - self.alone_ps[first:stop]
        return int(ready.min()), max(last, int(done.max()))

    def _passed_ps(self, stage: Stage, begun: Numbers, free: dict[int, Numbers]) -> Numbers:
        """Return when each rank can be through a stage that it has begun.

        `free` holds, by stage and rank, when its interface has carried all up to there: rows for
        sending and for receiving. This stage's is added.
        """
        loads, latencies = self.loads_ps(stage.first, stage.stop, stage.due)
        places = self.costs.load_places(stage.places)
        loads, latencies = loads[:, places], latencies[:, places]
        first = begun.copy()
        first[stage.members] = begun[stage.members].min(axis=1, keepdims=True)
        since = np.stack([begun, first])
        for before in stage.before:
            if id(before) in free:
                since = np.maximum(since, free[id(before)])
        free[id(stage)] = since + loads
        passed: Numbers = np.where(loads > 0, since + loads + latencies, begun).max(axis=0)
        return passed

    def loads_ps(
        self, first: int, stop: int, due: Sequence[DueCollective] = ()
    ) -> tuple[Numbers, Numbers]:
        """Return what messages cost each interface: rows for sending and for receiving.

        They are those of a range, and of collectives that are made as they are due.

        First how long it is busy, then the shortest latency of what it carries.
        """
        carrying = np.flatnonzero(self.alone_ps[first:stop]) + first
        loads = np.zeros((2, self.interfaces), dtype=np.int64)
        latencies = np.full((2, self.interfaces), np.iinfo(np.int64).max)
        ends = ((self.sender, self.tx_ps), (self.receiver, self.rx_ps))
        for load, latency, (end, busy) in zip(loads, latencies, ends, strict=True):
            at, times = end[carrying], busy[carrying]
            np.add.at(load, at, times)
            np.minimum.at(latency, at, self.alone_ps[carrying] - times)
        for each in due:
            more, shortest = self.of_pattern(each.placed).loads_ps(self.interfaces)
            loads, latencies = loads + more, np.minimum(latencies, shortest)
        return loads, np.where(loads > 0, latencies, 0)

    def ideal_ps(self, first: int, stop: int) -> int:
        """Return the ideal time of messages `first` to `stop` - 1, from the first one's ready."""
        if stop <= first:
            return 0
        done = self.finish_ps(first, stop)
        chain_ps = int(done.max() - (done - self.alone_ps[first:stop]).min())
        loads, latencies = self.loads_ps(first, stop)
        return max(chain_ps, int((loads + latencies).max()))


@dataclass(frozen=True)
class Stage:
    """One round of a job's step: the collectives of several groups.

    `barrier`: of each rank, a message in front of what it does; messages `first` to `stop` - 1 are
    what it does; `after`: the barriers behind it. `members`: the ranks of each group as rows.
    `places`: the interface of each rank. `before`: the stages that the barrier waits for. `due`:
    what is made as it is due, and has no messages.
    """

    barrier: Numbers
    members: Numbers
    places: Numbers
    first: int
    stop: int
    before: tuple[Stage, ...] = ()
    due: tuple[DueCollective, ...] = ()
    after: list[Numbers] = field(default_factory=list)


def bounds(topology: Topology, arrays: MessageArrays, flows: Records, table: PathTable) -> Bounds:
    """Return what bounds the messages of a run."""
    costs = MessageCosts(topology, flows, table)
    flow = arrays.messages["flow"].astype(np.int64)
    of = costs.of(flow, arrays.messages["bytes"].astype(np.int64))
    ends = (of.sender, of.receiver)
    return Bounds(arrays, of.alone_ps, of.tx_ps, of.rx_ps, *ends, costs.interfaces, costs)


def _longest(start: Numbers, after: Numbers, earlier: Numbers, later: Numbers) -> Numbers:
    """Return when each message is done: the latest it waits for, or its start, plus `after`.

    Raises ValueError where messages wait for each other in a circle.
    """
    count = len(start)
    order = np.argsort(earlier, kind="stable")
    later = later[order]
    first = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(earlier, minlength=count), out=first[1:])
    waits = np.bincount(later, minlength=count)
    done = start.astype(np.int64).copy()
    ready = np.flatnonzero(waits == 0)
    handled = 0
    while len(ready):
        handled += len(ready)
        done[ready] += after[ready]
        counts = first[ready + 1] - first[ready]
        ends = np.cumsum(counts)
        edges = np.arange(ends[-1]) + np.repeat(first[ready] - (ends - counts), counts)
        targets = later[edges]
        np.maximum.at(done, targets, np.repeat(done[ready], counts))
        np.subtract.at(waits, targets, 1)
        ready = np.unique(targets[waits[targets] == 0])
    if handled != count:
        raise ValueError(f"{count - handled} of {count} messages wait for each other in a circle")
    return done
