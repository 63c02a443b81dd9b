"""A controller of a whole fabric: what brings its switches to what they should hold."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from controller.digest_pump import DigestPump
from controller.entries import Entry, to_bytes
from controller.entry_files import NO_ENTRIES, OwnEntries
from controller.errors import ControllerError, NotPrimary
from controller.fabric_sessions import FabricSessions
from controller.fabric_state import (
    Event,
    FabricModel,
    LinkChanged,
    MechanismSwitched,
    SwitchReady,
    Writes,
)
from controller.jobs import (
    DeclaredJob,
    JobLearner,
    JobPlanner,
    JobsEnded,
    JobsSubmitted,
    PlannedJob,
    Scheduled,
)
from controller.learned_steps import LearnedSteps
from controller.loop import ControlLoop, Work
from controller.other_controllers import OtherControllers, Restored
from controller.parts import Learned
from controller.policy import FabricPolicy
from controller.primacy import AT_REST, DEFAULT_ELECTION_ID, DEFAULT_TIMEOUT
from controller.program import CompiledProgram
from controller.session import Reloaded, SwitchSession
from controller.target_facts import TargetFacts
from softswitch.client_tls import ClientTls
from softswitch.p4runtime.protos import p4r
from topologies.model import Link, Topology

T = TypeVar("T")


@dataclass(frozen=True)
class BringUp:
    """What bringing up did: switches that got the program, and updates written to each switch."""

    loaded: tuple[str, ...]
    written: Mapping[str, int]
    seconds: float


class FabricController(FabricSessions):
    """`async with FabricController(...) as c: await c.bring_up()`. All calls in one event loop."""

    def __init__(
        self,
        topology: Topology,
        addresses: Mapping[str, str],
        program: CompiledProgram,
        facts: TargetFacts | None = None,
        policy: FabricPolicy | None = None,
        *,
        programs: Mapping[str, CompiledProgram] | None = None,
        own: Mapping[str, OwnEntries] | None = None,
        down: Iterable[Link] = (),
        election_id: Mapping[str, int] | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        tls: ClientTls | None = None,
        tell: Callable[[str], None] = lambda message: None,
    ) -> None:
        """`addresses`: 'host:port' of each switch's P4Runtime server, by name.

        `programs`: of switches that run another one than `program`; `own`: switches that nothing is
        planned for, and what each is given once with its program: they have no primary but while
        something is written to them, so that other controllers can be it; `down`: links that are
        to be routed around from the start: what a controller that is started again has to know.
        `election_id`: by name, else DEFAULT_ELECTION_ID, or AT_REST for switches of `own`.
        `timeout` (seconds) is how long to wait for switches to answer; `tls`: to all of them.
        `tell` gets a line, in the event loop, when another controller takes a switch or leaves it.
        Raises ControllerError if a switch of the topology has no address.
        """
        missing = [switch.name for switch in topology.switches if switch.name not in addresses]
        if missing:
            raise ControllerError(f"no P4Runtime address given for {', '.join(missing)}")
        own = own or {}
        sessions = {
            switch.name: SwitchSession(
                switch.name,
                addresses[switch.name],
                switch.device_id,
                (programs or {}).get(switch.name, program),
                election_id=(election_id or {}).get(
                    switch.name, AT_REST if switch.name in own else DEFAULT_ELECTION_ID
                ),
                yields=switch.name in own,
                timeout=timeout,
                tls=tls,
            )
            for switch in topology.switches
        }
        super().__init__(topology, sessions, own)
        # What changes the model and writes the difference is one step: else two could overtake
        # each other on their way to a switch.
        self._steps = asyncio.Lock()
        model = FabricModel(
            topology,
            program.p4info,
            facts or TargetFacts(time_scale=topology.time_scale),
            policy or FabricPolicy.of(topology),
            down=frozenset(down),
            p4infos={name: other.p4info for name, other in (programs or {}).items()},
        )
        self.loop = ControlLoop(model)
        self._learned_steps = LearnedSteps(self.loop, sessions, self._steps, _now)
        self._tasks: set[asyncio.Task[Any]] = set()  # that are not to be left half done
        self._others = OtherControllers(self._steps, self._follow, self._bring, tell)
        for session in sessions.values():
            session.on_standing(self._others.standing_changed)
        self.pump: DigestPump | None = None
        if self.loop.learners:
            self.pump = DigestPump(self.loop, list(sessions.values()), self._learned, _now)

    @property
    def model(self) -> FabricModel:
        """What the logic remembers."""
        return self.loop.model

    @model.setter
    def model(self, model: FabricModel) -> None:
        self.loop.model = model

    async def __aenter__(self) -> Self:
        try:
            await self._on_all(lambda session: session.connect())
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End all sessions. The switches go on forwarding."""
        await self._others.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self.pump is not None:
            await self.pump.stop()
        await asyncio.gather(*(session.close() for session in self.sessions.values()))

    async def bring_up(self, jobs: Iterable[DeclaredJob] = ()) -> BringUp:
        """Load the program where it isn't yet, and write what each switch lacks.

        A fabric that is already up gets no writes. `jobs`: that run already, and of which another
        controller knew: what is planned for them is compared with what switches hold, too. Raises
        what the sessions raise.
        """
        start = time.monotonic()
        async with self._steps, contextlib.AsyncExitStack() as places:
            for name in self.own:
                await places.enter_async_context(self.sessions[name].holding())
            loaded = await self._on_all(lambda session: session.set_pipeline())
            there = await self._on_all(
                lambda session: session.read_entries(), only=self.sessions.keys() - self.own.keys()
            )
            self._take_over(tuple(jobs), there)
            written: dict[str, int] = {}
            work: dict[str, Writes] = {}
            for name, entries in there.items():
                if name in self.own:
                    continue
                work[name] = self.loop.handle(SwitchReady(name, entries), _now()).planned
                written[name] = sum(len(changes) for changes in work[name].values())
            written |= await self._on_all(
                lambda session: self._give(session, loaded[session.name]),
                only=self.own,
            )
            await self._on_all(
                lambda session: session.write(work[session.name][session.name]), only=work
            )
        if self.pump is not None:
            self.pump.start()
        new = tuple(name for name, fresh in loaded.items() if fresh)
        return BringUp(new, written, time.monotonic() - start)

    def _take_over(
        self, jobs: tuple[DeclaredJob, ...], there: Mapping[str, Iterable[Entry]]
    ) -> None:
        """Plan with jobs as if all that follows were written: what isn't, bringing up finds."""
        if not jobs:
            return
        self.loop.left(there)
        work = self.loop.handle(JobsSubmitted(jobs), _now())
        while work.then:
            work = self.loop.written(work, frozenset(), _now())

    async def restore(self, switch: str) -> Restored:
        """Restart the session with a switch, and bring it to what it should hold.

        For a switch whose process was started again: it gets its program and all its entries. One
        that holds everything gets no writes. Raises what the session raises.
        """
        session = self._session(switch)
        async with self._steps:
            try:
                await session.reconnect()
                if session.yields:
                    return await self._bring(session)
            except NotPrimary as other:
                if not session.yields:  # else it is one already
                    await session.stand_by()
                self._others.watch(session)
                return Restored(False, 0, held_by=other.election_id)
            return await self._bring(session)

    async def _bring(self, session: SwitchSession) -> Restored:
        """Bring a switch to what it should hold: its program if it has none, and what differs."""
        switch = session.name
        async with session.holding():
            loaded = await session.set_pipeline()
            if switch in self.own:
                return Restored(loaded, await self._give(session, loaded))
        ready = SwitchReady(switch, await session.read_entries())
        writes = self.loop.handle(ready, _now()).planned
        await session.write(writes[switch])
        return Restored(loaded, len(writes[switch]))

    # ---------------------------------------------------------------- other controllers

    async def retire(self) -> None:
        """Leave the switches to the controller that follows this one."""
        self._others.retired = True
        for session in self.sessions.values():
            if session.yields:  # to BMv2 two that rest would have the same id
                await session.close()

    async def unretire(self) -> None:
        """Take notice again, also of what happened meanwhile."""
        self._others.retired = False
        for session in self.sessions.values():
            if session.yields:
                with contextlib.suppress(ControllerError):  # what asks the switch next says why
                    await session.stand_by()
            elif not session.is_primary:
                self._others.standing_changed(session)

    async def follow(self) -> tuple[str, ...]:
        """Leave switches alone from now on that another client gave a program; return their names.

        It stays theirs, also when the controller or the switch is started again.
        """
        async with self._steps:
            return await self._follow(self.sessions)

    async def _follow(self, names: Collection[str]) -> tuple[str, ...]:
        others = await self._on_all(_followed, only=names)
        for name in (name for name, other in others.items() if other):
            self.own[name] = NO_ENTRIES
            await self.sessions[name].yield_place()
            p4infos = {**self.model.p4infos, name: self.sessions[name].p4info}
            installed = {k: v for k, v in self.model.installed.items() if k != name}
            self.model = replace(self.model, p4infos=p4infos, installed=installed)
        return tuple(name for name, other in others.items() if other)

    async def _give(self, session: SwitchSession, fresh: bool) -> int:
        """Write a switch's own entries if its program is `fresh`; return how many updates.

        Else it has had them, and what was changed since by hand stays.
        """
        return await session.write_own(self.own[session.name]) if fresh else 0

    async def take_back(self, switch: str, election_id: int) -> None:
        """Be a switch's primary again after another controller was, an interactive shell say.

        Nothing is written: what the other one wrote stays. Raises what the session raises.
        """
        session = self._session(switch)
        async with self._steps:
            if session.yields:  # it is not its primary: `unretire` opens a new stream
                return
            await session.reconnect(election_id=election_id)
            there = await session.read_entries()
            self.model = replace(self.model, installed={**self.model.installed, switch: there})
            self._others.taken_back(switch)

    async def reload(
        self, switch: str, program: CompiledProgram, own: OwnEntries | None = None
    ) -> Reloaded:
        """Load a changed program into one switch, keeping all its entries, those of other
        controllers too.

        `own`: what a switch that nothing is planned for is given when it is started again.
        Raises PipelineRefused, with nothing changed, or WriteFailed.
        """
        return await self._to_its_end(self._reload(self._session(switch), program, own))

    async def _reload(
        self, session: SwitchSession, program: CompiledProgram, own: OwnEntries | None
    ) -> Reloaded:
        switch = session.name
        async with self._steps:
            done = await session.reload(program, reconcile=self.model.facts.reconciles)
            if switch in self.own:
                self.own[switch] = own or NO_ENTRIES
                return done
            self.model = replace(
                self.model,
                p4infos={**self.model.p4infos, switch: program.p4info},
                installed={**self.model.installed, switch: await session.read_entries()},
            )
        return done

    async def replace(self, switch: str, program: CompiledProgram, own: OwnEntries | None) -> int:
        """Load a program into one switch, dropping all its entries; return updates written.

        `own`: what it is given then, and nothing is planned for it from now on. None: it gets what
        the fabric plans for it. Raises PipelineRefused, WriteFailed.
        """
        return await self._to_its_end(self._replace(self._session(switch), program, own))

    async def _replace(
        self, session: SwitchSession, program: CompiledProgram, own: OwnEntries | None
    ) -> int:
        switch = session.name
        async with self._steps, session.holding():
            await session.replace(program)
            p4infos = {**self.model.p4infos, switch: program.p4info}
            installed = {k: v for k, v in self.model.installed.items() if k != switch}
            self.model = replace(self.model, p4infos=p4infos, installed=installed)
            if own is not None:
                self.own[switch] = own
                written = await self._give(session, fresh=True)
                await session.yield_place()
                return written
            self.own.pop(switch, None)
            await session.keep_place()
            ready = SwitchReady(switch, await session.read_entries())
            writes = self.loop.handle(ready, _now()).planned
            await session.write(writes[switch])
        return len(writes[switch])

    async def _to_its_end(self, work: Coroutine[Any, Any, T]) -> T:
        """Do what is not to be left half done: a caller that is cancelled leaves it to itself."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # is read
        return await asyncio.shield(task)

    async def set_link(self, link: Link, up: bool) -> int:
        """Route around a link, or over it again; return how many updates that took.

        A switch that can't be reached is updated when it is restored; the others now.
        """
        return await self._handle(LinkChanged(link, up))

    async def switch_mechanism(self, name: str, on: bool) -> int:
        """Enable or disable a mechanism in all switches; return how many updates that took.

        It stays so until it is called again, whatever links and switches do. What switches hold
        for it stays with them. A switch that can't be reached gets it when it is restored; the
        others get it now. In a fabric that does not use the mechanism nothing is written.
        """
        return await self._handle(MechanismSwitched(name, on))

    async def schedule(self, event: JobsSubmitted | JobsEnded) -> Scheduled:
        """Notify the planners of jobs that start or have ended, and write what follows."""
        async with self._steps:
            begin = time.monotonic()
            work = self.loop.handle(event, _now())
            planned = time.monotonic()
            await self._learned_steps.write(work)
            done = time.monotonic()
        updates = sum(len(each) for writes in work.learned for each in writes.values())
        return Scheduled(updates, planned - begin, done - planned)

    @property
    def plans_jobs(self) -> bool:
        """Whether something in this fabric plans with jobs."""
        return any(isinstance(each, JobLearner) for each in self.loop.learners.values())

    async def planned(self, job: str) -> PlannedJob | None:
        """Return what is planned for a job that was submitted; None where no mechanism plans it."""
        planners = (each for each in self.loop.learners.values() if isinstance(each, JobPlanner))
        found = (each.planned(job) for each in planners)
        return next((each for each in found if each is not None), None)

    async def _handle(self, event: Event) -> int:
        """Take an event and write what follows; return how many updates its plans took."""
        async with self._steps:
            work = self.loop.handle(event, _now())
            try:
                await self._on_all(lambda each: each.write(work.planned.get(each.name, ())))
            finally:
                await self._learned_steps.write(work)
        return sum(len(changes) for changes in work.planned.values())

    async def ask(self, name: str, question: Callable[[Any], T]) -> T:
        """Return what `question` says of a mechanism's learner (None where it has none)."""
        return cast(T, self.loop.ask(name, question))

    async def tell(self, name: str, saying: Callable[[Any], Learned | None]) -> None:
        """Pass an event to a mechanism's learner, and write what follows from it."""
        await self._learned(self.loop.tell(name, saying, _now()))

    @property
    def digests_dropped(self) -> int:
        """Digests that came faster than they could be worked off."""
        return 0 if self.pump is None else self.pump.dropped

    async def _learned(self, work: Work) -> None:
        """Write what was learned. Switches that fail are asked what they have."""
        async with self._steps:
            await self._learned_steps.write(work)

    async def write_register(self, switch: str, register: str, index: int, value: int) -> None:
        """Write one cell of a register array.

        Raises UnknownName, WriteFailed; ControllerError for a value that the cell has no bits for.
        """
        session = self._session(switch)
        known = session.p4info.registers[register]
        what = f"{known.alias}[{index}]"
        entry = p4r.RegisterEntry(register_id=known.id)
        entry.index.index = index
        entry.data.bitstring = to_bytes(value, known.bits, what)
        update = p4r.Update(type=p4r.Update.MODIFY, entity=p4r.Entity(register_entry=entry))
        async with self._steps:
            await session.write_updates([update], [f"register {what}"])

    async def packet_out(self, switch: str, port: int, payload: bytes) -> None:
        """Send a frame out of a switch's port."""
        await self._session(switch).packet_out(payload, egress_port=port)


async def _followed(session: SwitchSession) -> bool:
    """Follow a switch; the next call to one that does not answer reports that."""
    try:
        return await session.follow()
    except ControllerError:
        return False


def _now() -> int:
    return time.monotonic_ns()
