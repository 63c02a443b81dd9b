"""Models of a best-effort job's workers and its server, for tests of the switches.

    network = pooled(pool, shape, jobs, data, seed=1)      Pool of cells, and a server a job

The products of both are C. These have no clock: the test says when a time-out comes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from protocols.allreduce import AllReduceKind
from tests.mechanisms.allreduce.wire import AGAIN, CONGESTION, OVERFLOW, Message, wrapped
from tests.mechanisms.allreduce.worker import CHUNKS, Worker


class PartialWorker(Worker):
    """A worker whose contributions say whose they are; it never moves."""

    def __init__(
        self,
        rank: int,
        job: int,
        slots: int,
        chunks: Sequence[tuple[int, ...]],
        *,
        first: int = 0,
        epoch: int = 0,
        exponents: Sequence[int] = (),
    ) -> None:
        super().__init__(job, slots, chunks, first=first, epoch=epoch, exponents=exponents)
        self.rank = rank

    def _contribution(self, chunk: int) -> Message:
        sent = super()._contribution(chunk)
        return replace(sent, kind=AllReduceKind.PARTIAL, workers=1 << self.rank)

    def time_out(self) -> list[Message]:
        """Return what is sent again, and says so."""
        return [replace(each, flags=each.flags | AGAIN) for each in super().time_out()]


@dataclass
class Round:
    """What a server has of a chunk. `sums`: exact, so that what leaves int32 can be told."""

    message: Message
    workers: int
    done: bool = False


class Server:
    """Adds up what switches did not, for one job, and sends results to all workers."""

    def __init__(self, job: int, ranks: int) -> None:
        self.job, self.everyone = job, (1 << ranks) - 1
        self.rounds: dict[tuple[int, int], Round] = {}  # slot, version
        self.overlapping = 0
        self.taken = 0

    finished = True
    in_flight: dict[int, int] = {}  # noqa: RUF012

    def start(self) -> list[Message]:
        """Send nothing unasked."""
        return []

    def receive(self, message: Message) -> list[Message]:
        """Return a result, where this partial completes it or asks for it again."""
        assert message.kind == AllReduceKind.PARTIAL
        assert message.workers & ~self.everyone == 0
        self.taken += 1
        key = (message.slot, message.version)
        known = self.rounds.get(key)
        if known is None or 0 < (message.chunk - known.message.chunk) % CHUNKS < CHUNKS // 2:
            known = self.rounds[key] = Round(message, message.workers)
        elif known.message.chunk != message.chunk:
            return []
        elif known.done:
            return [known.message]
        elif known.workers & message.workers:
            self.overlapping += known.workers & message.workers != message.workers
            return []
        else:
            self._add(known, message)
        if known.workers != self.everyone:
            return []
        known.done = True
        flags = known.message.flags & ~AGAIN
        known.message = replace(known.message, kind=AllReduceKind.RESULT, flags=flags, workers=0)
        return [known.message]

    def _add(self, known: Round, message: Message) -> None:
        assert len(message.lanes) == len(known.message.lanes)
        exact = tuple(a + b for a, b in zip(known.message.lanes, message.lanes, strict=True))
        lanes = wrapped(exact)
        flags = (known.message.flags | message.flags) & (OVERFLOW | CONGESTION)
        known.message = replace(
            known.message,
            lanes=lanes,
            exponent=max(known.message.exponent, message.exponent),
            flags=flags | (OVERFLOW if exact != lanes else 0),
        )
        known.workers |= message.workers
