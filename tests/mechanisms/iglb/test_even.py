"""Queue pairs of a connection: who is on the links that carry one more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from mechanisms.iglb.even import even, rates
from mechanisms.iglb.fabric import Ints
from mechanisms.iglb.planner import Planner
from tests.mechanisms.iglb.fabrics import derangement, job, leaf_spine


def planner_with(down: Sequence[int], leaves: int, spines: int) -> Planner:
    planner = Planner.of(leaf_spine(leaves, spines, spines))
    return planner.with_links_down(np.asarray(down, dtype=np.int64))


def shares(planner: Planner, demand: Any, arcs: Ints, floor: float) -> Any:
    """Return how fast connections are that have a path."""
    found = rates(planner._network, demand, arcs, floor)
    return found[found > 0]


def busiest(arcs: Ints) -> int:
    return int(np.bincount(arcs[arcs >= 0]).max())


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_nobody_gets_slower_than_the_slowest_was_and_no_link_busier(seed: int) -> None:
    rng = np.random.default_rng(seed)
    planner = planner_with(rng.choice(64, 3, replace=False).tolist(), 8, 8)
    sent = job(np.arange(64), derangement(64, rng), pairs=8)
    demand, placed = planner.demand([sent]), planner.plan([sent])
    leaf = planner.fabric.leaf
    rough = placed.arcs.copy()
    pair = leaf[sent.source] * 8 + leaf[sent.target]
    for each in np.unique(pair):  # who is where is another matter than how much is where
        flows = np.flatnonzero(pair == each)
        rough[flows] = placed.arcs[rng.permutation(flows)]
    free, network = np.ones(len(sent), dtype=bool), planner._network
    better = even(network, demand, rough, free, placed.proof.bound_s)
    before, after = (
        shares(planner, demand, arcs, placed.proof.bound_s) for arcs in (rough, better)
    )
    assert len(before) == len(after) and after.min() >= before.min()
    assert busiest(better) <= busiest(rough)
    assert (planner.fabric.rate[better[better >= 0]] > 0).all(), "every path is up"
    kept = even(network, demand, rough, ~free, placed.proof.bound_s)
    assert (kept == rough).all(), "what may not move stays"


def test_what_a_leaf_has_lost_is_shared_by_all_its_hosts() -> None:
    planner = planner_with([5, 100], 16, 16)
    target = (np.arange(256) + 16) % 256  # each leaf to the next: all that is lost is needed
    placed = planner.plan([job(np.arange(256), target, pairs=8)])
    demand, bound = planner.demand(placed.jobs), placed.proof.bound_s
    assert shares(planner, demand, placed.arcs, bound).min() * bound >= 0.97
    # All that crosses the first link of a leaf without one, and as much of one host's by it.
    rough, own = placed.arcs.copy(), np.arange(16 * 8)
    crowded = rough[own[0], 0]
    others = [f for f in own if rough[f, 0] == crowded and f // 8 != 0]
    for mine, other in zip(range(1, 8), others, strict=False):
        rough[[mine, other]] = rough[[other, mine]]
    before = shares(planner, demand, rough, bound).min()
    network, free = planner._network, np.ones(len(rough), dtype=bool)
    after = shares(planner, demand, even(network, demand, rough, free, bound), bound)
    assert after.min() > before * 1.02


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_few_queue_pairs_between_leaves_that_lost_links_wait_in_two_queues(seed: int) -> None:
    """Planned by the busiest link alone the slowest connection has 0.69 to 0.80 of the bound."""
    planner = planner_with([5, 3 * 32 + 7], 8, 32)  # leaves 0 and 3
    leaf, host = np.divmod(np.arange(256), 32)
    further = np.random.default_rng(seed).integers(1, 8, 32)
    further[:4] = 3, 3, 5, 5  # two hosts of either send to the other
    target = (leaf + further[host]) % 8 * 32 + host
    placed = planner.plan([job(np.arange(256), target, pairs=8)])
    demand, bound = planner.demand(placed.jobs), placed.proof.bound_s
    assert shares(planner, demand, placed.arcs, bound).min() * bound >= 0.85


def test_connections_are_pairs_of_a_job() -> None:
    planner = planner_with([], 2, 2)
    demand = planner.demand([job(np.arange(4), np.array([2, 3, 0, 1]), pairs=3)])
    number = demand.connection
    assert [len(set(number[i * 3 : i * 3 + 3])) for i in range(4)] == [1] * 4
    assert len(set(number.tolist())) == 4
