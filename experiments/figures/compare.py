"""Several results in one figure: a line a result, called by what differs between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from experiments.drawing import COLOURS, HEIGHT, STYLES, WIDTH, title
from experiments.figures.axes import (
    BYTE_UNITS,
    figure_file,
    legend_beside,
    nothing,
    span_ps,
    time_axis_of,
    unit_for,
)
from experiments.figures.choice import Choice
from experiments.figures.messages import draw_completion, draw_slowdown
from experiments.figures.series import FEW_POINTS, MOST_POINTS, Grid, Numbers, flow_rates, link_map
from observe.errors import UsageError
from simulator.result_reader import ResultFolder
from topologies.model import Endpoint

MOST_RESULTS = len(COLOURS)
_MOST_PANELS = 4
_MOST_NAMED = 3  # settings in a label

Labelled = tuple[str, ResultFolder]
Line = tuple[str, Callable[[ResultFolder, Grid], Numbers]]
"""A panel's title, and what its lines are made of."""


def labels(folders: Sequence[ResultFolder]) -> list[str]:
    """Return a name for each result: the settings that differ, else its folder's name."""
    about = [_about(folder) for folder in folders]
    keys = dict.fromkeys(key for each in about for key in each)
    differing = [key for key in keys if len({str(each.get(key)) for each in about}) > 1]
    if 0 < len(differing) <= _MOST_NAMED:
        found = [", ".join(_setting(key, each.get(key)) for key in differing) for each in about]
        if len(set(found)) == len(found):
            return found
    names = [folder.path.resolve().name for folder in folders]
    return names if len(set(names)) == len(names) else [str(folder.path) for folder in folders]


def _about(folder: ResultFolder) -> dict[str, object]:
    summary = folder.summary
    found: dict[str, object] = {
        "run": summary["run"]["name"],
        "topology": summary["topology"]["name"],
        "seed": summary["run"]["seed"],
    }
    for number, transport in enumerate(summary.get("transports", ())):
        place = f"{number} " if number else ""
        found |= {place + key: value for key, value in _flat(transport) if key != "flows"}
    programs = {k: v for k, v in summary.get("versions", {}).items() if k.endswith(".p4")}
    found["program"] = ", ".join(f"{name} {str(sha)[:8]}" for name, sha in programs.items())
    return found


def _flat(values: Mapping[str, Any], above: str = "") -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = []
    for key, value in values.items():
        path = f"{above}.{key}" if above else key
        found += _flat(value, path) if isinstance(value, Mapping) else [(path, value)]
    return found


def _setting(key: str, value: object) -> str:
    plain = key in ("run", "topology", "congestion_control", "program")
    return str(value) if plain else f"{key.rpartition('.')[2].replace('_', ' ')} {value}"


def caption(folders: Sequence[ResultFolder]) -> str:
    """Return what a figure of several results says below it: what ran, and with which seeds."""
    first = folders[0].summary
    runs = dict.fromkeys(folder.summary["run"]["name"] for folder in folders)
    seeds = dict.fromkeys(str(folder.summary["run"]["seed"]) for folder in folders)
    plural = "s" if len(seeds) > 1 else ""
    text = f"{first['runtime']}, time scale {first['time_scale']}, {', '.join(runs)}"
    text += f", seed{plural} {', '.join(seeds)}"
    cut = [folder.path.name for folder in folders if folder.summary["end"]["interrupted"]]
    return text + (f"; interrupted: {', '.join(cut)}" if cut else "")


def compare(folders: Sequence[ResultFolder], what: str, path: Path, choice: Choice) -> None:
    """Draw one topic of `COMPARED` of several results into a file.

    Raises NothingToPlotError where one of them has nothing of it, ResultError, and UsageError.
    """
    results = list(zip(labels(folders), folders, strict=True))
    with figure_file(path, caption(folders)) as figure:
        COMPARED[what](results, figure, choice)


