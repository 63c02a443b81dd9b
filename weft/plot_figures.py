"""Figures of a result, one a topic. Colours are told apart by colour-blind readers (Okabe and Ito).

Every figure says its runtime, time scale, run and seed below, and the unit of every axis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.drawing import COLOURS, DPI, HEIGHT, INK, NOTE, STYLES, WIDTH, title, use_style
from simulator.result_model import ResultError
from simulator.result_reader import ResultFolder
from simulator.result_statistics import nearest_rank
from topologies.model import Endpoint
from weft.plot_axes import BYTE_UNITS, TIME_UNITS, nothing, time_axis, unit_for
from weft.plot_paths import draw_gaps, draw_imbalance, draw_paths
from weft.plot_series import (
    Grid,
    Series,
    flow_series,
    link_map,
    link_series,
    queue_series,
    rate_series,
)
from workloads.senders import senders, titles

_LINES = len(COLOURS)
_MAP_POINTS = 400
_MOST_BARS = 24
_MOST_SPANS = 32


def draw(folder: ResultFolder, what: str, path: Path) -> None:
    """Draw one topic of `TOPICS` into a file, in the format that its ending names.

    Raises NothingToPlotError, and ResultError where the file can't be written.
    """
    use_style()
    from matplotlib import pyplot  # heavy: `plot --help` does without

    figure = pyplot.figure(figsize=(WIDTH, HEIGHT), layout="constrained")
    try:
        TOPICS[what](folder, figure)
        figure.supxlabel(folder.caption, fontsize=8, color=NOTE, x=0.01, ha="left")
        metadata = {"Date": None} if path.suffix == ".svg" else None
        figure.savefig(path, dpi=DPI, metadata=metadata)
    except OSError as error:
        raise ResultError(f"can't write {path}: {error.strerror or error}") from error
    finally:
        pyplot.close(figure)


def has_something(folder: ResultFolder, what: str) -> bool:
    """Say whether a result has rows that a topic is drawn from."""
    return any(folder.has(name) and folder.rows(name) for name in _SOURCES[what])


def _lines(axes: Any, grid: Grid, series: Sequence[Series], unit_ps: float, scale: float) -> None:
    # The largest last, on top of the others; the legend in order of size all the same.
    for number, each in reversed(list(enumerate(series))):
        axes.plot(
            grid.times_ps / unit_ps,
            each.values / scale,
            color=COLOURS[number],
            linestyle=STYLES[number],
            linewidth=1.4,
            drawstyle="steps-post",
            label=each.label,
        )
    handles, labels = axes.get_legend_handles_labels()
    axes.legend(
        handles[::-1], labels[::-1], fontsize=8, frameon=False, loc="upper left",
        bbox_to_anchor=(1.0, 1.0), handlelength=2.6,
    )  # fmt: skip
    axes.set_ylim(bottom=0)


def _queues(folder: ResultFolder, figure: Any) -> None:
    grid = Grid.of(folder)
    series = queue_series(folder, grid, _LINES)
    if not series:
        raise nothing(folder, "queues", "no sample found anything queued")
    axes = figure.subplots()
    scale, unit = unit_for(max(float(each.values.max()) for each in series), BYTE_UNITS)
    _lines(axes, grid, series, time_axis(axes, folder), scale)
    axes.set_ylabel(f"queued [{unit}]")
    title(axes, _which("queue", len(series)))


def _which(kind: str, count: int) -> str:
    if count < _LINES:
        return f"Queues that filled ({count})" if kind == "queue" else f"All {count} {kind}s"
    return {
        "queue": f"The {count} longest queues",
        "link": f"The {count} busiest links",
        "flow": f"The {count} largest flows",
    }[kind]


def _links(folder: ResultFolder, figure: Any) -> None:
    grid = Grid.of(folder)
    series = link_series(folder, grid, _LINES)
    if not series:
        raise nothing(folder, "links", "no sample found anything on them")
    figure.set_size_inches(WIDTH, 7.0)
    top, bottom = figure.subplots(2, 1, height_ratios=(3, 2))
    _lines(top, grid, series, time_axis(top, folder), 1.0)
    top.set_ylabel("used [% of the rate]")
    title(top, _which("link", len(series)))
    coarse = Grid.of(folder, _MAP_POINTS)
    cells = link_map(folder, coarse)
    unit_ps = time_axis(bottom, folder)
    image = bottom.imshow(
        cells,
        aspect="auto",
        cmap="cividis",
        vmin=0,
        vmax=100,
        interpolation="nearest",
        extent=(0, coarse.count * coarse.step_ps / unit_ps, len(cells) + 0.5, 0.5),
    )
    bottom.set_xlim(0, max(folder.now_ps, 1) / unit_ps)
    bottom.grid(visible=False)
    bottom.set_ylabel("link, busiest first")
    bottom.yaxis.get_major_locator().set_params(integer=True)
    figure.colorbar(image, cax=bottom.inset_axes((1.02, 0, 0.018, 1)), label="used [%]")
    title(bottom, f"All {len(cells)} directions of links that were used")


def _flows(folder: ResultFolder, figure: Any) -> None:
    grid = Grid.of(folder)
    series = flow_series(folder, grid, _LINES) if folder.rows("flow_rates") else []
    done = folder.table("messages", ["bytes", "completion_ps", "slowdown_ppm"])
    carried = done["bytes"].to_numpy() > 0
    times = done["completion_ps"].fill_null(-1).to_numpy()
    times = np.sort(times[carried & (times >= 0)])
    if not series and not len(times):
        raise nothing(folder, "flows", "no sample found anything received, no message is done")
    if series and len(times):
        figure.set_size_inches(WIDTH, 7.0)
        top, bottom = figure.subplots(2, 1, height_ratios=(3, 2))
    else:
        top = bottom = figure.subplots()
    if series:
        _lines(top, grid, series, time_axis(top, folder), 1.0)
        top.set_ylabel("goodput [Gb/s]")
        title(top, _which("flow", len(series)))
    if len(times):
        _completion(bottom, times, int(carried.sum()))


def _rates(folder: ResultFolder, figure: Any) -> None:
    """Draw what congestion control lets flows send above what they get, a colour a flow."""
    grid = Grid.of(folder)
    rates = rate_series(folder, grid, _LINES)
    if not rates:
        raise nothing(folder, "rates", "no flow with congestion control carried anything")
    figure.set_size_inches(WIDTH, 7.0)
    top, bottom = figure.subplots(2, 1, sharex=True, sharey=True)
    allowed = [Series(each.label, each.allowed) for each in rates]
    _lines(top, grid, allowed, time_axis(top, folder), 1.0)
    top.set_xlabel("")
    top.set_ylabel("rate allowed [Gb/s]")
    controls = {
        titles(each["congestion_control"]): _set_names(each)
        for each in folder.summary["transports"]
        if each["congestion_control"] != "none"
    }
    sets = ", ".join(dict.fromkeys(name for names in controls.values() for name in names))
    what = " or ".join(controls)
    title(top, f"What {what} lets {_these(len(rates))} send" + (f" ({sets})" if sets else ""))
    goodput = [Series(each.label, each.goodput) for each in rates]
    _lines(bottom, grid, goodput, time_axis(bottom, folder), 1.0)
    bottom.get_legend().remove()
    bottom.set_ylabel("goodput [Gb/s]")
    title(bottom, f"What {_these(len(rates))} get")


def _set_names(transport: Mapping[str, Any]) -> list[str]:
    """Return the parameter sets that a transport's summary names."""
    running = (transport.get(each.algorithm) or {} for each in senders() if each.sets)
    return [given["name"] for given in running if "name" in given]


