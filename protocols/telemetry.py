"""The shim that collects what switches write, mirrored from p4src/include/telemetry.p4.

    Ethernet | IPv4 | UDP to TELEMETRY_PORT | Telemetry | BTH | ...

docs/wire-formats.md says what the fields mean. The lengths of IPv4 and UDP count the shim; the ICRC
is that of the packet without it, which `without` returns.
"""

from __future__ import annotations

import enum
from typing import Any, ClassVar

from scapy.contrib.roce import BTH
from scapy.fields import BitEnumField, BitField, ByteField, FieldLenField, StrLenField
from scapy.layers.inet import UDP
from scapy.packet import Packet, bind_layers

from protocols.rocev2 import ROCE_V2_PORT

TELEMETRY_PORT = 4794
SHIM_BYTES = 4
VERSION = 0

_ETHERNET, _IPV4, _UDP = 14, 20, 8
_IP_LENGTH, _CHECKSUM = _ETHERNET + 2, _ETHERNET + 10
_PORT, _UDP_LENGTH = _ETHERNET + _IPV4 + 2, _ETHERNET + _IPV4 + 4
_SHIM = _ETHERNET + _IPV4 + _UDP


class TelemetryKind(enum.IntEnum):
    """Which way it goes: to the receiver, or back with an acknowledgement."""

    COLLECTS = 0
    RETURNED = 1


class Telemetry(Packet):
    """Between UDP and BTH: 32 bits, and `words` times 4 bytes that switches have written."""

    name = "Telemetry"
    fields_desc: ClassVar[list[Any]] = [
        BitField("version", VERSION, 4),
        BitField("cut", 0, 1),
        BitEnumField("kind", 0, 3, {kind.value: kind.name for kind in TelemetryKind}),
        FieldLenField("words", None, length_of="data", fmt="B", adjust=lambda _, n: n // 4),
        ByteField("hops", 0),
        ByteField("format", 0),
        StrLenField("data", b"", length_from=lambda packet: 4 * packet.words),
    ]


def has_telemetry(frame: bytes) -> bool:
    """Say whether an Ethernet frame of IPv4 without options is one of UDP to TELEMETRY_PORT."""
    ip = frame[_ETHERNET:]
    here = frame[12:14] == b"\x08\x00" and len(ip) >= _IPV4 + _UDP + SHIM_BYTES
    return here and (ip[0], ip[9], _get(frame, _PORT)) == (0x45, 17, TELEMETRY_PORT)


def shim_of(frame: bytes) -> Telemetry:
    """Return the shim of a frame that has one, with what is behind it. Raises ValueError."""
    if not has_telemetry(frame):
        raise ValueError(f"no UDP datagram to port {TELEMETRY_PORT}")
    end = _SHIM + SHIM_BYTES + 4 * frame[_SHIM + 1]
    if frame[_SHIM] >> 4 != VERSION or len(frame) < end:
        raise ValueError("a telemetry shim that is cut short, or of another version")
    return Telemetry(frame[_SHIM:end])


def without(frame: bytes) -> bytes:
    """Return a frame as it was before a card put a shim in. Raises ValueError: it has none."""
    size = len(bytes(shim_of(frame)))
    return _changed(frame[:_SHIM] + frame[_SHIM + size :], ROCE_V2_PORT, -size)


def with_shim(frame: bytes, shim: Telemetry) -> bytes:
    """Return a RoCEv2 frame with a shim in front of BTH; its ICRC stays."""
    return _changed(frame[:_SHIM] + bytes(shim) + frame[_SHIM:], TELEMETRY_PORT, len(bytes(shim)))


def appended(frame: bytes, record: bytes, *, format: int = 1) -> bytes:
    """Return a frame that collects as a switch passes it on that writes `record` into it."""
    shim = shim_of(frame)
    more = Telemetry(
        kind=shim.kind, hops=shim.hops + 1, format=format, data=record + bytes(shim.data)
    )
    return with_shim(without(frame), more)


def _get(frame: bytes, at: int) -> int:
    return int.from_bytes(frame[at : at + 2])


def _changed(frame: bytes, port: int, more: int) -> bytes:
    """Write port, lengths and IPv4 checksum of a frame that has become `more` bytes longer."""
    copy = bytearray(frame)
    for at, value in (
        (_IP_LENGTH, _get(frame, _IP_LENGTH) + more),
        (_PORT, port),
        (_UDP_LENGTH, _get(frame, _UDP_LENGTH) + more),
        (_CHECKSUM, 0),
    ):
        copy[at : at + 2] = value.to_bytes(2)
    total = sum(_get(bytes(copy), at) for at in range(_ETHERNET, _ETHERNET + _IPV4, 2))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    copy[_CHECKSUM : _CHECKSUM + 2] = (0xFFFF - total).to_bytes(2)
    return bytes(copy)


bind_layers(UDP, Telemetry, dport=TELEMETRY_PORT)
bind_layers(Telemetry, BTH)
