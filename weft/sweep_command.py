"""`weft sweep`: a run over many parameters and seeds, with a bar, a table and a folder of results.

Exit codes: 0 done; 1 a run failed; 2 wrong input; 130 interrupted, with the runs so far kept.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from emulation import interrupts
from experiments.errors import LabError
from experiments.sweep import (
    PointResult,
    Progress,
    SweepResult,
    SweepSpec,
    program_job,
    usual_metrics,
)
from experiments.sweep import run as sweep
from experiments.sweep_metrics import METRICS
from experiments.sweep_result import LOG, make_folder
from experiments.value_words import show_value
from observe.errors import UsageError
from weft import console, dask_setup, run_options
from weft.command_line import argument, as_json, command, flag, option

RESULTS = Path("build/sweep")
EXIT_FAILED, EXIT_INPUT, EXIT_INTERRUPTED = 1, 2, 130

_KEEP_EVERY_S = 30.0
_MOST_ROWS = 40
_MOST_FAILURES = 10
_METHODS = ("random", "latin-hypercube")
# Metrics that the table shows by default; the files have all.
_SHOWN = ("goodput", "peak_queue", "marks", "cnps", "losses", "fct_p50", "fct_p99", "jain")


@dataclass(frozen=True)
class _Asked:
    """The options that say what to run."""

    file: str | None
    vary: tuple[str, ...]
    seeds: str | None
    draw: str | None
    metric: tuple[str, ...]
    maximise: str | None
    minimise: str | None
    subject_to: tuple[str, ...]
    until: str | None
    p4: Path | None


@command("""
    examples:
      weft sweep my/sweep.yaml                  a sweep file (docs/sweep.md)
      weft sweep two-flows --vary transport.overrides.gain=0.004,0.0625,0.5 --seeds 1,2,3 \\
          --maximise goodput --subject-to 'peak_queue <= 2MB'
      weft sweep two-flows --vary transport.overrides.rate_ai=10Mbps..10Gbps:log \\
          --draw latin-hypercube:40 --maximise jain
      weft sweep my/sweep.yaml --scheduler tcp://10.0.0.7:8786      on Dask's workers

    exit codes: 0 done, 1 a run failed, 2 wrong input, 130 interrupted (completed runs are kept)
    """)
@argument("file", required=False, help="a sweep file, a run file, or a shipped run's name")
@option("--vary", multiple=True, metavar="PATH=V,...", help="values of a parameter, or a range: "
        "1us..1ms:5 (5 values), 1us..1ms:5:log (repeatable)")  # fmt: skip
@option("--seeds", metavar="N,...", help="seeds (default: the run's own)")
@option("--draw", metavar="METHOD:N[:SEED]",
        help="draw N points from the ranges: random, or latin-hypercube")  # fmt: skip
@option("--metric", multiple=True, metavar="NAME",
        help="measure this, such as goodput or peak_queue[s1:3] (default: all)")  # fmt: skip
@option("--maximise", metavar="NAME", help="the best point has the highest value of this metric")
@option("--minimise", metavar="NAME", help="the best point has the lowest value of this metric")
@option("--subject-to", multiple=True, metavar="RULE",
        help="a condition on the best point, such as 'peak_queue <= 16MB'")  # fmt: skip
@option("--until", metavar="T", help="end every run at this virtual time")
@option("--workers", type=int, metavar="N", help="processes (default: one for each processor)")
@option("--scheduler", metavar="ADDRESS",
        help="run on the workers of a Dask scheduler, such as tcp://10.0.0.7:8786")  # fmt: skip
@option("--out", type=Path, metavar="DIR", help="where results go (default: build/sweep/NAME)")
@option("--p4", type=Path, metavar="PROG.p4", help="run another program than p4src/fabric.p4")
@flag("--list-metrics", help="list the metrics, with their units")
@as_json
def run(
    workers: int | None, scheduler: str | None, out: Path | None, list_metrics: bool,
    as_json: bool, **options: Any,
) -> int:  # fmt: skip
    """Run a sweep; return the exit code."""
    asked = _Asked(**options)
    if asked.maximise is not None and asked.minimise is not None:
        raise UsageError("sweep: --maximise and --minimise exclude each other: give one of them")
    if list_metrics:
        return _list_metrics(as_json)
    workers = run_options.workers(workers)
    started = time.monotonic()
    try:
        spec = _spec(asked)
        out = out or RESULTS / spec.name
        usual_metrics(spec)
        make_folder(out)
        given = asked.p4 is not None
        how = program_job(spec)
        program = run_options.compiled(spec.program, given=given, quiet=as_json, job=how)
        with interrupts.handled(), _progress(spec, quiet=as_json) as show:
            tell = _keeping(out, show)
            result = sweep(
                spec,
                workers=workers,
                scheduler=scheduler,
                program=program,
                tell=tell,
            )
        result.write(out)
    except LabError as error:
        console.report(error)
        return error.exit_code
    wall_s = time.monotonic() - started
    (out / LOG).write_text(json.dumps({"wall_s": round(wall_s, 3)}, indent=2) + "\n")
    if as_json:
        print(json.dumps({**result.document(), "out": str(out)}, indent=2))
    else:
        _show(result, out, wall_s)
    if result.interrupted:
        return EXIT_INTERRUPTED
    return EXIT_FAILED if result.failures else 0


def _keeping(out: Path, show: Callable[[Progress], None]) -> Callable[[Progress], None]:
    """Return what shows the progress, and now and then writes the runs so far."""
    last = time.monotonic()

    def tell(progress: Progress) -> None:
        nonlocal last
        show(progress)
        if progress.last is not None and time.monotonic() - last > _KEEP_EVERY_S:
            progress.so_far().write(out)
            last = time.monotonic()

    return tell


@command("""
    examples:
      weft setup-dask
    """)
def setup_dask() -> int:
    """Run `weft setup-dask`; return the exit code."""
    there = dask_setup.is_ready()
    dask_setup.ensure()
    print(f"Dask is {'there already' if there else 'installed'}")
    return 0


def _list_metrics(as_json: bool) -> int:
    metrics = list(METRICS.values())
    if as_json:
        print(json.dumps([{"name": m.name, "unit": m.unit, "about": m.about} for m in metrics]))
        return 0
    rows = [(m.name, m.unit, m.about, "yes" if m.by_port else "") for m in metrics]
    caption = r"of one port, where there is: peak_queue\[s1:3]"
    console.table(("metric", "unit", "what it is", "by port"), rows, caption=caption)
    return 0


# --- what is asked for ---------------------------------------------------------------------------


def _spec(asked: _Asked) -> SweepSpec:
    """Return the sweep that the arguments ask for. Raises UsageError, LabError."""
    if asked.file is None:
        raise UsageError("sweep: no input given; pass a sweep file, or a run file with --vary")
    overrides: dict[str, Any] = {}
    if asked.vary:
        overrides["vary"] = dict(parse_vary(text) for text in asked.vary)
    if asked.seeds is not None:
        overrides["seeds"] = list(run_options.seeds(asked.seeds))
    if asked.draw is not None:
        overrides["draw"] = _draw(asked.draw)
    if asked.metric:
        overrides["metrics"] = list(asked.metric)
    for goal in ("maximise", "minimise"):
        if (metric := getattr(asked, goal)) is not None:
            overrides["objective"] = {goal: metric}
    if asked.subject_to:
        overrides["subject_to"] = list(asked.subject_to)
    if (path := run_options.program(asked.p4)) is not None:
        overrides["program"] = str(path.resolve())
    spec = SweepSpec.load(asked.file, overrides)
    if asked.until is not None:
        run_options.until(asked.until)
        spec = replace(spec, mapping={**spec.mapping, "until": asked.until})
    return spec


def parse_vary(text: str) -> tuple[str, object]:
    """Read PATH=V,... or PATH=FROM..TO[:STEPS][:log]. Raises UsageError."""
    path, equals, values = text.partition("=")
    if not equals or not path or not values.strip():
        raise UsageError(f"--vary {text}: write a path and its values: transport.window=64,256")
    try:
        found = yaml.safe_load(f"[{values}]")
    except yaml.YAMLError:
        raise UsageError(
            f"--vary {text}: the values can't be read: write them as in YAML"
        ) from None
    if len(found) == 1 and isinstance(found[0], str) and ".." in found[0]:
        return path, _range(text, found[0])
    return path, found


def _range(text: str, given: str) -> dict[str, object]:
    ends, *options = given.split(":")
    low, _, high = ends.partition("..")
    found: dict[str, object] = {"from": yaml.safe_load(low), "to": yaml.safe_load(high)}
    for word in options:
        if word.isdecimal():
            found["steps"] = int(word)
        elif word in ("log", "linear"):
            found["scale"] = word
        else:
            raise UsageError(f"--vary {text}: {word!r} is not a number of steps, log or linear")
    return found


def _draw(text: str) -> dict[str, object]:
    method, *numbers = text.split(":")
    right = 1 <= len(numbers) <= 2 and all(n.isdecimal() for n in numbers)
    if method not in _METHODS or not right or int(numbers[0]) < 1:
        raise UsageError(f"--draw {text}: write {' or '.join(_METHODS)}, :, and how many points")
    found: dict[str, object] = {"method": method, "points": int(numbers[0])}
    return found if len(numbers) == 1 else {**found, "seed": int(numbers[1])}


# --- on the terminal -----------------------------------------------------------------------------


@contextmanager
def _progress(spec: SweepSpec, *, quiet: bool) -> Iterator[Callable[[Progress], None]]:
    """Draw a bar on a terminal; elsewhere a line a run."""
    if quiet:
        yield lambda progress: None
        return
    if not sys.stderr.isatty():
        yield _line
        return
    bar = run_options.bar()
    task = bar.add_task(spec.name, total=len(spec.points) * len(spec.seeds), what="")

    def tell(progress: Progress) -> None:
        if progress.last is None:
            bar.start()  # only now that processes are forked: it has a thread
        what = f"{progress.failed} failed" if progress.failed else ""
        bar.update(task, completed=progress.played, what=what)

    try:
        yield tell
    finally:
        bar.stop()


def _line(progress: Progress) -> None:
    last = progress.last
    if last is None:
        return
    how = "failed" if last.failure else "done"
    text = f"  {progress.played}/{progress.runs} point {last.point}, seed {last.seed}: {how}"
    print(text, file=sys.stderr, flush=True)


def _show(result: SweepResult, out: Path, wall_s: float) -> None:
    spec = result.spec
    best = result.best()
    metrics = _columns(result)
    varied = [path for path in spec.parameters if len(_values(result, path)) > 1]
    heads = ("point", *(varied or spec.parameters), *metrics, "")
    shown, left_out = _chosen(result, best)
    rows = [_row(result, point, varied or list(spec.parameters), metrics, best) for point in shown]
    console.table(heads, rows, title=_title(spec), right=("point", *metrics))
    seeds = f"medians of {len(spec.seeds)} seeds" if len(spec.seeds) > 1 else "one seed"
    if left_out:
        print(f"{left_out} more points in {out / 'results.csv'}")
    print(
        f"runtime simulator, virtual time, time_scale 1; {seeds}; {len(result.runs)} runs in "
        f"{wall_s:.1f} s\nresults: {out}"
    )
    _show_failures(result)
    _show_best(result, best, out)


def _title(spec: SweepSpec) -> str:
    return f"{spec.name}: {spec.description}".rstrip(": ")


def _columns(result: SweepResult) -> list[str]:
    """Return the metrics to show: those asked for, else the usual ones that have a value."""
    spec = result.spec
    goal = [spec.objective.metric] if spec.objective else []
    goal += [constraint.metric for constraint in spec.constraints]
    asked = _SHOWN if spec.metrics == tuple(METRICS) else spec.metrics
    there = [name for name in dict.fromkeys((*goal, *asked)) if name in result.metrics]
    return [
        name
        for name in there
        if name in goal or any(point.medians[name] is not None for point in result.points)
    ]


def _values(result: SweepResult, path: str) -> set[str]:
    return {_text(point.get(path)) for point in result.spec.points}


def _chosen(result: SweepResult, best: PointResult | None) -> tuple[list[PointResult], int]:
    """Return the points to show: all, or where they are many the best ones, and how many more."""
    points = list(result.points)
    if len(points) <= _MOST_ROWS:
        return points, 0
    objective = result.spec.objective
    if objective is not None:
        sign = -1 if objective.maximise else 1

        def rank(point: PointResult) -> tuple[bool, float]:
            value = point.medians.get(objective.metric)
            return not point.feasible or value is None, sign * (value or 0)

        points.sort(key=rank)
    return points[:_MOST_ROWS], len(points) - _MOST_ROWS


def _row(
    result: SweepResult,
    point: PointResult,
    paths: list[str],
    metrics: list[str],
    best: PointResult | None,
) -> tuple[str, ...]:
    values = [show_value(point.medians[name], result.units[name]) for name in metrics]
    note = ""
    if best is not None and point.number == best.number:
        note = "best"
    elif point.failures:
        note = "FAILED"
    elif not point.is_whole:
        note = "not run"
    elif not point.feasible:
        note = "not allowed"
    parameters = [_text(point.parameters.get(path, "")) for path in paths]
    return (str(point.number), *parameters, *values, note)


def _text(value: object) -> str:
    if value is None:
        return "none"
    return value if isinstance(value, str) else json.dumps(value)


def _show_failures(result: SweepResult) -> None:
    seeds: dict[tuple[int, str], list[str]] = {}
    for run in result.failures:
        seeds.setdefault((run.point, run.failure), []).append(str(run.seed))
    for (number, why), which in list(seeds.items())[:_MOST_FAILURES]:
        point = result.spec.points[number]
        given = ", ".join(f"{path}={_text(value)}" for path, value in point.items())
        seed = f"; seed {', '.join(which)}" if len(result.spec.seeds) > 1 else ""
        console.error(f"point {number} ({given or 'as it is'}{seed}): {why}")
    if len(seeds) > _MOST_FAILURES:
        console.error(f"{len(seeds) - _MOST_FAILURES} more points failed")
    if result.interrupted:
        of = len(result.spec.points) * len(result.spec.seeds)
        console.notice(f"interrupted: {len(result.runs)} of {of} runs were completed")


def _show_best(result: SweepResult, best: PointResult | None, out: Path) -> None:
    objective = result.spec.objective
    if objective is None:
        return
    if best is None:
        rules = " and ".join(str(constraint) for constraint in result.spec.constraints)
        print(f"best: no point{f' keeps to {rules}' if rules else ' has a value'}")
        return
    value = show_value(best.medians[objective.metric], result.units[objective.metric])
    given = ", ".join(f"{path}={_text(v)}" for path, v in best.parameters.items())
    print(f"best: point {best.number}, {objective.metric} {value}: {given}")
    print(f"      weft sim {out / 'best.yaml'}")
