"""Who chooses among a queue pair's UDP source ports; the rules are in core/path_choice.h."""

from __future__ import annotations

import enum


class PathKind(enum.IntEnum):
    """enum path_kind: packets take turns (NONE), or the sender chooses for each of them."""

    NONE = 0
    OBLIVIOUS = 1
    BITMAP = 2
    REPS = 3
    PLB = 4


DEFAULT_PAUSE_NS = {PathKind.REPS: 10_000_000, PathKind.PLB: 60_000_000_000}
"""PATH_FREEZE_NS and PATH_SUSPEND_NS: fabric time, which a run that is slowed down has to scale."""
