"""The types of the fabric's one signal (docs/wire-formats.md), for who needs no scapy."""

from __future__ import annotations

import enum


class NotificationType(enum.IntEnum):
    """What happened. NONE is what the 16 reserved bytes of a stock CNP read as."""

    NONE = 0
    CONGESTION = 1
    LINK_DOWN = 2
    LINK_UP = 3
    DEGRADED = 4
    PATH_QUALITY = 5
    HEARTBEAT = 6
    PORT_STATE = 7
    QUEUE = 8
