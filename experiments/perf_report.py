"""What was measured, as numbers: bandwidth and latency as perftest counts them, Jain's index.

Bandwidth: bits of messages (no headers) a second, 1 Gb = 10^9 bits. The average is over the time
from the first message's posting to the last one's completion; the peak is that of the best run of
messages, from the posting of its first to the completion of its last. Latency: half the round
trip of SEND and WRITE, posting to completion of READ. Percentiles are nearest ranks; unlike
perftest no message is left out (it drops the two slowest).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.perf_planes import PlaneShare

Times = npt.NDArray[np.int64]

_PS_PER_S = 10**12
_PS_PER_US = 10**6
MOST_FOR_PEAK = 20_000
"""Messages for which a peak is looked for; perftest has the same limit."""


@dataclass(frozen=True)
class Bandwidth:
    """Messages that were completed and what that makes; times in ps of the run's clock."""

    iterations: int
    bytes: int
    elapsed_ps: int
    peak_bps: float | None

    @property
    def average_bps(self) -> float:
        """Bits of messages a second."""
        return 8 * self.bytes * _PS_PER_S / self.elapsed_ps if self.elapsed_ps > 0 else 0.0

    @property
    def messages_per_s(self) -> float:
        """Messages a second."""
        return self.iterations * _PS_PER_S / self.elapsed_ps if self.elapsed_ps > 0 else 0.0


@dataclass(frozen=True)
class Latency:
    """Times of single messages, in ps; `typical_ps` is the median."""

    iterations: int
    minimum_ps: float
    maximum_ps: float
    typical_ps: float
    average_ps: float
    deviation_ps: float
    p99_ps: float
    p999_ps: float


@dataclass(frozen=True)
class Row:
    """What one source measured, in one mode at one size. `counts`: its transport's.

    `planes`: what each carried, of queue pairs over planes.
    """

    source: str
    target: str
    result: Bandwidth | Latency | None
    failures: tuple[str, ...] = ()
    counts: dict[str, Any] = field(default_factory=dict)
    planes: tuple[PlaneShare, ...] = ()


@dataclass(frozen=True)
class Measurement:
    """All sources at once, in one mode at one size."""

    mode: str
    size: int
    rows: tuple[Row, ...]
    interrupted: bool = False

    @property
    def total(self) -> Bandwidth | None:
        """All sources together: the sum of their bandwidths; None with one or for latency."""
        results = [row.result for row in self.rows if isinstance(row.result, Bandwidth)]
        if len(results) < 2:
            return None
        bits = sum(result.bytes for result in results)
        rate = sum(result.average_bps for result in results)
        peaks = [result.peak_bps for result in results]
        return Bandwidth(
            sum(result.iterations for result in results),
            bits,
            round(8 * bits * _PS_PER_S / rate) if rate else 0,
            None if None in peaks else sum(peak or 0.0 for peak in peaks),
        )

    @property
    def jain(self) -> float | None:
        """How evenly the sources share, None with one."""
        rates = [row.result.average_bps for row in self.rows if isinstance(row.result, Bandwidth)]
        return jain(rates) if len(rates) > 1 else None

    @property
    def failures(self) -> list[str]:
        """Everything that failed, in words."""
        return [failure for row in self.rows for failure in row.failures]


@dataclass(frozen=True)
class Report:
    """Everything that one call measured. `clock`: "virtual" or "real"; `io` is per source."""

    topology: str
    runtime: str
    clock: str
    time_scale: int
    parameters: dict[str, Any]
    measurements: tuple[Measurement, ...]
    notes: tuple[str, ...] = ()
    interrupted: bool = False

    @property
    def ok(self) -> bool:
        """Whether all was measured and nothing failed."""
        failed = any(measurement.failures for measurement in self.measurements)
        return not failed and not self.interrupted and bool(self.measurements)


def jain(rates: Sequence[float]) -> float:
    """Return Jain's fairness index of rates: 1 if all are equal, 1/n if one has everything."""
    squares = sum(rate * rate for rate in rates)
    return sum(rates) ** 2 / (len(rates) * squares) if squares else 1.0


