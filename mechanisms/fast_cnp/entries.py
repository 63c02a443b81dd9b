"""What switches hold so that they tell sources of long queues (p4src/modules/fast_cnp.p4).

Everything follows from the control loop: the time from a switch to a source and back.

    low threshold    what a port sends in one loop: less, and the line may run dry after a cut
    high threshold   four times that; above it the queue has to drain
                     (both at most where ECN would begin to mark, and mark all: after these, sources
                     would hear of the queue from the receiver anyway)
    interval         half a loop; a notification stands for a loop (rounded up to 2^n units)
    growth           measured over what the port sends of a sixteenth of the low threshold, at least
                     eight packets, so that it is known when the queue crosses the threshold;
                     forgotten where no packet came for eight times as long

Severity is a table: how far all senders together are above the queue's own rate says what part of
its rate each has to give up. Where loops are long, thresholds are held to a share of the queue.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from controller.entries import (
    CloneSession,
    DefaultEntry,
    Entry,
    Exact,
    Range,
    TableEntry,
    call,
    match,
)
from controller.leaf_routes import PS_PER_S, Ways, packet_ps
from controller.parts import FabricView, View
from controller.policy import FabricPolicy
from controller.target_facts import MAX_DEPTH, TargetFacts
from mechanisms.fast_cnp.loops import longest_behind, loop_ps
from mechanisms.fast_cnp.parameters import VALIDITY_UNIT_NS, FastCnp
from mechanisms.fast_cnp.stock_queue_pairs import PORT_TABLE, sampling_entries
from topologies.ecn import EcnThresholds
from topologies.model import (
    CNP_DSCP,
    PS_PER_NS,
    Endpoint,
    Interface,
    Link,
    Port,
    Role,
    Switch,
    Topology,
)

SESSION = 510
RECIRCULATION_PORT = 510
"""As p4src/modules/fast_cnp/make_cnp.p4 and p4src/include/constants.p4 have them."""

FAR = "far"
"""The key of what a border keeps in mind, among the ports of a summary."""

NAME = KEY = "fast_cnp"
"""The mechanism, and its key in a class."""

MODE_TABLE = "fast_cnp_mode"
STAND_STILL = call("disable_fast_cnp")

FIRST_FAR_QUEUE = 512
LAST_FAR_QUEUE = 1023
GROWTH_ZERO = 128
GROWTH_UNIT = 64  # as much again as the queue drains
GROWTH_MAX = (1 << 16) - 1
SEVERITIES = 16
DRAIN = 8  # above the high threshold the queue has to drain by 1/8 of its rate
IDLE_WINDOWS = 8
SMOOTHING = 2  # the average moves by a quarter of the distance, a packet
CNP_WIRE_BITS = 98 * 8
BURST = 128  # CNPs
MAX_VALIDITY = 15
LOW_SHARE = 16  # of a port's queue that the low threshold takes at most
HIGH_SHARE = 4
GATEWAY_DRAIN_PPM = 980_000  # a gateway's idea of the far port is a little slower than the port
ONE_Q16 = 1 << 16
_ANY_END = Endpoint("", 0)


@dataclass(frozen=True)
class Watch:
    """How a queue is watched, in fabric units: bytes, picoseconds, bits/s."""

    low_bytes: int
    high_bytes: int
    window_ps: int
    gap_ps: int
    rate_bps: int


def watch_of(
    setting: FastCnp, link: Link, loops_ps: Sequence[int], ecn: EcnThresholds | None = None
) -> Watch:
    """Return how the queue in front of `link` is watched, for sources with these loops.

    `ecn`: where the same queue marks, if it does.
    """
    in_a_loop = link.rate_bps * max(loops_ps) // (8 * PS_PER_S)
    least = 4 * (link.mtu_bytes + 38)
    most_low, most_high = link.queue_bytes // LOW_SHARE, link.queue_bytes // HIGH_SHARE
    if ecn is not None:
        most_low, most_high = min(most_low, ecn.min_bytes), min(most_high, ecn.max_bytes)
    low = max(min(in_a_loop, most_low), least)
    high = max(min(4 * low, most_high), 2 * least)
    if setting.low_bytes is not None:
        low, high = setting.low_bytes, max(high, setting.low_bytes)
    if setting.high_bytes is not None:
        low, high = min(low, setting.high_bytes), setting.high_bytes
    return Watch(
        low,
        high,
        window_ps=max(low * 8 * PS_PER_S // (16 * link.rate_bps), 8 * packet_ps(link)),
        gap_ps=CNP_WIRE_BITS * PS_PER_S * 1_000_000 // (link.rate_bps * setting.share_ppm),
        rate_bps=link.rate_bps,
    )


def severity_entries() -> Iterator[TableEntry]:
    """Yield the table from growth to severity, for queues below and above the high threshold.

    With all senders at (1 + x) times what the queue drains, x = growth / 64, a share of
    16 (1 - k / (1 + x)) sixteenths has to go; k = 1, or 7/8 where the queue has to drain.
    """
    for deep in (0, 1):
        numerator, denominator = (DRAIN - 1, DRAIN) if deep else (1, 1)
        first = None
        for severity in range(SEVERITIES):
            # the largest growth for which `severity` sixteenths are enough
            enough = GROWTH_UNIT * numerator * SEVERITIES // (denominator * (SEVERITIES - severity))
            last = GROWTH_ZERO + enough - GROWTH_UNIT
            if severity == SEVERITIES - 1:
                last = GROWTH_MAX
            if first is not None and first <= last:
                key = match(deep=Exact(deep), growth=Range(first, last))
                yield TableEntry(
                    "fast_cnp_severity", key, call("set_severity", severity=severity), priority=1
                )
            first = last + 1


@dataclass(frozen=True)
class FarWays:
    """What a border that answers for far queues has to know of its ways.

    `near_ps`: the longest loop to a source of its own group, in fabric picoseconds. `ports`: by
    leaf of another group, the ports of the long links that lead there.
    """

    near_ps: int
    ports: tuple[tuple[str, tuple[int, ...]], ...]


def watches(
    topology: Topology,
    switch: Switch,
    policy: FabricPolicy,
    behind: Mapping[int, int],
) -> dict[tuple[int, int], Watch]:
    """Return how a switch's queues are watched, by (port, class of service).

    `behind`: as `longest_behind` returns it.
    """
    found: dict[tuple[int, int], Watch] = {}
    for port, loop in behind.items():
        link = topology.link_at(switch.name, port)
        for class_of_service, setting in sorted(policy.setting(KEY).items()):
            marks = _marks(policy, class_of_service, link)
            found[port, class_of_service] = watch_of(setting, link, (loop,), marks)
    return found


def _marks(policy: FabricPolicy, class_of_service: int, link: Link) -> EcnThresholds | None:
    """Return where the queue of a class in front of a link marks, if it does."""
    ecn = policy.setting("ecn").get(class_of_service)
    return None if ecn is None else ecn.at(link.rate_bps)


def fixed_entries(view: View) -> Iterator[Entry]:
    """Yield what a switch holds for fast CNPs and for the samples of stock NICs' connections."""
    if MODE_TABLE in view.tables:
        yield from _mode_entries(view.switch, view.facts, view.policy)
    if PORT_TABLE in view.tables:
        yield from sampling_entries(view.topology, view.switch, view.facts, view.policy)


