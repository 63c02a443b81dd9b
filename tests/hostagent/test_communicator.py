"""Collectives in Python over UDP sockets of the loopback, by way of a switch in Python."""

from __future__ import annotations

import os
import random
import socket
import struct
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from hostagent.collective import native as collective_native
from hostagent.collective.communicator import BLOCK_LANES, Communicator
from hostagent.collective.handle import CollectiveError, Handle
from hostagent.collective.worker_settings import WorkerSettings

pytestmark = pytest.mark.realtime

VARIABLE = "WEFT_SANITIZED_COMMUNICATOR"
if os.environ.get(VARIABLE) == "1":  # test_communicator_sanitized.py says so
    collective_native._loaded[False] = collective_native.native(sanitize=True)

RANKS, SLOTS, LANES = 3, 16, 8
PORT = 28792
SWITCH = "127.77.0.254"
HOSTS = [f"127.77.0.{rank + 1}" for rank in range(RANKS)]
HEADER = struct.Struct(">BBHHHIBBH")
PATIENCE_S = 60.0


class Switch(threading.Thread):
    """Adds what `HOSTS` send; loses packets by chance."""

    def __init__(self) -> None:
        super().__init__()
        self.loss = 0.0
        self.ended = threading.Event()
        self.random = random.Random(1)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((SWITCH, PORT))
        self.socket.settimeout(0.05)
        self.rounds: dict[tuple[int, int], tuple[int, set[str], int, np.ndarray]] = {}

    def run(self) -> None:
        while not self.ended.is_set():
            try:
                data, (host, _) = self.socket.recvfrom(4096)
            except TimeoutError:
                continue
            if self.random.random() >= self.loss:
                self._take(data, host)

    def _take(self, data: bytes, host: str) -> None:
        kind, flags, job, epoch, place, chunk, exponent, _, lanes = HEADER.unpack_from(data)
        if kind == 4:  # a block: to all but its sender
            for to in HOSTS:
                if to != host and self.random.random() >= self.loss:
                    self.socket.sendto(data, (to, PORT))
            return
        if kind != 1:
            return
        values = np.frombuffer(data, ">u4", lanes, HEADER.size).astype(np.uint32)
        known = self.rounds.get((job, place))
        if known and known[0] > chunk:
            return
        if not known or known[0] < chunk:
            known = chunk, set(), 0, np.zeros(lanes, np.uint32)
        _, seen, most, sums = known
        again = host in seen
        if not again:
            seen.add(host)
            most, sums = max(most, exponent), sums + values
            self.rounds[job, place] = chunk, seen, most, sums
        if len(seen) == RANKS:
            head = HEADER.pack(2, flags, job, epoch, place, chunk, most, 0, lanes)
            for to in [host] if again else HOSTS:
                if self.random.random() >= self.loss:
                    self.socket.sendto(head + sums.astype(">u4").tobytes(), (to, PORT))


@pytest.fixture
def switch() -> Iterator[Switch]:
    made = Switch()
    made.start()
    yield made
    made.ended.set()
    made.join()
    made.socket.close()


def settings(rank: int, **changes: int) -> WorkerSettings:
    own = {"job": 5, "rank": rank, "ranks": RANKS, "epoch": 0, "slots": SLOTS, "lanes": LANES}
    return WorkerSettings(**{**own, **changes})


@pytest.fixture
def ranks(switch: Switch) -> Iterator[list[Communicator]]:
    made = [Communicator(settings(rank), SWITCH, HOSTS[rank]) for rank in range(RANKS)]
    yield made
    for each in made:
        each.close()


RATE_BPS = 10**9


@pytest.fixture
def multicasters(switch: Switch) -> Iterator[list[Communicator]]:
    """Ranks whose broadcasts and allgathers go in blocks."""
    made = [
        Communicator(settings(rank), SWITCH, HOSTS[rank], block_rate_bps=RATE_BPS)
        for rank in range(RANKS)
    ]
    yield made
    for each in made:
        each.close()


