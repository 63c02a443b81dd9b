"""A ring's bytes by RDMA: SENDs of this process's own card (hostagent.rnic) to the next rank.

TCP stays for what RDMA needs beside: the neighbours say by it which queue pairs they have, and see
by its end that a rank has gone. What is sent is copied into segments that the card sends from, and
copied out of those that it received into; a receiver that is behind has the sender wait (RNR).
"""

from __future__ import annotations

import ipaddress
import select
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hostagent.algorithms import Parameters
from hostagent.collective.handle import CollectiveError
from hostagent.collective.neighbours import POLL_S, Address, Bytes, Neighbours, PeerLostError
from hostagent.pinned_maps import MapsError, PinnedMaps
from hostagent.rnic.card_records import (
    CardError,
    Event,
    EventKind,
    Operation,
    QueuePairConfig,
    Repeat,
    Work,
)
from hostagent.rnic.endpoint import Endpoint
from hostagent.rnic.endpoint_records import EndpointConfig, EndpointError, EndpointInterface, Pair
from hostagent.rnic.interface import InterfaceError, largest_mtu, mac_of, neighbour
from hostagent.rnic.planes import NO_PLANES, PlaneConfig

SEGMENT = 1 << 15
"""Bytes of a SEND at most."""

SEGMENTS = 8
"""SENDs that are under way at once; a receiver has buffers for as many."""

COUNTERS = ("sent_packets", "repeated_packets", "timeouts", "rnr_received", "cnps_received")
"""Of the queue pair to the next rank, as `QueuePairStats` has them."""

_QUEUE_PAIR = struct.Struct("!III")  # number, first packet number, how many addresses follow
_ADDRESS = struct.Struct("!I")
_READY = b"\x01"
_ACK_EVERY = 8
_RNR_FOR_EVER = 7
_RNR_TIMER_PS = 5_000_000_000
_LINGER_S = 5.0
_REFUSALS = (EndpointError, InterfaceError, MapsError, CardError)


@dataclass(frozen=True)
class Line:
    """One more interface of a rank's card, as `RdmaSettings` has the first."""

    interface: str
    address: str
    gateway: str = ""


@dataclass(frozen=True)
class RdmaSettings:
    """A rank's card. `interface`: of the host, in the namespace of the calling process.

    `gateway`: the IPv4 address that packets go to, "" where ranks share a link. `maps`: the pins
    of the host's agent, "" where there is none: then frames go by AF_PACKET, not AF_XDP.
    `line_rate_bps`: of each interface, 0: as fast as it can. `timeout_us`: after how long what
    nobody acknowledges is sent again. `also`: more interfaces, by which packets take turns, as many
    at all ranks; `planes` what a queue pair makes of them, `control` each one's congestion control,
    and `reorder_us` by how much they may overtake each other.
    """

    interface: str
    address: str
    gateway: str = ""
    maps: str = ""
    line_rate_bps: int = 0
    timeout_us: int = 200_000
    also: tuple[Line, ...] = ()
    planes: PlaneConfig = NO_PLANES
    control: Parameters | None = None
    reorder_us: int = 0

    @property
    def lines(self) -> tuple[Line, ...]:
        """All interfaces of the card."""
        return (Line(self.interface, self.address, self.gateway), *self.also)


@dataclass(frozen=True)
class _Peer:
    """A neighbour's queue pair; `ips`: of its interfaces."""

    ips: tuple[int, ...]
    qpn: int
    psn: int


