"""Blocks over a tree in Python that loses, doubles and reorders, as docs/allreduce.md says.

rank 0 --.                  flooded blocks go to all ranks but the sender, requests and single
rank 1 --+-- the tree       blocks to one; each copy is lost, doubled or late by itself
rank 2 --'
"""

from __future__ import annotations

import heapq
import os
import random
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostagent.collective import build
from hostagent.collective.blocks import (
    ALL,
    FLOOD,
    NEVER,
    BlockCalls,
    BlocksConfig,
    BlocksError,
    PassiveBlocks,
)
from tests.sanitized import pass_sanitized

VARIABLE = "WEFT_COLLECTIVE_SANITIZE"
SANITIZE = os.environ.get(VARIABLE) == "1"
JOB, LANES, HOP_NS, TIMEOUT_NS = 7, 3, 100, 2000
BLOCK, ASK = 4, 6
HEADER = struct.Struct(">BBHHHIBBH")
REQUEST = struct.Struct(">BBHHHII")


def value(rank: int, call: int, place: int) -> int:
    """Return an int32 that no other place, call or rank has."""
    return (rank << 20 | call << 16 | place) - (1 << 30)


@dataclass
class Network:
    """What is on its way: (time, number, what happens). `faulty`: of each copy."""

    seed: int = 0
    loss: float = 0
    doubling: float = 0
    reorder_ns: int = 0
    dead_trees: frozenset[int] = frozenset()
    now: int = 0
    events: list[tuple[int, int, Callable[[], None]]] = field(default_factory=list)
    ranks: list[Rank] = field(default_factory=list)
    floods: list[bytes] = field(default_factory=list)
    number: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def at(self, time: int, what: Callable[[], None]) -> None:
        self.number += 1
        heapq.heappush(self.events, (max(time, self.now), self.number, what))

    def carry(self, source: int, to: int, payload: bytes) -> None:
        if to == FLOOD:
            self.floods.append(payload)
            if payload[5] & 7 in self.dead_trees:
                return
        for rank in self.ranks:
            if rank.number == source or to not in (FLOOD, rank.number):
                continue
            copies = 1 + (self.random.random() < self.doubling)
            for _ in range(copies):
                if self.random.random() >= self.loss:
                    late = self.random.randint(0, self.reorder_ns)
                    self.at(self.now + HOP_NS + late, rank.hears(payload))

    def run(self, until: Callable[[], bool], most: int = 200_000) -> None:
        for _ in range(most):
            if until():
                return
            assert self.events, "nothing will ever happen again"
            self.now, _, what = heapq.heappop(self.events)
            what()
        pytest.fail("it does not come to an end")


class Rank(BlockCalls):
    """One rank: what it took, and whether it is complete."""

    def __init__(self, network: Network, number: int, ranks: int, most: int, wire: int = 0) -> None:
        self.network, self.number = network, number
        self.call = self.lanes = 0
        self.armed = NEVER
        self.done = False
        self.taken: dict[tuple[int, int], list[int]] = {}
        config = BlocksConfig(JOB, number, ranks, LANES, most, wire, timeout_ns=TIMEOUT_NS,
                              slot_ps=50_000, seed=number)  # fmt: skip
        self.blocks = PassiveBlocks(config, self, sanitize=SANITIZE)
        network.ranks.append(self)

    def begin(self, root: int, lanes: int) -> None:
        self.taken, self.done, self.lanes = {}, False, lanes
        self.call += 1
        self.blocks.begin(root, lanes, self.network.now)

    def hears(self, payload: bytes) -> Callable[[], None]:
        return lambda: self.blocks.receive(payload, self.network.now)

    def send(self, to: int, payload: bytes, tail: int) -> None:
        self.network.carry(self.number, to, payload)

    def set_timer(self, at_ns: int) -> None:
        self.armed = at_ns
        if at_ns != NEVER:
            self.network.at(at_ns, lambda: self._due(at_ns))

    def _due(self, at_ns: int) -> None:
        if self.armed == at_ns:
            self.blocks.timer(self.network.now)

    def fill(self, block: int, n: int) -> list[int]:
        return [value(self.number, self.call, block * LANES + i) for i in range(n)]

    def take(self, rank: int, block: int, lanes: list[int]) -> None:
        assert (rank, block) not in self.taken, "each block is taken once"
        self.taken[rank, block] = lanes

    def complete(self) -> None:
        assert not self.done
        self.done = True

    def buffer(self, rank: int) -> list[int]:
        """Return what it has of a sender."""
        blocks = sorted(each for each in self.taken if each[0] == rank)
        return [lane for each in blocks for lane in self.taken[each]]


