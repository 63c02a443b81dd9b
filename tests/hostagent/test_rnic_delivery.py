"""Whatever the wire does, messages arrive whole, once and in order, and nothing else is touched.

A ==== queue pairs, requests both ways, loss, duplicates, overtaking, damage, PFC ==== B
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostagent.rnic.binding import Card
from hostagent.rnic.card_records import (
    Access,
    Event,
    EventKind,
    Operation,
    QueuePairConfig,
    QueuePairState,
    Repeat,
    Work,
)
from tests.hostagent.virtual_wire import SANITIZE, US, Faults, VirtualWire, join, make_card

EXAMPLES = 20 if SANITIZE else 200
NEEDS_BUFFER = (Operation.SEND, Operation.SEND_IMM, Operation.WRITE_IMM)
GUARD = 64
TARGET, SOURCE = 0x1_0000_0000, 0x2_0000_0000
"""Addresses of what peers may write and read"""


@dataclass
class End:
    """One end of a queue pair: what it asks for, and what must come of it."""

    card: Card
    config: QueuePairConfig
    random: Random
    works: list[Work] = field(default_factory=list)
    target: bytearray = field(default_factory=bytearray)
    source: bytearray = field(default_factory=bytearray)
    expected_target: bytearray = field(default_factory=bytearray)
    buffers: list[bytearray] = field(default_factory=list)
    expected_messages: list[tuple[int, bytes | None, int | None]] = field(default_factory=list)
    """of each receive buffer: bytes, content (SENDs), immediate"""
    reads: list[tuple[bytearray, bytes]] = field(default_factory=list)
    placed: int = 0
    received_bytes: int = 0

    def expose(self, size: int) -> None:
        """Memory for the peer, with guards that it must leave alone."""
        qpn = self.config.qpn
        self.target = bytearray(self.random.randbytes(size + 2 * GUARD))
        self.source = bytearray(self.random.randbytes(size))
        self.expected_target = bytearray(self.target)
        if not self.card.config.whole:
            self.card.register(2 * qpn, TARGET, size, Access.REMOTE_WRITE)
            self.card.register(2 * qpn + 1, SOURCE, size, Access.REMOTE_READ)
            return
        inside = memoryview(self.target)[GUARD : GUARD + size]
        self.card.register(2 * qpn, TARGET, inside, Access.REMOTE_WRITE)
        self.card.register(2 * qpn + 1, SOURCE, self.source, Access.REMOTE_READ)

    def ask(self, number: int, operation: Operation, length: int, peer: End) -> None:
        """Add a work request, and note what it has to do."""
        room = len(peer.source) - length
        offset = self.random.randrange(room + 1)
        rkey = 2 * peer.config.qpn
        immediate = self.random.getrandbits(32)
        has_immediate = operation in (Operation.SEND_IMM, Operation.WRITE_IMM)
        if operation is Operation.READ:
            into = bytearray(length)
            self.reads.append((into, bytes(peer.source[offset : offset + length])))
            work = Work(number, operation, into, remote_address=SOURCE + offset, rkey=rkey + 1)
            self.received_bytes += length
        else:
            data = self.random.randbytes(length)
            work = Work(number, operation, data, None, immediate, TARGET + offset, rkey)
            if operation in (Operation.WRITE, Operation.WRITE_IMM):
                start = GUARD + offset
                peer.expected_target[start : start + length] = data
            if operation in NEEDS_BUFFER:
                is_send = operation is not Operation.WRITE_IMM
                content = data if is_send else None
                said = immediate if has_immediate else None
                peer.expected_messages.append((length, content, said))
                peer.buffers.append(bytearray(length if is_send else 0))
            peer.received_bytes += length
        if operation is not Operation.READ:
            peer.placed += 1
        self.works.append(work)

    def post_receives(self, first: int, last: int) -> None:
        """Post receive buffers [first, last)."""
        for i in range(first, min(last, len(self.buffers))):
            whole = self.card.config.whole
            buffer, length = self.buffers[i] if whole else None, len(self.buffers[i])
            self.card.post_receive(self.config.qpn, i, buffer, length)

    def post(self, work: Work, now: int) -> None:
        """Post a work request; a header-only card gets its length alone."""
        if not self.card.config.whole:
            work = replace(work, data=None, length=len(work.data))
        self.card.post(self.config.qpn, work, now)

    def check(self, events: list[Event]) -> None:
        """All has happened, and nothing else has."""
        mine = [event for event in events if event.qpn == self.config.qpn]
        wrong = [row for row in mine if row.kind in (EventKind.FAILED, EventKind.QP_FAILED)]
        assert not wrong
        done = [row for row in mine if row.kind is EventKind.COMPLETED]
        assert [(row.id, row.operation, row.bytes) for row in done] == [
            (work.id, work.operation, len(work.data)) for work in self.works
        ]
        received = [row for row in mine if row.kind is EventKind.RECEIVED]
        assert [(row.id, row.bytes, row.immediate) for row in received] == [
            (i, length, said) for i, (length, _, said) in enumerate(self.expected_messages)
        ]
        placed = [row.id for row in mine if row.kind is EventKind.PLACED]
        assert len(placed) == self.placed and placed == sorted(set(placed))
        stats = self.card.queue_pair_stats(self.config.qpn)
        assert stats.state is QueuePairState.READY and stats.outstanding == 0
        assert stats.received_bytes == self.received_bytes
        if not self.card.config.whole:
            return
        for buffer, (_, content, _) in zip(self.buffers, self.expected_messages, strict=True):
            assert content is None or buffer == content
        assert self.target == self.expected_target
        for into, content in self.reads:
            assert into == content


@dataclass(frozen=True)
class Request:
    """A work request before it is known where."""

    operation: Operation
    packets: int
    beyond: int
    """bytes of a last packet that is not full"""

    def length(self, mtu: int) -> int:
        """Bytes of the message."""
        return self.packets * mtu + self.beyond % mtu


@dataclass(frozen=True)
class Pair:
    """A queue pair of the test."""

    config: QueuePairConfig
    other_psn: int
    forth: list[Request]
    back: list[Request]


def exchange(
    pairs: list[Pair],
    faults: Faults,
    seed: int,
    *,
    late_buffers: bool,
    pauses: bool,
    whole: bool = True,
) -> tuple[VirtualWire, list[End]]:
    """Carry out what all pairs ask for and check both ends."""
    a, b = make_card(1, whole=whole), make_card(2, whole=whole)
    wire = VirtualWire(a, b, faults=faults, seed=seed)
    random = Random(seed)
    ends: list[End] = []
    for pair in pairs:
        other = replace(pair.config, first_psn=pair.other_psn, qpn=pair.config.qpn + 1000)
        join(a, b, pair.config, other)
        here, there = End(a, pair.config, random), End(b, other, random)
        ids = count(random.randrange(1 << 60))
        longest = max((r.length(other.mtu) for r in (*pair.forth, *pair.back)), default=0)
        for end in (here, there):
            end.expose(longest + random.randrange(2000))
        for requests, end, peer in ((pair.forth, here, there), (pair.back, there, here)):
            for request in requests:
                end.ask(next(ids), request.operation, request.length(other.mtu), peer)
        ends += [here, there]
    for end in ends:
        if late_buffers:
            first = random.randrange(60 * US)
            for i in range(len(end.buffers)):
                late = first + 20 * US * i
                wire.at(late, lambda end=end, i=i: end.post_receives(i, i + 1))
        else:
            end.post_receives(0, len(end.buffers))
        ready = 0
        for work in end.works:
            ready += random.randrange(10 * US) * random.randrange(2)
            wire.at(ready, lambda end=end, work=work: end.post(work, wire.now))
    if pauses:
        for moment, card in zip(range(US, 40 * US, 2 * US), _both(a, b), strict=False):
            mask = random.randrange(256)
            wire.at(moment, lambda card=card, mask=mask: card.set_pause(mask))
        for card in (a, b):
            wire.at(50 * US, lambda card=card: card.set_pause(0))
    wire.run()
    for end in ends:
        end.check(wire.events[end.card])
    return wire, ends


def _both(a: Card, b: Card) -> Iterator[Card]:
    while True:
        yield a
        yield b


requests = st.builds(
    Request,
    operation=st.sampled_from(list(Operation)),
    packets=st.one_of(st.integers(0, 3), st.integers(0, 40)),
    beyond=st.one_of(st.sampled_from([0, 1, 2, 3, 4, 255]), st.integers(0, 4095)),
)
psns = st.one_of(st.just(0), st.integers(0xFFFFE0, 0xFFFFFF), st.integers(0, 0xFFFFFF))


@st.composite
def queue_pairs(draw: st.DrawFn) -> list[Pair]:
    """One to four queue pairs."""
    pairs = []
    for number in range(draw(st.integers(1, 4))):
        config = QueuePairConfig(
            qpn=1 + number,
            mtu=draw(st.sampled_from([256, 512, 1024, 2048, 4096])),
            udp_port=0xC000 + 16 * number,
            udp_ports=draw(st.integers(0, 5)),
            queue=draw(st.integers(0, 7)),
            repeat=draw(st.sampled_from(list(Repeat))),
            first_psn=draw(psns),
            ack_every=draw(st.sampled_from([0, 1, 2, 3, 8, 100])),
            window_packets=draw(st.sampled_from([0, 0, 1, 2, 3, 7, 64, 129])),
            max_reads=draw(st.sampled_from([0, 1, 2, 16])),
            reorder_ps=draw(st.sampled_from([0, 0, 1, 5, 30])) * US,
            retries=10_000,
            timeout_ps=draw(st.sampled_from([4, 25, 100])) * US,
            rate_bps=draw(st.sampled_from([0, 0, 10_000_000_000])),
        )
        most = st.lists(requests, max_size=5)
        pairs.append(Pair(config, draw(psns), draw(most), draw(most)))
    return pairs


GOOD = Faults()
BAD = Faults(loss=0.01, duplication=0.01, reordering=0.1, corruption=0.01)
AWFUL = Faults(loss=0.2, duplication=0.2, reordering=0.5, corruption=0.1)


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    database=None,
)
@given(
    pairs=queue_pairs(),
    faults=st.sampled_from([GOOD, BAD, BAD, AWFUL]),
    seed=st.integers(0, 1 << 32),
    late_buffers=st.booleans(),
    pauses=st.booleans(),
)
def test_every_message_arrives_once_and_in_order(
    pairs: list[Pair], faults: Faults, seed: int, late_buffers: bool, pauses: bool
) -> None:
    exchange(pairs, faults, seed, late_buffers=late_buffers, pauses=pauses)


@settings(
    max_examples=EXAMPLES // 2,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(
    pairs=queue_pairs(),
    faults=st.sampled_from([GOOD, BAD, BAD, AWFUL]),
    seed=st.integers(0, 1 << 32),
    late_buffers=st.booleans(),
)
def test_messages_that_are_lengths_alone_arrive_once_and_in_order(
    pairs: list[Pair], faults: Faults, seed: int, late_buffers: bool
) -> None:
    """Header-only cards, as the simulator has them; nothing is damaged there without being lost."""
    faults = replace(faults, corruption=0.0)
    exchange(pairs, faults, seed, late_buffers=late_buffers, pauses=False, whole=False)


@pytest.mark.parametrize("repeat", list(Repeat))
@pytest.mark.parametrize("operation", list(Operation))
def test_psns_wrap_under_loss(operation: Operation, repeat: Repeat) -> None:
    """A stream from PSN 2^24 - 50 through 0, with one packet in a hundred lost."""
    config = QueuePairConfig(
        qpn=9, mtu=256, repeat=repeat, first_psn=0xFFFFCE, retries=100, timeout_ps=20 * US
    )
    pair = Pair(config, 0xFFFFFF, [Request(operation, 40, 7)] * 5, [])
    wire, (here, there) = exchange([pair], BAD, 7, late_buffers=False, pauses=False)
    psns = {row.packet.psn for row in wire.passed}
    assert 0xFFFFFF in psns and 0 in psns
    assert here.card.next_psn(9) == 0xFFFFCE + 5 * 41
    assert there.card.next_psn(1009) == 0xFFFFFF


@pytest.mark.parametrize("operation", [Operation.SEND, Operation.WRITE, Operation.READ])
def test_what_is_overtaken_is_not_repeated_and_what_is_lost_is_soon(operation: Operation) -> None:
    """Every second packet overtakes others; then one in a hundred is lost, too."""
    config = QueuePairConfig(
        qpn=1, mtu=1024, repeat=Repeat.SELECTIVE, timeout_ps=100_000 * US, reorder_ps=200 * US
    )
    pair = Pair(config, 0, [Request(operation, 40, 0)] * 50, [])
    for loss, least, most in ((0.0, 0, 0), (0.01, 10, 40)):
        faults = Faults(loss=loss, reordering=0.5)
        _, (here, there) = exchange([pair], faults, 3, late_buffers=False, pauses=False)
        sender, receiver = (there, here) if operation is Operation.READ else (here, there)
        stats = sender.card.queue_pair_stats(sender.config.qpn)
        if operation is Operation.READ and loss:
            most = 2000  # a READ is asked for again from the first gap to its end
        assert least <= stats.repeated_packets <= most
        assert receiver.card.queue_pair_stats(receiver.config.qpn).out_of_order > 500


@pytest.mark.parametrize("operation", [Operation.SEND, Operation.WRITE, Operation.READ])
def test_selective_repeat_repeats_only_what_was_lost(operation: Operation) -> None:
    """2000 packets with 1 % loss: go-back-N repeats a window a loss, selective repeat a packet."""
    repeated = {}
    for repeat in Repeat:
        config = QueuePairConfig(
            qpn=1, mtu=1024, repeat=repeat, retries=100, timeout_ps=100 * US, window_packets=128
        )
        pair = Pair(config, 0, [Request(operation, 40, 0)] * 50, [])
        faults = Faults(loss=0.01)
        _, (here, there) = exchange([pair], faults, 3, late_buffers=False, pauses=False)
        sender = there if operation is Operation.READ else here
        repeated[repeat] = sender.card.queue_pair_stats(sender.config.qpn).repeated_packets
    if operation is not Operation.READ:  # READ responses come in order, or are asked for again
        assert 15 <= repeated[Repeat.SELECTIVE] <= 60
        assert repeated[Repeat.GO_BACK_N] > 4 * repeated[Repeat.SELECTIVE]
    assert repeated[Repeat.GO_BACK_N] >= 15
