"""The ring of hosts: sums, what only moves, and what becomes of a rank that ends.

rank 0 -> rank 1 -> ... -> rank N-1 -> rank 0          over TCP, a thread a rank
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostagent.collective import block_exponents
from hostagent.collective.handle import CollectiveError
from hostagent.collective.native import native
from hostagent.collective.neighbours import PeerLostError, listen
from hostagent.collective.ring import Ring

LANES = 8
DEADLINE_S = 60.0
FLOATS = st.floats(width=32, allow_nan=True, allow_infinity=True)


def in_ring(ranks: int, act: Callable[[Ring], Any], timeout_s: float = DEADLINE_S) -> list[Any]:
    """Let each rank of a ring act in a thread; return what each returns, or raises."""
    sockets = [listen("127.0.0.1") for _ in range(ranks)]
    addresses = [each.getsockname() for each in sockets]

    def be(rank: int) -> Any:
        try:
            ring = Ring(rank, addresses, sockets[rank], lanes=LANES, timeout_s=timeout_s)
        except CollectiveError as error:
            return error
        try:
            return act(ring)
        except CollectiveError as error:
            return error
        finally:
            ring.close()

    with ThreadPoolExecutor(ranks) as pool:
        return list(pool.map(be, range(ranks)))


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
@pytest.mark.parametrize("count", [0, 1, 4, 1000])
def test_integers_are_summed_modulo_2_32(ranks: int, count: int) -> None:
    given = np.random.default_rng(ranks).integers(
        -(2**31), 2**31, (ranks, count), np.int64, endpoint=False
    )
    given = given.astype(np.int32)

    def act(ring: Ring) -> Any:
        values = given[ring.rank].copy()
        ring.sum_integers(values)
        return values

    with np.errstate(over="ignore"):
        right = given.sum(axis=0, dtype=np.int32)
    for values in in_ring(ranks, act):
        np.testing.assert_array_equal(values, right)


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_float_sums_are_near_and_the_same_bits_on_all_ranks(ranks: int) -> None:
    random = np.random.default_rng(7)
    given = random.normal(0, 1, (ranks, 301)).astype(np.float32)

    def act(ring: Ring) -> Any:
        values = given[ring.rank].copy()
        ring.sum_floats(values)
        return values

    first, *others = in_ring(ranks, act)
    # Blocks of 8: a value is off by half a unit a rank, of 2^-27 of the block's largest or less.
    np.testing.assert_allclose(first, given.astype(np.float64).sum(axis=0), atol=ranks * 2.0**-25)
    for each in others:
        assert each.tobytes() == first.tobytes()


@given(
    st.lists(st.lists(FLOATS, min_size=LANES, max_size=LANES), min_size=1, max_size=5),
    st.integers(1, 33),
)
@settings(max_examples=200, deadline=None)
def test_block_exponents_are_those_of_the_workers_in_c(rows: list[list[float]], ranks: int) -> None:
    values = np.array(rows, np.float32).reshape(-1)
    mine = block_exponents.exponents(values, LANES)
    integers = block_exponents.to_integers(values, mine, LANES, ranks)
    floats = block_exponents.to_floats(integers, mine, LANES, ranks)
    ffi, lib = native().ffi, native().lib
    for number, row in enumerate(values.reshape(-1, LANES)):
        block = slice(number * LANES, (number + 1) * LANES)
        exponent = lib.floats_exponent(ffi.from_buffer("float[]", row.copy()), LANES)
        assert exponent == mine[number]
        whole, back = np.empty(LANES, np.int32), np.empty(LANES, np.float32)
        to, of = ffi.from_buffer("int32_t[]", whole), ffi.from_buffer("float[]", row.copy())
        lib.floats_to_integers(to, of, LANES, exponent, ranks)
        np.testing.assert_array_equal(whole, integers[block])
        lib.floats_from_integers(ffi.from_buffer("float[]", back), to, LANES, exponent, ranks)
        np.testing.assert_array_equal(back, floats[block])
        assert ranks * np.abs(whole.astype(np.int64)).max() < 2**31


def test_bytes_are_broadcast_and_gathered() -> None:
    def act(ring: Ring) -> Any:
        data = np.full(200_000, ring.rank + 1, np.uint8)
        gathered = [int(each[0]) for each in ring.allgather(data[:3])]
        ring.broadcast(data, 1)
        ring.barrier()
        return gathered, set(data.tolist())

    assert in_ring(3, act) == [([1, 2, 3], {2})] * 3


def test_a_rank_that_ends_is_named_by_those_beside_it() -> None:
    def act(ring: Ring) -> Any:
        if ring.rank != 1:
            ring.barrier()

    said = in_ring(3, act)
    assert isinstance(said[2], PeerLostError)
    assert "rank 2: rank 1 (127.0.0.1:" in str(said[2])
    assert said[1] is None


def test_a_rank_that_does_not_answer_is_named() -> None:
    said = in_ring(2, lambda ring: ring.barrier() if ring.rank else pause(), timeout_s=0.3)
    assert "rank 1: rank 0 (127.0.0.1:" in str(said[1])
    assert "0.3 s" in str(said[1])


def pause() -> None:
    """Do nothing for longer than the ring waits."""
    import time  # for this alone

    time.sleep(1.0)


def test_a_port_in_use_is_said() -> None:
    with listen("127.0.0.1") as there, pytest.raises(CollectiveError, match="can't listen"):
        listen(*there.getsockname())
