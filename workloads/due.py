"""Collectives whose messages the engine makes as they are due: patterns in the place of templates.

A ring over 8192 ranks is 134 million messages, of which 8192 are on the way at any time. Where a
run has more messages than are kept (`limits.MAX_MESSAGES`), rings and all-to-alls are handed over
as `Pattern`s, and only barriers and everything else as messages. A pattern's messages, what they
wait for and when they come are those of the template in `collectives` with the same arguments.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from workloads.collectives import pieces
from workloads.dag import Numbers
from workloads.job_schema import AllReduceEntry, AllToAllEntry, CollectiveEntry, PipelineEntry
from workloads.limits import is_regular


class PatternKind(enum.IntEnum):
    """What a collective's messages are like: enum sim_pattern_kind."""

    RING = 0
    DIRECT = 1


@dataclass(frozen=True)
class Pattern:
    """A collective over ranks 0 .. n-1 of a group, as sim_pattern has it.

    RING: `steps` steps, each from every rank to the next. DIRECT: in step p to the rank
    1 + p * `stride` behind, `at_once` steps at a time. `size`: bytes of a rank. Arrays by flow have
    the shape (channel, rank) in a ring and (step, channel, rank) else.
    """

    kind: PatternKind
    ranks: int
    channels: int
    steps: int
    size: int
    stride: int = 1
    at_once: int = 1

    def __len__(self) -> int:
        return self.ranks * self.channels * self.steps

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of arrays by flow."""
        each = (self.channels, self.ranks)
        return each if self.kind is PatternKind.RING else (self.steps, *each)

    def ends(self) -> tuple[Numbers, Numbers, Numbers]:
        """Return the source rank, target rank and channel of each flow; flat."""
        rank = np.broadcast_to(np.arange(self.ranks), self.shape)
        channel = np.broadcast_to(np.arange(self.channels)[:, None], self.shape)
        ahead = np.ones(self.shape, dtype=np.int64)
        if self.kind is PatternKind.DIRECT:
            ahead += (np.arange(self.steps) * self.stride)[:, None, None]
        return rank.ravel(), ((rank + ahead) % self.ranks).ravel(), channel.ravel()

    def sizes(self) -> Numbers:
        """Return the sizes of messages by flow, flat: rows of the smaller and of the larger ones.

        A direct pattern has one row: each flow has one message.
        """
        if self.kind is PatternKind.DIRECT:
            shares = [pieces(int(share), self.channels) for share in pieces(self.size, self.steps)]
            found = np.broadcast_to(np.array(shares)[:, :, None], self.shape)
            return found.reshape(1, -1)
        small = np.repeat(pieces(self.size, self.channels) // self.ranks, self.ranks)
        return np.stack([small, small + 1])

    def counts(self) -> Numbers:
        """Return how many messages of each of `sizes` there are."""
        if self.kind is PatternKind.DIRECT:
            return np.ones((1, len(self)), dtype=np.int64)
        rounds, rest = divmod(self.steps, self.ranks)
        larger = self.larger()
        ahead = np.zeros(2 * self.ranks + 1, dtype=np.int64)
        many = np.empty(self.shape, dtype=np.int64)
        for channel, count in enumerate(larger.tolist()):
            large = np.arange(self.ranks) < count
            np.cumsum(np.tile(large, 2), out=ahead[1:])
            # Rank r sends pieces r, r - 1, ...: in the last, unfinished round the first `rest`.
            last = np.arange(self.ranks) + self.ranks + 1
            many[channel] = rounds * count + ahead[last] - ahead[last - rest]
        return np.stack([self.steps - many.ravel(), many.ravel()])

    @property
    def all_bytes(self) -> int:
        """What all messages carry together."""
        if self.kind is PatternKind.DIRECT:
            return self.size * self.ranks
        return self.size * self.steps  # in each step every piece goes once

    def larger(self) -> Numbers:
        """Return how many of a ring's pieces have one byte more, by channel."""
        found: Numbers = pieces(self.size, self.channels) % self.ranks
        return found


@dataclass(frozen=True, eq=False)
class PlacedPattern:
    """A pattern on the flows of one group of a job; the same in each of its rounds."""

    pattern: Pattern
    flows: Numbers  # flat


@dataclass(frozen=True, eq=False)
class DueCollective:
    """A collective that is made of messages as they are due.

    `heads`: by rank, the message with which the rank begins; `after`: by rank, messages that wait
    for all the rank sends and receives. `span`: its number.
    """

    placed: PlacedPattern
    heads: Numbers
    span: int
    after: list[Numbers] = field(default_factory=list)


@dataclass(frozen=True)
class DueTraffic:
    """The collectives of a run that are made as they are due.

    `ideal_ps[i]`: of pattern i, the ideal times of messages of the sizes of `Pattern.sizes`.
    """

    patterns: tuple[PlacedPattern, ...]
    ideal_ps: tuple[Numbers, ...]
    collectives: tuple[DueCollective, ...]

    def messages(self, flows: int) -> Numbers:
        """Return how many messages each of so many flows has in all collectives."""
        return self._by_flow(flows, lambda pattern: pattern.counts().sum(axis=0))

    def bytes(self, flows: int) -> Numbers:
        """Return how many bytes each of so many flows carries in all collectives."""
        return self._by_flow(flows, lambda p: (p.counts() * p.sizes()).sum(axis=0))

    def _by_flow(self, flows: int, of: Callable[[Pattern], Numbers]) -> Numbers:
        found = np.zeros(flows, dtype=np.int64)
        times = {id(placed): 0 for placed in self.patterns}
        for each in self.collectives:
            times[id(each.placed)] += 1
        for placed in self.patterns:
            np.add.at(found, placed.flows, of(placed.pattern) * times[id(placed)])
        return found


def due_traffic(
    collectives: Sequence[DueCollective], ideal_ps: Callable[[PlacedPattern], Numbers]
) -> DueTraffic | None:
    """Return all of it, None where there is none. `ideal_ps`: of a pattern's messages."""
    if not collectives:
        return None
    patterns = tuple({id(each.placed): each.placed for each in collectives}.values())
    return DueTraffic(patterns, tuple(map(ideal_ps, patterns)), tuple(collectives))


def pattern(value: CollectiveEntry | PipelineEntry, size: int) -> Pattern | None:
    """Return the pattern of a step over a group of `size` ranks; None where it has none."""
    if not is_regular(value):
        return None
    match value:
        case AllToAllEntry():
            steps = -(-(size - 1) // value.fraction)
            at_once = steps if value.window is None else min(value.window, steps)
            return Pattern(
                PatternKind.DIRECT,
                size,
                value.channels,
                steps,
                value.bytes,
                value.fraction,
                at_once,
            )
        case _:
            steps = (2 if isinstance(value, AllReduceEntry) else 1) * (size - 1)
            return Pattern(PatternKind.RING, size, value.channels, steps, value.bytes)
