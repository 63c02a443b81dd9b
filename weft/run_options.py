"""What commands that simulate (`weft lab`, `weft sim`, `weft sweep`) share: options, the bar."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from controller.program import CompiledProgram
from observe.errors import UsageError
from softswitch import program_cache
from topologies.units import parse_duration
from weft import console


def seeds(text: str) -> tuple[int, ...]:
    """Read --seeds. Raises UsageError."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() for word in words) or len(set(words)) < len(words):
        raise UsageError(f"--seeds {text}: different whole numbers with commas between: 1,2,3")
    return tuple(int(word) for word in words)


def workers(count: int | None) -> int | None:
    """Return --workers; None is as many as there are processors. Raises UsageError."""
    if count is not None and count < 1:
        raise UsageError(f"--workers {count}: must be at least 1")
    return count


def until(text: str) -> int:
    """Read --until, in ps. Raises UsageError."""
    try:
        until = parse_duration(text)
    except ValueError as error:
        raise UsageError(f"--until {text}: {error}") from None
    if until <= 0:
        raise UsageError(f"--until {text}: must be above 0")
    return until


def program(path: Path | None) -> Path | None:
    """Return --p4, which has to be there if it is given. Raises UsageError."""
    if path is not None and not path.is_file():
        raise UsageError(f"--p4 {path}: no such file")
    return path


def compiled(
    source: Path, *, given: bool, quiet: bool, job: program_cache.Job | None = None
) -> CompiledProgram:
    """Compile the program of runs; `given`: by the user, with --p4; `job`: how."""
    with console.progress(f"compile {source.name}", quiet=quiet):
        result = program_cache.compile_program(job or program_cache.Job(source))
    return CompiledProgram.of(result, source, given=given)


def bar() -> Progress:
    """Return a bar of runs for a terminal's stderr; its tasks have a field `what`."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
        TextColumn("{task.fields[what]}"),
        console=Console(stderr=True, no_color=not console.is_coloured(sys.stderr), highlight=False),
        transient=True,
    )
