"""`weft lab`: the labs there are, and running one with progress, tables and a report."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from experiments import loader, wording
from experiments.api import Runtime, Verdict
from experiments.errors import LabError
from experiments.loader import Lab
from experiments.results import LabResult
from observe.errors import UsageError
from weft import console, lab_kit, run_options
from weft.command_line import Group, argument, flag, option

if TYPE_CHECKING:
    from experiments.runner import Done, Progress

_VERDICTS = {"pass": "ok", "fail": "FAILED"}


lab = Group("lab", no_args_is_help=False, subcommand_metavar="list|run|new|handout ...", epilog="""
    examples:
      weft lab list
      weft lab run cnp-by-hand                    in virtual time; results/cnp-by-hand
      sudo weft lab run cnp-by-hand --runtime softswitch      in real time
      weft lab run NAME --quick --json            some variants, for a first look or CI
      weft lab run NAME --variant A --seeds 1,2 --out my/results
      weft lab run NAME --full                    with what takes minutes or more
      weft lab handout NAME for-students          what a learner gets, without the answer
      weft lab new NAME                           a lab of your own, to change

    exit codes: 0 no check failed, 1 a check or a run failed, 2 wrong input, \
3 the runtime is not on this machine
    """)  # fmt: skip
_labs = lab_kit.labs_option
lab.add_command(lab_kit.handout, "handout")
lab.add_command(lab_kit.new, "new")


@lab.command("list", help="list the labs")
@_labs
@flag("--json", "as_json", help="print the list as JSON")
def show_list(labs: Path, as_json: bool) -> int:
    """Run `weft lab list`; return the exit code: 2 if a lab can't be read."""
    found: list[Lab] = []
    broken: list[LabError] = []
    try:
        for name in loader.available(labs):
            try:
                found.append(loader.load(name, labs))
            except LabError as error:
                broken.append(error)
    except LabError as error:
        broken.append(error)
    if as_json:
        print(json.dumps([_about(lab) for lab in found], indent=2))
    elif found:
        rows = [
            (lab.name, lab.entry.title, ", ".join(lab.entry.runtimes), _minutes(lab))
            for lab in found
        ]
        heads = ("name", "what it shows", "runtimes", "minutes")
        text = f"text: {_short(labs)}/NAME/README.md"
        console.table(heads, rows, caption=f"weft lab run NAME    {text}")
    elif not broken:
        print(f"no labs in {labs}")
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


@lab.command("run", help="run a lab")
@argument("name", help="a name that `weft lab list` shows")
@option(
    "--runtime", default="simulator", metavar="R", help=f"one of {', '.join(Runtime)} (default)"
)
@option("--variant", multiple=True, metavar="V", help="only this variant (may be given again)")
@option("--seeds", metavar="N,...", help="run each variant with these (default: the lab's)")
@flag("--quick", help="only the variants that the lab marks as quick")
@flag("--full", help="also the variants that are left out because they take long")
@flag("--for-teachers", help="keep the text's section for teachers in the report")
@option("--out", type=Path, metavar="DIR", help="where results go (default: results/NAME)")
@option("--p4", type=Path, metavar="PROG.p4", help="run this program instead of the lab's")
@option(
    "--answer", type=Path, metavar="FILE", help="run what you wrote, in a lab not answered with P4"
)
@option("--workers", type=int, metavar="N",
        help="simulations at the same time (default: one for each processor)")  # fmt: skip
@_labs
@flag("--json", "as_json", help="print results.json")
def run_lab(
    name: str, runtime: str, variant: tuple[str, ...], seeds: str | None, quick: bool,
    full: bool, for_teachers: bool, out: Path | None, p4: Path | None, answer: Path | None,
    workers: int | None, labs: Path, as_json: bool,
) -> int:  # fmt: skip
    """Run `weft lab run`: 0 no check failed, 1 one did, 2 wrong input, 3 no such runtime here."""
    from experiments.runner import LabRun, Request  # half a second that `lab list` need not wait

    try:
        found = loader.load(name, labs)
        request = Request(
            runtime=_runtime(runtime),
            variants=variant,
            seeds=() if seeds is None else run_options.seeds(seeds),
            quick=quick,
            full=full,
            out=out,
            workers=run_options.workers(workers),
            program=run_options.program(p4),
            answer=answer,
            for_teachers=for_teachers,
        )
        prepared = LabRun(found, request)
        program = run_options.compiled(prepared.source, given=p4 is not None, quiet=as_json)
        for notice in prepared.compile(program):
            console.notice(notice)
        with _progress(found.name, quiet=as_json) as tell:
            done = prepared.run(program, tell)
    except LabError as error:
        console.report(error)
        return error.exit_code
    if as_json:
        print(
            json.dumps({**done.result.model_dump(mode="json"), "out": str(done.folder)}, indent=2)
        )
    else:
        show(done)
    return 0 if done.passed else 1


def _runtime(text: str) -> Runtime:
    if text not in list(Runtime):
        raise UsageError(f"--runtime {text}; available: {', '.join(Runtime)}")
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
    print(wording.verdict(result, done.left_out))
    print(f"results: {_short(done.folder)}    report: {_short(done.folder / 'report.html')}")


def _show_checks(result: LabResult) -> None:
    judged = [check for check in result.checks if check.verdict is not Verdict.NOT_RUN]
    rows: list[tuple[str, ...]] = [
        (
            check.row,
            check.expected,
            wording.check_value(check),
            _VERDICTS.get(check.verdict, check.verdict.value),
            check.note,
        )
        for check in judged
    ]
    heads: tuple[str, ...] = ("check", "expected", "found", "verdict", "note")
    if not any(check.note for check in judged):
        heads, rows = heads[:-1], [row[:-1] for row in rows]
    if rows:
        console.table(heads, rows, title=f"{result.title}: checks", right=("found",))


def _short(path: Path) -> str:
    path = path.absolute()
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
