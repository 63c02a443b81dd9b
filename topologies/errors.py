"""What can be wrong with a topology, and how it is said."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

FieldPath = tuple[str | int, ...]


def field_name(path: FieldPath) -> str:
    """Return a path as a reader writes it: ('links', 2, 'rate') -> 'links[2].rate'."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """Return '; did you mean X?' for the closest of `choices`, or an empty string."""
    close = difflib.get_close_matches(word, list(choices), n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""


@dataclass(frozen=True)
class Problem:
    """One mistake: where it is (line and column count from 1) and what would be right."""

    file: str
    line: int
    column: int
    field: str
    message: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}:{self.column}: "
        return where + (f"{self.field}: " if self.field else "") + self.message


class TopologyError(Exception):
    """A topology that can't be used. `problems` holds every mistake found, in file order."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda p: (p.line, p.column)))
        super().__init__("\n".join(str(problem) for problem in self.problems))
