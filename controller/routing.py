"""Shortest paths over the switches, with every equally short next hop.

Deterministic: the same topology and the same failures give the same result on every machine, and
ports are always in ascending order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Set
from dataclasses import dataclass
from types import MappingProxyType

from topologies.model import Link, Topology


@dataclass(frozen=True)
class Paths:
    """`ports[switch][destination]`: ports of all shortest paths towards a destination switch."""

    ports: Mapping[str, Mapping[str, tuple[int, ...]]]

    def towards(self, switch: str, destination: str) -> tuple[int, ...]:
        """Return the ports at `switch` that lead to `destination`; empty if none does."""
        return self.ports[switch].get(destination, ())


def shortest_paths(topology: Topology, down: Set[Link] = frozenset()) -> Paths:
    """Compute paths by hop count from every switch to every switch, without the links in `down`."""
    neighbours: dict[str, list[tuple[int, str]]] = {}
    for switch in topology.switches:
        neighbours[switch.name] = [
            (port.number, port.peer.node)
            for port in topology.ports_of(switch.name)
            if port.link not in down and topology.is_switch(port.peer.node)
        ]
    table: dict[str, dict[str, tuple[int, ...]]] = {name: {} for name in neighbours}
    for destination in neighbours:
        distance = _distances(destination, neighbours)
        for name, links in neighbours.items():
            if name == destination or name not in distance:
                continue
            closer = distance[name] - 1
            ports = tuple(port for port, peer in links if distance.get(peer) == closer)
            table[name][destination] = ports
    return Paths(MappingProxyType(table))


def _distances(source: str, neighbours: Mapping[str, list[tuple[int, str]]]) -> dict[str, int]:
    distance = {source: 0}
    queue = deque([source])
    while queue:
        here = queue.popleft()
        for _, peer in neighbours[here]:
            if peer not in distance:
                distance[peer] = distance[here] + 1
                queue.append(peer)
    return distance
