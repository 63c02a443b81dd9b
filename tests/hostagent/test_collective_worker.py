"""The worker of an AllReduce in the network against switches in Python, as docs/allreduce.md says.

worker 0 --.
worker 1 --+-- switch --.           a network that loses, doubles, delays and reorders;
worker 2 --.            +-- root    switches keep what the document says they keep,
worker 3 ----- switch --'           and restart when a test says so
"""

from __future__ import annotations

import heapq
import os
import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostagent.collective import build
from hostagent.collective.binding import Calls, Kind, PassiveWorker, WorkerConfig, WorkerError
from tests.sanitized import pass_sanitized

VARIABLE = "WEFT_COLLECTIVE_SANITIZE"
SANITIZE = os.environ.get(VARIABLE) == "1"
JOB = 7
CONTRIBUTION, RESULT, MOVE = 1, 2, 3
FROM_ROOT = 4
HEADER = struct.Struct(">BBHHHIBBH")
HOP_NS = 100
TIMEOUT_NS = 2000
MASK = (1 << 32) - 1


@dataclass(frozen=True)
class Packet:
    kind: int
    flags: int
    job: int
    epoch: int
    place: int
    chunk: int
    exponent: int
    lanes: tuple[int, ...]

    @classmethod
    def read(cls, payload: bytes) -> Packet:
        kind, flags, job, epoch, place, chunk, exponent, zero, n = HEADER.unpack_from(payload)
        assert zero == 0
        assert len(payload) == HEADER.size + 4 * n
        return cls(kind, flags, job, epoch, place, chunk, exponent,
                   struct.unpack_from(f">{n}I", payload, HEADER.size))  # fmt: skip

    def bytes(self) -> bytes:
        head = HEADER.pack(self.kind, self.flags, self.job, self.epoch, self.place, self.chunk,
                           self.exponent, 0, len(self.lanes))  # fmt: skip
        return head + struct.pack(f">{len(self.lanes)}I", *self.lanes)


def newer(a: int, b: int, bits: int) -> bool:
    """Whether serial number `a` comes behind `b`."""
    return 0 < (a - b) % (1 << bits) < 1 << (bits - 1)


@dataclass
class Round:
    epoch: int
    chunk: int
    lanes: tuple[int, ...]
    exponent: int
    flags: int
    seen: set[int]
    done: bool = False


Deliver = Callable[[Packet], None]


@dataclass
class Switch:
    """A switch of one tree: children in order, and the way to its parent (None: it is the root)."""

    send: Callable[[Deliver, Packet], None]
    children: list[Deliver] = field(default_factory=list)
    parent: Deliver | None = None
    rounds: dict[int, Round] = field(default_factory=dict)
    alive: bool = True
    mark: Callable[[], bool] = lambda: False

    def restart(self) -> None:
        self.rounds = {}

    def from_child(self, child: int, packet: Packet) -> None:
        if not self.alive:
            return
        if packet.kind == MOVE:
            self._move(packet)
            return
        slot = packet.place & 0x7FFF
        known = [self.rounds[v << 15 | slot] for v in (0, 1) if v << 15 | slot in self.rounds]
        for each in known:
            if newer(each.epoch, packet.epoch, 16):
                answer = Packet(MOVE, 0, JOB, each.epoch, 0, 0, 0, ())
                self.send(self.children[child], answer)
                return
        found = self.rounds.get(packet.place)
        if found and found.epoch == packet.epoch and newer(found.chunk, packet.chunk, 32):
            return
        marked = 2 if self.mark() else 0
        if not found or found.epoch != packet.epoch or found.chunk != packet.chunk:
            found = self.rounds[packet.place] = Round(
                packet.epoch, packet.chunk, packet.lanes, packet.exponent,
                packet.flags | marked, {child})  # fmt: skip
        elif child in found.seen:
            if found.done:
                self.send(self.children[child], self._packet(packet.place, RESULT))
            elif len(found.seen) == len(self.children) and self.parent:
                self.send(self.parent, self._packet(packet.place, CONTRIBUTION))
            return
        else:
            sums = zip(found.lanes, packet.lanes, strict=True)
            found.lanes = tuple((a + b) & MASK for a, b in sums)
            found.exponent = max(found.exponent, packet.exponent)
            found.flags |= packet.flags | marked
            found.seen.add(child)
        if len(found.seen) < len(self.children):
            return
        if self.parent:
            self.send(self.parent, self._packet(packet.place, CONTRIBUTION))
        else:
            self._finish(packet.place)

    def from_parent(self, packet: Packet) -> None:
        if not self.alive:
            return
        if packet.kind == MOVE:
            for child in self.children:
                self.send(child, packet)
            return
        found = self.rounds.get(packet.place)
        right = found and (found.epoch, found.chunk) == (packet.epoch, packet.chunk)
        if not found or not right or found.done or len(found.seen) < len(self.children):
            return
        found.lanes, found.exponent, found.flags = packet.lanes, packet.exponent, packet.flags
        self._finish(packet.place)

    def _finish(self, place: int) -> None:
        self.rounds[place].done = True
        for child in self.children:
            self.send(child, self._packet(place, RESULT))

    def _move(self, packet: Packet) -> None:
        if self.parent:
            self.send(self.parent, packet)
            return
        down = Packet(MOVE, FROM_ROOT, JOB, packet.epoch, 0, 0, 0, ())
        for child in self.children:
            self.send(child, down)

    def _packet(self, place: int, kind: int) -> Packet:
        found = self.rounds[place]
        return Packet(kind, found.flags, JOB, found.epoch, place, found.chunk, found.exponent,
                      found.lanes)  # fmt: skip


