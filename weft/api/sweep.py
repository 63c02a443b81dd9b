"""One run over many parameters and seeds, on all processors: tables, medians and a figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.interactive.errors import Interrupted, WeftError, plainly
from experiments.interactive.runs import Run, until_ps
from experiments.interactive.sweep_result import SweepResult
from experiments.interactive.values import plain
from weft.api import progress as bars
from weft.api.result import Result

if TYPE_CHECKING:
    from experiments import api
    from experiments.sweep import Progress

Measure = Callable[[Result], Mapping[str, float | int | None]]
"""Makes numbers of a run: names and values."""

Vary = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None
"""Values by dotted path, of which every combination is a point; or a list of points."""


@plainly
def sweep(
    run: Run,
    vary: Vary = None,
    *,
    seeds: Sequence[int] = (),
    measure: Sequence[str] | Measure = ("goodput", "fct_p50", "fct_p99", "peak_queue"),
    maximise: str | None = None,
    minimise: str | None = None,
    subject_to: Sequence[str] = (),
    until: str | None = None,
    processes: int | None = None,
    progress: bars.Wanted = None,
) -> SweepResult:
    """Simulate a run with every combination of parameters and every seed.

    Args:
        run: as `simulate` takes it.
        vary: values by dotted path: {"transport.window": [64, 256]}; also a range, as a sweep file
            has it: {"from": "1us", "to": "1ms", "steps": 5, "scale": "log"} (docs/sweep.md). Or a
            list of points, where not every combination makes sense.
        seeds: what is random is drawn anew with each; six give an interval by ranks.
        measure: names of metrics (`weft sweep --list-metrics`), or a function that makes numbers of
            a `Result`: lambda r: {"p99": ...}. It may be one of a notebook's cell.
        maximise, minimise: the metric that the best point has most or least of.
        subject_to: what the best point has to keep to, such as "peak_queue <= 2MB".
        until: the virtual time at which every run ends.
        processes: so many at once; one a processor without it.
        progress: as `simulate` takes it.

    Raises:
        InputError, WeftError: for what can't be used, and where every run failed.
        Interrupted: on Ctrl-C; its `.result` has the runs that were done by then.
    """
    # Here, so that using one name of `weft` does not load what the others need.
    from controller.program import CompiledProgram
    from experiments import sweep as sweeps
    from softswitch.program_cache import compile_program

    content = _content(run, vary, seeds, maximise, minimise, subject_to)
    function, names = _measured(measure)
    if names:
        content["metrics"] = names
    spec = sweeps.SweepSpec.of(content, name=_name(run))
    if until is not None:
        until_ps(until)  # what is wrong with it is found here
        spec = replace(spec, mapping={**spec.mapping, "until": until})
    with bars.shown(progress) as show:
        show(None, f"compile {spec.program.name}")
        made = compile_program(sweeps.program_job(spec))
        raw = sweeps.run(
            spec,
            program=CompiledProgram.of(made, spec.program),
            workers=processes,
            measure=None if function is None else _Measuring(function),
            tell=_telling(show),
        )
    if raw.runs and len(raw.failures) == len(raw.runs):
        raise WeftError(f"every run failed: {raw.failures[0].failure}")
    own = tuple(dict.fromkeys(name for each in raw.runs for name in each.units))
    goal = [name for name in (maximise, minimise) if name]
    shown = tuple(dict.fromkeys([*(names or own), *goal]))
    result = SweepResult(raw, shown or raw.metrics)
    if raw.interrupted:
        of = len(spec.points) * len(spec.seeds)
        raise Interrupted(f"{len(raw.runs)} of {of} runs are done", result)
    return result


def _content(
    run: Run,
    vary: Vary,
    seeds: Sequence[int],
    maximise: str | None,
    minimise: str | None,
    subject_to: Sequence[str],
) -> dict[str, Any]:
    """Return the sweep as its file would have it. Raises WeftError."""
    if maximise is not None and minimise is not None:
        raise WeftError("maximise and minimise exclude each other: give one of them")
    content: dict[str, Any] = {"run": plain(run) if isinstance(run, Mapping) else str(run)}
    if vary is None or isinstance(vary, Mapping):
        content["vary"] = plain(vary or {})
    elif isinstance(vary, list | tuple) and all(isinstance(each, Mapping) for each in vary):
        content["points"] = plain(vary)
    else:
        raise WeftError(
            'vary: a dict of lists, such as {"transport.window": [64, 256]}, or a list of dicts'
        )
    if seeds:
        content["seeds"] = plain(list(seeds))
    for goal, metric in (("maximise", maximise), ("minimise", minimise)):
        if metric is not None:
            content["objective"] = {goal: metric}
    if subject_to:
        content["subject_to"] = [subject_to] if isinstance(subject_to, str) else list(subject_to)
    return content


def _measured(measure: Sequence[str] | Measure) -> tuple[Measure | None, list[str]]:
    """Return the function, or the names of metrics."""
    if callable(measure):
        return measure, []
    return None, [measure] if isinstance(measure, str) else list(measure)


def _name(run: Run) -> str:
    return "sweep" if isinstance(run, Mapping) else Path(run).stem


class _Measuring:
    """Lets the caller's function have the `Result` of a run; it may be a closure, since we fork."""

    def __init__(self, function: Measure) -> None:
        self._function = function
        self.__code__ = getattr(function, "__code__", None)  # for who says where it went wrong

    def __call__(self, run: api.Run) -> Mapping[str, float | int | None]:
        found = self._function(Result(run.folder, run.summary))
        # numpy's numbers, which tables are full of, as Python's; what is none is told further on
        return {k: plain(v) for k, v in found.items()} if isinstance(found, Mapping) else found


def _telling(show: bars.Show) -> Callable[[Progress], None]:
    def tell(progress: Progress) -> None:
        failed = f", {progress.failed} failed" if progress.failed else ""
        share = progress.played / max(1, progress.runs)
        show(share, f"{progress.played} of {progress.runs} runs{failed}")

    return tell
