"""`weft compile`: a P4 program to BMv2 JSON, P4Info and machine code, from a cache if unchanged."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import click
from click import Choice

from compiler.passes.diagnostic_actions import DiagnosticActions, UnknownKind
from compiler.quoted_source import with_source
from observe.errors import UsageError
from softswitch import program_cache
from softswitch.program_cache import Compiled
from weft import console
from weft.command_line import F, NamedValue, argument, as_json, command, flag, option, preprocessor


def _diagnostic(text: str) -> str:
    try:
        DiagnosticActions.of([text])
    except UnknownKind as error:
        raise click.BadParameter(str(error)) from None
    return text


def _diagnostics(name: str, help: str) -> Callable[[F], F]:
    """Declare one of p4c's options; `diagnostics` has all of them in the order given."""
    settings = {"cls": NamedValue, "type": _diagnostic, "multiple": True, "metavar": "[KIND]"}
    return option(name, "diagnostics", help=help, **settings)


@command("""
    examples:
      weft compile p4src/fabric.p4 -o build/p4
      weft compile -I p4src/include -D PORTS=64 prog.p4 -o out --time
      weft compile --no-p4info prog.p4 -o out         JSON alone
      weft compile --compiler p4c prog.p4 -o out      with p4c-bm2-ss, where installed
    """)
@argument("program", type=Path, metavar="PROG.p4", help="the program")
@option("-o", "out", type=Path, required=True, metavar="DIR", help="where the files go")
@preprocessor
@_diagnostics("--Wdisable", "don't report warnings (=KIND: of one kind, as `unused`)")
@_diagnostics("--Wwarn", "report warnings (=KIND: also of one that is off unless asked for)")
@_diagnostics("--Werror", "take warnings (=KIND: of one kind) for errors")
@option("--std", type=Choice(["p4-16"]), default="p4-16", help="the language (default)")
@option("--compiler", type=Choice(["weft", "p4c"]), default="weft",
        help="our compiler, or p4c-bm2-ss from PATH (default)")  # fmt: skip
@flag("--no-p4info", help="write JSON only, even for a program that P4Info can't describe, like "
      "p4c-bm2-ss without --p4runtime-files")  # fmt: skip
@flag("--time", "with_times", help="show how long each phase took")
@as_json
def run(
    program: Path, out: Path, include: tuple[Path, ...], define: tuple[str, ...],
    diagnostics: tuple[str, ...], std: str, compiler: str, no_p4info: bool, with_times: bool,
    as_json: bool,
) -> int:  # fmt: skip
    """Compile the program that the arguments name and write its files; return the exit code.

    Raises the compiler's CompileError, which holds every diagnostic.
    """
    with console.progress(f"compile {program}", quiet=not sys.stderr.isatty()):
        compiled = program_cache.compile_program(
            program_cache.Job(
                source=program,
                include_dirs=include,
                defines=define,
                std=std,
                compiler=compiler,
                diagnostics=diagnostics,
                with_p4info=not no_p4info,
            )
        )
        json_path, p4info_path = _write(compiled, out, program)
    for warning in compiled.warnings:
        print(with_source(warning), file=sys.stderr)
    if as_json:
        print(
            json.dumps(
                {
                    "json": str(json_path),
                    "p4info": None if p4info_path is None else str(p4info_path),
                    "pipeline": str(compiled.pipeline),
                    "from_cache": compiled.from_cache,
                    "warnings": compiled.warnings,
                    "seconds": _phases(compiled),
                }
            )
        )
        return 0
    if with_times:
        _print_times(compiled)
    files = " and ".join(str(path) for path in (json_path, p4info_path) if path is not None)
    print(f"wrote {files}; machine code in the cache: {compiled.pipeline}")
    return 0


def _write(compiled: Compiled, out: Path, program: Path) -> tuple[Path, Path | None]:
    if out.exists() and not out.is_dir():
        raise UsageError(f"-o {out}: is a file; give a directory")
    out.mkdir(parents=True, exist_ok=True)
    json_path = out / f"{program.stem}.json"
    json_path.write_text(compiled.json_text)
    if not compiled.p4info_text:
        return json_path, None
    p4info_path = out / f"{program.stem}.p4info.txtpb"
    p4info_path.write_text(compiled.p4info_text)
    return json_path, p4info_path


def _phases(compiled: Compiled) -> dict[str, float]:
    """Return the phases' durations in seconds, and the whole process's until now as "total"."""
    total = _since_process_start()
    known = sum(compiled.timings.values())
    return {**compiled.timings, "start, files": max(0.0, total - known), "total": total}


def _since_process_start() -> float:
    """Return for how many seconds this process has lived: Python's own start is in it."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started


def _print_times(compiled: Compiled) -> None:
    rows = [[phase, f"{seconds * 1000:.0f}"] for phase, seconds in _phases(compiled).items()]
    source = "from cache" if compiled.from_cache else "not from cache"
    console.table(["phase", "ms"], rows, title=source, right=["ms"])
