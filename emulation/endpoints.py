"""Hosts' RoCEv2 endpoints: a daemon in a host's namespace, started when first needed.

A host has one card with all of its interfaces, so that a queue pair may use several of them; a host
with more than a card may have gets a further card for each so many.

The run's record has each one, so that stop and crash clean-up end exactly these. Where the run
has a host agent (eBPF), the daemon uses its maps. Interfaces that are drained are so in daemons
that start later, too.
"""

from __future__ import annotations

import contextlib
import select
import subprocess
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from emulation import host_service
from emulation.errors import EmulationError
from emulation.live_host import LiveHost
from hostagent.pins import MAPS, pins_of
from hostagent.rnic.client import EndpointClient, EndpointGone, RequestRefused
from topologies import Endpoint

if TYPE_CHECKING:
    from emulation.session import Session

START_DEADLINE_S = 60.0
CARD_INTERFACES = 8  # RNIC_INTERFACES: hostagent/rnic/core/rnic.h
CARD_QUEUE_PAIRS = 1024  # for each of its interfaces
_END_S = 2.0


class EndpointError(EmulationError):
    """A host's endpoint could not be started; the message has its own words."""


@dataclass(frozen=True)
class Place:
    """Where a host's interface is: the socket of its card's daemon, its number on that card."""

    socket: Path
    interface: int = 0


@dataclass
class _Daemon:
    process: subprocess.Popen[str]
    socket: Path
    log: Path
    ready: bool = False


