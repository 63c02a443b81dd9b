"""Who shares the busiest links: queue pairs are moved until the slowest connection is fastest.

Where links are down, some of the others carry one queue pair more. A connection whose messages are
striped as its queue pairs drain is as fast as all of them together, so what counts is how many of
them are on such links. A queue pair that is on two of them, at its leaf and at its target's, has
its window in two queues and gets about half of what others get. The loops are C (`core/even.c`).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mechanisms.iglb.cut import SAME
from mechanisms.iglb.demand import Demand
from mechanisms.iglb.fabric import Floats, Ints
from mechanisms.iglb.native import Lent, native
from mechanisms.iglb.search import FAR, Network

Bools = npt.NDArray[np.bool_]
BUDGET = 300
"""Tries to help the slowest connection: some 0.7 ms each where leaves have 32 uplinks."""


def can_even(demand: Demand) -> bool:
    """Say whether connections have several queue pairs, and jobs one phase."""
    return (
        len(demand) > 0
        and bool((np.diff(demand.starts) <= 1).all())
        and demand.connections < len(demand)
    )


def even(network: Network, demand: Demand, arcs: Ints, movable: Bools, floor: float) -> Ints:
    """Return paths with those of movable flows changed. `floor`: seconds that are good enough."""
    sent = network.sent(demand)
    source, target = sent.source, sent.target
    movable = movable & (arcs[:, 0] >= 0)
    rows, row = np.unique(target[movable], return_inverse=True)
    if not len(rows):
        return arcs
    hops = network.hops(rows)
    of_flow = np.zeros(len(demand), dtype=np.int64)
    of_flow[movable] = row
    movable &= hops[of_flow, source] < FAR
    path = np.ascontiguousarray(network.to_path(arcs))  # C writes into it
    tries = min(BUDGET, 4 * int(movable.sum()))
    lent = Lent()
    flows = native().ffi.new(
        "iglb_flows *",
        {
            **sent.fields,
            "width": path.shape[1],
            "row": lent(of_flow, "int32_t"),
            "hops": lent(hops, "uint16_t"),
            "movable": lent(movable, "uint8_t"),
            "path": lent(path, "int32_t"),
        },
    )
    number, count = lent(demand.connection, "int32_t"), demand.connections
    if native().lib.iglb_even(network.net, flows, number, count, floor, tries) < 0:
        raise MemoryError
    found = arcs.copy()
    found[movable] = network.from_path(path[movable])
    return found


def rates(network: Network, demand: Demand, arcs: Ints, floor: float) -> Floats:
    """Return how fast each connection is, in its own bits a second; 0 for one without a path.

    `floor`: links that need more seconds have a queue, unless what comes through another one's is
    enough less; a flow waits in all queues on its path.
    """
    number = demand.connection
    bits = np.bincount(demand.flow, demand.bits, minlength=len(demand))
    on = arcs >= 0
    load = np.bincount(
        arcs[on], np.broadcast_to(bits[:, None], arcs.shape)[on], minlength=len(network.fabric.tail)
    )
    needs = load * network.fabric.cost
    of_hop = np.where(on, needs[arcs], 0)
    takes = of_hop.max(axis=1, initial=0)
    over = of_hop > floor * (1 + SAME)
    for flow in np.flatnonzero(over.sum(axis=1) > 1).tolist():
        queued, last = 0.0, -1
        for arc in arcs[flow][over[flow]].tolist():
            comes = needs[arc]
            if last >= 0:  # what the queue before lets through
                through = ((arcs == last).any(axis=1) & (arcs == arc).any(axis=1)) @ bits
                comes -= through * network.fabric.cost[arc] * (1 - floor / queued)
            if comes > floor * (1 + 2 * SAME):
                queued, last = queued + needs[arc], arc
        takes[flow] = max(takes[flow], queued)
    speed = np.divide(bits, takes, out=np.zeros_like(bits), where=takes > 0)
    found: Floats = np.bincount(number, speed) / np.bincount(number, bits)
    return found
