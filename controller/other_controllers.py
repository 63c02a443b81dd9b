"""What a fabric's controller does when others come and go, as the primaries of its switches."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine
from dataclasses import dataclass
from typing import Any

from controller.errors import ControllerError, NotPrimary, SwitchUnreachable
from controller.primacy import Standing
from controller.session import SwitchSession

_WATCH_S = 0.5  # how often another controller's switch is asked which program it has


@dataclass(frozen=True)
class Restored:
    """What restoring one switch did: whether it got the program, and updates written to it.

    `followed`: nothing of that, as another client had given it a program, which it keeps;
    `held_by`: nothing of that yet, as another controller is primary, with this election id.
    """

    loaded: bool
    written: int
    followed: bool = False
    held_by: int | None = None


class OtherControllers:
    """Handles every change of a session's standing.

    `steps` is held while something is done to a switch. `follow` leaves those switches alone, of
    some names, that were given another program, and returns them; `bring` brings a switch to what
    it should hold; `tell` takes a line for the user.
    """

    def __init__(
        self,
        steps: asyncio.Lock,
        follow: Callable[[Collection[str]], Awaitable[tuple[str, ...]]],
        bring: Callable[[SwitchSession], Awaitable[Restored]],
        tell: Callable[[str], None],
    ) -> None:
        self.retired = False
        self._steps, self._follow, self._bring, self._tell = steps, follow, bring, tell
        self._watched: set[str] = set()
        self._taken_back: set[str] = set()  # switches whose last other primary was asked for here
        self._tasks: set[asyncio.Task[Any]] = set()

    async def close(self) -> None:
        """End all that waits for them."""
        self.retired = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def taken_back(self, switch: str) -> None:
        """Take notice that a switch was taken from another one here: what that wrote stays."""
        self._taken_back.add(switch)

    def watch(self, session: SwitchSession) -> None:
        """Watch a switch whose primary is another one."""
        self._spawn(self._watch(session))

    def standing_changed(self, session: SwitchSession) -> None:
        """Do what follows from a session's standing: another one came, or left."""
        if self.retired:
            return
        if session.standing is Standing.BACKUP:
            self._taken_back.discard(session.name)
            other = session.highest_election_id
            meanwhile = (
                "this prompt only reads until it leaves"
                if session.yields
                else "what is to be written waits until it leaves"
            )
            self._tell(
                f"{session.name}: another controller is primary now, with election id {other}; "
                f"{meanwhile}"
            )
            self.watch(session)
        elif session.yields:
            self._spawn(self._left(session))
        else:
            self._spawn(self._regain(session))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _watch(self, session: SwitchSession) -> None:
        """Notice what program another primary loads, also if the switch dies before it leaves."""
        if session.name in self._watched:
            return
        self._watched.add(session.name)
        try:
            while session.standing is Standing.BACKUP:
                async with self._steps:
                    if await self._follow([session.name]):
                        what = "the other controller has loaded another program"
                        self._tell(f"{session.name}: {what}")
                await asyncio.sleep(_WATCH_S)
        finally:
            self._watched.discard(session.name)

    async def _left(self, session: SwitchSession) -> None:
        """Take notice that another controller has left a switch that nothing is planned for."""
        name = session.name
        what = "what it wrote stays"
        try:
            async with self._steps:
                if await self._follow([name]):
                    what = "its program stays, and the switch is left alone with it"
                elif not await session.has_program():  # it died, and the other one was faster
                    done = await self._bring(session)
                    what = f"{session.program.name} loaded, {done.written} updates written"
        except (NotPrimary, SwitchUnreachable):
            return  # as for `_regain`
        except ControllerError as error:
            what = f"and the switch has no program: {error}"
        self._tell(f"{name}: the other controller has left: {what}")

    async def _regain(self, session: SwitchSession) -> None:
        """Take a switch back that another controller has left, and bring it to the plan.

        A program that the other one has loaded stays, and with it what it wrote.
        """
        name = session.name
        try:
            async with self._steps:
                if name in self._taken_back:
                    return  # what the other one wrote stays
                await session.claim()
                if await self._follow([name]):
                    done = Restored(False, 0, followed=True)
                else:
                    done = await self._bring(session)
        except NotPrimary:
            return  # the next one is there, and its leaving will be reported too
        except SwitchUnreachable:
            return  # it gets what differs when it is restored
        except ControllerError as error:
            self._tell(f"{name}: the other controller has left, and what differs stays: {error}")
            return
        if done.followed:
            what = "its program stays, and the switch is left alone with it"
        elif done.loaded:
            what = f"{session.program.name} loaded, {done.written} updates written"
        else:
            what = f"primary again, {done.written} updates written"
        self._tell(f"{name}: the other controller has left: {what}")
