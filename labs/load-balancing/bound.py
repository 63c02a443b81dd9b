"""What no choice of paths can beat: the bytes that must leave or enter each leaf, by its links."""

from __future__ import annotations

import numpy as np

from topologies.model import Endpoint, Topology
from workloads.model import Traffic
from workloads.paths import wire_bytes

US_PER_S = 1_000_000


def leaf_cut_us(traffic: Traffic) -> float:
    """Return how long the busiest leaf's links to other switches must carry, in us.

    A cut bound: the messages between each leaf and the others, headers counted, over the sum of the
    rates of its links to other switches, in the worse direction. Links count as the topology has
    them, without events. 0: no message leaves its leaf.
    """
    topology = traffic.topology
    leaves = [
        topology.link_at(host.name).other(Endpoint(host.name, 0)).node for host in topology.hosts
    ]
    names, leaf = np.unique(leaves, return_inverse=True)
    up_bps = np.array([uplinks_bps(topology, str(name)) for name in names], dtype=np.float64)
    messages = traffic.messages.messages
    flows = traffic.flows[messages["flow"]]
    size = messages["bytes"].astype(np.int64)
    wire = wire_bytes(size, flows["payload"].astype(np.int64))
    source, target = leaf[flows["src"]], leaf[flows["dst"]]
    crossing = source != target
    worst = 0.0
    for end in (source, target):
        load = np.bincount(end[crossing], wire[crossing], minlength=len(names))
        worst = max(worst, float((load * 8 / up_bps).max()))
    return worst * US_PER_S


def uplinks_bps(topology: Topology, leaf: str) -> int:
    """Return the sum of the rates of a switch's links to other switches, in bits per second."""
    ports = topology.ports_of(leaf)
    return sum(port.link.rate_bps for port in ports if topology.is_switch(port.peer.node))
