"""A plane fails at every packet of a message, and in any order: no message lost, no byte wrong."""

from __future__ import annotations

import os
from functools import partial
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostagent.rnic.card_records import (
    Access,
    EventKind,
    Operation,
    PacketKind,
    QueuePairState,
    Work,
)
from hostagent.rnic.planes import PlaneConfig, PlaneUse
from tests.hostagent.test_rnic_planes import HEALTH, MS
from tests.hostagent.virtual_links import GBPS, RKEY, US, Link, Pair, Sent, tolerant

PACKETS = 64
MTU = 256
SIZE = PACKETS * MTU
DATA = [Operation.SEND, Operation.WRITE, Operation.READ]
PLANES = PlaneConfig(PlaneUse.SHARED, misses=3, silence_ps=20 * US, probe_ps=MS)
KINDS = (PacketKind.DATA, PacketKind.RESPONSE, PacketKind.READ_REQUEST)


def whole_pair(seed: int = 0, **changes: object) -> Pair:
    """Two whole cards over two planes of 200 Gb/s, 1 us apart, with health at both ends."""
    pair = Pair([Link(rate_bps=200 * GBPS), Link(rate_bps=200 * GBPS)], whole=True, seed=seed)
    values: dict[str, object] = {
        "mtu": MTU,
        "window_packets": 256,
        "timeout_ps": 2 * MS,
        "planes": PLANES,
        "ack_every": 4,
    }
    config = tolerant(**{**values, **changes})  # type: ignore[arg-type]
    pair.join(config, dual_plane=HEALTH)
    return pair


class Message:
    """One message from end to end, and whether it came as it was."""

    def __init__(self, pair: Pair, operation: Operation, size: int = SIZE, seed: int = 0) -> None:
        self.pair, self.operation = pair, operation
        self.data = Random(seed).randbytes(size)
        self.place = bytearray(size)
        data = self.data
        if operation is Operation.READ:
            pair.b.register(RKEY, 0, self.data, Access.REMOTE_READ)
            work = Work(0, operation, self.place, rkey=RKEY)
        elif operation is Operation.WRITE:
            pair.b.register(RKEY, 0, self.place, Access.REMOTE_WRITE)
            work = Work(0, operation, data, rkey=RKEY)
        else:
            pair.b.post_receive(1, 0, self.place)
            work = Work(0, operation, data)
        pair.a.post(1, work, pair.now)

    def check(self) -> None:
        """Check that the work request is complete, nothing failed, every byte is there."""
        kinds = [event.kind for events in self.pair.events.values() for event in events]
        assert EventKind.FAILED not in kinds
        assert EventKind.QP_FAILED not in kinds
        assert [e.kind for e in self.pair.events[self.pair.a]].count(EventKind.COMPLETED) == 1
        assert bytes(self.place) == self.data
        for card in (self.pair.a, self.pair.b):
            assert card.queue_pair_stats(1).state is QueuePairState.READY


def cut_at(pair: Pair, packet: int, way: str, *, knows: bool) -> None:
    """Let the plane of a's or b's n-th packet of the message fail with that packet, for ever."""
    seen, plane = [0], [-1]

    def lost(sent: Sent) -> bool:
        if plane[0] < 0 and sent.packet.kind in KINDS and not sent.packet.repeated:
            seen[0] += 1
            if seen[0] == packet + 1:
                plane[0] = sent.link
                if knows:
                    pair.at(pair.now, partial(pair.set_link, sent.link, False))
        if sent.link != plane[0]:
            return False
        return way == "both" or (sent.card is pair.a) == (way == "there")

    pair.lose = lost


def failing(operation: Operation, packet: int, way: str, *, knows: bool) -> None:
    pair = whole_pair()
    cut_at(pair, packet, way, knows=knows)
    message = Message(pair, operation)
    pair.run(until=3 * MS)
    message.check()
    assert pair.a.queue_pair_stats(1).timeouts == 0
    assert pair.done_at() <= 200 * US


