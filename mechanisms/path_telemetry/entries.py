"""What switches hold to write into packets that collect (p4src/modules/path_telemetry.p4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from controller.entries import ActionCall, Entry, Exact, TableEntry, call, match
from controller.parts import View
from controller.policy import FabricPolicy
from controller.target_facts import TargetFacts
from mechanisms.path_telemetry.settings import KEY, PathTelemetry
from mechanisms.round_trips import longest_round_trip_ps
from topologies.kept import kept
from topologies.model import PS_PER_NS, Port, Topology

NAME = "path_telemetry"
PORT_TABLE = "path_port"
USE_TABLE = "path_use"

MOST_HOPS = (1 << 16) - 1
STEPS = 64
"""Of a round trip: a line's use is renewed once in each of them, if packets leave."""

TICK_ONE = 1 << 32
USE_ONE = 1 << 56
USE_MOST = 8
RATE_UNIT_BPS = 1 << 16
RATE_BITS = 12

Hops = Mapping[tuple[str, int], int]
"""The number of a port in the fabric, by switch and port."""


@kept
def hop_numbers(topology: Topology) -> Hops:
    """Return the numbers, from 1 in the file's order; above `MOST_HOPS` ports they repeat."""
    places = ((s.name, p.number) for s in topology.switches for p in topology.ports_of(s.name))
    return {place: n % MOST_HOPS + 1 for n, place in enumerate(places)}


def collecting(policy: FabricPolicy, facts: TargetFacts) -> Mapping[int, PathTelemetry]:
    """Return what packets collect, by class of service; classes that the target has alone."""
    found: Mapping[int, PathTelemetry] = policy.setting(KEY)
    return {queue: found[queue] for queue in sorted(found) if queue < facts.priorities}


def entries(view: View) -> Iterator[Entry]:
    """Yield what each port counts by class, and over which time its use is averaged."""
    collected = collecting(view.policy, view.facts)
    if not collected or PORT_TABLE not in view.tables:
        return
    averaged = [each for each in collected.values() if each.format == "most-used"]
    for port in view.topology.ports_of(view.switch.name):
        for queue in range(view.facts.priorities):
            key = match(port=Exact(port.number), **{"class": Exact(queue)})
            yield TableEntry(PORT_TABLE, key, _written(view, port, collected.get(queue)))
        if averaged and USE_TABLE in view.tables:
            longest = longest_round_trip_ps(view.topology)
            trip = max(each.round_trip_ps or longest for each in averaged)
            use = measured_use(port.link.rate_bps, trip, view.facts)
            yield TableEntry(USE_TABLE, match(port=Exact(port.number)), use)


def _written(view: View, port: Port, setting: PathTelemetry | None) -> ActionCall:
    facts = view.facts
    hop = hop_numbers(view.topology)[view.switch.name, port.number]
    unit = facts.depth_cell_bytes or view.policy.packet_bytes
    if setting is not None and setting.format == "hops":
        rate = rate_code(port.link.rate_bps)
        ns = ns_per_tick(facts)
        return call("write_hop", hop=hop, rate=rate, ns_per_tick=ns, depth_unit=unit)
    if setting is not None and USE_TABLE in view.tables:
        return call("write_use", hop=hop, depth_unit=unit)
    return call("count_port")


def ns_per_tick(facts: TargetFacts) -> int:
    """Return how many ns of the fabric a target's tick is, in 1/2^32."""
    slowed = PS_PER_NS * facts.time_scale
    return (TICK_ONE * facts.tick_ps + slowed // 2) // slowed


def rate_code(rate_bps: int) -> int:
    """Return a line's rate as the wire has it, rounded down (`protocols.notification.rate_of`)."""
    units = rate_bps // RATE_UNIT_BPS
    shift = max(units.bit_length() - RATE_BITS, 0)
    return shift << RATE_BITS | units >> shift


def measured_use(rate_bps: int, round_trip_ps: int, facts: TargetFacts) -> ActionCall:
    """Return how the use of a line is averaged over a round trip, of the fabric's time.

    Factors are rounded down, so that products of what the module caps fit into 64 bits.
    """
    ticks = facts.ticks(round_trip_ps)
    bytes_of_trip = rate_bps * ticks * facts.tick_ps
    unit = 8 * 10**12 * facts.time_scale
    return call(
        "measure_use",
        round_trip=ticks,
        step=max(1, ticks // STEPS),
        per_tick=USE_ONE // ticks,
        per_byte=USE_ONE * unit // bytes_of_trip,
        most=USE_MOST * bytes_of_trip // unit,
    )
