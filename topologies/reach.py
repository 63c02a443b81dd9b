"""Who can reach whom over the switches, and through which of them.

Distances are counted in links between switches. Hosts forward nothing: two planes that share only
hosts do not meet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from math import isfinite

from topologies.graph import SwitchGraph
from topologies.model import Host, Interface, Topology


class Reach:
    """Reachability in one topology; what was computed is kept."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self._distances: dict[str, Mapping[str, int]] = {}

    @cached_property
    def _graph(self) -> SwitchGraph:
        return SwitchGraph(self.topology)

    @property
    def islands(self) -> Mapping[str, int]:
        """The part of the fabric that each switch is in: switches that meet share a number."""
        return self._graph.islands

    def distances(self, source: str) -> Mapping[str, int]:
        """Return how many links each switch that can be reached is away from `source`."""
        if source not in self._distances:
            row = self._graph.distances[self._graph.index[source]]
            self._distances[source] = {
                name: int(distance)
                for name, distance in zip(self._graph.names, row, strict=True)
                if isfinite(distance)
            }
        return self._distances[source]

    def layers(self, source: str, destination: str) -> tuple[tuple[str, ...], ...]:
        """Return the switches between two others on shortest paths, by distance from `source`."""
        there, back = self.distances(source), self.distances(destination)
        length = there.get(destination)
        if length is None:
            return ()
        return tuple(
            tuple(
                switch.name
                for switch in self.topology.switches
                if there.get(switch.name) == at and back.get(switch.name) == length - at
            )
            for at in range(1, length)
        )

    def meet(self, a: Interface, b: Interface) -> bool:
        """Say whether two interfaces can exchange packets over the fabric."""
        return self.islands[a.switch] == self.islands[b.switch]

    def hosts_meet(self, a: Host, b: Host) -> bool:
        """Say whether any interface of a host can reach any of another."""
        islands = {self.islands[interface.switch] for interface in a.interfaces}
        return any(self.islands[interface.switch] in islands for interface in b.interfaces)

    def networks_beyond(self, interface: Interface) -> Iterator[str]:
        """Yield the networks, `10.0.1.0/24`, that an interface reaches through its gateway."""
        island = self.islands[interface.switch]
        for switch in self.topology.switches:
            if switch.gateway is None or switch.name == interface.switch:
                continue
            if self.islands[switch.name] == island:
                yield str(switch.gateway.network)
