"""Host programs in real time, over AF_PACKET: owns clock and sockets, which programs do not have.

What a program is called for, and in which order, is as host_program.h says: timers at the times
for which they were set, even where the process wakes up late, frames when they are read. A
program's clock is the kernel's monotonic one, divided by the time scale, and never goes back.
"""

from __future__ import annotations

import errno
import heapq
import select
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hostagent.programs.frames import ETHERNET, datagram_of
from hostagent.programs.program import (
    TIMERS,
    Addresses,
    Frame,
    Host,
    Interface,
    Program,
    ProgramError,
    said,
    why_refused,
)

ROCE_PORT = 4791
_ETH_P_ALL = 3
_OUTGOING = 4  # sll_pkttype of what this host has sent
_FRAME_MOST = 65536
_FRAMES_A_TURN = 64
_RECEIVE_BUFFER = 4 << 20
_SO_RCVBUFFORCE = 33
_NS_PER_MS = 1_000_000
_END_OF_TIME = (1 << 63) // 1000
_LOST = (errno.ENOBUFS, errno.EAGAIN, errno.ENETDOWN)


class ProgramFailed(ProgramError):
    """A program failed while it ran: which, on which host, when and why."""


@dataclass(frozen=True)
class LiveInterface:
    """An interface of the namespace that the driver runs in; `device` is the kernel's name."""

    device: str
    interface: Interface


@dataclass
class _Running(Host):
    """One program and its view of the host."""

    driver: Driver
    title: str
    program: Program
    counters: dict[str, int] = field(default_factory=dict)
    timers: dict[int, int] = field(default_factory=dict)  # token: the number of its setting

    def __post_init__(self) -> None:
        """Take the host's name, interfaces and addresses from the driver."""
        self.name, self.interfaces = self.driver.name, self.driver.interfaces
        self.addresses = self.driver.addresses

    @property
    def now_ns(self) -> int:
        return self.driver.now_ns

    def send(self, frame: bytes, interface: int = 0) -> bool:
        return self.driver.send(frame, interface)

    def set_timer(self, token: int, at_ns: int) -> None:
        _check_token(token, f"timer {token} at {at_ns} ns")
        if not 0 <= at_ns < _END_OF_TIME:
            raise ProgramError(f"timer {token} at {at_ns} ns: {why_refused('PROGRAM_ETIME')}")
        self.timers[token] = self.driver.enter(self, token, at_ns)

    def cancel_timer(self, token: int) -> None:
        _check_token(token, f"timer {token}")
        self.timers.pop(token, None)

    def listen_udp(self, port: int) -> None:
        what = f"UDP port {port}"
        if port == ROCE_PORT:
            raise ProgramError(f"{what}: {why_refused('PROGRAM_ECARD')}")
        self.driver.listen(self, ("udp", port), what)

    def listen_ethertype(self, number: int) -> None:
        self.driver.listen(self, ("type", number), f"EtherType {number:#06x}")

    def count(self, name: str, by: int = 1) -> None:
        if by < 0:
            raise ProgramError(f"counter {name}: {by} is below 0")
        self.counters[name] = self.counters.get(name, 0) + by


def _check_token(token: int, what: str) -> None:
    if not 0 <= token < TIMERS:
        raise ProgramError(f"{what}: {why_refused('PROGRAM_ETOKEN')}")


