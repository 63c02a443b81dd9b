"""Import of flows from a CSV file: a trace of one's own, or another tool's output.

    src,dst,bytes,start_us
    0,3,20000,0
    2,1,1460,12.5

The first line names the columns, in any order: `src` and `dst`, nodes counted from 0; `bytes`; and
the start with its unit, `start_s`, `start_ms`, `start_us`, `start_ns` or `start_ps`, or none, where
all begin at once. Other columns are left out.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation

from topologies.errors import Problem, TopologyError, did_you_mean
from topologies.fields import MAX_MOMENT_PS, MAX_VOLUME

_UNITS = {
    "start_s": 10**12,
    "start_ms": 10**9,
    "start_us": 10**6,
    "start_ns": 10**3,
    "start_ps": 1,
}
_NEEDED = ("src", "dst", "bytes")
_MOST_PROBLEMS = 10


def read_csv(text: str, file: str) -> dict[str, object]:
    """Return what a file says, as `matrix` of a run file keeps it.

    `nodes`: one more than the highest that occurs; `connections`: a list of [source, target, bytes,
    start in ps], with nodes counted from 0, in the file's order; `waits`: empty. Raises
    TopologyError with what is wrong and its line.
    """
    lines = csv.reader(text.splitlines())
    head = [word.strip() for word in next(lines, [])]
    starts = [name for name in head if name in _UNITS]
    if message := _wrong_head(head, starts):
        raise TopologyError([Problem(file, 1, 1, "", message)])
    places = [head.index(name) for name in _NEEDED]
    start = (head.index(starts[0]), _UNITS[starts[0]]) if starts else None
    problems: list[Problem] = []
    found: list[list[int]] = []
    for words in lines:
        if not any(word.strip() for word in words):
            continue
        try:
            if len(words) != len(head):
                raise ValueError(f"{len(words)} values, but the first line names {len(head)}")
            found.append(_flow([word.strip() for word in words], places, start))
        except ValueError as error:
            problems.append(Problem(file, lines.line_num, 1, "", str(error)))
    if not problems and not found:
        problems.append(Problem(file, 1, 1, "", "there is no flow"))
    if problems:
        raise TopologyError(problems[:_MOST_PROBLEMS])
    nodes = 1 + max(max(row[:2]) for row in found)
    return {"nodes": nodes, "connections": found, "waits": []}


def _wrong_head(head: Sequence[str], starts: Sequence[str]) -> str:
    """Return what is wrong with the names of columns; nothing if nothing is."""
    for name in _NEEDED:
        if name not in head:
            right = "name them in the first line: src,dst,bytes,start_us"
            return f"no column {name}{did_you_mean(name, head)}: {right}"
    if len(starts) > 1:
        return f"{' and '.join(starts)}: give one start"
    if "start" in head:
        return f"start has no unit: call it one of {', '.join(_UNITS)}"
    return ""


def _flow(words: Sequence[str], places: Sequence[int], start: tuple[int, int] | None) -> list[int]:
    """Return source, destination, bytes and picoseconds. Raises ValueError."""
    for name, place in zip(_NEEDED, places, strict=True):
        word = words[place]
        if not (word.isascii() and word.isdecimal() and len(word) < 19):
            raise ValueError(f"{name}: {word[:40]!r} is no whole number")
    source, target, size = (int(words[place]) for place in places)
    if source == target:
        raise ValueError(f"{source} sends to itself")
    if not 0 < size <= MAX_VOLUME:
        raise ValueError(f"a flow has 1 to {MAX_VOLUME} bytes, not {size}")
    return [source, target, size, 0 if start is None else _time(words[start[0]], start[1])]


def _time(word: str, unit_ps: int) -> int:
    try:
        value = Decimal(word)
    except InvalidOperation:
        value = Decimal("NaN")
    if not (value.is_finite() and 0 <= value * unit_ps <= MAX_MOMENT_PS):
        raise ValueError(f"{word[:40]!r} is no time from 0 to {MAX_MOMENT_PS // 10**12} s")
    return int(value * unit_ps)
