"""`weft stf`: run a test in p4c's simple test format, or all of a directory."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from compat.parity.stf_bmv2 import BMV2, Bmv2Target
from compat.stf import runner, script
from compat.stf.in_process import InProcessTarget
from compat.stf.runner import Result, StfTarget
from compat.stf.statements import Statement, StfError
from observe.errors import UsageError
from softswitch import program_cache
from softswitch.p4runtime import pipeline
from softswitch.p4runtime.pipeline import Pipeline
from softswitch.program_cache import Job
from weft import console
from weft.command_line import argument, as_json, command, option, preprocessor

TARGETS = ("softswitch", "bmv2")
EXIT_PASSED, EXIT_FAILED = 0, 1


class StfFileError(Exception):
    """A test that can't be read or carried out; the message begins with file and line."""


@command("""
    examples:
      weft stf prog.p4 prog.stf                  on our switch, in virtual time
      weft stf prog.p4 prog.stf --target bmv2    on simple_switch_grpc, if it is on PATH
      weft stf prog.p4 prog.stf --compiler p4c   as p4c compiles it
      weft stf --all testdata/p4_16_samples --report stf.md
                                                 every *-bmv2.stf there, and a page of it

    exit codes: 0 every expectation holds, 1 some do not, 2 wrong arguments
    """)
@argument("program", required=False, type=Path, metavar="[PROGRAM.p4]")
@argument("test", required=False, type=Path, metavar="[TEST.stf]")
@option("--target", type=click.Choice(TARGETS), default=TARGETS[0],
        help="the switch to run on (default)")  # fmt: skip
@option("--compiler", type=click.Choice(["weft", "p4c"]), default="weft",
        help="the compiler to use (default)")  # fmt: skip
@option("--all", "directory", type=Path, metavar="DIR",
        help="run every *-bmv2.stf of DIR with its program")  # fmt: skip
@option("--report", type=Path, metavar="FILE", help="with --all: write the results as Markdown")
@option("--jobs", default=2, metavar="N", help="with --all: tests at the same time (default)")
@preprocessor
@as_json
def run(
    program: Path | None, test: Path | None, target: str, compiler: str, directory: Path | None,
    report: Path | None, jobs: int, include: tuple[Path, ...], define: tuple[str, ...],
    as_json: bool,
) -> int:  # fmt: skip
    """Do the whole command. Returns 0 when everything is as the tests want it, else 1.

    Raises UsageError, StfFileError, CompileError, and the target's errors.
    """
    if directory is not None:
        from compat.commands import stf_conformance  # it imports this module

        if program is not None:
            raise UsageError("--all takes no program")
        setting = stf_conformance.Setting(compiler, target, include, define)
        return stf_conformance.run(directory, setting, report, at_once=jobs, in_json=as_json)
    if report is not None:
        raise UsageError("--report goes with --all")
    if program is None or test is None:
        raise UsageError("give a P4 program and a test, or --all DIRECTORY")
    for path in (program, test):
        if not path.is_file():
            what = "is a directory" if path.is_dir() else "no such file"
            raise UsageError(f"{path}: {what}")
    job = Job(source=program, include_dirs=include, defines=define, compiler=compiler)
    script = read(test)
    with console.progress(f"compile {program}", quiet=as_json):
        pipeline = build(job)
    with console.progress(f"run {test} on {target}", quiet=as_json):
        result = run_script(script, pipeline, target, test)
    if as_json:
        print(json.dumps(result_json(result)))
    else:
        _print(result)
    return EXIT_PASSED if result.ok else EXIT_FAILED


def read(path: Path) -> list[Statement]:
    """Read the statements of a file. Raises StfFileError."""
    try:
        return script.parse(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise StfFileError(f"{path}: not a text file (UTF-8)") from None
    except StfError as error:
        raise StfFileError(f"{path}:{error.line}: {error}") from None


def build(job: Job) -> Pipeline:
    """Compile and build a program for a switch. Raises the compiler's errors, PipelineError."""
    compiled = program_cache.compile_program(job)
    info = pipeline.parse_p4info(compiled.p4info_text.encode(), "P4Info")
    return pipeline.prepare(info, compiled.json_text.encode())


def run_script(script: list[Statement], pipeline: Pipeline, target_name: str, path: Path) -> Result:
    """Run a test on a fresh switch. Raises StfFileError for a statement that can't be done."""
    with _target(target_name, pipeline, script) as target:
        try:
            return runner.run(script, target)
        except StfError as error:
            raise StfFileError(f"{path}:{error.line}: {error}") from None


@contextmanager
def _target(name: str, pipeline: Pipeline, script: list[Statement]) -> Iterator[StfTarget]:
    if name == "bmv2":
        if shutil.which(BMV2) is None:
            raise UsageError(f"--target bmv2: no {BMV2} on PATH")
        with Bmv2Target(pipeline, script) as target:
            yield target
    else:
        with InProcessTarget(pipeline) as ours:
            yield ours


def result_json(result: Result) -> dict[str, object]:
    """Return a result in machine-readable form."""
    return {
        "passed": result.ok,
        "rows": [dataclasses.asdict(row) | {"ok": row.ok} for row in result.rows],
        "said": [{"line": line, "text": text} for line, text in result.said],
    }


def _print(result: Result) -> None:
    rows = []
    for row in result.rows:
        line = str(row.line) if row.line else "end"
        rows.append([line, row.expected, row.got, "ok" if row.ok else "FAILED"])
        if not row.ok:
            lead = row.got.find(": ") + 2 if row.marks else 0
            rows.append(["", "", " " * lead + row.marks if row.marks else "", row.why])
    console.table(["line", "expected", "got", ""], rows, right=["line"])
    for at, text in result.said:
        print(f"line {at}: {text}")
    failed = sum(not row.ok for row in result.rows)
    print(f"{len(result.rows) - failed} as expected, {failed} not")
