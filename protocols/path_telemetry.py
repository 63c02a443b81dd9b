"""What switches write of a path into packets, mirrored from p4src/modules/path_telemetry.p4.

    HOPS        a record a switch, the last one first
    MOST_USED   one word for the whole path

docs/wire-formats.md says what the fields mean. What stands around them is `protocols.telemetry`'s.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any, ClassVar

from scapy.fields import BitField, ShortField
from scapy.packet import Packet

from protocols.notification import RATE_UNIT_BPS, rate_of, rate_units

HOP_BYTES = 12
HOPS_MOST = 5
"""Records that a receiver returns, those next to it."""
WORD_BYTES = 4
SENT_BYTES = 64
QUEUE_BYTES = 512
QUEUE_MOST = 0xFFFF
WRAPS = 1 << 24
USED_ONE = 1 << 13
"""`used` of a line that is used to the full, before which nothing waits."""
USED_MOST = 0xFFFF


class PathFormat(enum.IntEnum):
    """What the words behind the shim are."""

    HOPS = 1
    MOST_USED = 2


class PathHop(Packet):
    """One switch's record: 96 bits, in the units of the wire."""

    name = "PathHop"
    fields_desc: ClassVar[list[Any]] = [
        ShortField("hop", 0),
        ShortField("rate", 0),
        BitField("at", 0, 24),
        BitField("sent", 0, 24),
        ShortField("queue", 0),
    ]

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        """Leave everything behind it to the packet around it."""
        return b"", s

    @property
    def rate_bps(self) -> int:
        """The line's rate, in bits/s of the fabric."""
        return rate_units(self.rate) * RATE_UNIT_BPS


class PathUse(Packet):
    """The word for a whole path: 32 bits."""

    name = "PathUse"
    fields_desc: ClassVar[list[Any]] = [ShortField("path", 0), ShortField("used", 0)]

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        """Leave everything behind it to the packet around it."""
        return b"", s


def record(hop: int, rate_bps: int, at_ns: int, sent_bytes: int, queue_bytes: int) -> PathHop:
    """Return a switch's record of numbers in bits/s, ns and bytes, as it writes it."""
    return PathHop(
        hop=hop,
        rate=rate_of(rate_bps // RATE_UNIT_BPS),
        at=at_ns % WRAPS,
        sent=sent_bytes // SENT_BYTES % WRAPS,
        queue=min(queue_bytes // QUEUE_BYTES, QUEUE_MOST),
    )


def hops_of(data: bytes) -> list[PathHop]:
    """Return the records in what follows a shim of format HOPS, the last switch's first.

    A rest that is shorter than a record, as of telemetry that was cut, is left out.
    """
    whole = len(data) // HOP_BYTES * HOP_BYTES
    return [PathHop(data[at : at + HOP_BYTES]) for at in range(0, whole, HOP_BYTES)]


def path_number(hops: Iterable[int]) -> int:
    """Return the number of a path through these hops, in the order of the way."""
    number = 0
    for hop in hops:
        number = (number << 1 | number >> 15) & 0xFFFF ^ hop
    return number
