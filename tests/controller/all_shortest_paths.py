"""All shortest paths over the switches, each next hop: what controller.leaf_routes is held against.

All pairs of switches, anew for each set of failures; ports are in ascending order.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from math import inf
from types import MappingProxyType

from topologies.graph import SwitchGraph
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
    graph = SwitchGraph(topology, down)
    table: dict[str, dict[str, tuple[int, ...]]] = {name: {} for name in graph.names}
    for i, destination in enumerate(graph.names):
        distance = graph.distances[i]
        for here, name in enumerate(graph.names):
            if 0 < distance[here] < inf:
                closer = distance[here] - 1
                table[name][destination] = tuple(
                    port for port, peer, _ in graph.neighbours[here] if distance[peer] == closer
                )
    return Paths(MappingProxyType(table))
