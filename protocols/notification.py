"""The fabric's one signal (docs/wire-formats.md), mirrored from p4src/include/notification.p4."""

from __future__ import annotations

import enum
from typing import Any, ClassVar

from scapy.contrib.roce import CNP_OPCODE, CNPPadding
from scapy.fields import BitEnumField, BitField, IPField
from scapy.packet import Packet

CELL_BYTES = 256


class NotificationType(enum.IntEnum):
    """What happened. NONE is what the 16 reserved bytes of a stock CNP read as."""

    NONE = 0
    CONGESTION = 1
    LINK_DOWN = 2
    LINK_UP = 3
    DEGRADED = 4
    PATH_QUALITY = 5


class Notification(Packet):
    """128 bits: in the reserved bytes of a CNP, or first in a UDP datagram."""

    name = "Notification"
    fields_desc: ClassVar[list[Any]] = [
        BitEnumField("type", 0, 4, {kind.value: kind.name for kind in NotificationType}),
        BitField("severity", 0, 4),
        BitField("hops", 0, 4),
        BitField("validity", 0, 4),
        BitField("switch_id", 0, 16),
        BitField("port", 0, 12),
        BitField("sequence", 0, 12),
        IPField("destination", "0.0.0.0"),
        BitField("destination_qp", 0, 24),
        BitField("queue", 0, 16),
    ]

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        """Everything behind the header belongs to the packet around it."""
        return b"", s


def notification_of(padding: CNPPadding) -> Notification:
    """Read a CNP's 16 reserved bytes as a notification."""
    return Notification(bytes(padding)[:16])


def as_cnp_padding(notification: Notification) -> CNPPadding:
    """Return a notification as the 16 reserved bytes of a CNP, for BTH(...) / padding."""
    return CNPPadding(bytes(notification))


__all__ = [
    "CELL_BYTES",
    "CNP_OPCODE",
    "Notification",
    "NotificationType",
    "as_cnp_padding",
    "notification_of",
]
