"""Rates, durations, sizes and lengths with their units. A number without a unit is refused.

All results are exact integers: bits per second, picoseconds (the simulator's unit, in which a
minimal frame at 400 Gb/s lasts 1680), bytes and metres. Decimal fractions such as 2.5Gbps are exact
too.
"""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction

_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-zµμ/]*)\s*")

RATE_UNITS = {"bps": 1, "kbps": 10**3, "Mbps": 10**6, "Gbps": 10**9, "Tbps": 10**12}
RATE_ALIASES = {unit.replace("bps", "b/s"): factor for unit, factor in RATE_UNITS.items()}
DURATION_UNITS = {"ps": 1, "ns": 10**3, "us": 10**6, "ms": 10**9, "s": 10**12}
DURATION_ALIASES = {"µs": 10**6, "μs": 10**6}
LENGTH_UNITS = {"m": 1, "km": 10**3}
SIZE_UNITS = {
    "B": 1,
    "kB": 10**3,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
}


def parse_rate(text: object) -> int:
    """Return bits per second of e.g. '400Gbps'. Raises ValueError saying what would be right."""
    return _parse(text, "rate", {**RATE_UNITS, **RATE_ALIASES}, RATE_UNITS, "400Gbps", least=1)


def parse_duration(text: object) -> int:
    """Return picoseconds of e.g. '500ns'; '0ns' is allowed. Raises ValueError."""
    units = {**DURATION_UNITS, **DURATION_ALIASES}
    return _parse(text, "duration", units, DURATION_UNITS, "500ns", least=0)


def parse_length(text: object) -> int:
    """Return metres of e.g. '100km'. Raises ValueError saying what would be right."""
    return _parse(text, "length", LENGTH_UNITS, LENGTH_UNITS, "100km", least=0)


def parse_size(text: object) -> int:
    """Return bytes of e.g. '16MB' (decimal) or '16MiB' (binary). Raises ValueError."""
    return _parse(text, "size", SIZE_UNITS, SIZE_UNITS, "16MB", least=1)


def _parse(
    text: object, what: str, units: dict[str, int], shown: dict[str, int], example: str, least: int
) -> int:
    choices = ", ".join(shown)
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        raise ValueError(f"a {what} is written as a number with a unit, for example {example}")
    match = _QUANTITY.fullmatch(str(text))
    if match is None:
        raise ValueError(f"{text!r} is not a {what}: write a number with a unit, as in {example}")
    number, unit = match.groups()
    if not unit:
        raise ValueError(f"{number} has no unit: write {number} with one of {choices}")
    if unit not in units:
        fitting = [name for name in units if name.lower() == unit.lower()]
        hint = f"; did you mean {fitting[0]!r}?" if fitting else f": use one of {choices}"
        raise ValueError(f"{unit!r} is not a unit of a {what}{hint}")
    value = Decimal(number) * units[unit]
    if value != int(value):
        raise ValueError(f"{text!r} is finer than the smallest unit, {next(iter(shown))}")
    if value < least:
        raise ValueError(f"a {what} must be at least {least} {next(iter(shown))}, not {text}")
    return int(value)


def format_rate(bps: int) -> str:
    """Return a rate in the largest unit that keeps it exact: 400000000000 -> '400Gbps'."""
    return _format(bps, RATE_UNITS)


def format_duration(ps: int) -> str:
    """Return a duration (picoseconds) in the largest unit that keeps it exact."""
    return _format(ps, DURATION_UNITS)


def show_duration(ps: int) -> str:
    """Return a duration (picoseconds), nine digits, in the largest unit of which there is one."""
    for unit, size in reversed(DURATION_UNITS.items()):
        if ps >= size:
            return f"{ps / size:.9g}{unit}"
    return f"{ps}ps"


def format_length(metres: int) -> str:
    """Return a length in kilometres where that is exact, in metres else."""
    return _format(metres, LENGTH_UNITS)


def format_size(size: int) -> str:
    """Return a size (bytes) in the largest decimal unit that keeps it exact."""
    return _format(size, {name: SIZE_UNITS[name] for name in ("B", "kB", "MB", "GB")})


def _format(value: int, units: dict[str, int]) -> str:
    best, factor = next(iter(units.items()))
    for unit, size in units.items():
        if value and value % size == 0:
            best, factor = unit, size
    return f"{value // factor}{best}"


def parse_share(value: object) -> int:
    """Return a share as 1/2^32: '20%', 0.2 or 1/5; more than 0 and at most 1.

    Raises ValueError, which says what would be right.
    """
    text = str(value).replace(" ", "")
    try:
        share = Fraction(text[:-1]) / 100 if text.endswith("%") else Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"{value!r} is not a ratio: use 20% or 0.2") from None
    if not 0 < share <= 1:
        raise ValueError(f"a share is more than 0% and at most 100%, not {value}")
    return int(share * (1 << 32))
