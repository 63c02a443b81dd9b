"""A sweep's folder as a figure: metrics against the parameter that was varied, with intervals."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.drawing import COLOURS, STYLES, WIDTH, title
from experiments.figures.axes import BYTE_UNITS, TIME_UNITS, figure_file, legend_beside, unit_for
from experiments.statistics import RANKS, Estimate
from experiments.sweep_result import FORMAT, JSON
from observe.errors import UsageError
from simulator.result_model import ResultError
from topologies.errors import did_you_mean
from topologies.units import parse_duration, parse_rate, parse_size

_KEYS = ("points", "parameters", "metrics", "objective", "seeds", "name", "interrupted")
_MOST_METRICS = 4
_MOST_LINES = len(COLOURS)
_LOG_FROM = 20.0  # the largest value over the smallest, from which on the axis is logarithmic
_USUAL = ("goodput", "fct_p50", "fct_p99", "peak_queue", "imbalance", "jain")
_RATES = ((10**12, "Tb/s"), (10**9, "Gb/s"), (10**6, "Mb/s"), (10**3, "kb/s"), (1, "b/s"))
_UNITS = {"ps": (*TIME_UNITS, (1, "ps")), "B": BYTE_UNITS, "b/s": _RATES}


def is_sweep(path: Path) -> bool:
    """Say whether a folder is one that `weft sweep` wrote."""
    return (path / JSON).is_file()


@dataclass(frozen=True)
class Sweep:
    """What `results.json` says."""

    path: Path
    document: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path) -> Sweep:
        """Read a folder of `weft sweep`. Raises ResultError."""
        try:
            document = json.loads((path / JSON).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ResultError(f"{path / JSON} can't be read: {error}", "sweep again") from None
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise ResultError(f"{path / JSON} is no result of a sweep", "sweep again")
        for key in _KEYS:
            if key not in document:
                raise ResultError(f"{path / JSON} is damaged: no {key!r}", "sweep again")
        if not document["points"]:
            raise ResultError(f"{path}: nothing to plot: no run has ended", "sweep again")
        return cls(path, document)

    @property
    def points(self) -> Sequence[Mapping[str, Any]]:
        """The points of which something ran."""
        points: Sequence[Mapping[str, Any]] = self.document["points"]
        return points

    def varied(self) -> dict[str, list[object]]:
        """Return the parameters with more than one value, and their values in order."""
        found = {}
        for path in self.document["parameters"]:
            values = list({_key(p["parameters"].get(path)): p["parameters"].get(path)
                           for p in self.points}.values())  # fmt: skip
            if len(values) > 1:
                found[path] = values
        return found

    def metrics(self, asked: Sequence[str]) -> list[str]:
        """Return the metrics to draw: those asked for, else the goal's, else the usual ones."""
        there = self.document["metrics"]
        for name in asked:
            if name not in there:
                hint = did_you_mean(name, there) or f": there is {', '.join(there)}"
                raise UsageError(f"{self.path}: no metric {name!r}{hint}")
        if len(asked) > _MOST_METRICS:
            raise UsageError(f"--metric: at most {_MOST_METRICS} in one figure, not {len(asked)}")
        goal = list((self.document["objective"] or {}).values())
        names = asked or goal or [n for n in _USUAL if n in there] or list(there)
        drawn = [n for n in names if any(p["median"][n] is not None for p in self.points)]
        if not drawn:
            raise ResultError(f"{self.path}: nothing to plot: no run has {', '.join(names)}")
        return drawn[:_MOST_METRICS]

    def caption(self) -> str:
        """Return what the figure says below: what ran, which seeds, which intervals."""
        about = self.document
        seeds = ", ".join(str(seed) for seed in about["seeds"])
        text = f"{about['runtime']}, time scale {about['time_scale']}, sweep {about['name']}"
        text += f", seed{'s' if len(about['seeds']) > 1 else ''} {seeds}"
        estimate = self.estimate(self.points[0], self.metrics(())[0])
        if estimate.has_interval:
            how = "by ranks" if estimate.method == RANKS else "by Student's t"
            text += f"; medians with 95 % intervals {how}"
        return text + ("; interrupted" if about["interrupted"] else "")

    @staticmethod
    def estimate(point: Mapping[str, Any], metric: str) -> Estimate:
        """Return a metric of a point over the seeds that ran."""
        return Estimate.of(
            [run["metrics"].get(metric) for run in point["runs"] if "metrics" in run]
        )


