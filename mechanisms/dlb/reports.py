"""GLB: what switches hold to report paths and to choose by reports (p4src/modules/dlb/paths.p4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from scapy.layers.l2 import Ether

from controller.entries import (
    DefaultEntry,
    Entry,
    Exact,
    Lpm,
    MulticastGroup,
    TableEntry,
    call,
    match,
)
from controller.leaf_routes import Routes, packet_ps
from controller.parts import View
from mechanisms.dlb.settings import PathReports
from protocols.notification import NEIGHBOURS_MAC, Notification, NotificationType, datagram
from topologies.kept import kept
from topologies.model import Port, Topology
from topologies.tickers import Ticker

MODE_TABLE = "glb_mode"
MODE_OFF = call("skip_reports")
GROUP = 4095
"""The multicast group of a switch's ports to others."""

LEAVES = 64
"""As GLB_LEAVES of p4src/modules/dlb.p4: for so many a report has room unless there are more."""

MOST_LEAVES = 256

BAND_BITS = 4


@kept
def routes_of(topology: Topology) -> Routes:
    """Return the ways without faults; the places of leaves are their numbers in P4."""
    return Routes.of(topology)


@kept
def least_packet_ps(topology: Topology) -> int:
    """Return how long a packet of the MTU takes on the fastest link between switches."""
    return min(
        packet_ps(link)
        for link in topology.links
        if topology.is_switch(link.a.node) and topology.is_switch(link.b.node)
    )


def room(topology: Topology) -> int:
    """Return for how many leaves reports have room: 64, 128 or 256. None of more has an entry."""
    leaves, places = len(routes_of(topology).leaves), LEAVES
    while places < min(leaves, MOST_LEAVES):
        places *= 2
    return places


@cache
def template(leaves: int) -> bytes:
    """Return the packet that becomes a report of so many leaves."""
    notification = Notification(type=NotificationType.PATH_QUALITY, destination_qp=leaves)
    body = bytes(BAND_BITS * leaves // 8)
    ethernet = Ether(dst=NEIGHBOURS_MAC, src="00:00:00:00:00:00")
    return bytes(ethernet / datagram(notification, body=body))


def ticker(topology: Topology, reports: PathReports, ports: int) -> Ticker:
    """Return what makes a switch look at one of its ports after the other, each once a period."""
    return Ticker.of(reports.period_ps // ports, template(room(topology)))


def entries(
    view: View,
    ports: tuple[Port, ...],
    byte_of: Sequence[int],
    reports: PathReports,
    weighing: Mapping[str, int],
) -> Iterator[Entry]:
    """Yield what a switch holds for reports.

    `byte_of`: a byte's time on each port's line, in 1/65536 ticks; `weighing`: what bands are made
    with.
    """
    routes = routes_of(view.topology)
    if len(routes.leaves) > MOST_LEAVES:
        return
    every = (1 << room(view.topology)) - 1
    yield MulticastGroup(GROUP, tuple((port.number, port.number) for port in ports))
    leads = {port.number: 0 for port in ports}
    for number, way in enumerate(routes.row(view.switch.name)):
        for through in way.ports if way is not None else ():
            leads[through] |= 1 << number
    for place, port in enumerate(ports):
        others = every & ~leads[port.number]
        unit = view.facts.depth_cell_bytes or port.link.mtu_bytes + weighing["on_line"]
        known = call(
            "set_glb_port",
            number=port.number,
            others=others,
            time_per_byte=byte_of[place],
            time_per_depth=byte_of[place] * unit,
        )
        yield TableEntry("glb_port", match(place=Exact(place)), known)
        heard = call("set_glb_neighbour", number=place, others=others)
        yield TableEntry("glb_neighbour", match(port=Exact(port.number)), heard)
    for number, leaf in enumerate(routes.leaves):
        assert leaf.gateway is not None, "a leaf has hosts"
        network = leaf.gateway.network
        key = match(dst=Lpm(int(network.network_address), network.prefixlen))
        yield TableEntry("glb_leaf", key, call("set_glb_leaf", index=number))
    own = sum(1 << n for n, leaf in enumerate(routes.leaves) if leaf.name == view.switch.name)
    yield DefaultEntry(
        MODE_TABLE,
        call(
            "report_paths",
            **weighing,
            group=GROUP,
            silence=view.facts.ticks(reports.silence_ps),
            refresh=reports.refresh,
            own=own,
        ),
    )
