"""The word that senders ask in, mirrored from hostagent/include/telemetry.h, and what answers it.

The word is what follows a telemetry shim of format GRANTS. The sender's card writes it, switches
change it, the receiver returns it. A notification of type QUEUE says how long the queue takes to
drain that a packet met; its body names the packet. docs/wire-formats.md says what the fields mean.
"""

from __future__ import annotations

from typing import Any, ClassVar

from scapy.fields import BitField, FlagsField
from scapy.packet import Packet

from protocols.notification import Notification

GRANTS_FORMAT = 3
GRANTS_BYTES = 4
MORE, QUEUED, FIRST, LAST = 0x80, 0x40, 0x20, 0x10
"""Bits of the word's first byte."""

DRAINS_MOST_NS = (1 << 20) - 1


class Grants(Packet):
    """The word: 32 bits, of which 4 have a meaning."""

    name = "Grants"
    fields_desc: ClassVar[list[Any]] = [
        FlagsField("flags", 0, 4, ["LAST", "FIRST", "QUEUED", "MORE"]),
        BitField("reserved", 0, 28),
    ]

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        """Leave everything behind it to the packet around it."""
        return b"", s


class QueuedPacket(Packet):
    """The body of a notification of a queue: which packet met it."""

    name = "QueuedPacket"
    fields_desc: ClassVar[list[Any]] = [BitField("sequence", 0, 24), BitField("reserved", 0, 8)]

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        """Leave everything behind it to the packet around it."""
        return b"", s


def drains_ns(notification: Notification) -> int:
    """Return how long the queue takes to drain, in ns of the fabric, at most `DRAINS_MOST_NS`."""
    return int(notification.severity) << 16 | int(notification.queue)
