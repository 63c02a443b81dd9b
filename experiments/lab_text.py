"""A lab's text as others get it: without the teachers' sections, without links that lead nowhere.

Both the report and the handout leave the repository, and outside of it a path such as
`../../docs/labs.md` means nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from urllib.parse import unquote, urlsplit

TEACHERS = "for teachers"
"""The heading of a section that only teachers get; see `for_learners`."""

_HEADING = re.compile(r"(#{1,6})\s+(.*?)\s*#*\s*$")
_LINK = re.compile(r"`[^`\n]+`|(?<!\\)(!?)\[([^\[\]]*)\]\(([^()\s]+)\)")

Place = Callable[[Path, bool], str | None]
"""Where a file of the repository is for the reader (None: nowhere); the flag: it is a picture."""


def for_learners(markdown: str) -> str:
    """Return a text without its sections "For teachers", each up to the next heading as high."""
    kept: list[str] = []
    hidden = 0  # the level of the section being left out; 0: none
    for line, is_code in _lines(markdown):
        found = None if is_code else _HEADING.match(line)
        if found:
            level = len(found[1])
            if hidden and level <= hidden:
                hidden = 0
            if not hidden and found[2].lower() == TEACHERS:
                hidden = level
        if not hidden:
            kept.append(line)
    return "".join(kept).rstrip() + "\n" if kept else ""


def relinked(markdown: str, folder: Path, root: Path, place: Place) -> str:
    """Return a text whose links hold where it goes.

    `folder`: the lab's, where links start from; `root`: the repository's. A link to a file that has
    a `place` leads there; one that has none becomes its words and the file's name in Weft. Links to
    other sites and within the text stay.
    """

    def link(found: re.Match[str]) -> str:
        mark, words, target = found.groups()
        if target is None:
            return found[0]  # code
        where = urlsplit(target)
        if where.scheme or where.netloc or not where.path:
            return found[0]
        path = (folder / unquote(where.path)).resolve()
        there = place(path, mark == "!")
        if there is not None:
            return f"{mark}[{words}]({there})"
        inside = path.is_relative_to(root.resolve())
        name = str(path.relative_to(root.resolve())) if inside else path.name
        return words if name in words else f"{words} (`{name}` in Weft)"

    parts = []
    for is_code, lines in groupby(_lines(markdown), key=itemgetter(1)):
        text = "".join(line for line, _ in lines)  # a link's words may go on in the next line
        parts.append(text if is_code else _LINK.sub(link, text))
    return "".join(parts)


def _lines(markdown: str) -> Iterator[tuple[str, bool]]:
    """Yield each line, and whether it is code: fenced, or indented by four."""
    fence = ""
    for line in markdown.splitlines(keepends=True):
        mark = re.match(r" {0,3}(`{3,}|~{3,})", line)
        if fence:
            yield line, True
            if mark and mark[1].startswith(fence):
                fence = ""
        elif mark:
            fence = mark[1]
            yield line, True
        else:
            yield line, line.startswith("    ")