def _these(count: int) -> str:
    return f"the {count} largest flows" if count == _LINES else "a flow" if count == 1 else "flows"


def _completion(axes: Any, times: Any, messages: int) -> None:
    scale, unit = unit_for(float(times[-1]), TIME_UNITS)
    share = np.arange(1, len(times) + 1) / len(times) * 100
    axes.plot(times / scale, share, color=COLOURS[0], linewidth=1.6, drawstyle="steps-post")
    for percent, colour, style in ((50, COLOURS[2], STYLES[1]), (99, COLOURS[1], STYLES[2])):
        value = nearest_rank(times, percent) / scale
        axes.axvline(
            value, color=colour, linestyle=style, linewidth=1.4,
            label=f"p{percent} {value:.4g} {unit}",
        )  # fmt: skip
    axes.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    axes.set_xlabel(f"completion time [{unit}]")
    axes.set_ylabel("messages [%]")
    axes.set_ylim(0, 101)
    axes.set_xlim(left=0)
    title(axes, f"Completion of messages ({len(times)} of {messages} done)")


def _jobs(folder: ResultFolder, figure: Any) -> None:
    columns = ["kind", "name", "start_ps", "end_ps", "ideal_ps", "slowdown_ppm"]
    spans = [
        row for row in folder.table("jobs", columns).to_pylist() if row["start_ps"] is not None
    ]
    if not spans:
        raise nothing(folder, "jobs", "it has no job and no message that began")
    shown = spans[:_MOST_SPANS]
    figure.set_size_inches(WIDTH, max(2.6, 1.6 + 0.3 * len(shown)))
    axes = figure.subplots()
    unit_ps = time_axis(axes, folder)
    colour_of = dict(zip(("job", "phase", "collective", "traffic"), COLOURS, strict=False))
    for place, row in enumerate(shown):
        over = row["end_ps"] is not None
        end_ps = row["end_ps"] if over else folder.now_ps
        start, length = row["start_ps"] / unit_ps, (end_ps - row["start_ps"]) / unit_ps
        axes.barh(
            place, length, left=start, height=0.62, color=colour_of[row["kind"]],
            alpha=1.0 if over else 0.45, hatch=None if over else "///", edgecolor="white",
        )  # fmt: skip
        if row["ideal_ps"]:
            ideal = start + row["ideal_ps"] / unit_ps
            axes.plot([ideal, ideal], [place - 0.42, place + 0.42], color="black", linewidth=1.6)
        text = "not done" if not over else ""
        if row["slowdown_ppm"] is not None:
            text = f"{row['slowdown_ppm'] / 10**6:.3g} x ideal"
        # Behind the bar, or in it where there is no room left.
        room = (folder.now_ps / unit_ps) * 0.86
        behind = start + length < room
        axes.annotate(
            text, (start + length, place), xytext=(4 if behind else -4, 0),
            textcoords="offset points", va="center", ha="left" if behind else "right",
            fontsize=7.5, color=INK if behind else "white",
        )  # fmt: skip
    axes.set_yticks(range(len(shown)), [row["name"] for row in shown])
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    _job_legend(axes, [kind for kind in colour_of if any(r["kind"] == kind for r in shown)])
    rest = f", the first {len(shown)} of {len(spans)}" if len(shown) < len(spans) else ""
    title(axes, f"Jobs and what they are made of{rest}")


