"""What figures are drawn from: the largest series of a result, on an even grid of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.figures.axes import span_ps
from experiments.figures.choice import EVERYTHING, Choice
from simulator.result_reader import ResultFolder
from topologies.model import Endpoint

MOST_POINTS = 300  # more are no line any more
FEW_POINTS = 100
"""Of rates: more show single packets, and lines that cover each other."""
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Grid:
    """Even intervals of time from `start_ps` on: `count` of them, `step_ps` long.

    The last one may be shorter: it ends at `stop_ps`. `step_ps` is a multiple of `sample_ps`.
    """

    count: int
    step_ps: int
    sample_ps: int
    start_ps: int
    stop_ps: int

    @classmethod
    def of(
        cls, folder: ResultFolder, points: int = MOST_POINTS, choice: Choice = EVERYTHING
    ) -> Grid:
        """Return a grid over the time that is drawn, with at most so many points."""
        return cls.over(span_ps(folder, choice), folder.sample_ps, points)

    @classmethod
    def over(cls, span: tuple[int, int], sample_ps: int, points: int = MOST_POINTS) -> Grid:
        """Return a grid over a span of time; it begins at a sample."""
        sample_ps = max(1, sample_ps)
        start = span[0] // sample_ps * sample_ps
        samples = max(1, -(-(span[1] - start) // sample_ps))
        each = -(-samples // points)
        return cls(-(-samples // each), sample_ps * each, sample_ps, start, span[1])

    @property
    def times_ps(self) -> Numbers:
        """When each interval starts."""
        steps = np.arange(self.count, dtype=np.float64)
        return np.float64(self.start_ps) + steps * np.float64(self.step_ps)

    @property
    def edges_ps(self) -> Numbers:
        """When each interval starts, and when the last one ends."""
        return np.append(self.times_ps, np.float64(self.stop_ps))

    @property
    def lengths_ps(self) -> Numbers:
        """How long each interval is; samples that begin in it count to their ends."""
        return np.asarray(np.diff(self.edges_ps))

    def index(self, at_ps: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Return which interval each time is in; -1 and `count` are before and behind all."""
        place = (at_ps - self.start_ps) // self.step_ps
        found: npt.NDArray[np.int64] = np.clip(place, -1, self.count).astype(np.int64)
        return found

    def most(self, at_ps: npt.NDArray[Any], values: npt.NDArray[Any]) -> Numbers:
        """Return the largest value of each interval; 0 where there is none."""
        place = self.index(at_ps)
        place[at_ps == self.stop_ps] = self.count - 1
        here = (place >= 0) & (place < self.count)
        found = np.zeros(self.count)
        np.maximum.at(found, place[here], values[here].astype(float))
        return found

    def sums(self, at_ps: npt.NDArray[Any], values: npt.NDArray[Any]) -> Numbers:
        """Return the sum of each interval's samples. A sample is about the time before it."""
        place = self.index(at_ps - 1)
        here = (place >= 0) & (place < self.count)
        return np.asarray(np.bincount(place[here], values[here].astype(float), self.count))

    def mean(self, at_ps: npt.NDArray[Any], values: npt.NDArray[Any]) -> Numbers:
        """Return the mean over each interval's time of values that hold for a sample's.

        Samples that are not there are 0.
        """
        return np.asarray(self.sums(at_ps, values) * self.sample_ps / self.lengths_ps)

    def rate(self, at_ps: npt.NDArray[Any], size: npt.NDArray[Any]) -> Numbers:
        """Return the rate, in Gb/s, of bytes that samples count."""
        return np.asarray(self.sums(at_ps, size) * 8 * 1000 / self.lengths_ps)

    def there(self, at_ps: npt.NDArray[Any], values: npt.NDArray[Any]) -> Numbers:
        """Return the mean of those samples that each interval has; NaN where it has none."""
        sums = self.sums(at_ps, values)
        counts = self.sums(at_ps, np.ones(len(at_ps)))
        return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


