"""Import of distributions of flow sizes: text files with a point of the distribution a line.

    0 0
    10000 15
    20000 20.5
    30000000 100

Bytes, then how many percent of all flows are at most that long, both ascending, up to 100: the
files of HPCC's traffic_gen (WebSearch_distribution.txt, FbHdp_distribution.txt) and of models that
came from it, such as ConWeave's. Lines that begin with # are left out.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from topologies.errors import Problem, TopologyError
from topologies.fields import MAX_VOLUME

_PARTS = 10**6
_MOST_PROBLEMS = 10


def read_sizes(text: str, file: str) -> list[list[int]]:
    """Return points: [bytes, how many millionths of all flows are at most that long].

    Raises TopologyError with what is wrong and its line.
    """
    problems: list[Problem] = []
    found: list[list[int]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            size, share = _point(line)
            if found and (size < found[-1][0] or share < found[-1][1]):
                raise ValueError("less than the line above: sizes and percentages ascend")
        except ValueError as error:
            problems.append(Problem(file, number, 1, "", str(error)))
            continue
        found.append([size, share])
    if not problems and (len(found) < 2 or found[-1][1] != _PARTS or found[0][1] == _PARTS):
        message = "a distribution has two points at least, and ends at 100 (percent)"
        problems.append(Problem(file, max(1, len(text.splitlines())), 1, "", message))
    if problems:
        raise TopologyError(problems[:_MOST_PROBLEMS])
    if found[0][1] > 0:
        found.insert(0, [found[0][0], 0])  # so many flows have just that size
    return found


def _point(line: str) -> tuple[int, int]:
    """Return bytes and millionths. Raises ValueError."""
    words = line.split()
    if len(words) != 2:
        raise ValueError(f"a point is bytes and percent, not {len(words)} words")
    try:
        size, percent = Decimal(words[0]), Decimal(words[1])
    except InvalidOperation:
        size = percent = Decimal("NaN")
    if not (size.is_finite() and percent.is_finite()):
        raise ValueError(f"{line.strip()[:40]!r} is not two numbers: bytes and percent")
    if not 0 <= size <= MAX_VOLUME or size != int(size):
        raise ValueError(f"a size is 0 to {MAX_VOLUME} whole bytes, not {words[0][:40]}")
    if not 0 <= percent <= 100:
        raise ValueError(f"a share is 0 to 100 percent, not {words[1][:40]}")
    return int(size), int(percent * _PARTS / 100)
