"""What figures of a result have in common: units, the axis of time, and nothing to draw."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from experiments.drawing import COLOURS, STYLES, drawing
from experiments.errors import LabError
from experiments.figures.choice import EVERYTHING, Choice
from observe.errors import UsageError
from simulator.result_model import ResultError
from simulator.result_reader import ResultFolder

TIME_UNITS = ((10**12, "s"), (10**9, "ms"), (10**6, "µs"), (10**3, "ns"))
BYTE_UNITS = ((10**9, "GB"), (10**6, "MB"), (10**3, "kB"), (1, "B"))

_MOSTLY = 0.8  # of a run: if all is over before that, the axis of time ends there


class NothingToPlotError(ResultError):
    """A result has nothing of a topic."""


def nothing(folder: ResultFolder, what: str, why: str, remedy: str = "") -> NothingToPlotError:
    """Return the error that a result has none of a topic."""
    return NothingToPlotError(f"{folder.path}: no {what} to plot: {why}", remedy)


def unit_for(largest: float, units: Sequence[tuple[int, str]]) -> tuple[int, str]:
    """Return the largest unit in which the largest value is at least 1."""
    return next((unit for unit in units if largest >= unit[0]), units[-1])


@contextmanager
def figure_file(path: Path, caption: str) -> Iterator[Any]:
    """Give a figure to draw on, and write it with its caption when the block ends.

    Raises ResultError where the file can't be written.
    """
    try:
        with drawing(path, caption) as figure:
            yield figure
    except LabError as error:
        raise ResultError(str(error), error.remedy) from error


def span_ps(folder: ResultFolder, choice: Choice = EVERYTHING) -> tuple[int, int]:
    """Return the time that is drawn: the window, else until nothing moves any more, or the end.

    Raises UsageError where the window begins after the run's end.
    """
    now_ps = max(folder.now_ps, 1)
    if choice.window is not None:
        start, stop = choice.window
        if start >= now_ps:
            size, unit = unit_for(now_ps, TIME_UNITS)
            raise UsageError(f"--window: {folder.path} ended at {now_ps / size:.4g} {unit}")
        return start, _to_sample(folder, stop)
    last_ps = max(
        (_latest(folder, name, column) for name, column in (("links", "at_ps"), ("jobs", "end_ps")))
    )
    return 0, _to_sample(folder, last_ps) if 0 < last_ps < _MOSTLY * now_ps else now_ps


def _to_sample(folder: ResultFolder, at_ps: int) -> int:
    """Return the next time at which samples were taken; the last one is the run's end."""
    sample_ps = max(1, folder.sample_ps)
    return min(-(-at_ps // sample_ps) * sample_ps, max(folder.now_ps, 1))


def _latest(folder: ResultFolder, name: str, column: str) -> int:
    if not folder.has(name) or not folder.rows(name):
        return 0
    values = folder.table(name, [column])[column].drop_null()
    return int(values.to_numpy().max(initial=0))


def time_axis(axes: Any, folder: ResultFolder, choice: Choice = EVERYTHING) -> float:
    """Label the axis of time; returns the length of its unit in picoseconds."""
    return time_axis_of(axes, span_ps(folder, choice), folder.now_ps, choice)


def time_axis_of(axes: Any, span: tuple[int, int], now_ps: int, choice: Choice) -> float:
    """Do the same for a span of time that several results share."""
    start, stop = span
    size, unit = unit_for(stop, TIME_UNITS)
    over = choice.window is None and stop < now_ps
    axes.set_xlabel(f"virtual time [{unit}]" + (": afterwards nothing moves" if over else ""))
    axes.set_xlim(start / size, stop / size)
    return float(size)


def legend_beside(axes: Any, *, reverse: bool = False, **options: Any) -> None:
    """Put the legend at the right of axes, where no line is."""
    handles, labels = axes.get_legend_handles_labels()
    if reverse:
        handles, labels = handles[::-1], labels[::-1]
    axes.legend(
        handles, labels, fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0),
        handlelength=2.6, **options,
    )  # fmt: skip


def step_lines(axes: Any, edges: Any, lines: Sequence[tuple[str, Any]]) -> None:
    """Draw values that hold from one edge to the next, a line each under its label."""
    # The first last, on top of the others; the legend in their order all the same.
    for number, (label, values) in reversed(list(enumerate(lines))):
        axes.plot(
            edges, [*values, values[-1]], color=COLOURS[number], linestyle=STYLES[number],
            linewidth=1.4, drawstyle="steps-post", label=label,
        )  # fmt: skip
    legend_beside(axes, reverse=True)
    axes.set_ylim(bottom=0)
