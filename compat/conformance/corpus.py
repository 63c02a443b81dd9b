"""Programs by others: those of a directory, or of a list with what each needs to compile.

A list has one program a line, as `weft compile` would take it: PROG.p4 [-I DIR] [-D NAME[=V]] ...;
paths are relative to the list, `#` begins a comment.
"""

from __future__ import annotations

import json
import re
import shlex
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from compat.conformance import p4c
from compat.conformance.findings import Verdict
from compiler import driver
from compiler.errors import CompileError, NotSupported
from softswitch.codegen.build import BuildError, build_pipeline
from softswitch.codegen.json_reader import JsonError
from softswitch.codegen.loader import load_program
from softswitch.jobs import Loss

_MAIN = re.compile(r"\bV1Switch\s*(?:<[^;]*>)?\s*\(.*\)\s*main\s*;", re.DOTALL)
_COMMENTS = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_OPTION = re.compile(r"-([ID])(.*)")


class ListError(Exception):
    """A list that can't be read; the message has file and line."""


@dataclass(frozen=True)
class Source:
    """One program and the preprocessor's options for it. Two may be of one file."""

    path: Path
    include_dirs: tuple[Path, ...] = ()
    defines: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join([str(self.path), *(f"-D{define}" for define in self.defines)])

    def options(self) -> list[str]:
        """Return the options for p4c's command line, and for ours."""
        folders = [f"-I{folder.resolve()}" for folder in self.include_dirs]
        return folders + [f"-D{define}" for define in self.defines]


@dataclass(frozen=True)
class Judged:
    """What the compilers make of a program.

    `reason`: our first error; `theirs` is None without p4c. `seconds` by stage, the C compiler's
    too. `same_p4info` is None unless both accept. The texts are what ours made.
    """

    source: Source
    ours: Verdict
    reason: str = ""
    seconds: dict[str, float] = field(default_factory=dict)
    p4info_bytes: int = 0
    theirs: Verdict | None = None
    their_reason: str = ""
    their_seconds: float = 0.0
    same_p4info: bool | None = None
    json_text: str = ""
    p4info_text: str = ""

    @property
    def total_s(self) -> float:
        """Source to machine code."""
        return sum(self.seconds.values())

    @property
    def agrees(self) -> bool:
        """Compiled in time, no crash, nothing refused that p4c accepts, and the same P4Info."""
        lost = self.theirs is Verdict.ACCEPTED and self.ours is not Verdict.ACCEPTED
        failed = self.ours in (Verdict.CRASHED, Verdict.NOT_DONE)
        return not failed and not lost and self.same_p4info is not False


def find(
    directory: Path, include_dirs: Sequence[Path] = (), defines: Sequence[str] = ()
) -> list[Source]:
    """Return each file below `directory` that makes a V1Switch its `main`, by path."""
    found = []
    for path in sorted(directory.rglob("*.p4")):
        if path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace")
            if _MAIN.search(_COMMENTS.sub(" ", text)):
                found.append(Source(path, tuple(include_dirs), tuple(defines)))
    return found


def read_list(path: Path) -> list[Source]:
    """Read the programs of a list. Raises ListError, OSError."""
    found = []
    text = path.read_text(encoding="utf-8", errors="replace")
    for number, line in enumerate(text.splitlines(), 1):
        where = f"{path}:{number}"
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:  # a quote that does not end
            raise ListError(f"{where}: {error}") from error
        if words:
            found.append(_source(words, path.parent, where))
    return found


def _source(words: list[str], base: Path, where: str) -> Source:
    files: list[Path] = []
    given: dict[str, list[str]] = {"I": [], "D": []}
    rest = iter(words)
    for word in rest:
        option = _OPTION.fullmatch(word)
        if option is None:
            files.append(base / word)
            continue
        value = option[2] or next(rest, "")
        if not value:
            raise ListError(f"{where}: {word} needs a value")
        given[option[1]].append(value)
    if len(files) != 1:
        raise ListError(f"{where}: one program a line is wanted, {len(files)} found")
    if not files[0].is_file():
        raise ListError(f"{where}: {files[0]}: no such file")
    return Source(files[0], tuple(base / name for name in given["I"]), tuple(given["D"]))


def judge(source: Source, compiler: Path | None, limit_s: float = p4c.LIMIT_S) -> Judged:
    """Compile a program to machine code, and with p4c's `compiler` if there is one, which may take
    `limit_s`."""
    seconds: dict[str, float] = {}
    verdict, reason, made, info = _ours(source, seconds)
    size = len(info.encode())
    if compiler is None:
        return Judged(source, verdict, reason, seconds, size, json_text=made, p4info_text=info)
    started = time.monotonic()
    said = p4c.compile_file(compiler, source.path, source.options(), limit_s=limit_s)
    same = None
    if verdict is Verdict.ACCEPTED and said.verdict is Verdict.ACCEPTED:
        same = said.p4info == info
    return Judged(
        source,
        verdict,
        reason,
        seconds,
        size,
        said.verdict,
        said.reason or next((str(error) for error in said.errors), ""),
        round(time.monotonic() - started, 2),
        same,
        made,
        info,
    )


def _ours(source: Source, seconds: dict[str, float]) -> tuple[Verdict, str, str, str]:
    """Return the verdict, our first error, the JSON and the P4Info."""
    try:
        result = driver.compile_p4(
            source.path, include_dirs=source.include_dirs, defines=source.defines
        )
        seconds |= result.timings
        started = time.monotonic()
        program = load_program(json.loads(result.json_text))
        # A cache of its own: what an earlier run left would hide how long it takes.
        with tempfile.TemporaryDirectory(prefix="weft-corpus-") as scratch:
            build_pipeline(program, cache_dir=Path(scratch))
        seconds["machine code"] = time.monotonic() - started
        return Verdict.ACCEPTED, "", result.json_text, result.p4info_text
    except NotSupported as error:
        return Verdict.UNSUPPORTED, str(error.diagnostics[0]), "", ""
    except CompileError as error:
        return Verdict.REFUSED, str(error.diagnostics[0]), "", ""
    except (JsonError, BuildError) as error:
        return Verdict.CRASHED, f"our own JSON: {error}", "", ""
    except Exception as error:  # whatever it is, it is this program's result: a bug of ours
        return Verdict.CRASHED, f"{type(error).__name__}: {error}", "", ""


def lost(source: Source, loss: Loss) -> Judged:
    """Return the result of a program whose compilation gave none."""
    verdict = Verdict.CRASHED if loss.ended else Verdict.NOT_DONE
    return Judged(source, verdict, loss.why, {"": loss.seconds})
