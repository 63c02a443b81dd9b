"""The result of a measurement, from the times at which its messages were posted and completed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.uint64]

SECOND_NS = 10**9
_MARKS = 1024
"""Between so many points of a measurement the best run is looked for."""


def peak_bps(posts: Times, ends: Times, size: int) -> int:
    """Return the rate of the best run of messages, as perftest counts it.

    A run lasts from the posting of its first message to the completion of its last; `posts` and
    `ends` are in ns, in any order, `ends` at most as many. Payload bits a second.
    """
    count = len(ends)
    if not count:
        return 0
    posts = np.sort(posts)[:count].astype(np.float64)
    ends = np.sort(ends).astype(np.float64)
    marks = np.unique(np.linspace(0, count - 1, min(count, _MARKS)).astype(np.int64))
    best = 0.0
    for first in marks:
        last = marks[marks >= first]
        elapsed = ends[last] - posts[first]
        rates = np.where(elapsed > 0, (last - first + 1) / np.maximum(elapsed, 1), 0.0)
        best = max(best, float(rates.max()))
    return int(best * size * 8 * SECOND_NS)


def sums(states: Sequence[Any], size: int, *, ends: bool) -> dict[str, Any]:
    """Return the result of a measurement over its queue pairs (TaskState of each).

    `ends`: their times are when messages were complete (of bandwidth), and a peak can be told.
    """
    messages = sum(state.completed for state in states)
    first = min(state.started_ns for state in states)
    last = max(state.ended_ns for state in states)
    elapsed = max(last - first, 1)
    posts = np.concatenate([state.posts for state in states])
    times = np.concatenate([state.times for state in states])
    return {
        "messages": messages,
        "bytes": messages * size,
        "elapsed_ns": elapsed,
        "average_bps": messages * size * 8 * SECOND_NS // elapsed,
        "peak_bps": peak_bps(posts, times, size) if ends else 0,
        "messages_per_s": messages * SECOND_NS / elapsed,
    }


def row(qpn: int, state: Any, before: Any, after: Any, size: int) -> dict[str, Any]:
    """Return the result of a measurement for one queue pair; counters from its start on."""
    elapsed = max(state.ended_ns - state.started_ns, 1)
    counted = {
        name: getattr(after, name) - getattr(before, name)
        for name in after.__dataclass_fields__
        if name not in ("state", "failure", "outstanding", "rate_bps", "first_cut_at")
    }
    return {
        "qpn": qpn,
        "messages": state.completed,
        "bytes": state.completed * size,
        "elapsed_ns": elapsed,
        "average_bps": state.completed * size * 8 * SECOND_NS // elapsed,
        "rate_bps": after.rate_bps or None,
        **counted,
    }
