"""What switches count, as samples, and the rates between two samples.

Passive: the reader of the switches (`observe.metrics_reader`, a test, the simulator) makes the
samples, and the views (`weft top`, the web page, Prometheus) take the results.
Everything is as it happens on this machine, in real time; `fabric_bps` scales a rate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mechanisms.contract import PortCounter

# Preamble, FCS and gap: what a frame takes of a link's rate beyond what counters see of it.
WIRE_OVERHEAD_BYTES = 24
_NS_PER_S = 1_000_000_000

# DropReason of p4src/include/types.p4, by the index of its counter; FORWARDED is no drop.
DROP_REASONS: Mapping[int, str] = {
    1: "undecided",
    2: "parser_error",
    3: "bad_checksum",
    4: "acl_denied",
    5: "arp_unknown",
    6: "not_our_mac",
    7: "not_for_hosts",
    8: "ttl_expired",
    9: "no_route",
    10: "no_next_hop",
    11: "spoofed",
    12: "bad_notification",
    13: "refused",
}


@dataclass(frozen=True)
class PortSample:
    """Counts of one port since its switch started, and its queue as it is now.

    None is what the target or its program does not tell. `rate_bps`: the link's real rate, 0 for
    not limited. `queue_limit_bytes`: 0 for not limited. `drops`: packets that ended at this port,
    by reason: "queue" was full, port was "down". `counters`: those of mechanisms, by key and label
    (`mechanisms.contract.PortCounter`); those that the program does not have are left out.
    """

    rx_packets: int
    rx_bytes: int
    tx_packets: int
    tx_bytes: int
    rate_bps: int
    marked_packets: int | None = None
    roce_packets: int | None = None
    roce_bytes: int | None = None
    roce_naks: int | None = None
    drops: Mapping[str, int] = field(default_factory=dict)
    queue_packets: int | None = None
    queue_bytes: int | None = None
    queue_packets_max: int | None = None
    queue_limit_bytes: int | None = None
    up: bool | None = None
    counters: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def dropped(self) -> int:
        """Packets that ended at this port, whyever."""
        return sum(self.drops.values())

    def count(self, counter: PortCounter) -> int | None:
        """Return what a mechanism's counter shows; None where the program does not have it."""
        return self.counters.get(counter.key, {}).get(counter.shown)

    def state(self, counters: Iterable[PortCounter]) -> str:
        """Return what the first mechanism that has something to say makes of the port."""
        found = (c.state(self.counters[c.key]) for c in counters if c.key in self.counters)
        return next(filter(None, found), "")


@dataclass(frozen=True)
class SwitchSample:
    """One switch at one moment.

    `at_ns`: the monotonic clock when ports had counted so. `drops`: packets that ended inside, by
    reason; ports' drops are not among them. `cpu_ns`: CPU time of the packet loop. `began_ns`: what
    its machine's clock said when the switch's own began to count; None where that is not known.
    `error`: why nothing was read, empty when it was.
    """

    at_ns: int
    ports: Mapping[int, PortSample] = field(default_factory=dict)
    drops: Mapping[str, int] = field(default_factory=dict)
    cpu_ns: int | None = None
    began_ns: int | None = None
    error: str = ""


FabricSample = Mapping[str, SwitchSample]
"""All switches by name, in the topology's order."""


@dataclass(frozen=True)
class PortRates:
    """One port between two samples, per real second. Loads are of the link's rate: 1.0 is all.

    `counters`: rates of mechanisms' counters, by key and label.
    """

    rx_bps: float = 0.0
    tx_bps: float = 0.0
    rx_pps: float = 0.0
    tx_pps: float = 0.0
    rx_load: float = 0.0
    tx_load: float = 0.0
    drops_ps: float = 0.0
    marks_ps: float = 0.0
    counters: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def per_second(self, counter: PortCounter) -> float:
        """Return how fast what a mechanism's counter shows grows; 0 where there is none."""
        return self.counters.get(counter.key, {}).get(counter.shown, 0.0)

    @property
    def load(self) -> float:
        """The fuller one of both directions."""
        return max(self.rx_load, self.tx_load)


@dataclass(frozen=True)
class SwitchRates:
    """One switch between two samples; `drops_ps` by reason, `cpu` as a share of one core."""

    ports: Mapping[int, PortRates] = field(default_factory=dict)
    drops_ps: Mapping[str, float] = field(default_factory=dict)
    cpu: float | None = None


def fabric_bps(real_bps: float, time_scale: int) -> float:
    """Return a rate as it would be in the real network."""
    return real_bps * time_scale


def rates(before: FabricSample, now: FabricSample) -> dict[str, SwitchRates]:
    """Return the rates between two samples, for switches that both have.

    A count that went down was reset, because its switch or its program was started again: what it
    has counted since then is what is taken.
    """
    return {
        name: _switch_rates(before[name], sample)
        for name, sample in now.items()
        if name in before and not sample.error and not before[name].error
    }


def _switch_rates(before: SwitchSample, now: SwitchSample) -> SwitchRates:
    seconds = (now.at_ns - before.at_ns) / _NS_PER_S
    if seconds <= 0:
        return SwitchRates()
    cpu = None
    if now.cpu_ns is not None and before.cpu_ns is not None:
        cpu = _increase(before.cpu_ns, now.cpu_ns) / _NS_PER_S / seconds
    return SwitchRates(
        ports={
            port: _port_rates(before.ports[port], sample, seconds)
            for port, sample in now.ports.items()
            if port in before.ports
        },
        drops_ps={
            reason: _increase(before.drops.get(reason, 0), count) / seconds
            for reason, count in now.drops.items()
        },
        cpu=cpu,
    )


def _port_rates(before: PortSample, now: PortSample, seconds: float) -> PortRates:
    rx_packets = _increase(before.rx_packets, now.rx_packets)
    tx_packets = _increase(before.tx_packets, now.tx_packets)
    rx_bytes = _increase(before.rx_bytes, now.rx_bytes)
    tx_bytes = _increase(before.tx_bytes, now.tx_bytes)
    drops = sum(_increase(before.drops.get(why, 0), count) for why, count in now.drops.items())
    return PortRates(
        rx_bps=8 * rx_bytes / seconds,
        tx_bps=8 * tx_bytes / seconds,
        rx_pps=rx_packets / seconds,
        tx_pps=tx_packets / seconds,
        rx_load=_load(rx_packets, rx_bytes, now.rate_bps, seconds),
        tx_load=_load(tx_packets, tx_bytes, now.rate_bps, seconds),
        drops_ps=drops / seconds,
        marks_ps=_increase(before.marked_packets or 0, now.marked_packets or 0) / seconds,
        counters={
            key: {
                label: _increase(before.counters.get(key, {}).get(label, 0), count) / seconds
                for label, count in counts.items()
            }
            for key, counts in now.counters.items()
        },
    )


def _load(packets: int, data: int, rate_bps: int, seconds: float) -> float:
    if not rate_bps:
        return 0.0
    return 8 * (data + WIRE_OVERHEAD_BYTES * packets) / seconds / rate_bps


def _increase(before: int, now: int) -> int:
    return now - before if now >= before else now
