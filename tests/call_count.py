"""What a piece of Python costs, in function calls: the same on every machine, busy or not."""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable


def calls(run: Callable[[], object]) -> int:
    """How many functions are called while it runs, those written in C included."""
    profile = cProfile.Profile()
    profile.runcall(run)
    return total_calls(profile)


def total_calls(profile: cProfile.Profile) -> int:
    """Return the calls that a finished profile has counted."""
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]
