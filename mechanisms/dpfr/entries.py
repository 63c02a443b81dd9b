"""What switches hold for DPFR (p4src/modules/dpfr.p4): ways, destinations, and times in periods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from controller.entries import (
    ActionCall,
    CloneSession,
    DefaultEntry,
    Entry,
    Exact,
    Lpm,
    MulticastGroup,
    TableEntry,
    call,
    match,
)
from controller.parts import View
from mechanisms.dpfr.settings import HOPS, KEY, LOSSES, LOSSES_AT_ONCE, Dpfr
from mechanisms.dpfr.ways import Destination, FabricWays, SwitchWays, ways_of
from topologies.model import CNP_DSCP

NAME = KEY
MODE_TABLE = "dpfr_mode"
STAND_STILL = call("disable_dpfr")
LISTENERS = 1024
"""Clone sessions and multicast groups from here on, one of each for a set of listeners; 0: none."""

SENDERS = 521
"""The clone session of DPFR_SENDERS_SESSION (p4src/modules/dpfr/ports.p4)."""

RECIRCULATION_PORT = 510
"""As p4src/include/constants.p4 says it: what leaves here comes in again."""


def entries(view: View) -> Iterator[Entry]:
    """Yield all that one switch holds; it depends on no route."""
    setting = view.topology.setting(KEY)
    if setting is None:
        return
    fabric = ways_of(view.topology)
    own = fabric.of(view.switch.name)
    notified = set(own.listeners.values()) if setting.remote else set()
    numbers = {ports: LISTENERS + n for n, ports in enumerate(sorted(notified))}
    yield from _listeners(view, numbers)
    if setting.remote:
        yield _senders(view)
    yield from _ways(own, own.behind if setting.remote else ((),) * len(own.ports))
    yield from _destinations(fabric, own, numbers)
    run = _enable(setting, fabric, own)
    yield DefaultEntry(MODE_TABLE, STAND_STILL if NAME in view.policy.off else run)


def _listeners(view: View, numbers: Mapping[tuple[int, ...], int]) -> Iterator[Entry]:
    for ports, number in numbers.items():
        copies = tuple((port, port) for port in ports)
        yield CloneSession(number, copies, _class_of_service(view))
        yield MulticastGroup(number, copies)


def _senders(view: View) -> Entry:
    """Return the clone session of notifications to hosts: they are routed like any packet."""
    return CloneSession(SENDERS, ((RECIRCULATION_PORT, 1),), _class_of_service(view))


def _class_of_service(view: View) -> int:
    """Return the class of service of notifications; 0 where clone sessions have none."""
    highest = view.facts.priorities - 1
    chosen = min(view.policy.class_of_dscp.get(CNP_DSCP, highest), highest)
    return chosen if view.facts.clone_classes else 0


def _ways(own: SwitchWays, behind_each: Sequence[tuple[int, ...]]) -> Iterator[Entry]:
    lists = {behind: n for n, behind in enumerate(sorted(set(behind_each)))}
    for behind, number in lists.items():
        for index, destination in enumerate(behind):
            key = match(list=Exact(number), index=Exact(index))
            yield TableEntry("dpfr_behind", key, call("set_dpfr_behind", number=destination))
    for way, port in enumerate(own.ports):
        number, behind = port.number, behind_each[way]
        send = call(
            "set_dpfr_port", number=number, behind_it=lists[behind], destinations=len(behind)
        )
        yield TableEntry("dpfr_way", match(port=Exact(number)), call("set_dpfr_way", way=way))
        yield TableEntry("dpfr_port", match(way=Exact(way)), send)
        chosen = call("set_dpfr_chosen", way=way, port=number)
        yield TableEntry("dpfr_chosen", match(next_hop=Exact(number)), chosen)
        link = call("set_dpfr_link", way=way)
        yield TableEntry("dpfr_link", match(port=Exact(number)), link)
        use = call("use_dpfr_hop", next_hop=number)
        yield TableEntry("dpfr_hop", match(way=Exact(way)), use)


def _destinations(
    fabric: FabricWays, own: SwitchWays, numbers: Mapping[tuple[int, ...], int]
) -> Iterator[Entry]:
    for number, ways in own.candidates.items():
        each = fabric.destinations[number]
        group = each.group if each.group in own.candidates else number
        listeners = numbers.get(own.listeners.get(number, ()), 0)
        known = call(
            "set_dpfr_candidates", ways=ways, of=group, address=each.network, listeners=listeners
        )
        yield TableEntry("dpfr_candidates", match(destination=Exact(number)), known)
        if number < len(fabric.leaves):
            yield _destination(each, group, ways, listeners)


def _destination(leaf: Destination, group: int, ways: int, listeners: int) -> TableEntry:
    gateway = leaf.leaves[0].gateway
    assert gateway is not None, "a leaf has hosts"
    network = gateway.network
    key = match(dst=Lpm(int(network.network_address), network.prefixlen))
    use = call(
        "set_dpfr_destination",
        number=leaf.number,
        of=group,
        ways=ways,
        address=leaf.network,
        listeners=listeners,
    )
    return TableEntry("dpfr_destination", key, use)


def _enable(setting: Dpfr, fabric: FabricWays, own: SwitchWays) -> ActionCall:
    return call(
        "enable_dpfr",
        ways=len(own.ports),
        misses=setting.misses,
        hold=setting.hold,
        copies=setting.copies,
        refresh=setting.refresh,
        validity=setting.validity,
        hops=HOPS,
        destinations=len(fabric.destinations),
        weight=setting.weight,
        most=setting.weight * LOSSES_AT_ONCE,
        limit=setting.weight * LOSSES,
    )