class Endpoints:
    """The endpoints of one run, by their names: the host's (h1), of a further card h1:8."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._daemons: dict[str, _Daemon] = {}
        self._drained: frozenset[Endpoint] = frozenset()
        self._lock = threading.Lock()  # the prompt and other terminals may ask at once

    def places(self, interfaces: Sequence[LiveHost]) -> dict[str, Place]:
        """Return where these interfaces' endpoints take clients; those missing are started.

        By the names of the interfaces (h1, h1:1). Raises EndpointError with what a daemon said.
        """
        cards = {each.name: _card_of(each.name) for each in interfaces}
        with self._lock:
            names = dict.fromkeys(name for name, _ in cards.values())
            for name in names:
                if not self._is_up(name):
                    self._daemons[name] = self._start(name)
            for name in names:
                if not self._daemons[name].ready:
                    self._wait(name)
                    self._tell(name, self._drained, True)
            return {
                each: Place(self._daemons[name].socket, number)
                for each, (name, number) in cards.items()
            }

    def _is_up(self, name: str) -> bool:
        daemon = self._daemons.get(name)
        return daemon is not None and daemon.process.poll() is None

    def pins(self) -> Path | None:
        """Return where the host agent's maps of this run are, None if it has none."""
        directory = pins_of(self._session.run.name)
        return directory if (directory / MAPS[0]).exists() else None

    def _start(self, name: str) -> _Daemon:
        session = self._session
        host, *others = _interfaces_of(session, name)
        socket = session.run.directory / f"{name.replace(':', '-')}.rnic"
        log = session.run.log_dir / f"{name.replace(':', '-')}.rnic.log"
        command = ["hostagent.rnic.service", "--interface", host.interface]
        command += ["--ip", host.address, "--mac", host.mac, "--socket", str(socket)]
        command += ["--gateway-mac", session.topology.switch(host.switch).mac]
        command += ["--line-rate", str(_rate_bps(session, host))]
        command += ["--max-qps", str(CARD_QUEUE_PAIRS * (1 + len(others)))]
        for other in others:
            gateway_mac = session.topology.switch(other.switch).mac
            of_other = (other.interface, other.address, _rate_bps(session, other), gateway_mac)
            command += ["--also", ",".join(str(each) for each in of_other)]
        pins = self.pins()
        if pins is not None:
            command += ["--maps", str(pins)]
        what = f"endpoint of {name}"
        try:
            process = host_service.start(session, host.namespace, command, log, what, spoken=False)
        except OSError as error:
            raise EndpointError(f"{name}: no endpoint: {error}") from None
        return _Daemon(process, socket, log)

    def _wait(self, name: str) -> None:
        """Wait for the daemon's line `ready: ...`."""
        daemon = self._daemons[name]
        output = daemon.process.stdout
        assert output is not None
        deadline = time.monotonic() + START_DEADLINE_S
        ready, _, _ = select.select([output], [], [], max(0.0, deadline - time.monotonic()))
        line = output.readline() if ready else ""
        if line.startswith("ready"):
            daemon.ready = True
            return
        said = daemon.log.read_text().strip().splitlines()
        why = said[-1].removeprefix("error: ") if said else "it says nothing"
        if not ready:
            why = f"not ready within {START_DEADLINE_S:g} s: {why}"
        self._end(self._daemons.pop(name))
        raise EndpointError(f"{name} has no endpoint: {why}", f"its log: {daemon.log}")

    # --- interfaces in maintenance --------------------------------------------------------------

    @property
    def drained(self) -> frozenset[Endpoint]:
        """The interfaces that are drained."""
        return self._drained

    def drain(self, ends: Collection[Endpoint], on: bool) -> None:
        """Let no new packet of queue pairs over planes take these interfaces, or let them again.

        Raises EndpointError for one that does not answer, after the others have been informed.
        """
        with self._lock:
            self._drained = self._drained | set(ends) if on else self._drained - set(ends)
            failures = []
            for name in self._up():
                try:
                    self._tell(name, ends, on)
                except EndpointError as error:
                    failures.append(error)
        if failures:
            raise failures[0]

    def _tell(self, name: str, ends: Collection[Endpoint], on: bool) -> None:
        """Notify one daemon that those of its interfaces are drained, or no longer."""
        numbers = _numbers(name, ends)
        if not numbers:
            return
        with _client(name, self._daemons[name]) as client:
            for number in numbers:
                client.call("drain", interface=number, on=on)

    def outstanding(self, ends: Collection[Endpoint]) -> int:
        """Return how many packets of queue pairs over planes are on the way by these interfaces.

        Raises EndpointError for a daemon that does not answer.
        """
        with self._lock:
            return sum(self._outstanding(name, _numbers(name, ends)) for name in self._up())

    def _outstanding(self, name: str, numbers: Collection[int]) -> int:
        if not numbers:
            return 0
        with _client(name, self._daemons[name]) as client:
            said = client.call("watch", all=True)
        # A queue pair over planes has all interfaces of its card, in their order.
        of_pairs = [enumerate(pair.get("planes", ())) for pair in said["pairs"]]
        return sum(
            plane["outstanding"] for of in of_pairs for number, plane in of if number in numbers
        )

    def _up(self) -> list[str]:
        return [name for name, each in self._daemons.items() if each.ready and self._is_up(name)]

    def end(self, name: str) -> None:
        """End one daemon; it is started again when needed."""
        with self._lock:
            daemon = self._daemons.pop(name, None)
            if daemon is not None:
                self._end(daemon)

    @staticmethod
    def _end(daemon: _Daemon) -> None:
        daemon.process.terminate()
        try:
            daemon.process.wait(_END_S)
        except subprocess.TimeoutExpired:
            daemon.process.kill()
            daemon.process.wait()


@contextlib.contextmanager
def _client(name: str, daemon: _Daemon) -> Iterator[EndpointClient]:
    """Speak to a daemon. Raises EndpointError where it does not answer, or refuses."""
    try:
        with EndpointClient.connect(daemon.socket) as client:
            yield client
    except (EndpointGone, RequestRefused) as error:
        raise EndpointError(f"{name}: {error}", f"its log: {daemon.log}") from None


def _numbers(card: str, ends: Collection[Endpoint]) -> list[int]:
    """Return the numbers, on a card, of those interfaces that it has."""
    places = [_card_of(str(end)) for end in ends]
    return sorted(number for name, number in places if name == card)


def _card_of(interface: str) -> tuple[str, int]:
    """Return the name of the card that has an interface, and the interface's number on it."""
    host, _, text = interface.partition(":")
    card, number = divmod(int(text or 0), CARD_INTERFACES)
    return f"{host}:{card * CARD_INTERFACES}" if card else host, number


def _interfaces_of(session: Session, card: str) -> list[LiveHost]:
    return [each for each in session.network.live_interfaces() if _card_of(each.name)[0] == card]


def _rate_bps(session: Session, interface: LiveHost) -> int:
    host, _, number = interface.name.partition(":")
    return session.topology.real_rate_bps(session.topology.link_at(host, int(number or 0)))