def latency(times_ps: Times) -> Latency | None:
    """Return the figures of single times, None if there are none."""
    if not len(times_ps):
        return None
    times = np.sort(times_ps)
    return Latency(
        len(times),
        float(times[0]),
        float(times[-1]),
        float(np.median(times)),
        float(times.mean()),
        float(times.std()),
        float(percentile(times, 0.99)),
        float(percentile(times, 0.999)),
    )


def percentile(ordered: Times, share: float) -> int:
    """Return the smallest of sorted numbers that at least `share` of them do not exceed."""
    return int(ordered[max(1, math.ceil(round(share * len(ordered), 9))) - 1])


def bandwidth(posted_ps: Times, done_ps: Times, size: int) -> Bandwidth | None:
    """Return the figures of messages of `size` bytes by their times, None if there are none."""
    if not len(done_ps):
        return None
    posted, done = np.sort(posted_ps), np.sort(done_ps)
    elapsed = int(done[-1] - posted[0])
    return Bandwidth(len(done), size * len(done), elapsed, peak_bps(posted, done, size))


def peak_bps(posted_ps: Times, done_ps: Times, size: int) -> float | None:
    """Return the best bits a second of any run of messages; sorted times. None: too many."""
    count = len(done_ps)
    if count > MOST_FOR_PEAK:
        return None
    numbers = np.arange(1, count + 1, dtype=np.float64)
    best = 0.0
    for first in range(count):
        spans = done_ps[first:] - posted_ps[first]
        good = spans > 0
        if good.any():
            best = max(best, float((numbers[: count - first][good] / spans[good]).max()))
    return 8 * size * best * _PS_PER_S


# --- as JSON -------------------------------------------------------------------------------------


def as_json(report: Report) -> dict[str, Any]:
    """Return a report as JSON has it; rates and times of the clock, and in fabric time."""
    scale = report.time_scale
    return {
        "topology": report.topology,
        "runtime": report.runtime,
        "clock": report.clock,
        "time_scale": scale,
        "parameters": report.parameters,
        "measurements": [_measurement_json(each, scale) for each in report.measurements],
        "notes": list(report.notes),
        "interrupted": report.interrupted,
        "ok": report.ok,
    }


def _measurement_json(measurement: Measurement, scale: int) -> dict[str, Any]:
    total = measurement.total
    return {
        "mode": measurement.mode,
        "size": measurement.size,
        "rows": [
            {
                "source": row.source,
                "target": row.target,
                **result_json(row.result, scale),
                "transport": row.counts,
                **({"planes": [asdict(each) for each in row.planes]} if row.planes else {}),
                "failures": list(row.failures),
            }
            for row in measurement.rows
        ],
        "total": None if total is None else result_json(total, scale),
        "jain": measurement.jain,
        "interrupted": measurement.interrupted,
    }


def result_json(result: Bandwidth | Latency | None, scale: int) -> dict[str, Any]:
    """Return a result's figures; those below `fabric` are in fabric time."""
    if result is None:
        return {"iterations": 0}
    here, fabric = _figures(result, 1), _figures(result, scale)
    return {"iterations": result.iterations, **here, "fabric": fabric}


def _figures(result: Bandwidth | Latency, scale: int) -> dict[str, Any]:
    if isinstance(result, Bandwidth):
        peak = result.peak_bps
        return {
            "bytes": result.bytes,
            "elapsed_s": result.elapsed_ps / scale / _PS_PER_S,
            "bw_peak_gbps": None if peak is None else peak * scale / 1e9,
            "bw_average_gbps": result.average_bps * scale / 1e9,
            "msg_rate_mpps": result.messages_per_s * scale / 1e6,
        }
    names = ("minimum", "maximum", "typical", "average", "deviation", "p99", "p999")
    columns = ("t_min", "t_max", "t_typical", "t_avg", "t_stdev", "t_p99", "t_p999")
    return {
        f"{column}_usec": getattr(result, f"{name}_ps") / scale / _PS_PER_US
        for column, name in zip(columns, names, strict=True)
    }