@dataclass(frozen=True)
class Call:
    kind: Kind
    chunks: int


def value(rank: int, call: int, chunk: int, lane: int) -> int:
    """Return what a rank adds; no two subsets of ranks have the same sum by accident."""
    return (call * 7919 + chunk * 131 + lane * 17 + 3) * (1 << 2 * rank) % (1 << 31)


def exponent(rank: int, call: int, chunk: int) -> int:
    return (call * 31 + chunk * 7 + rank * 11) % 256


class Host(Calls):
    """A worker, what it sends and whether what it takes is right."""

    def __init__(self, world: World, rank: int, config: WorkerConfig) -> None:
        self.world, self.rank = world, rank
        self.worker = PassiveWorker(config, self, sanitize=SANITIZE)
        self.armed = -1
        self.agreed: dict[tuple[int, int], int] = {}
        self.taken: set[tuple[int, int]] = set()
        self.filled: set[tuple[int, int]] = set()
        self.ended: list[int] = []
        self.next = 0
        self.paused = False

    def begin(self, most: int) -> None:
        """Begin calls until `most` are open, or all were."""
        calls = self.world.calls
        while self.next < len(calls) and self.worker.open < most:
            call = calls[self.next]
            self.next += 1
            self.worker.begin(call.kind, call.chunks, self.next - 1, self.world.now)

    def send(self, payload: bytes, tail: int) -> None:
        packet = Packet.read(payload)
        assert tail == 0
        tree = self.world.trees[packet.epoch % len(self.world.trees)]
        leaf, index = tree.place[self.rank]
        if not self.paused:
            self.world.send(lambda p: leaf.from_child(index, p), packet)

    def hear(self, packet: Packet) -> None:
        if not self.paused:
            self.worker.receive(packet.bytes(), self.world.now)

    def set_timer(self, at_ns: int) -> None:
        self.armed = at_ns
        self.world.at(at_ns, lambda: self._due(at_ns))

    def _due(self, at_ns: int) -> None:
        if self.armed == at_ns:
            self.armed = -1
            self.worker.timer(self.world.now)

    def fill(self, tag: int, chunk: int) -> Sequence[int]:
        assert (tag, chunk) not in self.filled, "asked for twice"
        self.filled.add((tag, chunk))
        if self.world.calls[tag].kind == Kind.SCALED:
            assert (tag, chunk) in self.agreed, "sent before its exponent was known"
        return [value(self.rank, tag, chunk, lane) for lane in range(self.worker.config.lanes)]

    def take(self, tag: int, chunk: int, lanes: list[int]) -> None:
        assert (tag, chunk) not in self.taken, "taken twice"
        self.taken.add((tag, chunk))
        for lane, got in enumerate(lanes):
            wanted = sum(value(rank, tag, chunk, lane) for rank in range(self.world.ranks))
            assert got & MASK == wanted & MASK, (tag, chunk, lane)

    def exponent(self, tag: int, chunk: int) -> int:
        return exponent(self.rank, tag, chunk)

    def agree(self, tag: int, chunk: int, agreed: int) -> None:
        assert agreed == max(exponent(rank, tag, chunk) for rank in range(self.world.ranks))
        self.agreed[tag, chunk] = agreed

    def done(self, tag: int) -> None:
        call = self.world.calls[tag]
        if call.kind != Kind.BARRIER:
            assert {(tag, chunk) for chunk in range(call.chunks)} <= self.taken
        self.ended.append(tag)
        self.begin(self.world.at_once)


