"""What switches hold to notify sources of the rate at which they may send
(p4src/modules/fast_cnp.p4).

Everything follows from the control loop: the time from a switch to a source and back.

    target       what the queue is to hold: half of what the port sends in the longest loop
                 behind it, but at most what it sends in 8 us, half of where ECN begins to mark, and
                 a sixteenth of the queue; at least 8 packets, so that noise does not empty it.
                 No source is notified before it has held twice that: it may be a burst
    window       over which is counted what comes: eight packets, rounded up to 2^n validity units
    interval     half a loop; a notification stands for a loop (rounded up to 2^n units)
    most, least  the fastest line of a source behind the port, and a 4096th of it
    cut          by how much more came than was sent, to which part the rate has to come down

Loops at run time are the switch's: of sources that a queue meets (p4src/modules/fast_cnp/watch.p4).
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
from controller.target_facts import TargetFacts
from mechanisms.fast_cnp.loops import fastest_behind, lines_bps, longest_behind, loop_ps
from mechanisms.fast_cnp.parameters import (
    LEAST_PART,
    RATE_UNIT_BPS,
    VALIDITY_UNIT_NS,
    FastCnp,
)
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

PS_PER_US = 1_000_000

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
WINDOW_PACKETS = 8
TARGET_PACKETS = 8
BURST_PACKETS = 4
BURSTS = 2  # targets that a queue may hold before any source is notified
LOOP_SHARE = 2  # of what is sent in a loop that the target is at most
TARGET_PS = 8 * PS_PER_US
QUEUE_SHARE = 16  # of a port's queue that the target takes at most
PACKET_EXTRA = 38  # Ethernet, FCS, preamble and gap
STOCK_PS = 50 * PS_PER_US  # between two looks at a stock NIC's rate: its cut is seen
PART = 256
LEAST_CUT = PART // 2  # of excess: less is left to the rate's slow change
CUTS_AN_OCTAVE = 4
RATE_UNIT_SHIFT = 16
UNIT_PS = VALIDITY_UNIT_NS * PS_PER_NS
EXCESS_MAX = (1 << 16) - 1
CNP_WIRE_BITS = 98 * 8
BURST = 128  # CNPs
MAX_VALIDITY = 15
GATEWAY_DRAIN_PPM = 980_000  # a gateway's idea of the far port is a little slower than the port
ONE_Q16 = 1 << 16
_WORD = (1 << 32) - 1
SPEED_MAX = (1 << 40) - 1
_ANY_END = Endpoint("", 0)


@dataclass(frozen=True)
class Watch:
    """How a queue is watched, in fabric units: bytes, picoseconds, bits/s.

    `window_loop`: the window is 2^window_loop units of validity. `packet_bytes`: of a full one, as
    the line has it. `most_bps`: the fastest line of any source.
    """

    target_bytes: int
    window_loop: int
    packet_bytes: int
    gap_ps: int
    rate_bps: int
    most_bps: int


def watch_of(
    setting: FastCnp,
    link: Link,
    loops_ps: Sequence[int],
    most_bps: int,
    ecn: EcnThresholds | None = None,
) -> Watch:
    """Return how the queue in front of `link` is watched, for sources with these loops.

    `ecn`: where the same queue marks, if it does.
    """
    packet = link.mtu_bytes + PACKET_EXTRA
    longest = min(max(loops_ps) // LOOP_SHARE, TARGET_PS)
    most = link.queue_bytes // QUEUE_SHARE
    if ecn is not None:
        most = min(most, ecn.min_bytes // 2)
    target = max(min(link.rate_bps * longest // (8 * PS_PER_S), most), TARGET_PACKETS * packet)
    return Watch(
        target if setting.target_bytes is None else setting.target_bytes,
        window_loop=_exponent(WINDOW_PACKETS * packet_ps(link)),
        packet_bytes=packet,
        gap_ps=CNP_WIRE_BITS * PS_PER_S * 1_000_000 // (link.rate_bps * setting.share_ppm),
        rate_bps=link.rate_bps,
        most_bps=most_bps,
    )


def cut_entries() -> Iterator[TableEntry]:
    """Yield the table from excess, in 256ths of what a window sends, to what part fits.

    With 1 + x times what fits, 1 / (1 + x) of it would have; rounded down, in quarters of octaves.
    """
    parts = sorted({int(PART * 2 ** (-k / CUTS_AN_OCTAVE)) for k in range(1, 33)}, reverse=True)
    first = LEAST_CUT
    for part in parts:
        last = EXCESS_MAX if part == parts[-1] else PART * PART // part - PART
        if last >= first:
            key = match(excess=Range(first, last))
            yield TableEntry("fast_cnp_cut", key, call("cut_to_part", part=part), priority=1)
            first = last + 1


@dataclass(frozen=True)
class FarWays:
    """What a border that answers for far queues has to know of its ways.

    `near_ps`: the longest loop to a source of its own group, in fabric picoseconds; `most_bps`: the
    fastest line of one. `ports`: by leaf of another group, the ports of the long links that lead
    there.
    """

    near_ps: int
    most_bps: int
    ports: tuple[tuple[str, tuple[int, ...]], ...]


def watches(
    topology: Topology,
    switch: Switch,
    policy: FabricPolicy,
    ways: Ways,
) -> dict[tuple[int, int], Watch]:
    """Return how a switch's queues are watched, by (port, class of service)."""
    found: dict[tuple[int, int], Watch] = {}
    for port, (loop, most) in sources_behind(topology, switch, ways).items():
        link = topology.link_at(switch.name, port)
        for class_of_service, setting in sorted(policy.setting(KEY).items()):
            marks = _marks(policy, class_of_service, link)
            found[port, class_of_service] = watch_of(setting, link, (loop,), most, marks)
    return found


