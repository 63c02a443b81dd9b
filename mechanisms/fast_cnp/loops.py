"""Control loops: how long it takes from a switch to a source and back, and so until a word helps.

A source that is told lowers its rate at once; what it has sent before is still on its way. The loop
is the round trip to the source, with what a data packet waits for at each hop until it is whole,
and the pass through the switch that makes the notification. Times in fabric picoseconds.
"""

from __future__ import annotations

from collections.abc import Mapping

from controller.leaf_routes import Ways, round_trip_ps
from topologies.model import RECIRCULATION_PS, Interface, Switch, Topology


def loop_ps(topology: Topology, source: Interface, way_ps: int) -> int:
    """Return the loop from a switch whose round trip to the source's leaf is `way_ps`."""
    link = topology.link_at(source.switch, source.port)
    return RECIRCULATION_PS + way_ps + round_trip_ps(link)


def longest_loops(topology: Topology, switch: Switch, ways: Ways) -> Mapping[tuple[int, ...], int]:
    """Return the longest loop from a switch to sources, by the ports that lead to them."""
    found: dict[tuple[int, ...], int] = {}
    for way, access_ps in ways.different():
        if way.ports and access_ps is not None:
            loop = RECIRCULATION_PS + way.round_trip_ps + access_ps
            found[way.ports] = max(loop, found.get(way.ports, 0))
    for port in topology.ports_of(switch.name):
        if not topology.is_switch(port.peer.node):
            found[(port.number,)] = RECIRCULATION_PS + round_trip_ps(port.link)
    return found
