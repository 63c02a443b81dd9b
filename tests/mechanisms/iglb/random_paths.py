"""Flows between random interfaces, each with a random one of its shortest paths."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import numpy as np
import numpy.typing as npt

from controller.leaf_routes import Routes
from topologies.model import Endpoint, Topology

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RandomFlows:
    """As plans have them: places in `topology.interfaces()`, and directions of links."""

    source: Ints
    target: Ints
    arcs: Ints
    udp_port: Ints

    def __len__(self) -> int:
        return len(self.source)


def random_flows(routes: Routes, pairs: int, queue_pairs: int, seed: int) -> RandomFlows:
    """Draw pairs of interfaces that something joins, and paths for each of their queue pairs."""
    topology, random = routes.topology, Random(seed)
    interfaces = tuple(topology.interfaces())
    arc_of = {
        (end.node, end.port): 2 * number + side
        for number, link in enumerate(topology.links)
        for side, end in enumerate((link.a, link.b))
    }
    rows: list[tuple[int, int]] = []
    paths: list[list[int]] = []
    while len(rows) < pairs * queue_pairs:
        source, target = random.sample(range(len(interfaces)), 2)
        leaf, goal = interfaces[source].switch, interfaces[target].switch
        if leaf != goal and not routes.towards(leaf, goal):
            continue  # in another plane
        for _ in range(queue_pairs):
            here, path = leaf, list[int]()
            while here != goal:
                port = random.choice(routes.towards(here, goal))
                path.append(arc_of[here, port])
                here = topology.peer(here, port).node
            rows.append((source, target))
            paths.append(path)
    arcs = np.full((len(rows), max(map(len, paths))), -1, dtype=np.int64)
    for row, path in zip(arcs, paths, strict=True):
        row[: len(path)] = path
    source, target = np.array(rows, dtype=np.int64).T
    ports = np.array([random.randrange(0xC000, 1 << 16) for _ in rows], dtype=np.int64)
    return RandomFlows(source, target, arcs, ports)


def ports_along(topology: Topology, target: int, arcs: Ints) -> tuple[tuple[str, int], ...]:
    """Return a path as `FlowPaths` does: the ports that a flow leaves switches through."""
    links = [(topology.links[arc // 2], arc % 2) for arc in arcs.tolist() if arc >= 0]
    ends = [link.b if side else link.a for link, side in links]
    interface = tuple(topology.interfaces())[target]
    last = Endpoint(interface.switch, interface.port)
    return tuple((end.node, end.port) for end in (*ends, last))
