"""How far hosts of a fabric are apart, without queues, for mechanisms that need one for all."""

from __future__ import annotations

from controller.leaf_routes import Routes
from topologies.kept import kept
from topologies.model import Topology


@kept
def longest_round_trip_ps(topology: Topology) -> int:
    """Return the longest round trip between two hosts without queues, in fabric picoseconds."""
    routes = Routes.of(topology)
    longest = 0
    for leaf, access in zip(routes.leaves, routes.access_ps, strict=True):
        if access is None:
            continue
        for way, other in routes.ways(leaf.name).different():
            longest = max(longest, access + way.round_trip_ps + (other or 0))
    return longest


@kept
def most_hops(topology: Topology) -> int:
    """Return how many switches the shortest way between two hosts passes at most."""
    return 1 + Routes.of(topology).farthest()
