"""How often a live view looks."""

from __future__ import annotations

from observe.errors import UsageError
from topologies.units import parse_duration

PS_PER_S = 10**12
SHORTEST_S = 0.1


def interval_seconds(text: str) -> float:
    """Return the seconds between two looks, of e.g. '1s'. Raises UsageError."""
    try:
        seconds = parse_duration(text) / PS_PER_S
    except ValueError as error:
        raise UsageError(f"--interval: {error}") from None
    if seconds < SHORTEST_S:
        raise UsageError(f"--interval: {text} is too short: at least {SHORTEST_S:g} s")
    return seconds
