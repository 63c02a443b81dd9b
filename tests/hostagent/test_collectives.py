"""A rank's calls by a tree of switches, by the ring where it dies, and by the tree again.

rank 0, 1, 2 (threads) -- UdpSwitch, which dies and comes back; beside it the ring
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import numpy as np
import pytest

from hostagent.collective.collectives import RING_CALLS, Collectives, Connect
from hostagent.collective.handle import CollectiveError
from hostagent.collective.neighbours import listen
from hostagent.collective.ring import Ring
from tests.hostagent.udp_switch import LANES, UdpSwitch

RANKS = 3
DEADLINE_S = 60.0


def with_ranks(connect: Callable[[int], Connect | None], act: Callable[[Collectives], Any]) -> Any:
    """Let each rank act in a thread; return what each returns."""
    sockets = [listen("127.0.0.1") for _ in range(RANKS)]
    addresses = [each.getsockname() for each in sockets]

    def be(rank: int) -> Any:
        ring = Ring(rank, addresses, sockets[rank], lanes=LANES, timeout_s=DEADLINE_S)
        calls = Collectives(ring, connect(rank))
        try:
            result = act(calls)
        except BaseException:
            calls.close(together=False)
            raise
        calls.close()
        return result

    with ThreadPoolExecutor(RANKS) as pool:
        return list(pool.map(be, range(RANKS)))


def gradients(rank: int, call: int) -> Any:
    return np.random.default_rng([rank, call]).normal(0, 10, 100).astype(np.float32)


def several(calls: Collectives, count: int, before: Callable[[int], None] = lambda n: None) -> Any:
    """Make calls of all kinds; return all results' bytes, and how they were made."""
    found = []
    for number in range(count):
        before(number)
        futures = [
            calls.sum_floats(gradients(calls.rank, number)),
            calls.sum_integers(np.full(5, calls.rank - number, np.int32)),
            calls.broadcast(np.full(33, calls.rank, np.uint8), number % RANKS),
            calls.allgather(np.full(3, calls.rank, np.uint8)),
            calls.barrier(),
        ]
        found += [each.result(DEADLINE_S).tobytes() for each in futures]
    return found, calls.counts()


@pytest.fixture(scope="module")
def right() -> Any:
    """Return the ring's own results."""
    found = with_ranks(lambda rank: None, lambda calls: several(calls, 6))
    assert len({tuple(results) for results, _ in found}) == 1
    assert {counts.by_ring for _, counts in found} == {30}
    return found[0][0]


def test_the_tree_comes_to_the_same_bits_as_the_ring(right: Any) -> None:
    with UdpSwitch(RANKS) as switch:
        found = with_ranks(
            lambda rank: lambda epoch: switch.connect(rank, epoch),
            lambda calls: several(calls, 6),
        )
    for results, counts in found:
        assert results == right
        assert (counts.by_tree, counts.by_ring, counts.changes) == (30, 0, 0)
        assert counts.tree["blocks taken"] > 0  # of broadcasts and allgathers


def test_losses_change_no_bit(right: Any) -> None:
    with UdpSwitch(RANKS, loss=0.05) as switch:
        found = with_ranks(
            lambda rank: lambda epoch: switch.connect(rank, epoch, give_up_s=DEADLINE_S),
            lambda calls: several(calls, 6),
        )
    assert [results for results, _ in found] == [right] * RANKS
    assert sum(counts.tree["repeated"] for _, counts in found) > 0


def test_where_the_tree_dies_the_ring_goes_on_and_later_the_tree_again(right: Any) -> None:
    """The switch dies in the second of six rounds of calls, and is back before the last."""
    with UdpSwitch(RANKS) as switch:

        def before(number: int) -> None:
            if number == 1:
                switch.die()
            if number == 3:
                switch.revive()

        found = with_ranks(
            lambda rank: lambda epoch: switch.connect(rank, epoch, give_up_s=0.5),
            lambda calls: several(calls, 6, before if calls.rank == 0 else lambda number: None),
        )
    for results, counts in found:
        assert results == right
        assert counts.changes >= 1
        assert counts.by_ring >= RING_CALLS
        assert counts.by_tree > 5
        assert counts.by_tree + counts.by_ring == 30


def test_a_rank_that_has_nothing_to_do_hears_of_the_ring(right: Any) -> None:
    """Rank 2 pauses after the tree died; the others have to leave the tree, and wait for it."""
    waited = Event()
    with UdpSwitch(RANKS) as switch:

        def before(number: int) -> None:
            if number == 2:
                switch.die()
                waited.wait(1.5)

        found = with_ranks(
            lambda rank: lambda epoch: switch.connect(rank, epoch, give_up_s=0.5),
            lambda calls: several(calls, 6, before if calls.rank == 2 else lambda number: None),
        )
    assert [results for results, _ in found] == [right] * RANKS


def test_a_rank_that_fails_ends_the_others() -> None:
    def act(calls: Collectives) -> Any:
        calls.barrier().result(DEADLINE_S)
        if calls.rank == 1:
            raise ZeroDivisionError
        with pytest.raises(CollectiveError, match="rank"):
            calls.barrier().result(DEADLINE_S)
        with pytest.raises(CollectiveError):
            calls.barrier()

    with UdpSwitch(RANKS) as switch, pytest.raises(ZeroDivisionError):
        with_ranks(lambda rank: lambda epoch: switch.connect(rank, epoch), act)


def test_closing_twice_and_calls_after_that() -> None:
    with ThreadPoolExecutor(1) as pool:
        [calls] = pool.map(lambda _: alone(), [0])
    calls.close()
    with pytest.raises(CollectiveError, match="closed"):
        calls.barrier()
    calls.close()


def alone() -> Collectives:
    there = listen("127.0.0.1")
    return Collectives(Ring(0, [there.getsockname()], there, lanes=LANES))
