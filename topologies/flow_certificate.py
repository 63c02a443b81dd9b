"""The proof of a least time, checked in numpy alone: no solver, no merged nodes.

Flows that conserve what is sent and reach their targets give an upper bound: the largest load over
capacity. Lengths give a lower one: whatever the flow, demand x shortest length <= length x capacity
x time. Where the two meet, both are the optimum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topologies.concurrent_flow import FAR, Demands, Floats, Network, Solution, hops

_ROUNDING = 1e-9


class CertificateError(Exception):
    """A flow that loses, invents or reverses something; it says what."""


@dataclass(frozen=True)
class Certificate:
    """Bounds of the least time, in the network's unit; `weight`: an arc's part in the lower one.

    `lost`: the largest amount by which a node's balance is off, relative to the largest demand.
    """

    upper: float
    lower: float
    weight: Floats
    lost: float

    @property
    def gap(self) -> float:
        """How far apart the bounds are, relative to the upper."""
        return (self.upper - self.lower) / self.upper if self.upper else 0.0


def check(network: Network, demands: Demands, solution: Solution) -> Certificate:
    """Recompute both bounds from a solution. Raises CertificateError."""
    flow, length = solution.flow, solution.length
    if (flow < 0).any() or (length < 0).any():
        raise CertificateError("a flow or a length is below 0")
    far = hops(network, demands.targets)
    onward = (far[:, network.tail] == far[:, network.head] + 1) & (far[:, network.head] < FAR)
    if (flow[~onward] > 0).any():
        raise CertificateError("flow leaves the shortest paths")
    lost = 0.0
    for row, target in enumerate(demands.targets.tolist()):
        out = np.bincount(network.tail, flow[row], minlength=network.nodes)
        into = np.bincount(network.head, flow[row], minlength=network.nodes)
        off = out - into - demands.amount[row]
        off[target] = into[target] + demands.amount[row, target] - demands.amount[row].sum()
        lost = max(lost, float(np.abs(off).max()))
    lost /= float(demands.amount.max()) or 1.0
    if lost > _ROUNDING:
        raise CertificateError(f"a node's balance is off by {lost:.1e} of the largest demand")
    upper = float((flow.sum(axis=0) / network.capacity).max(initial=0.0))
    volume = length * network.capacity
    if not volume.sum():
        return Certificate(upper, 0.0, np.zeros_like(length), lost)
    paths = 0.0
    for row, target in enumerate(demands.targets.tolist()):
        distance = np.full(network.nodes, np.inf)
        distance[target] = 0.0
        arcs = np.flatnonzero(onward[row])
        step = far[row, network.tail[arcs]]
        for layer in range(1, int(step.max(initial=0)) + 1):
            on = arcs[step == layer]
            np.minimum.at(distance, network.tail[on], length[on] + distance[network.head[on]])
        sent = demands.amount[row] > 0
        paths += float(demands.amount[row, sent] @ distance[sent])
    return Certificate(upper, paths / float(volume.sum()), volume / volume.sum(), lost)
