"""One run of a sweep, wherever it runs: a process here, or a Dask worker on another machine.

An `Assignment` is all that a worker has to know; it holds no path of the machine that made it. What
comes back is the metrics of one point and seed, or why there are none.
"""

from __future__ import annotations

import gc
import hashlib
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.api import Context, Measured, Run, Runtime, Variant
from experiments.lab_code import describe, place
from experiments.overrides import Merge
from experiments.sweep_metrics import Ended, Value, measured
from experiments.sweep_space import Point
from simulator.result_model import Stop
from softswitch.jobs import Died, in_child
from topologies.document import Document
from topologies.errors import TopologyError
from workloads.loader import run_of
from workloads.model import RunFile

if TYPE_CHECKING:
    from controller.program import CompiledProgram
    from experiments.fabrics import Fabrics
    from simulator.prepared import PreparedFabric
    from simulator.runner import Simulation

Task = tuple[int, int | None]  # a point and a seed

ROOT = Path(__file__).resolve().parent.parent

Measure = Callable[[Run], Mapping[str, Measured | int | float | None]]

Prepare = Callable[["Simulation", Context], None]

_PACKAGES = (
    "compiler",
    "controller",
    "experiments",
    "hostagent",
    "mechanisms",
    "observe",
    "protocols",
    "simulator",
    "softswitch",
    "topologies",
    "workloads",
)
_SUFFIXES = frozenset({".py", ".c", ".h"})
_ONE_AT_A_TIME = threading.Lock()


class VersionError(Exception):
    """A worker has other sources than the sweep: its numbers could differ."""


@dataclass(frozen=True)
class Assignment:
    """A sweep as its players see it. `sources`: what their sources have to be; empty: the same."""

    name: str
    mapping: Mapping[str, Any]
    points: tuple[Point, ...]
    metrics: tuple[str, ...]
    program: CompiledProgram
    measure: Measure | None = None
    prepare: Prepare | None = None
    sources: str = ""


@dataclass(frozen=True)
class Played:
    """One finished run. `units` are of what `measure` gave; `failure`: why no metrics."""

    point: int
    seed: int | None
    metrics: Mapping[str, Value] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    failure: str = ""


