"""Published distributions of flow sizes, as points of their cumulative distribution.

The numbers are those with which HPCC (Li et al., SIGCOMM 2019) was evaluated and which later work
took over. Between two points sizes are spread evenly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import numpy.typing as npt

_SCALE = 1000  # points are in 1/1000 of all flows
_SAMPLES = 1 << 16


@dataclass(frozen=True)
class FlowSizes:
    """A distribution: (bytes, how many of `scale` flows are at most that long), ascending."""

    name: str
    source: str
    points: tuple[tuple[int, int], ...]
    scale: int = _SCALE

    def quantile(self, words: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """Return the size at each share of the flows, given in 1/2^32; at least one byte."""
        sizes = np.array([size for size, _ in self.points], dtype=np.int64)
        shares = np.array([(share << 32) // self.scale for _, share in self.points], dtype=np.int64)
        at = words.astype(np.int64)
        upper = np.clip(np.searchsorted(shares, at, side="right"), 1, len(shares) - 1)
        low, high = shares[upper - 1], shares[upper]
        found = sizes[upper - 1] + (sizes[upper] - sizes[upper - 1]) * (at - low) // (high - low)
        whole: npt.NDArray[np.int64] = np.maximum(found, 1)
        return whole

    @cached_property
    def evenly(self) -> npt.NDArray[np.int64]:
        """65536 sizes at even shares: what means are taken over."""
        half = 1 << 15
        shares = np.arange(_SAMPLES, dtype=np.uint64) * np.uint64(1 << 16) + np.uint64(half)
        return self.quantile(shares)


MIXES: Mapping[str, FlowSizes] = {
    "websearch": FlowSizes(
        "websearch",
        "web search: Alizadeh et al., Data Center TCP (DCTCP), SIGCOMM 2010, fig. 4; as in HPCC",
        (
            (0, 0),
            (10_000, 150),
            (20_000, 200),
            (30_000, 300),
            (50_000, 400),
            (80_000, 530),
            (200_000, 600),
            (1_000_000, 700),
            (2_000_000, 800),
            (5_000_000, 900),
            (10_000_000, 970),
            (30_000_000, 1000),
        ),
    ),
    "hadoop": FlowSizes(
        "hadoop",
        "Facebook's Hadoop: Roy et al., Inside the Social Network's (Datacenter) Network, "
        "SIGCOMM 2015, fig. 6; as in HPCC",
        (
            (0, 0),
            (100, 10),
            (200, 20),
            (300, 50),
            (350, 150),
            (400, 200),
            (500, 300),
            (600, 400),
            (700, 500),
            (1_000, 600),
            (2_000, 670),
            (7_000, 700),
            (30_000, 720),
            (50_000, 820),
            (80_000, 870),
            (120_000, 900),
            (300_000, 950),
            (1_000_000, 975),
            (2_000_000, 990),
            (10_000_000, 1000),
        ),
    ),
}


@cache
def of_size(size: int) -> FlowSizes:
    """Return the distribution in which all flows have one size."""
    return FlowSizes(f"{size} B", "", ((size, 0), (size, 1)), 1)


def from_points(name: str, points: Sequence[Sequence[int]]) -> FlowSizes:
    """Return a distribution that was read from a file (workloads/size_files.py)."""
    return FlowSizes(name, "", tuple((size, share) for size, share in points), 10**6)
