"""Times and metrics in words: with a unit in which they are easy to read."""

from __future__ import annotations

_TIMES = ((10**12, "s"), (10**9, "ms"), (10**6, "us"), (10**3, "ns"))
_SCALES = {
    "B": ((10**9, "GB"), (10**6, "MB"), (10**3, "kB"), (1, "B")),
    "b/s": ((10**12, "Tb/s"), (10**9, "Gb/s"), (10**6, "Mb/s"), (10**3, "kb/s"), (1, "b/s")),
}
_PLAIN = frozenset({"", "packets", "frames", "messages"})  # the metric's name says it


def show_time(ps: int) -> str:
    """Return a time with a unit in which it is easy to read."""
    for unit, name in _TIMES:
        if abs(ps) >= unit:
            return f"{ps / unit:.4g} {name}"
    return f"{ps} ps"


def scale_of(largest: float, unit: str) -> tuple[int, str]:
    """Return what an axis is divided by, and the unit's name, so that the largest is at least 1."""
    scales = _TIMES if unit == "ps" else _SCALES.get(unit, ((1, unit),))
    return next((each for each in scales if largest >= each[0]), scales[-1])


def show_value(value: float | None, unit: str) -> str:
    """Return a metric's value with a unit in which it is easy to read; "-" for none."""
    if value is None:
        return "-"
    if unit == "ps":
        return show_time(int(value))
    for size, name in _SCALES.get(unit, ()):
        if abs(value) >= size:
            return f"{value / size:.4g} {name}"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if unit in _PLAIN or not value else f"{text} {unit}"
