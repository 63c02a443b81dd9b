"""Figures of a result, one per topic, in colours for colour-blind readers (Okabe and Ito).

Every figure says its runtime, time scale, run and seed below, and the unit of every axis.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np

from experiments.drawing import COLOURS, INK, STYLES, WIDTH, title
from experiments.figures.axes import (
    BYTE_UNITS,
    TIME_UNITS,
    figure_file,
    legend_beside,
    nothing,
    span_ps,
    step_lines,
    time_axis,
    unit_for,
)
from experiments.figures.choice import EVERYTHING, Choice
from experiments.figures.messages import draw_completion, draw_slowdown
from experiments.figures.paths import draw_gaps, draw_imbalance, draw_paths
from experiments.figures.series import (
    FEW_POINTS,
    FlowRates,
    Grid,
    Series,
    flow_rates,
    link_map,
    link_series,
    queue_series,
    rate_series,
)
from experiments.figures.telemetry import draw_telemetry
from simulator.result_reader import ResultFolder
from topologies.model import Endpoint
from workloads.senders import senders, titles

_LINES = len(COLOURS)
_MAP_POINTS = 400
_MOST_BARS = 24
_MOST_SPANS = 32
_MOST_LINKS = 32  # of a map: more could not be named
_FEWEST_SAMPLES = 3  # in the time that is drawn
_APART = 1.05  # the fastest flow over the slowest, from which on they are named


def draw(folder: ResultFolder, what: str, path: Path, choice: Choice = EVERYTHING) -> None:
    """Draw one topic of `TOPICS` into a file, in the format that its ending names.

    Raises NothingToPlotError, ResultError where the file can't be written, and UsageError where the
    choice has flows, ports or a time that the result has not.
    """
    with figure_file(path, folder.caption) as figure:
        TOPICS[what](folder, figure, choice)


def has_something(folder: ResultFolder, what: str) -> bool:
    """Say whether a result has rows that a topic is drawn from."""
    return folder.has(_SOURCES[what]) and folder.rows(_SOURCES[what]) > 0


def follows(what: str, choice: Choice) -> bool:
    """Say whether a topic can be drawn of chosen flows, ports or times alone."""
    return choice.options <= _FOLLOWS[what]


def _lines(axes: Any, grid: Grid, series: Sequence[Series], unit_ps: float, scale: float) -> None:
    lines = [(each.label, each.values / scale) for each in series]
    step_lines(axes, grid.edges_ps / unit_ps, lines)


def _queues(folder: ResultFolder, figure: Any, choice: Choice) -> None:
    grid = Grid.of(folder, choice=choice)
    series = queue_series(folder, grid, _LINES, choice)
    most = max((float(each.values.max()) for each in series), default=0.0)
    if not most:
        raise nothing(folder, "queues", "no sample found anything queued")
    axes = figure.subplots()
    scale, unit = unit_for(most, BYTE_UNITS)
    _lines(axes, grid, series, time_axis(axes, folder, choice), scale)
    axes.set_ylabel(f"queued [{unit}]")
    title(axes, _which("queue", len(series), choice.ports))


def _which(kind: str, count: int, chosen: Sequence[str] = ()) -> str:
    plural = f"{kind}s" if count != 1 else kind
    if chosen:
        return f"{count} {plural} of {', '.join(chosen)}"
    if count < _LINES:
        return f"Queues that filled ({count})" if kind == "queue" else f"All {count} {plural}"
    return {"queue": f"The {count} longest queues", "link": f"The {count} busiest links"}[kind]


def _watched(folder: ResultFolder, what: str, choice: Choice) -> Grid:
    """Return the time in which rates are drawn. Raises NothingToPlotError for too few samples."""
    grid = Grid.of(folder, FEW_POINTS, choice)
    if grid.count < _FEWEST_SAMPLES:
        size, unit = unit_for(grid.sample_ps, TIME_UNITS)
        why = f"its samples are {grid.sample_ps / size:g} {unit} apart, too far for what happened"
        raise nothing(folder, what, why, "write a smaller 'sample' into the run file")
    return grid


def _links(folder: ResultFolder, figure: Any, choice: Choice) -> None:
    grid = _watched(folder, "links", choice)
    series = link_series(folder, grid, _LINES, choice)
    if not series:
        raise nothing(folder, "links", "no sample found anything on them")
    coarse = Grid.of(folder, _MAP_POINTS, choice)
    names, cells = link_map(folder, coarse, choice)
    shown = min(len(names), _MOST_LINKS)
    if shown == 1:
        axes = figure.subplots()
        _lines(axes, grid, series, time_axis(axes, folder, choice), 1.0)
        axes.set_ylabel("used [% of the rate]")
        title(axes, f"Link {names[0]}")
        return
    figure.set_size_inches(WIDTH, 5.0 + 0.16 * shown)
    top, bottom = figure.subplots(2, 1, height_ratios=(3.2, 0.8 + 0.16 * shown))
    _lines(top, grid, series, time_axis(top, folder, choice), 1.0)
    top.set_ylabel("used [% of the rate]")
    title(top, _which("link", len(series), choice.ports))
    unit_ps = time_axis(bottom, folder, choice)
    image = bottom.pcolormesh(
        coarse.edges_ps / unit_ps, np.arange(shown + 1) - 0.5, cells[:shown],
        cmap="cividis", vmin=0, vmax=100, rasterized=True,
    )  # fmt: skip
    bottom.grid(visible=False)
    bottom.set_yticks(range(shown), names[:shown], fontsize=7)
    bottom.set_ylim(shown - 0.5, -0.5)
    figure.colorbar(image, cax=bottom.inset_axes((1.02, 0, 0.018, 1)), label="used [%]")
    of = f"The {shown} busiest of {len(names)}" if shown < len(names) else f"All {shown}"
    title(bottom, f"{of} directions of links that were used")


def _flows(folder: ResultFolder, figure: Any, choice: Choice) -> None:
    grid = _watched(folder, "flows", choice)
    rates = flow_rates(folder, grid, choice) if folder.rows("flow_rates") else None
    if rates is None or not rates.labels:
        raise nothing(folder, "flows", "no sample found anything received")
    axes = figure.subplots()
    unit_ps = time_axis(axes, folder, choice)
    if len(rates.labels) <= _LINES:
        series = [Series(*each) for each in zip(rates.labels, rates.values, strict=True)]
        _lines(axes, grid, series, unit_ps, 1.0)
        what = ", ".join(choice.flows) or f"{len(series)} flow{'s' if len(series) != 1 else ''}"
    else:
        _spread(axes, grid, rates, unit_ps)
        what = f"{len(rates.labels)} flows, of each moment those that were not done"
    axes.set_ylabel("goodput [Gb/s]")
    title(axes, f"Goodput of {what}")


def _spread(axes: Any, grid: Grid, rates: FlowRates, unit_ps: float) -> None:
    """Draw how flows share: more lines than can be distinguished become bands."""
    edges = grid.edges_ps / unit_ps
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a time without any flow
        least, low, half, high, most = np.nanpercentile(
            rates.values, (0, 25, 50, 75, 100), axis=0, method="inverted_cdf"
        )
    for bottom, top, shade, label in (
        (least, most, 0.18, "least to most"),
        (low, high, 0.40, "the half in the middle"),
    ):
        axes.fill_between(
            edges, [*bottom, bottom[-1]], [*top, top[-1]], step="post", color=COLOURS[0],
            alpha=shade, linewidth=0, label=label,
        )  # fmt: skip
    lines = [("the median flow", half)]
    spans = (~np.isnan(rates.values) * grid.lengths_ps).sum(axis=1)
    means = rates.bytes / np.maximum(spans, 1)
    fastest, slowest = int(means.argmax()), int(means.argmin())
    if means[fastest] > _APART * means[slowest]:
        lines.append((f"slowest: {rates.labels[slowest]}", rates.values[slowest]))
    for number, (label, values) in enumerate(lines):
        axes.plot(
            edges, [*values, values[-1]], color=(INK, COLOURS[1])[number], linewidth=1.4,
            linestyle=STYLES[number], drawstyle="steps-post", label=label,
        )  # fmt: skip
    legend_beside(axes)
    axes.set_ylim(bottom=0)


def _rates(folder: ResultFolder, figure: Any, choice: Choice) -> None:
    """Draw what congestion control lets flows send above what they get, a colour a flow."""
    grid = Grid.of(folder, choice=choice)
    rates = rate_series(folder, grid, _LINES, choice)
    if not rates:
        raise nothing(folder, "rates", "no flow with congestion control carried anything")
    figure.set_size_inches(WIDTH, 7.0)
    top, bottom = figure.subplots(2, 1, sharex=True, sharey=True)
    allowed = [Series(each.label, each.allowed) for each in rates]
    _lines(top, grid, allowed, time_axis(top, folder, choice), 1.0)
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
    _lines(bottom, grid, goodput, time_axis(bottom, folder, choice), 1.0)
    bottom.get_legend().remove()
    bottom.set_ylabel("goodput [Gb/s]")
    title(bottom, f"What {_these(len(rates))} get")


def _set_names(transport: Mapping[str, Any]) -> list[str]:
    """Return the parameter sets that a transport's summary names."""
    running = (transport.get(each.algorithm) or {} for each in senders() if each.sets)
    return [given["name"] for given in running if "name" in given]