@dataclass(frozen=True)
class Series:
    """One line of a figure."""

    label: str
    values: Numbers


def largest(
    folder: ResultFolder, name: str, keys: Sequence[str], value: str, how: str, count: int | None
) -> list[tuple[Any, ...]]:
    """Return the keys of a table's `count` largest groups, by `how` ("max", "sum") of `value`.

    Groups without anything above 0 are none. Equal ones are in order of their keys.
    """
    table = folder.table(name, [*keys, value])
    groups = table.group_by(list(keys)).aggregate([(value, how)]).to_pylist()
    found = [
        (-group[f"{value}_{how}"], tuple(group[key] for key in keys))
        for group in groups
        if group[f"{value}_{how}"]
    ]
    return [key for _, key in sorted(found)[:count]]


def columns_of(
    folder: ResultFolder, name: str, keys: Sequence[str], key: Sequence[Any], *values: str
) -> list[npt.NDArray[Any]]:
    """Return columns of the rows that have this key, as arrays; nulls are 0."""
    filters = [(column, "=", wanted) for column, wanted in zip(keys, key, strict=True)]
    table = folder.table(name, [*keys, *values], filters)
    return [table[column].fill_null(0).to_numpy() for column in values]


def queue_series(
    folder: ResultFolder, grid: Grid, count: int, choice: Choice = EVERYTHING
) -> list[Series]:
    """Return the bytes queued in the queues that were longest, longest first."""
    keys = ("node", "port", "queue")
    ports = choice.endpoints(folder)
    found = []
    for key in largest(folder, "queues", keys, "bytes", "max", None if ports else count):
        if ports and str(Endpoint(key[0], key[1])) not in ports:
            continue
        at_ps, size = columns_of(folder, "queues", keys, key, "at_ps", "bytes")
        found.append(Series(f"{key[0]}:{key[1]} queue {key[2]}", grid.most(at_ps, size)))
    return found[:count]


def link_series(
    folder: ResultFolder, grid: Grid, count: int, choice: Choice = EVERYTHING
) -> list[Series]:
    """Return the use, in percent, of the directions of links that carried most.

    Ports that are chosen are where a direction begins.
    """
    keys = ("from", "to")
    ports = choice.endpoints(folder)
    found = []
    for key in largest(folder, "links", keys, "used_ppm", "sum", None if ports else count):
        if ports and key[0] not in ports:
            continue
        at_ps, used = columns_of(folder, "links", keys, key, "at_ps", "used_ppm")
        found.append(Series(f"{key[0]} to {key[1]}", grid.mean(at_ps, used) / 10**4))
    return found[:count]


