"""What a sweep measures of every run: the usual numbers, from a result folder.

Bytes, bits a second, picoseconds and counts, as in docs/results.md; ratios (Jain's index) are 0 to
1. `peak_queue[s1:3]` is the metric of one port. None: the run has no such thing (no message was
done, nothing is notified without a transport).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simulator.result_statistics import MILLION, PS_PER_S
from topologies.errors import did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa

    from labs.api import Run

Value = int | float | None

_PORT = re.compile(r"(\w+)\[([^\]:]+):([0-9]+)\]")


@dataclass(frozen=True)
class Metric:
    """One of the usual numbers. `by_port`: a part of it can be had for a port, NAME[s1:3]."""

    name: str
    unit: str  # "B", "b/s", "ps", "packets", "frames", or "" for a plain number
    about: str
    of: Callable[[Run], Value]
    by_port: Callable[[Run, str, int], Value] | None = None


class MetricError(Exception):
    """A metric that a run does not have; the message says which there are."""


def _goodput(run: Run) -> Value:
    now_ps = int(run.summary["end"]["now_ps"])
    delivered = int(run.summary["flows"]["received_bytes"])
    return delivered * 8 * PS_PER_S // now_ps if now_ps else None


def _in(*path: str) -> Callable[[Run], Value]:
    """Return what looks a number of the summary up; None where it is not there."""

    def look(run: Run) -> Value:
        at: Any = run.summary
        for key in path:
            at = at.get(key) if isinstance(at, Mapping) else None
        return at if isinstance(at, int) else None

    return look


def _jain(run: Run) -> Value:
    ppm = _in("transport", "sharing", "least", "jain_ppm")(run)
    return None if ppm is None else ppm / MILLION


def _peaks(run: Run) -> dict[tuple[str, int], int]:
    """Return the most bytes that waited at each switch port at an instant, all queues together."""
    ports = run.results.table("ports", ("node", "port"))
    peaks = dict.fromkeys(_rows(ports, "node", "port"), 0)
    samples = run.results.table("queues", ("at_ps", "node", "port", "bytes"))
    names = samples.column("node").cast("string")
    samples = samples.set_column(1, "node", names)
    at_once = _grouped(samples, ("at_ps", "node", "port"), "bytes", "sum")
    for node, port, size in _rows(_grouped(at_once, ("node", "port"), "bytes_sum", "max"),
                                  "node", "port", "bytes_sum_max"):  # fmt: skip
        if (node, port) in peaks:  # a host's own queue is none of a switch
            peaks[node, port] = size
    return peaks


def _grouped(table: pa.Table, keys: Sequence[str], column: str, how: str) -> pa.Table:
    # Runs are played in parallel already.
    return table.group_by(list(keys), use_threads=False).aggregate([(column, how)])


def _rows(table: pa.Table, *columns: str) -> Iterable[tuple[Any, ...]]:
    return zip(*(table.column(name).to_pylist() for name in columns), strict=True)


def _peak_queue(run: Run) -> Value:
    return max(_peaks(run).values(), default=0)


def _peak_queue_of(run: Run, node: str, port: int) -> Value:
    return _of_port(_peaks(run), node, port)


def _packets(run: Run) -> dict[tuple[str, int], int]:
    table = run.results.table("ports", ("node", "port", "max_depth_packets"))
    rows = _rows(table, "node", "port", "max_depth_packets")
    return {(node, port): most or 0 for node, port, most in rows}


def _peak_packets(run: Run) -> Value:
    return max(_packets(run).values(), default=0)


def _peak_packets_of(run: Run, node: str, port: int) -> Value:
    return _of_port(_packets(run), node, port)


def _of_port(values: Mapping[tuple[str, int], int], node: str, port: int) -> int:
    if (node, port) not in values:
        there = sorted({f"{name}:{number}" for name, number in values})
        hint = did_you_mean(f"{node}:{port}", there) or f": there is {', '.join(there[:8])}"
        raise MetricError(f"no switch port {node}:{port}{hint}")
    return values[node, port]


METRICS: Mapping[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("goodput", "b/s", "payload that came, over the time of the run", _goodput),
        Metric("delivered", "B", "payload that came", _in("flows", "received_bytes")),
        Metric(
            "peak_queue", "B", "most that waited at a switch port, as sampled",
            _peak_queue, _peak_queue_of,
        ),
        Metric(
            "peak_queue_packets", "packets", "most that waited at a switch port, exactly",
            _peak_packets, _peak_packets_of,
        ),
        Metric("marks", "packets", "came with a congestion mark (CE)", _in("flows", "marked")),
        Metric("cnps", "packets", "notifications that reached senders", _in("transport", "cnps")),
        Metric("losses", "packets", "lost, wherever and why ever", _in("drops", "packets")),
        Metric("pauses", "frames", "PFC frames sent that say stop", _in("pauses", "xoff_sent")),
        Metric("paused", "ps", "time that queues were paused, in all", _in("pauses", "paused_ps")),
        Metric("done", "messages", "messages that are done", _in("messages", "done")),
        Metric("fct_p50", "ps", "flow completion, median", _in("messages", "completion_ps", "p50")),
        Metric("fct_p90", "ps", "flow completion, p90", _in("messages", "completion_ps", "p90")),
        Metric("fct_p99", "ps", "flow completion, p99", _in("messages", "completion_ps", "p99")),
        Metric("fct_max", "ps", "the slowest", _in("messages", "completion_ps", "max")),
        Metric("jain", "", "Jain's index of the least fair interface, last quarter", _jain),
        Metric(
            "repeated", "packets", "sent again", _in("transport", "repeated_packets")
        ),
        Metric("timeouts", "", "time-outs of senders", _in("transport", "timeouts")),
    )
}  # fmt: skip


def metric_named(name: str) -> Metric:
    """Return a metric, also of one port. Raises MetricError, which lists what there is."""
    match = _PORT.fullmatch(name)
    metric = METRICS.get(match.group(1) if match else name)
    if metric is None:
        hint = did_you_mean(name, METRICS) or f": there is {', '.join(METRICS)}"
        raise MetricError(f"no metric {name!r}{hint}")
    if match and metric.by_port is None:
        ports = [each.name for each in METRICS.values() if each.by_port]
        raise MetricError(f"{metric.name} is of the whole run: by port there is {', '.join(ports)}")
    return metric


def measured(run: Run, names: Iterable[str]) -> dict[str, Value]:
    """Return these metrics of a run that ended. Raises MetricError, ResultError."""
    found: dict[str, Value] = {}
    for name in names:
        metric, match = metric_named(name), _PORT.fullmatch(name)
        if match and metric.by_port:
            found[name] = metric.by_port(run, match.group(2), int(match.group(3)))
        else:
            found[name] = metric.of(run)
    return found
