"""Import of the flow files of HPCC's ns-3, which later ns-3 models of RDMA took over.

    3
    12 4 3 100 20000 2.000000123
    7 12 3 100 1460 2.000000400
    0 9 3 200 500000 2.000001000

As scratch/third.cc of alibaba-edu/High-Precision-Congestion-Control reads it: how many flows there
are, then of each the source, the destination, the priority group, the destination's port, the bytes
and the start in seconds, in order of time. traffic_gen.py begins at 2 s; here times count from the
whole second in which the first flow begins. Group and port are left out: all flows of an entry have
its class, and UDP ports follow from pair and seed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal, InvalidOperation

from topologies.errors import Problem, TopologyError
from topologies.fields import MAX_MOMENT_PS, MAX_VOLUME

PRIORITY_GROUP = 3
"""The lossless class that these models give RDMA."""
BACKGROUND, INCAST = 100, 200
"""Destination ports by which the authors' fct_analysis.py distinguishes flows."""

_PS_PER_S = 10**12
_FIELDS = "source, destination, priority group, port, bytes and seconds"
_MOST_PROBLEMS = 10

Connection = tuple[int, int, int, int]
"""Source and destination from 0, bytes, start in picoseconds."""


def read_hpcc(text: str, file: str) -> dict[str, object]:
    """Return what a file says, as `matrix` of a run file keeps it.

    `nodes`: one more than the highest that occurs; `connections`: a list of [source, target, bytes,
    start in ps], with nodes counted from 0; `waits`: empty. Raises TopologyError with what is wrong
    and its line.
    """
    problems: list[Problem] = []
    lines = text.splitlines()
    count = lines[0].strip() if lines else ""
    if not (count.isascii() and count.isdecimal() and len(count) < 19):
        message = f"the first line is the number of flows, not {count[:40]!r}"
        raise TopologyError([Problem(file, 1, 1, "", message)])
    found: list[tuple[int, int, int, Decimal]] = []
    before = Decimal(0)
    for number, line in enumerate(lines[1:], start=2):
        if not line.strip():
            continue
        try:
            flow = _flow(line.split())
            if flow[3] < before:
                raise ValueError(f"begins at {flow[3]} s, before the flow above: ns-3 would not")
        except ValueError as error:
            problems.append(Problem(file, number, 1, "", str(error)))
            continue
        before = flow[3]
        found.append(flow)
    if not problems and len(found) != int(count):
        problems.append(Problem(file, 1, 1, "", f"{count} flows are announced, {len(found)} there"))
    if not problems and not found:
        problems.append(Problem(file, 1, 1, "", "there is no flow"))
    if not problems and (found[-1][3] - int(found[0][3])) * _PS_PER_S > MAX_MOMENT_PS:
        message = f"the last flow begins {MAX_MOMENT_PS // _PS_PER_S} s or more behind the first"
        problems.append(Problem(file, 1, 1, "", message))
    if problems:
        raise TopologyError(problems[:_MOST_PROBLEMS])
    zero = int(found[0][3])
    rows = [[a, b, size, int((at - zero) * _PS_PER_S)] for a, b, size, at in found]
    return {"nodes": 1 + max(max(row[:2]) for row in rows), "connections": rows, "waits": []}


def _flow(words: Sequence[str]) -> tuple[int, int, int, Decimal]:
    """Return source, destination, bytes and seconds. Raises ValueError."""
    if len(words) != 6:
        raise ValueError(f"a flow has six fields ({_FIELDS}), not {len(words)}")
    for word in words[:5]:
        if not (word.isascii() and word.isdecimal() and len(word) < 19):
            raise ValueError(f"{word[:40]!r} is not a whole number: a flow is {_FIELDS}")
    source, target, size = int(words[0]), int(words[1]), int(words[4])
    if source == target:
        raise ValueError(f"{source} sends to itself")
    if not 0 < size <= MAX_VOLUME:
        raise ValueError(f"a flow has 1 to {MAX_VOLUME} bytes, not {size}")
    try:
        seconds = Decimal(words[5])
    except InvalidOperation:
        seconds = Decimal("NaN")
    if not (seconds.is_finite() and seconds >= 0):
        raise ValueError(f"{words[5][:40]!r} is not a time in seconds")
    return source, target, size, seconds


def write_hpcc(connections: Iterable[Connection], port: int = BACKGROUND) -> str:
    """Return a flow file, in order of time; starts are rounded down to the nanosecond."""
    rows = sorted(connections, key=lambda row: row[3])
    flows = [
        f"{source} {target} {PRIORITY_GROUP} {port} {size} {_seconds(start)}"
        for source, target, size, start in rows
    ]
    return "\n".join([str(len(flows)), *flows]) + "\n"


def _seconds(start_ps: int) -> str:
    whole, part = divmod(start_ps // 1000, 10**9)
    return f"{whole}.{part:09d}"
