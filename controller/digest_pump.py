"""Drives a control loop in real time: sessions' digests in, work out.

    sessions --digests--> ControlLoop --work--> sessions' writes

It runs beside the controller's other work in the same event loop, and only where a mechanism
learns something.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from controller.digests import DigestMessage
from controller.loop import ControlLoop, Work
from controller.session import SwitchSession

_NS_PER_S = 1_000_000_000
_LONGEST_SLEEP_S = 1.0
_MOST_HEARD = 65_536
"""Digests that may wait; more than can be worked off in time are worth nothing."""

Do = Callable[[Work], Awaitable[None]]


class DigestPump:
    """Hears the digests of all sessions. `start` it in an event loop, `stop` it in the end.

    `dropped`: digests that came faster than they could be worked off.
    """

    def __init__(
        self,
        loop: ControlLoop,
        sessions: list[SwitchSession],
        do: Do,
        clock: Callable[[], int],
    ) -> None:
        """`do` writes what follows; it must not raise. `clock` gives nanoseconds."""
        self.dropped = 0
        self._loop = loop
        self._do = do
        self._clock = clock
        self._heard: list[DigestMessage] = []
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._undo = [session.on_digest(self._hear) for session in sessions]

    def start(self) -> None:
        """Begin to work; once is enough."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="control loop")

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
            work = self._loop.heard(heard, self._clock())
            if work.learned or work.then:
                await self._do(work)

    def _sleep_s(self) -> float:
        due = self._loop.due()
        if due is None:
            return _LONGEST_SLEEP_S
        return min(max(due - self._clock(), 0) / _NS_PER_S, _LONGEST_SLEEP_S)
