"""What the card refuses, survives and gives up: bad requests, bad packets, dead peers, bad calls.

See scripted_peer.py for who is who.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from random import Random

import pytest
from scapy.contrib.roce import AETH
from scapy.packet import Packet as Layer

from hostagent.rnic.binding import Card
from hostagent.rnic.card_records import (
    Access,
    CardError,
    EventKind,
    Failure,
    Operation,
    PacketKind,
    QueuePairConfig,
    QueuePairState,
    Repeat,
    Status,
    Work,
)
from hostagent.rnic.native import native
from protocols.rocev2 import RETH, ImmDt, Opcode, Syndrome
from tests.hostagent.scripted_peer import MTU, PEER_IP, PEER_QPN, PSN, QPN, ScriptedPeer
from tests.hostagent.virtual_wire import SANITIZE, US, VirtualWire, join, make_card

O = Opcode  # noqa: E741
KEY, READ_ONLY_KEY, ADDRESS, SIZE = 0x55, 0x66, 0x1000, 1000


def target(**config: object) -> tuple[ScriptedPeer, bytearray]:
    """Return a card with 1000 bytes at 0x1000: key 0x55 may write them, key 0x66 may read them."""
    peer = ScriptedPeer(**config)
    memory = bytearray(SIZE)
    peer.card.register(KEY, ADDRESS, memory, Access.REMOTE_WRITE)
    peer.card.register(READ_ONLY_KEY, ADDRESS, memory, Access.REMOTE_READ)
    return peer, memory


# --- requests that are refused ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("opcode", "address", "key", "length"),
    [
        (O.WRITE_ONLY, ADDRESS, 0x77, 4),
        (O.WRITE_ONLY, ADDRESS - 1, KEY, 4),
        (O.WRITE_ONLY, ADDRESS + SIZE - 3, KEY, 4),
        (O.WRITE_ONLY, ADDRESS + SIZE, KEY, 1),
        (O.WRITE_ONLY, 0, KEY, 4),
        (O.WRITE_ONLY, (1 << 64) - 2, KEY, 4),
        (O.WRITE_ONLY, ADDRESS, READ_ONLY_KEY, 4),
        (O.READ_REQUEST, ADDRESS, KEY, 4),
        (O.READ_REQUEST, ADDRESS, 0x77, 4),
        (O.READ_REQUEST, ADDRESS + 1, READ_ONLY_KEY, SIZE),
        (O.READ_REQUEST, ADDRESS - 1, READ_ONLY_KEY, 1),
        (O.READ_REQUEST, (1 << 64) - 1, READ_ONLY_KEY, 2),
    ],
)
def test_access_that_was_not_given_ends_the_queue_pair(
    opcode: Opcode, address: int, key: int, length: int
) -> None:
    peer, memory = target()
    if opcode is O.READ_REQUEST:
        peer.read(PSN, address, key, length)
    else:
        peer.write(opcode, PSN, address, key, b"x" * length)
    peer.expect_ack(PSN, msn=0, syndrome=Syndrome.REMOTE_ACCESS)
    assert memory == bytes(SIZE)
    (event,) = peer.events()
    assert (event.kind, event.status) == (EventKind.QP_FAILED, Failure.REMOTE_ACCESS)
    # Whoever asks again is told again.
    peer.write(O.WRITE_ONLY, PSN, ADDRESS, KEY, b"x")
    peer.expect_ack(PSN, msn=0, syndrome=Syndrome.REMOTE_ACCESS)
    assert memory == bytes(SIZE)


def test_the_whole_of_a_write_is_checked_before_its_first_byte() -> None:
    peer, memory = target()
    peer.send(O.WRITE_FIRST, PSN, RETH(address=ADDRESS, rkey=KEY, length=SIZE + 1), b"x" * MTU)
    peer.expect_ack(PSN, msn=0, syndrome=Syndrome.REMOTE_ACCESS)
    assert memory == bytes(SIZE)


def test_nothing_of_length_0_is_anywhere() -> None:
    peer, _ = target()
    peer.write(O.WRITE_ONLY, PSN, 0, 0x77, b"")
    peer.expect_ack(PSN, msn=1)
    peer.read(PSN + 1, 0, 0x77, 0)
    peer.expect((O.READ_ONLY, PSN + 1))


def test_a_region_that_is_taken_away_while_it_is_read() -> None:
    peer, _ = target()
    peer.read(PSN, ADDRESS, READ_ONLY_KEY, 3 * MTU)
    assert peer.next() is not None
    peer.card.deregister(READ_ONLY_KEY)
    (last,) = peer.all() or peer.all()
    assert last[AETH].syndrome == Syndrome.REMOTE_ACCESS
    assert [row.kind for row in peer.events()] == [EventKind.QP_FAILED]


FIRST = RETH(address=ADDRESS, rkey=KEY, length=2 * MTU)
Step = tuple[Opcode, tuple[Layer | bytes, ...]]


@pytest.mark.parametrize(
    "steps",
    [
        [(O.SEND_MIDDLE, (b"x" * MTU,))],
        [(O.SEND_LAST, (b"x",))],
        [(O.WRITE_MIDDLE, (b"x" * MTU,))],
        [(O.WRITE_LAST, (b"x",))],
        [(O.SEND_FIRST, (b"x" * MTU,)), (O.SEND_FIRST, (b"x" * MTU,))],
        [(O.SEND_FIRST, (b"x" * MTU,)), (O.SEND_ONLY, (b"x",))],
        [(O.SEND_FIRST, (b"x" * MTU,)), (O.WRITE_LAST, (b"x",))],
        [(O.SEND_FIRST, (b"x" * MTU,)), (O.READ_REQUEST, (FIRST,))],
        [(O.WRITE_FIRST, (FIRST, b"x" * MTU)), (O.SEND_LAST, (b"x" * MTU,))],
        [(O.WRITE_FIRST, (FIRST, b"x" * MTU)), (O.WRITE_FIRST, (FIRST, b"x" * MTU))],
        [(O.SEND_FIRST, (b"x" * (MTU - 4),))],
        [(O.SEND_ONLY, (b"x" * (MTU + 4),))],
        [(O.SEND_FIRST, (b"x" * MTU,)), (O.SEND_LAST, (b"",))],
        [(O.WRITE_FIRST, (FIRST, b"x" * MTU)), (O.WRITE_LAST, (b"x" * (MTU - 1),))],
        [(O.WRITE_FIRST, (FIRST, b"x" * MTU)), (O.WRITE_MIDDLE, (b"x" * MTU,))],
        [(O.WRITE_ONLY, (RETH(address=ADDRESS, rkey=KEY, length=5), b"four"))],
        [(O.WRITE_FIRST, (RETH(address=ADDRESS, rkey=KEY, length=MTU), b"x" * MTU))],
        [(O.READ_REQUEST, (RETH(address=ADDRESS, rkey=READ_ONLY_KEY, length=(1 << 32) - 1),))],
    ],
)
def test_a_broken_sequence_of_packets_ends_the_queue_pair(steps: list[Step]) -> None:
    peer, _ = target(ack_every=100)
    peer.card.receive_anything(QPN)
    for i, (opcode, layers) in enumerate(steps):
        assert peer.silent()
        peer.send(opcode, PSN + i, *layers)
    peer.expect_ack(PSN + len(steps) - 1, msn=0, syndrome=Syndrome.INVALID_REQUEST)
    (event,) = [row for row in peer.events() if row.kind is EventKind.QP_FAILED]
    assert event.status is Failure.REMOTE_INVALID


def test_a_send_that_is_longer_than_its_buffer() -> None:
    peer, _ = target(ack_every=100)
    memory = bytearray(b"-" * 400)
    peer.card.post_receive(QPN, 8, memoryview(memory)[:300])
    peer.card.post_receive(QPN, 9, bytearray(10))
    peer.send(O.SEND_FIRST, PSN, b"x" * MTU)
    peer.send(O.SEND_LAST, PSN + 1, b"x" * MTU)
    peer.expect_ack(PSN + 1, msn=0, syndrome=Syndrome.INVALID_REQUEST)
    assert memory == b"x" * MTU + b"-" * (400 - MTU)
    assert [(row.kind, row.id, row.status) for row in peer.events()] == [
        (EventKind.FAILED, 8, Failure.LOCAL_LENGTH),
        (EventKind.QP_FAILED, 0, Failure.REMOTE_INVALID),
        (EventKind.FAILED, 9, Failure.FLUSHED),
    ]


@pytest.mark.parametrize(
    ("syndrome", "failure"),
    [
        (Syndrome.INVALID_REQUEST, Failure.REMOTE_INVALID),
        (Syndrome.REMOTE_ACCESS, Failure.REMOTE_ACCESS),
        (Syndrome.REMOTE_OPERATION, Failure.REMOTE_OPERATION),
    ],
)
def test_a_refusal_fails_the_work_that_it_is_for(syndrome: Syndrome, failure: Failure) -> None:
    """Work before it is complete, work behind it is flushed, all in order."""
    peer = ScriptedPeer()
    for id in range(4):
        peer.card.post(QPN, Work(id, Operation.WRITE, bytes(2 * MTU), rkey=1))
    peer.card.post_receive(QPN, 50, bytearray(4))
    peer.all()
    peer.ack(PSN + 3, syndrome)
    assert [(row.kind, row.id, row.status) for row in peer.events()] == [
        (EventKind.COMPLETED, 0, Failure.NONE),
        (EventKind.QP_FAILED, 0, failure),
        (EventKind.FAILED, 1, failure),
        (EventKind.FAILED, 2, Failure.FLUSHED),
        (EventKind.FAILED, 3, Failure.FLUSHED),
        (EventKind.FAILED, 50, Failure.FLUSHED),
    ]
    assert peer.stats.state is QueuePairState.ERROR and peer.silent()
    with pytest.raises(CardError, match="in error") as refused:
        peer.card.post(QPN, Work(9, Operation.SEND, b"x"))
    assert refused.value.status is Status.STATE


# --- peers that die -----------------------------------------------------------------------------


@pytest.mark.parametrize("repeat", list(Repeat))
def test_a_peer_that_dies_harms_nobody_else(repeat: Repeat) -> None:
    """A sends to B and C on pairs 1 and 2, in turns; B dies in the middle."""
    a, b, c = make_card(1), make_card(2), make_card(3)
    values = {"mtu": 1024, "repeat": repeat, "retries": 3, "timeout_ps": 20 * US}
    join(a, b, QueuePairConfig(qpn=1, **values))  # type: ignore[arg-type]
    join(a, c, QueuePairConfig(qpn=2, **values))  # type: ignore[arg-type]
    wire = VirtualWire(a, b, c)
    data = Random(1).randbytes(200 * 1024)
    memory = {card: bytearray(len(data)) for card in (b, c)}
    for card, space in memory.items():
        card.register(1, 0, space, Access.REMOTE_WRITE)
    for qpn in (1, 2):
        a.post(qpn, Work(qpn, Operation.WRITE, data, rkey=1))
        a.post(qpn, Work(10 + qpn, Operation.SEND, b""))
    c.receive_anything(2)
    wire.at(5 * US, lambda: wire.unplugged.add(b))
    wire.run()
    assert [(row.kind, row.qpn, row.id, row.status) for row in wire.events[a]] == [
        (EventKind.COMPLETED, 2, 2, Failure.NONE),
        (EventKind.COMPLETED, 2, 12, Failure.NONE),
        (EventKind.QP_FAILED, 1, 0, Failure.RETRY_EXCEEDED),
        (EventKind.FAILED, 1, 1, Failure.RETRY_EXCEEDED),
        (EventKind.FAILED, 1, 11, Failure.FLUSHED),
    ]
    assert memory[c] == data and memory[b] != data
    arrived = b.queue_pair_stats(1).received_bytes
    assert 0 < arrived < len(data) and memory[b][:arrived] == data[:arrived]


def test_a_queue_pair_that_is_removed_with_packets_under_way() -> None:
    a, b = make_card(1), make_card(2)
    config = QueuePairConfig(qpn=1, mtu=256, retries=0, timeout_ps=50 * US)
    join(a, b, config)
    wire = VirtualWire(a, b)
    b.receive_anything(1)
    data = bytes(100 * 256)
    a.post(1, Work(1, Operation.SEND, data))
    wire.at(2 * US, lambda: a.remove_queue_pair(1))
    wire.run()
    assert wire.events[a] == []
    assert a.stats().unknown_qp > 0
    assert 0 < b.queue_pair_stats(1).received_bytes < len(data)
    with pytest.raises(CardError, match="no queue pair 1"):
        a.queue_pair_stats(1)
    # The number is free for another one.
    b.remove_queue_pair(1)
    join(a, b, config)
    b.receive_anything(1)
    a.post(1, Work(2, Operation.SEND, data), wire.now)
    wire.run()
    assert [(row.kind, row.id) for row in wire.events[a]] == [(EventKind.COMPLETED, 2)]


def test_many_queue_pairs_come_and_go() -> None:
    random = Random(5)
    card = make_card(1, max_qps=100)
    there: set[int] = set()
    for _ in range(3000):
        qpn = random.choice([random.randrange(1, 1 << 24), *there])
        if qpn in there:
            card.remove_queue_pair(qpn)
            there.remove(qpn)
        elif len(there) == 100:
            with pytest.raises(CardError, match="no more than 100"):
                card.add_queue_pair(QueuePairConfig(qpn=qpn))
        else:
            card.add_queue_pair(QueuePairConfig(qpn=qpn))
            card.connect(qpn, PEER_IP, peer_qpn=1, peer_psn=0)
            card.post(qpn, Work(1, Operation.SEND, b"x"))
            there.add(qpn)
    sent = set()
    while packet := card.transmit(0):
        sent.add(packet.qpn)
    assert sent == there


# --- bad packets --------------------------------------------------------------------------------

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]


def receive_exactly(card: Card, frame: bytes, now: int = 0, tail: int = 0) -> bool:
    """From memory of just that length, so that the sanitizer sees a byte read behind it."""
    memory = libc.malloc(max(len(frame), 1))
    try:
        ctypes.memmove(memory, frame, len(frame))
        pointer = card.ffi.cast("uint8_t *", memory)
        return bool(card.lib.rnic_receive(card.handle, pointer, len(frame), tail, now))
    finally:
        libc.free(memory)


def valid_frames(peer: ScriptedPeer) -> list[bytes]:
    """Return a good packet of every kind, for what the card expects next."""
    reth = RETH(address=ADDRESS, rkey=KEY, length=300)
    return [
        peer.frame(O.SEND_ONLY, PSN, b"hello"),
        peer.frame(O.SEND_ONLY_IMM, PSN, ImmDt(immediate=1), b"hello"),
        peer.frame(O.WRITE_FIRST, PSN, reth, b"x" * MTU),
        peer.frame(
            O.WRITE_ONLY_IMM, PSN, RETH(address=ADDRESS, rkey=KEY, length=3), ImmDt(), b"abc"
        ),
        peer.frame(O.READ_REQUEST, PSN, RETH(address=ADDRESS, rkey=READ_ONLY_KEY, length=600)),
        peer.frame(O.READ_ONLY, PSN, AETH(syndrome=0x1F), b"x" * 40),
        peer.frame(O.ACK, PSN, AETH(syndrome=0x1F)),
        peer.frame(O.ACK, PSN, AETH(syndrome=0x60), bytes(20)),
        peer.frame(O.CNP, 0, bytes(16)),
    ]


def test_frames_that_are_cut_off_at_every_length() -> None:
    peer, memory = target()
    frames = valid_frames(peer)
    for frame in frames:
        for length in range(len(frame)):
            assert not receive_exactly(peer.card, frame[:length])
    stats = peer.card.stats()
    assert stats.received == 0
    assert stats.other + stats.malformed == sum(map(len, frames))
    assert memory == bytes(SIZE) and peer.silent() and peer.happened() == []


def test_ethernet_padding_behind_a_short_packet_is_ignored() -> None:
    peer, _ = target()
    peer.card.receive_anything(QPN)
    frame = peer.frame(O.SEND_ONLY, PSN, b"") + b"\xa5" * 10
    assert receive_exactly(peer.card, frame)
    peer.expect_ack(PSN, msn=1)


def test_a_wrong_icrc_is_dropped_and_counted() -> None:
    peer, memory = target()
    frame = peer.frame(O.WRITE_ONLY, PSN, RETH(address=ADDRESS, rkey=KEY, length=5), b"hello")
    for at in (20, 45, 50, 53, 60, 70, len(frame) - 1):
        bad = bytearray(frame)
        bad[at] ^= 0x04
        peer.card.receive(bytes(bad), 0)
    stats = peer.card.stats()
    assert (stats.received, stats.bad_icrc + stats.malformed + stats.other) == (0, 7)
    assert stats.bad_icrc >= 6
    assert memory == bytes(SIZE) and peer.silent()
    assert peer.card.receive(frame, 0) and memory[:5] == b"hello"


def test_a_wrong_icrc_does_not_matter_where_it_is_not_checked() -> None:
    peer, memory = target(card={"check_icrc": False})
    frame = peer.frame(O.WRITE_ONLY, PSN, RETH(address=ADDRESS, rkey=KEY, length=5), b"hello")
    assert peer.card.receive(frame[:-4] + bytes(4), 0) and memory[:5] == b"hello"


def edited(offset: int, value: int) -> Callable[[bytes], bytes]:
    return lambda frame: frame[:offset] + bytes([value]) + frame[offset + 1 :]


@pytest.mark.parametrize(
    ("edit", "counter"),
    [
        (edited(12, 0x86), "other"),  # not IPv4
        (edited(14, 0x46), "other"),  # IPv4 options
        (edited(14, 0x65), "other"),
        (edited(20, 0x20), "other"),  # a fragment
        (edited(21, 0x01), "other"),
        (edited(23, 6), "other"),  # TCP
        (edited(33, 9), "other"),  # for another host
        (edited(37, 0xB8), "other"),  # another UDP port
        (edited(17, 27), "malformed"),  # IPv4 and UDP lengths differ
        (edited(16, 0xFF), "malformed"),
        (edited(39, 7), "malformed"),
        (edited(43, 0x4F), "malformed"),  # transport version
        (edited(42, 0x13), "malformed"),  # COMPARE SWAP
        (edited(42, 0x24), "malformed"),  # unreliable connection
        (edited(42, 0xFF), "malformed"),
        (edited(49, 99), "unknown_qp"),
        (edited(29, 9), "unknown_qp"),  # not from the peer
    ],
)
def test_packets_that_are_not_for_us(edit: Callable[[bytes], bytes], counter: str) -> None:
    peer, _ = target(card={"check_icrc": False})
    peer.card.receive_anything(QPN)
    frame = peer.frame(O.SEND_ONLY, PSN, b"hello")
    assert not receive_exactly(peer.card, edit(frame))
    stats = peer.card.stats()
    assert (getattr(stats, counter), stats.received) == (1, 0)
    assert peer.silent() and receive_exactly(peer.card, frame)


@pytest.mark.parametrize("repeat", list(Repeat))
@pytest.mark.parametrize("whole", [True, False])
def test_bytes_that_nobody_sent(repeat: Repeat, whole: bool) -> None:
    """Good packets with random bytes put in: whatever comes of it, nothing crashes or overruns."""
    random = Random(repeat + 2 * whole)
    guard = b"\x5a" * 64
    frames = valid_frames(target()[0])
    for _ in range(20 if SANITIZE else 200):
        peer, _ = target(card={"check_icrc": False}, repeat=repeat, cnp_interval_ns=0)
        space = bytearray(guard + bytes(SIZE) + guard)
        peer.card.register(7, 0, memoryview(space)[64:-64], Access(3))
        peer.card.receive_anything(QPN)
        peer.card.post_receive(QPN, 1, bytearray(10))
        for id, operation in enumerate(Operation):
            peer.card.post(QPN, Work(id, operation, bytearray(500), rkey=1))
        while peer.card.transmit(peer.now):
            pass
        for _ in range(60):
            frame = bytearray(random.choice(frames))
            for _ in range(random.randrange(1, 4)):
                at = random.choice(
                    [42, 43, 44, 49, 50, 51, 52, 53, random.randrange(14, len(frame))]
                )
                frame[at] = random.choice([0, 1, 0xFF, PSN, PSN + 1, QPN, random.randrange(256)])
            length = random.choice([len(frame), random.randrange(len(frame) + 1)])
            tail = random.choice([0, len(frame) - length, random.randrange(5000)])
            receive_exactly(peer.card, bytes(frame[:length]), peer.now, tail)
            peer.pass_time(peer.now + random.randrange(US))
            for _ in range(3):
                peer.card.transmit(peer.now)
        assert space.startswith(guard) and space.endswith(guard)
        assert peer.card.stats().received > 0


# --- calls that are refused ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "status", "message"),
    [
        ({"qpn": 0}, Status.INVALID, "0xffffff"),
        ({"qpn": 1 << 24}, Status.INVALID, "0xffffff"),
        ({"qpn": QPN}, Status.EXISTS, "there already"),
        ({"mtu": 1000}, Status.INVALID, "256, 512"),
        ({"mtu": 128}, Status.INVALID, "256, 512"),
        ({"mtu": 8192}, Status.INVALID, "256, 512"),
        ({"queue": 8}, Status.INVALID, "queue"),
        ({"dscp": 64}, Status.INVALID, "DSCP"),
        ({"window_packets": 8193, "repeat": Repeat.SELECTIVE}, Status.INVALID, "window"),
        ({"window_packets": (1 << 22) + 1}, Status.INVALID, "window"),
        ({"timeout_ps": 0}, Status.INVALID, "time-out"),
        ({"udp_port": 65535, "udp_ports": 2}, Status.INVALID, "UDP ports"),
        ({"first_psn": 1 << 24}, Status.INVALID, "PSN"),
        ({"max_reads": 1025}, Status.INVALID, "READs"),
    ],
)
def test_queue_pairs_that_can_not_be(config: dict[str, int], status: Status, message: str) -> None:
    peer = ScriptedPeer()
    with pytest.raises(CardError, match=message) as refused:
        peer.card.add_queue_pair(QueuePairConfig(**{"qpn": 9, **config}))  # type: ignore[arg-type]
    assert refused.value.status is status


def test_other_calls_that_are_refused() -> None:
    peer = ScriptedPeer(send_depth=1)
    card = peer.card
    card.register(1, 0, bytearray(4), Access.REMOTE_READ)
    card.add_queue_pair(QueuePairConfig(qpn=6))
    card.post(QPN, Work(1, Operation.SEND, b"x"))
    calls: list[tuple[Status, str, Callable[[], object]]] = [
        (Status.EXISTS, "0x00000001", lambda: card.register(1, 9, bytearray(4), Access(1))),
        (Status.INVALID, "last", lambda: card.register(2, (1 << 64) - 2, bytearray(4), Access(1))),
        (Status.NO_SUCH, "0x00000009", lambda: card.deregister(9)),
        (Status.NO_SUCH, "99", lambda: card.remove_queue_pair(99)),
        (Status.NO_SUCH, "99", lambda: card.post(99, Work(1, Operation.SEND, b"x"))),
        (Status.NO_SUCH, "99", lambda: card.post_receive(99, 1)),
        (Status.NO_SUCH, "99", lambda: card.connect(99, 1, peer_qpn=1, peer_psn=0)),
        (Status.STATE, "connected", lambda: card.connect(QPN, 1, peer_qpn=1, peer_psn=0)),
        (Status.INVALID, "peer", lambda: card.connect(6, 1, peer_qpn=0, peer_psn=0)),
        (Status.INVALID, "peer", lambda: card.connect(6, 1, peer_qpn=1, peer_psn=1 << 24)),
        (Status.STATE, "not connected", lambda: card.post(6, Work(1, Operation.SEND, b"x"))),
        (Status.FULL, "1 work", lambda: card.post(QPN, Work(2, Operation.SEND, b"x"))),
        (Status.INVALID, "memory", lambda: card.post(QPN, Work(2, Operation.SEND, length=4))),
        (
            Status.INVALID,
            "too long",
            lambda: card.post(QPN, Work(2, Operation.SEND, length=(1 << 31) + 1)),
        ),
    ]
    for status, message, call in calls:
        with pytest.raises(CardError, match=message) as refused:
            call()
        assert refused.value.status is status


@pytest.mark.parametrize("config", [{"cnp_dscp": 64}, {"cnp_queue": 8}, {"cnp_queue": -1}])
def test_cards_that_can_not_be(config: dict[str, int]) -> None:
    with pytest.raises(CardError, match="a queue of 0 to 7"):
        make_card(1, **config)


@pytest.mark.parametrize(
    ("dscp", "queue", "made"), [(63, 7, True), (64, 7, False), (63, 8, False), (0, 1 << 31, False)]
)
def test_the_card_itself_checks_where_cnps_go(dscp: int, queue: int, made: bool) -> None:
    """Whoever makes it: the queue is an index, and a shift."""
    module = native(sanitize=SANITIZE)
    wanted = {"max_qps": 1, "cnp_dscp": dscp, "cnp_queue": queue}
    handle = module.lib.rnic_create(module.ffi.new("struct rnic_config *", wanted))
    assert (handle != module.ffi.NULL) == made
    module.lib.rnic_destroy(handle)


@pytest.mark.parametrize("use", ["register", "read", "receive"])
def test_memory_that_is_written_must_be_writable(use: str) -> None:
    card = ScriptedPeer().card
    with pytest.raises(BufferError):
        match use:
            case "register":
                card.register(1, 0, b"text", Access.REMOTE_WRITE)
            case "read":
                card.post(QPN, Work(1, Operation.READ, b"text", rkey=1))
            case _:
                card.post_receive(QPN, 1, b"text")


def test_who_is_who() -> None:
    """The numbers that the other tests rely on."""
    peer = ScriptedPeer()
    peer.card.post(QPN, Work(1, Operation.SEND, b"x"))
    packet = peer.card.transmit(0)
    assert packet and (packet.qpn, packet.kind, packet.psn) == (QPN, PacketKind.DATA, PSN)
    assert int.from_bytes(packet.frame[47:50]) == PEER_QPN