def _job_legend(axes: Any, kinds: Sequence[str]) -> None:
    from matplotlib.lines import Line2D  # as in draw
    from matplotlib.patches import Patch

    order = ("job", "phase", "collective", "traffic")
    handles: list[Any] = [
        Patch(facecolor=COLOURS[order.index(kind)], edgecolor="white", label=kind) for kind in kinds
    ]
    handles.append(Line2D([], [], color="black", linewidth=1.6, label="ideal end"))
    axes.legend(
        handles=handles, fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0)
    )


def _pauses(folder: ResultFolder, figure: Any) -> None:
    columns = ["node", "port", "class", "paused_ps", "xoff_sent"]
    rows = folder.table("pauses", columns).to_pylist()
    rows = [{key: value or 0 for key, value in row.items()} for row in rows]
    paused, pausing = _ranked(rows, "paused_ps"), _ranked(rows, "xoff_sent")
    if not paused and not pausing:
        raise nothing(folder, "pauses", "nobody was paused")
    most = min(_MOST_BARS, max(len(paused), len(pausing)))
    figure.set_size_inches(WIDTH, max(2.6, 1.6 + 0.24 * most))
    left, right = figure.subplots(1, 2)
    share = [row["paused_ps"] * 100 / max(1, folder.now_ps) for row in paused]
    _bars(left, paused, share, COLOURS[1])
    left.set_xlabel("paused as a sender [% of the run]")
    deadlocks = deadlock_count(folder)
    note = f"; {deadlocks} deadlock{'s' if deadlocks != 1 else ''} at the end" if deadlocks else ""
    title(left, f"Who was paused, by class{_of(paused)}{note}")
    _bars(right, pausing, [row["xoff_sent"] for row in pausing], COLOURS[0])
    right.set_xlabel("XOFF frames sent")
    title(right, f"Who paused others{_of(pausing)}")


def _ranked(rows: Sequence[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    some = [row for row in rows if row[key] > 0]
    return sorted(some, key=lambda row: (-row[key], row["node"], row["port"], row["class"]))


def _of(rows: Sequence[Any]) -> str:
    return f" ({_MOST_BARS} of {len(rows)})" if len(rows) > _MOST_BARS else ""


def _bars(axes: Any, rows: Sequence[dict[str, Any]], values: Sequence[float], colour: str) -> None:
    shown = rows[:_MOST_BARS]
    axes.barh(range(len(shown)), values[: len(shown)], height=0.7, color=colour)
    # A host's first interface goes by the host's name.
    names = [str(Endpoint(row["node"], row["port"])) for row in shown]
    labels = [f"{name} class {row['class']}" for name, row in zip(names, shown, strict=True)]
    axes.set_yticks(range(len(shown)), labels)
    axes.set_ylim(max(len(shown), 1) - 0.4, -0.6)
    axes.set_xlim(0, max(1.0, *values) * 1.05 if values else 1.0)
    axes.grid(visible=False, axis="y")


def deadlock_count(folder: ResultFolder) -> int:
    """Return how many deadlocks a run ended with."""
    return len(folder.summary.get("blocking", {}).get("deadlocks", ()))


TOPICS: dict[str, Callable[[ResultFolder, Any], None]] = {
    "queues": _queues,
    "links": _links,
    "flows": _flows,
    "rates": _rates,
    "jobs": _jobs,
    "pauses": _pauses,
    "paths": draw_paths,
    "imbalance": draw_imbalance,
    "gaps": draw_gaps,
}
_SOURCES = {
    "queues": ("queues",),
    "links": ("links",),
    "flows": ("flow_rates", "messages"),
    "rates": ("flow_rates",),
    "jobs": ("jobs",),
    "pauses": ("pauses",),
    "paths": ("paths",),
    "imbalance": ("imbalance",),
    "gaps": ("gaps",),
}
