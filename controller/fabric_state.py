"""What every switch should hold, and how events change it: `(model, event, now) -> writes`.

    topology + failures + policy + target's units -> entries of each switch (a pure function)
    entries wanted - entries there               -> the fewest updates    (controller.diff)

Numbers are chosen to be read: a next hop's id and an action profile member's id are the port that
they use, so `ecmp group 1 of 3, 4` means ports 3 and 4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeAlias

from controller.diff import Change, Operation, changes
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
from controller.p4info import P4Info
from controller.parts import Learned, Part, View, all_parts
from controller.policy import FabricPolicy
from controller.routing import Paths, shortest_paths
from controller.target_facts import TargetFacts
from topologies.model import Link, Switch, Topology

SELECTOR = "ecmp_members"


@dataclass(frozen=True)
class FabricModel:
    """All that the logic remembers. `installed` holds what each connected switch has.

    `p4infos` holds those of switches that run another program than the rest. `learned`: entries
    that come from what switches saw rather than from the topology, by switch and key; they are not
    among `installed`. `parts`: what mechanisms add (`controller.parts`).
    """

    topology: Topology
    p4info: P4Info
    facts: TargetFacts = field(default_factory=TargetFacts)
    policy: FabricPolicy = field(default_factory=FabricPolicy)
    down: frozenset[Link] = frozenset()
    installed: Mapping[str, tuple[Entry, ...]] = field(default_factory=dict)
    p4infos: Mapping[str, P4Info] = field(default_factory=dict)
    learned: Mapping[str, Mapping[object, TableEntry]] = field(default_factory=dict)
    parts: tuple[Part, ...] = field(default_factory=all_parts)

    def info(self, switch: str) -> P4Info:
        """Return the P4Info of the program that a switch runs."""
        return self.p4infos.get(switch, self.p4info)


@dataclass(frozen=True)
class SwitchReady:
    """A switch runs our program and holds these entries (read back from it)."""

    switch: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class FabricReady:
    """Several switches at once run our program and hold these entries, by switch."""

    entries: Mapping[str, tuple[Entry, ...]]


@dataclass(frozen=True)
class LinkChanged:
    """A link between switches came up or went down."""

    link: Link
    up: bool


@dataclass(frozen=True)
class MechanismSwitched:
    """Request to enable or disable a mechanism in all switches."""

    name: str
    on: bool


Event: TypeAlias = SwitchReady | FabricReady | LinkChanged | MechanismSwitched | Learned
Writes: TypeAlias = Mapping[str, tuple[Change, ...]]


def step(model: FabricModel, event: Event, now: int) -> tuple[FabricModel, Writes]:
    """Take one event at time `now` (nanoseconds); return the new model and each switch's changes.

    Routes depend on the events alone, so `now` is unused here; it is part of the signature that
    all of the controller's logic shares.
    """
    del now
    ready: Mapping[str, tuple[Entry, ...]] = {}
    match event:
        case SwitchReady(switch, entries):
            ready = {switch: entries}
        case FabricReady(entries_of):
            ready = entries_of
        case LinkChanged(link, up):
            down = model.down - {link} if up else model.down | {link}
            model = replace(model, down=down)
        case MechanismSwitched(name, on):
            off = model.policy.off - {name} if on else model.policy.off | {name}
            model = replace(model, policy=replace(model.policy, off=off))
        case Learned():
            return _learn(model, event)
    paths = shortest_paths(model.topology, model.down)
    writes: dict[str, tuple[Change, ...]] = {}
    installed = dict(model.installed)
    learned_tables = {table for part in model.parts for table in part.learned_tables}
    for name in ready or installed:
        wanted = desired_entries(model, name, paths)
        p4info = model.info(name)
        if name in ready:
            learned = _known(model, name, model.learned.get(name, {}).values())
            writes[name] = changes((*wanted, *learned), ready[name], p4info)
        else:
            there = (entry for entry in installed[name] if not _in(learned_tables, entry))
            writes[name] = changes(wanted, there, p4info)
        installed[name] = wanted
    return replace(model, installed=installed), MappingProxyType(writes)


def _learn(model: FabricModel, event: Learned) -> tuple[FabricModel, Writes]:
    """Put and take away single entries, whatever else a switch holds."""
    learned = dict(model.learned)
    writes: dict[str, tuple[Change, ...]] = {}
    for name in sorted({*event.put, *event.gone}):
        entries = dict(learned.get(name, {}))
        found: list[Change] = []
        for entry in _known(model, name, event.put.get(name, ())):
            there = entries.get(entry.key)
            if there != entry:
                found.append(Change(Operation.MODIFY if there else Operation.INSERT, entry))
            entries[entry.key] = entry
        for entry in _known(model, name, event.gone.get(name, ())):
            there = entries.pop(entry.key, None)
            if there is not None:
                found.append(Change(Operation.DELETE, there))
        learned[name] = entries
        if name in model.installed:
            writes[name] = tuple(found)
    return replace(model, learned=learned), MappingProxyType(writes)


def _known(model: FabricModel, name: str, entries: Iterable[TableEntry]) -> Iterator[TableEntry]:
    """Yield the entries whose table a switch's program has."""
    tables = model.info(name).tables
    return (entry for entry in entries if entry.table in tables)


