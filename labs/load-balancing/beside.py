"""Who suffers beside an incast, and which pair of hosts is the unluckiest over many messages."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from labs import Measured
from topologies.model import Role, Topology
from workloads.model import Traffic

Times = npt.NDArray[np.float64]

LEAF, POD, ELSEWHERE = "slowest at its leaf", "slowest in its pod", "slowest elsewhere"
INCAST = "incast"
PAIR = "slowest pair"


def beside_incast(traffic: Traffic, took_us: Times, victim: str) -> dict[str, Measured]:
    """Return the slowest flow to hosts at the victim's leaf, in its pod and elsewhere, in us.

    `took_us`: how long each message took; those to the victim are the incast's.
    """
    topology = traffic.topology
    rows = traffic.messages.messages
    to = traffic.flows["dst"][rows["flow"]].astype(np.int64)
    name = np.array([host.name for host in topology.hosts])[to]
    leaf = _leaf(topology, victim)
    pod = _pod(topology, leaf)
    leaf_of = {host.name: _leaf(topology, host.name) for host in topology.hosts}
    near = np.array([leaf_of[each] == leaf for each in name])
    within = np.array([leaf_of[each] in pod for each in name])
    incast = name == victim
    groups = {LEAF: near & ~incast, POD: within & ~near, ELSEWHERE: ~within, INCAST: incast}
    return {
        metric: Measured(float(took_us[chosen].max()), "us")
        for metric, chosen in groups.items()
        if chosen.any()
    }


def _leaf(topology: Topology, host: str) -> str:
    return topology.ports_of(host)[0].peer.node


def _pod(topology: Topology, leaf: str) -> set[str]:
    """Return the leaves that share a spine with this one, itself among them."""
    spines = {
        port.peer.node for port in topology.ports_of(leaf) if topology.is_switch(port.peer.node)
    }
    peers = {port.peer.node for spine in spines for port in topology.ports_of(spine)}
    return {each for each in peers if topology.switch(each).role is Role.LEAF}


def slowest_pair(traffic: Traffic, took_us: Times) -> dict[str, Measured]:
    """Return what all messages of the unluckiest pair of hosts took together, in us."""
    flows = traffic.flows[traffic.messages.messages["flow"]]
    pair = flows["src"].astype(np.int64) * len(traffic.topology.hosts) + flows["dst"]
    _, place = np.unique(pair, return_inverse=True)
    return {PAIR: Measured(float(np.bincount(place, took_us).max()), "us")}
