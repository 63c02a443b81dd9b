"""Median and 95 % interval of a few runs that differ in their seed.

From six runs on, the interval is the median's own: of n sorted values those of ranks k and
n + 1 - k, with the largest k for which a binomial(n, 1/2) variable is below k with probability at
most 2.5 % (Conover, Practical Nonparametric Statistics, 3.2). It assumes nothing about the
distribution. Fewer runs can't give that (the extremes of 5 cover the median with 93.75 %), so there
it is Student's t around the mean, which assumes a normal distribution; the method is always said.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

CONFIDENCE = 0.95
FEWEST_FOR_RANKS = 6

_T = (12.7062, 4.3027, 3.1824, 2.7764)  # Student's t, 97.5 %, 1 to 4 degrees of freedom

RANKS, STUDENT, NONE = "order statistics", "student t", "none"


@dataclass(frozen=True)
class Estimate:
    """A metric over seeds. `low`, `high`: the 95 % interval by `method`, None where there is none.

    `values` are in the order of the seeds; a None among them is a run in which it did not happen,
    and is counted in `missing`, not in the median.
    """

    unit: str
    values: tuple[float | None, ...]
    median: float | None
    low: float | None
    high: float | None
    method: str

    @classmethod
    def of(cls, values: Sequence[float | None], unit: str = "") -> Estimate:
        """Estimate from one value a seed."""
        there = sorted(value for value in values if value is not None)
        median = statistics.median(there) if there else None
        low, high, method = _interval(there)
        return cls(unit, tuple(values), median, low, high, method)

    def __str__(self) -> str:
        """Say it as 2.14 [1.66, 3.17] us."""
        if self.median is None:
            return "never"
        between = f" [{self.low:.4g}, {self.high:.4g}]" if self.has_interval else ""
        return f"{self.median:.4g}{between} {self.unit}".rstrip()

    @property
    def n(self) -> int:
        """How many values it is made of."""
        return len(self.values) - self.missing

    @property
    def missing(self) -> int:
        """In how many runs it did not happen."""
        return sum(value is None for value in self.values)

    @property
    def ends(self) -> tuple[float, ...]:
        """The median and the ends of its interval: what a claim about it has to hold for."""
        return tuple(each for each in (self.median, self.low, self.high) if each is not None)

    @property
    def has_interval(self) -> bool:
        """Say whether there were runs enough for one: two."""
        return self.low is not None and self.high is not None

    def over(self, other: Estimate) -> Estimate:
        """Return the ratio to another metric of the same seeds, formed seed by seed.

        A seed gives both runs the same draws (of starts, clocks, ports), so what it does to both
        leaves the ratio, and the interval is of the ratio itself. One in whose run either did not
        happen, or `other` is 0, is missing. Raises ValueError where they have not equally many.
        """
        pairs = zip(self.values, other.values, strict=True)
        return Estimate.of([a / b if a is not None and b else None for a, b in pairs])

    def is_apart_from(self, other: Estimate) -> bool:
        """Say whether the intervals are disjoint; False where one of them has no interval."""
        if self.low is None or self.high is None or other.low is None or other.high is None:
            return False
        return self.high < other.low or other.high < self.low


def median_rank(n: int) -> int:
    """Return k: the 95 % interval of a median of n values goes from the k-th to the k-th last.

    0 where n is too small for any.
    """
    below, k = 0.0, 0
    while (below := below + math.comb(n, k) / 2**n) <= (1 - CONFIDENCE) / 2:
        k += 1
    return k


def _interval(ordered: Sequence[float]) -> tuple[float | None, float | None, str]:
    n = len(ordered)
    if n < 2:
        return None, None, NONE
    if n >= FEWEST_FOR_RANKS:
        k = median_rank(n)
        return ordered[k - 1], ordered[n - k], RANKS
    centre = statistics.fmean(ordered)
    half = _T[n - 2] * statistics.stdev(ordered) / math.sqrt(n)
    return centre - half, centre + half, STUDENT