def link_map(
    folder: ResultFolder, grid: Grid, choice: Choice = EVERYTHING
) -> tuple[list[str], Numbers]:
    """Return directions of links that were used, and their use in percent: links x time.

    The busiest is first.
    """
    table = folder.table("links", ["at_ps", "from", "to", "used_ppm"])
    starts, ends = (
        table[name].dictionary_encode().unify_dictionaries().combine_chunks()
        for name in ("from", "to")
    )
    first, second = (
        each.indices.to_numpy(zero_copy_only=False).astype(np.int64) for each in (starts, ends)
    )
    pairs, row = np.unique(first * (len(ends.dictionary) + 1) + second, return_inverse=True)
    place = grid.index(table["at_ps"].to_numpy() - 1)
    here = (place >= 0) & (place < grid.count)
    used = table["used_ppm"].fill_null(0).to_numpy().astype(float)
    cell = row[here] * grid.count + place[here]
    sums = np.bincount(cell, used[here], len(pairs) * grid.count).reshape(len(pairs), grid.count)
    names = [
        (starts.dictionary[pair // (len(ends.dictionary) + 1)].as_py(),
         ends.dictionary[pair % (len(ends.dictionary) + 1)].as_py())
        for pair in pairs.tolist()
    ]  # fmt: skip
    ports = choice.endpoints(folder)
    order = [
        number
        for number in np.argsort(-sums.sum(axis=1), kind="stable").tolist()
        if not ports or names[number][0] in ports
    ]
    shares = np.asarray(sums[order] * grid.sample_ps / grid.lengths_ps / 10**4)
    return [" to ".join(names[number]) for number in order], shares


@dataclass(frozen=True)
class Rates:
    """What a flow got and what congestion control let it send, in Gb/s of payload and of frames.

    `allowed` is the line's rate while congestion control does not limit, NaN where nothing came.
    """

    label: str
    goodput: Numbers
    allowed: Numbers


def rate_series(
    folder: ResultFolder, grid: Grid, count: int, choice: Choice = EVERYTHING
) -> list[Rates]:
    """Return the flows with congestion control that carried most, in order of their numbers."""
    limited = {
        number: each["line_rate_bps"]
        for number, each in enumerate(folder.summary.get("transports", ()))
        if each["congestion_control"] != "none"
    }
    if not limited:
        return []
    flows = folder.table("flows", ["flow", "src", "dst", "transport"]).to_pylist()
    of_flow = {row["flow"]: row for row in flows if row["transport"] in limited}
    chosen = choice.flow_numbers(folder)
    if chosen is not None:
        of_flow = {flow: row for flow, row in of_flow.items() if flow in chosen}
    found = []
    keys = largest(folder, "flow_rates", ("flow",), "bytes", "sum", len(flows))
    for flow in sorted([flow for (flow,) in keys if flow in of_flow][:count]):
        columns = ("at_ps", "bytes", "cc_rate_bps")
        at_ps, size, rate = columns_of(folder, "flow_rates", ("flow",), (flow,), *columns)
        row = of_flow[flow]
        allowed = np.where(rate > 0, rate, limited[row["transport"]])
        label = f"{row['src']} to {row['dst']} (flow {flow})"
        found.append(Rates(label, grid.rate(at_ps, size), grid.there(at_ps, allowed) / 10**9))
    return found


@dataclass(frozen=True)
class FlowRates:
    """Goodput of flows in Gb/s: flows x time, largest flows first.

    `values` are NaN before a flow's first sample and after its last; `bytes`: of each, in all.
    """

    labels: list[str]
    bytes: npt.NDArray[np.int64]
    values: Numbers


def flow_rates(folder: ResultFolder, grid: Grid, choice: Choice = EVERYTHING) -> FlowRates:
    """Return what each flow that received something in this time got."""
    names = {
        row["flow"]: f"{row['src']} to {row['dst']} (flow {row['flow']})"
        for row in folder.table("flows", ["flow", "src", "dst"]).to_pylist()
    }
    table = folder.table("flow_rates", ["at_ps", "flow", "bytes"])
    at_ps, flow, size = (table[name].fill_null(0).to_numpy() for name in table.column_names)
    place = grid.index(at_ps - 1)
    here = (place >= 0) & (place < grid.count) & (size > 0)
    chosen = choice.flow_numbers(folder)
    if chosen is not None:
        here &= np.isin(flow, chosen)
    numbers, row = np.unique(flow[here], return_inverse=True)
    cell = row * grid.count + place[here]
    shape = len(numbers), grid.count
    sums = np.bincount(cell, size[here].astype(float), shape[0] * shape[1]).reshape(shape)
    had = sums > 0
    between = (
        np.maximum.accumulate(had, axis=1) & (np.maximum.accumulate(had[:, ::-1], axis=1)[:, ::-1])
    )
    values = np.where(between, sums * 8 * 1000 / grid.lengths_ps, np.nan)
    total = sums.sum(axis=1).astype(np.int64)
    order = np.lexsort((numbers, -total))
    labels = [names[number] for number in numbers[order].tolist()]
    return FlowRates(labels, total[order], values[order])
