"""A learner's switch for labs answered in P4: entries by name, frames, and a virtual switch."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from softswitch import Switch
from softswitch.core import CoreConfig
from softswitch.p4runtime.names import Names
from softswitch.p4runtime.pipeline import Pipeline
from softswitch.p4runtime.protos import p4r

TCP, UDP, ICMP = 6, 17, 1
ROCE_PORT = 4791
MORE_FRAGMENTS = 1 << 13
ETHERTYPE_IPV4, ETHERTYPE_ARP = 0x0800, 0x0806

_IP = struct.Struct(">BBHHHBBHII")
PAYLOAD = 14 + _IP.size
"""Bytes of a frame before what IPv4 carries."""
ID = slice(18, 20)
"""IPv4's identification, which tells the packets of a test apart."""

DRAIN_NS = 10_000_000
"""By then everything has left, from any queue of these tests."""

Prefix = tuple[int, int]
"""An IPv4 address and its prefix length."""


@dataclass(frozen=True)
class Hop:
    """Where a packet goes next: the port that it leaves by, and the MAC address behind it."""

    port: int
    mac: int


@dataclass(frozen=True)
class Row:
    """A table entry: its keys and parameters by name, in the program's order."""

    table: str
    match: tuple[tuple[str, int | Prefix], ...]
    action: str
    params: tuple[tuple[str, int], ...]

    @property
    def command(self) -> str:
        """The entry as simple_switch_CLI reads it."""
        keys = " ".join(_shown(value) for _, value in self.match)
        params = " ".join(str(value) for _, value in self.params)
        return f"table_add {self.table} {self.action} {keys} => {params}"


def _shown(value: int | Prefix) -> str:
    if isinstance(value, int):
        return str(value)
    address, length = value
    return ".".join(str(byte) for byte in address.to_bytes(4)) + f"/{length}"


def forward(mac: int, hop: Hop) -> tuple[tuple[str, int], ...]:
    """Return the parameters of the starters' action `forward` on a switch with this MAC address."""
    return ("port", hop.port), ("src_mac", mac), ("dst_mac", hop.mac)


@dataclass(frozen=True)
class Output:
    """A packet that left the switch."""

    port: int
    frame: bytes


class VirtualSwitch:
    """A switch in virtual time that runs the learner's program with these entries."""

    def __init__(self, pipeline: Pipeline, entries: Sequence[Row], seed: int) -> None:
        """Start it. Raises UnknownName or WriteError if the program lacks a table or an action."""
        self.switch = Switch(CoreConfig(tick_ps=1000, queue_packets=1 << 16, seed=seed))
        self.switch.load(pipeline)
        self._entries: dict[object, Row] = {}
        self.program(entries)

    def program(self, entries: Iterable[Row]) -> None:
        """Write what turns the present entries into these."""
        names = self.switch.names
        new: dict[object, Row] = {(row.table, row.match): row for row in entries}
        updates = []
        for key, row in new.items():
            if self._entries.get(key) != row:
                kind = p4r.Update.MODIFY if key in self._entries else p4r.Update.INSERT
                updates.append(p4r.Update(type=kind, entity=_entity(names, row)))
        for key, row in self._entries.items():
            if key not in new:
                updates.append(p4r.Update(type=p4r.Update.DELETE, entity=_entity(names, row)))
        self.switch.write(updates)
        self._entries = new

    def send(self, frames: Sequence[tuple[int, bytes]]) -> list[list[Output]]:
        """Send frames by their ports, one each microsecond; return what left because of each."""
        found = []
        for port, frame in frames:
            at_ns = self.switch.now_ns + 1000
            self.switch.inject(port, frame, at_ns)
            outputs = self.switch.run_until(at_ns + 999)
            found.append([Output(each.port, each.packet) for each in outputs])
        return found

    def burst(self, frames: Sequence[tuple[int, bytes]]) -> list[Output]:
        """Send frames at one instant; return what left, in its order, once all of it has."""
        at_ns = self.switch.now_ns + 1000
        for port, frame in frames:
            self.switch.inject(port, frame, at_ns)
        outputs = self.switch.run_until(at_ns + DRAIN_NS)
        return [Output(each.port, each.packet) for each in outputs]

    def close(self) -> None:
        """Free the switch."""
        self.switch.close()


def _entity(names: Names, row: Row) -> p4r.Entity:
    entry = names.entry(row.table, dict(row.match), row.action, dict(row.params))
    return p4r.Entity(table_entry=entry)


# ---------------------------------------------------------------- frames


def checksum(header: bytes) -> int:
    """Return the Internet checksum of a header of even length."""
    total: int = sum(struct.unpack(f">{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


@dataclass(frozen=True)
class IPv4:
    """The fields of an IPv4 header that tests choose. `fragment`: flags and offset."""

    src: int
    dst: int
    protocol: int
    ttl: int = 64
    tos: int = 0
    id: int = 0
    fragment: int = 0

    def frame(self, dst_mac: int, src_mac: int, data: bytes) -> bytes:
        """Return an Ethernet frame with this header and its checksum."""
        ethernet = dst_mac.to_bytes(6) + src_mac.to_bytes(6) + ETHERTYPE_IPV4.to_bytes(2)
        fields = [0x45, self.tos, _IP.size + len(data), self.id, self.fragment]
        fields += [self.ttl, self.protocol, 0, self.src, self.dst]
        fields[7] = checksum(_IP.pack(*fields))
        return ethernet + _IP.pack(*fields) + data


def routed(frame: bytes, mac: int, hop: Hop, tos: int | None = None) -> bytes:
    """Return a frame as it must leave: MAC addresses, TTL, TOS if one is given, IPv4 checksum."""
    ip = bytearray(frame[14:PAYLOAD])
    ip[8] -= 1
    if tos is not None:
        ip[1] = tos
    ip[10:12] = bytes(2)
    ip[10:12] = checksum(bytes(ip)).to_bytes(2)
    return hop.mac.to_bytes(6) + mac.to_bytes(6) + frame[12:14] + bytes(ip) + frame[PAYLOAD:]


_FIELDS = (
    (6, "the destination MAC address"),
    (12, "the source MAC address"),
    (14, "the type"),
    (15, "version and length"),
    (16, "TOS"),
    (22, "length, identification or fragment"),
    (23, "TTL"),
    (24, "the protocol"),
    (26, "the IPv4 checksum"),
    (34, "an IPv4 address"),
)
"""Where fields of a frame end."""


def difference(right: bytes, came: bytes) -> str:
    """Say where a frame differs from what it must be; an empty string if it does not."""
    if len(came) != len(right):
        return f"it has {len(came)} bytes instead of {len(right)}"
    at = next((n for n, (x, y) in enumerate(zip(right, came, strict=True)) if x != y), None)
    if at is None:
        return ""
    name = next((name for end, name in _FIELDS if at < end), "the payload")
    return f"{name} (byte {at}) is {came[at]:#04x} instead of {right[at]:#04x}"
