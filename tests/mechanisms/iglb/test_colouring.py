"""Edge colouring: no conflict, nothing left out, and even where colours do not suffice."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.iglb import native
from mechanisms.iglb.clos import recognise
from mechanisms.iglb.colouring import colour
from mechanisms.iglb.planner import Planner
from tests.mechanisms.iglb import fabrics


@given(st.integers(1, 70), st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_regular_multigraph_is_coloured_without_conflict(
    colours: int, nodes: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    left = np.tile(np.arange(nodes), colours)
    right = np.concatenate([rng.permutation(nodes) for _ in range(colours)])
    order = rng.permutation(len(left))
    found = colour(left[order], right[order], np.ones(len(left)), colours)
    assert found.min() >= 0 and found.max() < colours
    for end in (left[order], right[order]):
        assert len(set(zip(end.tolist(), found.tolist(), strict=True))) == len(left)


@given(st.integers(1, 8), st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=80))
def test_too_many_edges_are_spread_evenly(colours: int, edges: list[tuple[int, int]]) -> None:
    left, right = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    found = colour(left, right, np.ones(len(left)), colours)
    for end in (left, right):
        edges_of = Counter(end.tolist())
        for (node, _), count in Counter(zip(end.tolist(), found.tolist(), strict=True)).items():
            assert count <= -(-edges_of[node] // colours)


def test_heaviest_edges_of_node_get_different_colours() -> None:
    weight = np.array([1.0, 9.0, 1.0, 9.0, 9.0, 1.0])
    found = colour(np.zeros(6, dtype=np.int64), np.arange(6), weight, 3)
    assert set(found[weight > 1].tolist()) == {0, 1, 2}


def test_no_colour_is_refused_and_no_edge_needs_none() -> None:
    none = np.empty(0, dtype=np.int64)
    assert len(colour(none, none, np.empty(0), 0)) == 0
    with pytest.raises(ValueError, match="more than 0 colours"):
        colour(np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64), np.ones(1), 0)


def test_core_refuses_node_with_too_many_edges() -> None:
    lent, ends, found = native.Lent(), np.zeros(3, np.int64), np.empty(3, dtype=np.int32)
    ends_c = lent(ends, "int32_t")
    answer = native.native().lib.iglb_colour(3, ends_c, ends_c, 1, 1, 2, lent(found, "int32_t"))
    assert answer == -2


@pytest.mark.parametrize(
    "fabric",
    [
        fabrics.leaf_spine(8, 4, 4),
        fabrics.leaf_spine(8, 2, 4, parallel=2),
        fabrics.fat_tree(4),
        fabrics.fat_tree(8),
    ],
)
@given(seed=st.integers(0, 2**32 - 1), pairs=st.sampled_from([1, 2, 3, 8]))
def test_permutation_has_no_conflict(fabric: fabrics.Fabric, seed: int, pairs: int) -> None:
    assert recognise(fabric) is not None
    hosts = len(fabric.leaf)
    to = fabrics.derangement(hosts, np.random.default_rng(seed))
    plan = Planner.of(fabric).plan([fabrics.job(np.arange(hosts), to, pairs, pairs * 4096)])
    assert plan.proof.kind == "colouring"
    assert plan.proof.planned_s == pytest.approx(pairs * (4096 + 82) * 8 / fabrics.RATE)
    assert not len(plan.lost)
