"""Completion times of messages, of one result or of several beside each other.

Slowdown by size is drawn as in HPCC's figures (SIGCOMM 2019): sizes in ten parts with as many
messages each, a part named by its longest message. Of n sorted values percentile p is number
floor(n p), as in its fct_analysis.py. Messages of the same size are in the same part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.drawing import COLOURS, STYLES, WIDTH, title
from experiments.figures.axes import (
    BYTE_UNITS,
    TIME_UNITS,
    legend_beside,
    nothing,
    span_ps,
    unit_for,
)
from experiments.figures.choice import Choice
from simulator.result_reader import ResultFolder
from simulator.result_statistics import MILLION, nearest_rank

PARTS = 10
SHARES = ((50, "median"), (95, "p95"), (99, "p99"))
_FEWEST = 20  # a median of fewer than two messages a part is none

Numbers = npt.NDArray[np.int64]
Labelled = tuple[str, ResultFolder]


@dataclass(frozen=True)
class _Done:
    """Messages that are done: bytes, time from ready to done, slowdown in millionths."""

    bytes: Numbers
    took_ps: Numbers
    slowdown_ppm: Numbers
    ready: int
    """How many there are with those that are not done."""


def _done(folder: ResultFolder, choice: Choice) -> _Done:
    """Return the chosen messages with a payload; a window says when they were ready."""
    names = ["flow", "bytes", "ready_ps", "completion_ps", "slowdown_ppm"]
    table = folder.table("messages", names)
    flow, size, ready, took, slowdown = (table[name].fill_null(-1).to_numpy() for name in names)
    here = (size > 0) & (ready >= 0)
    numbers = choice.flow_numbers(folder)
    if numbers is not None:
        here &= np.isin(flow, numbers)
    if choice.window is not None:
        first, last = span_ps(folder, choice)
        here &= (ready >= first) & (ready < last)
    done = here & (took >= 0)
    return _Done(size[done], took[done], slowdown[done], int(here.sum()))


def _all_done(results: Sequence[Labelled], choice: Choice, what: str) -> list[_Done]:
    found = []
    for _, folder in results:
        each = _done(folder, choice)
        if not len(each.took_ps):
            raise nothing(folder, what, "no message is done", "give it more time (--until)")
        found.append(each)
    return found


def draw_completion(results: Sequence[Labelled], figure: Any, choice: Choice) -> None:
    """Draw the share of messages that were done after so long, a line a result."""
    found = _all_done(results, choice, "fct")
    axes = figure.subplots()
    scale, unit = unit_for(max(float(each.took_ps.max()) for each in found), TIME_UNITS)
    for number, ((label, _), each) in enumerate(zip(results, found, strict=True)):
        times = np.sort(each.took_ps)
        share = np.arange(1, len(times) + 1) / len(times) * 100
        p50, p99 = (_time(nearest_rank(times, percent)) for percent in (50, 99))
        text = f"p50 {p50}, p99 {p99}"
        axes.plot(
            np.insert(times, 0, times[0]) / scale, np.insert(share, 0, 0.0),
            color=COLOURS[number], linestyle=STYLES[number], linewidth=1.6,
            drawstyle="steps-post", label=f"{label}\n{text}" if label else text,
        )  # fmt: skip
    axes.set_xscale("log")
    axes.set_ylim(0, 101)
    axes.set_xlabel(f"completion time [{unit}]")
    axes.set_ylabel("messages [%]")
    legend_beside(axes)
    counts = {f"{len(each.took_ps)} of {each.ready} done" for each in found}
    count = counts.pop() if len(counts) == 1 else "those that are done"
    title(axes, f"Completion of messages ({count})")


def _time(at_ps: int) -> str:
    size, unit = unit_for(at_ps, TIME_UNITS)
    return f"{at_ps / size:.4g} {unit}"


def draw_slowdown(results: Sequence[Labelled], figure: Any, choice: Choice) -> None:
    """Draw how much longer messages took than alone, by size: median, p95 and p99."""
    found = _all_done(results, choice, "slowdown")
    sizes = np.sort(np.concatenate([each.bytes for each in found]))
    edges = _edges(sizes)
    if len(edges) < 2:
        size, unit = unit_for(float(sizes[-1]), BYTE_UNITS)
        why = f"all messages have {sizes[-1] / size:.4g} {unit}"
        raise nothing(results[0][1], "slowdown by size", why, "--what fct draws their times")
    if min(len(each.bytes) for each in found) < _FEWEST:
        raise nothing(
            results[0][1], "slowdown by size", f"it needs {_FEWEST} messages that are done"
        )
    parts = [_parts(each, edges) for each in found]
    if len(results) == 1:
        _one_slowdown(figure, parts[0], edges)
    else:
        _several_slowdowns(figure, [label for label, _ in results], parts, edges)


def _edges(sizes: Numbers) -> Numbers:
    """Return the longest message of each part."""
    found: Numbers = np.unique(
        sizes[[-(-len(sizes) * n // PARTS) - 1 for n in range(1, PARTS + 1)]]
    )
    return found


def _parts(done: _Done, edges: Numbers) -> dict[int, list[float]]:
    """Return the slowdown of each part by percentile; NaN where a part has no message."""
    place = np.searchsorted(edges, done.bytes)
    values = [np.sort(done.slowdown_ppm[place == part]) / MILLION for part in range(len(edges))]
    return {
        percent: [
            float(each[len(each) * percent // 100]) if len(each) else np.nan for each in values
        ]
        for percent, _ in SHARES
    }


def _one_slowdown(figure: Any, parts: dict[int, list[float]], edges: Numbers) -> None:
    axes = figure.subplots()
    for number, (percent, name) in enumerate(SHARES):
        axes.plot(
            range(len(edges)), parts[percent], color=COLOURS[number], linestyle=STYLES[number],
            marker="o", markersize=4, linewidth=1.4, label=name,
        )  # fmt: skip
    legend_beside(axes, reverse=True)
    _size_axis(axes, edges)
    axes.set_ylabel("slowdown (time over ideal time)")
    title(axes, "Slowdown of messages by size")


def _several_slowdowns(
    figure: Any, labels: Sequence[str], parts: Sequence[dict[int, list[float]]], edges: Numbers
) -> None:
    figure.set_size_inches(WIDTH, 8.0)
    panels = figure.subplots(len(SHARES), 1, sharex=True)
    for axes, (percent, name) in zip(panels, SHARES, strict=True):
        for number, (label, each) in enumerate(zip(labels, parts, strict=True)):
            axes.plot(
                range(len(edges)), each[percent], color=COLOURS[number], linestyle=STYLES[number],
                marker="o", markersize=4, linewidth=1.4, label=label,
            )  # fmt: skip
        axes.set_ylabel("slowdown")
        axes.set_ylim(bottom=min(1.0, axes.get_ylim()[0]))
        title(axes, f"Slowdown of messages by size: {name}")
    legend_beside(panels[0])
    _size_axis(panels[-1], edges)


def _size_axis(axes: Any, edges: Numbers) -> None:
    units = [unit_for(float(each), BYTE_UNITS) for each in edges]
    texts = [f"{e / size:.3g} {unit}" for e, (size, unit) in zip(edges, units, strict=True)]
    axes.set_xticks(range(len(edges)), texts, fontsize=8)
    axes.set_xlabel("size of messages: each part's longest, equally many in each")
    axes.set_ylim(bottom=min(1.0, axes.get_ylim()[0]))
