"""Flows that are drawn, their packets, and how a packet has to leave."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from random import Random

from .control_plane import Hop, Leaf

TCP, UDP, ICMP = 6, 17, 1
MAIN = 1
"""The group of all ways that what is sent takes, if nothing else is said."""
MORE_FRAGMENTS = 1 << 13
ETHERTYPE_ARP = 0x0806

_IP = struct.Struct(">BBHHHBBHII")
_SERIAL = struct.Struct(">I")
HEADERS = 14 + _IP.size


@dataclass(frozen=True)
class Flow:
    """Who sends to whom: what all packets of a flow have alike. `port`: by which it comes in."""

    port: int
    src: int
    dst: int
    protocol: int
    src_port: int
    dst_port: int


@dataclass(frozen=True)
class Packet:
    """One that is sent: when it comes, in ticks, by which port, and what."""

    at: int
    port: int
    frame: bytes


def checksum(header: bytes) -> int:
    """Return the Internet checksum of a header of even length."""
    total: int = sum(struct.unpack(f">{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def routed(frame: bytes, leaf: Leaf, hop: Hop) -> bytes:
    """Return a frame as it leaves the switch: MAC addresses, TTL, IPv4 checksum."""
    ip = bytearray(frame[14:HEADERS])
    ip[8] -= 1
    ip[10:12] = bytes(2)
    ip[10:12] = checksum(bytes(ip)).to_bytes(2)
    return hop.mac.to_bytes(6) + leaf.mac.to_bytes(6) + frame[12:14] + bytes(ip) + frame[HEADERS:]


def serial(frame: bytes) -> bytes:
    """Return what tells a packet from all others, as it comes and as it leaves."""
    return frame[HEADERS + 4 : HEADERS + 8]


def backwards(flow: Flow, port: int) -> Flow:
    """Return the flow of the answers, which come in by `port`."""
    return replace(
        flow, port=port, src=flow.dst, dst=flow.src,
        src_port=flow.dst_port, dst_port=flow.src_port,
    )  # fmt: skip


class Sender:
    """Draws flows of a leaf's hosts, and their packets, each with a number of its own."""

    def __init__(self, leaf: Leaf, random: Random) -> None:
        self.leaf, self.random = leaf, random
        self._serial = 0

    def flow(self, group: int = MAIN, protocol: int | None = None) -> Flow:
        """Draw a flow from a host here to one behind a group."""
        random = self.random
        address, hop = random.choice(self.leaf.hosts)
        prefix, length = self.leaf.group(group).prefixes[0]
        dst = prefix | random.randrange(1, 1 << 32 - length)
        if protocol is None:
            protocol = random.choice((TCP, UDP))
        ports = random.sample(range(1, 1 << 16), 2)
        return Flow(hop.port, address, dst, protocol, *ports)

    def flows(self, count: int, group: int = MAIN) -> list[Flow]:
        """Draw several."""
        return [self.flow(group) for _ in range(count)]

    def packet(self, flow: Flow, at: int, *, fragment: int = 0, ttl: int = 0) -> Packet:
        """Draw the next packet of a flow. `fragment`: IPv4's flags and offset."""
        random = self.random
        self._serial += 1
        ports = struct.pack(">HH", flow.src_port, flow.dst_port)
        data = _SERIAL.pack(self._serial) + random.randbytes(random.randrange(8, 200))
        rest = ports + data
        ttl = ttl or random.randrange(2, 256)
        fields = [0x45, random.randrange(256), 20 + len(rest), random.randrange(1 << 16), fragment]
        fields += [ttl, flow.protocol, 0, flow.src, flow.dst]
        fields[7] = checksum(_IP.pack(*fields))
        mac = self.leaf.mac.to_bytes(6) + random.randrange(1, 1 << 40).to_bytes(6)
        return Packet(at, flow.port, mac + b"\x08\x00" + _IP.pack(*fields) + rest)

    def arp(self, flow: Flow, at: int) -> Packet:
        """Draw what is no IPv4: an ARP request of the flow's source, as far as a switch looks."""
        frame = self.packet(flow, at).frame
        return Packet(at, flow.port, frame[:12] + ETHERTYPE_ARP.to_bytes(2) + frame[14:])
