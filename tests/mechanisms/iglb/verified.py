"""Paths held against the fabric alone: what a planner's tests and its bench ask of every plan."""

from __future__ import annotations

import heapq

import numpy as np

from mechanisms.iglb.demand import Demand
from mechanisms.iglb.fabric import Fabric, Floats, Ints


def broken(fabric: Fabric, demand: Demand, arcs: Ints) -> Ints:
    """Return the flows whose arcs do not lead from their source's switch to their target's.

    An arc that is down leads nowhere. Flows without arcs are left out if they are within a switch.
    """
    at = fabric.leaf[demand.source].copy()
    wrong = np.zeros(len(demand), dtype=bool)
    for hop in range(arcs.shape[1]):
        on = np.flatnonzero(arcs[:, hop] >= 0)
        arc = arcs[on, hop]
        wrong[on] |= (fabric.tail[arc] != at[on]) | (fabric.rate[arc] <= 0)
        at[on] = fabric.head[arc]
    return np.flatnonzero(wrong | (at != fabric.leaf[demand.target]))


def most_flows(fabric: Fabric, arcs: Ints) -> int:
    """Return how many flows share the fullest arc."""
    return int(np.bincount(arcs[arcs >= 0], minlength=1).max())


def shortest(fabric: Fabric, source: int, target: int) -> int:
    """Return the least number of arcs between two switches over what is up; -1 where none leads."""
    far, todo = {source: 0}, [(0, source)]
    while todo:
        steps, node = heapq.heappop(todo)
        if node == target:
            return steps
        up = np.flatnonzero((fabric.tail == node) & fabric.inside & (fabric.rate > 0))
        for there in fabric.head[up].tolist():
            if there not in far:
                far[there] = steps + 1
                heapq.heappush(todo, (steps + 1, there))
    return -1


def seconds(fabric: Fabric, demand: Demand, arcs: Ints) -> Floats:
    """Return what each arc needs, counted flow by flow: over jobs the sum, over phases the most."""
    cells = np.zeros((len(fabric.tail), demand.columns))
    for flow, column, bits in zip(demand.flow, demand.column, demand.bits, strict=True):
        for arc in arcs[flow][arcs[flow] >= 0]:
            cells[arc, column] += bits
    found = np.zeros(len(fabric.tail))
    for a, b in zip(demand.starts, demand.starts[1:], strict=False):
        found += cells[:, a:b].max(axis=1, initial=0.0)
    return found * fabric.cost