def _in(tables: set[str], entry: Entry) -> bool:
    return isinstance(entry, TableEntry) and entry.table in tables


def desired_entries(
    model: FabricModel, switch_name: str, paths: Paths | None = None
) -> tuple[Entry, ...]:
    """Return everything that a switch should hold, in an order in which it can be installed."""
    topology = model.topology
    switch = topology.switch(switch_name)
    paths = paths or shortest_paths(topology, model.down)
    groups = _Groups()
    routes = list(_routes(topology, switch, paths, groups))
    return (
        DefaultEntry("router", call("set_router_mac", mac=mac_number(switch.mac))),
        *_classes(model),
        *_next_hops(topology, switch),
        *groups.entries(),
        *routes,
        *_own_addresses(switch),
        *_arp_targets(topology, switch),
        *_if_known(model, switch, "host_port", _host_ports(topology, switch)),
        *_of_parts(model, switch, paths),
    )


def _if_known(
    model: FabricModel, switch: Switch, table: str, entries: Iterator[Entry]
) -> Iterator[Entry]:
    """Yield the entries of a table, if the switch's program has it: features are modules."""
    if table in model.info(switch.name).tables:
        yield from entries


def _of_parts(model: FabricModel, switch: Switch, paths: Paths) -> Iterator[Entry]:
    """Yield what mechanisms want a switch to hold, as far as its program has their tables."""
    known = model.info(switch.name).tables
    for part in model.parts:
        tables = frozenset(table for table in part.tables if table in known)
        if tables:
            view = View(model.topology, switch, paths, model.facts, model.policy, tables)
            yield from part.entries(view)


def _host_ports(topology: Topology, switch: Switch) -> Iterator[TableEntry]:
    """Yield what says which address is behind which port, so that hosts can't speak for others."""
    for interface in topology.interfaces_of(switch.name):
        attached = call("guard_host", address=int(interface.address.ip))
        yield TableEntry("host_port", match(port=Exact(interface.port)), attached)


def mac_number(mac: str) -> int:
    """Return a MAC address as the number that P4 sees."""
    return int(mac.replace(":", ""), 16)


class _Groups:
    """Sets of ports that routes spread over, numbered from 1 as they are first met."""

    def __init__(self) -> None:
        self._ids: dict[tuple[int, ...], int] = {}

    def id_of(self, ports: tuple[int, ...]) -> int:
        return self._ids.setdefault(ports, len(self._ids) + 1)

    def entries(self) -> Iterator[Entry]:
        for port in sorted({port for ports in self._ids for port in ports}):
            yield Member(SELECTOR, port, call("choose_next_hop", next_hop=port))
        for ports, number in self._ids.items():
            yield Group(SELECTOR, number, tuple((port, 1) for port in ports))
        for number in self._ids.values():
            yield TableEntry("ecmp_group", match(group=Exact(number)), GroupRef(number))


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


def _routes(
    topology: Topology, switch: Switch, paths: Paths, groups: _Groups
) -> Iterator[TableEntry]:
    for interface in topology.interfaces_of(switch.name):
        key = match(dst=Lpm(int(interface.address.ip), 32))
        yield TableEntry("ipv4_route", key, call("route_to", next_hop=interface.port))
    for leaf in topology.switches:
        if leaf.gateway is None or leaf.name == switch.name:
            continue
        ports = paths.towards(switch.name, leaf.name)
        if not ports:
            continue
        network = leaf.gateway.network
        key = match(dst=Lpm(int(network.network_address), network.prefixlen))
        if len(ports) == 1:
            yield TableEntry("ipv4_route", key, call("route_to", next_hop=ports[0]))
        else:
            group = groups.id_of(ports)
            yield TableEntry("ipv4_route", key, call("route_to_group", group=group))


def _own_addresses(switch: Switch) -> Iterator[Entry]:
    if switch.gateway is not None:
        key = match(address=Exact(int(switch.gateway.ip)))
        yield TableEntry("own_addresses", key, call("take_packet"))


def _arp_targets(topology: Topology, switch: Switch) -> Iterator[Entry]:
    if switch.gateway is None:
        return
    attached = [interface.address.ip for interface in topology.interfaces_of(switch.name)]
    for address in [switch.gateway.ip, *attached]:
        key = match(target_ip=Exact(int(address)))
        yield TableEntry("arp_targets", key, call("answer_request", mac=mac_number(switch.mac)))


def _classes(model: FabricModel) -> Iterator[Entry]:
    highest = model.facts.priorities - 1
    for dscp, wanted in sorted(model.policy.class_of_dscp.items()):
        class_of_service = min(wanted, highest)
        if class_of_service:  # 0 is the table's default
            use = call("set_class", class_of_service=class_of_service)
            yield TableEntry("dscp_class", match(dscp=Exact(dscp)), use)
