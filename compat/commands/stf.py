"""`weft stf`: run a test in p4c's simple test format, or all of a directory."""

from __future__ import annotations

import argparse
import dataclasses
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from observe.errors import UsageError
from weft import console

if TYPE_CHECKING:
    from compat.stf.runner import Result, StfTarget
    from compat.stf.statements import Statement
    from softswitch.p4runtime.pipeline import Pipeline
    from softswitch.program_cache import Job

TARGETS = ("softswitch", "bmv2")
EXIT_PASSED, EXIT_FAILED = 0, 1


class StfFileError(Exception):
    """A test that can't be read or carried out; the message begins with file and line."""


def run(arguments: argparse.Namespace) -> int:
    """Do the whole command. Returns 0 when everything is as the tests want it, else 1.

    Raises UsageError, StfFileError, CompileError, and the target's errors.
    """
    if arguments.all is not None:
        from compat.commands import stf_conformance

        return stf_conformance.run(arguments)
    if arguments.report is not None:
        raise UsageError("--report goes with --all")
    for path in (arguments.program, arguments.test):
        if path is None:
            raise UsageError("give a P4 program and a test, or --all DIRECTORY")
        if not path.is_file():
            what = "is a directory" if path.is_dir() else "no such file"
            raise UsageError(f"{path}: {what}")
    job = job_of(arguments, arguments.program)
    quiet = arguments.json
    script = read(arguments.test)
    with console.progress(f"compile {arguments.program}", quiet=quiet):
        pipeline = build(job)
    with console.progress(f"run {arguments.test} on {arguments.target}", quiet=quiet):
        result = run_script(script, pipeline, arguments.target, arguments.test)
    if arguments.json:
        print(json.dumps(as_json(result)))
    else:
        _print(result)
    return EXIT_PASSED if result.ok else EXIT_FAILED


def job_of(arguments: argparse.Namespace, program: Path) -> Job:
    """What to compile, by the arguments."""
    from softswitch.program_cache import Job

    return Job(
        source=program,
        include_dirs=tuple(arguments.include),
        defines=tuple(arguments.define),
        compiler=arguments.compiler,
    )


def read(path: Path) -> list[Statement]:
    """The statements of a file. Raises StfFileError."""
    from compat.stf import script
    from compat.stf.statements import StfError

    try:
        return script.parse(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise StfFileError(f"{path}: not a text file (UTF-8)") from None
    except StfError as error:
        raise StfFileError(f"{path}:{error.line}: {error}") from None


def build(job: Job) -> Pipeline:
    """A program, ready for a switch. Raises the compiler's errors, PipelineError."""
    from softswitch import program_cache
    from softswitch.p4runtime import pipeline

    compiled = program_cache.compile_program(job)
    info = pipeline.parse_p4info(compiled.p4info_text.encode(), "P4Info")
    return pipeline.prepare(info, compiled.json_text.encode())


def run_script(script: list[Statement], pipeline: Pipeline, target_name: str, path: Path) -> Result:
    """Run a test on a fresh switch. Raises StfFileError for a statement that can't be done."""
    from compat.stf import runner
    from compat.stf.statements import StfError

    with _target(target_name, pipeline, script) as target:
        try:
            return runner.run(script, target)
        except StfError as error:
            raise StfFileError(f"{path}:{error.line}: {error}") from None


@contextmanager
def _target(name: str, pipeline: Pipeline, script: list[Statement]) -> Iterator[StfTarget]:
    if name == "bmv2":
        from compat.parity.stf_bmv2 import BMV2, Bmv2Target

        if shutil.which(BMV2) is None:
            raise UsageError(f"--target bmv2: no {BMV2} on PATH")
        with Bmv2Target(pipeline, script) as target:
            yield target
    else:
        from compat.stf.in_process import InProcessTarget

        with InProcessTarget(pipeline) as ours:
            yield ours


def as_json(result: Result) -> dict[str, object]:
    """A result for a program to read."""
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