def waited(handles: list[Handle]) -> list[np.ndarray]:
    return [handle.wait(PATIENCE_S) for handle in handles]


@pytest.mark.parametrize("loss", [0.0, 0.05])
def test_sums_are_exact_and_floats_have_the_same_bits(
    switch: Switch, ranks: list[Communicator], loss: float
) -> None:
    switch.loss = loss
    draw = np.random.default_rng(3)
    for size in (1, LANES, LANES + 1, 50 * LANES - 3):
        ints = [draw.integers(-(2**31), 2**31, (size, 1)).astype(np.int32) for _ in ranks]
        floats = [(draw.standard_normal(size) * 1e-3).astype(np.float32) for _ in ranks]
        first = [each.allreduce_int32(own) for each, own in zip(ranks, ints, strict=True)]
        second = [each.allreduce_float32(own) for each, own in zip(ranks, floats, strict=True)]
        wanted = np.sum(np.array(ints, dtype=np.int64), axis=0).astype(np.int32)
        for got in waited(first):
            assert got.shape == (size, 1)
            np.testing.assert_array_equal(got, wanted)
        sums = waited(second)
        for got in sums:
            np.testing.assert_array_equal(got.view(np.int32), sums[0].view(np.int32))
        exact = np.sum(np.array(floats, dtype=np.float64), axis=0)
        np.testing.assert_allclose(sums[0], exact, atol=RANKS * 2**-27 * np.abs(exact).max() * 4)
    assert (sum(each.counters()["repeated"] for each in ranks) > 0) >= (loss > 0)


def test_floats_of_every_kind(ranks: list[Communicator]) -> None:
    largest = np.float32(1.7e38)
    cases = {
        "zeros": ([0.0] * LANES, [0.0] * LANES),
        "denormal": ([1e-40] * LANES, None),
        "large": ([float(largest) / 4] * LANES, None),
        "infinite": ([np.inf, *[1.0] * (LANES - 1)], [np.nan] * LANES),
        "nan": ([np.nan, *[1.0] * (LANES - 1)], [np.nan] * LANES),
        "too large": ([3e38, *[1.0] * (LANES - 1)], [np.nan] * LANES),
    }
    for name, (row, wanted) in cases.items():
        own = np.array(row, dtype=np.float32)
        got = waited([each.allreduce_float32(own) for each in ranks])[0]
        expected = RANKS * own.astype(np.float64) if wanted is None else np.array(wanted)
        np.testing.assert_allclose(got, expected, rtol=1e-4, err_msg=name)


def test_broadcast_allgather_and_barrier(ranks: list[Communicator]) -> None:
    rows = [np.array([[rank, 0.5], [2, 3]], dtype=np.float16) for rank in range(RANKS)]
    for got in waited([each.broadcast(row, 2) for each, row in zip(ranks, rows, strict=True)]):
        np.testing.assert_array_equal(got, rows[2])
    for got in waited([each.allgather(row) for each, row in zip(ranks, rows, strict=True)]):
        np.testing.assert_array_equal(got, np.array(rows))
    assert waited([each.barrier() for each in ranks]) == [None] * RANKS


