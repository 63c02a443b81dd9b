"""What figures are drawn from: the largest series of a result, on an even grid of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from simulator.result_reader import ResultFolder

MOST_POINTS = 300  # more are no line any more
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Grid:
    """Even intervals of time: `count` of them, `step_ps` long, of `samples` samples each."""

    count: int
    step_ps: int
    samples: int

    @classmethod
    def of(cls, folder: ResultFolder, points: int = MOST_POINTS) -> Grid:
        """Return a grid over the whole run with at most so many points."""
        sample_ps = max(1, folder.sample_ps)
        samples = max(1, -(-folder.now_ps // sample_ps) + 1)
        each = -(-samples // points)
        return cls(-(-samples // each), sample_ps * each, each)

    @property
    def times_ps(self) -> Numbers:
        """When each interval starts."""
        return np.arange(self.count, dtype=np.float64) * np.float64(self.step_ps)

    def index(self, at_ps: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Return which interval each time is in."""
        found: npt.NDArray[np.int64] = np.clip(at_ps // self.step_ps, 0, self.count - 1)
        return found

    def most(self, at_ps: npt.NDArray[Any], values: npt.NDArray[Any]) -> Numbers:
        """Return the largest value of each interval; 0 where there is none."""
        found = np.zeros(self.count)
        np.maximum.at(found, self.index(at_ps), values.astype(float))
        return found

    def mean(self, at_ps: npt.NDArray[Any], values: npt.NDArray[Any]) -> Numbers:
        """Return the mean of each interval's samples; those that are not there are 0.

        A sample is about the time before it.
        """
        sums = np.bincount(self.index(at_ps - 1), values.astype(float), self.count)
        return np.asarray(sums / self.samples)

    def there(self, at_ps: npt.NDArray[Any], values: npt.NDArray[Any]) -> Numbers:
        """Return the mean of those samples that each interval has; NaN where it has none."""
        place = self.index(at_ps - 1)
        sums = np.bincount(place, values.astype(float), self.count)
        counts = np.bincount(place, minlength=self.count)
        return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


@dataclass(frozen=True)
class Series:
    """One line of a figure."""

    label: str
    values: Numbers


def largest(
    folder: ResultFolder, name: str, keys: Sequence[str], value: str, how: str, count: int
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


def queue_series(folder: ResultFolder, grid: Grid, count: int) -> list[Series]:
    """Return the bytes queued in the queues that were longest, longest first."""
    keys = ("node", "port", "queue")
    found = []
    for key in largest(folder, "queues", keys, "bytes", "max", count):
        at_ps, size = columns_of(folder, "queues", keys, key, "at_ps", "bytes")
        found.append(Series(f"{key[0]}:{key[1]} queue {key[2]}", grid.most(at_ps, size)))
    return found


def link_series(folder: ResultFolder, grid: Grid, count: int) -> list[Series]:
    """Return the use, in percent, of the directions of links that carried most."""
    keys = ("from", "to")
    found = []
    for key in largest(folder, "links", keys, "used_ppm", "sum", count):
        at_ps, used = columns_of(folder, "links", keys, key, "at_ps", "used_ppm")
        found.append(Series(f"{key[0]} to {key[1]}", grid.mean(at_ps, used) / 10**4))
    return found


def link_map(folder: ResultFolder, grid: Grid) -> Numbers:
    """Return the use, in percent, of every direction of a link that was used: links x time.

    The busiest is first.
    """
    table = folder.table("links", ["at_ps", "link", "from", "to", "used_ppm"])
    ends = table["from"].dictionary_encode().unify_dictionaries().combine_chunks()
    start = ends.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    pair = table["link"].to_numpy() * (int(start.max(initial=0)) + 1) + start
    _, row = np.unique(pair, return_inverse=True)
    rows = int(row.max(initial=-1)) + 1
    used = table["used_ppm"].fill_null(0).to_numpy().astype(float)
    cell = row * grid.count + grid.index(table["at_ps"].to_numpy() - 1)
    sums = np.bincount(cell, used, rows * grid.count).reshape(rows, grid.count)
    order = np.argsort(-sums.sum(axis=1), kind="stable")
    return np.asarray(sums[order] / grid.samples / 10**4)


@dataclass(frozen=True)
class Rates:
    """What a flow got and what congestion control let it send, in Gb/s of payload and of frames.

    `allowed` is the line's rate while congestion control does not limit, NaN where nothing came.
    """

    label: str
    goodput: Numbers
    allowed: Numbers


def rate_series(folder: ResultFolder, grid: Grid, count: int) -> list[Rates]:
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
    found = []
    keys = largest(folder, "flow_rates", ("flow",), "bytes", "sum", len(flows))
    for flow in sorted([flow for (flow,) in keys if flow in of_flow][:count]):
        columns = ("at_ps", "bytes", "cc_rate_bps")
        at_ps, size, rate = columns_of(folder, "flow_rates", ("flow",), (flow,), *columns)
        row = of_flow[flow]
        goodput = grid.mean(at_ps, size) * 8 * 1000 / max(1, folder.sample_ps)
        goodput[grid.times_ps >= folder.now_ps] = np.nan  # the grid ends behind the run
        allowed = np.where(rate > 0, rate, limited[row["transport"]])
        found.append(
            Rates(
                f"{row['src']} to {row['dst']} (flow {flow})",
                goodput,
                grid.there(at_ps, allowed) / 10**9,
            )
        )
    return found


def flow_series(folder: ResultFolder, grid: Grid, count: int) -> list[Series]:
    """Return the rate, in Gb/s of payload, of the flows that carried most."""
    names = folder.table("flows", ["flow", "src", "dst"])
    ends = dict(
        zip(
            names["flow"].to_pylist(),
            zip(names["src"].to_pylist(), names["dst"].to_pylist(), strict=True),
            strict=True,
        )
    )
    found = []
    for (flow,) in largest(folder, "flow_rates", ("flow",), "bytes", "sum", count):
        at_ps, size = columns_of(folder, "flow_rates", ("flow",), (flow,), "at_ps", "bytes")
        rate = grid.mean(at_ps, size) * 8 * 1000 / max(1, folder.sample_ps)
        src, dst = ends[flow]
        found.append(Series(f"{src} to {dst} (flow {flow})", rate))
    return found
