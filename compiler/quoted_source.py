"""Diagnostics with the line of the program that they are about, and a mark at the column."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

_PLACE = re.compile(r"(?P<file>.+?):(?P<line>[1-9][0-9]*):(?P<column>[0-9]+): (?=[a-z]+: )")


def quoted(file: str, line: int, column: int) -> str:
    """Return a line of a file and below it a mark at a column, both with their end; "" if none.

    Tabs stay tabs, so that the mark stands under its column in any terminal.
    """
    lines = _lines(file)
    if not 0 < line <= len(lines):
        return ""
    text = lines[line - 1]
    indent = "".join(c if c == "\t" else " " for c in text[: max(column - 1, 0)])
    return f"{text}\n{indent}^\n"


def with_source(text: str) -> str:
    """Return diagnostics, as their text is, with each line "FILE:LINE:COLUMN: ..." quoted below."""
    shown = ""
    for line in text.splitlines():
        shown += f"{line}\n"
        if place := _PLACE.match(line):
            shown += quoted(place["file"], int(place["line"]), int(place["column"]))
    return shown.removesuffix("\n")


def _lines(file: str) -> list[str]:
    try:
        state = Path(file).stat()
        return _read(file, state.st_mtime_ns, state.st_size)
    except OSError:
        return []


@lru_cache(maxsize=16)
def _read(file: str, changed_ns: int, size: int) -> list[str]:
    """Read a file as it was changed last: a notebook compiles the same one again and again."""
    return Path(file).read_text(encoding="utf-8", errors="replace").splitlines()
