"""Figures of what `record: {paths: ...}` keeps: use of links by tier, imbalance, gaps."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.drawing import COLOURS, STYLES, WIDTH, title
from experiments.figures.axes import (
    BYTE_UNITS,
    TIME_UNITS,
    NothingToPlotError,
    nothing,
    span_ps,
    time_axis,
    unit_for,
)
from experiments.figures.choice import Choice
from simulator.result_reader import ResultFolder
from simulator.result_statistics import MILLION, nearest_rank

_LINES = len(COLOURS)
_TALL = 7.0  # inches, of two figures in one
_MOST_TICKS = 12
_LESS_THAN_1_NS = 0.5  # where the range of 0 is drawn on a logarithmic axis


def _not_recorded(folder: ResultFolder, what: str) -> NothingToPlotError:
    remedy = "write record: {paths: {}} into the run file, and run it again"
    return nothing(folder, what, "the run did not record paths", remedy)


def _of_flows(folder: ResultFolder, table: Any, choice: Choice) -> Any:
    numbers = choice.flow_numbers(folder)
    if numbers is None:
        return table
    return table.filter(np.isin(table["flow"].to_numpy(), numbers))


def draw_paths(folder: ResultFolder, figure: Any, choice: Choice) -> None:
    """Draw the bytes and the flows of every direction of a link, a line a tier, busiest first."""
    if not folder.has("paths"):
        raise _not_recorded(folder, "paths")
    table = _of_flows(
        folder, folder.table("paths", ["flow", "from", "to", "tier", "bytes"]), choice
    )
    if not len(table):
        raise nothing(folder, "paths", "no flow sent anything")
    links = table.group_by(["from", "to", "tier"]).aggregate([("bytes", "sum"), ("bytes", "count")])
    tier = np.array(links["tier"].to_pylist())
    figure.set_size_inches(WIDTH, _TALL)
    top, bottom = figure.subplots(2, 1, sharex=True)
    scale, unit = unit_for(float(links["bytes_sum"].to_numpy().max()), BYTE_UNITS)
    there = folder.summary["paths"]["tiers"]
    shown = [name for name in there if name in set(tier)][:_LINES]
    for number, name in enumerate(shown):
        label = f"{name} ({there[name]})"
        for axes, column, divisor in ((top, "bytes_sum", scale), (bottom, "bytes_count", 1)):
            values = links[column].to_numpy()[tier == name]
            unused = np.zeros(there[name] - len(values))
            values = np.concatenate([np.sort(values)[::-1] / divisor, unused])
            # A step for each link, and the last one's end.
            edges = np.arange(len(values) + 1) * 100 / len(values)
            axes.plot(
                edges, np.append(values, values[-1]), color=COLOURS[number],
                linestyle=STYLES[number], linewidth=1.4, drawstyle="steps-post", label=label,
            )  # fmt: skip
    top.legend(
        title="directions of links", title_fontsize=8, fontsize=8, frameon=False,
        loc="upper left", bbox_to_anchor=(1.0, 1.0), handlelength=2.6,
    )  # fmt: skip
    top.set_ylabel(f"carried for flows [{unit}]")
    bottom.set_ylabel("flows")
    bottom.set_xlabel("links of a tier, busiest first [%]")
    bottom.set_xlim(0, 100)
    for axes in (top, bottom):
        axes.set_ylim(bottom=0)
    title(top, "What each direction of a link carried")
    title(bottom, "How many flows took it")


def draw_imbalance(folder: ResultFolder, figure: Any, choice: Choice) -> None:
    """Draw how uneven switches' uplinks were: over time, and as a distribution."""
    if not folder.has("imbalance"):
        raise _not_recorded(folder, "imbalance")
    table = folder.table("imbalance", ["start_ps", "imbalance_ppm"])
    if choice.window is not None:
        first, last = span_ps(folder, choice)
        start = table["start_ps"].to_numpy()
        table = table.filter((start >= first) & (start < last))
    if not len(table):
        why = "no switch with two uplinks or more sent anything up"
        raise nothing(folder, "imbalance", why)
    start = table["start_ps"].to_numpy()
    values = table["imbalance_ppm"].to_numpy() / MILLION
    figure.set_size_inches(WIDTH, _TALL)
    top, bottom = figure.subplots(2, 1)
    _imbalance_over_time(top, folder, choice, start, values)
    ordered = np.sort(values)
    share = np.arange(1, len(ordered) + 1) / len(ordered) * 100
    bottom.plot(ordered, share, color=COLOURS[0], linewidth=1.6, drawstyle="steps-post")
    ppm = np.sort(table["imbalance_ppm"].to_numpy())
    for percent, colour, style in ((50, COLOURS[2], STYLES[1]), (99, COLOURS[1], STYLES[2])):
        value = nearest_rank(ppm, percent) / MILLION
        bottom.axvline(
            value, color=colour, linestyle=style, linewidth=1.4, label=f"p{percent} {value:.3g}"
        )
    bottom.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    bottom.set_xlabel("imbalance: (max - min) / mean of a switch's uplinks")
    bottom.set_ylabel("switches and windows [%]")
    bottom.set_ylim(0, 101)
    bottom.set_xlim(left=0)
    title(bottom, f"Spread over {len(values)} pairs of a switch and a window with traffic")


