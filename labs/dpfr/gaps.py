"""What the probes of all hosts have seen, put together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .probe import GAP, MISSING, SILENT

OVER = 3
"""Intervals of silence at the end after which a flow counts as cut off for good."""


@dataclass(frozen=True)
class Gaps:
    """Of every flow: its longest gap in ns, None if it was cut off to the end; what it lost."""

    longest_ns: Mapping[str, int | None]
    missing: int

    @classmethod
    def of(cls, programs: Iterable[Mapping[str, Any]], every_ns: int, slack_ns: int = 0) -> Gaps:
        """Read them off what programs counted. `slack_ns`: how late a run's end may come."""
        counted = {name: n for each in programs for name, n in each["counters"].items()}
        longest: dict[str, int | None] = {}
        for name, gap_ns in counted.items():
            kind, _, flow = name.partition(" ")
            if kind == GAP:
                is_over = counted.get(f"{SILENT} {flow}", 0) > OVER * every_ns + slack_ns
                longest[flow] = None if is_over else gap_ns
        missing = sum(n for name, n in counted.items() if name.startswith(MISSING))
        return cls(longest, missing)

    @property
    def blackout_us(self) -> float | None:
        """The longest gap of all flows; None if one of them never ended, or nothing was heard."""
        gaps = list(self.longest_ns.values())
        if not gaps or None in gaps:
            return None
        return max(gap for gap in gaps if gap is not None) / 1000

    @property
    def for_good(self) -> int:
        """How many flows were cut off to the end."""
        return sum(gap is None for gap in self.longest_ns.values())
