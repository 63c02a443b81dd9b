"""Faults of the time scale: what this fabric becomes in real time on one machine.

Numbers are for a laptop of two cores as `make bench` measures one; the simulator (time_scale 1,
virtual time) has none of these limits.
"""

from __future__ import annotations

from collections.abc import Iterator

from topologies.errors import FieldPath
from topologies.lint.findings import Remark, Severity
from topologies.loader import Source
from topologies.model import Topology
from topologies.reach import Reach
from topologies.tickers import LEAST_REAL_PS, scale_for
from topologies.units import format_duration

# A switch process takes about 2.5 us of CPU time a packet (`make bench`): this is one core of it.
LAPTOP_PACKETS_PER_S = 400_000
MAX_NODES = 512  # as namespaces and processes on one machine
# Timers are 50 to 100 us late at the median, and milliseconds late at the worst.
TIMER_NS = 100_000
WORST_TIMER_NS = 1_000_000
SLOW_DELAY_NS = 5 * 10**9
WIRE_OVERHEAD_BYTES = 38  # Ethernet header, preamble, FCS, gap
NS_PER_S = 10**9

PATH: FieldPath = ("time_scale",)


def scale_faults(source: Source) -> Iterator[Remark]:
    """Yield what is too much, too fast or too slow for a run on one machine."""
    topology = source.topology
    if not topology.links:
        return
    subject = f"time_scale {topology.time_scale}"
    nodes = len(topology.hosts) + len(topology.switches)
    if nodes > MAX_NODES:
        message = f"{nodes} nodes; as namespaces on one machine there is room for {MAX_NODES}"
        yield Remark(Severity.INFO, PATH, topology.name, message, "run it in the simulator")
        return
    yield from _load(topology, subject)
    yield from _timers(topology, subject)
    yield from _tickers(topology, subject)


def _load(topology: Topology, subject: str) -> Iterator[Remark]:
    packet_bits = 8 * (1500 + WIRE_OVERHEAD_BYTES)
    hosts_bps = sum(
        topology.real_rate_bps(topology.link_at(part.host, part.number))
        for part in topology.interfaces()
    )
    packets = hosts_bps / packet_bits * _mean_switches(topology)
    if packets > LAPTOP_PACKETS_PER_S:
        needed = -(-topology.time_scale * int(packets) // LAPTOP_PACKETS_PER_S)
        message = (
            f"with all hosts at line rate ({hosts_bps / 1e6:.0f} Mb/s) switches forward "
            f"{packets / 1000:.0f} 000 full packets a second; a laptop carries about "
            f"{LAPTOP_PACKETS_PER_S // 1000} 000"
        )
        right = f"time_scale: {_round_up(needed)} would fit, or run it in the simulator"
        yield Remark(Severity.WARNING, PATH, subject, message, right)


def _mean_switches(topology: Topology) -> float:
    """Return how many switches a packet passes on average, from the first host to all others."""
    if not topology.hosts:
        return 0.0
    first = topology.hosts[0].interfaces[0]
    distance = Reach(topology).distances(first.switch)
    hops = [
        1 + distance[part.switch]
        for part in topology.interfaces()
        if part.host != first.host and part.switch in distance
    ]
    return sum(hops) / len(hops) if hops else 0.0


def _round_up(value: int) -> int:
    """Return the next number with one digit that isn't zero: 12345 -> 20000."""
    digit = int("1" + "0" * (len(str(value)) - 1))
    return -(-value // digit) * digit


def _timers(topology: Topology, subject: str) -> Iterator[Remark]:
    link = max(topology.links, key=lambda each: each.rate_bps)
    bits = 8 * (link.mtu_bytes + WIRE_OVERHEAD_BYTES)
    packet_ns = bits * NS_PER_S // topology.real_rate_bps(link)
    if packet_ns < WORST_TIMER_NS:
        is_fine = packet_ns < TIMER_NS
        lateness = "at the median" if is_fine else "at the worst"
        message = (
            f"a full packet on the fastest link takes {packet_ns / 1e6:.2g} ms of real time, and "
            f"timers are later than that {lateness}: what is shown of single packets is rough"
        )
        needed = -(-topology.time_scale * (TIMER_NS if is_fine else WORST_TIMER_NS) // packet_ns)
        right = f"time_scale: {_round_up(needed)} or more would be finer"
        severity = Severity.WARNING if is_fine else Severity.INFO
        yield Remark(severity, PATH, subject, message, right)
    slow = max(topology.links, key=lambda each: each.delay_ps)
    delay_ns = topology.real_delay_ns(slow)
    if delay_ns > SLOW_DELAY_NS:
        message = (
            f"the link {slow.a}-{slow.b} delays by {delay_ns / NS_PER_S:.3g} s of real time: "
            "a round trip takes longer than programs wait"
        )
        right = "a smaller time_scale, a shorter link, or the simulator"
        yield Remark(Severity.WARNING, PATH, subject, message, right)


def _tickers(topology: Topology, subject: str) -> Iterator[Remark]:
    """Yield tickers that are too fast for processes."""
    for number, rule in enumerate(topology.tickers):
        real_ps = rule.ticker.period_ps * topology.time_scale
        if real_ps < LEAST_REAL_PS:
            message = (
                f"ticks every {format_duration(real_ps)} of real time; one machine keeps "
                f"{format_duration(LEAST_REAL_PS)} and more, and refuses others"
            )
            right = f"time_scale: {scale_for(rule.ticker.period_ps)} would do, or the simulator"
            yield Remark(Severity.WARNING, ("tickers", number, "period"), subject, message, right)
