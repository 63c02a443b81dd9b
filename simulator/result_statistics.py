"""Percentiles, means and rates in whole numbers: the same on every machine.

A percentile is the nearest rank: of n sorted values the one at position ceil(p / 100 * n), counted
from 1. It is always one of the values. Ratios are in millionths, rounded down.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

MILLION = 10**6
PS_PER_S = 10**12
PERCENTS = (50, 90, 99)

Integers = npt.NDArray[Any]


def nearest_rank(ordered: Integers | Sequence[int], percent: int) -> int:
    """Return a percentile of values in ascending order. Raises ValueError for none of them."""
    if not len(ordered):
        raise ValueError("no percentile of no values")
    rank = max(1, (percent * len(ordered) + 99) // 100)
    return int(ordered[rank - 1])


def spread(values: Integers) -> dict[str, int]:
    """Return count, mean (rounded down), p50, p90, p99 and max; of no values only the count."""
    if not len(values):
        return {"count": 0}
    ordered = np.sort(values)
    return {
        "count": len(ordered),
        "mean": total(ordered) // len(ordered),
        **{f"p{percent}": nearest_rank(ordered, percent) for percent in PERCENTS},
        "max": int(ordered[-1]),
    }


def total(values: Integers) -> int:
    """Return the exact sum, which may be beyond 64 bits."""
    if not len(values):
        return 0
    high = int((values.astype(np.int64) >> 32).sum())
    low = int((values.astype(np.int64) & 0xFFFFFFFF).sum())
    return (high << 32) + low


def ratios(numerators: Integers, denominators: Integers, scale: int = MILLION) -> Integers:
    """Return numerator * scale // denominator for each; -1 where the denominator is not above 0.

    The products may be beyond 64 bits. A negative numerator, which means none, gives -1 too.
    """
    above = np.asarray(numerators, np.int64)
    below = np.asarray(denominators, np.int64)
    good = (below > 0) & (above >= 0)
    safe = np.where(good, below, 1)
    top = int(above.max(initial=0))
    if top <= (2**63 - 1) // scale:
        found = np.maximum(above, 0) * scale // safe
    else:
        # A product is beyond 64 bits: Python's integers have no end.
        pairs = zip(above.tolist(), safe.tolist(), strict=True)
        found = np.array([max(a, 0) * scale // b for a, b in pairs], np.int64)
    return np.where(good, found, -1)


def rate_bps(size: int, time_ps: int) -> int:
    """Return so many bytes in so much time as bits per second, rounded down; -1 for no time."""
    return size * 8 * PS_PER_S // time_ps if time_ps > 0 else -1
