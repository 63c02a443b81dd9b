"""Diagnostics as p4c prints them: `file(line): [--Werror=kind] error: text`, then the line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

from compiler.errors import Diagnostic, Pos, Severity
from compiler.quoted_source import quoted


class Level(Enum):
    """What becomes of a warning; the values are p4c's words."""

    SILENT = "disable"
    INFO = "info"
    WARNING = "warn"
    ERROR = "error"


_WORDS = {Level.INFO: "info", Level.WARNING: "warning", Level.ERROR: "error"}


class Messages:
    """Prints diagnostics and counts errors. `levels` as in P4cOptions."""

    def __init__(self, levels: Mapping[str, Level], max_errors: int) -> None:
        self._levels = levels
        self._max_errors = max_errors
        self.errors = 0

    def text(self, diagnostics: Sequence[Diagnostic]) -> str:
        """Return the text of all `diagnostics` that are to be shown."""
        return "".join(self._one(diagnostic) for diagnostic in diagnostics)

    def _one(self, diagnostic: Diagnostic) -> str:
        level = self._level(diagnostic)
        if level is Level.SILENT:
            return ""
        if level is Level.ERROR:
            self.errors += 1
            if self.errors > self._max_errors:
                return ""
        found = self._head(diagnostic.pos, mark(level, diagnostic.code), diagnostic.message)
        for pos, note in diagnostic.notes:
            found += self._head(pos, "", note)
        return found

    def _level(self, diagnostic: Diagnostic) -> Level:
        if diagnostic.severity is Severity.ERROR:
            return Level.ERROR
        if diagnostic.severity is Severity.INFO:
            return Level.INFO
        if diagnostic.back_end:  # p4c reports these whatever the options are
            return Level.WARNING
        own = self._levels.get(diagnostic.code)
        return own if own is not None else self._levels.get("", Level.WARNING)

    def _head(self, pos: Pos, kind: str, message: str) -> str:
        where = f"{pos.file}({pos.line}): " if pos.line else f"{pos.file}: "
        return f"{where}{kind}{message}\n{quoted(pos.file, pos.line, pos.column)}"


def mark(level: Level, code: str) -> str:
    """Return the `[--Werror=kind] error: ` before a message."""
    kind = f"={code}" if code else ""
    return f"[--W{level.value}{kind}] {_WORDS[level]}: "
