"""Collectives: who sends how much, and that nothing ends before it can."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from workloads.collectives import (
    Template,
    all_to_all,
    broadcast_ring,
    broadcast_tree,
    incast,
    pieces,
    pipeline,
    ring,
    stage_order,
    tree,
    tree_parent,
)
from workloads.hierarchical import hierarchical
from workloads.job_schema import AllReduceEntry, JobEntry, PipelineEntry
from workloads.limits import collective_messages

SIZE = 1_000_003


def sent(template: Template) -> list[int]:
    """Return how many bytes each rank sends."""
    return [int(template.bytes[template.source == r].sum()) for r in range(template.ranks)]


def received(template: Template) -> list[int]:
    """Return how many bytes each rank receives."""
    return [int(template.bytes[template.target == r].sum()) for r in range(template.ranks)]


def known(template: Template) -> list[set[int]]:
    """Return whose beginning each rank's end waits for: what it may know of."""
    before: list[list[int]] = [[] for _ in range(len(template))]
    for earlier, later in zip(*template.edges, strict=True):
        before[later].append(int(earlier))
    begun: list[set[int]] = [set() for _ in range(len(template))]
    for message, rank in zip(*template.heads, strict=True):
        begun[message].add(int(rank))
    done: dict[int, set[int]] = {}
    todo = list(range(len(template)))
    while todo:
        ready = [m for m in todo if all(e in done for e in before[m])]
        assert ready, "messages wait for each other in a circle"
        for message in ready:
            done[message] = begun[message].union(*(done[e] for e in before[message]))
        todo = [m for m in todo if m not in done]
    ends: list[set[int]] = [set() for _ in range(template.ranks)]
    for message, rank in zip(*template.ends, strict=True):
        ends[rank] |= done[int(message)]
    return ends


def everyone(ranks: int) -> list[set[int]]:
    return [set(range(ranks))] * ranks


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("ranks", [2, 3, 8, 13])
def test_a_ring_moves_what_the_formula_says(ranks: int, channels: int) -> None:
    allreduce = ring(ranks, SIZE, 2 * (ranks - 1), channels)
    allgather = ring(ranks, SIZE, ranks - 1, channels)
    assert len(allreduce) == channels * ranks * 2 * (ranks - 1)
    assert sum(sent(allreduce)) == 2 * (ranks - 1) * SIZE
    assert sum(sent(allgather)) == (ranks - 1) * SIZE
    for total in sent(allreduce) + received(allreduce):
        assert abs(total - 2 * (ranks - 1) * SIZE / ranks) <= 2 * channels
    assert known(allreduce) == everyone(ranks)
    assert known(allgather) == everyone(ranks)


@pytest.mark.parametrize("ranks", [2, 3, 4, 7, 8, 16, 21])
def test_two_trees_reduce_everything_and_share_the_load(ranks: int) -> None:
    found = tree(ranks, SIZE, chunk=200_000)
    assert sum(sent(found)) == 2 * (ranks - 1) * SIZE
    assert known(found) == everyone(ranks)
    # Inner in one tree, a leaf in the other: 3 halves in the one and 1 in the other, each way.
    assert max(sent(found)) <= 2 * SIZE + 2
    assert tree(ranks, SIZE, 200_000, channels=2).channel.max() == 1


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(("ranks", "inside"), [(4, 2), (6, 3), (12, 4), (32, 16), (24, 8)])
def test_a_hierarchy_sends_only_reduced_pieces_across(
    ranks: int, inside: int, channels: int
) -> None:
    found = hierarchical(ranks, inside, SIZE, channels)
    places = ranks // inside
    far = found.source // inside != found.target // inside
    assert known(found) == everyone(ranks)
    assert int(found.bytes[far].sum()) == places * (places - 1) * SIZE
    assert int(found.bytes[~far].sum()) == places * 2 * (inside - 1) * SIZE
    assert (found.source[far] % inside == found.target[far] % inside).all()
    assert (
        len(found)
        == collective_messages(
            JobEntry.model_validate({"ranks": ranks, "phases": [{"compute": "1us"}]}),
            AllReduceEntry(bytes="1MB", algorithm="hierarchical", inside=inside, channels=channels),
            ranks,
        )
        - ranks
    )  # barriers


