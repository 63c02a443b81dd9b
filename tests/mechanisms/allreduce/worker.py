"""The worker's part of the protocol (docs/allreduce.md), as a model for tests of the switches.

The product's worker is C. This one has no clock: the test says when a time-out comes.
"""

from __future__ import annotations

from collections.abc import Sequence

from protocols.allreduce import AllReduceKind
from tests.mechanisms.allreduce.wire import FROM_ROOT, OVERFLOW, Message

EPOCHS = 1 << 16
CHUNKS = 1 << 32


def newer(one: int, other: int) -> bool:
    """Say whether epoch `one` is newer, by serial arithmetic."""
    return 0 < (one - other) % EPOCHS < EPOCHS // 2


class Worker:
    """Sends `chunks` (lanes each), numbered from `first`, and collects their sums in `results`.

    Here numbers do not wrap; on the wire they are modulo 2^32.

    `exponents`: what it needs for each chunk; a contribution says that of the chunk `slots` later.
    """

    def __init__(
        self,
        job: int,
        slots: int,
        chunks: Sequence[tuple[int, ...]],
        *,
        first: int = 0,
        epoch: int = 0,
        exponents: Sequence[int] = (),
    ) -> None:
        self.job, self.slots, self.epoch = job, slots, epoch
        self.first = first
        self.chunks = list(chunks)
        self.exponents = list(exponents) or [0] * len(chunks)
        self.results: dict[int, Message] = {}
        self.in_flight: dict[int, int] = {}  # slot -> chunk
        self.moving: Message | None = None  # what it began, until all is there
        self.moved: set[int] = set()  # slots of which both chunks are repeated

    @property
    def finished(self) -> bool:
        return len(self.results) == len(self.chunks)

    def start(self) -> list[Message]:
        """Return the first packets: of as many chunks as there are slots."""
        mine = range(self.first, self.first + min(self.slots, len(self.chunks)))
        return [self._launch(chunk) for chunk in mine]

    def _launch(self, chunk: int) -> Message:
        self.in_flight[chunk % self.slots] = chunk
        return self._contribution(chunk)

    def _contribution(self, chunk: int) -> Message:
        index = chunk - self.first
        later = index + self.slots
        exponent = self.exponents[later] if later < len(self.exponents) else 0
        sent = Message(
            AllReduceKind.CONTRIBUTION,
            self.job,
            self.epoch,
            lanes=self.chunks[index],
            exponent=exponent,
        )
        return sent.of_chunk(chunk % CHUNKS, self.slots)

    def receive(self, message: Message) -> list[Message]:
        """Return what a packet makes the worker send."""
        if message.kind == AllReduceKind.RESULT:
            return self._result(message)
        assert message.kind == AllReduceKind.MOVE
        if newer(message.epoch, self.epoch):
            self.epoch = message.epoch
            self.moving = None
            return self._again_after_move()
        if message.epoch == self.epoch:
            if message.flags & FROM_ROOT:
                self.moving = None
            return [] if self.in_flight else self._again_after_move()
        return []

    def _result(self, message: Message) -> list[Message]:
        slot = message.slot
        chunk = self.in_flight.get(slot)
        if chunk is None or chunk % CHUNKS != message.chunk:
            return []
        self.results[chunk] = message
        del self.in_flight[slot]
        self.moved.discard(slot)
        after = chunk + self.slots
        if after < self.first + len(self.chunks):
            return [self._launch(after)]
        if not self.in_flight:
            self.moving = None
        return []

    def _again_after_move(self) -> list[Message]:
        self.moved = set(self.in_flight)
        if not self.in_flight:
            end = self.first + len(self.chunks)
            return [self._contribution(c) for c in range(max(self.first, end - self.slots), end)]
        return [each for slot in self.in_flight for each in self._both(slot)] + self._last_of_idle()

    def _both(self, slot: int) -> list[Message]:
        """Return the chunk in flight, and the one before it that others may still wait for."""
        chunk = self.in_flight[slot]
        before = [chunk - self.slots] if chunk - self.slots >= self.first else []
        return [self._contribution(each) for each in (*before, chunk)]

    def _last_of_idle(self) -> list[Message]:
        """Return the last chunks of slots in which nothing is in flight any more."""
        end = self.first + len(self.chunks)
        last = range(max(self.first, end - self.slots), end)
        return [self._contribution(c) for c in last if c % self.slots not in self.in_flight]

    def time_out(self) -> list[Message]:
        """Return what is sent again."""
        sent = [] if self.moving is None else [self.moving]
        for slot, chunk in self.in_flight.items():
            sent += self._both(slot) if slot in self.moved else [self._contribution(chunk)]
        return sent

    def move(self) -> list[Message]:
        """Go on with the next tree: raise the epoch, say so, and send again what is in flight."""
        self.epoch = (self.epoch + 1) % EPOCHS
        self.moving = Message(AllReduceKind.MOVE, self.job, self.epoch)
        return [self.moving, *self._again_after_move()]

    @property
    def overflowed(self) -> set[int]:
        """The chunks whose result says that an addition left int32."""
        return {chunk for chunk, each in self.results.items() if each.flags & OVERFLOW}
