"""Runs as a program gives them: a dict, a file or a name, with changes by dotted paths."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.interactive.errors import InputError, WeftError
from experiments.interactive.values import plain

if TYPE_CHECKING:
    from workloads.model import RunFile

Run = Mapping[str, Any] | str | Path
"""A run: what a run file says, a file, or the name of a run that comes with Weft."""

_NAME = "run"


def run_file(run: Run, changes: Mapping[str, Any] | None = None) -> RunFile:
    """Return a run, read and checked, with changes by dotted paths. Raises TopologyError."""
    # Here, so that using one name of `weft` does not load what the others need.
    from topologies.document import Document
    from workloads.loader import load_run_file, run_of

    data = plain(run) if isinstance(run, Mapping) else None
    if data is None and not isinstance(run, str | Path):
        raise WeftError(f"{type(run).__name__} is no run: give a dict, a file, or a run's name")
    if not changes:
        if data is None:
            return load_run_file(_path(run))
        return run_of(Document("<run>", data, {}), _NAME, Path())
    return _changed(data if data is not None else _path(run), plain(changes))


def _changed(run: dict[str, Any] | str | Path, changes: dict[str, Any]) -> RunFile:
    """Put changes into a run as a sweep puts a point's parameters into it. Raises InputError."""
    # Here, so that using one name of `weft` does not load what the others need.
    from experiments.errors import LabFileError
    from experiments.sweep_point import point_run
    from experiments.sweep_spec import SweepSpec
    from topologies.document import Document
    from topologies.errors import TopologyError
    from workloads.loader import load_run_file

    if not isinstance(run, dict):
        load_run_file(run)  # its mistakes are reported at its own lines
    try:
        if isinstance(run, dict):
            spec = SweepSpec.of({"run": run, "points": [changes]}, name=_NAME)
        else:
            spec = SweepSpec.load(run, {"points": [changes]})
        return point_run(Document("<run>", spec.mapping, {}), spec.name, spec.points[0])
    except (LabFileError, TopologyError) as error:
        told = "\n".join(f"{each.field}: {each.message}" for each in error.problems)
        raise InputError(told, error.problems) from None


def _path(run: Any) -> str | Path:
    return run if isinstance(run, Path) else str(run)


def until_ps(given: str) -> int:
    """Return a run's end in picoseconds. Raises WeftError."""
    # Here, so that using one name of `weft` does not load what the others need.
    from topologies.units import parse_duration

    try:
        found = parse_duration(given)
    except ValueError as error:
        raise WeftError(f"until: {error}") from None
    if found <= 0:
        raise WeftError(f"until: {given} must be above 0")
    return found