def _these(count: int) -> str:
    return f"the {count} largest flows" if count == _LINES else "a flow" if count == 1 else "flows"


def _jobs(folder: ResultFolder, figure: Any, choice: Choice) -> None:
    columns = ["kind", "name", "algorithm", "start_ps", "end_ps", "ideal_ps", "slowdown_ppm"]
    began = [
        row for row in folder.table("jobs", columns).to_pylist() if row["start_ps"] is not None
    ]
    if not began:
        raise nothing(folder, "jobs", "it has no job and no message that began")
    # What has no end has nothing to be late for: a bar over the whole run would say nothing.
    spans = [row for row in began if not row["algorithm"].startswith("persistent")]
    if not spans:
        raise nothing(folder, "jobs", "all its traffic is persistent, and ends with the run")
    shown = spans[:_MOST_SPANS]
    figure.set_size_inches(WIDTH, max(2.6, 1.6 + 0.3 * len(shown)))
    axes = figure.subplots()
    unit_ps = time_axis(axes, folder, choice)
    start_ps, stop_ps = span_ps(folder, choice)
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
        room = (start_ps + (stop_ps - start_ps) * 0.86) / unit_ps
        behind = start + length < room
        inside = min(start + length, stop_ps / unit_ps)
        axes.annotate(
            text, (inside, place), xytext=(4 if behind else -4, 0),
            textcoords="offset points", va="center", ha="left" if behind else "right",
            fontsize=7.5, color="white" if over and not behind else INK, annotation_clip=True,
        )  # fmt: skip
    axes.set_yticks(range(len(shown)), [row["name"] for row in shown])
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    _job_legend(axes, [kind for kind in colour_of if any(r["kind"] == kind for r in shown)])
    rest = f", the first {len(shown)} of {len(spans)}" if len(shown) < len(spans) else ""
    if len(began) > len(spans):
        rest += f" (without {len(began) - len(spans)} that have no end)"
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