def _mode_entries(switch: Switch, facts: TargetFacts, policy: FabricPolicy) -> Iterator[Entry]:
    """Yield what makes a switch send fast CNPs; only that they are off if no class has them.

    Switched off at run time, a switch keeps everything else: what it needs to go on is there.
    """
    if not _settings(facts, policy):
        yield DefaultEntry(MODE_TABLE, STAND_STILL)
        return
    cnp_class = min(policy.class_of_dscp.get(CNP_DSCP, 0), facts.priorities - 1)
    copies = cnp_class if facts.clone_classes else 0  # BMv2's PI refuses any other
    yield CloneSession(SESSION, ((RECIRCULATION_PORT, 1),), copies)
    run = call("enable_fast_cnp", dscp=CNP_DSCP, switch_id=switch.device_id)
    yield DefaultEntry(MODE_TABLE, STAND_STILL if NAME in policy.off else run)
    yield from severity_entries()


def _settings(facts: TargetFacts, policy: FabricPolicy) -> dict[int, FastCnp]:
    return {c: each for c, each in policy.setting(KEY).items() if c < facts.priorities}


def source_entries(view: FabricView, leaf: Switch, way_ps: int) -> Iterator[Entry]:
    """Yield the sources at a leaf, for switches from which it is `way_ps` there and back."""
    if MODE_TABLE in view.tables and _settings(view.facts, view.policy):
        for source in view.topology.interfaces_of(leaf.name):
            loop = loop_ps(view.topology, source, way_ps)
            yield _source(source, loop, view.facts, view.policy)


