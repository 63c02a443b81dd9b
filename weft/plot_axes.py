"""What figures of a result have in common: units, the axis of time, and nothing to draw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simulator.result_model import ResultError
from simulator.result_reader import ResultFolder

TIME_UNITS = ((10**12, "s"), (10**9, "ms"), (10**6, "µs"), (10**3, "ns"))
BYTE_UNITS = ((10**9, "GB"), (10**6, "MB"), (10**3, "kB"), (1, "B"))


class NothingToPlotError(ResultError):
    """A result has nothing of a topic."""


def nothing(folder: ResultFolder, what: str, why: str, remedy: str = "") -> NothingToPlotError:
    """Return the error that a result has none of a topic."""
    return NothingToPlotError(f"{folder.path}: no {what} to plot: {why}", remedy)


def unit_for(largest: float, units: Sequence[tuple[int, str]]) -> tuple[int, str]:
    """Return the largest unit in which the largest value is at least 1."""
    return next((unit for unit in units if largest >= unit[0]), units[-1])


def time_axis(axes: Any, folder: ResultFolder) -> float:
    """Label the axis of time; return the length of its unit in picoseconds."""
    size, unit = unit_for(folder.now_ps, TIME_UNITS)
    axes.set_xlabel(f"virtual time [{unit}]")
    axes.set_xlim(0, max(folder.now_ps, 1) / size)
    return float(size)
