"""Keeps the switches of a run alive: one that dies is started again and brought back to its state.

A thread waits for the end of any switch process (it costs nothing while none ends). The new process
gets the same ports and interfaces, links that are down go down again, and the controller loads the
program and writes the entries. A switch that keeps dying is given up, and routed around; so is one
that was killed on purpose, until it is revived.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from controller import ControllerError
from controller.errors import is_elsewhere
from emulation.errors import EmulationError, SwitchDiedError
from emulation.switch_node import wait_until_ready
from topologies import Link

if TYPE_CHECKING:
    from emulation.session import Session

RESTARTS = 5
PER_S = 60.0
SETTLE_S = 30.0
JOIN_S = 2.0
LOG_LINES_TOLD = 4


class Supervisor:
    """Watches the switches of a session that is up. `tell` gets a message, from a thread."""

    _WOKEN = ""  # in the place of a name: who is watched has changed

    def __init__(self, session: Session, tell: Callable[[str], None]) -> None:
        self._session = session
        self._tell = tell
        self._wake_reader, self._wake_writer = os.pipe()
        self._lock = threading.Lock()  # starting a process, against `close`
        self._stopping = False
        self._settled = threading.Condition()
        self._alive: set[str] = set(session.network.switches)
        self._given_up: set[str] = set()
        self._killed: set[str] = set()
        self._away: set[str] = set()  # of those: no call waits for them
        self._routed_around: set[str] = set()
        self._deaths: dict[str, deque[float]] = {
            name: deque(maxlen=RESTARTS) for name in session.network.switches
        }
        self._thread = threading.Thread(target=self._watch, name="supervisor", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def close(self) -> None:
        """Stop watching. From the return on no process is started any more."""
        with self._lock:
            if self._stopping:
                return
            self._stopping = True
        self._wake()
        if self._thread.is_alive():
            self._thread.join(JOIN_S)
        if not self._thread.is_alive():
            os.close(self._wake_reader)
            os.close(self._wake_writer)

    def kill(self, name: str) -> None:
        """End a switch and leave it so. Returns when it is routed around.

        Raises EmulationError when it is away already.
        """
        with self._settled:
            if name in self._killed or name in self._given_up:
                raise EmulationError(f"{name} is away already")
            self._settled.wait_for(lambda: name in self._alive or self._stopping, SETTLE_S)
            self._killed.add(name)
        process = self._session.network.switches[name].process
        if process is not None:
            process.kill()
        with self._settled:
            self._settled.wait_for(lambda: name in self._away or self._stopping, SETTLE_S)

    def revive(self, name: str) -> None:
        """Start a switch that was killed. Returns when it is back, or given up.

        Raises EmulationError when it was not killed, or does not come back.
        """
        with self._settled:
            if name not in self._killed:
                raise EmulationError(f"{name} was not killed: it runs")
            self._killed.discard(name)
            self._away.discard(name)
            self._deaths[name].clear()  # what was done on purpose is no sign of anything
        self._wake()
        with self._settled:
            self._settled.wait_for(
                lambda: name in self._alive or name in self._given_up or self._stopping, SETTLE_S
            )
            if name not in self._alive:
                raise EmulationError(f"{name} does not come back")

    def _wake(self) -> None:
        os.write(self._wake_writer, b"x")

    def settle(self, patience_s: float = SETTLE_S) -> None:
        """Return when every switch is up or given up, or `patience_s` seconds have passed."""
        deadline = time.monotonic() + patience_s
        with self._settled:
            while not self._is_settled() and (left := deadline - time.monotonic()) > 0:
                self._settled.wait(left)

    def _is_settled(self) -> bool:
        if self._stopping or not self._thread.is_alive():
            return True
        switches = self._session.network.switches
        return all(
            name in self._given_up | self._away or (name in self._alive and switch.is_alive())
            for name, switch in switches.items()
        )

    # --- the thread ---------------------------------------------------------------------------

    def _watch(self) -> None:
        while not self._stopping:
            name = self._next_death()
            if name is None:
                return
            if name == self._WOKEN:
                continue
            with self._settled:
                self._alive.discard(name)
            try:
                if name in self._killed:
                    self._stay_away(name)
                else:
                    self._bring_back(name)
            except Exception as error:  # the thread goes on, and nothing stays untold
                if self._stopping:
                    return
                self._tell(f"switch {name} could not be brought back: {error}")
                self._give_up(name)
            with self._settled:
                self._settled.notify_all()

    def _next_death(self) -> str | None:
        """Wait until a switch ends; return its name, None when it is time to stop.

        _WOKEN: other switches are to be watched now.
        """
        fds: dict[int, str] = {}
        poller = select.poll()
        poller.register(self._wake_reader, select.POLLIN)
        try:
            for name, switch in self._session.network.switches.items():
                if name in self._given_up | self._away or switch.process is None:
                    continue
                if not switch.is_alive():
                    return name
                fd = os.pidfd_open(switch.process.pid)
                fds[fd] = name
                poller.register(fd, select.POLLIN)
            ready = [fd for fd, _ in poller.poll()]
            if ready == [self._wake_reader] and not self._stopping:
                os.read(self._wake_reader, 1)
                return self._WOKEN
            return next((fds[fd] for fd in ready if fd in fds and not self._stopping), None)
        finally:
            for fd in fds:
                os.close(fd)

    def _stay_away(self, name: str) -> None:
        """Route around a switch that was killed on purpose."""
        self._route(name, up=False)
        with self._settled:
            self._away.add(name)
        self._tell(f"switch {name} was killed, and is routed around until it is revived")

    def _bring_back(self, name: str) -> None:
        switch = self._session.network.switches[name]
        died = time.monotonic()
        while True:
            deaths = self._deaths[name]
            too_often = len(deaths) == RESTARTS and died - deaths[0] < PER_S
            deaths.append(died)
            how = f"switch {name} {switch.ending()}"
            last = "".join(f"\n  {line}" for line in switch.last_log_lines(LOG_LINES_TOLD))
            if too_often:
                self._tell(f"{how}; the end of its log:{last}")
                self._tell(
                    f"switch {name} died {RESTARTS + 1} times in {PER_S:g} s: not started again "
                    f"({switch.settings.log_path})"
                )
                self._give_up(name)
                return
            with self._lock:
                if self._stopping:
                    return
                switch.start([])
            assert switch.process is not None
            self._session.run.started_processes([(switch.process.pid, f"switch {name}")])
            try:
                wait_until_ready([switch])
                self._session.links.apply_to(name)
                done = self._session.controller.restore(name)
                if name in self._routed_around:
                    self._route(name, up=True)
            except (SwitchDiedError, EmulationError, ControllerError):
                if self._stopping:
                    return
                if not switch.is_alive():  # again: counts as another death
                    died = time.monotonic()
                    continue
                raise
            with self._settled:
                self._alive.add(name)
            seconds = time.monotonic() - died
            name_of = self._session.controller.programs[name].name
            what = f"{name_of} loaded" if done.loaded else "it has its program"
            what += f", {done.written} entries written"
            if done.held_by is not None:
                what = f"another controller is primary there, with election id {done.held_by}"
            self._tell(
                f"{how}; the end of its log:{last}\nit is back after {seconds:.1f} s: {what}"
            )
            return

    def _give_up(self, name: str) -> None:
        """Route around a switch that stays away."""
        with self._settled:
            self._given_up.add(name)
        self._route(name, up=False)

    def _route(self, name: str, *, up: bool) -> None:
        """Route around a switch, or over it again; links that are down on their own stay so."""
        (self._routed_around.discard if up else self._routed_around.add)(name)
        for link in self._links_to_switches(name):
            others = {link.a.node, link.b.node} - {name}
            if up and (link in self._session.links.down or others & self._routed_around):
                continue
            try:
                self._session.controller.set_link(link, up)
            except ControllerError as error:
                if up and not is_elsewhere(error):
                    raise
                continue  # a dead switch gets it later, as does another controller's

    def _links_to_switches(self, name: str) -> list[Link]:
        topology = self._session.topology
        return [p.link for p in topology.ports_of(name) if topology.is_switch(p.peer.node)]
