"""Queue pairs whose interfaces are planes: what the card takes and reports of them (rnic.h).

A plane is an interface of both ends that shares nothing with the others on the way: each has
congestion control of its own, and is lost and found again by itself.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

MISSES_MOST = 255
FIRST_TURN = 0x100
"""A PlaneConfig's `first`: queue pairs begin with interfaces in turn of their numbers."""
FIRST_HASH = 0x101
"""A PlaneConfig's `first`: as a bond, by a hash of both ends' addresses and numbers."""


class PlaneUse(enum.IntEnum):
    """What a queue pair of several interfaces makes of them (enum rnic_plane_use)."""

    TURNS = 0
    SHARED = 1
    SINGLE = 2


@dataclass(frozen=True)
class PlaneConfig:
    """struct rnic_plane_config; times in ps. SHARED and SINGLE have fields of their own.

    `misses` probes in a row without an answer make a plane lost; the first one leaves by a plane by
    which something was sent and nothing heard for `silence_ps`, each further one as much later. A
    plane that is lost is probed each `probe_ps`.

    SINGLE begins with interface `first` (or FIRST_TURN, FIRST_HASH) and migrates after `tries`
    time-outs in a row (0: never) and, `by_link`, when its link goes down; `switch_ps` pass between
    that and the first packet by the other interface. It returns when the first one has been well
    for `return_ps` (0: never).
    """

    use: PlaneUse = PlaneUse.TURNS
    misses: int = 0
    silence_ps: int = 0
    probe_ps: int = 0
    first: int = 0
    tries: int = 0
    by_link: bool = False
    switch_ps: int = 0
    return_ps: int = 0

    def with_time_scale(self, scale: int) -> PlaneConfig:
        """Return the same slowed down by `scale`."""
        return replace(
            self,
            silence_ps=self.silence_ps * scale,
            probe_ps=self.probe_ps * scale,
            switch_ps=self.switch_ps * scale,
            return_ps=self.return_ps * scale,
        )


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
    window_bytes: int
    flight_bytes: int
    heard_at: int
    lost_at: int
    up_at: int

    def row(self, monotonic_ns: Callable[[int], int]) -> dict[str, Any]:
        """Return it for JSON: states by their names, times by `monotonic_ns`, None for never."""
        times = {name: getattr(self, name) for name in ("heard_at", "lost_at", "up_at")}
        return {
            **asdict(self),
            "state": self.state.name.lower(),
            "why": self.why.name.lower() if self.why else None,
            "rate_bps": self.rate_bps or None,
            **{name: None if at < 0 else monotonic_ns(at) for name, at in times.items()},
        }


class MigrationState(enum.IntEnum):
    """Whether a queue pair may migrate (enum rnic_migration_state)."""

    ARMED = 0
    REARM = 1
    MIGRATED = 2


class MigrationCause(enum.IntEnum):
    """Why a queue pair has migrated (enum rnic_migration_cause)."""

    NONE = 0
    LINK = 1
    TIMEOUT = 2
    PEER = 3
    DRAINED = 4
    USER = 5
    RETURN = 6


@dataclass(frozen=True)
class MigrationStats:
    """struct rnic_migration_stats: of a queue pair that uses one interface at a time.

    Times in ps, -1 for never.
    """

    state: MigrationState
    cause: MigrationCause
    interface: int
    alternate: int
    switching: bool
    migrations: int
    probes_sent: int
    probes_answered: int
    found_at: int
    migrated_at: int