def summary_of(view: View, ways: Ways) -> Mapping[Hashable, Hashable]:
    """Return what `queue_entries` depends on of a switch's ways.

    By port, the longest loop behind it (`longest_behind`); under FAR, a border's `FarWays`.
    """
    settings = _settings(view.facts, view.policy)
    if MODE_TABLE not in view.tables or not settings:
        return {}
    found: dict[Hashable, Hashable] = {}
    found.update(longest_behind(view.topology, view.switch, ways).items())
    if view.switch.role is Role.BORDER and any(each.gateway for each in settings.values()):
        far = _far_ways(view.topology, view.switch, ways)
        if far is not None:
            found[FAR] = far
    return found


def _far_ways(topology: Topology, switch: Switch, ways: Ways) -> FarWays | None:
    near = [
        loop_ps(topology, source, way.round_trip_ps)
        for leaf, way in ways
        if leaf.group == switch.group
        for source in topology.interfaces_of(leaf.name)
    ]
    if not near:
        return None
    long_links = {p.number for p in topology.ports_of(switch.name) if _is_long(topology, switch, p)}
    far = (
        (leaf.name, tuple(port for port in way.ports if port in long_links))
        for leaf, way in ways
        if leaf.group != switch.group
    )
    return FarWays(max(near), tuple((leaf, ports) for leaf, ports in far if ports))


def queue_entries(view: View, key: Hashable, value: Hashable) -> Iterator[Entry]:
    """Yield how a port's queues are watched, or those that a border keeps in mind."""
    settings = _settings(view.facts, view.policy)
    units = _Units(view.facts, view.policy.packet_bytes)
    match key, value:
        case int(port), int(loop):
            link = view.topology.link_at(view.switch.name, port)
            line = link.rate_bps, link.queue_bytes, link.mtu_bytes
            for class_of_service, setting in sorted(settings.items()):
                marks = _marks(view.policy, class_of_service, link)
                yield _watch_queue(units, setting, port, class_of_service, line, loop, marks)
        case _, FarWays():
            setting = next(each for each in settings.values() if each.gateway)
            yield from _far_queues(view, units, value, setting)


