"""The fabric's one signal (docs/wire-formats.md), mirrored from p4src/include/notification.p4."""

from __future__ import annotations

from typing import Any, ClassVar

from scapy.contrib.roce import CNP_OPCODE, CNPPadding
from scapy.fields import BitEnumField, BitField, IPField
from scapy.layers.inet import IP, UDP
from scapy.packet import Packet, Raw, bind_bottom_up, bind_top_down

from protocols.notification_types import NotificationType

CELL_BYTES = 256

RATE_UNIT_BPS = 1 << 16
"""What a rate of 16 bits counts in: its lower 12 bits times 2 to its upper 4."""
RATE_MOST = 0xFFF << 15

NOTIFICATION_PORT = 28791
"""The UDP port of notifications in datagrams."""
NEIGHBOURS = "224.0.0.254"
NEIGHBOURS_MAC = "01:00:5e:00:00:fe"
"""Whatever switch is at the other end of the link."""
SOURCE = "192.0.0.8"
"""The source address that every switch writes (RFC 7600); the header says which switch it is."""
NEIGHBOUR_TTL, HOST_TTL = 255, 64
NOTIFICATION_DSCP = 48


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
        """Leave everything behind the header to the packet around it."""
        return b"", s


def notification_of(padding: CNPPadding) -> Notification:
    """Read a CNP's 16 reserved bytes as a notification."""
    return Notification(bytes(padding)[:16])


def datagram(
    notification: Notification, *, to: str = NEIGHBOURS, body: bytes = b"", ttl: int | None = None
) -> Packet:
    """Return a notification as the datagram that a switch sends, from IPv4 on.

    `to`: a host, or the switch at the other end of the link. `ttl`: None for what a switch writes.
    """
    usual = NEIGHBOUR_TTL if to == NEIGHBOURS else HOST_TTL
    network = IP(
        src=SOURCE, dst=to, tos=NOTIFICATION_DSCP << 2, id=0, flags="DF", ttl=ttl or usual, proto=17
    )
    ports = UDP(sport=NOTIFICATION_PORT, dport=NOTIFICATION_PORT, chksum=0)
    whole = network / ports / notification.copy()
    return whole / Raw(body) if body else whole


def body_of(packet: Packet) -> bytes:
    """Return what follows the notification in its datagram."""
    return bytes(packet[Notification].payload)


def rate_units(rate: int) -> int:
    """Return what a rate of 16 bits is, in units of `RATE_UNIT_BPS`; 0: none is said."""
    return (rate & 0xFFF) << (rate >> 12)


def rate_of(units: int) -> int:
    """Return the largest rate of 16 bits that is not above so many units."""
    units = min(units, RATE_MOST)
    exponent = max(units.bit_length() - 12, 0)
    return exponent << 12 | units >> exponent


def as_cnp_padding(notification: Notification) -> CNPPadding:
    """Return a notification as the 16 reserved bytes of a CNP, for BTH(...) / padding."""
    return CNPPadding(bytes(notification))


bind_bottom_up(UDP, Notification, dport=NOTIFICATION_PORT)
bind_top_down(UDP, Notification, sport=NOTIFICATION_PORT, dport=NOTIFICATION_PORT)

__all__ = [
    "CELL_BYTES",
    "CNP_OPCODE",
    "HOST_TTL",
    "NEIGHBOURS",
    "NEIGHBOURS_MAC",
    "NEIGHBOUR_TTL",
    "NOTIFICATION_DSCP",
    "NOTIFICATION_PORT",
    "RATE_MOST",
    "RATE_UNIT_BPS",
    "SOURCE",
    "Notification",
    "NotificationType",
    "as_cnp_padding",
    "body_of",
    "datagram",
    "notification_of",
    "rate_of",
    "rate_units",
]
