"""Plays a topology's scripted events against the running switches, at their (real) time.

One thread waits for the next event on a monotonic clock and does what is due: links go down and up
as by hand (`emulation.link_state`), interfaces are drained at the hosts' endpoints, settings of
ports go over the switches' side channel, and once more when a switch that died is back. What could
not be done is reported, and the rest goes on.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from emulation.switch_node import Target
from softswitch.diagnostics import DiagnosticsClient
from topologies.events import Call, DrainCall, LinksCall, PortCall, SwitchCall, calls

if TYPE_CHECKING:
    from emulation.session import Session

JOIN_S = 2.0
_NS_PER_S = 10**9
_NS_PER_MS = 10**6


@dataclass(frozen=True)
class Played:
    """A call that was made: how late it began, and why it failed, if it did."""

    call: Call
    late_ns: int
    error: str = ""


class EventPlayer:
    """Makes each of `calls` (in order of time) at its time after `start`, in a thread."""

    def __init__(
        self, calls: Sequence[Call], perform: Callable[[Call], None], tell: Callable[[str], None]
    ) -> None:
        """`perform` makes a call; `tell` gets a line an event. Both are called from the thread."""
        self._calls = tuple(calls)
        self._perform = perform
        self._tell = tell
        self._cancelled = threading.Event()
        self._finished = threading.Event()
        self._played: list[Played] = []
        self._started_ns = 0
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)

    def start(self) -> None:
        """Time 0 of the events is now."""
        self._started_ns = time.monotonic_ns()
        self._thread.start()

    def cancel(self) -> None:
        """Start no more events; one under way ends first, unless that takes long."""
        self._cancelled.set()
        if self._thread.is_alive():
            self._thread.join(JOIN_S)

    def wait(self, timeout_s: float) -> bool:
        """Wait until all events are done or cancelled; say whether that is so."""
        return self._finished.wait(timeout_s)

    @property
    def started(self) -> bool:
        """Whether time 0 has been."""
        return bool(self._started_ns)

    @property
    def played(self) -> tuple[Played, ...]:
        """What was done so far."""
        return tuple(self._played)

    @property
    def pending(self) -> tuple[Call, ...]:
        """What is still to come."""
        return self._calls[len(self._played) :]

    def summary(self) -> str:
        """Say in a line how far it has come."""
        played, pending = self.played, self.pending
        text = f"{len(_says(p.call for p in played))} played"
        if played:
            text += f", at most {max(p.late_ns for p in played) / _NS_PER_MS:.1f} ms late"
        failed = _says(p.call for p in played if p.error)
        if failed:
            text += f", {len(failed)} failed"
        if pending:
            in_s = (pending[0].at_ns - self._elapsed_ns()) / _NS_PER_S
            text += f", {len(_says(pending))} to come (the next in {max(0.0, in_s):.1f} s)"
        return text

    def _elapsed_ns(self) -> int:
        return time.monotonic_ns() - self._started_ns if self._started_ns else 0

    def _run(self) -> None:
        for (at_ns, says), group in itertools.groupby(self._calls, key=_event):
            while (left := at_ns - self._elapsed_ns()) > 0:
                if self._cancelled.wait(left / _NS_PER_S):
                    break
            if self._cancelled.is_set():
                break
            done = [self._play(call) for call in group]
            self._tell(
                f"event at {at_ns / _NS_PER_S:.3f} s: {says} "
                f"({done[0].late_ns / _NS_PER_MS:.1f} ms late)"
            )
            for error in dict.fromkeys(played.error for played in done if played.error):
                self._tell(f"event failed: {says}: {error}")
        self._finished.set()

    def _play(self, call: Call) -> Played:
        late_ns = self._elapsed_ns() - call.at_ns
        error = ""
        try:
            self._perform(call)
        except Exception as failure:  # the next event is as likely to work
            error = str(failure) or type(failure).__name__
        played = Played(call, late_ns, error)
        self._played.append(played)
        return played


def _event(call: Call) -> tuple[int, str]:
    return call.at_ns, call.says


def _says(calls: Iterable[Call]) -> set[tuple[int, str]]:
    return {_event(call) for call in calls}


class FabricCalls:
    """Makes calls of events on the fabric of a session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._clients: dict[str, DiagnosticsClient] = {}
        self._made: dict[str, list[PortCall]] = {}
        self._lock = threading.Lock()
        session.links.on_return(self.apply_to)

    def close(self) -> None:
        """End the connections to the switches."""
        with self._lock:
            self._made.clear()
            while self._clients:
                self._clients.popitem()[1].close()

    def perform(self, call: Call) -> None:
        """Make a call. Raises EmulationError, DiagnosticsError, ControllerError."""
        if isinstance(call, LinksCall):
            self._session.links.switch(list(call.links), call.up)
            return
        if isinstance(call, SwitchCall):
            act = self._session.revive_switch if call.up else self._session.kill_switch
            act(call.switch)
            return
        if isinstance(call, DrainCall):
            self._session.endpoints.drain(call.ends, call.on)
            return
        with self._lock:
            self._made.setdefault(call.switch, []).append(call)
            self._set_link(call)

    def apply_to(self, switch: str) -> None:
        """Bring a switch that was started again to what events have made of its ports.

        Raises DiagnosticsError.
        """
        with self._lock:
            stale = self._clients.pop(switch, None)
            if stale is not None:
                stale.close()
            for call in self._made.get(switch, []):
                self._set_link(call)

    def _set_link(self, call: PortCall) -> None:
        if call.switch not in self._clients:
            address = self._session.network.switches[call.switch].settings.address
            self._clients[call.switch] = DiagnosticsClient(address)
        self._clients[call.switch].call("SetLink", port=call.port, **call.arguments)


@contextmanager
def playing(session: Session, tell: Callable[[str], None]) -> Iterator[EventPlayer | None]:
    """Play the session's events from now until the end of the block; None when it has none.

    `tell` gets a line an event, from a thread, and what the target can't emulate.
    """
    made, unmade = playable(session)
    if unmade:
        tell(not_emulated(unmade))
    if not made:
        yield None
        return
    fabric = FabricCalls(session)
    player = EventPlayer(made, fabric.perform, tell)
    player.start()
    try:
        yield player
    finally:
        player.cancel()
        fabric.close()


def playable(session: Session) -> tuple[tuple[Call, ...], tuple[Call, ...]]:
    """Return the calls that the session's target can make, and those that it can't.

    BMv2 emulates no links: there they go down and up, and switches, and nothing else.
    """
    found = calls(session.topology)
    if session.target is Target.SOFTSWITCH:
        return found, ()
    return (
        tuple(call for call in found if not isinstance(call, PortCall)),
        tuple(call for call in found if isinstance(call, PortCall)),
    )


def not_emulated(calls: Sequence[Call]) -> str:
    """Say which events a target can't emulate; empty when there are none."""
    says = list(dict.fromkeys(call.says for call in calls))
    if not says:
        return ""
    shown = "; ".join(says[:3]) + ("; ..." if len(says) > 3 else "")
    return f"events not emulated on BMv2 (its links have no rate, delay or loss): {shown}"
