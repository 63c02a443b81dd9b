"""UDP datagrams in Ethernet frames, as programs send and take them."""

from __future__ import annotations

import struct
from typing import NamedTuple

from hostagent.programs.program import Interface

ETHERNET = 14
HEADERS = ETHERNET + 20 + 8
"""Bytes in front of a datagram's payload, where IPv4 has no options."""

_IPV4, _UDP = 0x0800, 17
_DONT_FRAGMENT = 0x4000


class Datagram(NamedTuple):
    """A UDP datagram; addresses are integers."""

    source: int
    to: int
    source_port: int
    port: int
    dscp: int
    payload: bytes


def udp_frame(
    interface: Interface,
    to: int,
    source_port: int,
    port: int,
    payload: bytes,
    *,
    dscp: int = 0,
    ecn: int = 0,
    ttl: int = 64,
) -> bytes:
    """Return a frame by way of the interface's gateway. Its UDP checksum is 0, which means none.

    Raises ValueError for what has no room in its field.
    """
    try:
        ip = struct.pack(
            ">BBHHHBBHII",
            0x45,
            dscp << 2 | ecn,
            20 + 8 + len(payload),
            0,
            _DONT_FRAGMENT,
            ttl,
            _UDP,
            0,
            interface.ip,
            to,
        )
        udp = struct.pack(">HHHH", source_port, port, 8 + len(payload), 0)
    except struct.error as error:
        raise ValueError(f"no such datagram: {error}") from None
    total = sum(struct.unpack(">10H", ip))
    total = (total & 0xFFFF) + (total >> 16)
    checksum = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
    ethernet = interface.gateway_mac.to_bytes(6, "big") + interface.mac.to_bytes(6, "big")
    start = ethernet + struct.pack(">H", _IPV4)
    return start + ip[:10] + struct.pack(">H", checksum) + ip[12:] + udp + payload


def datagram_of(frame: bytes) -> Datagram | None:
    """Return the datagram in a frame; None where there is none, or a part of one."""
    if len(frame) < HEADERS or frame[12:14] != b"\x08\x00" or frame[ETHERNET] >> 4 != 4:
        return None
    udp = ETHERNET + 4 * (frame[ETHERNET] & 15)
    fragment = int.from_bytes(frame[20:22], "big") & 0x3FFF
    if frame[23] != _UDP or fragment or udp < ETHERNET + 20 or udp + 8 > len(frame):
        return None
    source_port, port, length = struct.unpack_from(">HHH", frame, udp)
    if length < 8 or udp + length > len(frame):
        return None
    source, to = struct.unpack_from(">II", frame, ETHERNET + 12)
    payload = frame[udp + 8 : udp + length]
    return Datagram(source, to, source_port, port, frame[ETHERNET + 1] >> 2, payload)
