"""What switches hold for load balancing (p4src/modules/dlb.p4): policies, groups, ports."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from controller.base_entries import groups_of
from controller.entries import DefaultEntry, Entry, Exact, Range, TableEntry, call, match
from controller.leaf_routes import Ways, packet_ps
from controller.parts import View
from mechanisms.dlb import reports
from mechanisms.dlb.settings import KEY, PORTS, Balancing, reports_of
from topologies.model import Port, Switch, Topology

NAME = "dlb"
CLASS_TABLE = "dlb_class"
MODE_TABLE = "dlb_mode"
MODE_OFF = call("skip_dlb_mode")
MEMORY_PS = 16_000_000
"""Over which what a port sent is forgotten; at most 2^15 ticks (p4src/modules/dlb/quality.p4)."""

MOST_MEMORY = 15
SHARE = 4
"""What a port sent lately counts a 2^-4th of what waits there."""

PACKETS_A_BAND = 16
"""A queue of so many packets of the MTU is worse than none; bands double from there.

Finer bands make things worse: senders at line rate, and ports that free up in the order in which
they were used, fall into step, and each flow takes the same port with every packet. Then it is as
if it were pinned, and meets others further on as with ECMP (docs/load-balancing.md has numbers).
"""

ON_LINE = 24
"""Preamble, FCS and gap."""

DRAWS = 1 << 16
"""Of one port: 0 to 65535."""

_PS_PER_S = 10**12


def ports_to_switches(topology: Topology, switch: Switch) -> tuple[Port, ...]:
    """Return a switch's ports to other switches; their places are their numbers in P4."""
    ports = topology.ports_of(switch.name)
    return tuple(port for port in ports if topology.is_switch(port.peer.node))


def ports_of(view: View) -> tuple[Port, ...]:
    """Return those of the switch that is looked at."""
    return ports_to_switches(view.topology, view.switch)


def entries(view: View) -> Iterator[Entry]:
    """Yield policies by DSCP, and what a switch has to know of its ports."""
    balanced: dict[int, Balancing] = dict(view.policy.setting(KEY))
    ports = ports_of(view)
    if not balanced or len(ports) > PORTS:
        return
    for number, port in enumerate(ports):
        use = call("use_dlb_hop", next_hop=port.number, port=port.number)
        yield TableEntry("dlb_hop", match(port=Exact(number)), use)
    byte_of = [view.facts.ticks((8 * _PS_PER_S << 16) // port.link.rate_bps) for port in ports]
    for number, port in enumerate(ports):
        known = call("set_dlb_port", number=number, time_per_byte=byte_of[number])
        yield TableEntry("dlb_port", match(port=Exact(port.number)), known)
    off = NAME in view.policy.off
    for dscp, queue in sorted(view.policy.class_of_dscp.items()):
        setting = balanced.get(queue)
        if setting is not None and not off:
            action = "set_weighted_balance" if setting.by_rate else "set_balance"
            idle = view.facts.ticks(setting.gap_ps)
            how = call(action, how=setting.policy.value, idle=idle)
            yield TableEntry(CLASS_TABLE, match(dscp=Exact(dscp)), how)
    weighed = any(each.policy.by_quality for each in balanced.values())
    weighing = _weighing(view, ports) if weighed and ports else {}
    weigh = call("weigh_ports", **weighing) if weighing else MODE_OFF
    yield DefaultEntry(MODE_TABLE, weigh)
    reported = reports_of(view.topology)
    if reported is not None and ports:
        yield from reports.entries(view, ports, byte_of, reported, weighing)


def _weighing(view: View, ports: Sequence[Port]) -> dict[str, int]:
    """Return what bands are made with.

    Switches that report bands to each other have one unit, by the fastest of all links.
    """
    fastest_ps = min(packet_ps(port.link) for port in ports)
    if reports_of(view.topology) is not None:
        fastest_ps = reports.least_packet_ps(view.topology)
    packet = view.facts.ticks(fastest_ps)
    memory = view.facts.ticks(MEMORY_PS).bit_length() - 1
    return {
        "ports": len(ports),
        "memory": min(memory, MOST_MEMORY),
        "share": SHARE,
        "unit": (packet * PACKETS_A_BAND).bit_length() - 1,
        "on_line": ON_LINE,
    }


def groups(view: View, ways: Ways) -> dict[Hashable, Hashable]:
    """Return the ports of a switch's groups, by the numbers that routes have for them.

    A switch with more than PORTS links to others has none: its packets take ECMP.
    """
    if not view.policy.setting(KEY) or len(ports_of(view)) > PORTS:
        return {}
    return dict(enumerate(groups_of(ways.row), 1))


def group_entry(view: View, number: int, ports: tuple[int, ...]) -> Entry:
    """Return a group's members as a set, and what a turn among them takes."""
    place = {port.number: n for n, port in enumerate(ports_of(view))}
    members = sum(1 << place[port] for port in ports)
    steps = -(-(1 << 16) // len(ports))
    use = call("set_dlb_group", members=members, how_many=len(ports), steps=steps)
    return TableEntry("dlb_group", match(group=Exact(number)), use)


def share_entries(view: View, number: int, ports: tuple[int, ...]) -> Iterator[Entry]:
    """Yield which part of all draws each member of a group takes; nothing where all are alike."""
    rate = {port.number: port.link.rate_bps for port in ports_of(view)}
    place = {port.number: n for n, port in enumerate(ports_of(view))}
    total = sum(rate[port] for port in ports)
    if all(rate[port] * len(ports) == total for port in ports):
        return
    passed = 0
    for port in ports:
        first = passed * DRAWS // total
        passed += rate[port]
        last = passed * DRAWS // total - 1
        if first <= last:
            key = match(group=Exact(number), draw=Range(first, last))
            yield TableEntry("dlb_share", key, call("take_share", place=place[port]), priority=1)
