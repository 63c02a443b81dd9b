"""What fabric.p4's own tables hold: router, classes, next hops, routes and their groups, ARP.

Numbers are chosen to be read: a next hop's id and an action profile member's id are the port that
they use, so `ecmp group 1 of 3, 4` means ports 3 and 4. Group 1 is the set of ports that most
leaves are reached by, and so on; of equally many the one of the leaf that comes first. So a link
that fails far away, and splits a few leaves off, leaves the numbers of the others alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from controller.entries import (
    DefaultEntry,
    Entry,
    Exact,
    Group,
    GroupRef,
    Lpm,
    Member,
    TableEntry,
    call,
    match,
)
from controller.leaf_routes import Row
from controller.policy import FabricPolicy
from controller.target_facts import TargetFacts
from topologies.model import CNP_DSCP, Switch, Topology

SELECTOR = "ecmp_members"
GroupPorts: TypeAlias = tuple[tuple[int, ...], ...]
"""The ports of a switch's groups: the first one's are group 1."""


def mac_number(mac: str) -> int:
    """Return a MAC address as the number that P4 sees."""
    return int(mac.replace(":", ""), 16)


# ---------------------------------------------------------------- before the groups and routes


def head(
    topology: Topology, switch: Switch, facts: TargetFacts, policy: FabricPolicy
) -> Iterator[Entry]:
    """Yield what routes refer to and what they do not depend on."""
    yield DefaultEntry("router", call("set_router_mac", mac=mac_number(switch.mac)))
    yield from _classes(facts, policy)
    yield from _next_hops(topology, switch)


def _classes(facts: TargetFacts, policy: FabricPolicy) -> Iterator[Entry]:
    highest = facts.priorities - 1
    for dscp, wanted in sorted(policy.class_of_dscp.items()):
        class_of_service = min(wanted, highest)
        if class_of_service:  # 0 is the table's default
            use = call("set_class", class_of_service=class_of_service)
            yield TableEntry("dscp_class", match(dscp=Exact(dscp)), use)


def _next_hops(topology: Topology, switch: Switch) -> Iterator[Entry]:
    for port in topology.ports_of(switch.name):
        if topology.is_switch(port.peer.node):
            mac = topology.switch(port.peer.node).mac
        else:
            mac = topology.interface(port.peer).mac
        forward = call(
            "forward_to",
            port=port.number,
            src_mac=mac_number(switch.mac),
            dst_mac=mac_number(mac),
        )
        yield TableEntry("next_hop", match(next_hop=Exact(port.number)), forward)


# ---------------------------------------------------------------- groups and routes


def groups_of(row: Row) -> GroupPorts:
    """Return the groups that a switch needs for its ways, by number from 1."""
    # Most ways of a row are the same few objects, and a number is counted faster than a tuple.
    ways = dict(zip(map(id, row), row, strict=True))
    used: dict[tuple[int, ...], int] = {}
    for number, leaves in Counter(map(id, row)).items():
        way = ways[number]
        if way is not None and len(way.ports) > 1:
            used[way.ports] = used.get(way.ports, 0) + leaves
    return tuple(sorted(used, key=lambda ports: -used[ports]))


def members_of(groups: GroupPorts) -> Sequence[int]:
    """Return the ports in any of the groups, ascending: the action profile's members."""
    return sorted(set().union(*groups))


def member(port: int) -> Member:
    """Return the member that sends to a port's next hop."""
    return Member(SELECTOR, port, call("choose_next_hop", next_hop=port))


def group(number: int, ports: tuple[int, ...], watched: bool) -> Group:
    """Return a group over ports. `watched`: a port that is down is left out by the switch."""
    return Group(SELECTOR, number, tuple((port, 1) for port in ports), ports if watched else ())


def group_use(number: int) -> TableEntry:
    """Return the entry by which routes reach a group."""
    return TableEntry("ecmp_group", match(group=Exact(number)), GroupRef(number))


def group_entries(groups: GroupPorts, watched: bool) -> Iterator[Entry]:
    """Yield everything that the groups of a switch need."""
    yield from map(member, members_of(groups))
    for number, ports in enumerate(groups, 1):
        yield group(number, ports, watched)
    yield from map(group_use, range(1, len(groups) + 1))


def host_routes(topology: Topology, switch: Switch) -> Iterator[Entry]:
    """Yield the routes to a switch's own hosts."""
    for interface in topology.interfaces_of(switch.name):
        key = match(dst=Lpm(int(interface.address.ip), 32))
        yield TableEntry("ipv4_route", key, call("route_to", next_hop=interface.port))


def route_over_port(leaf: Switch, port: int) -> TableEntry:
    """Return the route to a leaf's hosts out of one port."""
    return _route(leaf, "route_to", next_hop=port)


def route_over_group(leaf: Switch, number: int) -> TableEntry:
    """Return the route to a leaf's hosts over a group."""
    return _route(leaf, "route_to_group", group=number)


def _route(leaf: Switch, action: str, **argument: int) -> TableEntry:
    assert leaf.gateway is not None, "a leaf has hosts"
    network = leaf.gateway.network
    key = match(dst=Lpm(int(network.network_address), network.prefixlen))
    return TableEntry("ipv4_route", key, call(action, **argument))


def leaf_routes(leaves: Sequence[Switch], row: Row, groups: GroupPorts) -> Iterator[Entry]:
    """Yield the routes to other leaves, in their order."""
    number_of = {ports: number for number, ports in enumerate(groups, 1)}
    for leaf, way in zip(leaves, row, strict=True):
        if way is None or not way.ports:
            continue
        if len(way.ports) == 1:
            yield route_over_port(leaf, way.ports[0])
        else:
            yield route_over_group(leaf, number_of[way.ports])


# ---------------------------------------------------------------- behind them


def tail(topology: Topology, switch: Switch, guarded: bool) -> Iterator[Entry]:
    """Yield a switch's own addresses, and whom it answers for.

    `guarded`: the program has `host_port`, by which hosts can't speak for others.
    """
    if switch.gateway is not None:
        key = match(address=Exact(int(switch.gateway.ip)))
        yield TableEntry("own_addresses", key, call("take_packet"))
        attached = [interface.address.ip for interface in topology.interfaces_of(switch.name)]
        for address in [switch.gateway.ip, *attached]:
            key = match(target_ip=Exact(int(address)))
            yield TableEntry("arp_targets", key, call("answer_request", mac=mac_number(switch.mac)))
    if guarded:
        for interface in topology.interfaces_of(switch.name):
            attach = call("guard_host", address=int(interface.address.ip))
            yield TableEntry("host_port", match(port=Exact(interface.port)), attach)


def notifying(
    topology: Topology, switch: Switch, facts: TargetFacts, policy: FabricPolicy
) -> Iterator[Entry]:
    """Yield what a program with `notification_mode` holds: who the switch is, who its hosts are.

    They wait in the CNPs' queue, or in the highest one where CNPs have none. It comes behind
    `tail`: none is taken before hosts are kept from sending any.
    """
    highest = facts.priorities - 1
    enable = call(
        "enable_notifications",
        switch_id=switch.device_id,
        mac=mac_number(switch.mac),
        dscp=CNP_DSCP,
        class_of_service=min(policy.class_of_dscp.get(CNP_DSCP, highest), highest),
    )
    for interface in topology.interfaces_of(switch.name):
        address = call(
            "address_to_host",
            address=int(interface.address.ip),
            mac=mac_number(interface.mac),
        )
        yield TableEntry("notification_port", match(port=Exact(interface.port)), address)
    yield DefaultEntry("notification_mode", enable)
