"""How long the longest round trip of a fabric takes without queues, for algorithms that aim at it.

There and back by the slowest of the shortest ways between any two hosts: propagation, the
latencies of switches, and on each hop there the time in which a packet of the MTU is whole. What an
acknowledgement takes to be whole is left out.
"""

from __future__ import annotations

from controller.leaf_routes import Routes
from topologies.kept import kept
from topologies.model import PS_PER_NS, Topology


@kept
def base_round_trip_ns(topology: Topology) -> int:
    """Return it in ns of the fabric, rounded up; 0 of a fabric with fewer than two hosts."""
    routes = Routes.of(topology)
    longest = 0
    for leaf, near_ps in zip(routes.leaves, routes.access_ps, strict=True):
        if near_ps is None:
            continue
        ways = routes.ways(leaf.name)
        for way, far_ps in ways.different():
            if far_ps is not None and (way.ports or len(leaf_hosts(topology, leaf.name)) > 1):
                longest = max(longest, near_ps + way.round_trip_ps + far_ps)
    return -(-longest // PS_PER_NS)


def leaf_hosts(topology: Topology, leaf: str) -> tuple[str, ...]:
    """Return the hosts' interfaces at a leaf by their hosts' names."""
    return tuple(each.host for each in topology.interfaces_of(leaf))
