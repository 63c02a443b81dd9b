"""The program's text by position, for BMv2's `source_info` (its logs quote it)."""

from __future__ import annotations

from pathlib import Path

from compiler.bmv2.expr import Json
from compiler.errors import Pos


class SourceText:
    """Reads source files once; file names are written relative to the program's folder."""

    def __init__(self, program: Path) -> None:
        self._folder = program.resolve().parent
        self._lines: dict[str, list[str]] = {}
        self._names: dict[str, str] = {}

    def name(self, file: str) -> str:
        """Return `file` as it is written into the JSON: the same wherever the program lies."""
        found = self._names.get(file)
        if found is None:
            path = Path(file)
            try:
                found = str(path.resolve().relative_to(self._folder))
            except ValueError:
                found = path.name
            self._names[file] = found
        return found

    def fragment(self, pos: Pos) -> str:
        """Return the rest of the line at `pos` up to the end of the statement."""
        lines = self._lines.get(pos.file)
        if lines is None:
            try:
                lines = Path(pos.file).read_text(errors="replace").splitlines()
            except OSError:
                lines = []
            self._lines[pos.file] = lines
        if not 0 < pos.line <= len(lines):
            return ""
        rest = lines[pos.line - 1][max(pos.column - 1, 0) :]
        return rest.split(";", 1)[0].split("{", 1)[0].strip()

    def info(self, pos: Pos) -> Json:
        """Return `{"source_info": ...}` to merge into an object."""
        if pos.line == 0:
            return {}
        return {
            "source_info": {
                "filename": self.name(pos.file),
                "line": pos.line,
                "column": pos.column - 1,
                "source_fragment": self.fragment(pos),
            }
        }