def sources_behind(topology: Topology, switch: Switch, ways: Ways) -> dict[int, tuple[int, int]]:
    """Return, by port, the longest loop to a source behind it, in ps, and its fastest line."""
    loops = longest_behind(topology, switch, ways)
    lines = fastest_behind(topology, switch, ways)
    return {port: (loop, lines[port]) for port, loop in loops.items()}


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
    yield from cut_entries()


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

    By port, what sources are behind it (`sources_behind`); under FAR, a border's `FarWays`.
    """
    settings = _settings(view.facts, view.policy)
    if MODE_TABLE not in view.tables or not settings:
        return {}
    found: dict[Hashable, Hashable] = {}
    found.update(sources_behind(view.topology, view.switch, ways).items())
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
    own = [leaf.name for leaf, _ in ways if leaf.group == switch.group]
    fastest = max(lines_bps(topology).get(leaf, RATE_UNIT_BPS) for leaf in own)
    return FarWays(max(near), fastest, tuple((leaf, ports) for leaf, ports in far if ports))


def queue_entries(view: View, key: Hashable, value: Hashable) -> Iterator[Entry]:
    """Yield how a port's queues are watched, or those that a border keeps in mind."""
    settings = _settings(view.facts, view.policy)
    units = _Units(view.facts, view.policy.packet_bytes)
    match key, value:
        case int(port), (int(loop), int(most)):
            link = view.topology.link_at(view.switch.name, port)
            line = link.rate_bps, link.queue_bytes, link.mtu_bytes
            for class_of_service, setting in sorted(settings.items()):
                marks = _marks(view.policy, class_of_service, link)
                yield from _watched(units, setting, port, class_of_service, line, loop, most, marks)
        case _, FarWays():
            setting = next(each for each in settings.values() if each.gateway)
            yield from _far_queues(view, units, value, setting)


