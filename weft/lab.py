"""`weft lab`: the labs there are, and running one with progress, tables and a report."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from observe.errors import UsageError
from weft import console, run_options

if TYPE_CHECKING:
    from experiments.api import Runtime
    from experiments.loader import Lab
    from experiments.results import LabResult
    from experiments.runner import Done, Progress

_VERDICTS = {"pass": "ok", "fail": "FAILED"}


def show_list(arguments: argparse.Namespace) -> int:
    """`weft lab list`; returns the exit code: 2 if a lab can't be read."""
    from experiments import loader
    from experiments.errors import LabError

    found: list[Lab] = []
    broken: list[LabError] = []
    try:
        directory = arguments.labs or loader.DIRECTORY
        for name in loader.available(directory):
            try:
                found.append(loader.load(name, directory))
            except LabError as error:
                broken.append(error)
    except LabError as error:
        broken.append(error)
    if arguments.json:
        print(json.dumps([_about(lab) for lab in found], indent=2))
    elif found:
        rows = [
            (lab.name, lab.entry.title, ", ".join(lab.entry.runtimes), _minutes(lab))
            for lab in found
        ]
        heads = ("name", "what it shows", "runtimes", "minutes")
        console.table(heads, rows, caption="weft lab run NAME    docs: labs/NAME/README.md")
    elif not broken:
        print(f"no labs in {directory}")
    for each in broken:
        console.report(each)
    return 2 if broken else 0


def _about(lab: Lab) -> dict[str, object]:
    entry = lab.entry
    return {
        "name": lab.name,
        "title": entry.title,
        "teaches": entry.teaches,
        "runtimes": list(entry.runtimes),
        "minutes": {r: entry.minutes[r] for r in entry.runtimes if r in entry.minutes},
    }


def _minutes(lab: Lab) -> str:
    minutes = lab.entry.minutes
    times = [minutes[runtime] for runtime in lab.entry.runtimes if runtime in minutes]
    if len(set(times)) <= 1:
        return f"{times[0]:g}" if times else ""
    return ", ".join(f"{minutes[r]:g} {r}" for r in lab.entry.runtimes if r in minutes)


def run_lab(arguments: argparse.Namespace) -> int:
    """`weft lab run`: 0 all checks passed, 1 one failed, 2 wrong input, 3 no such runtime here."""
    from experiments import loader
    from experiments.errors import LabError
    from experiments.runner import LabRun, Request

    try:
        lab = loader.load(arguments.name, arguments.labs or loader.DIRECTORY)
        request = Request(
            runtime=_runtime(arguments.runtime),
            variants=tuple(arguments.variant),
            seeds=() if arguments.seeds is None else run_options.seeds(arguments.seeds),
            quick=arguments.quick,
            out=arguments.out,
            workers=run_options.workers(arguments.workers),
            program=run_options.program(arguments.p4),
        )
        prepared = LabRun(lab, request)
        given = arguments.p4 is not None
        program = run_options.compiled(prepared.source, given=given, quiet=arguments.json)
        with _progress(lab.name, quiet=arguments.json) as tell:
            done = prepared.run(program, tell)
    except LabError as error:
        console.report(error)
        return error.exit_code
    if arguments.json:
        print(
            json.dumps({**done.result.model_dump(mode="json"), "out": str(done.folder)}, indent=2)
        )
    else:
        show(done)
    return 0 if done.passed else 1


def _runtime(text: str) -> Runtime:
    from experiments.api import Runtime

    if text not in list(Runtime):
        raise UsageError(f"--runtime {text}: there is {', '.join(Runtime)}")
    return Runtime(text)


# --- on the terminal -----------------------------------------------------------------------------


@contextmanager
def _progress(name: str, *, quiet: bool) -> Iterator[Callable[[Progress], None]]:
    """Draw a bar on a terminal; elsewhere a line a run; failures in both."""
    if quiet:
        yield lambda progress: None
        return
    if not sys.stderr.isatty():
        yield _lines()
        return
    with run_options.bar() as bar:
        task = bar.add_task(name, total=None, what="")

        def tell(progress: Progress) -> None:
            bar.update(task, total=progress.runs, completed=progress.done, what=progress.text)
            if progress.finished is not None and progress.finished.failure:
                bar.console.print(_ended(progress), markup=False)

        yield tell


def _lines() -> Callable[[Progress], None]:
    ended = 0

    def tell(progress: Progress) -> None:
        nonlocal ended
        if progress.finished is not None:
            ended += 1
            line = f"  {ended}/{progress.runs} {_ended(progress)}"
            print(line, file=sys.stderr, flush=True)

    return tell


def _ended(progress: Progress) -> str:
    run = progress.finished
    assert run is not None
    text = f"{run.variant.name}, seed {run.seed}, {run.runtime}: "
    return text + (f"failed: {run.failure}" if run.failure else f"{run.wall_s:.1f} s")


def show(done: Done) -> None:
    """Print what a lab came to: what was measured, the checks, and where the report is."""
    from experiments import wording

    result = done.result
    columns = wording.columns(result)
    heads = ("variant", *(wording.heading(*each) for each in columns))
    rows = [(title, *cells) for title, cells in wording.rows(result)]
    if columns:
        console.table(
            heads,
            rows,
            title=f"{result.title}: measured",
            caption=f"runtime {wording.where(result)}. {wording.statistics(result)}",
            right=heads[1:],
        )
    _show_checks(result)
    for variant in result.variants:
        for run in variant.runs:
            if run.failure:
                console.error(f"{variant.name}, seed {run.seed}: {run.failure}")
    print(f"results: {_short(done.folder)}    report: {_short(done.folder / 'report.html')}")


def _show_checks(result: LabResult) -> None:
    from experiments import wording

    rows: list[tuple[str, ...]] = [
        (
            check.row,
            check.expected,
            wording.check_value(check),
            _VERDICTS.get(check.verdict, check.verdict.value),
            check.note,
        )
        for check in result.checks
    ]
    heads: tuple[str, ...] = ("check", "expected", "found", "verdict", "note")
    if not any(check.note for check in result.checks):
        heads, rows = heads[:-1], [row[:-1] for row in rows]
    console.table(heads, rows, title=f"{result.title}: checks", right=("found",))


def _short(path: Path) -> str:
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
