"""What a sweep measures of every run: the usual numbers.

Bytes, bits a second, picoseconds and counts, as in docs/results.md; ratios (Jain's index) are 0 to
1. `peak_queue[s1:3]` is the metric of one port. None: the run has no such thing (no message was
done, nothing is notified without a transport).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simulator.flow_times import FlowTimes
from simulator.result_statistics import MILLION, PS_PER_S
from topologies.errors import did_you_mean
from workloads.senders import columns

if TYPE_CHECKING:
    from simulator.runner import Outcome, Simulation

Value = int | float | None
Port = tuple[str, int]

_PORT = re.compile(r"(\w+)\[([^\]:]+):([0-9]+)\]")
_SHOWN_PORTS = 8


class MetricError(Exception):
    """There is no such metric, or no such port; the message lists those available."""


@dataclass(frozen=True)
class Ended:
    """A run that ended: its summary.json, the most that a queue of each switch port held.

    `goodput_bps`: of all flows over the time in which they ran; `flows`: of the flow with the least
    and of the one with the most, each over its own. None: no flow, or no time.
    """

    summary: Mapping[str, Any]
    peaks: Mapping[Port, int]
    goodput_bps: int | None = None
    flows: tuple[int, int] | None = None

    @classmethod
    def of(cls, simulation: Simulation, outcome: Outcome) -> Ended:
        """Read peaks off the switches and flows off the engine: they are exact, not sampled."""
        from simulator.fabric import PRIORITIES  # the engine, which a reader of sweeps does without

        fabric = simulation.fabric
        peaks = {}
        for name, switch in fabric.switches.items():
            core = switch.device.core
            for port in fabric.topology.ports_of(name):
                queues = (core.queue_peak(port.number, queue) for queue in range(PRIORITIES))
                peaks[name, port.number] = max(queue.bytes for queue in queues)
        times = FlowTimes.of(simulation.traffic, outcome.end)
        each = times.each_bps() if outcome.end.now_ps else []
        least_most = (min(each), max(each)) if each else None
        return cls(outcome.summary, peaks, times.goodput_bps(), least_most)


@dataclass(frozen=True)
class Metric:
    """One of the usual numbers. `by_port`: it can be had of one port, too: NAME[s1:3]."""

    name: str
    unit: str  # "B", "b/s", "ps", "packets", "frames", or "" for a plain number
    about: str
    of: Callable[[Ended, Port | None], Value]
    by_port: bool = False


def _goodput(ended: Ended, _: Port | None) -> Value:
    return ended.goodput_bps


def _flow(place: int) -> Callable[[Ended, Port | None], Value]:
    """Return what gives the goodput of the flow with the least (0) or the most (1)."""

    def look(ended: Ended, _: Port | None) -> Value:
        return None if ended.flows is None else ended.flows[place]

    return look


def _run_rate(ended: Ended, _: Port | None) -> Value:
    now_ps = int(ended.summary["end"]["now_ps"])
    delivered = int(ended.summary["flows"]["received_bytes"])
    return delivered * 8 * PS_PER_S // now_ps if now_ps else None


def _in(*path: str) -> Callable[[Ended, Port | None], Value]:
    """Return what looks a number of the summary up; None where it is not there."""

    def look(ended: Ended, _: Port | None) -> Value:
        at: Any = ended.summary
        for key in path:
            at = at.get(key) if isinstance(at, Mapping) else None
        return at if isinstance(at, int) else None

    return look


def _ratio(*path: str) -> Callable[[Ended, Port | None], Value]:
    """Return what looks millionths up in the summary and gives a plain ratio."""
    ppm_of = _in(*path)

    def look(ended: Ended, port: Port | None) -> Value:
        ppm = ppm_of(ended, port)
        return None if ppm is None else ppm / MILLION

    return look


def _peak_queue(ended: Ended, port: Port | None) -> Value:
    if port is None:
        return max(ended.peaks.values(), default=0)
    if port not in ended.peaks:
        there = [f"{node}:{number}" for node, number in ended.peaks]
        name = f"{port[0]}:{port[1]}"
        hint = did_you_mean(name, there) or f"; available: {', '.join(there[:_SHOWN_PORTS])}"
        raise MetricError(f"no switch port {name}{hint}")
    return ended.peaks[port]


_TRANSPORT = "transport"
_MESSAGES = ("messages", "completion_ps")
_IMBALANCE = ("paths", "imbalance_ppm")

METRICS: Mapping[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("goodput", "b/s", "payload that came, over the time in which flows ran", _goodput),
        Metric("least_flow", "b/s", "goodput of the flow that got least", _flow(0)),
        Metric("most_flow", "b/s", "goodput of the flow that got most", _flow(1)),
        Metric("run_rate", "b/s", "payload that came, over the whole run, idle or not", _run_rate),
        Metric("delivered", "B", "payload that came", _in("flows", "received_bytes")),
        Metric(
            "peak_queue", "B", "most that a queue of a switch port held", _peak_queue, by_port=True
        ),
        Metric("marks", "packets", "came with a congestion mark (CE)", _in("flows", "marked")),
        Metric("cnps", "packets", "CNPs that reached senders", _in(_TRANSPORT, "cnps")),
        *(
            Metric(
                each.name,
                "packets",
                f"{each.title} that reached senders",
                _in(_TRANSPORT, each.name),
            )
            for each in columns()
        ),
        Metric("losses", "packets", "lost, wherever and why ever", _in("drops", "packets")),
        Metric("pauses", "frames", "PFC frames sent that say stop", _in("pauses", "xoff_sent")),
        Metric("paused", "ps", "time that queues were paused, in all", _in("pauses", "paused_ps")),
        Metric("done", "messages", "messages that are done", _in("messages", "done")),
        Metric("fct_p50", "ps", "completion of messages, median", _in(*_MESSAGES, "p50")),
        Metric("fct_p90", "ps", "completion of messages, p90", _in(*_MESSAGES, "p90")),
        Metric("fct_p99", "ps", "completion of messages, p99", _in(*_MESSAGES, "p99")),
        Metric("fct_max", "ps", "completion of messages, the slowest", _in(*_MESSAGES, "max")),
        Metric(
            "jain",
            "",
            "Jain's index of the least fair interface, last quarter",
            _ratio("transport", "sharing", "least", "jain_ppm"),
        ),
        Metric(
            "imbalance",
            "",
            "(most - least) / mean of a switch's uplinks in a window, median (record.paths)",
            _ratio(*_IMBALANCE, "p50"),
        ),
        Metric("imbalance_p99", "", "the same, p99", _ratio(*_IMBALANCE, "p99")),
        Metric(
            "reordered",
            "",
            "share of packets that arrived behind a later one (record.paths)",
            _ratio("paths", "reordered_ppm"),
        ),
        Metric("repeated", "packets", "sent again", _in(_TRANSPORT, "repeated_packets")),
        Metric("timeouts", "", "time-outs of senders", _in(_TRANSPORT, "timeouts")),
    )
}


def _parsed(name: str) -> tuple[Metric, Port | None]:
    match = _PORT.fullmatch(name)
    metric = METRICS.get(match.group(1) if match else name)
    if metric is None:
        hint = did_you_mean(name, METRICS) or f"; available: {', '.join(METRICS)}"
        raise MetricError(f"no metric {name!r}{hint}")
    if match is None:
        return metric, None
    if not metric.by_port:
        ports = ", ".join(each.name for each in METRICS.values() if each.by_port)
        raise MetricError(
            f"{metric.name} is a metric of the whole run; available for one port: {ports}"
        )
    return metric, (match.group(2), int(match.group(3)))


def metric_named(name: str) -> Metric:
    """Return a metric, also of one port. Raises MetricError, which lists those available."""
    return _parsed(name)[0]


def measured(ended: Ended, names: Iterable[str]) -> dict[str, Value]:
    """Return these metrics of a run. Raises MetricError."""
    found: dict[str, Value] = {}
    for name in names:
        metric, port = _parsed(name)
        found[name] = metric.of(ended, port)
    return found
