"""The C preprocessor in front of the compiler: `cpp`, or `gcc -E` / `clang -E`.

P4 programs use `#include`, `#define` and `#if`; the standard says they are those of C. Our own
`core.p4` and `v1model.p4` are found after the user's include directories.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from compiler.errors import CompileError, Diagnostic, Pos

INCLUDE_DIR = Path(__file__).parent.parent / "include"

# What p4c's driver defines for this target, so that `#ifdef` in third-party programs works.
PREDEFINED = ("__TARGET_BMV2__", "__p4c__=1")

_COMMANDS = (("cpp",), ("gcc", "-E"), ("clang", "-E"))
# Comments stay (-C), as with p4c: in a string over several lines they are part of it.
_FLAGS = ("-C", "-undef", "-nostdinc", "-x", "assembler-with-cpp")
_MESSAGE = re.compile(r"^(?P<file>[^:\n]+):(?P<line>\d+):(?:(?P<column>\d+):)? "
                      r"(?:fatal )?error: (?P<text>.*)$", re.MULTILINE)  # fmt: skip
_DEFINE = re.compile(r"[A-Za-z_]\w*(\(.*\))?(=.*)?\Z", re.DOTALL)
_TIMEOUT_S = 60


def preprocess(source: Path, include_dirs: Sequence[Path], defines: Sequence[str]) -> str:
    """Return the text of `source` after preprocessing, with line markers.

    `defines` are `NAME` or `NAME=VALUE`. Raises `CompileError` where the file can't be read, a
    definition is malformed, no preprocessor is installed, or the preprocessor reports errors.
    """
    return _run(source, include_dirs, defines, ())


def dependencies(
    source: Path, include_dirs: Sequence[Path], defines: Sequence[str], flags: Sequence[str]
) -> str:
    """Return what the preprocessor prints with `flags` of its -M family. Raises as `preprocess`."""
    return _run(source, include_dirs, defines, flags)


def _run(
    source: Path, include_dirs: Sequence[Path], defines: Sequence[str], flags: Sequence[str]
) -> str:
    _require_readable(source)
    command = [*_preprocessor(source), *_FLAGS, *flags]
    for define in (*PREDEFINED, *defines):
        if not _DEFINE.match(define):
            raise CompileError.at(
                Pos(str(source), 0, 0), f'definition "{define}" is not NAME or NAME=VALUE'
            )
        command.append(f"-D{define}")
    for directory in (*include_dirs, INCLUDE_DIR):
        command += ["-I", str(directory)]
    command.append(str(source))
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except subprocess.TimeoutExpired as expired:
        raise CompileError.at(
            Pos(str(source), 0, 0), f"the preprocessor took longer than {_TIMEOUT_S} s"
        ) from expired
    if done.returncode != 0:
        raise CompileError(_diagnostics(done.stderr, source))
    return done.stdout


def _require_readable(source: Path) -> None:
    where = Pos(str(source), 0, 0)
    if source.is_dir():
        raise CompileError.at(where, "is a directory, not a P4 program")
    try:
        with source.open("rb"):
            pass
    except OSError as error:
        raise CompileError.at(where, f"can't read the program: {error.strerror}") from error


def _preprocessor(source: Path) -> tuple[str, ...]:
    for command in _COMMANDS:
        if shutil.which(command[0]):
            return command
    raise CompileError.at(
        Pos(str(source), 0, 0), "no C preprocessor found; install one: apt install cpp"
    )


def _diagnostics(stderr: str, source: Path) -> list[Diagnostic]:
    found = [
        Diagnostic(Pos(m["file"], int(m["line"]), int(m["column"] or 1)), m["text"])
        for m in _MESSAGE.finditer(stderr)
    ]
    if found:
        return found
    lines = stderr.strip().splitlines()
    text = lines[-1] if lines else "no message"
    return [Diagnostic(Pos(str(source), 0, 0), f"the preprocessor failed: {text}")]
