"""AllReduce in the network, on the wire: mirrored from p4src/modules/allreduce/types.p4.

docs/allreduce.md says what each field means.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from struct import pack, unpack_from
from typing import Any, ClassVar

from scapy.fields import BitEnumField, BitField
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw, bind_bottom_up, bind_top_down

ALLREDUCE_PORT = 28792
"""The UDP port that switches handle."""
PEER_PORT = 28793
"""The UDP port of datagrams between hosts, which are routed as any."""
NEIGHBOURS = "224.0.0.254"
NEIGHBOURS_MAC = "01:00:5e:00:00:fe"
"""Whatever switch is at the other end of the link."""
SOURCE = "192.0.0.8"
"""The source address that every switch writes (RFC 7600)."""
NEIGHBOUR_TTL, HOST_TTL = 255, 64
TREES = 8
"""The epoch's low bits select one."""
BIAS = 128
"""Of exponents; 0 on the wire: none."""
HEADER_BYTES = 16
CAPABLE = 2
"""ECN-capable, ECT(0): what workers send, so that switches can mark it."""


class AllReduceKind(IntEnum):
    """What a packet is."""

    CONTRIBUTION = 1
    RESULT = 2
    MOVE = 3
    BLOCK = 4
    PARTIAL = 5


class AllReduce(Packet):
    """The header in front of the integers."""

    name = "AllReduce"
    fields_desc: ClassVar[list[Any]] = [
        BitEnumField("kind", 1, 8, {kind.value: kind.name for kind in AllReduceKind}),
        BitField("unused", 0, 3),
        BitField("again", 0, 1),
        BitField("exponent_only", 0, 1),
        BitField("from_root", 0, 1),
        BitField("congestion", 0, 1),
        BitField("overflow", 0, 1),
        BitField("job", 0, 16),
        BitField("epoch", 0, 16),
        BitField("version", 0, 1),
        BitField("slot", 0, 15),
        BitField("chunk", 0, 32),
        BitField("exponent", 0, 8),
        BitField("reserved", 0, 8),
        BitField("lanes", 0, 16),
    ]

    @property
    def tree(self) -> int:
        """The tree that the epoch selects."""
        return int(self.epoch) % TREES


def lanes_of(packet: Packet) -> tuple[int, ...]:
    """Return the integers that a packet carries."""
    header = packet[AllReduce]
    return unpack_from(f">{header.lanes}i", bytes(header.payload))


def datagram(
    header: AllReduce, lanes: Sequence[int] = (), *, to: str, src: str, ttl: int = HOST_TTL
) -> Packet:
    """Return a packet from IPv4 on, with these signed integers and ECN-capable."""
    header = header.copy()
    header.lanes = len(lanes)
    ports = UDP(sport=ALLREDUCE_PORT, dport=ALLREDUCE_PORT, chksum=0)
    network = IP(src=src, dst=to, tos=CAPABLE, id=0, flags="DF", ttl=ttl, proto=17)
    whole = network / ports / header
    return whole / Raw(pack(f">{len(lanes)}i", *lanes)) if lanes else whole


def frame(
    header: AllReduce,
    lanes: Sequence[int] = (),
    *,
    src_mac: str,
    gateway_mac: str,
    src: str,
    gateway: str,
) -> Packet:
    """Return what a host sends to its gateway: `datagram`, in Ethernet."""
    return Ether(src=src_mac, dst=gateway_mac) / datagram(header, lanes, to=gateway, src=src)


def chunk_fields(chunk: int, slots: int) -> dict[str, int]:
    """Return the fields that say which chunk it is, where a job has so many slots."""
    return {"chunk": chunk, "slot": chunk % slots, "version": chunk // slots % 2}


bind_bottom_up(UDP, AllReduce, dport=ALLREDUCE_PORT)
bind_top_down(UDP, AllReduce, sport=ALLREDUCE_PORT, dport=ALLREDUCE_PORT)

__all__ = [
    "ALLREDUCE_PORT",
    "BIAS",
    "CAPABLE",
    "HEADER_BYTES",
    "HOST_TTL",
    "NEIGHBOURS",
    "NEIGHBOURS_MAC",
    "NEIGHBOUR_TTL",
    "PEER_PORT",
    "SOURCE",
    "TREES",
    "AllReduce",
    "AllReduceKind",
    "chunk_fields",
    "datagram",
    "frame",
    "lanes_of",
]