def whole(network: Network, root: int, lanes: int) -> None:
    """Make one call from beginning to end, and compare every int32."""
    for rank in network.ranks:
        rank.begin(root, lanes)
    for rank in network.ranks:
        network.at(
            network.now + network.random.randint(0, 300), lambda it=rank: it.blocks.go(network.now)
        )  # type: ignore[misc]
    network.run(lambda: all(rank.done for rank in network.ranks))
    for rank in network.ranks:
        for sender in range(len(network.ranks)):
            sends = root in (ALL, sender) and sender != rank.number
            expected = [value(sender, rank.call, i) for i in range(lanes)] if sends else []
            assert rank.buffer(sender) == expected
        rank.blocks.end()


def ranks_of(network: Network, ranks: int, most: int) -> list[Rank]:
    return [Rank(network, number, ranks, most) for number in range(ranks)]


def total(network: Network, name: str) -> int:
    return sum(rank.blocks.stats()[name] for rank in network.ranks)


@given(
    seed=st.integers(0, 1 << 30),
    ranks=st.integers(2, 5),
    calls=st.lists(st.tuples(st.integers(-1, 1), st.integers(1, 100)), min_size=1, max_size=3),
    loss=st.sampled_from([0.0, 0.02, 0.3]),
    doubling=st.sampled_from([0.0, 0.3]),
    reorder_ns=st.sampled_from([0, 500, 20_000]),
)
@settings(max_examples=40, deadline=None)
def test_all_ranks_get_all_blocks_whatever_the_network_does(
    seed: int,
    ranks: int,
    calls: list[tuple[int, int]],
    loss: float,
    doubling: float,
    reorder_ns: int,
) -> None:
    network = Network(seed, loss, doubling, reorder_ns)
    ranks_of(network, ranks, 100 * ranks)
    for root, lanes in calls:
        whole(network, root, lanes)
    assert total(network, "malformed") == 0


@pytest.mark.parametrize("root", [ALL, 2])
def test_without_loss_each_block_is_sent_once(root: int) -> None:
    network = Network()
    ranks_of(network, 4, 4 * 300)
    whole(network, root, 300)
    senders = 4 if root == ALL else 1
    assert len(network.floods) == total(network, "sent") == 100 * senders
    assert total(network, "taken") == 3 * 100 * senders
    for name in ("flooded", "unicast", "doubled", "asked", "late", "turns"):
        assert total(network, name) == 0, name


def test_senders_share_a_receivers_line_and_take_turns() -> None:
    network = Network()
    ranks = ranks_of(network, 4, 4 * 60)
    times: list[int] = []
    carry = network.carry
    network.carry = lambda *packet: (times.append(network.now), carry(*packet))  # type: ignore[assignment,func-returns-value,misc]
    for rank in ranks:
        rank.begin(ALL, 60)
        rank.blocks.go(0)
    network.run(lambda: all(rank.done for rank in ranks))
    times.sort()
    assert len(times) == 4 * 20
    # A receiver's line takes a block in 50 ns, and gets three of the four that come in a round.
    gaps = [b - a for a, b in pairwise(times)]
    assert all(37 <= gap <= 38 for gap in gaps)


def test_what_one_rank_lost_is_sent_to_it_alone_and_what_several_lost_to_all() -> None:
    sender = Rank(network := Network(), 0, 3, 300)
    sent: list[tuple[int, int]] = []
    network.carry = lambda source, to, payload: sent.append((to, payload[11]))  # type: ignore[method-assign]
    sender.begin(0, 300)
    sender.blocks.go(0)
    sender.blocks.timer(6000)
    assert [to for to, _ in sent] == [FLOOD] * len(sent)
    sent.clear()

    def ask(rank: int, *blocks: int) -> None:
        bits = sum(1 << block for block in blocks).to_bytes(2, "little")
        sender.blocks.receive(REQUEST.pack(ASK, 0, JOB, rank, 0, 0, 16) + bits, 6000)

    ask(1, 3, 9)
    ask(2, 9)
    network.run(lambda: len(sent) >= 2)
    assert sent[:2] == [(1, 3), (FLOOD, 9)]


