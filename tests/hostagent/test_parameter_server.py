"""A best-effort job's parameter server: what it adds, what it leaves, and what it sends again."""

from __future__ import annotations

import os
import random
import struct
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hostagent.collective import build
from hostagent.collective.binding import Calls, Kind, PassiveWorker, WorkerConfig, WorkerError
from hostagent.collective.server import PassiveServer, ServerConfig, ServerError
from tests.sanitized import pass_sanitized

VARIABLE = "WEFT_COLLECTIVE_SANITIZE"
SANITIZE = os.environ.get(VARIABLE) == "1"
JOB, SLOTS, LANES = 7, 4, 2
RESULT, PARTIAL = 2, 5
OVERFLOW, CONGESTION, EXPONENT_ONLY, AGAIN = 1, 2, 8, 16
HEADER = struct.Struct(">BBHHHIBBH")


def partial(workers: int, chunk: int, *lanes: int, epoch: int = 0, flags: int = 0,
            exponent: int = 0, job: int = JOB, kind: int = PARTIAL) -> bytes:  # fmt: skip
    place = chunk // SLOTS % 2 << 15 | chunk % SLOTS
    head = HEADER.pack(kind, flags, job, epoch, place, chunk, exponent, 0, len(lanes))
    return head + workers.to_bytes(8, "big") + struct.pack(f">{len(lanes)}i", *lanes)


@dataclass
class Served:
    """A server of three workers, and what it sent: flags, chunk, exponent, lanes."""

    quiet_ns: int = 0
    sent: list[tuple[int, int, int, tuple[int, ...]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        config = ServerConfig(JOB, 3, SLOTS, LANES, quiet_ns=self.quiet_ns)
        self.server = PassiveServer(config, self._take, sanitize=SANITIZE)

    def _take(self, payload: bytes, tail: int) -> None:
        kind, flags, job, _, _, chunk, exponent, zero, n = HEADER.unpack_from(payload)
        assert (kind, job, zero, tail) == (RESULT, JOB, 0, 0)
        assert len(payload) == HEADER.size + 4 * n
        lanes = struct.unpack_from(f">{n}i", payload, HEADER.size)
        self.sent.append((flags, chunk, exponent, lanes))

    def take(self, *payloads: bytes, at: int = 0, marked: bool = False) -> None:
        for payload in payloads:
            self.server.receive(payload, at, marked=marked)

    def counted(self) -> dict[str, int]:
        return {name: n for name, n in self.server.stats().items() if n}


def test_a_sum_that_switches_made_goes_out_at_once() -> None:
    served = Served()
    served.take(partial(7, 0, 5, -6, exponent=9))
    assert served.sent == [(0, 0, 9, (5, -6))]
    assert served.counted() == {"taken": 1, "whole": 1, "results": 1}


def test_parts_are_added_in_any_order_and_the_largest_exponent_holds() -> None:
    served = Served()
    served.take(partial(4, 1, 1, 2, exponent=3), partial(3, 1, 10, 20, exponent=8))
    assert served.sent == [(0, 1, 8, (11, 22))]


def test_nobody_is_added_twice() -> None:
    served = Served()
    served.take(partial(1, 0, 1, 1), partial(1, 0, 1, 1), partial(3, 0, 9, 9))
    assert served.sent == []
    assert served.counted() == {"taken": 1, "doubled": 1, "overlapping": 1}
    served.take(partial(6, 0, 4, 4))
    assert served.sent == [(0, 0, 0, (5, 5))]


def test_a_repeat_is_answered_and_not_too_often() -> None:
    served = Served(quiet_ns=100)
    served.take(partial(7, 0, 1, 2))
    served.take(partial(1, 0, 1, 1, flags=AGAIN), at=99)
    served.take(partial(2, 0, 1, 1, flags=AGAIN), at=100)
    served.take(partial(4, 0, 1, 1, flags=AGAIN), at=150)
    assert served.sent == [(0, 0, 0, (1, 2))] * 2
    assert served.counted() == {"taken": 1, "whole": 1, "results": 1, "doubled": 3, "answered": 1}


def test_a_later_chunk_of_a_slot_ends_the_one_before_and_an_older_one_is_late() -> None:
    served = Served()
    served.take(partial(1, 0, 1, 1), partial(7, 8, 2, 3), partial(6, 0, 1, 1))
    assert served.sent == [(0, 8, 0, (2, 3))]
    assert served.counted()["late"] == 1
    served.take(partial(7, 4, 4, 4))  # the other version
    assert served.sent[-1] == (0, 4, 0, (4, 4))


def test_a_chunk_behind_2_to_the_32_is_later() -> None:
    served = Served()
    served.take(partial(7, 2**32 - SLOTS, 1, 1), partial(7, SLOTS, 2, 2))
    assert [chunk for _, chunk, _, _ in served.sent] == [2**32 - SLOTS, SLOTS]


def test_a_newer_epoch_begins_anew_and_an_older_one_is_late() -> None:
    served = Served()
    served.take(partial(3, 0, 1, 1, epoch=64), partial(4, 0, 1, 1, epoch=0))
    assert served.counted() == {"taken": 1, "late": 1}
    served.take(partial(4, 0, 9, 9, epoch=128), partial(3, 0, 1, 1, epoch=128))
    assert served.sent == [(0, 0, 0, (10, 10))]


def test_what_left_int32_or_met_a_queue_is_told() -> None:
    served = Served()
    top = 2**31 - 1
    served.take(partial(1, 0, top, 0), partial(6, 0, 1, 0))
    served.take(partial(7, 1, 1, 1), marked=True)
    served.take(partial(7, 2, 1, 1, flags=CONGESTION | AGAIN))
    assert served.sent == [(OVERFLOW, 0, 0, (-(2**31), 0)), (CONGESTION, 1, 0, (1, 1)),
                           (CONGESTION, 2, 0, (1, 1))]  # fmt: skip


def test_a_barrier_has_no_lanes() -> None:
    served = Served()
    served.take(partial(1, 0), partial(6, 0, exponent=4))
    assert served.sent == [(EXPONENT_ONLY, 0, 4, ())]


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        partial(1, 0, 1, 1)[:23],
        partial(1, 0, 1, 1)[:-1],
        partial(1, 0, 1),
        partial(0, 0, 1, 1),
        partial(8, 0, 1, 1),
        partial(1, 0, 1, 1, job=8),
        partial(1, 0, 1, 1, kind=1),
        partial(1, 0, 1, 1)[:7] + b"\1" + partial(1, 0, 1, 1)[8:],
    ],
    ids=["empty", "no set", "cut lanes", "few lanes", "nobody", "a stranger", "another job",
         "no partial", "another slot"],
)  # fmt: skip
def test_what_is_no_partial_of_the_job_is_counted_and_left(payload: bytes) -> None:
    served = Served()
    served.take(payload)
    assert (served.sent, served.counted()) == ([], {"malformed": 1})


