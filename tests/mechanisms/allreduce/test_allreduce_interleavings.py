"""No interleaving of a small AllReduce has a wrong sum or gets stuck (explore.py says how)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from protocols.allreduce import TREES
from tests.mechanisms.allreduce.explore import (
    End,
    Explored,
    Search,
    SwitchNode,
    WorkerNode,
    WrongSum,
)
from tests.mechanisms.allreduce.switches import AllReduceSwitch, Membership, program
from tests.mechanisms.allreduce.worker import Worker

HOSTS = (1, 2)


def values(host: int, chunk: int) -> tuple[int, int]:
    """Return lanes of which any two sums differ, whatever is added how often."""
    return (1 << 4 * chunk + 2 * (host - 1), -(host + 10 * chunk))


def sums(chunks: int) -> list[tuple[int, int]]:
    return [
        tuple(map(sum, zip(*(values(h, c) for h in HOSTS), strict=True))) for c in range(chunks)
    ]  # type: ignore[misc]


def workers(
    slots: int, chunks: int, ends: Sequence[End], moves: Sequence[int] = (0, 0)
) -> list[WorkerNode]:
    """Return the two workers. `ends`: where each one's link ends; `moves`: how often each may."""

    def maker(host: int) -> Callable[[], Worker]:
        return lambda: Worker(1, slots, [values(host, chunk) for chunk in range(chunks)])

    return [
        WorkerNode(host, maker(host), sums(chunks), ends[host - 1], moves[host - 1])
        for host in HOSTS
    ]


def star_of(
    slots: int,
    chunks: int,
    *defines: str,
    moves: Sequence[int] = (0, 0),
    restarts: bool = False,
) -> Search:
    """Return two workers at one switch, the root of all trees."""
    members = [Membership(1, tree, HOSTS, None, 0, slots) for tree in range(TREES)]
    switch = AllReduceSwitch(
        program(2, slots, *defines), members, {host: host for host in HOSTS}, HOSTS
    )
    ends = {host: (f"h{host}", 0) for host in HOSTS}
    node = SwitchNode("a", switch, ends, restarts=restarts)
    return Search([node], workers(slots, chunks, [("a", 1), ("a", 2)], moves))


def two_levels_of(
    slots: int,
    chunks: int,
    *,
    moves: Sequence[int] = (0, 0),
    roots: Sequence[str] = ("r",),
    restarts: str = "",
) -> Search:
    """Return each worker at a leaf of its own; trees have the roots in turn.

    A leaf's port 1 is the host's, from port 2 on come the roots; a root's port is the leaf's
    number. `restarts`: a switch that does.
    """
    made = program(2, slots)
    nodes = []
    for host in HOSTS:
        ports = range(2, 2 + len(roots))
        members = [
            Membership(1, tree, (1,), ports[tree % len(roots)], 0, slots) for tree in range(TREES)
        ]
        ends = {1: (f"h{host}", 0)} | {port: (roots[port - 2], host) for port in ports}
        leaf = AllReduceSwitch(made, members, {1: host}, (1, *ports))
        name = f"a{host}"
        nodes.append(SwitchNode(name, leaf, ends, restarts=name == restarts))
    for number, root in enumerate(roots):
        trees = range(number, TREES, len(roots))
        of_root = [Membership(1, tree, HOSTS, None, 0, slots) for tree in trees]
        switch = AllReduceSwitch(made, of_root, {}, HOSTS)
        ends = {host: (f"a{host}", 2 + number) for host in HOSTS}
        nodes.append(SwitchNode(root, switch, ends, restarts=root == restarts))
    return Search(nodes, workers(slots, chunks, [("a1", 1), ("a2", 1)], moves))


def assert_sound(found: Explored, *, states: int) -> None:
    """Every state can go on, and there were so many: a search that finds less has lost some."""
    assert found.stuck == 0
    assert found.states == states


def test_three_chunks_in_each_of_two_slots() -> None:
    found = star_of(2, 6).run()
    assert_sound(found, states=529)  # 23 of each slot
    assert found.moved == 0  # time-outs alone repair whatever is lost


def test_five_chunks_in_one_slot() -> None:
    found = star_of(1, 5).run()
    assert_sound(found, states=39)
    assert found.moved == 0


@pytest.mark.parametrize("chunks", [3, 5])
def test_without_chunks_a_late_duplicate_gets_into_a_newer_round(chunks: int) -> None:
    with pytest.raises(WrongSum, match="for chunk 1"):
        star_of(1, chunks, "ALLREDUCE_WITHOUT_CHUNKS=1").run()


def test_two_levels() -> None:
    found = two_levels_of(1, 5).run()
    assert_sound(found, states=113)
    assert found.moved == 0


@pytest.mark.parametrize("restarts", ["a1", "r"])
def test_two_levels_with_a_switch_that_restarts_at_any_time(restarts: str) -> None:
    assert two_levels_of(1, 3, restarts=restarts).run().stuck == 0


def test_a_switch_that_restarts_at_any_time() -> None:
    found = star_of(2, 4, restarts=True).run()
    assert_sound(found, states=9801)
    assert found.moved > 0  # a result that only the switch had: who has it sends again after a move


def test_a_worker_that_moves_at_any_time() -> None:
    assert_sound(star_of(1, 3, moves=(1, 0)).run(), states=42065)


@pytest.mark.long
def test_a_worker_that_moves_to_another_root_at_any_time() -> None:
    assert_sound(two_levels_of(1, 2, moves=(1, 0), roots=("r", "q")).run(), states=188884)


@pytest.mark.long
def test_a_worker_that_moves_and_a_switch_that_restarts_at_any_time() -> None:
    assert_sound(star_of(1, 3, moves=(1, 0), restarts=True).run(), states=624399)