def test_a_dead_tree_is_left_when_a_flooded_repeat_does_not_come() -> None:
    network = Network(dead_trees=frozenset({0, 1}))
    ranks_of(network, 4, 90)
    whole(network, 0, 90)
    assert total(network, "turns") >= 2
    assert {payload[5] & 7 for payload in network.floods} >= {0, 1, 2}


def test_datagrams_of_a_call_that_has_ended_change_nothing() -> None:
    network = Network()
    ranks = ranks_of(network, 2, 90)
    whole(network, 0, 30)
    old = list(network.floods)
    for rank in ranks:
        rank.begin(0, 30)
    for payload in old:
        ranks[1].blocks.receive(payload, network.now)
    assert ranks[1].taken == {}
    assert ranks[1].blocks.stats()["late"] == len(old)


def header(**more: int) -> bytes:
    row = {"kind": BLOCK, "flags": 0, "job": JOB, "epoch": 0, "rank": 1, "block": 0,
           "exponent": 0, "zero": 0, "lanes": LANES} | more  # fmt: skip
    return HEADER.pack(*row.values())


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        header()[:-1],
        header(),  # without its lanes
        header(job=JOB + 1) + bytes(4 * LANES),
        header(kind=1) + bytes(4 * LANES),
        header(rank=0) + bytes(4 * LANES),  # its own
        header(rank=5) + bytes(4 * LANES),
        header(lanes=LANES + 1) + bytes(4 * LANES + 4),
        REQUEST.pack(ASK, 0, JOB, 1, 0, 0, 0),
        REQUEST.pack(ASK, 0, JOB, 1, 0, 0, 9) + bytes(1),
        REQUEST.pack(ASK, 0, JOB, 1, 0, 0, 4097) + bytes(513),
        REQUEST.pack(ASK, 0, JOB, 5, 0, 0, 8) + bytes(1),
        REQUEST.pack(ASK, 0, JOB, 1, 1, 0, 8) + bytes(1),  # another rank is asked
    ],
)
def test_malformed_datagrams_are_counted(payload: bytes) -> None:
    rank = Rank(Network(), 0, 2, 90)
    rank.begin(ALL, 30)
    rank.blocks.go(0)
    rank.blocks.receive(payload, 10)
    assert rank.blocks.stats()["malformed"] == 1
    assert rank.taken == {}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"ranks": 0}, "ranks: from 1 to 32768"),
        ({"rank": 2}, "rank: from 0 to ranks - 1"),
        ({"lanes": 0}, "lanes: from 1 to wire_lanes"),
        ({"wire_lanes": 1}, "lanes: from 1 to wire_lanes"),
        ({"slot_ps": 0}, "slot_ps: from 1 to 2"),
        ({"timeout_ns": 0}, "timeout_ns: from 1 to 2"),
    ],
)
def test_wrong_configuration_says_what_would_be_right(more: dict[str, int], message: str) -> None:
    values = {"job": JOB, "rank": 0, "ranks": 2, "lanes": 2, "most": 10} | more
    with pytest.raises(BlocksError, match=message):
        PassiveBlocks(BlocksConfig(**values), BlockCalls(), sanitize=SANITIZE)


def test_calls_that_do_not_fit_are_refused() -> None:
    rank = Rank(Network(), 0, 2, 90)
    for root, lanes in ((0, 0), (2, 10), (-2, 10), (0, 91), (ALL, 46)):
        with pytest.raises(BlocksError, match=f"{lanes} lanes from root {root}"):
            rank.blocks.begin(root, lanes, 0)
    rank.begin(0, 90)
    with pytest.raises(BlocksError, match="open already"):
        rank.blocks.begin(0, 90, 0)


@pytest.mark.long
@pytest.mark.skipif(SANITIZE, reason="this is the run that starts the sanitized one")
def test_sanitized_build_passes_all_of_it() -> None:
    build.ensure(sanitize=True)
    pass_sanitized(Path(__file__).parent, [Path(__file__).name], VARIABLE, "-s", "-m", "not long")