@pytest.mark.parametrize("loss", [0.0, 0.05])
def test_blocks_come_to_all_and_calls_keep_their_order(
    switch: Switch, multicasters: list[Communicator], loss: float
) -> None:
    """Sums are handed over while blocks are under way, and stay behind them on all ranks."""
    switch.loss = loss
    draw = np.random.default_rng(4)
    handles = []
    for size in (1, 4 * BLOCK_LANES, 4 * BLOCK_LANES + 1, 40_000):
        rows = [draw.integers(0, 256, size, np.uint8) for _ in range(RANKS)]
        numbers = [np.full(3 * LANES, rank * size, np.int32) for rank in range(RANKS)]
        for each in multicasters:
            rank = each.settings.rank
            handles += [
                (each.allreduce_int32(numbers[rank]), sum(numbers)),
                (each.broadcast(rows[rank], 1), rows[1]),
                (each.allgather(rows[rank]), np.array(rows)),
                (each.allreduce_int32(numbers[rank] + 1), sum(numbers) + RANKS),
                (each.broadcast(rows[rank][:0], 2), rows[2][:0]),
            ]
    for handle, wanted in handles:
        np.testing.assert_array_equal(handle.wait(PATIENCE_S), wanted)
    counted = [each.counters() for each in multicasters]
    gathered = sum(-(-size // (4 * BLOCK_LANES)) for size in (1, 1024, 1025, 40_000))
    assert [each["blocks sent"] for each in counted] == [gathered, 2 * gathered, gathered]
    assert [each["blocks taken"] for each in counted] == [3 * gathered, 2 * gathered, 3 * gathered]
    assert (sum(each["blocks asked"] for each in counted) > 0) >= (loss > 0)


def test_blocks_that_nobody_sends_are_given_up(switch: Switch) -> None:
    own = settings(0)
    with Communicator(own, SWITCH, HOSTS[0], give_up_s=0.2, block_rate_bps=RATE_BPS) as alone:
        with pytest.raises(CollectiveError, match=r"no result came for 0\.2 s: another rank"):
            alone.broadcast(np.zeros(5), 1).wait(PATIENCE_S)
        with pytest.raises(CollectiveError, match="no result came"):
            alone.allgather(np.zeros(5)).wait(PATIENCE_S)


def test_barrier_waits_for_the_last_and_callbacks_come(ranks: list[Communicator]) -> None:
    came = threading.Event()
    early = [each.barrier() for each in ranks[:-1]]
    early[0].add_done_callback(lambda _: came.set())
    with pytest.raises(TimeoutError, match="barrier is not done after"):
        early[0].wait(0.1)
    ranks[-1].barrier().wait(PATIENCE_S)
    assert came.wait(PATIENCE_S)
    assert early[0].done


def test_open_calls_fail_when_it_is_closed(ranks: list[Communicator]) -> None:
    handle = ranks[0].barrier()
    ranks[0].close()
    with pytest.raises(CollectiveError, match="was closed before it was done"):
        handle.wait(PATIENCE_S)
    with pytest.raises(CollectiveError, match="the communicator is closed"):
        ranks[0].barrier()
    ranks[0].close()


def test_it_gives_up_when_nothing_comes() -> None:
    with Communicator(settings(0), SWITCH, HOSTS[0], give_up_s=0.2) as alone:
        with pytest.raises(CollectiveError, match=r"no result came for 0\.2 s: another rank"):
            alone.barrier().wait(PATIENCE_S)
        with pytest.raises(CollectiveError, match="no result came"):
            alone.barrier().wait(PATIENCE_S)


def test_wrong_use_is_one_clear_error(ranks: list[Communicator]) -> None:
    with pytest.raises(CollectiveError, match=r"port 28792 can't be bound at 127\.77\.0\.1"):
        Communicator(settings(0), SWITCH, HOSTS[0])
    with pytest.raises(CollectiveError, match="takes arrays of float32, not of float64"):
        ranks[0].allreduce_float32(np.zeros(3))  # type: ignore[arg-type]
    with pytest.raises(CollectiveError, match="no rank 3: there are 0 to 2"):
        ranks[0].broadcast([1], root=3)
    with pytest.raises(CollectiveError, match="arrays of numbers, not of object"):
        ranks[0].allgather([None])
    for wrong, message in (
        ({"slots": 12}, "slots: a power of two"),
        ({"rank": 3}, "rank: 3 is not between 0 and 2"),
        ({"lanes": 0}, "lanes: 0 is not between"),
    ):
        with pytest.raises(CollectiveError, match=message):
            Communicator(settings(0, **wrong) if "rank" not in wrong else settings(3), SWITCH,
                         "127.77.0.99")  # fmt: skip
    with pytest.raises(CollectiveError, match="gateway: 'h1' is no IPv4 address"):
        Communicator(settings(0), "h1", "127.77.0.99")
