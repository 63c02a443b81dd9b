"""Where a sweep looks: values of parameters, and the points made of them.

A point is a mapping of dotted paths to values as they would stand in a run file. Points are drawn
here and nowhere else, in decimal arithmetic: the same seed gives the same points everywhere.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from typing import Any

from topologies.units import (
    format_duration,
    format_length,
    format_rate,
    format_size,
    parse_duration,
    parse_length,
    parse_rate,
    parse_size,
)

Point = dict[str, Any]

DIGITS = 4
"""Significant digits of a value in a range: more would only be hard to read."""

_INDEX = re.compile(r"\[([0-9]+)\]")
_UNITS: tuple[tuple[Callable[[object], int], Callable[[int], str]], ...] = (
    (parse_rate, format_rate),
    (parse_duration, format_duration),
    (parse_size, format_size),
    (parse_length, format_length),
)
_EXACT = Context(prec=40, rounding=ROUND_HALF_EVEN)
_RANGE_KEYS = ("from", "to", "steps", "scale")


def parse_path(text: str) -> str:
    """Return a path with dots only: 'traffic[0].incast.to' -> 'traffic.0.incast.to'.

    Raises ValueError for one with an empty part.
    """
    path = _INDEX.sub(r".\1", text)
    if not all(path.split(".")):
        raise ValueError(f"{text!r} is not a path: write keys with dots between, transport.window")
    return path


@dataclass(frozen=True)
class Span:
    """A range of a quantity, ends included: a number, or rates, times, sizes with their units.

    `steps`: how many values a grid takes of it, evenly or, if `is_log`, by equal ratios.
    """

    low: Decimal
    high: Decimal
    is_log: bool
    steps: int | None
    is_whole: bool
    show: Callable[[int], str] | None  # None: a plain number

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Span:
        """Make one of {from: 1us, to: 1ms, steps: 5, scale: log}. Raises ValueError."""
        for key in given:
            if key not in _RANGE_KEYS:
                raise ValueError(f"unknown key {key!r}: a range has {', '.join(_RANGE_KEYS)}")
        if "from" not in given or "to" not in given:
            raise ValueError("a range has two ends: {from: 1us, to: 1ms}")
        scale, steps = given.get("scale", "linear"), given.get("steps")
        if scale not in ("linear", "log"):
            raise ValueError(f"'scale' is linear or log, not {scale!r}")
        if steps is not None and (type(steps) is not int or steps < 2):
            raise ValueError(f"'steps' is a whole number from 2, not {steps!r}")
        low, high, whole, show = _ends(given["from"], given["to"])
        if low >= high:
            raise ValueError(f"a range goes up: {given['from']} is not below {given['to']}")
        if scale == "log" and low <= 0:
            raise ValueError(f"a logarithmic range starts above 0, not at {given['from']}")
        return cls(low, high, scale == "log", steps, whole, show)

    def at(self, share: Decimal) -> object:
        """Return the value at a share of the range, 0 to 1, rounded to `DIGITS`."""
        with localcontext(_EXACT):
            if share <= 0:
                value = self.low
            elif share >= 1:
                value = self.high
            else:
                if self.is_log:
                    bottom, top = self.low.ln(), self.high.ln()
                    value = (bottom + share * (top - bottom)).exp()
                else:
                    value = self.low + share * (self.high - self.low)
                value = Context(prec=DIGITS, rounding=ROUND_HALF_EVEN).create_decimal(value)
                if self.is_whole:
                    value = value.to_integral_value(ROUND_HALF_EVEN)
                value = min(max(value, self.low), self.high)
        if self.show is not None:
            return self.show(int(value))
        return int(value) if self.is_whole else float(value)

    def values(self) -> list[object]:
        """Return what a grid takes, ends included; what rounds to the same stands there once."""
        assert self.steps is not None
        shares = [Decimal(i) / (self.steps - 1) for i in range(self.steps)]
        return list(dict.fromkeys(self.at(share) for share in shares))


def _ends(low: object, high: object) -> tuple[Decimal, Decimal, bool, Callable[[int], str] | None]:
    both = (low, high)
    if all(isinstance(end, int | float) and not isinstance(end, bool) for end in both):
        whole = all(isinstance(end, int) for end in both)
        return Decimal(str(low)), Decimal(str(high)), whole, None
    for parse, show in _UNITS:
        found = []
        for end in both:
            try:
                found.append(Decimal(parse(end)))
            except ValueError:
                break
        else:
            return found[0], found[1], True, show
    raise ValueError(f"{low} and {high} are no range: two numbers, or two of 100Mbps, 1us, 64kB")


@dataclass(frozen=True)
class Draw:
    """How many points are drawn, and with which seed.

    `stratified`: a latin hypercube: each parameter's range is cut into as many equal parts as there
    are points, and each part is used once (McKay, Beckman, Conover: Technometrics 21, 1979).
    """

    points: int
    seed: int
    stratified: bool


def grid(vary: Mapping[str, Sequence[object] | Span]) -> list[Point]:
    """Return every combination, the last parameter changing fastest."""
    choices = [each.values() if isinstance(each, Span) else list(each) for each in vary.values()]
    return [dict(zip(vary, values, strict=True)) for values in itertools.product(*choices)]


def draw(vary: Mapping[str, Sequence[object] | Span], how: Draw) -> list[Point]:
    """Return points drawn from ranges and lists; each parameter has a generator of its own.

    So that one more parameter does not change what is drawn for the others.
    """
    columns = []
    for path, choices in vary.items():
        generator = random.Random(f"{how.seed} {path}")
        # random() is a multiple of 2^-53: exact as a decimal.
        shares = [Decimal(generator.random()) for _ in range(how.points)]
        if how.stratified:
            parts = list(range(how.points))
            generator.shuffle(parts)
            with localcontext(_EXACT):
                pairs = zip(parts, shares, strict=True)
                shares = [(part + share) / how.points for part, share in pairs]
        columns.append([_chosen(choices, share) for share in shares])
    return [dict(zip(vary, values, strict=True)) for values in zip(*columns, strict=True)]


def _chosen(choices: Sequence[object] | Span, share: Decimal) -> object:
    if isinstance(choices, Span):
        return choices.at(share)
    return choices[min(int(share * len(choices)), len(choices) - 1)]
