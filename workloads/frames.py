"""The frames of a packet script: bytes as given, or Ethernet, IPv4 and UDP from a few fields."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from topologies.model import Interface, Topology
from workloads.check import ETHERNET, UDP_FRAME
from workloads.model import ScriptPacket
from workloads.placement import find_interface
from workloads.randomness import Random
from workloads.schema import ScriptEntry, UdpFields


def script_packets(topology: Topology, entry: ScriptEntry, number: int) -> Iterator[ScriptPacket]:
    """Yield the packets of one entry; `number` makes its payload distinct."""
    source = find_interface(topology, entry.source, lambda _: None)
    assert source is not None
    if entry.to is None:
        data, tail = entry.frame(), 0
    else:
        target = find_interface(topology, entry.to, lambda _: None)
        assert target is not None and entry.bytes is not None
        data, tail = udp_header(topology, source, target, entry), entry.bytes - UDP_FRAME
    for n in range(entry.times):
        at_ps = entry.at + n * (entry.every or 0)
        seed = Random(0, "script", number, n).word() if tail else 0
        yield ScriptPacket(at_ps, source.end, data, tail, seed)


def udp_header(
    topology: Topology, source: Interface, target: Interface, entry: ScriptEntry
) -> bytes:
    """Return Ethernet, IPv4 and UDP headers for a frame of `entry.bytes`; no UDP checksum."""
    assert entry.bytes is not None
    udp = entry.udp or UdpFields()
    gateway = topology.switch(source.switch).mac
    length = entry.bytes - ETHERNET
    ip = bytearray(
        struct.pack(
            "!BBHHHBBH4s4s",
            0x45,
            entry.dscp << 2,
            length,
            0,
            0x4000,  # don't fragment
            entry.ttl,
            17,
            0,
            source.address.ip.packed,
            target.address.ip.packed,
        )
    )
    ip[10:12] = _checksum(bytes(ip)).to_bytes(2, "big")
    ethernet = _mac(gateway) + _mac(source.mac) + b"\x08\x00"
    return ethernet + bytes(ip) + struct.pack("!HHHH", udp.sport, udp.dport, length - 20, 0)


def _mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def _checksum(header: bytes) -> int:
    total: int = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
