"""Frames of a port as a nanosecond pcap file, with payload and ICRC written out.

The engine carries a packet as its headers and the length and seed of a tail. Here the tail becomes
bytes, and where it ends a RoCEv2 packet, its last four bytes become the ICRC that a NIC would have
sent: it is computed only for packets whose bytes are needed.
"""

from __future__ import annotations

import heapq
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol, Self

import numpy as np

from protocols.rocev2 import ICRC_BYTES, ROCE_V2_PORT, icrc
from simulator.result_model import ResultError
from topologies.model import Endpoint, Topology

_MAGIC_NS = 0xA1B23C4D
_ETHERNET_LINK = 1
_SNAPLEN = 65535
_PS_PER_NS = 1000
_NS_PER_S = 10**9
_UDP = 17
_ROCE_LEAST = 14 + 20 + 8 + 12 + ICRC_BYTES


class TappedFrame(Protocol):
    """A row of `Engine.take_tapped`."""

    @property
    def at(self) -> int:
        """Picoseconds."""

    @property
    def node(self) -> int:
        """The engine's node."""

    @property
    def port(self) -> int:
        """Its port."""

    @property
    def data(self) -> bytes:
        """The bytes that are kept."""

    @property
    def tail_length(self) -> int:
        """How many follow."""

    @property
    def tail_seed(self) -> int:
        """What they are made of."""


def payload(seed: int, length: int) -> bytes:
    """Return the first bytes of a seed's tail: words of splitmix64, little endian (ws_payload)."""
    words = np.arange(1, (length + 7) // 8 + 1, dtype=np.uint64)
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + words * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return z.astype("<u8").tobytes()[:length]


def written_out(data: bytes, tail_length: int, tail_seed: int) -> bytes:
    """Return the whole frame. A RoCEv2 packet whose end is in the tail gets its ICRC."""
    if not tail_length:
        return data
    frame = data + payload(tail_seed, tail_length)
    if tail_length < ICRC_BYTES or not _is_roce(frame):
        return frame
    return frame[:-ICRC_BYTES] + icrc(frame).to_bytes(ICRC_BYTES, "little")


def _is_roce(frame: bytes) -> bool:
    """Say whether it is RoCEv2 in plain IPv4, untruncated."""
    return (
        len(frame) >= _ROCE_LEAST
        and frame[12:15] == b"\x08\x00\x45"
        and frame[23] == _UDP
        and int.from_bytes(frame[36:38], "big") == ROCE_V2_PORT
        and int.from_bytes(frame[16:18], "big") == len(frame) - 14
    )


class PortCapture:
    """A pcap file of what one port of node `node` receives and sends.

    Frames are written in order of time. Those that were sent may come late, by at most the link's
    delay: give that as `hold_ps`. Raises ResultError where the file can't be made.
    """

    def __init__(self, path: Path, node: int, port: int, hold_ps: int = 0) -> None:
        self.path = path
        self.node = node
        self.port = port
        self.frames = 0
        self._hold_ps = hold_ps
        self._newest = 0
        self._held: list[tuple[int, int, bytes, int, int]] = []
        try:
            self._file = path.open("wb")
        except OSError as error:
            raise ResultError(f"can't write {path}: {error.strerror}") from error
        self._file.write(struct.pack("<IHHiIII", _MAGIC_NS, 2, 4, 0, 0, _SNAPLEN, _ETHERNET_LINK))

    def write(self, rows: Iterable[TappedFrame]) -> None:
        """Take this port's frames out of tapped ones; others are left alone."""
        for row in rows:
            if row.node != self.node or row.port != self.port:
                continue
            self.frames += 1
            self._newest = max(self._newest, row.at)
            item = (row.at, self.frames, bytes(row.data), row.tail_length, row.tail_seed)
            heapq.heappush(self._held, item)
        self._release(self._newest - self._hold_ps)

    def close(self) -> None:
        """Write what was held back, and close the file."""
        if not self._file.closed:
            self._release(self._newest)
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _release(self, until_ps: int) -> None:
        while self._held and self._held[0][0] <= until_ps:
            at_ps, _, data, tail_length, tail_seed = heapq.heappop(self._held)
            frame = written_out(data, tail_length, tail_seed)
            seconds, nanoseconds = divmod(at_ps // _PS_PER_NS, _NS_PER_S)
            kept = frame[:_SNAPLEN]
            self._file.write(struct.pack("<IIII", seconds, nanoseconds, len(kept), len(frame)))
            self._file.write(kept)


def parse_port(text: str, topology: Topology) -> Endpoint:
    """Return the port that `--pcap` names: `s1:2`, `h1`, `h1:1`.

    Raises ResultError for a node or a port that the topology does not have.
    """
    name, colon, number = text.partition(":")
    known = topology.is_switch(name) or any(host.name == name for host in topology.hosts)
    if not known:
        raise ResultError(f"--pcap {text}: no node is called {name!r}", "write it as s1:2 or h1")
    ports = [port.number for port in topology.ports_of(name)]
    if not colon and not topology.is_switch(name):
        number = "0"
    if not number.isdecimal() or int(number) not in ports:
        shown = ", ".join(f"{name}:{port}" for port in ports)
        raise ResultError(f"--pcap {text}: {name} has no such port", f"one of {shown}")
    return Endpoint(name, int(number))
