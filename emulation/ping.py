"""All-pairs ping, all pairs at once, by the kernels of the hosts.

Echo requests leave through raw sockets that were opened in the hosts' namespaces, so each takes
the host's own way: routing, ARP for the gateway, its neighbour table. The very first packet of a
pair counts as any other. No process is started, and round trips are those of the network alone.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field

from emulation import namespace
from emulation.live_host import LiveHost

COUNT = 3
INTERVAL_S = 0.05

_ECHO_REPLY, _ECHO_REQUEST = 0, 8
_IDENTIFIER = 0x77EF
_PAYLOAD = bytes(range(48))
_MAX_HOSTS = 0x10000 // 16  # the sequence number names destination (12 bits) and count (4)


@dataclass
class PairResult:
    """What came back between two hosts: round trips in seconds, by number of the request."""

    source: str
    destination: str
    sent: int = 0
    round_trips: dict[int, float] = field(default_factory=dict)

    @property
    def lost(self) -> int:
        """How many requests had no reply."""
        return self.sent - len(self.round_trips)


@dataclass
class PingReport:
    """The result of one all-pairs ping."""

    pairs: list[PairResult]

    @property
    def sent(self) -> int:
        """Requests sent in all."""
        return sum(pair.sent for pair in self.pairs)

    @property
    def lost(self) -> int:
        """Requests without a reply in all."""
        return sum(pair.lost for pair in self.pairs)

    @property
    def first_lost(self) -> int:
        """Pairs whose very first request had no reply."""
        return sum(0 not in pair.round_trips for pair in self.pairs)

    @property
    def ok(self) -> bool:
        """Whether there were pairs and nothing was lost."""
        return bool(self.pairs) and self.lost == 0

    def round_trip(self) -> tuple[float, float] | None:
        """Return the median and the largest round trip in seconds, or None without any."""
        times = sorted(value for pair in self.pairs for value in pair.round_trips.values())
        return (times[len(times) // 2], times[-1]) if times else None


def checksum(data: bytes) -> int:
    """Return the Internet checksum (RFC 1071) of an even number of bytes."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total & 0xFFFF) + (total >> 16)
    return ~(total + (total >> 16)) & 0xFFFF


def _request(sequence: int) -> bytes:
    def packet(value: int) -> bytes:
        return struct.pack("!BBHHH", _ECHO_REQUEST, 0, value, _IDENTIFIER, sequence) + _PAYLOAD

    return packet(checksum(packet(0)))


def _reply_sequence(packet: bytes) -> int | None:
    """Return the sequence number of an answer to us; `packet` starts with its IPv4 header."""
    start = (packet[0] & 0xF) * 4
    if len(packet) < start + 8 + len(_PAYLOAD):
        return None
    kind, _code, _sum, identifier, sequence = struct.unpack_from("!BBHHH", packet, start)
    ours = kind == _ECHO_REPLY and identifier == _IDENTIFIER
    return sequence if ours and packet[start + 8 :] == _PAYLOAD else None


def ping_all(
    hosts: Sequence[LiveHost],
    *,
    between: Callable[[LiveHost, LiveHost], bool] = lambda source, destination: True,
    count: int = COUNT,
    interval_s: float = INTERVAL_S,
    timeout_s: float = 5.0,
) -> PingReport:
    """Send `count` requests (at most 16) from every host to every other, and collect the replies.

    `hosts` may hold several interfaces of a host; `between` says which pairs are tried.
    A reply may take `timeout_s` after the last request; returns as soon as none is missing.
    """
    if len(hosts) > _MAX_HOSTS or not 1 <= count <= 16:
        raise ValueError(f"at most {_MAX_HOSTS} hosts and 16 requests a pair")
    pairs = {
        (source, destination): PairResult(hosts[source].name, hosts[destination].name)
        for source in range(len(hosts))
        for destination in range(len(hosts))
        if source != destination and between(hosts[source], hosts[destination])
    }
    sent_at: dict[tuple[int, int, int], float] = {}
    with ExitStack() as stack:
        sockets = [
            stack.enter_context(
                namespace.open_socket(
                    host.pid, socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP
                )
            )
            for host in hosts
        ]
        for opened, host in zip(sockets, hosts, strict=True):
            # An interface sends from its own address, and takes only what comes back to it.
            opened.bind((host.address, 0))
        for number in range(count):
            for (source, destination), pair in pairs.items():
                sequence = destination << 4 | number
                sent_at[source, destination, number] = time.monotonic()
                with suppress(OSError):  # no route, say: sent and never answered
                    sockets[source].sendto(_request(sequence), (hosts[destination].address, 0))
                pair.sent += 1
            last = number == count - 1
            _collect(sockets, pairs, sent_at, timeout_s if last else interval_s, return_early=last)
    return PingReport(list(pairs.values()))


def _collect(
    sockets: Sequence[socket.socket],
    pairs: dict[tuple[int, int], PairResult],
    sent_at: dict[tuple[int, int, int], float],
    for_s: float,
    *,
    return_early: bool,
) -> None:
    """Take in replies for `for_s` seconds, or until all are there if `return_early`."""
    sources = {opened.fileno(): index for index, opened in enumerate(sockets)}
    poller = select.poll()
    for fd in sources:
        poller.register(fd, select.POLLIN)
    deadline = time.monotonic() + for_s
    while not (return_early and all(pair.lost == 0 for pair in pairs.values())):
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            return
        for fd, _ in poller.poll(left_s * 1000):
            source = sources[fd]
            packet = sockets[source].recv(2048)
            arrived = time.monotonic()
            sequence = _reply_sequence(packet)
            if sequence is None:
                continue
            destination, number = sequence >> 4, sequence & 0xF
            sent = sent_at.get((source, destination, number))
            if sent is not None:
                pairs[source, destination].round_trips.setdefault(number, arrived - sent)
