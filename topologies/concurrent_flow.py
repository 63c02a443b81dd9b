"""Maximum concurrent flow over shortest paths: the least time in which demands can all be carried.

A linear program (Shahrokhi and Matula, JACM 1990) in arcs: for each destination, flow on the arcs
that come one link nearer to it; minimise T so that no arc carries more than its capacity times T.
Nodes that are alike but for a factor (the spines of a leaf-spine fabric, the cores of one group of
a fat tree) are solved as one, which changes no optimum: their flows may be shared out in proportion
to capacity. What comes back is for the whole network, and holds whatever the solver did: flows are
made from the solver's shares by pushing the demands through, and any lengths give a lower bound.
`flow_certificate` checks both without solver and without merging.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

GAP = 1e-6
"""What certified means: upper and lower bound differ by no more, relatively."""
MOST_VARIABLES = 2_000_000
FAR = 1 << 30


class UnreachableError(Exception):
    """A demand between nodes that no path joins: `source` and `target` are nodes."""

    def __init__(self, source: int, target: int) -> None:
        self.source, self.target = source, target
        super().__init__(f"no path leads from node {source} to node {target}")


class TooLargeError(Exception):
    """More variables than the program takes."""


@dataclass(frozen=True)
class Network:
    """Arcs between `nodes` nodes; capacities are above 0, in any unit of demand per time."""

    nodes: int
    tail: Ints
    head: Ints
    capacity: Floats


@dataclass(frozen=True)
class Demands:
    """What each node sends to each target: `amount[i, node]` to `targets[i]`, >= 0."""

    targets: Ints
    amount: Floats


@dataclass(frozen=True)
class Solution:
    """`flow[i, arc]` towards target i, and an arc's `length` >= 0: the two halves of a proof."""

    flow: Floats
    length: Floats


def hops(network: Network, targets: Ints) -> Ints:
    """Return how many arcs each node is away from each target (rows); FAR where none leads."""
    far = np.full((len(targets), network.nodes), FAR, dtype=np.int64)
    far[np.arange(len(targets)), targets] = 0
    while True:
        step = far[:, network.head] + 1
        before = far.copy()
        for row, nearer in zip(far, step, strict=True):
            np.minimum.at(row, network.tail, nearer)
        np.minimum(far, FAR, out=far)
        if (before == far).all():
            return far


def shortest_arcs(network: Network, targets: Ints) -> npt.NDArray[np.bool_]:
    """Return which arcs are on shortest paths to each target (rows)."""
    far = hops(network, targets)
    nearer: npt.NDArray[np.bool_] = (far[:, network.tail] == far[:, network.head] + 1) & (
        far[:, network.head] < FAR
    )
    return nearer


def solve(network: Network, demands: Demands) -> Solution:
    """Return flows and lengths of the least time. Raises UnreachableError, TooLargeError."""
    far = hops(network, demands.targets)
    for row, node in zip(*np.nonzero((demands.amount > 0) & (far >= FAR)), strict=True):
        raise UnreachableError(int(node), int(demands.targets[row]))
    merged, arc_of = _merge(network, demands)
    flow, price = _program(merged, demands)
    share = network.capacity / merged.capacity[arc_of]
    length = price[arc_of]
    nearer = shortest_arcs(network, demands.targets)
    weights = np.where(nearer, np.maximum(flow, 0)[:, arc_of] * share, 0.0)
    return Solution(push(network, demands, far, nearer, weights), np.maximum(length, 0))


def push(
    network: Network, demands: Demands, far: Ints, nearer: npt.NDArray[np.bool_], weights: Floats
) -> Floats:
    """Return the demands' flows, split at each node by weights; by capacity where all are 0."""
    flow = np.zeros_like(weights)
    for row, target in enumerate(demands.targets.tolist()):
        at = demands.amount[row].copy()
        at[target] = 0.0
        usable = np.flatnonzero(nearer[row])
        distance = far[row, network.tail[usable]]
        for step in range(int(distance.max(initial=0)), 0, -1):
            arcs = usable[distance == step]
            tails = network.tail[arcs]
            weight = weights[row, arcs]
            total = np.bincount(tails, weight, minlength=network.nodes)
            idle = total[tails] <= 1e-12 * np.maximum(at[tails], 1e-300)
            weight = np.where(idle, network.capacity[arcs], weight)
            total = np.bincount(tails, weight, minlength=network.nodes)
            flow[row, arcs] = at[tails] * (weight / total[tails])
            at += np.bincount(network.head[arcs], flow[row, arcs], minlength=network.nodes)
    return flow


