"""Results of collectives whose messages were made as they were due: counted, and not kept.

Counts, sums, means, first and last times and maxima are exact. Percentiles are of values without
all but their highest eight bits, so up to 1/128 too small.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simulator.core.binding import CollectiveStats, Sum
from simulator.result_model import Records
from simulator.result_statistics import PERCENTS, Integers, spread, total
from workloads.due import DueTraffic
from workloads.model import Span


@dataclass(frozen=True)
class Tally:
    """How often values came, by value in ascending order; the exact sum and the largest."""

    values: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    total: int
    most: int

    @classmethod
    def of_rows(cls, rows: Records, known: Sum) -> Tally:
        """Return a tally of sim_spread_rows."""
        values, counts = (rows[name].astype(np.int64) for name in ("value", "count"))
        return cls(values, counts, known.total, known.most)

    @classmethod
    def joined(cls, parts: Sequence[Tally]) -> Tally:
        """Return several tallies as one."""
        none = np.empty(0, np.int64)
        values = np.concatenate([none, *(part.values for part in parts)])
        counts = np.concatenate([none, *(part.counts for part in parts)])
        distinct, place = np.unique(values, return_inverse=True)
        sums = np.zeros(len(distinct), np.int64)
        np.add.at(sums, place, counts)
        most = max((part.most for part in parts), default=0)
        return cls(distinct, sums, sum(part.total for part in parts), most)


@dataclass(frozen=True)
class DueEnd:
    """What became of a run's collectives that are made as they are due.

    `completion_ps`, `slowdown_ppm`: by collective; `flows`: a sim_flow_messages for each flow.
    """

    stats: Sequence[CollectiveStats]
    completion_ps: Sequence[Tally]
    slowdown_ppm: Sequence[Tally]
    flows: Records


@dataclass(frozen=True)
class DueSum:
    """Some of these collectives together; times in ps, -1 for none."""

    messages: int
    done: int
    bytes: int
    first_ready: int
    last_done: int
    completion_ps: Tally
    slowdown_ppm: Tally


class DueOutcome:
    """What results say of these collectives."""

    def __init__(self, due: DueTraffic, end: DueEnd, spans: Sequence[Span]) -> None:
        self._due = due
        self._end = end
        self._within: dict[int, list[int]] = {}  # collectives by span, and by those around it
        for number, collective in enumerate(due.collectives):
            span = collective.span
            while span >= 0:
                self._within.setdefault(span, []).append(number)
                span = spans[span].parent

    @property
    def flows(self) -> Records:
        """A sim_flow_messages for each flow."""
        return self._end.flows

    def messages(self) -> Integers:
        """Return how many messages each flow has."""
        return self._due.messages(len(self._end.flows))

    def undone_flows(self) -> npt.NDArray[np.bool_]:
        """Return which flows have messages that are not done."""
        return np.asarray(self.messages() > self._end.flows["done"].astype(np.int64))

    def all(self) -> DueSum:
        """Return all of them together."""
        return self._sum(range(len(self._due.collectives)))

    def of_span(self, span: int) -> DueSum | None:
        """Return those within a span; None where there are none."""
        return self._sum(self._within[span]) if span in self._within else None

    def _sum(self, numbers: Iterable[int]) -> DueSum:
        end, chosen = self._end, list(numbers)
        stats = [end.stats[number] for number in chosen]
        patterns = [self._due.collectives[number].placed.pattern for number in chosen]
        return DueSum(
            sum(each.messages for each in stats),
            sum(each.done for each in stats),
            sum(pattern.all_bytes for pattern in patterns),
            min((each.first_ready for each in stats if each.first_ready >= 0), default=-1),
            max((each.last_done for each in stats), default=-1),
            Tally.joined([end.completion_ps[number] for number in chosen]),
            Tally.joined([end.slowdown_ppm[number] for number in chosen]),
        )


def spread_with(values: Integers, tally: Tally | None) -> Mapping[str, int]:
    """Return `spread` of values and of those that were only counted."""
    if tally is None or not len(tally.values):
        return spread(values)
    distinct, place = np.unique(np.concatenate([values, tally.values]), return_inverse=True)
    counts = np.zeros(len(distinct), np.int64)
    np.add.at(counts, place, np.concatenate([np.ones(len(values), np.int64), tally.counts]))
    up_to = np.cumsum(counts)
    count = int(up_to[-1])
    ranks = {percent: max(1, (percent * count + 99) // 100) for percent in PERCENTS}
    places = {percent: int(np.searchsorted(up_to, rank)) for percent, rank in ranks.items()}
    return {
        "count": count,
        "mean": (total(values) + tally.total) // count,
        **{f"p{percent}": int(distinct[place]) for percent, place in places.items()},
        "max": max(int(np.max(values, initial=0)), tally.most),
    }
