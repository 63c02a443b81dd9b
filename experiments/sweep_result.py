"""What a sweep found: every run's metrics, medians of points, the best of them, and its files.

No time of day, machine or number of workers goes into results.json, results.csv and
results.parquet: the same sweep gives the same bytes.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from controller.program import CompiledProgram
from experiments.errors import LabError
from experiments.sweep_goal import Number, median
from experiments.sweep_metrics import MetricError, Value, metric_named
from experiments.sweep_point import Played, merged
from experiments.sweep_space import Point
from experiments.versions import weft_version
from topologies.document import Document

if TYPE_CHECKING:
    from experiments.sweep import SweepSpec

FORMAT = 1
RUNTIME = "simulator"
JSON, CSV, PARQUET, BEST = "results.json", "results.csv", "results.parquet", "best.yaml"
LOG = "run.json"
"""How long it took here; written by who asks."""

FIGURE = "sweep.png"
"""What `weft plot` draws of it."""

_OURS = frozenset({JSON, CSV, PARQUET, BEST, LOG, FIGURE})
_FAILURE = "failure"


@dataclass(frozen=True)
class PointResult:
    """A point and its runs, one a seed, in the order of the seeds.

    `feasible`: all seeds were run, and each keeps to every constraint.
    """

    number: int
    parameters: Point
    runs: tuple[Played, ...]
    medians: Mapping[str, Number | None]
    is_whole: bool
    feasible: bool

    @property
    def failures(self) -> tuple[Played, ...]:
        """The runs that failed."""
        return tuple(run for run in self.runs if run.failure)


@dataclass(frozen=True)
class SweepResult:
    """All finished runs, by point. `interrupted`: the user ended it before the last."""

    spec: SweepSpec
    program: CompiledProgram = field(repr=False)
    runs: tuple[Played, ...]
    interrupted: bool = False

    @classmethod
    def of(
        cls,
        spec: SweepSpec,
        program: CompiledProgram,
        runs: Iterable[Played],
        interrupted: bool = False,
    ) -> SweepResult:
        """Sort the runs by point and seed."""
        order = {seed: place for place, seed in enumerate(spec.seeds)}
        ordered = sorted(runs, key=lambda run: (run.point, order.get(run.seed, 0)))
        return cls(spec, program, tuple(ordered), interrupted)

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """The names of what was measured: the usual ones, then the caller's own."""
        return tuple(dict.fromkeys(name for run in self.runs for name in run.metrics))

    @cached_property
    def units(self) -> dict[str, str]:
        """The unit of each metric; none for a plain number."""
        found = {name: unit for run in self.runs for name, unit in run.units.items()}
        for name in self.metrics:
            if name not in found:
                found[name] = metric_named(name).unit
        return {name: found[name] for name in self.metrics}

    @cached_property
    def points(self) -> tuple[PointResult, ...]:
        """The points with at least one run, in order."""
        by_point: dict[int, list[Played]] = {}
        for run in self.runs:
            by_point.setdefault(run.point, []).append(run)
        return tuple(self._point(number, runs) for number, runs in sorted(by_point.items()))

    def _point(self, number: int, runs: Sequence[Played]) -> PointResult:
        good = [run for run in runs if not run.failure]
        whole = len(good) == len(self.spec.seeds)
        medians = {
            name: median([run.metrics.get(name) for run in good]) if good else None
            for name in self.metrics
        }
        kept = all(
            constraint.holds(
                run.metrics.get(constraint.metric), self.units.get(constraint.metric, "")
            )
            for run in good
            for constraint in self.spec.constraints
        )
        point = self.spec.points[number]
        return PointResult(number, point, tuple(runs), medians, whole, whole and kept)

    @property
    def failures(self) -> tuple[Played, ...]:
        """The runs that failed."""
        return tuple(run for run in self.runs if run.failure)

    def best(self) -> PointResult | None:
        """Return the feasible point with the best median of the objective; of equals the first.

        None without an objective, or where no point is feasible.
        """
        objective = self.spec.objective
        if objective is None:
            return None
        found: tuple[Number, PointResult] | None = None
        for point in self.points:
            value = point.medians.get(objective.metric)
            if not point.feasible or value is None:
                continue
            if found is None or objective.better(value, found[0]):
                found = value, point
        return found and found[1]

    # --- as files ----------------------------------------------------------------------------

    def document(self) -> dict[str, Any]:
        """Return what results.json holds (docs/sweep.md)."""
        spec, best = self.spec, self.best()
        drawn = spec.drawn
        return {
            "format": FORMAT,
            "runtime": RUNTIME,
            "time_scale": 1,
            "name": spec.name,
            "description": spec.description,
            "run": spec.mapping,
            "program": {"name": self.program.name, "sha256": self.program.sha256},
            "versions": {"weft": weft_version(), "pyarrow": pa.__version__},
            "parameters": list(spec.parameters),
            "seeds": [self._seed(seed) for seed in spec.seeds],
            "draw": drawn
            and {
                "method": "latin-hypercube" if drawn.stratified else "random",
                "points": drawn.points,
                "seed": drawn.seed,
            },
            "objective": spec.objective
            and {"maximise" if spec.objective.maximise else "minimise": spec.objective.metric},
            "subject_to": [str(constraint) for constraint in spec.constraints],
            "metrics": {name: self._about(name) for name in self.metrics},
            "points": [self._entry(point) for point in self.points],
            "best": best and best.number,
            "runs": {
                "asked": len(spec.points) * len(spec.seeds),
                "played": len(self.runs),
                "failed": len(self.failures),
            },
            "interrupted": self.interrupted,
        }

    def _seed(self, seed: int | None) -> int:
        return int(self.spec.mapping.get("seed", 1)) if seed is None else seed

    def _about(self, name: str) -> dict[str, str]:
        try:
            about = metric_named(name).about
        except MetricError:
            about = ""
        return {"unit": self.units[name], "about": about}

    def _entry(self, point: PointResult) -> dict[str, Any]:
        return {
            "point": point.number,
            "parameters": point.parameters,
            "feasible": point.feasible,
            "median": dict(point.medians),
            "runs": [
                {"seed": run.seed, _FAILURE: run.failure}
                if run.failure
                else {"seed": run.seed, "metrics": dict(run.metrics)}
                for run in point.runs
            ],
        }

    def write(self, folder: Path | str) -> None:
        """Write results.json, .csv, .parquet, and best.yaml: the best point's run file.

        Raises LabError where nothing can be written, or other files are.
        """
        out = Path(folder)
        make_folder(out)
        text = json.dumps(self.document(), indent=2, ensure_ascii=False)
        try:
            (out / JSON).write_text(text + "\n", encoding="utf-8")
            (out / CSV).write_text(self._csv(), encoding="utf-8")
            self._write_parquet(out / PARQUET)
            best = self.best()
            if best is None:
                (out / BEST).unlink(missing_ok=True)
            else:
                (out / BEST).write_text(self._run_file(best), encoding="utf-8")
        except OSError as error:
            raise LabError(f"can't write results to {out}: {error.strerror}") from None

    def _run_file(self, point: PointResult) -> str:
        data = merged(Document("", dict(self.spec.mapping), {}), point.parameters).data
        text: str = yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
        return f"# Point {point.number} of the sweep {self.spec.name}: weft sim {BEST}\n{text}"

    def _columns(self) -> dict[str, list[Any]]:
        """Return the table of all runs; parameters that are lists or mappings are JSON."""
        columns: dict[str, list[Any]] = {
            "point": [run.point for run in self.runs],
            "seed": [run.seed for run in self.runs],
        }
        for path in self.spec.parameters:
            values = [self.spec.points[run.point].get(path) for run in self.runs]
            columns[path] = [_cell(value) for value in values]
        for name in self.metrics:
            # A metric that is called as a parameter is would hide it.
            key = f"metric.{name}" if name in columns else name
            columns[key] = [run.metrics.get(name) for run in self.runs]
        columns[_FAILURE] = [run.failure for run in self.runs]
        return columns

    def _csv(self) -> str:
        columns = self._columns()
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
        return text.getvalue()

    def table(self) -> pa.Table:
        """Return a row for each run: point, seed, parameters, metrics, and why it failed."""
        columns = self._columns()
        arrays = [_array(values) for values in columns.values()]
        about = {
            "weft.runtime": RUNTIME,
            "weft.sweep": self.spec.name,
            "weft.time_scale": "1",
        }
        schema = pa.schema(
            [(name, array.type) for name, array in zip(columns, arrays, strict=True)]
        )
        return pa.Table.from_arrays(arrays, schema=schema.with_metadata(about))

    def _write_parquet(self, path: Path) -> None:
        # Every setting that decides bytes, as simulator.result_tables has them.
        pq.write_table(
            self.table(), path, version="2.6", compression="zstd", compression_level=3,
            use_dictionary=False, store_schema=False, write_page_checksum=True,
        )  # fmt: skip


def make_folder(out: Path) -> None:
    """Make a folder for results; an older result may be in it. Raises LabError."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        others = sorted({entry.name for entry in out.iterdir()} - _OURS)
    except OSError as error:
        raise LabError(f"can't write results to {out}: {error.strerror}") from None
    if others:
        remedy = "give another folder, or none"
        raise LabError(f"{out} holds other files than a sweep's, for example {others[0]}", remedy)


def _cell(value: Any) -> Any:
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    return value


def _array(values: Sequence[Value | str | bool]) -> pa.Array:
    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return pa.array(values, pa.bool_())
    if kinds <= {int} and all(abs(int(v)) < 1 << 63 for v in values if v is not None):
        return pa.array(values, pa.int64())
    if kinds <= {int, float}:
        return pa.array([None if v is None else float(v) for v in values], pa.float64())
    return pa.array([None if v is None else str(v) for v in values], pa.string())