def test_what_crosses_is_reduced_and_what_goes_round_has_crossed() -> None:
    """Before a piece crosses, it has been at all ranks of its place; behind it come all places."""
    found = hierarchical(12, 4, SIZE)
    begun: list[set[int]] = [set() for _ in range(len(found))]
    for message, rank in zip(*found.heads, strict=True):
        begun[message].add(int(rank))
    waiting: list[list[int]] = [[] for _ in range(len(found))]
    for earlier, later in zip(*found.edges, strict=True):
        waiting[later].append(int(earlier))

    def behind(message: int) -> set[int]:
        return begun[message].union(*(behind(each) for each in waiting[message]))

    far = np.flatnonzero(found.source // 4 != found.target // 4)
    for message in far.tolist():
        place = int(found.source[message]) // 4
        assert behind(message) == set(range(4 * place, 4 * place + 4))
    after = [int(later) for earlier, later in zip(*found.edges, strict=True) if earlier in far]
    assert after and all(behind(message) == set(range(12)) for message in after)


@pytest.mark.parametrize("shape", [broadcast_ring, broadcast_tree])
@pytest.mark.parametrize("ranks", [2, 3, 4, 7, 16])
def test_broadcast_gives_each_rank_the_roots_bytes_once(
    ranks: int, shape: Callable[..., Template]
) -> None:
    root = ranks // 2
    found = shape(ranks, SIZE, root, 200_000, 2)
    assert received(found) == [SIZE * (rank != root) for rank in range(ranks)]
    assert sent(found)[root] == SIZE
    assert max(sent(found)) <= 1.01 * SIZE * (1 if shape is broadcast_ring else 1.5)
    assert all(root in of for of in known(found))
    for rank in range(ranks):  # nothing is passed on before it has come
        passed = np.flatnonzero((found.source == rank) & (rank != root))
        assert np.isin(passed, found.edges[1]).all()


@pytest.mark.parametrize("count", [2, 5, 8, 100])
def test_a_tree_is_one(count: int) -> None:
    parents = [tree_parent(place, count) for place in range(count)]
    assert parents[0] == -1
    children = [parents.count(place) for place in range(count)]
    assert max(children) <= 2
    for place in range(count):
        steps = 0
        while place:
            place, steps = parents[place], steps + 1
        assert steps <= count.bit_length()


@pytest.mark.parametrize(("fraction", "peers"), [(1, 15), (2, 8), (8, 2)])
def test_all_to_all_goes_to_one_in_so_many(fraction: int, peers: int) -> None:
    found = all_to_all(16, SIZE, fraction)
    assert sent(found) == received(found) == [SIZE] * 16
    for rank in range(16):
        targets = found.target[found.source == rank].tolist()
        assert len(set(targets)) == len(targets) == peers
        assert rank not in targets
    windowed = all_to_all(16, SIZE, fraction, window=1)
    assert len(windowed.heads[0]) == 16
    assert len(windowed.edges[0]) == (peers - 1) * 16
    split = all_to_all(16, SIZE, fraction, channels=2)
    assert (len(split), sent(split)) == (2 * len(found), sent(found))


def test_incast_goes_to_the_root() -> None:
    found = incast(5, 100, root=2)
    assert received(found) == [0, 0, 400, 0, 0]
    assert sent(found) == [100, 100, 0, 100, 100]
    assert known(found)[2] == {0, 1, 3, 4}


def test_stages_take_turns() -> None:
    def order(stage: int, schedule: str) -> str:
        return " ".join(f"{kind}{i}" for kind, i in stage_order(stage, 3, 4, schedule))

    assert order(0, "1f1b") == "F0 F1 F2 B0 F3 B1 B2 B3"
    assert order(2, "1f1b") == "F0 B0 F1 B1 F2 B2 F3 B3"
    assert order(1, "gpipe") == "F0 F1 F2 F3 B0 B1 B2 B3"


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
def test_a_pipeline_waits_for_what_it_needs(schedule: str) -> None:
    entry = PipelineEntry(
        bytes="1kB", microbatches=5, forward="1us", backward="2us", schedule=schedule
    )
    found = pipeline(4, entry)
    assert sent(found) == [5000, 10000, 10000, 5000]
    assert known(found) == everyone(4)
    computing = found.bytes == 0
    assert (found.source[computing] == found.target[computing]).all()
    assert int(found.gap_ps.sum()) == 4 * 5 * 3_000_000
    assert (found.gap_ps[~computing] == 0).all()


def test_pieces_differ_by_one_byte_at_most() -> None:
    assert pieces(10, 4).tolist() == [3, 3, 2, 2]
    assert np.array_equal(pieces(8, 4), [2, 2, 2, 2])
