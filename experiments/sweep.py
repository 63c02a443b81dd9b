"""One run file over a grid, a list or draws of parameters and seeds: `weft sweep`, and labs.

    spec = SweepSpec.of({"run": "two-flows", "vary": {"transport.overrides.gain": [0.004, 0.5]},
                         "seeds": [1, 2, 3], "objective": {"maximise": "goodput"}})
    result = run(spec)                                    # processes of this machine
    result = run(spec, scheduler="tcp://10.0.0.7:8786")   # the same, on Dask's workers
    result.best().parameters

The result is the same, byte for byte, wherever it runs and by however many processes.
"""

from __future__ import annotations

import json
import multiprocessing
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from controller.program import CompiledProgram
from experiments.errors import LabError
from experiments.fabrics import SET_UP_KEYS, Fabrics
from experiments.sweep_dask import DaskError, played_by_dask
from experiments.sweep_metrics import MetricError, metric_named
from experiments.sweep_point import (
    Assignment,
    Measure,
    Played,
    Prepare,
    Task,
    loaded_run,
    play,
    point_run,
)
from experiments.sweep_result import PointResult, SweepResult
from experiments.sweep_space import Point
from experiments.sweep_spec import SweepSpec
from mechanisms.program import job_of_all
from softswitch import jobs
from softswitch.program_cache import Job
from topologies.document import Document
from topologies.errors import TopologyError

__all__ = [
    "DaskError",
    "PointResult",
    "Progress",
    "SweepResult",
    "SweepSpec",
    "run",
    "usual_metrics",
]


@dataclass(frozen=True)
class Progress:
    """How far a sweep has come: what ran last (None: it begins), and how many of all.

    `so_far` makes a result of what ran, as if the sweep ended now.
    """

    last: Played | None
    played: int
    failed: int
    runs: int
    so_far: Callable[[], SweepResult]


def run(
    spec: SweepSpec,
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    measure: Measure | None = None,
    prepare: Prepare | None = None,
    program: CompiledProgram | None = None,
    tell: Callable[[Progress], None] = lambda progress: None,
) -> SweepResult:
    """Run every point with every seed, and measure each run.

    `workers`: processes of this machine, one a processor if None. `scheduler`: a Dask scheduler's
    address, such as tcp://10.0.0.7:8786, in the place of processes. `measure` adds metrics of its
    own: it takes a `labs.Run`, as a lab's `measure` does; `prepare` is called before each run, as a
    lab's is. `program`: `spec.program`, compiled
    already. A run that fails is in the result, with its reason; the others go on. Ctrl-C ends the
    sweep with the results so far (`interrupted`).

    Raises LabError for an unknown metric, DaskError where no worker can be had, and what compiling
    the program raises.
    """
    if workers is not None and workers < 1:
        raise LabError(f"{workers} workers: at least one has to work")
    usual = usual_metrics(spec, own=measure is not None)
    program = program or _compiled(spec)
    tasks: list[Task] = [(point, seed) for point in range(len(spec.points)) for seed in spec.seeds]
    assignment = Assignment(spec.name, spec.mapping, spec.points, usual, program, measure, prepare)
    if scheduler is not None:
        return _collected(spec, assignment, tasks, tell, scheduler=scheduler)
    count = min(workers or jobs.processors(), len(tasks))
    return _collected(spec, assignment, tasks, tell, workers=count)


