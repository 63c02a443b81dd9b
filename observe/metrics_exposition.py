"""Samples as Prometheus metrics, in the text format that Prometheus scrapes.

Names, units (bytes, seconds) and labels follow Prometheus' conventions; a counter's rate is for
the reader to take. Everything is in real time: `weft_time_scale` converts to the fabric's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from mechanisms.registry import all_counters
from observe.flow_hops import HopRow
from observe.samples import FabricSample, PortSample
from topologies import Topology

CONTENT_TYPE = CONTENT_TYPE_LATEST

_NS_PER_S = 1_000_000_000
_PORT = ("switch", "port", "peer")


@dataclass(frozen=True)
class Exposed:
    """What is scraped: a fabric, what runs it, what its switches counted, how long reading took.

    `hops`: of flows whose packets bring records of them.
    """

    run: str
    runtime: str
    topology: Topology
    sample: FabricSample
    read_seconds: float
    hops: Sequence[HopRow] = ()


@dataclass(frozen=True)
class _PortMetric:
    """One metric that every port has, and where its value comes from."""

    name: str
    text: str
    value: Callable[[PortSample], float | None]
    is_counter: bool = True


_PORT_METRICS = (
    _PortMetric("receive_packets", "Packets received by the port.", lambda p: p.rx_packets),
    _PortMetric("receive_bytes", "Bytes received by the port, without FCS.", lambda p: p.rx_bytes),
    _PortMetric("transmit_packets", "Packets sent by the port.", lambda p: p.tx_packets),
    _PortMetric("transmit_bytes", "Bytes sent by the port, without FCS.", lambda p: p.tx_bytes),
    _PortMetric(
        "ecn_marked_packets",
        "Packets that got ECN's congestion mark on leaving the port's queue.",
        lambda p: p.marked_packets,
    ),
    _PortMetric(
        "roce_receive_packets", "RoCEv2 packets received by the port.", lambda p: p.roce_packets
    ),
    _PortMetric("roce_receive_bytes", "Bytes of those RoCEv2 packets.", lambda p: p.roce_bytes),
    _PortMetric(
        "roce_receive_naks",
        "RoCEv2 negative acknowledgements received by the port: a receiver misses packets.",
        lambda p: p.roce_naks,
    ),
    _PortMetric(
        "queue_bytes", "Bytes waiting in the port's queues now.", lambda p: p.queue_bytes, False
    ),
    _PortMetric(
        "queue_packets",
        "Packets waiting in the port's queues now.",
        lambda p: p.queue_packets,
        False,
    ),
    _PortMetric(
        "queue_packets_max",
        "Most packets that ever waited in the port's queues since its switch started.",
        lambda p: p.queue_packets_max,
        False,
    ),
    _PortMetric(
        "queue_limit_bytes",
        "Bytes that each queue of the port holds before it drops; 0 is not limited.",
        lambda p: p.queue_limit_bytes,
        False,
    ),
    _PortMetric(
        "speed_bytes_per_second",
        "Rate of the port's link, in real time; 0 is not limited.",
        lambda p: p.rate_bps / 8,
        False,
    ),
    _PortMetric(
        "up", "Whether the port's link is up.", lambda p: None if p.up is None else int(p.up), False
    ),
)


def exposition(exposed: Exposed | None) -> bytes:
    """Return the text for one scrape; None is for no fabric that is up."""
    registry = CollectorRegistry()
    # A metric that no port has, because the target does not tell it, is left out.
    registry.register(_Once([family for family in _families(exposed) if family.samples]))
    return generate_latest(registry)


class _Once(Collector):
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _families(exposed: Exposed | None) -> Iterator[Metric]:
    up = GaugeMetricFamily("weft_run_up", "Whether a fabric is up.")
    up.add_metric((), int(exposed is not None))
    yield up
    if exposed is None:
        return
    yield from _facts(exposed)
    yield from _switches(exposed.sample)
    peers = {
        (switch.name, port.number): str(port.peer)
        for switch in exposed.topology.switches
        for port in exposed.topology.ports_of(switch.name)
    }
    yield from _ports(exposed.sample, peers)
    yield from _hops(exposed.hops)


def _facts(exposed: Exposed) -> Iterator[Metric]:
    topology = exposed.topology
    yield InfoMetricFamily(
        "weft_run",
        "The run that is up, and what its numbers hold for.",
        {
            "run": exposed.run,
            "topology": topology.name,
            "runtime": exposed.runtime,
            "clock": "real",
            "time_scale": str(topology.time_scale),
        },
    )
    scale = GaugeMetricFamily(
        "weft_time_scale",
        "Real over fabric time: a rate here times this is the rate in the fabric.",
    )
    scale.add_metric((), topology.time_scale)
    yield scale
    took = GaugeMetricFamily(
        "weft_read_duration_seconds", "How long it took to read all switches for this scrape."
    )
    took.add_metric((), exposed.read_seconds)
    yield took


def _switches(sample: FabricSample) -> Iterator[Metric]:
    up = GaugeMetricFamily("weft_switch_up", "Whether the switch could be read.", labels=["switch"])
    dropped = CounterMetricFamily(
        "weft_switch_dropped_packets",
        "Packets that ended inside the switch, by reason; drops at ports are not among them.",
        labels=["switch", "reason"],
    )
    cpu = CounterMetricFamily(
        "weft_switch_packet_loop_cpu_seconds",
        "CPU time of the switch's packet loop.",
        labels=["switch"],
    )
    for name, switch in sample.items():
        up.add_metric((name,), int(not switch.error))
        for reason, count in switch.drops.items():
            dropped.add_metric((name, reason), count)
        if switch.cpu_ns is not None:
            cpu.add_metric((name,), switch.cpu_ns / _NS_PER_S)
    yield from (up, dropped, cpu)


def _ports(sample: FabricSample, peers: Mapping[tuple[str, int], str]) -> Iterator[Metric]:
    ports = [
        ((name, str(number), peers.get((name, number), "")), port)
        for name, switch in sample.items()
        for number, port in switch.ports.items()
    ]
    for metric in _PORT_METRICS:
        kind = CounterMetricFamily if metric.is_counter else GaugeMetricFamily
        family = kind(f"weft_port_{metric.name}", metric.text, labels=_PORT)
        for labels, port in ports:
            value = metric.value(port)
            if value is not None:
                family.add_metric(labels, value)
        yield family
    dropped = CounterMetricFamily(
        "weft_port_dropped_packets",
        "Packets that ended at the port, by reason: its queue was full, it was down, others.",
        labels=[*_PORT, "reason"],
    )
    for labels, port in ports:
        for reason, count in port.drops.items():
            dropped.add_metric((*labels, reason), count)
    yield dropped
    for counter in all_counters():
        family = CounterMetricFamily(
            f"weft_port_{counter.key}", counter.help, labels=[*_PORT, counter.label]
        )
        for labels, port in ports:
            for label, count in port.counters.get(counter.key, {}).items():
                family.add_metric((*labels, label), count)
        yield family


_HOP = ("source", "target", "queue_pair", "hop", "switch", "port")


def _hops(rows: Iterable[HopRow]) -> Iterator[Metric]:
    """Yield what records say: of queues also sums, whose rate by that of packets is the mean."""
    packets = CounterMetricFamily(
        "weft_flow_hop_packets",
        "Packets whose record of this hop has come to the receiver, since the path is this one.",
        labels=_HOP,
    )
    queued = CounterMetricFamily(
        "weft_flow_hop_queue_bytes",
        "Sum, over those packets, of the bytes that waited behind each as it left the queue.",
        labels=_HOP,
    )
    latency = GaugeMetricFamily(
        "weft_flow_hop_latency_seconds",
        "The fabric's time since the last packet had left the queue of the hop before.",
        labels=_HOP,
    )
    for row in rows:
        port = str(row.port) if row.switch else ""
        labels = (row.source, row.target, str(row.queue_pair), str(row.hop), row.switch, port)
        packets.add_metric(labels, row.packets)
        queued.add_metric(labels, row.queue_sum)
        if row.latency_ns is not None:
            latency.add_metric(labels, row.latency_ns / _NS_PER_S)
    yield from (packets, queued, latency)
