"""The best that any split of flows over shortest paths could do: the linear program's bound.

At any time each job is in one phase. For phases that can be under way together, the program of
`topologies.concurrent_flow` gives the least time in which the links between switches can carry
them, and `topologies.flow_certificate` proves it without the solver. The largest of these is a
bound of the plan; which phases are asked about changes how close it is, not that it holds.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mechanisms.iglb.cut import SAME
from mechanisms.iglb.demand import Demand
from mechanisms.iglb.fabric import Fabric, Floats, Ints, sums
from mechanisms.iglb.loads import loads, on_arcs
from mechanisms.iglb.plan import Plan, Proof
from mechanisms.iglb.planner import Planner
from topologies.concurrent_flow import Demands, Network, TooLargeError, solve
from topologies.flow_certificate import Certificate, check

MOST_PROGRAMS = 8
"""Programs solved for one plan, the phases that need most time first."""
PART = 1e-3
"""Links with a smaller part in the proof are not named."""


def prove(plan: Plan, planner: Planner) -> Proof:
    """Return the plan's proof by the linear program, or the one that it has where that is the best.

    `planner`: the one that made the plan. Where the program would be too large the proof is by the
    cut, and says so. Raises CertificateError if the solver's answer does not hold.
    """
    fabric, demand = planner.fabric, planner.demand(plan.jobs)
    best = plan.proof
    if best.planned_s <= best.bound_s * (1 + SAME):
        return best
    carried = np.ones(len(demand), dtype=bool)
    carried[plan.lost] = False
    for longest, columns in _phases(fabric, demand, plan.arcs):
        if longest <= best.bound_s * (1 + SAME):
            break
        try:
            found, arcs = least_time(fabric, demand, columns, np.flatnonzero(carried))
        except TooLargeError:
            break
        if best.kind != "linear program" or found.lower > best.bound_s:
            on = np.argsort(-found.weight, kind="stable")
            named = [fabric.says(int(arcs[i])) for i in on if found.weight[i] > PART]
            binding = tuple(named) if found.lower > best.bound_s else best.binding
            bound = max(found.lower, best.bound_s)
            best = Proof(best.planned_s, bound, "linear program", binding, best.unsplit_s)
    return best


def least_time(
    fabric: Fabric, demand: Demand, columns: Ints, flows: Ints
) -> tuple[Certificate, Ints]:
    """Return the certified least time of phases under way together, in s, and the arcs it is about.

    Only of links between switches. Raises TooLargeError, UnreachableError, CertificateError.
    """
    arcs = np.flatnonzero(fabric.inside & (fabric.rate > 0))
    network = Network(fabric.switches, fabric.tail[arcs], fabric.head[arcs], fabric.rate[arcs])
    demands = _demands(fabric, demand, columns, flows)
    return check(network, demands, solve(network, demands)), arcs


def _demands(fabric: Fabric, demand: Demand, columns: Ints, flows: Ints) -> Demands:
    entry = np.flatnonzero(np.isin(demand.column, columns) & np.isin(demand.flow, flows))
    source = fabric.leaf[demand.source[demand.flow[entry]]]
    target = fabric.leaf[demand.target[demand.flow[entry]]]
    entry, source, target = (each[source != target] for each in (entry, source, target))
    targets, row = np.unique(target, return_inverse=True)
    nodes = fabric.switches
    amount = sums(row * nodes + source, demand.bits[entry], len(targets) * nodes)
    return Demands(targets, amount.reshape(len(targets), nodes))


def _phases(fabric: Fabric, demand: Demand, arcs: Ints) -> Iterator[tuple[float, Ints]]:
    """Yield phases that can be under way together, at most one of each job, longest first.

    With each the seconds that links need for them as they are planned, which no bound of them
    passes. Of one job all its phases are there, as far as programs are; of several those that meet
    on the busiest link, and each job's longest.
    """
    if len(demand.starts) == 2:
        times = [
            (_planned(fabric, demand, arcs, np.array([column])), -column)
            for column in range(demand.columns)
        ]
        seen: set[bytes] = set()
        for planned, last in sorted(times, reverse=True):
            sent = _signature(fabric, demand, -last)
            if sent not in seen and len(seen) < MOST_PROGRAMS:
                seen.add(sent)
                yield planned, np.array([-last])
        return
    busiest = int((loads(demand, arcs, len(fabric.tail)) * fabric.cost).argmax())
    arc, column, bits = on_arcs(demand, arcs)
    there = sums(column[arc == busiest], bits[arc == busiest], demand.columns)
    every = sums(demand.column, demand.bits, demand.columns)
    picks = [_longest(demand, there + every * 1e-12), _longest(demand, every)]
    for columns in picks[: 1 + bool((picks[0] != picks[1]).any())]:
        yield _planned(fabric, demand, arcs, columns), columns


def _longest(demand: Demand, bits: Floats) -> Ints:
    pairs = zip(demand.starts, demand.starts[1:], strict=False)
    return np.array([a + int(bits[a:b].argmax()) for a, b in pairs if b > a], dtype=np.int64)


def _planned(fabric: Fabric, demand: Demand, arcs: Ints, columns: Ints) -> float:
    """Return the seconds that links need for these phases together."""
    arc, column, bits = on_arcs(demand, arcs)
    on = np.isin(column, columns)
    return float((sums(arc[on], bits[on], len(fabric.tail)) * fabric.cost).max(initial=0.0))


def _signature(fabric: Fabric, demand: Demand, column: int) -> bytes:
    """Return a key that distinguishes phases with different amounts between leaves."""
    entry = np.flatnonzero(demand.column == column)
    flow = demand.flow[entry]
    source, target = fabric.leaf[demand.source[flow]], fabric.leaf[demand.target[flow]]
    key, place = np.unique(source * fabric.switches + target, return_inverse=True)
    amounts = sums(place, demand.bits[entry], len(key))
    return bytes(key.tobytes()) + bytes(amounts.tobytes())
