"""What scapy.contrib.roce lacks for tests: RETH, and a check of a received packet's ICRC.

RoCEv2 is InfiniBand's transport over UDP port 4791 (InfiniBand Architecture 1.x vol. 1, annex A17).
"""

from __future__ import annotations

import zlib
from typing import Any, ClassVar

from scapy.contrib.roce import BTH
from scapy.fields import XIntField, XLongField
from scapy.packet import Packet, bind_layers

ROCE_V2_PORT = 4791
ICRC_BYTES = 4

_ETHERNET = 14
_IPV4 = 20
_UDP = 8
# The ICRC starts with the 8 bytes of an InfiniBand local route header that isn't there, all ones.
_NO_LRH = b"\xff" * 8
# What routers may change, as offsets from the IPv4 header's start: TOS, TTL, IPv4 checksum, UDP
# checksum, and the byte of BTH with FECN, BECN and six reserved bits.
_MASKED = (1, 8, 10, 11, _IPV4 + 6, _IPV4 + 7, _IPV4 + _UDP + 4)


class RETH(Packet):
    """RDMA extended transport header: remote address, key and length of a write or read."""

    name = "RETH"
    fields_desc: ClassVar[list[Any]] = [
        XLongField("address", 0),
        XIntField("rkey", 0),
        XIntField("length", 0),
    ]


for _opcode in (0x06, 0x0A, 0x0B, 0x0C, 0x26, 0x2A, 0x2B):
    bind_layers(BTH, RETH, opcode=_opcode)


def icrc(frame: bytes) -> int:
    """Compute the ICRC of an Ethernet frame with a RoCEv2 packet in IPv4 without options.

    The frame must include the four bytes of an ICRC (of any value) and no Ethernet padding.
    Raises ValueError for a frame that is too short or has IPv4 options.
    """
    packet = bytearray(frame[_ETHERNET:-ICRC_BYTES])
    if len(packet) < _IPV4 + _UDP + 12:
        raise ValueError(f"{len(frame)} bytes are too few for a RoCEv2 packet")
    if packet[0] != 0x45:
        raise ValueError(f"first IPv4 byte is {packet[0]:#04x}: only headers of 20 bytes are known")
    for offset in _MASKED:
        packet[offset] = 0xFF
    return zlib.crc32(_NO_LRH + packet)


def icrc_is_valid(frame: bytes) -> bool:
    """Say whether a frame's last four bytes are its ICRC (least significant byte first)."""
    return icrc(frame) == int.from_bytes(frame[-ICRC_BYTES:], "little")