@dataclass
class Tree:
    switches: list[Switch]
    place: dict[int, tuple[Switch, int]]


class World:
    """Workers, trees of switches, and a network that does what its random numbers say."""

    def __init__(
        self,
        ranks: int,
        calls: Sequence[Call],
        *,
        slots: int = 4,
        lanes: int = 2,
        levels: int = 2,
        trees: int = 2,
        loss: float = 0,
        double: float = 0,
        reorder: float = 0,
        at_once: int = 2,
        seed: int = 0,
        window: int = 0,
        patience: int = 2,
        adapt: bool = False,
        marks: float = 0,
    ) -> None:
        self.ranks, self.calls, self.at_once = ranks, calls, at_once
        self.loss, self.double, self.reorder, self.marks = loss, double, reorder, marks
        self.random = random.Random(seed)
        self.now = 0
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._number = 0
        config = WorkerConfig(JOB, slots, lanes, window=window, patience=patience, adapt=adapt,
                              timeout_ns=TIMEOUT_NS)  # fmt: skip
        self.hosts = [
            Host(self, rank, WorkerConfig(**{**vars(config), "seed": seed << 8 | rank}))
            for rank in range(ranks)
        ]
        self.trees = [self._tree(levels) for _ in range(trees)]

    def _tree(self, levels: int) -> Tree:
        switches: list[Switch] = []
        place: dict[int, tuple[Switch, int]] = {}
        below: list[tuple[int | Switch, Deliver]] = [(h.rank, h.hear) for h in self.hosts]
        for depth in range(levels):
            width = len(below) if depth == levels - 1 else max(1, -(-len(below) // 2))
            above: list[tuple[int | Switch, Deliver]] = []
            for first in range(0, len(below), width):
                switch = Switch(self.send, mark=lambda: self.random.random() < self.marks)
                switches.append(switch)
                for child, hear in below[first : first + width]:
                    index = len(switch.children)
                    switch.children.append(hear)
                    if isinstance(child, int):
                        place[child] = switch, index
                    else:
                        child.parent = lambda p, s=switch, i=index: s.from_child(i, p)
                above.append((switch, switch.from_parent))
            below = above
        return Tree(switches, place)

    def at(self, at_ns: int, call: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._queue, (max(at_ns, self.now), self._number, call))

    def send(self, deliver: Deliver, packet: Packet) -> None:
        copies = 1 + (self.random.random() < self.double)
        for _ in range(copies):
            if self.random.random() < self.loss:
                continue
            late = self.random.random() < self.reorder
            delay = HOP_NS + (self.random.randrange(5 * TIMEOUT_NS) if late else 0)
            self.at(self.now + delay, lambda: deliver(packet))

    def run(self, until_ns: int = 1 << 62) -> None:
        """Run to the end of all calls (or to a time), and check that they did end."""
        for host in self.hosts:
            host.begin(self.at_once)
        self.go_on(until_ns)

    def go_on(self, until_ns: int = 1 << 62) -> None:
        steps = 0
        while self._queue and self._queue[0][0] < until_ns and not self.finished():
            self.now, _, call = heapq.heappop(self._queue)
            call()
            steps += 1
            assert steps < 2_000_000, "it does not come to an end"
        if until_ns == 1 << 62:
            assert self.finished(), "it stands still"

    def finished(self) -> bool:
        return all(len(host.ended) == len(self.calls) for host in self.hosts)

    def counted(self, name: str) -> int:
        return sum(host.worker.stats()[name] for host in self.hosts)


CALLS = (Call(Kind.INTEGERS, 9), Call(Kind.SCALED, 3), Call(Kind.BARRIER, 0), Call(Kind.SCALED, 11))


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_without_loss_each_packet_is_sent_once(levels: int) -> None:
    world = World(5, CALLS, levels=levels)
    world.run()
    packets = 9 + 3 + 3 + 1 + 11 + 4
    assert world.counted("sent") == 5 * packets
    assert world.counted("results") == 5 * packets
    for name in ("repeated", "late", "malformed", "moves", "moved"):
        assert world.counted(name) == 0, name


chance = st.sampled_from([0.0, 0.02, 0.1, 0.3])


@settings(deadline=None, max_examples=60)
@given(
    ranks=st.integers(2, 6),
    levels=st.integers(1, 3),
    slots=st.sampled_from([1, 2, 4, 8]),
    window=st.integers(1, 8),
    calls=st.lists(
        st.one_of(
            st.builds(Call, st.just(Kind.INTEGERS), st.integers(1, 20)),
            st.builds(Call, st.just(Kind.SCALED), st.integers(1, 20)),
            st.just(Call(Kind.BARRIER, 0)),
        ),
        min_size=1,
        max_size=4,
    ),
    loss=chance,
    double=chance,
    reorder=chance,
    adapt=st.booleans(),
    seed=st.integers(0, 1 << 20),
)
def test_sums_are_exact_whatever_the_network_does(
    ranks: int,
    levels: int,
    slots: int,
    window: int,
    calls: list[Call],
    loss: float,
    double: float,
    reorder: float,
    adapt: bool,
    seed: int,
) -> None:
    world = World(ranks, calls, slots=slots, levels=levels, window=min(window, slots), loss=loss,
                  double=double, reorder=reorder, adapt=adapt, marks=loss, seed=seed)  # fmt: skip
    world.run()


@pytest.mark.parametrize("seed", range(6))
def test_switch_dies_and_job_moves_to_next_tree(seed: int) -> None:
    world = World(4, [Call(Kind.SCALED, 60)], trees=2, loss=0.02, seed=seed)
    world.run(until_ns=6 * TIMEOUT_NS)
    assert not world.finished()
    for switch in world.trees[0].switches:
        switch.alive = False
    world.go_on()
    assert world.counted("moves") >= 1


@pytest.mark.parametrize("seed", range(6))
def test_only_result_of_one_worker_is_lost_with_the_tree(seed: int) -> None:
    """A worker that has finished gives what it keeps to one that has not."""
    world = World(3, [Call(Kind.INTEGERS, 6)], trees=2, seed=seed)
    for host in world.hosts:
        host.begin(1)
    last = world.hosts[2]
    world.go_on(until_ns=3 * HOP_NS)
    last.paused = True  # contributions have left it, results won't come
    world.go_on(until_ns=2 * TIMEOUT_NS)
    for switch in world.trees[0].switches:
        switch.alive = False
    last.paused = False
    world.go_on()
    assert last.ended == [0]


@pytest.mark.parametrize("seed", range(4))
def test_switch_that_restarts_forgets_its_rounds(seed: int) -> None:
    world = World(4, [Call(Kind.SCALED, 80)], trees=1, loss=0.01, seed=seed)
    world.run(until_ns=5 * TIMEOUT_NS)
    assert not world.finished()
    for switch in world.trees[0].switches:
        switch.restart()
    world.go_on()


def test_straggler_of_thousand_timeouts_breaks_nothing() -> None:
    world = World(3, [Call(Kind.INTEGERS, 30)], trees=2, loss=0.05)
    world.hosts[1].paused = True
    world.run(until_ns=1000 * TIMEOUT_NS)
    assert not any(host.ended for host in world.hosts)
    repeated = world.hosts[0].worker.stats()["repeated"]
    assert repeated < 1000, "time-outs get longer while nothing comes"
    world.hosts[1].paused = False
    world.go_on()


def test_patience_of_zero_never_moves() -> None:
    world = World(2, [Call(Kind.INTEGERS, 5)], patience=0)
    world.hosts[1].paused = True
    world.run(until_ns=300 * TIMEOUT_NS)
    assert world.counted("moves") == 0
    world.hosts[1].paused = False
    world.go_on()


def test_marks_halve_the_window_once_a_round_and_it_grows_again() -> None:
    world = World(2, [Call(Kind.INTEGERS, 400)], slots=16, adapt=True, marks=1.0)
    world.run(until_ns=100 * HOP_NS)
    assert {host.worker.window for host in world.hosts} == {1}
    assert world.hosts[0].worker.stats()["cuts"] >= 4
    world.marks = 0
    world.go_on()
    assert world.hosts[0].worker.window > 4


def test_full_windows_of_different_chunks_do_not_block_each_other() -> None:
    """Window 1: each worker may be at a chunk of its own only as long as none waits for it."""
    for seed in range(20):
        World(3, [Call(Kind.INTEGERS, 40)], slots=8, window=1, loss=0.2, seed=seed).run()


@pytest.mark.parametrize("seed", range(12))
def test_windows_that_marks_cut_do_not_block_each_other(seed: int) -> None:
    World(4, [Call(Kind.INTEGERS, 120)], slots=8, adapt=True, marks=0.5, loss=0.2, seed=seed,
          patience=0).run()  # fmt: skip


class _Sent(Calls):
    def __init__(self) -> None:
        self.chunks: list[int] = []

    def send(self, payload: bytes, tail: int) -> None:
        self.chunks.append(Packet.read(payload).chunk)

    def fill(self, tag: int, chunk: int) -> Sequence[int]:
        return [0]


def test_lowest_chunk_is_sent_though_a_cut_window_is_full() -> None:
    """What is in flight waits for workers that wait for this chunk: nobody would ever go on."""
    sent = _Sent()
    worker = PassiveWorker(WorkerConfig(JOB, 4, 1, adapt=True), sent, sanitize=SANITIZE)
    worker.begin(Kind.INTEGERS, 20, 0, 0)
    for chunk, marked in ((0, 0), (2, 0), (3, 0), (4, 0), (1, 2)):
        place = (chunk // 4 % 2) << 15 | chunk % 4
        worker.receive(HEADER.pack(RESULT, marked, JOB, 0, place, chunk, 0, 0, 1) + bytes(4), 10)
    assert worker.window == 2
    assert sent.chunks == [0, 1, 2, 3, 4, 6, 7, 8, 5]


def test_moved_worker_repeats_both_chunks_until_the_later_has_its_result() -> None:
    sent = _Sent()
    worker = PassiveWorker(WorkerConfig(JOB, 1, 1, timeout_ns=1000), sent, sanitize=SANITIZE)
    worker.begin(Kind.INTEGERS, 1, 0, 0)
    worker.receive(HEADER.pack(RESULT, 0, JOB, 0, 0, 0, 0, 0, 1) + bytes(4), 10)
    move = HEADER.pack(MOVE, FROM_ROOT, JOB, 1, 0, 0, 0, 0, 0)
    worker.receive(move, 20)
    assert sent.chunks == [0, 0], "what it keeps, since others may lack the result"
    worker.receive(move, 30)
    assert sent.chunks == [0, 0], "once a time-out"
    worker.receive(move, 5000)
    assert sent.chunks == [0, 0, 0], "the same move again"
    worker.begin(Kind.INTEGERS, 2, 1, 6000)
    worker.timer(8000)
    assert sent.chunks == [0, 0, 0, 1, 0, 1]
    worker.receive(HEADER.pack(RESULT, 0, JOB, 1, 1 << 15, 1, 0, 0, 1) + bytes(4), 8100)
    worker.timer(10500)
    assert sent.chunks == [0, 0, 0, 1, 0, 1, 2, 2]


def test_slow_network_makes_timeouts_longer() -> None:
    slow = World(2, [Call(Kind.INTEGERS, 400)], patience=0)
    slow.send = lambda deliver, packet: slow.at(  # type: ignore[method-assign]
        slow.now + 3 * TIMEOUT_NS, lambda: deliver(packet)
    )
    for tree in slow.trees:
        for switch in tree.switches:
            switch.send = slow.send
    slow.run()
    assert slow.counted("spurious") > 0
    assert slow.counted("repeated") < slow.counted("results") // 2


@pytest.mark.parametrize(
    ("payload", "counter"),
    [
        (b"", "malformed"),
        (bytes(16), "malformed"),
        (HEADER.pack(RESULT, 0, JOB + 1, 0, 0, 0, 0, 0, 0), "malformed"),
        (HEADER.pack(CONTRIBUTION, 0, JOB, 0, 0, 0, 0, 0, 0), "malformed"),
        (HEADER.pack(RESULT, 0, JOB, 0, 4, 0, 0, 0, 2) + bytes(8), "malformed"),  # slot 4 of 4
        (HEADER.pack(RESULT, 0, JOB, 0, 0, 0, 0, 0, 0), "malformed"),  # lanes are missing
        (HEADER.pack(RESULT, 0, JOB, 0, 0, 0, 0, 0, 2) + bytes(7), "malformed"),
        (HEADER.pack(RESULT, 0, JOB, 0, 0, 4, 0, 0, 2) + bytes(8), "late"),
        (HEADER.pack(RESULT, 0, JOB, 0, 1 << 15, 0, 0, 0, 2) + bytes(8), "late"),
    ],
)
def test_what_is_no_result_is_counted_and_changes_nothing(payload: bytes, counter: str) -> None:
    world = World(2, [Call(Kind.INTEGERS, 8)])
    host = world.hosts[0]
    host.begin(1)
    host.worker.receive(payload, 0)
    stats = host.worker.stats()
    assert stats[counter] == 1
    assert stats["results"] == 0
    world.run()


def test_old_moves_are_ignored_and_newer_ones_adopted() -> None:
    world = World(2, [Call(Kind.INTEGERS, 8)])
    worker = world.hosts[0].worker
    worker.receive(HEADER.pack(MOVE, FROM_ROOT, JOB, 0xFFFF, 0, 0, 0, 0, 0), 0)
    assert worker.epoch == 0
    worker.receive(HEADER.pack(MOVE, 0, JOB, 3, 0, 0, 0, 0, 0), 0)
    assert worker.epoch == 3


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (WorkerConfig(1, slots=3, lanes=1), "slots: a power of two, from 1 to 32768"),
        (WorkerConfig(1, slots=1 << 16, lanes=1), "slots: a power of two, from 1 to 32768"),
        (WorkerConfig(1, slots=4, lanes=4096), "lanes: from 1 to 2044"),
        (WorkerConfig(1, slots=4, lanes=8, wire_lanes=4), "wire_lanes: from lanes to 2044"),
        (WorkerConfig(1, slots=4, lanes=8, window=5), "window: from 1 to slots"),
        (WorkerConfig(1, slots=4, lanes=8, timeout_ns=0), "timeout_ns: from 1 to 2^40"),
    ],
)
def test_wrong_configuration_says_what_would_be_right(config: WorkerConfig, message: str) -> None:
    with pytest.raises(WorkerError, match=message.replace("^", r"\^")):
        PassiveWorker(config, Calls())


def test_calls_beyond_the_limit_are_refused() -> None:
    worker = PassiveWorker(WorkerConfig(1, slots=1, lanes=1), _Zeros())
    for tag in range(1024):
        worker.begin(Kind.INTEGERS, 1, tag, 0)
    with pytest.raises(WorkerError, match="too many calls"):
        worker.begin(Kind.INTEGERS, 1, 1024, 0)
    with pytest.raises(WorkerError, match="a call of 0 chunks"):
        PassiveWorker(WorkerConfig(1, slots=1, lanes=1), _Zeros()).begin(Kind.SCALED, 0, 0, 0)


def test_short_packets_have_only_the_lanes_that_are_added() -> None:
    lengths: list[tuple[int, int, int]] = []

    class Sent(_Zeros):
        def send(self, payload: bytes, tail: int) -> None:
            lengths.append((len(payload), tail, HEADER.unpack_from(payload)[-1]))

        def fill(self, tag: int, chunk: int) -> Sequence[int]:
            return [tag, chunk]

    config = WorkerConfig(1, slots=2, lanes=2, wire_lanes=8)
    worker = PassiveWorker(config, Sent(), sanitize=SANITIZE)
    worker.begin(Kind.SHORT, 1, 0, 0)
    worker.begin(Kind.INTEGERS, 1, 1, 0)
    assert lengths == [(HEADER.size + 8, 0, 2), (HEADER.size + 8, 24, 8)]


class _Zeros(Calls):
    def fill(self, tag: int, chunk: int) -> Sequence[int]:
        return [0]


@pytest.mark.long
def test_worker_under_sanitizers() -> None:
    build.ensure(sanitize=True)
    pass_sanitized(Path(__file__).parent, [Path(__file__).name], VARIABLE, "-s", "-m", "not long")
