"""A run file as slow as a run in real time: what the simulator shows beside a live run.

`Simulation(time_scale=N)` slows links, timers and the controller; traffic keeps its times there.
Here traffic, its rates and the run's own times are slowed by the same number, so that one run is
the other seen in slow motion.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from experiments.errors import LabError
from workloads.model import RunFile, WatchedFlows
from workloads.schema import TrafficEntry

_TIMES = frozenset({"start", "stop", "gap", "every", "at"})
_RATES = frozenset({"rate"})


def slowed(run: RunFile, time_scale: int) -> RunFile:
    """Return a run with times multiplied and rates divided. Raises LabError for one with jobs."""
    if time_scale == 1:
        return run
    if run.jobs:
        raise LabError(
            f"{run.name}: jobs can't be slowed down: they compute in fabric time",
            "leave 'beside: simulator' away, or run traffic in the place of the job",
        )
    return replace(
        run,
        until_ps=None if run.until_ps is None else run.until_ps * time_scale,
        sample_ps=run.sample_ps * time_scale,
        paths_window_ps=None if run.paths_window_ps is None else run.paths_window_ps * time_scale,
        watched=None if run.watched is None else _watched(run.watched, time_scale),
        traffic=tuple(_entry(each, time_scale) for each in run.traffic),
    )


def _watched(watched: WatchedFlows, time_scale: int) -> WatchedFlows:
    return replace(watched, every_ps=watched.every_ps * time_scale)


def _entry(entry: TrafficEntry, time_scale: int) -> TrafficEntry:
    given = getattr(entry, entry.kind)
    if isinstance(given, list):
        return entry.model_copy(update={entry.kind: [_slow(each, time_scale) for each in given]})
    return entry.model_copy(update={entry.kind: _slow(given, time_scale)})


def _slow(part: Any, time_scale: int) -> Any:
    changed: dict[str, int] = {}
    for name in type(part).model_fields:
        value = getattr(part, name)
        if value is not None and name in _TIMES:
            changed[name] = value * time_scale
        elif value is not None and name in _RATES:
            changed[name] = max(1, value // time_scale)
    return part.model_copy(update=changed)