def _imbalance_over_time(
    axes: Any, folder: ResultFolder, choice: Choice, start: Any, values: Any
) -> None:
    window_ps = folder.summary["paths"]["window_ps"]
    size, unit = unit_for(window_ps, ((10**9, "ms"), (10**6, "µs"), (10**3, "ns"), (1, "ps")))
    unit_ps = time_axis(axes, folder, choice)
    firsts = np.flatnonzero(np.diff(start, prepend=-1))
    of_window = [np.sort(each) for each in np.split(values, firsts[1:])]
    place = (start[firsts] - start[0]) // window_ps
    edges = start[0] + np.arange(place[-1] + 2) * window_ps
    lines = (
        ("the most uneven switch", [each[-1] for each in of_window]),
        ("the median switch", [each[(len(each) - 1) // 2] for each in of_window]),
    )
    for number, (label, line) in reversed(list(enumerate(lines))):
        heights = np.full(place[-1] + 1, np.nan)  # a window without traffic has none
        heights[place] = line
        axes.stairs(
            heights, edges / unit_ps, baseline=None, color=COLOURS[1 - number],
            linestyle=STYLES[1 - number], linewidth=1.4, label=label,
        )  # fmt: skip
    axes.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    axes.set_ylabel("imbalance")
    axes.set_ylim(bottom=0)
    title(axes, f"Imbalance of uplinks in windows of {window_ps / size:g} {unit}")


def _gap_axis(axes: Any, left: Any) -> None:
    """Label powers of two that ranges begin or end with, from the shortest to the longest."""
    axes.set_xscale("log", base=2)
    axes.minorticks_off()
    count = int(np.log2(left[-1] / left[0])) + 2
    edges = left[0] * 2.0 ** np.arange(0, count, 1 + count // _MOST_TICKS)
    units = [unit_for(each * 1000, TIME_UNITS) for each in edges]
    labels = [f"{e * 1000 / size:.3g} {name}" for e, (size, name) in zip(edges, units, strict=True)]
    axes.set_xticks(edges, labels)
    axes.set_xlabel("time from a packet to the next one of its flow, as they leave the sender")


def draw_gaps(folder: ResultFolder, figure: Any, choice: Choice) -> None:
    """Draw how many gaps of which length flows have had, all of them together."""
    if not folder.has("gaps"):
        raise _not_recorded(folder, "gaps")
    table = _of_flows(folder, folder.table("gaps", ["flow", "gap_ns", "packets"]), choice)
    if not len(table):
        raise nothing(folder, "gaps", "no flow sent two packets")
    sums = table.group_by(["gap_ns"]).aggregate([("packets", "sum")]).sort_by("gap_ns")
    packets = sums["packets_sum"].to_numpy()
    left = np.maximum(sums["gap_ns"].to_numpy().astype(float), _LESS_THAN_1_NS)
    axes = figure.subplots()
    axes.bar(
        left, packets * 100 / packets.sum(), width=left, align="edge", color=COLOURS[0],
        edgecolor="white",
    )  # fmt: skip
    _gap_axis(axes, left)
    axes.set_ylabel("gaps [%]")
    flows = len(set(table["flow"].to_pylist()))
    title(axes, f"Gaps in {flows} flow{'s' if flows != 1 else ''} ({int(packets.sum())} gaps)")