def test_lanes_of_a_chunk_do_not_change() -> None:
    served = Served()
    served.take(partial(1, 0, 1, 1), partial(6, 0))
    assert served.counted() == {"taken": 1, "malformed": 1}


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"ranks": 65}, "ranks: from 1 to 64: a partial has a bit for each"),
        ({"ranks": 0}, "ranks: from 1 to 64: a partial has a bit for each"),
        ({"slots": 3}, "slots: a power of two, from 1 to 32768"),
        ({"lanes": 0}, "lanes: from 1 to 2044"),
        ({"wire_lanes": 1}, "wire_lanes: from lanes to 2044"),
        ({"quiet_ns": -1}, "quiet_ns: 0 or more"),
    ],
)
def test_settings_that_make_no_sense(changed: dict[str, int], says: str) -> None:
    right = {"job": 1, "ranks": 2, "slots": 4, "lanes": 2}
    with pytest.raises(ServerError, match=f"^{says}$"):
        PassiveServer(ServerConfig(**{**right, **changed}), print, sanitize=SANITIZE)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"rank": 64}, "rank: below 64, where the job is best effort"),
        ({"patience": 2}, "patience: 0, where the job is best effort: it has nowhere to move"),
    ],
)
def test_a_best_effort_worker_has_a_bit_and_nowhere_to_move(
    changed: dict[str, int], says: str
) -> None:
    right = {"job": 1, "slots": 4, "lanes": 2, "patience": 0}
    config = WorkerConfig(**{**right, **changed}, best_effort=True)  # type: ignore[arg-type]
    with pytest.raises(WorkerError, match=f"^{says}$"):
        PassiveWorker(config, Calls(), sanitize=SANITIZE)


class Rank(Calls):
    """A worker whose datagrams meet nothing but the server, or are lost."""

    def __init__(self, rank: int, chunks: int, send: list[bytes], wire: random.Random) -> None:
        self.rank, self.chunks, self.wire = rank, chunks, wire
        self._send = send
        self.sums: dict[int, list[int]] = {}
        self.timer = 0
        config = WorkerConfig(JOB, SLOTS, LANES, patience=0, best_effort=True, rank=rank, seed=rank)
        self.worker = PassiveWorker(config, self, sanitize=SANITIZE)

    def send(self, payload: bytes, tail: int) -> None:
        if self.wire.random() > 0.2:
            self._send.append(payload)

    def set_timer(self, at_ns: int) -> None:
        self.timer = at_ns

    def fill(self, tag: int, chunk: int) -> list[int]:
        return [self.rank * 1000 + chunk, -chunk]

    def take(self, tag: int, chunk: int, lanes: list[int]) -> None:
        self.sums[chunk] = lanes


def test_workers_and_a_server_end_whatever_is_lost_between_them() -> None:
    """Their own cores, 20 % lost each way, and no switch that adds anything."""
    wire, up, down = random.Random(5), [], []
    ranks = [Rank(rank, 40, up, wire) for rank in range(3)]
    server = PassiveServer(ServerConfig(JOB, 3, SLOTS, LANES), lambda p, _: down.append(p),
                           sanitize=SANITIZE)  # fmt: skip
    for each in ranks:
        each.worker.begin(Kind.INTEGERS, 40, 1, 0)
    now = 0
    while any(len(each.sums) < 40 for each in ranks):
        now += 100
        assert now < 10_000_000
        while up:
            server.receive(up.pop(0), now)
        results, down[:] = list(down), []
        for payload in results:
            for each in ranks:
                if wire.random() > 0.2:
                    each.worker.receive(payload, now)
        for each in ranks:
            if each.timer <= now:
                each.worker.timer(now)
    for each in ranks:
        assert each.sums == {chunk: [3000 + 3 * chunk, -3 * chunk] for chunk in range(40)}
    assert sum(each.worker.stats()["repeated"] for each in ranks) > 0
    assert sum(each.worker.stats()["overtaken"] for each in ranks) > 0


@pytest.mark.long
def test_all_of_this_under_sanitizers() -> None:
    build.ensure(sanitize=True)
    pass_sanitized(Path(__file__).parent, [Path(__file__).name], VARIABLE, "-s", "-m", "not long")
