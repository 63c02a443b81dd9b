"""The switches of a topology as a graph: distances, parts, and what falls apart without what.

Hosts forward nothing, so they are no part of it. Everything is in the order of the topology's
switches and of their ports, whatever rustworkx's own order is: the same file gives the same result
on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import cached_property
from typing import TypeVar

import rustworkx as rx

from topologies.model import Link, Topology

Way = TypeVar("Way")


class SwitchGraph:
    """The switches and the links between them, without the links in `down`."""

    def __init__(self, topology: Topology, down: Set[Link] = frozenset()) -> None:
        self.names = tuple(switch.name for switch in topology.switches)
        self.index: Mapping[str, int] = {name: i for i, name in enumerate(self.names)}
        self.neighbours: tuple[tuple[tuple[int, int, Link], ...], ...] = tuple(
            tuple(
                (port.number, self.index[port.peer.node], port.link)
                for port in topology.ports_of(name)
                if port.link not in down and port.peer.node in self.index
            )
            for name in self.names
        )
        """Of each switch: (own port, the switch at its far end, the link), by ascending port."""
        self._links: dict[tuple[int, int], list[Link]] = {}
        for link in topology.links:
            ends = link.a.node, link.b.node
            if link not in down and all(name in self.index for name in ends):
                a, b = sorted(self.index[name] for name in ends)
                self._links.setdefault((a, b), []).append(link)
        self._graph: rx.PyGraph[str, None] = rx.PyGraph(multigraph=False)
        self._graph.add_nodes_from(self.names)
        self._graph.add_edges_from_no_data(list(self._links))

    @cached_property
    def distances(self) -> list[list[float]]:
        """Links between each two switches, by their places in `names`; infinite if none leads."""
        found: list[list[float]] = rx.distance_matrix(self._graph, null_value=float("inf")).tolist()
        return found

    @cached_property
    def islands(self) -> Mapping[str, int]:
        """The part of the fabric that each switch is in; parts by their first switch."""
        return self._numbered(self._graph)

    def islands_without(self, removed: str | Link) -> Mapping[str, int]:
        """Return `islands` of what is left without a switch, or without all between two."""
        rest = self._graph.copy()
        if isinstance(removed, str):
            rest.remove_node(self.index[removed])
        else:
            rest.remove_edge(self.index[removed.a.node], self.index[removed.b.node])
        return self._numbered(rest)

    def articulation_points(self) -> list[str]:
        """Return the switches without which their part falls apart."""
        return [self.names[i] for i in sorted(rx.articulation_points(self._graph))]

    def bridges(self) -> Iterator[Link]:
        """Yield the links without which their part falls apart, none of which has a twin."""
        first = {ends: number for number, ends in enumerate(self._links)}
        found = {(min(ends), max(ends)) for ends in rx.bridges(self._graph)}
        for ends in sorted(found, key=lambda ends: (ends[0], first[ends])):
            links = self._links[ends]
            if len(links) == 1:
                yield links[0]

    def best_ways(
        self,
        source: str,
        start: Way,
        longer: Callable[[Way, int, Link], Way],
        costs: Sequence[Sequence[int]],
    ) -> dict[str, Way]:
        """Return the cheapest of the shortest ways from a switch to each.

        `longer(way, switch, link)`: the way with one more link, to a switch of `names`, which costs
        what `costs` says at the place of that step in `neighbours`. Of equally cheap ways it is the
        one found first. rustworkx's searches weigh with floats, in whose rounding picoseconds are
        lost, and break ties by its own order: so not with them.
        """
        found = {self.index[source]: start}
        layer = {self.index[source]: 0}
        while layer:
            above: dict[int, int] = {}
            steps: dict[int, tuple[int, Link]] = {}
            for here, so_far in layer.items():
                for (_, there, link), step in zip(self.neighbours[here], costs[here], strict=True):
                    if there in found:
                        continue
                    cost = so_far + step
                    if there not in above or cost < above[there]:
                        above[there] = cost
                        steps[there] = here, link
            for there, (here, link) in steps.items():
                found[there] = longer(found[here], there, link)
            layer = above
        return {self.names[i]: way for i, way in found.items()}

    @staticmethod
    def _numbered(graph: rx.PyGraph[str, None]) -> dict[str, int]:
        parts = sorted(rx.connected_components(graph), key=min)
        return {graph[i]: number for number, part in enumerate(parts) for i in sorted(part)}
