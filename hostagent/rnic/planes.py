"""Queue pairs whose interfaces are planes: what the card is told of them, and tells (rnic.h).

A plane is an interface of both ends that shares nothing with the others on the way: each has
congestion control of its own, and is lost and found again by itself.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

MISSES_MOST = 255


class PlaneUse(enum.IntEnum):
    """What a queue pair of several interfaces makes of them (enum rnic_plane_use)."""

    TURNS = 0
    SHARED = 1
    SINGLE = 2


@dataclass(frozen=True)
class PlaneConfig:
    """struct rnic_plane_config; times in ps.

    `misses` probes in a row without an answer make a plane lost; the first one leaves by a plane by
    which something was sent and nothing heard for `silence_ps`, each further one as much later. A
    plane that is lost is probed each `probe_ps`.
    """

    use: PlaneUse = PlaneUse.TURNS
    misses: int = 0
    silence_ps: int = 0
    probe_ps: int = 0

    def with_time_scale(self, scale: int) -> PlaneConfig:
        """Return the same slowed down by `scale`."""
        return replace(self, silence_ps=self.silence_ps * scale, probe_ps=self.probe_ps * scale)


NO_PLANES = PlaneConfig()
"""The interfaces are one device's lines."""


class PlaneState(enum.IntEnum):
    """Whether a plane is used (enum rnic_plane_state)."""

    UP = 0
    ASKED = 1
    LOST = 2
    DRAINED = 3


class PlaneLoss(enum.IntEnum):
    """By what it was found that a plane is lost (enum rnic_plane_loss)."""

    NONE = 0
    LINK = 1
    TOLD = 2
    SILENT = 3
    TIMEOUT = 4


@dataclass(frozen=True)
class PlaneStats:
    """struct rnic_plane_stats: one plane of a queue pair; times in ps, -1 for never."""

    state: PlaneState
    why: PlaneLoss
    losses: int
    sent_packets: int
    sent_bytes: int
    moved_packets: int
    outstanding: int
    probes_sent: int
    probes_answered: int
    rate_bps: int
    heard_at: int
    lost_at: int
    up_at: int