def draw_sweep(sweep: Sweep, path: Path, metrics: Sequence[str], along: str | None) -> None:
    """Draw metrics against a parameter, a line for each combination of the others.

    `along`: that parameter; without it the one with the most values. Raises UsageError,
    ResultError.
    """
    varied = sweep.varied()
    if not varied:
        raise ResultError(f"{sweep.path}: nothing to plot: no parameter has two values")
    if along is not None and along not in varied:
        raise UsageError(f"--along {along}: the sweep varied {', '.join(varied)}")
    drawn = sweep.metrics(metrics)
    x = along or max(varied, key=lambda name: len(varied[name]))
    others = [name for name in varied if name != x]
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for point in sweep.points:
        label = ", ".join(f"{_short(o)} {_text(point['parameters'].get(o))}" for o in others)
        groups.setdefault(label, []).append(point)
    scattered = len(groups) > _MOST_LINES
    with figure_file(path, sweep.caption()) as figure:
        figure.set_size_inches(WIDTH, 1.6 + 2.6 * len(drawn))
        panels = figure.subplots(len(drawn), 1, sharex=True, squeeze=False)[:, 0]
        places = _Places.of(varied[x])
        for axes, metric in zip(panels, drawn, strict=True):
            if scattered:
                _panel(axes, sweep, metric, x, places, {"": list(sweep.points)}, joined=False)
            else:
                _panel(axes, sweep, metric, x, places, groups, joined=True)
        places.label(panels[-1], x)
        if others and not scattered:
            legend_beside(panels[0])


def sweep_rows(sweep: Sweep, metrics: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """Return the head of a table of all runs, and its rows; values have their units."""
    drawn, varied = sweep.metrics(metrics), list(sweep.varied())
    units = sweep.document["metrics"]
    rows = []
    for point in sweep.points:
        given = [_text(point["parameters"].get(path)) for path in varied]
        for run in point["runs"]:
            measured = run.get("metrics", {})
            shown = [_value(measured.get(name), units[name]["unit"]) for name in drawn]
            rows.append(
                [str(point["point"]), str(run["seed"]), *given, *shown, run.get("failure", "")]
            )
    return ["point", "seed", *varied, *drawn, "failure"], rows


def _value(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    scale, shown = unit_for(abs(float(value)), _UNITS[unit]) if unit in _UNITS else (1, unit)
    return f"{value / scale:.5g} {shown}".rstrip()


def _panel(
    axes: Any,
    sweep: Sweep,
    metric: str,
    x: str,
    places: _Places,
    groups: Mapping[str, Sequence[Mapping[str, Any]]],
    *,
    joined: bool,
) -> None:
    unit = sweep.document["metrics"][metric]["unit"]
    most = max((abs(p["median"][metric] or 0) for p in sweep.points), default=0)
    scale, shown = unit_for(float(most), _UNITS[unit]) if unit in _UNITS else (1, unit)
    for number, (label, points) in enumerate(groups.items()):
        rows = []
        for point in points:
            found = sweep.estimate(point, metric)
            if found.median is not None:
                low, high = (found.median if e is None else e for e in (found.low, found.high))
                rows.append((places.of_value(point["parameters"].get(x)), found.median, low, high))
        rows.sort()
        if not rows:
            continue
        at, middle, lows, highs = (list(column) for column in zip(*rows, strict=True))
        below = [max(0.0, (m - low) / scale) for m, low in zip(middle, lows, strict=True)]
        above = [max(0.0, (high - m) / scale) for m, high in zip(middle, highs, strict=True)]
        axes.errorbar(
            at, [m / scale for m in middle], yerr=[below, above], color=COLOURS[number],
            linestyle=STYLES[number] if joined else "none", linewidth=1.4, marker="o",
            markersize=4, capsize=3, elinewidth=1.0, label=label or None,
        )  # fmt: skip
    if axes.get_ylim()[0] > 0 and most > 0:
        axes.set_ylim(bottom=0)
    name = metric.replace("_", " ")
    axes.set_ylabel(f"{name} [{shown}]" if shown else name)
    title(axes, sweep.document["metrics"][metric]["about"] or name)


@dataclass(frozen=True)
class _Places:
    """Where values of a parameter stand on the axis: numbers as such, others side by side."""

    values: Sequence[object]
    numbers: Sequence[float] | None

    @classmethod
    def of(cls, values: Sequence[object]) -> _Places:
        found = [_number(value) for value in values]
        numbers = [each for each in found if each is not None]
        return cls(values, numbers if len(numbers) == len(values) else None)

    def of_value(self, value: object) -> float:
        keys = [_key(each) for each in self.values]
        place = keys.index(_key(value))
        return float(place) if self.numbers is None else self.numbers[place]

    def label(self, axes: Any, name: str) -> None:
        axes.set_xlabel(name)
        at = range(len(self.values)) if self.numbers is None else self.numbers
        numbers = self.numbers or (0.0,)
        if min(numbers) > 0 and max(numbers) / min(numbers) >= _LOG_FROM:
            axes.set_xscale("log")
            axes.minorticks_off()
        if len(self.values) <= 12:
            texts = [_text(value) for value in self.values]
            axes.set_xticks(list(at), texts, fontsize=8)


def _number(value: object) -> float | None:
    """Return a value with a unit as a number; None where it is none."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return float(value)
    if not isinstance(value, str):
        return None
    for parse in (parse_duration, parse_rate, parse_size):
        try:
            return float(parse(value))
        except ValueError:
            continue
    try:
        return float(value.removesuffix("%"))
    except ValueError:
        return None


def _key(value: object) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _short(path: str) -> str:
    return path.rpartition(".")[2]
