"""What scapy.contrib.roce lacks: extended headers behind BTH, and a check of a packet's ICRC.

RoCEv2 is InfiniBand's transport over UDP port 4791 (InfiniBand Architecture 1.x vol. 1, annex A17).
`Ether(frame)` dissects every packet that the endpoint sends: RETH, immediate data, AETH (scapy's
own), and Weft's bitmap behind a NAK (docs/wire-formats.md); what acknowledgements say of paths is
`path_echo`'s. A payload includes its pad bytes.
"""

from __future__ import annotations

import enum
import zlib
from typing import Any, ClassVar

from scapy.contrib.roce import AETH, BTH
from scapy.fields import (
    BitField,
    ByteField,
    FieldListField,
    IntField,
    PacketListField,
    ShortField,
    XBitField,
    XIntField,
    XLongField,
)
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


class Opcode(enum.IntEnum):
    """BTH's opcodes of a reliable connection, and the CNP's."""

    SEND_FIRST = 0x00
    SEND_MIDDLE = 0x01
    SEND_LAST = 0x02
    SEND_LAST_IMM = 0x03
    SEND_ONLY = 0x04
    SEND_ONLY_IMM = 0x05
    WRITE_FIRST = 0x06
    WRITE_MIDDLE = 0x07
    WRITE_LAST = 0x08
    WRITE_LAST_IMM = 0x09
    WRITE_ONLY = 0x0A
    WRITE_ONLY_IMM = 0x0B
    READ_REQUEST = 0x0C
    READ_FIRST = 0x0D
    READ_MIDDLE = 0x0E
    READ_LAST = 0x0F
    READ_ONLY = 0x10
    ACK = 0x11
    CNP = 0x81


class Syndrome(enum.IntEnum):
    """AETH's syndromes that the endpoint sends; RNR NAKs are RNR plus their timer's code."""

    ACK = 0x1F  # and no limit on requests
    RNR = 0x20
    SEQUENCE_ERROR = 0x60
    INVALID_REQUEST = 0x61
    REMOTE_ACCESS = 0x62
    REMOTE_OPERATION = 0x63


class RETH(Packet):
    """RDMA extended transport header: remote address, key and length of a write or read."""

    name = "RETH"
    fields_desc: ClassVar[list[Any]] = [
        XLongField("address", 0),
        XIntField("rkey", 0),
        XIntField("length", 0),
    ]

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        """Parse immediate data where the opcode announces it."""
        below = self.underlayer
        if isinstance(below, BTH) and below.opcode & 0x1F == Opcode.WRITE_ONLY_IMM:
            return ImmDt
        return super().guess_payload_class(payload)


class ImmDt(Packet):
    """Immediate data: four bytes that the receiver finds with its completion."""

    name = "ImmDt"
    fields_desc: ClassVar[list[Any]] = [XIntField("immediate", 0)]


class NakBitmap(Packet):
    """What has arrived beyond a gap, behind the AETH of a PSN sequence NAK (Weft's own)."""

    name = "NakBitmap"
    fields_desc: ClassVar[list[Any]] = [
        ByteField("reserved", 0),
        BitField("base", 0, 24),
        XBitField("bits", 0, 128),
    ]

    @classmethod
    def dispatch_hook(cls, _pkt: bytes | None = None, *args: Any, **kargs: Any) -> type[Packet]:
        """Tell a bitmap from what is said of paths or planes by its first two bits."""
        if not _pkt or not _pkt[0] & 0xC0:
            return cls
        return PathEcho if _pkt[0] & 0x80 else PlaneEcho

    def arrived(self) -> list[int]:
        """Return the PSNs whose bits are set, in order."""
        return [(self.base + i) & 0xFFFFFF for i in range(128) if self.bits >> (127 - i) & 1]


class PathHeard(Packet):
    """A packet that has come: its UDP source port, and whether it was marked (CE)."""

    name = "PathHeard"
    fields_desc: ClassVar[list[Any]] = [
        ShortField("port", 0),
        BitField("marked", 0, 1),
        BitField("reserved", 0, 15),
    ]

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        """Leave what follows to the next one."""
        return b"", s


class PathEcho(Packet):
    """By which source ports packets have come, behind an acknowledgement's AETH (Weft's own)."""

    name = "PathEcho"
    fields_desc: ClassVar[list[Any]] = [
        BitField("paths", 1, 1),
        BitField("count", 0, 7),
        BitField("reserved", 0, 24),
        PacketListField("heard", [], PathHeard, count_from=lambda packet: packet.count),
    ]

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        """Parse the bitmap that may follow in a NAK."""
        below = self.underlayer
        if isinstance(below, AETH) and below.syndrome == Syndrome.SEQUENCE_ERROR:
            return NakBitmap
        return super().guess_payload_class(payload)


class PlaneEcho(Packet):
    """How many packets have come by each plane, behind an acknowledgement's AETH (Weft's own)."""

    name = "PlaneEcho"
    fields_desc: ClassVar[list[Any]] = [
        BitField("paths", 0, 1),
        BitField("planes", 1, 1),
        BitField("count", 0, 6),
        ByteField("collected", 0),
        BitField("reserved", 0, 16),
        FieldListField("come", [], IntField("", 0), count_from=lambda packet: packet.count),
    ]

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        """Parse the bitmap of early packets that may follow, in acknowledgements and NAKs alike."""
        return NakBitmap if len(payload) == 20 else super().guess_payload_class(payload)


def plane_echo(packet: Packet) -> PlaneEcho | None:
    """Return what an acknowledgement says of planes, with its bitmap behind it; None: nothing."""
    if packet[BTH].opcode != Opcode.ACK:
        return None
    payload = bytes(packet[AETH].payload)
    return PlaneEcho(payload) if payload and payload[0] & 0xC0 == 0x40 else None


def path_echo(packet: Packet) -> PathEcho | None:
    """Return what an acknowledgement says of paths, with a NAK's bitmap behind it; None: nothing.

    Not bound to AETH, because READ responses have that, too, and then their payload.
    """
    if packet[BTH].opcode != Opcode.ACK:
        return None
    payload = bytes(packet[AETH].payload)
    return PathEcho(payload, _underlayer=packet[AETH]) if payload and payload[0] & 0x80 else None


for _transport in (0x00, 0x20):
    for _opcode in (Opcode.WRITE_FIRST, Opcode.WRITE_ONLY, Opcode.WRITE_ONLY_IMM):
        bind_layers(BTH, RETH, opcode=_transport + _opcode)
    for _opcode in (Opcode.SEND_LAST_IMM, Opcode.SEND_ONLY_IMM, Opcode.WRITE_LAST_IMM):
        bind_layers(BTH, ImmDt, opcode=_transport + _opcode)
bind_layers(BTH, RETH, opcode=int(Opcode.READ_REQUEST))
for _opcode in (Opcode.READ_FIRST, Opcode.READ_LAST, Opcode.READ_ONLY):
    bind_layers(BTH, AETH, opcode=int(_opcode))
bind_layers(AETH, NakBitmap, syndrome=int(Syndrome.SEQUENCE_ERROR))


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
