"""AllReduce's packets as tests handle them: quick to write and to read, many thousand times."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace

from protocols.allreduce import (
    ALLREDUCE_PORT,
    CAPABLE,
    HOST_TTL,
    AllReduceKind,
)

HEADERS = 14 + 20 + 8
_OURS = struct.Struct(">BBHHHIBBH")
OVERFLOW, CONGESTION, FROM_ROOT, EXPONENT_ONLY, AGAIN = 1, 2, 4, 8, 16
CONGESTED = 3  # ECN: some queue was too long


@dataclass(frozen=True)
class Message:
    """A packet's AllReduce header and lanes; `ecn` of its IPv4 header.

    `workers`: of a partial, a bit a rank.
    """

    kind: AllReduceKind
    job: int = 1
    epoch: int = 0
    chunk: int = 0
    slot: int = 0
    version: int = 0
    lanes: tuple[int, ...] = ()
    exponent: int = 0
    flags: int = 0
    ecn: int = CAPABLE
    workers: int = 0

    def of_chunk(self, chunk: int, slots: int) -> Message:
        """Return it with what says that it is about a chunk."""
        return replace(self, chunk=chunk, slot=chunk % slots, version=chunk // slots % 2)


def packed(message: Message, lanes_said: int | None = None) -> bytes:
    """Return the AllReduce header and lanes; `lanes_said`: another number of them in the header."""
    where = message.version << 15 | message.slot
    said = len(message.lanes) if lanes_said is None else lanes_said
    header = _OURS.pack(
        message.kind, message.flags, message.job, message.epoch, where, message.chunk,
        message.exponent, 0, said,
    )  # fmt: skip
    if message.kind == AllReduceKind.PARTIAL:
        header += message.workers.to_bytes(8, "big")
    return header + struct.pack(f">{len(message.lanes)}i", *message.lanes)


def frame(message: Message, host: int = 1, payload: bytes | None = None) -> bytes:
    """Return what a host sends: to the gateway of its port. `payload`: behind UDP, if given."""
    ours = packed(message) if payload is None else payload
    address = (10 << 24 | host).to_bytes(4, "big")
    ethernet = gateway_mac(host) + mac(host) + b"\x08\x00"
    ip = struct.pack(
        ">BBHHHBBH4s4s", 0x45, message.ecn, 28 + len(ours), 0, 0x4000, HOST_TTL, 17, 0, address,
        gateway(host),
    )  # fmt: skip
    ip = ip[:10] + checksum(ip).to_bytes(2, "big") + ip[12:]
    udp = struct.pack(">HHHH", ALLREDUCE_PORT, ALLREDUCE_PORT, 8 + len(ours), 0)
    return ethernet + ip + udp + ours


def message_of(data: bytes) -> Message:
    """Read a frame; whatever is wrong with lengths or checksums fails."""
    assert data[12:15] == b"\x08\x00\x45"
    assert checksum(data[14:34]) == 0
    length = int.from_bytes(data[16:18], "big")
    ports = struct.unpack(">HHHH", data[34:42])
    assert ports == (ALLREDUCE_PORT, ALLREDUCE_PORT, length - 20, 0)
    assert len(data) == length + 14
    kind, flags, job, epoch, where, chunk, exponent, _, count = _OURS.unpack_from(data, HEADERS)
    size = HEADERS + _OURS.size
    workers = 0
    if kind == AllReduceKind.PARTIAL:
        workers = int.from_bytes(data[size : size + 8], "big")
        size += 8
    lanes = struct.unpack_from(f">{count}i", data, size)
    assert len(data) == size + 4 * count
    version, slot = where >> 15, where & 0x7FFF
    return Message(
        AllReduceKind(kind), job, epoch, chunk, slot, version, lanes, exponent, flags, data[15] & 3,
        workers,
    )  # fmt: skip


def checksum(header: bytes) -> int:
    """Return the Internet checksum of a header of even length."""
    total: int = sum(struct.unpack(f">{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def mac(host: int) -> bytes:
    """Return a host's MAC address."""
    return bytes.fromhex("0200") + host.to_bytes(4, "big")


def gateway_mac(host: int) -> bytes:
    """Return the MAC address that a host's gateway has."""
    return bytes.fromhex("0201") + host.to_bytes(4, "big")


def gateway(host: int) -> bytes:
    """Return the address that a host's gateway has."""
    return (10 << 24 | 254 << 16 | host).to_bytes(4, "big")


def with_ecn(data: bytes, ecn: int) -> bytes:
    """Return a frame with another ECN field, as a switch's queue would mark it."""
    ip = data[14:15] + bytes([data[15] & 0xFC | ecn]) + data[16:24] + b"\0\0" + data[26:34]
    return data[:14] + ip[:10] + checksum(ip).to_bytes(2, "big") + ip[12:] + data[34:]


def wrapped(lanes: Sequence[int]) -> tuple[int, ...]:
    """Return numbers as int32 hold them."""
    return tuple((lane + (1 << 31)) % (1 << 32) - (1 << 31) for lane in lanes)