class Driver:
    """The programs of one host, in the network namespace of the calling thread."""

    def __init__(
        self,
        name: str,
        interfaces: Sequence[LiveInterface],
        *,
        addresses: Mapping[str, int] | None = None,
        time_scale: int = 1,
        record: Path | None = None,
    ) -> None:
        """`record`: a file for what programs send, a line each: ns, interface, frame in hex.

        Raises OSError when there is no such interface, or no right to use it.
        """
        self.name = name
        self.addresses = Addresses(addresses or {})
        self.interfaces = tuple(each.interface for each in interfaces)
        self._scale = time_scale
        self._running: list[_Running] = []
        self._listeners: dict[tuple[str, int], _Running] = {}
        self._ports: list[socket.socket] = []
        self._timers: list[tuple[int, int, int]] = []  # ns, number of setting, token
        self._of: dict[int, _Running] = {}  # whose setting it was
        self._settings = 0
        self._begun_ns = time.monotonic_ns()
        self.now_ns = 0
        self._sockets = [_packet_socket(each.device) for each in interfaces]
        self._record = None if record is None else record.open("w")

    def add(self, title: str, program: Program) -> None:
        """Add a program, before `start`."""
        self._running.append(_Running(self, title, program))

    def start(self) -> None:
        """Let time begin, and start the programs in order. Raises ProgramFailed."""
        self._begun_ns = time.monotonic_ns()
        for each in self._running:
            self._call(each, lambda each=each: each.program.started(each))

    def counters(self) -> list[tuple[str, dict[str, int]]]:
        """Return what each program has counted, by what the run calls it."""
        return [(each.title, dict(each.counters)) for each in self._running]

    def stop(self) -> None:
        """Tell programs the end. Raises ProgramFailed."""
        self._look_at_clock()
        for each in self._running:
            stopped = getattr(each.program, "stopped", None)
            if stopped is not None:
                self._call(each, lambda each=each, stopped=stopped: stopped(each))

    def close(self) -> None:
        """Give back sockets and the record."""
        for each in (*self._sockets, *self._ports):
            each.close()
        if self._record is not None:
            self._record.close()

    def run(self, until_readable: int) -> None:
        """Call programs until this file descriptor has something to read. Raises ProgramFailed."""
        poller = select.poll()
        poller.register(until_readable, select.POLLIN | select.POLLHUP)
        by_fd = {each.fileno(): n for n, each in enumerate(self._sockets)}
        for fd in by_fd:
            poller.register(fd, select.POLLIN)
        while True:
            self._run_timers()
            ready = [fd for fd, _ in poller.poll(self._patience_ms())]
            if until_readable in ready:
                return
            for fd in sorted(ready, key=by_fd.__getitem__):
                self._receive(by_fd[fd])

    # --- time ------------------------------------------------------------------------------------

    def _clock(self) -> int:
        return (time.monotonic_ns() - self._begun_ns) // self._scale

    def _look_at_clock(self) -> None:
        self.now_ns = max(self.now_ns, self._clock())

    def _patience_ms(self) -> float | None:
        """Return how long there is nothing to do.

        Rounded down, so that the rest is spent looking.
        """
        if not self._timers:
            return None
        left_ns = (self._timers[0][0] - self._clock()) * self._scale
        return max(0, left_ns // _NS_PER_MS)

    def enter(self, running: _Running, token: int, at_ns: int) -> int:
        """Put a timer in its place; return the number of this setting."""
        self._settings += 1
        heapq.heappush(self._timers, (max(at_ns, self.now_ns), self._settings, token))
        self._of[self._settings] = running
        return self._settings

    def _run_timers(self) -> None:
        while self._timers and self._timers[0][0] <= self._clock():
            at_ns, number, token = heapq.heappop(self._timers)
            running = self._of.pop(number)
            if running.timers.get(token) != number:
                continue  # moved or cancelled
            del running.timers[token]
            self.now_ns = max(self.now_ns, at_ns)
            self._call(running, lambda: running.program.timer(running, token, self.now_ns))  # noqa: B023

    # --- frames ----------------------------------------------------------------------------------

    def listen(self, running: _Running, key: tuple[str, int], what: str) -> None:
        """Hand a program what has this key. Raises ProgramError."""
        if not 0 < key[1] < 1 << 16:
            raise ProgramError(f"{what}: {why_refused('PROGRAM_ENUMBER')}")
        if self._listeners.setdefault(key, running) is not running:
            raise ProgramError(f"{what}: {why_refused('PROGRAM_ETAKEN')}")
        if key[0] == "udp":
            # A socket has to listen, else the kernel answers each datagram "port unreachable".
            held = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self._ports.append(held)
            held.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            try:
                held.bind(("", key[1]))
            except OSError as error:
                raise ProgramError(f"{what}: another process has it ({error.strerror})") from None

    def send(self, frame: bytes, interface: int) -> bool:
        """Send a frame; False where there is no room or the link is down. Raises ProgramError."""
        if not 0 <= interface < len(self._sockets):
            raise ProgramError(f"interface {interface}: {why_refused('PROGRAM_EINTERFACE')}")
        if not ETHERNET <= len(frame) <= ETHERNET + self.interfaces[interface].mtu:
            raise ProgramError(f"a frame of {len(frame)} bytes: {why_refused('PROGRAM_ELENGTH')}")
        try:
            self._sockets[interface].send(frame)
        except OSError as error:
            if error.errno not in _LOST:
                raise ProgramError(f"a frame of {len(frame)} bytes: {error.strerror}") from None
            return False
        if self._record is not None:
            self._record.write(f"{self.now_ns} {interface} {frame.hex()}\n")
        return True

    def _receive(self, interface: int) -> None:
        for _ in range(_FRAMES_A_TURN):
            try:
                data, where = self._sockets[interface].recvfrom(_FRAME_MOST, socket.MSG_DONTWAIT)
            except OSError as error:
                if error.errno in (errno.EAGAIN, errno.ENETDOWN):
                    return
                raise
            if where[2] == _OUTGOING or len(data) < ETHERNET:
                continue
            self._run_timers()  # those that were due before
            running = self._listener(data)
            if running is not None:
                self._look_at_clock()
                frame = Frame(data, interface)
                self._call(running, lambda: running.program.packet(running, frame, self.now_ns))  # noqa: B023

    def _listener(self, data: bytes) -> _Running | None:
        datagram = datagram_of(data)
        if datagram is not None and ("udp", datagram.port) in self._listeners:
            return self._listeners["udp", datagram.port]
        return self._listeners.get(("type", int.from_bytes(data[12:14], "big")))

    def _call(self, running: _Running, call: object) -> None:
        assert callable(call)
        try:
            call()
        except Exception as error:
            where = f"{running.title} on {self.name} at {self.now_ns} ns"
            raise ProgramFailed(f"{where}: {said(error)}") from error


def _packet_socket(device: str) -> socket.socket:
    """Return a socket for all frames of an interface. Raises OSError."""
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    try:
        made.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BUFFER)
        made.bind((device, _ETH_P_ALL))
    except OSError as error:
        made.close()
        error.filename = device
        raise
    return made
