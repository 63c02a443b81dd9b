"""results.json: what ran, with which parameters, what came out, and whether that is what should.

The models here are the file's form; docs/labs.md explains it to readers. Times and rates are
fabric time in every runtime; numbers that did not happen are null.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
)

from experiments.api import Check, Figure, Finished, Runtime, Table, Variant, Verdict
from experiments.errors import LabError
from experiments.statistics import CONFIDENCE, Estimate

FILE = "results.json"
REPORT = "report.html"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Full(_Part):
    """What `--full` may be said of; it is left out where it was not asked for."""

    full: bool = False

    @model_serializer(mode="wrap")
    def _written(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        found: dict[str, Any] = write(self)
        return found if self.full else {k: v for k, v in found.items() if k != "full"}


class ProgramResult(_Part):
    """The P4 program that ran, and the SHA-256 of what it was compiled to."""

    file: str
    sha256: str


class RunResult(_Part):
    """One variant with one seed. `folder`: its own results, from where this file is."""

    seed: int
    runtime: Runtime
    time_scale: int
    wall_s: float
    folder: str
    failure: str = ""
    metrics: dict[str, float | None] = Field(default={})


class MetricResult(_Part):
    """A metric over seeds: median and its 95 % interval, and by which method.

    `method`: "order statistics" (n >= 6), "student t" (2 <= n <= 5) or "none" (n < 2: low and high
    are null). `missing`: in how many runs it did not happen; they are not in the median.
    """

    unit: str
    median: float | None
    low: float | None
    high: float | None
    confidence: float = CONFIDENCE
    method: str
    n: int
    missing: int
    values: tuple[float | None, ...]

    @classmethod
    def of(cls, estimate: Estimate) -> MetricResult:
        """Make one of an estimate."""
        return cls(
            unit=estimate.unit,
            median=estimate.median,
            low=estimate.low,
            high=estimate.high,
            method=estimate.method,
            n=estimate.n,
            missing=estimate.missing,
            values=estimate.values,
        )


class VariantResult(_Full):
    """A variant: `parameters` is its whole run file, `transports` what became of its transport.

    `beside`: the same in the simulator, of a live run whose lab asks for it.
    """

    name: str
    title: str
    labels: dict[str, str]
    quick: bool
    parameters: dict[str, Any]
    transports: list[dict[str, Any]]
    metrics: dict[str, MetricResult]
    beside: dict[str, MetricResult] | None = None
    runs: list[RunResult]


class CheckResult(_Part):
    """A check: `expected` says the threshold in words, `threshold` as a number where it is one.

    `value`: a number, or the median of runs, whose 95 % interval is `low` to `high`.
    """

    row: str
    expected: str
    value: float | None
    unit: str
    threshold: float | tuple[float, float] | None
    verdict: Verdict
    note: str = ""
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, check: Check) -> CheckResult:
        """Make one of what a lab returned."""
        return cls(
            row=check.row,
            expected=check.expected,
            value=check.value,
            unit=check.unit,
            threshold=check.threshold,
            verdict=check.verdict,
            note=check.note,
            low=check.low,
            high=check.high,
        )


class FigureResult(_Part):
    """A figure beside this file."""

    file: str
    caption: str


class LabResult(_Full):
    """The whole of results.json. `verdict`: fail if a check or a run failed."""

    format: Literal[1] = 1
    lab: str
    title: str
    teaches: str
    runtime: Runtime
    time_scale: int
    quick: bool
    seeds: list[int]
    program: ProgramResult
    settings: dict[str, Any]
    versions: dict[str, str]
    started: str
    wall_s: float
    verdict: Literal[Verdict.PASS, Verdict.FAIL]
    variants: list[VariantResult]
    checks: list[CheckResult]
    figures: list[FigureResult]

    def write(self, folder: Path) -> None:
        """Write results.json into a folder."""
        text = json.dumps(self.model_dump(mode="json"), indent=2, allow_nan=False)
        (folder / FILE).write_text(text + "\n", encoding="utf-8")


def read(folder: Path) -> LabResult:
    """Read a results.json back. Raises LabError where it is none."""
    path = folder / FILE
    try:
        return LabResult.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise LabError(f"{path}: can't be read: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise LabError(f"{path}: is no result of a lab: {where}: {first['msg']}") from None


def is_result(folder: Path) -> bool:
    """Say whether a folder holds results of a lab, whatever their format's number."""
    try:
        found = json.loads((folder / FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and {"format", "lab", "runtime"} <= found.keys()


def variant_result(
    table: Table, variant: Variant, parameters: Mapping[str, Any], folder: Path
) -> VariantResult:
    """Return what came out of a variant; paths are given from `folder`."""
    runs = [run for run in table if run.variant.name == variant.name]
    own = [run for run in runs if run.runtime is table.runtime]
    beside = [run for run in runs if run.runtime is not table.runtime]
    transports = next((run.transports for run in runs if run.transports), ())
    return VariantResult(
        name=variant.name,
        title=variant.title,
        labels=dict(variant.labels),
        quick=variant.quick,
        full=variant.full,
        parameters=dict(parameters),
        transports=[dict(each) for each in transports],
        metrics=_metrics(own),
        beside=_metrics(beside) if beside else None,
        runs=[_run(run, folder) for run in runs],
    )


def figure_results(figures: Iterable[Figure], folder: Path) -> list[FigureResult]:
    """Return figures by their names in `folder`. Raises LabError for one that is not there."""
    found = []
    for figure in figures:
        if not figure.path.is_relative_to(folder) or not figure.path.is_file():
            raise LabError(f"figure {figure.path.name} is not in the folder of results")
        name = str(figure.path.relative_to(folder))
        found.append(FigureResult(file=name, caption=figure.caption))
    return found


def _metrics(runs: Sequence[Finished]) -> dict[str, MetricResult]:
    """Estimate each metric from the runs that have it; one that failed has none."""
    names = dict.fromkeys(name for run in runs for name in run.metrics)
    return {name: MetricResult.of(_estimate(runs, name)) for name in names}


def _estimate(runs: Sequence[Finished], name: str) -> Estimate:
    there = [run.metrics[name] for run in runs if name in run.metrics]
    return Estimate.of([each.value for each in there], there[0].unit)


def _run(run: Finished, folder: Path) -> RunResult:
    return RunResult(
        seed=run.seed,
        runtime=run.runtime,
        time_scale=run.time_scale,
        wall_s=round(run.wall_s, 3),
        folder=str(run.folder.relative_to(folder)),
        failure=run.failure,
        metrics={name: each.value for name, each in run.metrics.items()},
    )
