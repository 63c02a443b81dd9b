"""P4 programs, compiled: from a file, or from text that stands in a notebook."""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.interactive import html
from experiments.interactive.errors import CompileError, WeftError, plainly

if TYPE_CHECKING:
    from compiler import Diagnostic
    from controller.p4info import P4Info
    from controller.program import CompiledProgram
    from softswitch.program_cache import Compiled, Job

_NAME = re.compile(r"[\w.+-]+\Z")


@dataclass(frozen=True, repr=False)
class Program:
    """A compiled program: BMv2 JSON, P4Info and machine code, which is in the cache.

    `source`: its text, without what it includes. `warnings`: as the compiler prints them, each with
    its line of the program below it.
    """

    name: str
    source: str
    compiled: CompiledProgram
    warnings: tuple[str, ...] = ()

    @property
    def json(self) -> str:
        """BMv2 JSON, as p4c-bm2-ss writes it."""
        return self.compiled.json_text

    @property
    def p4info(self) -> str:
        """P4Info, as text protobuf."""
        return self.compiled.p4info_text

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables' names, as short as they may be."""
        return tuple(table.alias for table in self.compiled.p4info.tables.all)

    @plainly
    def write(self, folder: str | Path) -> tuple[Path, Path]:
        """Write NAME.json and NAME.p4info.txtpb into a folder, which is made if missing."""
        out = Path(folder)
        out.mkdir(parents=True, exist_ok=True)
        stem = Path(self.name).stem
        paths = out / f"{stem}.json", out / f"{stem}.p4info.txtpb"
        for path, text in zip(paths, (self.json, self.p4info), strict=True):
            path.write_text(text)
        return paths

    def __repr__(self) -> str:
        rows = [("table", "key", "actions"), *self._rows()]
        return html.text(rows, title=self._title())

    def _repr_html_(self) -> str:
        return html.table(("table", "key", "actions"), self._rows(), title=self._title())

    def _title(self) -> str:
        count = len(self.warnings)
        return f"{self.name}: compiled, {count or 'no'} warning{'s' if count != 1 else ''}"

    def _rows(self) -> list[tuple[str, str, str]]:
        info: P4Info = self.compiled.p4info
        rows = []
        for table in info.tables.all:
            keys = (f"{each.name} ({each.kind.name.lower()})" for each in table.fields if each.kind)
            actions = []
            for number in table.action_ids:
                action = info.actions[number]
                names = ", ".join(param.name for param in action.params)
                actions.append(f"{action.alias}({names})")
            rows.append((table.alias, ", ".join(keys), " or ".join(actions)))
        return rows


@plainly
def compile(
    source: str | Path,
    *,
    defines: Mapping[str, object] | Sequence[str] = (),
    include: Sequence[str | Path] = (),
    diagnostics: Sequence[str] = (),
    name: str = "program.p4",
) -> Program:
    """Compile a P4_16 (v1model) program: a file, or the text itself.

    Args:
        source: a path, or the text, which has more than one line.
        defines: of the preprocessor: {"PORTS": 8}, or ["PORTS=8", "WITH_ARP"].
        include: folders to look for included files in.
        diagnostics: p4c's options for warnings, such as "Werror=unused".
        name: of a program that is text, for messages.

    Raises:
        CompileError: with everything that is wrong; its message has file, line and column of
            each, and the line with a mark below it.
    """
    # Here, so that using one name of `weft` does not load what the others need.
    from controller.program import CompiledProgram
    from softswitch.program_cache import Job

    if isinstance(defines, str):
        raise WeftError(f'defines: {defines!r} is one text: write ["{defines}"]')
    if isinstance(defines, Mapping):
        defines = [f"{key}={value}" for key, value in defines.items()]
    is_text = isinstance(source, str) and "\n" in source
    if isinstance(source, str) and not is_text and not source.endswith(".p4"):
        raise WeftError(f"{source!r} is neither a file called *.p4 nor the text of a program")
    folders = tuple(Path(each) for each in include)
    with _file_of(str(source), name) if is_text else _there(Path(source)) as path:
        shown = name if is_text else str(path)
        if is_text:
            folders = (*folders, Path.cwd())  # where a file in its place would be
        job = Job(path, folders, tuple(defines), diagnostics=tuple(diagnostics))
        compiled = _compiled(job, shown)
        warnings = tuple(_quoted(text, path, shown) for text in compiled.warnings)
        text = path.read_text(encoding="utf-8", errors="replace")
    made = CompiledProgram.of(compiled, Path(shown))
    return Program(made.name, text, made, warnings)


def _compiled(job: Job, shown: str) -> Compiled:
    """Compile, and say what is wrong with the name that the caller knows."""
    # Here, so that using one name of `weft` does not load what the others need.
    import compiler
    from softswitch.program_cache import compile_program

    try:
        return compile_program(job)
    except compiler.CompileError as error:
        wrong = error.diagnostics
        text = "\n".join(_quoted(str(each), job.source, shown) for each in wrong)
        raise CompileError(text, [_renamed(each, job.source, shown) for each in wrong]) from None


def _quoted(text: str, path: Path, shown: str) -> str:
    """Return a diagnostic with its line of the program and a mark, and the name that is known."""
    # Here, so that using one name of `weft` does not load what the others need.
    from compiler.quoted_source import with_source

    return with_source(text).replace(str(path), shown)


def _renamed(diagnostic: Diagnostic, path: Path, shown: str) -> Diagnostic:
    if diagnostic.pos.file != str(path):
        return diagnostic
    return replace(diagnostic, pos=replace(diagnostic.pos, file=shown))


@contextmanager
def _there(path: Path) -> Iterator[Path]:
    yield path


@contextmanager
def _file_of(text: str, name: str) -> Iterator[Path]:
    """Write a program to a file for as long as it is compiled.

    The same text always has the same path, which is in what the preprocessor makes of it: so what
    was compiled once is found in the cache.
    """
    # Here, so that using one name of `weft` does not load what the others need.
    from softswitch.program_cache import cache_directory

    if not _NAME.match(name):
        raise WeftError(f"name {name!r}: write a file's name, such as router.p4")
    digest = hashlib.sha256(f"{name}\n{text}".encode()).hexdigest()[:16]
    folder = cache_directory() / "sources" / digest
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / name
        path.write_text(text, encoding="utf-8")
    except OSError:  # a cache that can't be written costs time, nothing else
        with tempfile.TemporaryDirectory(prefix="weft-p4-") as scratch:
            path = Path(scratch) / name
            path.write_text(text, encoding="utf-8")
            yield path
        return
    yield path