def _pauses(folder: ResultFolder, figure: Any, choice: Choice) -> None:
    columns = ["node", "port", "class", "paused_ps", "xoff_sent"]
    ports = choice.endpoints(folder)
    rows = folder.table("pauses", columns).to_pylist()
    rows = [r for r in rows if not ports or str(Endpoint(r["node"], r["port"])) in ports]
    rows = [{key: value or 0 for key, value in row.items()} for row in rows]
    paused, pausing = _ranked(rows, "paused_ps"), _ranked(rows, "xoff_sent")
    if not paused and not pausing:
        raise nothing(folder, "pauses", "no port was paused")
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


TOPICS: dict[str, Callable[[ResultFolder, Any, Choice], None]] = {
    "queues": _queues,
    "links": _links,
    "flows": _flows,
    "fct": lambda folder, figure, choice: draw_completion([("", folder)], figure, choice),
    "slowdown": lambda folder, figure, choice: draw_slowdown([("", folder)], figure, choice),
    "rates": _rates,
    "jobs": _jobs,
    "pauses": _pauses,
    "paths": draw_paths,
    "imbalance": draw_imbalance,
    "gaps": draw_gaps,
    "telemetry": draw_telemetry,
}
_SOURCES = {
    **{name: name for name in TOPICS},
    "flows": "flow_rates",
    "rates": "flow_rates",
    "fct": "messages",
    "slowdown": "messages",
}
_FOLLOWS: Mapping[str, Set[str]] = {
    "queues": {"ports", "window"},
    "links": {"ports", "window"},
    "flows": {"flows", "window"},
    "fct": {"flows", "window"},
    "slowdown": {"flows", "window"},
    "rates": {"flows", "window"},
    "jobs": {"window"},
    "pauses": {"ports"},
    "paths": {"flows"},
    "imbalance": {"window"},
    "gaps": {"flows"},
    "telemetry": {"flows", "window"},
}
