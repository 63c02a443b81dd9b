"""Which queues can wait for which when they are paused, and whether that makes a cycle.

A queue that is paused waits until the port at the far end has room, and so for the queues in which
that port's packets wait. Where the routes of lossless traffic let this go round, every queue of the
cycle can come to wait for the next one, forever: a deadlock. Without such a cycle there is none
(Dally and Seitz, IEEE Transactions on Computers C-36, 1987; for PFC: Hu et al., HotNets 2016 and
Tagger, CoNEXT 2017). The reverse is not true: a cycle need not fill.

Routes are all shortest ways between two switches, which is what the controller's ECMP uses. Queues
that lead to hosts are left out: a host waits for nothing in the fabric.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import rustworkx as rx

from topologies.graph import SwitchGraph
from topologies.model import Endpoint, Topology

Pair = tuple[str, str]
"""The switches at which traffic enters and leaves the fabric."""


class PauseCycles:
    """Finds cycles of waiting on one topology; distances are computed once."""

    def __init__(self, topology: Topology) -> None:
        self._graph = SwitchGraph(topology)
        self._names = self._graph.names
        self._hosted = sorted({each.switch for each in topology.interfaces()})

    @cached_property
    def _distances(self) -> npt.NDArray[np.float32]:
        far = np.array(self._graph.distances, dtype=np.float32)
        far[np.isinf(far)] = np.nan  # equal to nothing, and no step from it is one
        return far

    @cached_property
    def _next(self) -> Mapping[int, Mapping[int, int]]:
        """Of each switch: the lowest port to each neighbour."""
        found: dict[int, dict[int, int]] = {}
        for here, neighbours in enumerate(self._graph.neighbours):
            for port, there, _ in neighbours:
                found.setdefault(here, {}).setdefault(there, port)
        return found

    def of_all(self) -> tuple[Endpoint, ...]:
        """Return a cycle that traffic between any two hosts can close; () if there is none."""
        return self.of(
            (source, target) for target in self._hosted for source in self._hosted
            if source != target
        )  # fmt: skip

    def of(self, pairs: Iterable[Pair]) -> tuple[Endpoint, ...]:
        """Return the ports of a cycle that traffic of these pairs can close; () if there is none.

        One cycle of those that there are, as short as any through its first queue.
        """
        return self._cycle(self._waits(pairs))

    def users(self, cycle: Sequence[Endpoint], pairs: Iterable[Pair]) -> list[Pair]:
        """Return a pair for each step of a cycle: one whose traffic waits there for the next."""
        wanted = list(dict.fromkeys(pairs))
        index, steps = self._graph.index, []
        for here, then in zip(cycle, (*cycle[1:], cycle[0]), strict=True):
            first, second = index[here.node], index[then.node]
            third = next(n for p, n, _ in self._graph.neighbours[second] if p == then.port)
            for pair in wanted:
                to = self._distances[:, index[pair[1]]]
                if self._on_way([index[pair[0]]], index[pair[1]])[first] and (
                    to[first] - 1 == to[second] == to[third] + 1
                ):
                    steps.append(pair)
                    break
        return list(dict.fromkeys(steps))

    def _on_way(self, sources: Sequence[int], target: int) -> npt.NDArray[np.bool_]:
        """Say of each switch whether it is on a shortest way from one of the sources."""
        far = self._distances
        rows = far[sources, :] + far[:, target] == far[sources, target][:, np.newaxis]
        found: npt.NDArray[np.bool_] = rows.any(axis=0)
        return found

    def _waits(self, pairs: Iterable[Pair]) -> dict[tuple[int, int], set[tuple[int, int]]]:
        """Return which queues wait for which, a queue being the two switches of its link."""
        index, sources = self._graph.index, dict[int, list[int]]()
        for source, target in pairs:
            if source != target:
                sources.setdefault(index[target], []).append(index[source])
        targets = sorted(sources)
        waits: dict[tuple[int, int], set[tuple[int, int]]] = {}
        if not targets:
            return waits
        used = np.stack([self._on_way(sources[t], t) for t in targets], axis=1)
        to = self._distances[:, targets]
        for here, neighbours in self._next.items():
            others = list(neighbours)
            step = to[others, :] - to[here, :]
            comes = (used[others, :] & (step == 1)).astype(np.float32)
            goes = (step == -1).astype(np.float32)
            for a, c in np.argwhere(comes @ goes.T > 0).tolist():
                waits.setdefault((others[a], here), set()).add((here, others[c]))
        return waits

    def _cycle(self, waits: Mapping[tuple[int, int], set[tuple[int, int]]]) -> tuple[Endpoint, ...]:
        queues = sorted({*waits, *(other for others in waits.values() for other in others)})
        number = {queue: n for n, queue in enumerate(queues)}
        graph: rx.PyDiGraph[tuple[int, int], None] = rx.PyDiGraph()
        graph.add_nodes_from(queues)
        graph.add_edges_from_no_data(
            [(number[one], number[two]) for one in waits for two in sorted(waits[one])]
        )
        knots = [min(knot) for knot in rx.strongly_connected_components(graph) if len(knot) > 1]
        if not knots:
            return ()
        return tuple(
            Endpoint(self._names[here], self._next[here][there])
            for here, there in _way_back(waits, queues[min(knots)])
        )


def _way_back(
    waits: Mapping[tuple[int, int], set[tuple[int, int]]], first: tuple[int, int]
) -> tuple[tuple[int, int], ...]:
    """Return the shortest cycle through a queue that is in one."""
    ways: deque[tuple[tuple[int, int], ...]] = deque([(first,)])
    seen = {first}
    while first not in waits.get(ways[0][-1], ()):
        way = ways.popleft()
        fresh = [other for other in sorted(waits.get(way[-1], ())) if other not in seen]
        seen.update(fresh)
        ways.extend((*way, other) for other in fresh)
    return ways[0]
