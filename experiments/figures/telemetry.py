"""The figure of what `record: {telemetry: ...}` keeps: queue and latency at each hop over time."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.drawing import COLOURS, STYLES, WIDTH, title
from experiments.figures.axes import (
    BYTE_UNITS,
    TIME_UNITS,
    nothing,
    span_ps,
    time_axis,
    unit_for,
)
from experiments.figures.choice import Choice
from experiments.figures.series import Grid, Numbers
from simulator.result_reader import ResultFolder

_LINES = len(COLOURS)
_TALL = 7.0  # inches, of two figures in one
_BRIDGED = 2  # intervals without a packet that a line goes on over
_TABLE = "telemetry"


def draw_telemetry(folder: ResultFolder, figure: Any, choice: Choice) -> None:
    """Draw what waited at the hops of watched flows, and how long it took from hop to hop.

    A line is a port, those with the longest queues first; of several flows that meet there it is
    the longest queue and the mean latency.
    """
    if not folder.has(_TABLE):
        remedy = "write record: {telemetry: {flows: all}} into the run file, and run it again"
        raise nothing(folder, _TABLE, "the run did not record telemetry", remedy)
    columns = ["at_ps", "flow", "hop", "node", "port", "queue_bytes", "latency_ps"]
    table = folder.table(_TABLE, columns)
    numbers = choice.flow_numbers(folder)
    if numbers is not None:
        table = table.filter(np.isin(table["flow"].to_numpy(), numbers))
    span = span_ps(folder, choice)
    at_ps = table["at_ps"].to_numpy()
    table = table.filter((at_ps >= span[0]) & (at_ps <= span[1]))
    if not len(table):
        raise nothing(folder, _TABLE, "no packet of these flows came with records in this time")
    grid = Grid.over(span, folder.summary[_TABLE]["every_ps"])
    at_ps, queue, latency = (
        table[name].fill_null(0).to_numpy() for name in ("at_ps", "queue_bytes", "latency_ps")
    )
    known = ~table["latency_ps"].is_null().to_numpy()
    shown = _longest(table)
    figure.set_size_inches(WIDTH, _TALL)
    top, bottom = figure.subplots(2, 1, sharex=True)
    unit_ps = time_axis(bottom, folder, choice)
    scale, unit = unit_for(max(float(queue.max()), 1.0), BYTE_UNITS)
    long, time_unit = unit_for(max(float(latency.max()), 1.0), TIME_UNITS)
    place = np.array([f"{n}:{p}" for n, p in _places(table)])
    times = (grid.times_ps + grid.step_ps / 2) / unit_ps
    for number, (name, hops) in enumerate(shown):
        here = place == name
        look = {"color": COLOURS[number], "linestyle": STYLES[number], "linewidth": 1.4}
        most = _bridged(grid, at_ps[here], grid.most(at_ps[here], queue[here]))
        top.plot(times, most / scale, label=f"{name} ({_ordinal(hops)})", **look)
        timed = here & known
        mean = _bridged(grid, at_ps[timed], grid.there(at_ps[timed], latency[timed]))
        bottom.plot(times, mean / long, **look)
    top.legend(
        title="port (hop from the sender)", title_fontsize=8, fontsize=8, frameon=False,
        loc="upper left", bbox_to_anchor=(1.0, 1.0), handlelength=2.6,
    )  # fmt: skip
    top.set_ylabel(f"queued [{unit}]")
    bottom.set_ylabel(f"latency [{time_unit}]")
    for axes in (top, bottom):
        axes.set_ylim(bottom=0)
    flows = len(set(table["flow"].to_pylist()))
    title(top, f"Queues that packets of {flows} flow{'s' if flows != 1 else ''} left behind")
    title(bottom, "Latency from the hop before (the first: from the sender), link included")


def _places(table: Any) -> list[tuple[str, int]]:
    return list(zip(table["node"].to_pylist(), table["port"].to_pylist(), strict=True))


def _longest(table: Any) -> list[tuple[str, list[int]]]:
    """Return ports with the hops that they are: those with the longest queues, by hop."""
    groups = table.group_by(["node", "port"]).aggregate(
        [("queue_bytes", "max"), ("hop", "distinct")]
    )
    rows = sorted(
        groups.to_pylist(), key=lambda row: (-row["queue_bytes_max"], row["node"], row["port"])
    )
    found = [(f"{row['node']}:{row['port']}", sorted(row["hop_distinct"])) for row in rows[:_LINES]]
    return sorted(found, key=lambda each: (each[1], each[0]))


def _ordinal(hops: list[int]) -> str:
    return ", ".join(str(hop + 1) for hop in hops)


def _bridged(grid: Grid, at_ps: npt.NDArray[Any], values: Numbers) -> Numbers:
    """Return values without a gap where one or two intervals have no packet, NaN in longer ones."""
    place = np.unique(np.clip(grid.index(at_ps), 0, grid.count - 1))
    found = np.full(grid.count, np.nan)
    if not len(place):
        return found
    found[place] = values[place]
    for before, after in pairwise(place):
        if 1 < after - before <= _BRIDGED + 1:
            found[before + 1 : after] = found[before]
    return found