@pytest.mark.parametrize("operation", DATA)
@pytest.mark.parametrize(
    ("way", "knows"),
    [("both", True), ("both", False), ("there", False), ("back", False)],
    ids=["link", "silent", "there", "back"],
)
@pytest.mark.parametrize(
    "packets",
    [pytest.param(range(PACKETS + 1), marks=pytest.mark.long), (0, 1, 31, 62, 63)],
    ids=["all", "some"],
)
def test_a_plane_fails_at_every_packet(
    operation: Operation, way: str, knows: bool, packets: range
) -> None:
    for packet in packets:
        failing(operation, packet, way, knows=knows)


@settings(max_examples=int(os.environ.get("WEFT_PLANES_EXAMPLES", "60")), deadline=None)
@given(
    seed=st.integers(0, 1 << 30),
    n=st.sampled_from([2, 2, 3]),
    loss=st.sampled_from([0.0, 0.01, 0.05]),
    changes=st.lists(
        st.tuples(
            st.integers(0, 1500 * US),
            st.integers(0, 2),
            st.booleans(),
            st.sampled_from(["both", "a", "b", "wire"]),
        ),
        max_size=10,
    ),
)
def test_any_order_of_failures_delivers_each_message_once(
    seed: int, n: int, loss: float, changes: list[tuple[int, int, bool, str]]
) -> None:
    """Links that both ends know of, that one end alone believes in, and wires that die silently."""
    random = Random(seed)
    pair = Pair([Link(rate_bps=50 * GBPS) for _ in range(n)], whole=True, seed=seed, loss=loss)
    config = tolerant(
        interfaces=n, mtu=MTU, window_packets=64, retries=200, planes=PLANES, ack_every=4
    )
    pair.join(config, dual_plane=HEALTH)
    dead: set[int] = set()
    pair.lose = lambda sent: sent.link in dead

    def change(link: int, up: bool, who: str) -> None:
        if who == "both":
            pair.set_link(link, up)
        elif who == "wire":
            (dead.discard if up else dead.add)(link)
        else:
            (pair.a if who == "a" else pair.b).set_link(link, up)

    for at, link, up, who in changes:
        pair.at(at, partial(change, link % n, up, who))
    for link in range(n):
        for who in ("both", "wire"):
            pair.at(2 * MS, partial(change, link, True, who))
        for who in ("a", "b"):
            pair.at(2 * MS, partial(change, link, True, who))
    written, kept = bytearray(1 << 15), random.randbytes(1 << 15)
    pair.b.register(RKEY, 0, written, Access.REMOTE_WRITE)
    pair.b.register(RKEY + 1, 0, kept, Access.REMOTE_READ)
    expected: list[tuple[memoryview, bytes]] = []
    at, count = 0, random.randrange(1, 6)
    for number in range(count):
        operation, size = random.choice(DATA), random.randrange(0, 6000)
        data, place = random.randbytes(size), bytearray(size)
        if operation is Operation.READ:
            expected.append((memoryview(place), kept[at : at + size]))
            work = Work(number, operation, place, rkey=RKEY + 1, remote_address=at)
        else:
            work = Work(number, operation, data, rkey=RKEY, remote_address=at)
            if operation is Operation.SEND:
                pair.b.post_receive(1, number, place)
                expected.append((memoryview(place), data))
            else:
                expected.append((memoryview(written)[at : at + size], data))
        pair.a.post(1, work)
        at += size
    pair.run(until=60 * MS)
    assert [e.id for e in pair.events[pair.a] if e.kind is EventKind.COMPLETED] == list(
        range(count)
    )
    for arrived, wanted in expected:
        assert arrived == wanted
    placed = [e for e in pair.events[pair.b] if e.kind is EventKind.PLACED]
    assert len(placed) <= count
    assert not [e for e in pair.events[pair.a] if e.kind in (EventKind.FAILED, EventKind.QP_FAILED)]