def _panels(
    results: Sequence[Labelled],
    figure: Any,
    choice: Choice,
    points: int,
    lines: Sequence[Line],
) -> Sequence[Any]:
    """Draw a panel for each of `lines`, with a line for each result; returns their axes."""
    if len(lines) > _MOST_PANELS:
        raise UsageError(f"{len(lines)} panels in one figure: choose at most {_MOST_PANELS}")
    spans = [span_ps(folder, choice) for _, folder in results]
    span = min(start for start, _ in spans), max(stop for _, stop in spans)
    figure.set_size_inches(WIDTH, HEIGHT if len(lines) == 1 else 1.2 + 2.4 * len(lines))
    panels = list(figure.subplots(len(lines), 1, sharex=True, squeeze=False)[:, 0])
    for axes, (name, values) in zip(panels, lines, strict=True):
        unit_ps = time_axis_of(axes, span, max(f.now_ps for _, f in results), choice)
        for number, (label, folder) in enumerate(results):
            mine = span[0], min(span[1], max(folder.now_ps, 1))
            grid = Grid.over(mine, folder.sample_ps, points)
            drawn = values(folder, grid)
            axes.plot(
                grid.edges_ps / unit_ps, [*drawn, drawn[-1]], color=COLOURS[number],
                linestyle=STYLES[number], linewidth=1.4, drawstyle="steps-post", label=label,
            )  # fmt: skip
        axes.set_ylim(bottom=0)
        title(axes, name)
        if axes is not panels[-1]:
            axes.set_xlabel("")
    legend_beside(panels[0])
    return panels


def _queues(results: Sequence[Labelled], figure: Any, choice: Choice) -> None:
    def longest(folder: ResultFolder, grid: Grid, port: str | None = None) -> Numbers:
        table = folder.table("queues", ["at_ps", "node", "port", "bytes"])
        if port is not None:
            rows = zip(table["node"].to_pylist(), table["port"].to_pylist(), strict=True)
            table = table.filter([str(Endpoint(*row)) == port for row in rows])
        return grid.most(table["at_ps"].to_numpy(), table["bytes"].fill_null(0).to_numpy())

    ports = choice.ports
    for _, folder in results:
        for port in choice.endpoints(folder):
            if not longest(folder, Grid.of(folder, choice=choice), port).any():
                raise nothing(folder, f"queue of {port}", "no sample found anything in it")
    lines: list[Line] = [(f"The longest queue of {p}", partial(longest, port=p)) for p in ports]
    panels = _panels(
        results,
        figure,
        choice,
        MOST_POINTS,
        lines or [("The longest queue at each moment", longest)],
    )
    most = max(axes.get_ylim()[1] for axes in panels)
    size, unit = unit_for(most, BYTE_UNITS)
    for axes in panels:
        axes.yaxis.set_major_formatter(lambda value, _: f"{value / size:.4g}")
        axes.set_ylabel(f"queued [{unit}]")


def _links(results: Sequence[Labelled], figure: Any, choice: Choice) -> None:
    def fullest(folder: ResultFolder, grid: Grid) -> Numbers:
        return np.asarray(link_map(folder, grid)[1].max(axis=0, initial=0.0))

    def of(folder: ResultFolder, grid: Grid, port: str) -> Numbers:
        shares = link_map(folder, grid, Choice(ports=(port,)))[1]
        return np.asarray(shares.sum(axis=0))

    lines: list[Line] = [(f"Link out of {p}", partial(of, port=p)) for p in choice.ports]
    drawn = lines or [("The fullest link at each moment", fullest)]
    for axes in _panels(results, figure, choice, FEW_POINTS, drawn):
        axes.set_ylabel("used [%]")


def _flows(results: Sequence[Labelled], figure: Any, choice: Choice) -> None:
    def together(folder: ResultFolder, grid: Grid, flow: str | None = None) -> Numbers:
        chosen = Choice() if flow is None else Choice(flows=(flow,))
        return np.asarray(np.nansum(flow_rates(folder, grid, chosen).values, axis=0))

    for _, folder in results:
        if not folder.rows("flow_rates"):
            raise nothing(folder, "flows", "no sample found anything received")
        choice.flow_numbers(folder)
    lines: list[Line] = [(f"Goodput of {f}", partial(together, flow=f)) for f in choice.flows]
    drawn = lines or [("Goodput of all flows together", together)]
    for axes in _panels(results, figure, choice, FEW_POINTS, drawn):
        axes.set_ylabel("goodput [Gb/s]")


COMPARED: dict[str, Callable[[Sequence[Labelled], Any, Choice], None]] = {
    "queues": _queues,
    "links": _links,
    "flows": _flows,
    "fct": draw_completion,
    "slowdown": draw_slowdown,
}
"""What several results can be compared in."""
