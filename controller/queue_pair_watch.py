"""Keeps the table of stock NICs' queue pairs of running switches: digests in, writes out.

    sessions --digests--> StockQueuePairs --> fabric's logic --> sessions' writes

It runs beside the controller's other work in the same event loop, and only where there are stock
NICs. A switch that can't be written to now gets what it lacks when it is restored.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace

from controller.digests import DigestMessage
from controller.queue_pairs import Answer, QueuePairCounts, Target
from controller.session import SwitchSession
from controller.stock_queue_pairs import Learned, StockQueuePairs

_NS_PER_S = 1_000_000_000
_LONGEST_SLEEP_S = 1.0
_MOST_HEARD = 65_536
"""Digests that may wait; more than can be worked off in time are worth nothing."""


@dataclass(frozen=True)
class KnownQueuePairs:
    """What a controller knows: answers by target, and how it came to them.

    `dropped`: digests that came faster than they could be worked off.
    """

    answers: Mapping[Target, Answer]
    counts: QueuePairCounts
    dropped: int


Learn = Callable[[Learned], Awaitable[None]]


class QueuePairWatch:
    """Hears the digests of all sessions. `start` it in an event loop, `stop` it in the end."""

    def __init__(
        self,
        queue_pairs: StockQueuePairs,
        sessions: list[SwitchSession],
        learn: Learn,
        clock: Callable[[], int],
    ) -> None:
        """`learn` writes what follows; it must not raise. `clock` tells nanoseconds."""
        self.dropped = 0
        self._queue_pairs = queue_pairs
        self._learn = learn
        self._clock = clock
        self._heard: list[DigestMessage] = []
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._undo = [session.on_digest(self._hear) for session in sessions]

    @property
    def counts(self) -> QueuePairCounts:
        """What became of the samples."""
        return self._queue_pairs.counts

    def known(self) -> KnownQueuePairs:
        """Return what is known now. To be called in the event loop."""
        answers = dict(self._queue_pairs.logic.answers())
        return KnownQueuePairs(answers, replace(self.counts), self.dropped)

    def start(self) -> None:
        """Begin to work; once is enough."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="queue pairs")

    async def stop(self) -> None:
        """Hear nothing any more."""
        for undo in self._undo:
            undo()
        self._undo = []
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    def _hear(self, messages: list[DigestMessage]) -> None:
        room = max(_MOST_HEARD - len(self._heard), 0)
        self.dropped += len(messages[room:])
        self._heard += messages[:room]
        self._news.set()

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), self._sleep_s())
            self._news.clear()
            heard, self._heard = self._heard, []
            learned = self._queue_pairs.heard(heard, self._clock())
            if learned is not None:
                await self._learn(learned)

    def _sleep_s(self) -> float:
        due = self._queue_pairs.due()
        if due is None:
            return _LONGEST_SLEEP_S
        return min(max(due - self._clock(), 0) / _NS_PER_S, _LONGEST_SLEEP_S)
