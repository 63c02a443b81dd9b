"""Four workers with windows and timers around the switch, in virtual time, with faults.

A worker has one chunk in flight for each slot. It sends chunk c + 8 once it has the result of c,
and repeats c after a time-out. Packets may be lost, come twice, and overtake each other; the second
copy may come long after the first.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import numpy as np
from numpy.typing import NDArray

from protocols.allreduce import AllReduceKind

from .star import (
    CHUNKS,
    FRAME_BYTES,
    LANES,
    ON_THE_WIRE,
    SLOTS,
    WORKERS,
    Came,
    Flood,
    Star,
    contribution,
)

LARGEST = (1 << 31) // WORKERS
"""Four numbers below it in magnitude have a sum that is an int32."""


@dataclass(frozen=True)
class Faults:
    """Shares of packets that are lost and that come twice, each way; times in ns.

    `jitter_ns`: a packet takes up to so much longer. `late_ns`: so the second copy of one.
    """

    loss: float = 0.0
    twice: float = 0.0
    jitter_ns: int = 0
    late_ns: int = 0


@dataclass(frozen=True)
class Plan:
    """What is summed, from which chunk number on, and over which links.

    A run ends at `until_ns` at the latest.
    """

    chunks: int
    first: int = 0
    faults: Faults = field(default_factory=Faults)
    gbps: float = 10
    delay_ns: int = 1000
    time_out_ns: int = 50_000
    until_ns: int = 5_000_000


@dataclass
class Outcome:
    """What came of it, of all workers together."""

    sent: int = 0
    repeated: int = 0
    results: int = 0
    """that a worker waited for"""
    wrong: list[str] = field(default_factory=list)
    """one line for each of these with other sums than numpy's, or with the overflow flag"""
    unreadable: list[str] = field(default_factory=list)
    """what is wrong with each packet that no worker can use"""
    ended_ns: int | None = None
    """when the last worker had its last result; None: never"""
    flood: str = ""


def drawn(random: Random, chunks: int) -> NDArray[np.int32]:
    """Draw what the workers contribute: by worker, chunk and lane."""
    values = np.random.default_rng(random.randrange(1 << 32))
    size = (WORKERS, chunks, LANES)
    return values.integers(-LARGEST + 1, LARGEST, size, dtype=np.int32)


class Network:
    """The workers, the links and the switch under one clock."""

    def __init__(self, star: Star, plan: Plan, random: Random) -> None:
        """Join them; `random` draws values and faults."""
        self.star, self.plan, self.random = star, plan, random
        self.values = drawn(random, plan.chunks)
        self.sums = self.values.sum(axis=0, dtype=np.int64)
        self.outcome = Outcome()
        self._now = 0
        self._in_flight: list[dict[int, int]] = [{} for _ in range(WORKERS)]  # slot -> chunk
        self._left = [plan.chunks] * WORKERS
        self._line_free = [0] * WORKERS
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0
        self._packet_ns = round(8 * (FRAME_BYTES + ON_THE_WIRE) / plan.gbps)

    def run(self) -> Outcome:
        """Run until all workers have all results, or the time is over."""
        for worker in range(WORKERS):
            for chunk in range(min(SLOTS, self.plan.chunks)):
                self._launch(worker, chunk)
        try:
            while self._events and any(self._left) and self._now <= self.plan.until_ns:
                self._now, _, event = heapq.heappop(self._events)
                event()
        except Flood as error:
            self.outcome.flood = str(error)
        if not any(self._left):
            self.outcome.ended_ns = self._now
        return self.outcome

    def waiting(self) -> str:
        """Name the first worker that waits for a result, and for which chunk; "" if none does."""
        for worker, chunks in enumerate(self._in_flight):
            if chunks:
                return (
                    f"worker {worker} has no result of chunk {self._number(min(chunks.values()))}"
                )
        return ""

    def _number(self, chunk: int) -> int:
        """Return a chunk's number on the wire."""
        return (self.plan.first + chunk) % CHUNKS

    def _at(self, at_ns: int, event: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._events, (at_ns, self._order, event))

    def _launch(self, worker: int, chunk: int) -> None:
        self._in_flight[worker][self._number(chunk) % SLOTS] = chunk
        self._send(worker, chunk)

    def _send(self, worker: int, chunk: int) -> None:
        self.outcome.sent += 1
        starts = max(self._now, self._line_free[worker])
        self._line_free[worker] = starts + self._packet_ns
        values = [int(value) for value in self.values[worker, chunk]]
        message = contribution(self.star.job, self._number(chunk), values)
        arrive = lambda: self._switch(worker, self.star.send(worker, message))  # noqa: E731
        self._carry(self._line_free[worker], arrive)
        spread = self.random.randrange(self.plan.time_out_ns // 4)
        self._at(self._now + self.plan.time_out_ns + spread, lambda: self._time_out(worker, chunk))

    def _carry(self, leaves_ns: int, arrive: Callable[[], None]) -> None:
        """Let a packet cross a link: no, one or two times."""
        faults = self.plan.faults
        if self.random.random() < faults.loss:
            return
        at_ns = leaves_ns + self.plan.delay_ns + self.random.randint(0, faults.jitter_ns)
        self._at(at_ns, arrive)
        if self.random.random() < faults.twice:
            self._at(at_ns + self.random.randint(0, faults.late_ns), arrive)

    def _switch(self, worker: int, came: list[Came]) -> None:
        for each in came:
            if each.worker is None or each.message is None:
                self.outcome.unreadable.append(each.wrong)
            else:
                self._deliver(each)

    def _deliver(self, came: Came) -> None:
        self._carry(self._now + self._packet_ns, lambda: self._receive(came))

    def _receive(self, came: Came) -> None:
        worker, message = came.worker, came.message
        assert worker is not None and message is not None
        if message.kind != AllReduceKind.RESULT or message.job != self.star.job:
            self.outcome.unreadable.append("not a result of the job")
            return
        chunk = self._in_flight[worker].get(message.slot)
        if chunk is None or self._number(chunk) != message.chunk:
            return  # a result that came twice
        self._check(worker, chunk, came)
        del self._in_flight[worker][message.slot]
        self._left[worker] -= 1
        if chunk + SLOTS < self.plan.chunks:
            self._launch(worker, chunk + SLOTS)

    def _check(self, worker: int, chunk: int, came: Came) -> None:
        assert came.message is not None
        self.outcome.results += 1
        right = tuple(int(each) for each in self.sums[chunk])
        lanes = came.message.lanes
        if lanes != right or came.message.overflow:
            lane = next((n for n in range(LANES) if lanes[n] != right[n]), None)
            seen = "the overflow flag" if lane is None else f"{lanes[lane]} in lane {lane}"
            should = "none" if lane is None else str(right[lane])
            line = f"chunk {self._number(chunk)} at worker {worker}: {seen} instead of {should}"
            self.outcome.wrong.append(line)

    def _time_out(self, worker: int, chunk: int) -> None:
        if self._in_flight[worker].get(self._number(chunk) % SLOTS) == chunk:
            self.outcome.repeated += 1
            self._send(worker, chunk)
