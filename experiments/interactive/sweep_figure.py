"""A sweep as a figure: medians and their intervals over one parameter, a line for the others."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from experiments.drawing import COLOURS, STYLES, title
from experiments.interactive.errors import WeftError
from experiments.value_words import scale_of
from topologies.errors import did_you_mean

if TYPE_CHECKING:
    from experiments.interactive.sweep_result import SweepResult
    from experiments.statistics import Estimate
    from experiments.sweep_result import PointResult


def draw(result: SweepResult, figure: Any, metric: str, x: str | None) -> None:
    """Draw a metric over a parameter. Raises WeftError."""
    x = _parameter(result, x)
    lines: dict[str, list[tuple[Any, Estimate]]] = {}
    values: list[Any] = []
    for point in result.points:
        value = point.parameters.get(x)
        if value not in values:
            values.append(value)
        lines.setdefault(_others(result, point, x), []).append(
            (value, result.estimate(metric, point.number))
        )
    if len(lines) > len(COLOURS):
        raise WeftError(f"{len(lines)} lines can't be told apart: choose another x, or vary less")
    tops = [found.median or 0 for line in lines.values() for _, found in line]
    unit = result.raw.units[metric]
    scale, name = scale_of(max(map(abs, tops), default=0), unit)
    axes = figure.subplots()
    are_numbers = all(isinstance(value, int | float) for value in values)
    for number, (label, line) in enumerate(lines.items()):
        there = [(value, found) for value, found in line if found.median is not None]
        places = [value if are_numbers else values.index(value) for value, _ in there]
        if not are_numbers:  # side by side, so that intervals do not hide each other
            places = [at + (number - (len(lines) - 1) / 2) * 0.12 for at in places]
        axes.errorbar(
            places, [found.median / scale for _, found in there if found.median is not None],
            yerr=_whiskers([found for _, found in there], scale), color=COLOURS[number],
            linestyle=STYLES[number] if are_numbers else "none", marker="o", markersize=4,
            linewidth=1.4, capsize=3, label=label or None,
        )  # fmt: skip
    if not are_numbers:
        axes.set_xticks(range(len(values)), [value_text(value) for value in values])
        axes.set_xlim(-0.5, len(values) - 0.5)
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    axes.set_xlabel(x)
    axes.set_ylabel(f"{metric.replace('_', ' ')} [{name}]" if name else metric.replace("_", " "))
    title(axes, f"{metric.replace('_', ' ')}: median and 95 % interval")
    if len(lines) > 1:
        axes.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _parameter(result: SweepResult, x: str | None) -> str:
    """Return the parameter to draw over: the one given, or the first one with several values."""
    known = result.raw.spec.parameters
    if x is None:
        several = [path for path in known if len({_at(p, path) for p in result.points}) > 1]
        if not several:
            raise WeftError("nothing to draw over: no parameter has more than one value")
        return several[0]
    if x not in known:
        hint = did_you_mean(x, known) or f": there is {', '.join(known) or 'none'}"
        raise WeftError(f"no parameter {x!r} was varied{hint}")
    return x


def _others(result: SweepResult, point: PointResult, x: str) -> str:
    """Return a line's label: what the other parameters are, of those with several values."""
    several = [
        path
        for path in result.raw.spec.parameters
        if path != x and len({_at(each, path) for each in result.points}) > 1
    ]
    return ", ".join(f"{path.rpartition('.')[2]} {_at(point, path)}" for path in several)


def _at(point: PointResult, path: str) -> str:
    return value_text(point.parameters.get(path))


def value_text(value: Any) -> str:
    """Return a parameter's value as a table shows it."""
    return value if isinstance(value, str) else json.dumps(value)


def _whiskers(found: list[Estimate], scale: float) -> list[list[float]] | None:
    """Return how far the intervals reach below and above; None where there are none."""
    below, above = [], []
    for each in found:
        if each.median is None or each.low is None or each.high is None:
            return None
        below.append(max(0.0, (each.median - each.low) / scale))
        above.append(max(0.0, (each.high - each.median) / scale))
    return [below, above]
