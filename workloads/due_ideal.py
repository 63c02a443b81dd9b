"""Ideal times of collectives that are made as they are due: `ideal` without their messages."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from workloads.dag import Numbers
from workloads.due import Pattern, PatternKind, PlacedPattern
from workloads.message_costs import MessageCosts


@dataclass(frozen=True)
class PatternBound:
    """What bounds a pattern's messages; costs have the shape of `Pattern.sizes`."""

    pattern: Pattern
    alone_ps: Numbers
    tx_ps: Numbers
    rx_ps: Numbers
    sender: Numbers  # by flow: number of the interface
    receiver: Numbers
    _known: dict[bytes, Numbers] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, placed: PlacedPattern, costs: MessageCosts) -> PatternBound:
        """Return the bounds of a pattern on its flows."""
        sizes = placed.pattern.sizes()
        flows = np.broadcast_to(placed.flows, sizes.shape)
        of = costs.of(flows.ravel(), sizes.ravel())
        rows = (of.alone_ps, of.tx_ps, of.rx_ps)
        alone, tx, rx = (row.reshape(sizes.shape) for row in rows)
        each = sizes.shape[1]
        return cls(placed.pattern, alone, tx, rx, of.sender[:each], of.receiver[:each])

    def through_ps(self, begun: Numbers) -> Numbers:
        """Return when each rank has sent and received all, where it begins at `begun`, at best."""
        # Later by so much everywhere is later by so much at the end; rounds are often alike.
        first = begun.min()
        key = (begun - first).tobytes()
        if key not in self._known:
            ring = self.pattern.kind is PatternKind.RING
            through = self._through_ring if ring else self._through_direct
            self._known.clear()
            self._known[key] = through(begun - first)
        found: Numbers = first + self._known[key]
        return found

    def _through_ring(self, begun: Numbers) -> Numbers:
        n, steps = self.pattern.ranks, self.pattern.steps
        after = np.zeros(n, dtype=np.int64)
        floor = np.tile(begun, 2)
        for channel, large in enumerate(self.pattern.larger().tolist()):
            small_ps, large_ps = (
                np.tile(row.reshape(self.pattern.shape)[channel], 2) for row in self.alone_ps
            )
            # By piece: in step s piece i is sent by rank i + s.
            done = np.zeros(n, dtype=np.int64)
            for step in range(steps):
                at = step % n
                np.maximum(done, floor[at : at + n], out=done)
                done[:large] += large_ps[at : at + large]
                done[large:] += small_ps[at + large : at + n]
            sent = np.roll(done, (steps - 1) % n)
            after = np.maximum(after, np.maximum(sent, np.roll(sent, 1)))
        return after

    def _through_direct(self, begun: Numbers) -> Numbers:
        pattern = self.pattern
        alone = self.alone_ps.reshape(pattern.shape)
        done = np.empty((pattern.at_once, *pattern.shape[1:]), dtype=np.int64)
        done[:] = begun
        after = np.zeros(pattern.ranks, dtype=np.int64)
        for step in range(pattern.steps):
            here = done[step % pattern.at_once]
            here += alone[step]
            sent = here.max(axis=0)
            received = np.roll(sent, 1 + step * pattern.stride)
            after = np.maximum(after, np.maximum(sent, received))
        return after

    def loads_ps(self, interfaces: int) -> tuple[Numbers, Numbers]:
        """Return how long each interface is busy, and the shortest latency of what it carries.

        Rows for sending and for receiving; of an interface that carries nothing the latency is the
        largest number.
        """
        loads = np.zeros((2, interfaces), dtype=np.int64)
        latencies = np.full((2, interfaces), np.iinfo(np.int64).max)
        counts = self.pattern.counts()
        ends = ((self.sender, self.tx_ps), (self.receiver, self.rx_ps))
        for load, latency, (end, busy) in zip(loads, latencies, ends, strict=True):
            for count, busy_ps, alone_ps in zip(counts, busy, self.alone_ps, strict=True):
                there = count > 0
                np.add.at(load, end[there], (count * busy_ps)[there])
                np.minimum.at(latency, end[there], (alone_ps - busy_ps)[there])
        return loads, latencies

    def ideal_ps(self, interfaces: int) -> int:
        """Return the ideal time of the whole collective."""
        chain_ps = int(self.through_ps(np.zeros(self.pattern.ranks, dtype=np.int64)).max())
        loads, latencies = self.loads_ps(interfaces)
        return max(chain_ps, int((loads + np.where(loads > 0, latencies, 0)).max()))