def _merge(network: Network, demands: Demands) -> tuple[Network, Ints]:
    """Return the network with nodes that are alike made one, and each arc's number there."""
    ends = np.zeros(network.nodes, dtype=bool)
    ends[demands.targets] = True
    ends |= (demands.amount > 0).any(axis=0)
    around: list[dict[int, list[int]]] = [{} for _ in range(network.nodes)]
    arcs = zip(network.tail.tolist(), network.head.tolist(), network.capacity, strict=True)
    for tail, head, capacity in arcs:
        around[tail].setdefault(head, [0, 0])[0] += round(capacity)
        around[head].setdefault(tail, [0, 0])[1] += round(capacity)
    known: dict[object, int] = {}
    node = np.arange(network.nodes)
    for each in np.flatnonzero(~ends).tolist():
        common = gcd(*(rate for pair in around[each].values() for rate in pair)) or 1
        key = tuple(sorted((to, a // common, b // common) for to, (a, b) in around[each].items()))
        node[each] = known.setdefault(key, each)
    pairs, arc_of = np.unique(
        node[network.tail] * network.nodes + node[network.head], return_inverse=True
    )
    together: Floats = np.bincount(arc_of, network.capacity).astype(np.float64)
    tail, head = np.divmod(pairs, network.nodes)
    return Network(network.nodes, tail, head, together), arc_of


def _program(network: Network, demands: Demands) -> tuple[Floats, Floats]:
    """Return the linear program's flows (targets x arcs) and prices of arcs, by HiGHS."""
    import highspy  # for this alone: a tenth of a second

    nearer = shortest_arcs(network, demands.targets) & _fed(network, demands)
    row, arc = np.nonzero(nearer)
    if len(row) > MOST_VARIABLES:
        raise TooLargeError(f"{len(row)} variables; the program takes {MOST_VARIABLES}")
    unit, rate = demands.amount.max(), network.capacity.max()
    count, arcs = len(row), len(network.tail)
    # Rows: capacity of each arc, then a balance of each node that a target's flow passes.
    places = row * network.nodes
    from_row, to_row = places + network.tail[arc], places + network.head[arc]
    balances = np.unique(np.concatenate([from_row, np.flatnonzero(demands.amount > 0)]))
    passes = np.isin(to_row, balances)
    index = [arc, arcs + np.searchsorted(balances, from_row)]
    columns = [np.arange(count), np.arange(count)]
    values = [np.ones(count), np.ones(count)]
    index.append(arcs + np.searchsorted(balances, to_row[passes]))
    columns.append(np.flatnonzero(passes))
    values.append(-np.ones(passes.sum()))
    index.append(np.arange(arcs))
    columns.append(np.full(arcs, count))
    values.append(-network.capacity / rate)
    column = np.concatenate(columns)
    order = np.argsort(column, kind="stable")
    supply = demands.amount.ravel()[balances] / unit
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = count + 1, arcs + len(balances)
    lp.col_cost_ = np.append(np.zeros(count), 1.0)
    lp.col_lower_ = np.zeros(count + 1)
    lp.col_upper_ = np.full(count + 1, highspy.kHighsInf)
    lp.row_lower_ = np.append(np.full(arcs, -highspy.kHighsInf), supply)
    lp.row_upper_ = np.append(np.zeros(arcs), supply)
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    starts = np.zeros(count + 2, dtype=np.int32)
    np.cumsum(np.bincount(column, minlength=count + 1), out=starts[1:])
    lp.a_matrix_.start_ = starts
    lp.a_matrix_.index_ = np.concatenate(index)[order].astype(np.int32)
    lp.a_matrix_.value_ = np.concatenate(values)[order]
    make: Any = highspy.Highs  # its annotations are not complete
    with _quiet():
        solver = make()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    if count > 5000:
        solver.setOptionValue("solver", "ipm")
        solver.setOptionValue("ipm_optimality_tolerance", 1e-9)
        solver.setOptionValue("run_crossover", "off")
    solver.passModel(lp)
    solver.run()
    found = solver.getSolution()
    flow = np.zeros((len(demands.targets), arcs))
    flow[row, arc] = np.array(found.col_value)[:count] * unit
    return flow, np.abs(np.array(found.row_dual)[:arcs])


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep what a library prints by itself off the standard output: HiGHS names its version."""
    sys.stdout.flush()
    kept, nothing = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nothing, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nothing)


def _fed(network: Network, demands: Demands) -> npt.NDArray[np.bool_]:
    """Return which arcs some demand can reach on its shortest paths (targets x arcs)."""
    nearer = shortest_arcs(network, demands.targets)
    reached = demands.amount > 0
    while True:
        before = int(reached.sum())
        for row, on in enumerate(nearer & reached[:, network.tail]):
            reached[row, network.head[on]] = True
        if int(reached.sum()) == before:
            found: npt.NDArray[np.bool_] = reached[:, network.tail]
            return found