class RdmaNeighbours(Neighbours):
    """The same as `Neighbours`, but for the bytes of `exchange`."""

    def __init__(
        self,
        rank: int,
        addresses: Sequence[Address],
        listening: socket.socket,
        timeout_s: float,
        settings: RdmaSettings,
    ) -> None:
        """Connect by TCP, open the card, and join its queue pairs to the neighbours'.

        Raises PeerLostError; CollectiveError: the card can't be had.
        """
        super().__init__(rank, addresses, listening, timeout_s)
        self._settings = settings
        self._maps: PinnedMaps | None = None
        self._endpoint: Endpoint | None = None
        self._out_buffers = [bytearray(SEGMENT) for _ in range(SEGMENTS)]
        self._in_buffers = [bytearray(SEGMENT) for _ in range(SEGMENTS)]
        self._free = deque(range(SEGMENTS))  # of those that are sent from
        self._came: deque[tuple[int, int]] = deque()  # buffers that hold a SEND, and its bytes
        self._failure: CollectiveError | None = None
        self._counters: dict[str, int] = {}
        self._planes: list[dict[str, Any]] = []
        if self.size == 1:
            return
        try:
            self._begin()
        except _REFUSALS as error:
            self._failure = CollectiveError(f"rank {rank}: no RDMA: {error}")
            self.close()
            raise self._failure from None
        except BaseException as error:
            self._failure = CollectiveError(str(error))
            self.close()
            raise

    @property
    def is_called(self) -> bool:
        """Whether the rank before this one has sent something, or is gone."""
        if self._endpoint is not None:
            self._take_events(self._endpoint)
        return bool(self._came) or super().is_called

    def counters(self) -> dict[str, int]:
        """Return what the card counted of the queue pair to the next rank, by `COUNTERS`.

        And `af_xdp`: 1 if its frames come and go by AF_XDP; `losses`: of its planes.
        """
        if self._endpoint is not None:
            with suppress(*_REFUSALS):
                stats = self._endpoint.pair_stats(self._to_next.qpn)
                self._counters = {name: getattr(stats, name) for name in COUNTERS}
                self._counters["af_xdp"] = int(self._endpoint.mode == "af_xdp")
                planes = self._endpoint.plane_stats(self._to_next.qpn)
                self._counters["losses"] = sum(plane.losses for plane in planes)
                self._planes = [plane.row(self._endpoint.monotonic_ns) for plane in planes]
        return dict(self._counters)

    def planes(self) -> list[dict[str, Any]]:
        """Return each plane of the queue pair to the next rank (`PlaneStats.row`), if it has any.

        Times are those of CLOCK_MONOTONIC in ns.
        """
        self.counters()
        return [dict(plane) for plane in self._planes]

    def close(self) -> None:
        """End, once the neighbours have what was sent to them, or are gone.

        After a failure or an interruption: at once.
        """
        endpoint = self._endpoint
        if endpoint is not None:
            if self._failure is None and not self._interrupted:
                self._linger(endpoint)
            self.counters()
            self._endpoint = None
            endpoint.close()
        if self._maps is not None:
            self._maps.close()
            self._maps = None
        super().close()

    # --- bytes --------------------------------------------------------------------------------

    def exchange(self, out: Bytes, into: Bytes) -> None:
        """Send `out` to the next rank and receive `into` from the one before, at the same time.

        It returns when all of `into` is there, and the card has all of `out`.
        """
        if self.size == 1 or not (len(out) or len(into)):
            return
        self._ends()
        if self._endpoint is None:
            raise CollectiveError(f"rank {self.rank}: the ring is closed")
        try:
            self._carry(self._endpoint, np.ascontiguousarray(out).data, into.data)
        except CollectiveError as error:
            self._failure = self._failure or error
            raise

    def _carry(self, endpoint: Endpoint, left_out: memoryview, left_in: memoryview) -> None:
        self.sent_bytes += len(left_out)
        deadline = time.monotonic() + self.timeout_s
        while left_out or left_in:
            self._take_events(endpoint)
            before = len(left_out), len(left_in)
            left_out = self._send(endpoint, left_out)
            left_in = self._receive(endpoint, left_in)
            if (len(left_out), len(left_in)) != before:
                deadline = time.monotonic() + self.timeout_s
                continue
            if self._failure is not None:
                raise self._failure
            self._check(deadline, self.rank - 1 if left_in else self.rank + 1)
            gone = self._wait(endpoint, taking=bool(left_in), giving=bool(left_out))
            if gone is not None:  # but what it sent, or took, before that counts
                self._take_events(endpoint)
                if not (self._came if gone < self.rank else self._free):
                    raise self._ended(gone)

    def _send(self, endpoint: Endpoint, left: memoryview) -> memoryview:
        """Post as many segments as there are buffers for; return what is left."""
        while left and self._free and self._failure is None:
            number = self._free.popleft()
            part = left[:SEGMENT]
            data = memoryview(self._out_buffers[number])[: len(part)]
            data[:] = part
            try:
                endpoint.post(self._to_next.qpn, Work(number, Operation.SEND, data))
            except CardError as error:
                self._fail(self.rank + 1, str(error))
            left = left[len(part) :]
        return left

    def _receive(self, endpoint: Endpoint, left: memoryview) -> memoryview:
        """Take segments that have come; return what of the call's has not."""
        while left and self._came:
            number, length = self._came.popleft()
            if length != min(len(left), SEGMENT):
                self._failure = CollectiveError(
                    f"{self._who(self.rank - 1)} sent {length} bytes where {len(left)} are "
                    "missing: ranks have to make the same calls"
                )
                raise self._failure
            left[:length] = memoryview(self._in_buffers[number])[:length]
            left = left[length:]
            with suppress(CardError):  # of a queue pair that has failed: said by its event
                endpoint.post_receive(self._of_previous.qpn, number, self._in_buffers[number])
        return left

    def _take_events(self, endpoint: Endpoint) -> None:
        for event in endpoint.events():
            self._take(event)
        if endpoint.failure is not None and self._failure is None:
            self._failure = CollectiveError(f"rank {self.rank}: {endpoint.failure}")

    def _take(self, event: Event) -> None:
        if event.kind is EventKind.COMPLETED:
            self._free.append(event.id)
        elif event.kind is EventKind.RECEIVED:
            self._came.append((event.id, event.bytes))
        elif event.kind is EventKind.QP_FAILED:
            whom = self.rank + 1 if event.qpn == self._to_next.qpn else self.rank - 1
            self._fail(whom, event.status.name.lower().replace("_", " "))

    def _fail(self, whom: int, why: str) -> None:
        if self._failure is None:
            self._failure = PeerLostError(f"{self._who(whom)} is lost: RDMA: {why}")

    def _wait(self, endpoint: Endpoint, *, taking: bool, giving: bool) -> int | None:
        """Wait until the card has news; return a neighbour in need that has ended instead."""
        following, previous = self._ends()
        needed = [(self.rank - 1, previous)] * taking + [(self.rank + 1, following)] * giving
        fds = [endpoint.event_fd, *(end.fileno() for _, end in needed)]
        readable, _, _ = select.select(fds, [], [], POLL_S)
        endpoint.clear_event()
        for whom, end in needed:
            if end.fileno() in readable and _is_over(end):
                return whom
        return None

    def _linger(self, endpoint: Endpoint) -> None:
        """Stay until the next rank has all that was sent, and the one before has sent all."""
        if self._next is None or self._previous is None:
            return
        deadline = time.monotonic() + _LINGER_S

        def until(done: Callable[[], bool], end: socket.socket) -> None:
            while not done() and self._failure is None and time.monotonic() < deadline:
                readable, _, _ = select.select([endpoint.event_fd, end.fileno()], [], [], POLL_S)
                endpoint.clear_event()
                self._take_events(endpoint)
                if end.fileno() in readable and _is_over(end):
                    return

        until(lambda: len(self._free) == SEGMENTS, self._next)
        with suppress(OSError):
            self._next.shutdown(socket.SHUT_WR)
        until(lambda: False, self._previous)

    # --- beginning ----------------------------------------------------------------------------

    def _begin(self) -> None:
        settings = self._settings
        self._maps = PinnedMaps.open(Path(settings.maps)) if settings.maps else None
        first, *more = (self._interface(line) for line in settings.lines)
        config = EndpointConfig(
            first.interface,
            first.ip,
            first.mac,
            first.gateway_mac,
            settings.line_rate_bps,
            more=tuple(more),
        )
        self._endpoint = endpoint = Endpoint(config, self._maps)
        pair = QueuePairConfig(
            qpn=1,
            mtu=min(largest_mtu(each.interface) for each in config.interfaces),
            repeat=Repeat.SELECTIVE,
            ack_every=_ACK_EVERY,
            timeout_ps=settings.timeout_us * 1_000_000,
            retries=max(1, int(self.timeout_s * 1e6) // settings.timeout_us),
            rnr_retries=_RNR_FOR_EVER,
            rnr_timer_ps=_RNR_TIMER_PS,
            reorder_ps=settings.reorder_us * 1_000_000,
            interfaces=len(config.interfaces),
            planes=settings.planes,
        )
        control = settings.control
        self._to_next = endpoint.open(pair, buffer_bytes=0, congestion_control=control)
        self._of_previous = endpoint.open(pair, buffer_bytes=0, congestion_control=control)
        following, previous = self._ends()
        deadline = time.monotonic() + self.timeout_s
        ips = b"".join(_ADDRESS.pack(each.ip) for each in config.interfaces)
        for end, own in ((following, self._to_next), (previous, self._of_previous)):
            head = _QUEUE_PAIR.pack(own.qpn, own.psn, len(config.interfaces))
            end.sendall(head + ips)  # a few bytes: they always fit
        for end, own, whom in self._both(following, previous):
            self._connect(endpoint, own, self._peer(end, deadline, whom))
        for number, buffer in enumerate(self._in_buffers):
            endpoint.post_receive(self._of_previous.qpn, number, buffer)
        for end in (following, previous):
            end.sendall(_READY)
        for end, _, whom in self._both(following, previous):
            self._hear(end, len(_READY), deadline, whom)

    def _both(
        self, following: socket.socket, previous: socket.socket
    ) -> tuple[tuple[socket.socket, Pair, int], tuple[socket.socket, Pair, int]]:
        return (
            (following, self._to_next, self.rank + 1),
            (previous, self._of_previous, self.rank - 1),
        )

    def _interface(self, line: Line) -> EndpointInterface:
        gateway = int(ipaddress.IPv4Address(line.gateway)) if line.gateway else None
        return EndpointInterface(
            line.interface,
            int(ipaddress.IPv4Address(line.address)),
            mac_of(line.interface),
            0 if gateway is None else neighbour(gateway, line.interface, self.timeout_s),
            self._settings.line_rate_bps,
        )

    def _peer(self, end: socket.socket, deadline: float, whom: int) -> _Peer:
        """Return which queue pair a neighbour has. Raises PeerLostError."""
        said = self._hear(end, _QUEUE_PAIR.size, deadline, whom)
        qpn, psn, count = _QUEUE_PAIR.unpack(said)
        ips = self._hear(end, count * _ADDRESS.size, deadline, whom)
        return _Peer(tuple(ip for (ip,) in _ADDRESS.iter_unpack(ips)), qpn, psn)

    def _connect(self, endpoint: Endpoint, own: Pair, peer: _Peer) -> None:
        lines = endpoint.config.interfaces
        ways = [
            (ip, 0 if line.gateway_mac else neighbour(ip, line.interface, self.timeout_s))
            for ip, line in zip(peer.ips, lines, strict=False)
        ]
        endpoint.connect_ways(own.qpn, ways, peer_qpn=peer.qpn, peer_psn=peer.psn)

    def _hear(self, end: socket.socket, count: int, deadline: float, whom: int) -> bytes:
        """Return what a neighbour says by TCP. Raises PeerLostError."""
        said = b""
        while len(said) < count:
            readable, _, _ = select.select([end], [], [], POLL_S)
            if not readable:
                self._check(deadline, whom)
                continue
            try:
                came = end.recv(count - len(said))
            except OSError as error:
                raise PeerLostError(f"{self._who(whom)} is lost: {error.strerror}") from None
            if not came:
                raise self._ended(whom)
            said += came
        return said


def _is_over(end: socket.socket) -> bool:
    """Return whether the other end of a connection, of which nothing is to come, has ended it."""
    try:
        return not end.recv(1)
    except BlockingIOError:
        return False
    except OSError:
        return True