def _source(
    source: Interface, loop_ps: int, facts: TargetFacts, policy: FabricPolicy
) -> TableEntry:
    every = facts.ticks(loop_ps // 2)
    key = match(source=Exact(int(source.address.ip)))
    if source.host in policy.stock_nics:
        return TableEntry("fast_cnp_source", key, call("send_plain_cnp", every=every))
    return TableEntry(
        "fast_cnp_source", key, call("notify_source", stands=validity(loop_ps), every=every)
    )


def validity(loop_ps: int) -> int:
    """Return the smallest validity that covers a loop; at most what its four bits hold."""
    units = -(-loop_ps // (VALIDITY_UNIT_NS * PS_PER_NS))
    return min((units - 1).bit_length() if units > 1 else 0, MAX_VALIDITY)


@dataclass(frozen=True)
class _Units:
    """From fabric units to the target's."""

    facts: TargetFacts
    packet_bytes: int

    def _common(self, watch: Watch, depth_bytes: int) -> dict[str, int]:
        window = self.facts.ticks(watch.window_ps)
        # What the queue drains in a window, in units of depth, is GROWTH_UNIT.
        window_ps = window * self.facts.tick_ps // self.facts.time_scale
        drained = watch.rate_bps * window_ps
        gap = self.facts.ticks(watch.gap_ps)
        scale = GROWTH_UNIT * ONE_Q16 * 8 * PS_PER_S * depth_bytes // max(drained, 1)
        return {
            "low": min(watch.low_bytes // depth_bytes, MAX_DEPTH),
            "high": min(watch.high_bytes // depth_bytes, MAX_DEPTH),
            "smoothing": SMOOTHING,
            "window": window,
            "growth_scale": min(max(scale, 1), (1 << 32) - 1),
            "idle": window * IDLE_WINDOWS,
            "gap": gap,
            "burst": gap * BURST,
        }

    def own(self, watch: Watch) -> dict[str, int]:
        """Arguments of `watch_queue`."""
        depth_bytes = self.facts.depth_cell_bytes or self.packet_bytes
        return {**self._common(watch, depth_bytes), "cell_scale": depth_bytes}

    def far(self, watch: Watch, index: int) -> dict[str, int]:
        """Arguments of `watch_far_queue`, whose depth is in cells of 256 bytes."""
        bits_a_tick = watch.rate_bps * self.facts.tick_ps  # in 1e-12, at time scale 1
        drain = bits_a_tick * ONE_Q16 // (8 * PS_PER_S * self.facts.time_scale)
        return {**self._common(watch, 256), "index": index, "drain": max(drain, 1)}


@lru_cache(maxsize=1 << 14)
def _watch_queue(
    units: _Units,
    setting: FastCnp,
    port: int,
    class_of_service: int,
    line: tuple[int, int, int],
    loop_ps: int,
    marks: EcnThresholds | None,
) -> TableEntry:
    """Return how a queue is watched. `line`: its link's rate, queue and MTU: few are different."""
    rate_bps, queue_bytes, mtu_bytes = line
    link = Link(_ANY_END, _ANY_END, rate_bps, 0, queue_bytes, mtu_bytes)
    key = match(port=Exact(port), **{"class": Exact(class_of_service)})
    use = call("watch_queue", **units.own(watch_of(setting, link, (loop_ps,), marks)))
    return TableEntry("fast_cnp_queue", key, use)


def _far_queues(view: View, units: _Units, ways: FarWays, setting: FastCnp) -> Iterator[TableEntry]:
    """Yield queues that a border keeps in mind for the ports at the far end of its long links."""
    topology, switch = view.topology, view.switch
    ports_to = dict(ways.ports)
    index = FIRST_FAR_QUEUE
    for interface in topology.interfaces():
        ports = ports_to.get(interface.switch)
        if not ports or index > LAST_FAR_QUEUE:
            continue
        last = topology.link_at(interface.switch, interface.port)
        borders = [
            each
            for each in topology.switches
            if each.role is Role.BORDER and each.group == switch.group
        ]
        rate = last.rate_bps * GATEWAY_DRAIN_PPM // (1_000_000 * len(borders))
        far = Link(last.a, last.b, rate, last.delay_ps, last.queue_bytes, last.mtu_bytes)
        arguments = units.far(watch_of(setting, far, (ways.near_ps,)), index)
        for port in ports:
            key = {"port": Exact(port), "destination": Exact(int(interface.address.ip))}
            yield TableEntry("fast_cnp_far", match(**key), call("watch_far_queue", **arguments))
        index += 1


def _is_long(topology: Topology, switch: Switch, port: Port) -> bool:
    peer = port.peer.node
    return topology.is_switch(peer) and topology.switch(peer).group != switch.group
