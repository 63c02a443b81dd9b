"""`weft compile`: a P4 program to BMv2 JSON, P4Info and machine code, from a cache if unchanged."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from observe.errors import UsageError
from weft import console

if TYPE_CHECKING:
    from softswitch.program_cache import Compiled


def run(arguments: argparse.Namespace) -> int:
    """Compile the program that the arguments name and write its files; returns the exit code.

    Raises the compiler's CompileError, which holds every diagnostic.
    """
    from softswitch import program_cache

    with console.progress(f"compile {arguments.program}", quiet=not sys.stderr.isatty()):
        compiled = program_cache.compile_program(
            program_cache.Job(
                source=arguments.program,
                include_dirs=tuple(arguments.include),
                defines=tuple(arguments.define),
                std=arguments.std,
                compiler=arguments.compiler,
                diagnostics=tuple(arguments.diagnostics),
                with_p4info=arguments.with_p4info,
            )
        )
        json_path, p4info_path = _write(compiled, arguments.out, arguments.program)
    for warning in compiled.warnings:
        print(warning, file=sys.stderr)
    if arguments.json:
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
    elif arguments.time:
        _print_times(compiled)
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