@cache
def fingerprint() -> str:
    """Return a digest of the sources that decide a run's numbers; labs' own folders do not."""
    digest = hashlib.sha256()
    for package in _PACKAGES:
        for path in sorted((ROOT / package).rglob("*")):
            if path.suffix in _SUFFIXES and "_build" not in path.parts:
                name = path.relative_to(ROOT).as_posix()
                digest.update(f"{name}:{path.stat().st_size}:".encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()


def merged(base: Document, point: Point) -> Document:
    """Return a run file with a point's values in it. Raises TopologyError for a path to nowhere."""
    positions = {("run", *path): position for path, position in base.positions.items()}
    merge = Merge(Document(base.file, {"run": base.data, "set": point}, positions), ("run",))
    merge.put(("set",))
    try:
        return merge.done()
    except TopologyError as error:
        raise TopologyError(
            [replace(each, field=each.field.removeprefix("set.")) for each in error.problems]
        ) from None


def point_run(base: Document, name: str, point: Point) -> RunFile:
    """Return a point's run file, checked. `base` needs no other file. Raises TopologyError."""
    return run_of(merged(base, point), name, Path())


def play(
    assignment: Assignment,
    point: int,
    seed: int | None,
    scratch: Path | None = None,
    fabrics: Fabrics | None = None,
) -> Played:
    """Run one point with one seed (None: the run's own), and measure it.

    Its results are in `scratch` for a while, or in the system's folder for such files. With
    `fabrics` it runs in a forked process, on a fabric that others of this process have, too.
    What goes wrong with it is in what is returned. Raises VersionError, KeyboardInterrupt.
    """
    if assignment.sources and assignment.sources != fingerprint():
        raise VersionError("its sources are not those of the sweep")
    with _ONE_AT_A_TIME:  # a Dask worker may have several threads, the engine is for one
        try:
            return _played(assignment, point, seed, scratch, fabrics)
        except TopologyError as error:
            # Lines would be those of no file: the parameters stand beside it.
            text = "; ".join(f"{p.field}: {p.message}" if p.field else p.message
                             for p in error.problems)  # fmt: skip
            return Played(point, seed, failure=text)
        except Died as error:
            return Played(point, seed, failure=error.loss.of("the process that ran it"))
        except Exception as error:
            return Played(point, seed, failure=describe(error))
        finally:
            # Simulation, switches and engine hold each other, and the collector of cycles, which
            # counts objects, does not see the megabytes that C holds.
            if fabrics is None:
                gc.collect()


def loaded_run(assignment: Assignment, point: int) -> RunFile:
    """Return a point's run file. Raises TopologyError."""
    base = Document("<run>", assignment.mapping, {})
    return point_run(base, assignment.name, assignment.points[point])


def _played(
    assignment: Assignment,
    point: int,
    seed: int | None,
    scratch: Path | None,
    fabrics: Fabrics | None,
) -> Played:
    if fabrics is None:
        return _simulated(assignment, point, seed, scratch, loaded_run(assignment, point), None)
    loaded = fabrics.run_file(point, lambda: loaded_run(assignment, point))
    prepared = fabrics.of(loaded, assignment.program)
    return in_child(lambda: _simulated(assignment, point, seed, scratch, loaded, prepared))


def _simulated(
    assignment: Assignment,
    point: int,
    seed: int | None,
    scratch: Path | None,
    loaded: RunFile,
    prepared: PreparedFabric | None,
) -> Played:
    from simulator.runner import Simulation  # half a second: only workers need it

    simulation = Simulation(loaded, assignment.program, seed=seed, prepared=prepared)
    with tempfile.TemporaryDirectory(prefix="weft-sweep-", dir=scratch) as folder:
        out = Path(folder) / "results"
        context = Context(
            lab=assignment.name,
            folder=out,
            variant=Variant(f"point-{point}", labels=_labels(assignment.points[point])),
            mapping=_mapping(loaded),
            seed=simulation.seed,
            runtime=Runtime.SIMULATOR,
            time_scale=1,
            out=out,
            program=assignment.program,
        )
        if assignment.prepare is not None:
            assignment.prepare(simulation, context)
        outcome = simulation.run(out)
        if outcome.stop is Stop.INTERRUPTED:
            raise KeyboardInterrupt
        metrics = measured(Ended.of(simulation, outcome), assignment.metrics)
        more = _own(assignment.measure, Run(context, outcome.summary, outcome.end))
    metrics |= {name: each.value for name, each in more.items()}
    units = {name: each.unit for name, each in more.items()}
    return Played(point, simulation.seed, metrics, units)


def _labels(point: Point) -> dict[str, str]:
    return {path: str(value) for path, value in point.items()}


def _mapping(loaded: RunFile) -> Mapping[str, Any]:
    assert isinstance(loaded.document.data, dict)
    return loaded.document.data


class MeasureError(Exception):
    """The caller's `measure` went wrong, or gave something that is not a number; says where."""


def _own(measure: Measure | None, run: Run) -> dict[str, Measured]:
    if measure is None:
        return {}
    try:
        found = measure(run)
    except Exception as error:
        code = getattr(measure, "__code__", None)
        where = place(error, Path(code.co_filename).parent) if code else ""
        name = Path(where).name
        raise MeasureError(f"measure: {name}{': ' if name else ''}{describe(error)}") from error
    if not isinstance(found, Mapping):
        raise MeasureError(f"measure gave {type(found).__name__}, and not metrics by their names")
    metrics = {}
    for name, value in found.items():
        each = value if isinstance(value, Measured) else Measured(value)
        if isinstance(each.value, bool) or not (
            each.value is None or (isinstance(each.value, int | float) and isfinite(each.value))
        ):
            raise MeasureError(f"measure gave {name} = {each.value!r}, which is not a number")
        metrics[name] = each
    return metrics