def _collected(
    spec: SweepSpec,
    assignment: Assignment,
    tasks: list[Task],
    tell: Callable[[Progress], None],
    *,
    workers: int = 1,
    scheduler: str | None = None,
) -> SweepResult:
    runs: list[Played] = []

    def so_far() -> SweepResult:
        return SweepResult.of(spec, assignment.program, runs, interrupted=True)

    failed, interrupted = 0, False
    try:
        with tempfile.TemporaryDirectory(prefix="weft-sweep-") as scratch:
            if scheduler is not None:
                playing = played_by_dask(assignment, tasks, scheduler)
            elif multiprocessing.current_process().daemon:
                # A worker of another pool, which may not start processes.
                playing = (play(assignment, *task) for task in tasks)
            else:
                _build(assignment.program)
                playing = _played_here(assignment, tasks, workers, Path(scratch))
            with closing(playing):
                for played in playing:
                    if played is not None:
                        runs.append(played)
                        failed += bool(played.failure)
                    tell(Progress(played, len(runs), failed, len(tasks), so_far))
    except KeyboardInterrupt:
        interrupted = True
    return SweepResult.of(spec, assignment.program, runs, interrupted)


def _played_here(
    assignment: Assignment, tasks: Sequence[Task], workers: int, scratch: Path
) -> Generator[Played | None, None, None]:
    """Yield None when all have started, then each run as it ends. Closing the iterator ends all
    processes.

    Results are in `scratch` for a while.
    """

    fabrics = Fabrics()  # one in each process; the first is set up here, if all take it

    def do(task: Task, tell: jobs.Tell) -> Played:
        return play(assignment, *task, scratch, fabrics)

    try:
        if len(tasks) > 1 and shares_fabric(assignment.points):
            with suppress(Exception):  # each run reports what is wrong
                fabrics.of(loaded_run(assignment, 0), assignment.program)
        # Forked, so that the caller's `measure` may be any function.
        with jobs.Pool(tasks, do, workers=workers, fork=True) as pool:
            yield None  # a caller may start threads from here on: they are not forked
            for number, result in pool.results():
                if isinstance(result, jobs.Loss):
                    result = Played(*tasks[number], failure=result.of("the process that ran it"))
                yield result
    finally:
        fabrics.forget()


def shares_fabric(points: Sequence[Point]) -> bool:
    """Return whether all points leave alone what a fabric is set up by."""
    return not any(
        path.partition(".")[0].partition("[")[0] in SET_UP_KEYS
        for point in points
        for path in point
    )


def usual_metrics(spec: SweepSpec, *, own: bool = False) -> tuple[str, ...]:
    """Return the metrics that the sweep itself measures. Raises LabError for one unknown.

    With a `measure` of the caller's, names that are not ours are his.
    """
    goal = [constraint.metric for constraint in spec.constraints]
    if spec.objective is not None:
        goal.insert(0, spec.objective.metric)
    usual = {}
    for name in (*spec.metrics, *goal):
        try:
            usual[name] = metric_named(name).unit
        except MetricError as error:
            if not own:
                raise LabError(str(error)) from None
    for constraint in spec.constraints:
        unit, given = usual.get(constraint.metric), constraint.unit()
        if unit is not None and given and given != unit:
            raise LabError(f"{constraint}: {constraint.metric} counts in {unit or 'plain numbers'}")
    return tuple(usual)


def program_job(spec: SweepSpec) -> Job:
    """Return how to compile the program, so that it has room for the topology of every point."""
    of_topology = {
        json.dumps({k: v for k, v in point.items() if k.startswith("topology")}, default=str): point
        for point in spec.points
    }
    topologies = []
    for point in of_topology.values():
        with suppress(TopologyError):  # which is reported where the point runs
            run = point_run(Document("<run>", spec.mapping, {}), spec.name, point)
            topologies.append(run.topology)
    return job_of_all(topologies, spec.program)


def _compiled(spec: SweepSpec) -> CompiledProgram:
    from compiler import compile_p4  # only a sweep that got no program needs the compiler

    result = compile_p4(spec.program, defines=program_job(spec).defines)
    return CompiledProgram.of(result, spec.program)


def _build(program: CompiledProgram) -> None:
    """Build the program, and import the engine, once for all processes."""
    import simulator.runner  # noqa: F401 - the sweep itself runs nothing
    from softswitch.p4runtime import pipeline

    pipeline.prepare_program(program.json_text.encode())