def _source(
    source: Interface, loop_ps: int, facts: TargetFacts, policy: FabricPolicy
) -> TableEntry:
    key = match(source=Exact(int(source.address.ip)))
    if source.host in policy.stock_nics:
        every = facts.ticks(max(loop_ps, STOCK_PS))
        return TableEntry("fast_cnp_source", key, call("send_plain_cnp", every=every))
    every = facts.ticks(loop_ps // 2)
    return TableEntry(
        "fast_cnp_source", key, call("notify_source", stands=validity(loop_ps), every=every)
    )


def validity(loop_ps: int) -> int:
    """Return the smallest validity that covers a loop; at most what its four bits hold."""
    return min(_exponent(loop_ps), MAX_VALIDITY)


def _exponent(time_ps: int) -> int:
    """Return n, so that 2^n validity units are the fewest that are so long."""
    units = -(-time_ps // UNIT_PS)
    return (units - 1).bit_length() if units > 1 else 0


@dataclass(frozen=True)
class _Units:
    """From fabric units to the target's."""

    facts: TargetFacts
    packet_bytes: int

    def _common(self, watch: Watch) -> dict[str, int]:
        facts = self.facts
        drain = watch.rate_bps * facts.tick_ps * ONE_Q16 // (8 * PS_PER_S * facts.time_scale)
        in_a_unit = watch.rate_bps * UNIT_PS  # in 1/8 bytes, times PS_PER_S
        share = PART * ONE_Q16 * 8 * PS_PER_S // (in_a_unit << watch.window_loop)
        return {
            "wanted_depth": min(watch.target_bytes, _WORD),
            "burst_depth": min(BURSTS * watch.target_bytes, _WORD),
            "drain": min(max(drain, 1), _WORD),
            "window": facts.ticks(UNIT_PS << watch.window_loop),
            "window_loop": watch.window_loop,
            "unit": self._unit,
            "share": min(max(share, 1), _WORD),
            "packets": BURST_PACKETS * watch.packet_bytes,
            "line": watch.rate_bps >> RATE_UNIT_SHIFT,
            "speed": self._speed,
            "most": watch.most_bps,
            "least": max(watch.most_bps // LEAST_PART, RATE_UNIT_BPS),
        }

    @property
    def _unit(self) -> int:
        """A validity unit, in 1/256 ticks."""
        return UNIT_PS * self.facts.time_scale * 256 // self.facts.tick_ps

    @property
    def _speed(self) -> int:
        """From bytes to the ticks that they take at the unit of rates."""
        speed = 8 * PS_PER_S * self.facts.time_scale // (RATE_UNIT_BPS * self.facts.tick_ps)
        return min(max(speed, 1), SPEED_MAX)

    def asked(self, watch: Watch) -> dict[str, int]:
        """Return the arguments of `ask_queue`; with an index, of `ask_far_queue`."""
        gap = self.facts.ticks(watch.gap_ps)
        return {
            "unit": self._unit,
            "speed": self._speed,
            "burst_time": BURST_PACKETS * watch.packet_bytes * self._speed,
            "gap": gap,
            "burst": gap * BURST,
        }

    def own(self, watch: Watch) -> dict[str, int]:
        """Return the arguments of `watch_queue`."""
        unit = self.facts.depth_cell_bytes or self.packet_bytes
        return {**self._common(watch), "depth_unit": unit}

    def far(self, watch: Watch, index: int) -> dict[str, int]:
        """Return the arguments of `watch_far_queue`."""
        return {**self._common(watch), "index": index}


@lru_cache(maxsize=1 << 14)
def _watched(
    units: _Units,
    setting: FastCnp,
    port: int,
    class_of_service: int,
    line: tuple[int, int, int],
    loop_ps: int,
    most_bps: int,
    marks: EcnThresholds | None,
) -> tuple[TableEntry, TableEntry]:
    """Return how a queue is watched, and what is asked of it.

    `line`: its link's rate, queue and MTU: few are different.
    """
    rate_bps, queue_bytes, mtu_bytes = line
    link = Link(_ANY_END, _ANY_END, rate_bps, 0, queue_bytes, mtu_bytes)
    key = match(port=Exact(port), **{"class": Exact(class_of_service)})
    watch = watch_of(setting, link, (loop_ps,), most_bps, marks)
    return (
        TableEntry("fast_cnp_queue", key, call("watch_queue", **units.own(watch))),
        TableEntry("fast_cnp_claims", key, call("ask_queue", **units.asked(watch))),
    )


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
        watch = watch_of(setting, far, (ways.near_ps,), ways.most_bps)
        use = call("watch_far_queue", **units.far(watch, index))
        ask = call("ask_far_queue", index=index, **units.asked(watch))
        for port in ports:
            key = match(port=Exact(port), destination=Exact(int(interface.address.ip)))
            yield TableEntry("fast_cnp_far", key, use)
            yield TableEntry("fast_cnp_far_claims", key, ask)
        index += 1


def _is_long(topology: Topology, switch: Switch, port: Port) -> bool:
    peer = port.peer.node
    return topology.is_switch(peer) and topology.switch(peer).group != switch.group
