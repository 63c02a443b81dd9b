"""The controller for callers without an event loop: prompts, scripts, tests.

The loop runs in a thread of its own, so that sessions stay alive and packets-in are handled while
the caller does something else.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from queue import SimpleQueue
from typing import Any, Self, TypeVar

from controller.entries import Entry
from controller.entry_files import OwnEntries
from controller.fabric_controller import BringUp, FabricController
from controller.fabric_sessions import PortCounters
from controller.jobs import DeclaredJob, JobsEnded, JobsSubmitted, PlannedJob, Scheduled
from controller.other_controllers import Restored
from controller.p4info import P4Info
from controller.parts import Learned
from controller.policy import FabricPolicy
from controller.primacy import DEFAULT_TIMEOUT
from controller.program import CompiledProgram
from controller.session import PacketHandler, Reloaded
from controller.table_rows import TableRow
from controller.target_facts import TargetFacts
from softswitch.client_tls import ClientTls
from topologies.model import Link, Topology

T = TypeVar("T")


def _running_loop() -> tuple[asyncio.AbstractEventLoop, threading.Thread]:
    """Return an event loop and the thread in which it runs, and in which it was made.

    Signals interrupt the main thread only: there, one could leave half a loop behind.
    """
    made: SimpleQueue[asyncio.AbstractEventLoop] = SimpleQueue()

    def run() -> None:
        loop = asyncio.new_event_loop()
        made.put(loop)
        loop.run_forever()

    thread = threading.Thread(target=run, name="weft-controller", daemon=True)
    thread.start()
    return made.get(), thread


class BlockingController:
    """`FabricController` with plain calls. Use as a context manager, or call `close`."""

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
        after: BlockingController | None = None,
    ) -> None:
        """Connect to all switches. Arguments and errors are FabricController's.

        `after`: one that this takes the place of. Its event loop goes over to this one, as
        gRPC can't do with two that end at different times; if this fails, it keeps it and goes on.
        """
        self._controller = FabricController(
            *(topology, addresses, program, facts, policy),
            programs=programs,
            own=own,
            down=down,
            election_id=election_id,
            timeout=timeout,
            tls=tls,
            tell=tell,
        )
        self._loop: asyncio.AbstractEventLoop
        self._thread: threading.Thread
        self._owns_loop = after is None
        self._is_closed = False
        if after is not None:
            self._loop, self._thread = after._loop, after._thread
        else:
            self._loop, self._thread = _running_loop()
        try:
            self._call(self._controller.__aenter__())
        except BaseException:
            if self._owns_loop:
                self._stop_loop()
            raise
        if after is not None:
            self._owns_loop, after._owns_loop = True, False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all sessions; calling it again does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            self._call(self._controller.close())
        finally:
            if self._owns_loop:
                self._stop_loop()

    def bring_up(self, jobs: Iterable[DeclaredJob] = ()) -> BringUp:
        """Load the program where needed and write what each switch lacks.

        `jobs`: that run already, and of which another controller knew.
        """
        return self._call(self._controller.bring_up(jobs))

    def set_link(self, link: Link, up: bool) -> int:
        """Route around a link, or over it again; return how many updates that took."""
        return self._call(self._controller.set_link(link, up))

    def switch_mechanism(self, name: str, on: bool) -> int:
        """Enable or disable a mechanism in all switches; return how many updates that took."""
        return self._call(self._controller.switch_mechanism(name, on))

    def schedule(self, event: JobsSubmitted | JobsEnded) -> Scheduled:
        """Notify the planners of jobs that start or have ended, and write what follows."""
        return self._call(self._controller.schedule(event))

    @property
    def plans_jobs(self) -> bool:
        """Whether something in this fabric plans with jobs."""
        return self._controller.plans_jobs

    def planned(self, job: str) -> PlannedJob | None:
        """Return what is planned for a job that was submitted; None where no mechanism plans it."""
        return self._call(self._controller.planned(job))

    def ask(self, name: str, question: Callable[[Any], T]) -> T:
        """Return what `question` says of a mechanism's learner, in the controller's thread."""
        return self._call(self._controller.ask(name, question))

    def tell(self, name: str, saying: Callable[[Any], Learned | None]) -> None:
        """Pass an event to a mechanism's learner, and write what follows from it."""
        self._call(self._controller.tell(name, saying))

    @property
    def digests_dropped(self) -> int:
        """Digests that came faster than they could be worked off."""
        return self._controller.digests_dropped

    def has(self, switch: str, *, table: str = "", counter: str = "") -> bool:
        """Say whether a switch's program has a table and a counter."""
        return self._controller.has(switch, table=table, counter=counter)

    def read_cells(
        self, counter: str, cells: Mapping[str, Sequence[int]]
    ) -> dict[str, dict[int, int]]:
        """Return packets counted in cells of one counter: by switch, by index."""
        return self._call(self._controller.read_cells(counter, cells))

    def read_hits(self, switch: str, table: str) -> tuple[tuple[Entry, int, int], ...]:
        """Return a table's entries, each with the packets and bytes that it counted itself."""
        return self._call(self._controller.read_hits(switch, table))

    @property
    def policy(self) -> FabricPolicy:
        """What is installed beside routes, as it was last asked for."""
        return self._controller.model.policy

    @property
    def links_down(self) -> frozenset[Link]:
        """The links that are routed around."""
        return self._controller.model.down

    @property
    def programs(self) -> dict[str, CompiledProgram]:
        """The program of each switch."""
        return {name: session.program for name, session in self._controller.sessions.items()}

    def follow(self) -> tuple[str, ...]:
        """Leave switches alone that another client gave a program; return their names."""
        return self._call(self._controller.follow())

    def restore(self, switch: str) -> Restored:
        """Restart the session with a switch, and write what the switch lacks."""
        return self._call(self._controller.restore(switch))

    def retire(self) -> None:
        """Leave switches to the controller that follows this one."""
        self._call(self._controller.retire())

    def unretire(self) -> None:
        """Leave them no longer."""
        self._call(self._controller.unretire())

    def lendable_id(self, switch: str) -> int:
        """Return another client's election id as a switch's primary. Raises NotPrimary."""
        return self._controller.lendable_id(switch)

    def next_election_ids(self) -> dict[str, int]:
        """Return with what a controller that follows this one is primary in its place."""
        return self._controller.next_election_ids()

    def check_writable(self, switches: Collection[str]) -> None:
        """Raise NotPrimary while another controller is primary of one of these switches."""
        self._controller.check_writable(switches)

    def check_beatable(self, election_ids: Mapping[str, int]) -> None:
        """Raise NotPrimary if these ids, by switch, do not take all switches from their present
        primary.
        """
        self._controller.check_beatable(election_ids)

    def take_back(self, switch: str, election_id: int) -> None:
        """Be a switch's primary again after another controller was; nothing is written."""
        self._call(self._controller.take_back(switch, election_id))

    @property
    def own(self) -> dict[str, OwnEntries]:
        """The switches that nothing is planned for, and what each is given with its program."""
        return dict(self._controller.own)

    def reload(
        self, switch: str, program: CompiledProgram, own: OwnEntries | None = None
    ) -> Reloaded:
        """Load a changed program into one switch, keeping its entries."""
        return self._call(self._controller.reload(switch, program, own))

    def replace(self, switch: str, program: CompiledProgram, own: OwnEntries | None) -> int:
        """Load a program into one switch, dropping its entries; return updates written."""
        return self._call(self._controller.replace(switch, program, own))

    def read_entries(self, switch: str, table: str | None = None) -> tuple[Entry, ...]:
        """Return everything that a switch holds."""
        return self._call(self._controller.read_entries(switch, table))

    def p4info(self, switch: str) -> P4Info:
        """Return the names and ids of the program that a switch runs."""
        return self._controller.sessions[switch].p4info

    def read_port_counters(self) -> dict[str, dict[int, PortCounters]]:
        """Return the counters of every port that has a link, by switch and port."""
        return self._call(self._controller.read_port_counters())

    def read_counter(self, switch: str, counter: str) -> dict[int, tuple[int, int]]:
        """Return the cells of a counter that aren't zero: index -> (packets, bytes)."""
        return self._call(self._controller.read_counter(switch, counter))

    def read_register(self, switch: str, register: str, index: int | None = None) -> dict[int, int]:
        """Return a register array's cells, or one of them: index -> value."""
        return self._call(self._controller.read_register(switch, register, index))

    def write_register(self, switch: str, register: str, index: int, value: int) -> None:
        """Write one cell of a register array."""
        self._call(self._controller.write_register(switch, register, index, value))

    def read_table(self, switch: str, table: str | None = None) -> list[TableRow]:
        """Return a table's entries (or all tables') with names, ready to print."""
        return self._call(self._controller.read_table(switch, table))

    def packet_out(self, switch: str, port: int, payload: bytes) -> None:
        """Send a frame out of a switch's port."""
        self._call(self._controller.packet_out(switch, port, payload))

    def on_packet(self, handler: PacketHandler) -> Callable[[], None]:
        """Call `handler` in the controller's thread for each packet-in; return what undoes it."""
        return self._controller.on_packet(handler)

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # the caller was interrupted: don't leave the work behind
            raise

    def _stop_loop(self) -> None:
        # Work that was cancelled gets its turn to end; destroyed half-way it would complain.
        asyncio.run_coroutine_threadsafe(_cancel_others(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def run(
    topology: Topology,
    addresses: Mapping[str, str],
    program: CompiledProgram,
    facts: TargetFacts | None = None,
    policy: FabricPolicy | None = None,
    *,
    timeout: float = DEFAULT_TIMEOUT,
) -> BlockingController:
    """Bring a fabric up and return the controller that keeps it; close it in the end."""
    controller = BlockingController(topology, addresses, program, facts, policy, timeout=timeout)
    try:
        controller.bring_up()
    except BaseException:
        controller.close()
        raise
    return controller
