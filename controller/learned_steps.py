"""Writes what was learned, step by step: each when the one before it is with the switches.

Work --write--> switches        those that fail are asked what they have
  ^               |
  +--- `then` <---+             `ControlLoop.written`: what follows from that
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from controller.diff import Change, changes
from controller.entries import DefaultEntry, Entry, TableEntry
from controller.errors import ControllerError, WriteFailed
from controller.loop import ControlLoop, Work
from controller.session import SwitchSession


class LearnedSteps:
    """Writes over sessions what one control loop learned.

    `steps`: held by the caller that changes the loop's model and writes the difference.
    """

    def __init__(
        self,
        loop: ControlLoop,
        sessions: Mapping[str, SwitchSession],
        steps: asyncio.Lock,
        clock: Callable[[], int],
    ) -> None:
        """`clock` gives nanoseconds."""
        self._loop = loop
        self._sessions = sessions
        self._steps = steps
        self._clock = clock

    async def write(self, work: Work) -> None:
        """Write what was learned, and step by step what follows from it.

        The caller holds `_steps`; between two steps whatever waits for that goes first.
        """
        failed = await self._step(work)
        while work.then:
            self._steps.release()
            try:
                await asyncio.sleep(0)
            finally:
                await self._steps.acquire()
            work = self._loop.written(work, failed, self._clock())
            failed = await self._step(work)

    async def _step(self, work: Work) -> frozenset[str]:
        """Return the switches that do not hold what they were to hold."""
        failed: set[str] = set()
        for writes in work.learned:
            held = await asyncio.gather(
                *(self._give(name, updates) for name, updates in writes.items())
            )
            failed |= {name for name, good in zip(writes, held, strict=True) if not good}
        return frozenset(failed)

    async def _give(self, switch: str, updates: Sequence[Change]) -> bool:
        """Write to one switch. One that can't be reached gets what it lacks when it is restored.

        Return whether it holds what it was to hold.
        """
        if not updates:
            return True
        session = self._sessions[switch]
        with contextlib.suppress(ControllerError):
            try:
                await session.write(updates)
                return True
            except WriteFailed:  # it holds something else than it was taken to hold
                wanted = self._loop.model.learned[switch]
                there = await self._hold(session, wanted)
                with contextlib.suppress(WriteFailed):
                    await session.write(changes(wanted.values(), there, session.p4info))
                await self._hold(session, wanted)
                return self._loop.model.learned[switch] == wanted
        return False

    async def _hold(self, session: SwitchSession, wanted: Collection[object]) -> tuple[Entry, ...]:
        """Take what a switch has of tables that are learned for what it was given.

        `wanted`: keys of what it was to hold: default actions are never gone, so others are not.
        """
        tables = sorted(
            table
            for part in self._loop.model.parts
            for table in part.learned_tables
            if table in session.p4info.tables
        )
        there = [each for table in tables for each in await session.read_entries(table)]
        entries = {
            each.key: each
            for each in there
            if isinstance(each, TableEntry)
            or (isinstance(each, DefaultEntry) and each.key in wanted)
        }
        model = self._loop.model
        self._loop.model = replace(model, learned={**model.learned, session.name: entries})
        return tuple(entries.values())
