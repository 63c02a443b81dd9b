"""Control loops: how long it takes from a switch to a source and back, and so until a notification
helps.

A source that is notified lowers its rate at once; what it has sent before is still on its way. The
loop is the round trip to the source, with what a data packet waits for at each hop until it is
whole, and the pass through the switch that makes the notification. Times in fabric picoseconds.
"""

from __future__ import annotations

from collections.abc import Mapping

from controller.leaf_routes import Ways, round_trip_ps
from topologies.kept import kept
from topologies.model import RECIRCULATION_PS, Interface, Switch, Topology


def loop_ps(topology: Topology, source: Interface, way_ps: int) -> int:
    """Return the loop from a switch whose round trip to the source's leaf is `way_ps`."""
    link = topology.link_at(source.switch, source.port)
    return RECIRCULATION_PS + way_ps + round_trip_ps(topology, link)


def longest_behind(topology: Topology, switch: Switch, ways: Ways) -> dict[int, int]:
    """Return, by port, the longest loop to a source that the port does not lead to.

    Ports that lead to all sources are left out: their queues hold no packets of any.
    """
    by_ports: dict[tuple[int, ...], int] = {}  # to sources at other leaves
    own = 0  # the longest to a source of the switch's own
    for way, access_ps in ways.different():
        if access_ps is not None:
            loop = RECIRCULATION_PS + way.round_trip_ps + access_ps
            if way.ports:
                by_ports[way.ports] = max(loop, by_ports.get(way.ports, 0))
            else:
                own = loop
    longest_first = sorted(by_ports.items(), key=lambda found: -found[1])
    behind: dict[int, int] = {}
    for port in topology.ports_of(switch.name):
        number = port.number
        loop = next((loop for ports, loop in longest_first if number not in ports), 0)
        if loop < own:
            to_switch = topology.is_switch(port.peer.node)
            loop = max(loop, own if to_switch else _to_other_hosts(topology, switch, number))
        if loop:
            behind[number] = loop
    return behind


def _to_other_hosts(topology: Topology, switch: Switch, but: int) -> int:
    """Return the longest loop to a switch's own hosts, but for the one at a port; 0: no other."""
    sources = (each for each in topology.interfaces_of(switch.name) if each.port != but)
    return max((loop_ps(topology, each, 0) for each in sources), default=0)


@kept
def lines_bps(topology: Topology) -> Mapping[str, int]:
    """Return the fastest line of any host's interface, by leaf."""
    found: dict[str, int] = {}
    for each in topology.interfaces():
        rate = topology.link_at(each.switch, each.port).rate_bps
        found[each.switch] = max(rate, found.get(each.switch, 0))
    return found


def fastest_behind(topology: Topology, switch: Switch, ways: Ways) -> dict[int, int]:
    """Return, by port, the fastest line of a source that the port does not lead to, in bits/s.

    Ports that lead to all sources are left out.
    """
    lines = lines_bps(topology)
    ports = [port.number for port in topology.ports_of(switch.name)]
    if len(set(lines.values())) == 1:
        return dict.fromkeys(ports, max(lines.values()))
    found: dict[int, int] = {}
    for leaf, way in ways:
        if leaf.name != switch.name and (rate := lines.get(leaf.name, 0)):
            for port in ports:
                if port not in way.ports:
                    found[port] = max(rate, found.get(port, 0))
    for each in topology.interfaces_of(switch.name):
        rate = topology.link_at(switch.name, each.port).rate_bps
        for port in ports:
            if port != each.port:
                found[port] = max(rate, found.get(port, 0))
    return found
