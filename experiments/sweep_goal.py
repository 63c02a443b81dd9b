"""What a sweep looks for: an objective, and constraints such as "peak_queue <= 16MB"."""

from __future__ import annotations

import operator
import re
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from topologies.units import (
    DURATION_ALIASES,
    DURATION_UNITS,
    RATE_ALIASES,
    RATE_UNITS,
    SIZE_UNITS,
    parse_duration,
    parse_rate,
    parse_size,
)

Number = int | float

_CONSTRAINT = re.compile(r"\s*(\S+?)\s*(<=|>=|==|<|>)\s*([^\s<>=].*?)\s*")
_COMPARE: dict[str, Callable[[Fraction, Fraction], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
}
_PARSERS: dict[str, Callable[[object], int]] = {
    "B": parse_size,
    "b/s": parse_rate,
    "ps": parse_duration,
}
# What a caller's own metric may count in: the kind, and how many of that kind's unit it is.
_UNITS: dict[str, tuple[str, int]] = {
    **{name: ("B", size) for name, size in SIZE_UNITS.items()},
    **{name: ("b/s", rate) for name, rate in (RATE_UNITS | RATE_ALIASES).items()},
    **{name: ("ps", time) for name, time in (DURATION_UNITS | DURATION_ALIASES).items()},
}


@dataclass(frozen=True)
class Objective:
    """A metric, of which the best point has most or least."""

    metric: str
    maximise: bool

    def better(self, one: Number, other: Number) -> bool:
        """Say whether `one` is better than `other`."""
        return one > other if self.maximise else one < other

    def __str__(self) -> str:
        return f"{'maximise' if self.maximise else 'minimise'} {self.metric}"


@dataclass(frozen=True)
class Constraint:
    """A bound on a metric, with its value as it was written and as the metric counts.

    Sizes count in bytes, rates in bits a second, times in picoseconds; a share may be in percent.
    """

    metric: str
    relation: str
    text: str
    bound: Fraction

    @classmethod
    def parse(cls, text: str) -> Constraint:
        """Read "NAME <= VALUE". Raises ValueError, which says what would be right."""
        match = _CONSTRAINT.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not a constraint: write it as 'peak_queue <= 16MB'")
        metric, relation, value = match.groups()
        return cls(metric, relation, value, _bound(value))

    def unit(self) -> str:
        """Return the unit that the value was given in: "B", "b/s", "ps", or "" for a number."""
        for unit, parse in _PARSERS.items():
            try:
                parse(self.text)
            except ValueError:
                continue
            return unit
        return ""

    def holds(self, value: Number | None, unit: str = "") -> bool:
        """Say whether a metric's value keeps to it; what has no value does not.

        `unit`: the value's own, such as "us" or "Gb/s". What counts in another kind of unit than
        the bound does not keep to it.
        """
        if value is None:
            return False
        exact = Fraction(str(value))  # as it is written: 0.95 is 95 %, and no binary fraction
        given = self.unit()
        if given and unit in _UNITS:
            kind, factor = _UNITS[unit]
            if kind != given:
                return False
            exact *= factor
        return _COMPARE[self.relation](exact, self.bound)

    def __str__(self) -> str:
        return f"{self.metric} {self.relation} {self.text}"


def _bound(text: str) -> Fraction:
    try:
        share = text.endswith("%")
        return Fraction(text.removesuffix("%").strip()) / (100 if share else 1)
    except (ValueError, ZeroDivisionError):
        pass
    for parse in _PARSERS.values():
        try:
            return Fraction(parse(text))
        except ValueError:
            continue
    raise ValueError(f"{text!r} is not a bound: write a number, or one with a unit such as 16MB")


def median(values: Sequence[Number | None]) -> Number | None:
    """Return the median over seeds; None where one of them has no value."""
    there = [value for value in values if value is not None]
    if not there or len(there) < len(values):
        return None
    middle = statistics.median(there)
    return int(middle) if middle == int(middle) and isinstance(there[0], int) else middle
