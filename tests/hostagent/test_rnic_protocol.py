"""RC over RoCEv2 packet by packet: what the card sends, and what it makes of what comes.

See scripted_peer.py for who is who; the rules are those of the InfiniBand Architecture
Specification vol. 1, chapter 9.
"""

from __future__ import annotations

import pytest
from scapy.contrib.roce import AETH, BTH
from scapy.layers.inet import IP, UDP
from scapy.packet import Raw

from hostagent.rnic.card_records import (
    Access,
    EventKind,
    Failure,
    Operation,
    PacketKind,
    QueuePairState,
    Repeat,
    Work,
)
from protocols.rocev2 import RETH, ImmDt, NakBitmap, Opcode, Syndrome
from tests.hostagent.scripted_peer import MTU, PEER_QPN, PSN, QPN, ScriptedPeer
from tests.hostagent.virtual_wire import US

O = Opcode  # noqa: E741
DATA = bytes(range(256)) * 8


def post(peer: ScriptedPeer, operation: Operation, length: int, id: int = 1) -> Work:
    data = bytearray(DATA[:length])
    work = Work(id, operation, data, None, 0xCAFEBABE, 0x1000, 0x55)
    peer.card.post(QPN, work, peer.now)
    return work


# --- requests: opcodes and headers --------------------------------------------------------------

S, W = Operation.SEND, Operation.WRITE
SI, WI = Operation.SEND_IMM, Operation.WRITE_IMM


@pytest.mark.parametrize(
    ("operation", "length", "opcodes"),
    [
        (S, 0, [O.SEND_ONLY]),
        (S, 1, [O.SEND_ONLY]),
        (S, MTU, [O.SEND_ONLY]),
        (S, MTU + 1, [O.SEND_FIRST, O.SEND_LAST]),
        (S, 3 * MTU, [O.SEND_FIRST, O.SEND_MIDDLE, O.SEND_LAST]),
        (SI, 0, [O.SEND_ONLY_IMM]),
        (SI, 2 * MTU, [O.SEND_FIRST, O.SEND_LAST_IMM]),
        (SI, 3 * MTU - 3, [O.SEND_FIRST, O.SEND_MIDDLE, O.SEND_LAST_IMM]),
        (W, 0, [O.WRITE_ONLY]),
        (W, MTU, [O.WRITE_ONLY]),
        (W, 2 * MTU, [O.WRITE_FIRST, O.WRITE_LAST]),
        (W, 4 * MTU, [O.WRITE_FIRST, O.WRITE_MIDDLE, O.WRITE_MIDDLE, O.WRITE_LAST]),
        (WI, 7, [O.WRITE_ONLY_IMM]),
        (WI, 2 * MTU + 2, [O.WRITE_FIRST, O.WRITE_MIDDLE, O.WRITE_LAST_IMM]),
    ],
)
def test_a_message_is_these_packets(
    operation: Operation, length: int, opcodes: list[Opcode]
) -> None:
    peer = ScriptedPeer()
    work = post(peer, operation, length)
    packets = peer.expect(*((opcode, PSN + i) for i, opcode in enumerate(opcodes)))
    payload = b""
    for i, packet in enumerate(packets):
        last = i == len(packets) - 1
        here = min(MTU, length - i * MTU)
        assert packet[BTH].ackreq == last
        assert packet[BTH].padcount == -here % 4
        assert packet.haslayer(ImmDt) == (last and operation in (SI, WI))
        assert packet.haslayer(RETH) == (i == 0 and operation in (W, WI))
        if packet.haslayer(ImmDt):
            assert packet[ImmDt].immediate == work.immediate
        if packet.haslayer(RETH):
            reth = packet[RETH]
            assert (reth.address, reth.rkey, reth.length) == (0x1000, 0x55, length)
        raw = packet[Raw].load if packet.haslayer(Raw) else b""
        assert len(raw) == here + -here % 4 and raw[here:] == bytes(-here % 4)
        payload += raw[:here]
    assert payload == work.data


def test_headers_below() -> None:
    peer = ScriptedPeer(dscp=10, ttl=9, udp_port=0xD000, udp_ports=3)
    post(peer, S, 4 * MTU)
    packets = peer.all()
    for packet in packets:
        assert packet.dst == "02:01:00:00:00:01" and packet.src == "02:00:0a:00:01:01"
        ip, bth = packet[IP], packet[BTH]
        assert (ip.src, ip.dst, ip.ttl, ip.tos) == ("10.0.1.1", "10.0.1.2", 9, 10 << 2 | 2)
        assert str(ip.flags) == "DF" and ip.frag == 0 and ip.id == 0
        check = ip.copy()
        del check.chksum
        assert IP(bytes(check)).chksum == ip.chksum
        assert (packet[UDP].dport, packet[UDP].chksum) == (4791, 0)
        assert packet[UDP].len == ip.len - 20 == len(packet) - 34
        assert (bth.dqpn, bth.pkey, bth.migreq, bth.version) == (PEER_QPN, 0xFFFF, 1, 0)
        assert (bth.solicited, bth.fecn, bth.becn, bth.resv6, bth.resv7) == (0, 0, 0, 0, 0)
    assert [p[UDP].sport for p in packets] == [0xD000 + (PSN + i) % 3 for i in range(4)]


def test_a_read_request_takes_as_many_psns_as_its_responses() -> None:
    peer = ScriptedPeer()
    into = post(peer, Operation.READ, 3 * MTU - 1, id=1).data
    post(peer, W, 4, id=2)
    first, _ = peer.expect((O.READ_REQUEST, PSN), (O.WRITE_ONLY, PSN + 3))
    reth = first[RETH]
    assert (reth.address, reth.rkey, reth.length) == (0x1000, 0x55, 3 * MTU - 1)
    peer.send(O.READ_FIRST, PSN, AETH(syndrome=0x1F), b"a" * MTU)
    peer.send(O.READ_MIDDLE, PSN + 1, b"b" * MTU)
    assert peer.happened() == []
    peer.send(O.READ_LAST, PSN + 2, AETH(syndrome=0x1F), b"c" * (MTU - 1))
    assert into == b"a" * MTU + b"b" * MTU + b"c" * (MTU - 1)
    assert peer.happened() == [(EventKind.COMPLETED, 1)]
    peer.ack(PSN + 3)
    assert peer.happened() == [(EventKind.COMPLETED, 2)]


def test_no_more_reads_at_once_than_allowed() -> None:
    peer = ScriptedPeer(max_reads=2)
    for id in range(4):
        post(peer, Operation.READ, 10, id=id)
    peer.expect((O.READ_REQUEST, PSN), (O.READ_REQUEST, PSN + 1))
    peer.send(O.READ_ONLY, PSN, AETH(syndrome=0x1F), b"x" * 10)
    peer.expect((O.READ_REQUEST, PSN + 2))


# --- acknowledgements ---------------------------------------------------------------------------


def receiver(**config: object) -> tuple[ScriptedPeer, bytearray]:
    """Return a card with 4 KB at 0x1000, key 0x55, that may be written and read."""
    peer = ScriptedPeer(**config)
    memory = bytearray(4096)
    peer.card.register(0x55, 0x1000, memory, Access.REMOTE_WRITE | Access.REMOTE_READ)
    return peer, memory


def test_an_acknowledgement() -> None:
    peer, memory = receiver(dscp=10)
    peer.write(O.WRITE_ONLY, PSN, 0x1010, 0x55, b"hello")
    packet = peer.expect_ack(PSN, msn=1)
    assert packet[IP].tos == 10 << 2, "not ECN-capable"
    assert (packet[BTH].dqpn, packet[BTH].ackreq, packet[IP].len) == (PEER_QPN, 0, 20 + 8 + 12 + 8)
    assert memory[0x0F:0x16] == b"\0hello\0"
    assert peer.happened() == [(EventKind.PLACED, 0)]


def test_msn_counts_messages_not_packets() -> None:
    peer, _ = receiver(ack_every=100)
    peer.send(O.WRITE_FIRST, PSN, RETH(address=0x1000, rkey=0x55, length=2 * MTU), b"x" * MTU)
    peer.expect()  # no one asked
    peer.send(O.WRITE_LAST, PSN + 1, b"y" * MTU)
    peer.expect_ack(PSN + 1, msn=1)
    peer.read(PSN + 2, 0x1000, 0x55, 2 * MTU)
    first, last = peer.expect((O.READ_FIRST, PSN + 2), (O.READ_LAST, PSN + 3))
    assert first[AETH].msn == last[AETH].msn == 2
    peer.write(O.WRITE_ONLY, PSN + 4, 0x1000, 0x55, b"z")
    peer.expect_ack(PSN + 4, msn=3)


@pytest.mark.parametrize(
    ("ack_every", "acknowledged"),
    [(1, [0, 1, 2, 3, 4, 5, 6]), (2, [1, 3, 5, 6]), (3, [2, 5, 6]), (100, [6])],
)
def test_acknowledgements_stand_for_several(ack_every: int, acknowledged: list[int]) -> None:
    peer, _ = receiver(ack_every=ack_every)
    said = []
    for i in range(7):
        opcode = O.SEND_FIRST if i == 0 else O.SEND_LAST if i == 6 else O.SEND_MIDDLE
        if i == 0:
            peer.card.receive_anything(QPN)
        peer.send(opcode, PSN + i, b"x" * MTU)
        said += [p[BTH].psn - PSN for p in peer.all()]
    # A message's middle is acknowledged when the peer asks, or when so many have come.
    assert said == acknowledged


def test_who_asks_is_answered() -> None:
    peer, _ = receiver(ack_every=100)
    peer.card.receive_anything(QPN)
    peer.send(O.SEND_FIRST, PSN, b"x" * MTU)
    assert peer.silent()
    peer.send(O.SEND_MIDDLE, PSN + 1, b"x" * MTU, ackreq=True)
    peer.expect_ack(PSN + 1, msn=0)


def test_one_acknowledgement_for_all_that_came_before_it_could_leave() -> None:
    peer, _ = receiver()
    for i in range(3):
        peer.write(O.WRITE_ONLY, PSN + i, 0x1000, 0x55, b"x")
    peer.expect_ack(PSN + 2, msn=3)


def test_a_duplicate_is_acknowledged_and_not_carried_out() -> None:
    peer, memory = receiver()
    peer.write(O.WRITE_ONLY, PSN, 0x1000, 0x55, b"first")
    peer.write(O.WRITE_ONLY, PSN + 1, 0x1000, 0x55, b"again")
    peer.expect_ack(PSN + 1, msn=2)
    peer.write(O.WRITE_ONLY, PSN, 0x1000, 0x55, b"first")
    peer.expect_ack(PSN + 1, msn=2)
    assert memory[:5] == b"again" and peer.stats.duplicates == 1
    assert peer.happened() == [(EventKind.PLACED, 0), (EventKind.PLACED, 1)]


def test_an_acknowledgement_completes_all_before_it() -> None:
    peer = ScriptedPeer()
    for id, operation in enumerate((S, W, SI)):
        post(peer, operation, 2 * MTU, id=id)
    peer.all()
    peer.ack(PSN + 2)
    assert peer.happened() == [(EventKind.COMPLETED, 0)]
    assert peer.stats.outstanding == 3
    peer.ack(PSN + 5)
    assert peer.happened() == [(EventKind.COMPLETED, 1), (EventKind.COMPLETED, 2)]
    assert peer.silent()


@pytest.mark.parametrize("psn", [PSN - 1, PSN + 2, PSN + 0x7FFFFF, PSN + 0x800000, 0])
def test_acknowledgements_of_what_is_not_under_way_mean_nothing(psn: int) -> None:
    peer = ScriptedPeer()
    post(peer, S, 2 * MTU)
    peer.all()
    for syndrome in (Syndrome.ACK, Syndrome.RNR, Syndrome.SEQUENCE_ERROR, Syndrome.REMOTE_ACCESS):
        peer.ack(psn, syndrome)
    assert peer.happened() == [] and peer.silent()
    assert peer.stats.state is QueuePairState.READY and peer.stats.outstanding == 2


# --- gaps: go-back-N ----------------------------------------------------------------------------


def test_a_gap_is_told_once() -> None:
    peer, memory = receiver()
    peer.write(O.WRITE_ONLY, PSN + 1, 0x1000, 0x55, b"early")
    packet = peer.expect_ack(PSN, msn=0, syndrome=Syndrome.SEQUENCE_ERROR)
    assert not packet.haslayer(NakBitmap)
    for i in (2, 3, 4):
        peer.write(O.WRITE_ONLY, PSN + i, 0x1000, 0x55, b"early")
    peer.expect()
    for i in range(5):
        peer.write(O.WRITE_ONLY, PSN + i, 0x1000, 0x55, b"%d" % i)
    peer.expect_ack(PSN + 4, msn=5)
    assert memory[:5] == b"4\0\0\0\0"
    assert (peer.stats.out_of_order, peer.stats.dropped, peer.stats.naks_sent) == (4, 4, 1)
    peer.write(O.WRITE_ONLY, PSN + 6, 0x1000, 0x55, b"x")
    peer.expect_ack(PSN + 5, msn=5, syndrome=Syndrome.SEQUENCE_ERROR)


def test_go_back_n_sends_everything_again_from_the_gap() -> None:
    peer = ScriptedPeer()
    post(peer, S, 4 * MTU, id=1)
    post(peer, S, 1, id=2)
    peer.all()
    peer.ack(PSN + 2, Syndrome.SEQUENCE_ERROR)
    packets = peer.expect((O.SEND_MIDDLE, PSN + 2), (O.SEND_LAST, PSN + 3), (O.SEND_ONLY, PSN + 4))
    assert packets[0][Raw].load == DATA[2 * MTU : 3 * MTU]
    assert (peer.stats.repeated_packets, peer.stats.repeated_bytes) == (3, 2 * MTU + 1)
    peer.ack(PSN + 4)
    assert peer.happened() == [(EventKind.COMPLETED, 1), (EventKind.COMPLETED, 2)]


# --- gaps: selective repeat ---------------------------------------------------------------------


def test_a_selective_nak_says_what_has_arrived() -> None:
    peer, memory = receiver(repeat=Repeat.SELECTIVE)
    for i in (1, 2, 5):
        peer.write(O.WRITE_ONLY, PSN + i, 0x1000 + i, 0x55, b"%d" % i)
    packet = peer.expect_ack(PSN, msn=0, syndrome=Syndrome.SEQUENCE_ERROR)
    assert packet[NakBitmap].base == PSN + 1
    assert packet[NakBitmap].arrived() == [PSN + 1, PSN + 2, PSN + 5]
    assert peer.happened() == [] and memory[:8] == bytes(8)
    peer.write(O.WRITE_ONLY, PSN, 0x1000, 0x55, b"0")
    packet = peer.expect_ack(PSN + 3, msn=3, syndrome=Syndrome.SEQUENCE_ERROR)
    assert packet[NakBitmap].arrived() == [PSN + 5]
    for i in (4, 3):
        peer.write(O.WRITE_ONLY, PSN + i, 0x1000 + i, 0x55, b"%d" % i)
    peer.expect_ack(PSN + 5, msn=6)
    assert memory[:8] == b"012345\0\0"
    assert peer.happened() == [(EventKind.PLACED, i) for i in range(6)]


def test_a_gap_is_a_loss_only_when_what_came_behind_it_has_waited() -> None:
    peer, memory = receiver(repeat=Repeat.SELECTIVE, reorder_ps=5 * US)
    peer.write(O.WRITE_ONLY, PSN + 1, 0x1001, 0x55, b"1")
    assert peer.silent() and peer.card.next_event() == 5 * US
    peer.now = 3 * US
    peer.write(O.WRITE_ONLY, PSN, 0x1000, 0x55, b"0")
    peer.expect_ack(PSN + 1, msn=2)
    peer.write(O.WRITE_ONLY, PSN + 3, 0x1003, 0x55, b"3")
    peer.now = 7 * US
    peer.write(O.WRITE_ONLY, PSN + 5, 0x1005, 0x55, b"5")
    peer.card.advance(peer.now)
    assert peer.silent()
    for now, arrived in ((8 * US, [3]), (12 * US, [3, 5])):
        assert peer.card.next_event() == now
        peer.now = now
        peer.card.advance(now)
        packet = peer.expect_ack(PSN + 2, msn=2, syndrome=Syndrome.SEQUENCE_ERROR)
        assert packet[NakBitmap].arrived() == [PSN + i for i in arrived]
    for i in (2, 4):
        peer.write(O.WRITE_ONLY, PSN + i, 0x1000 + i, 0x55, b"%d" % i)
    peer.expect_ack(PSN + 5, msn=6)
    assert memory[:8] == b"012345\0\0"
    peer.now = 100 * US
    peer.card.advance(peer.now)
    assert peer.silent()


def test_a_gap_that_closes_in_time_is_never_told() -> None:
    peer, _ = receiver(repeat=Repeat.SELECTIVE, reorder_ps=5 * US)
    for ahead in (1, 3, 5, 7):
        peer.write(O.WRITE_ONLY, PSN + ahead, 0x1000, 0x55, b"x")
        peer.now += US
    for ahead in (0, 2, 4, 6):
        peer.write(O.WRITE_ONLY, PSN + ahead, 0x1000, 0x55, b"x")
    peer.expect_ack(PSN + 7, msn=8)
    for now in range(5, 20):
        peer.now = now * US
        peer.card.advance(peer.now)
        assert peer.silent()
    assert peer.card.queue_pair_stats(QPN).naks_sent == 0


def test_selective_repeat_sends_what_is_missing() -> None:
    peer = ScriptedPeer(repeat=Repeat.SELECTIVE)
    post(peer, S, 8 * MTU)
    peer.all()
    peer.missing(PSN + 1, [PSN + 2, PSN + 5])
    found = peer.expect(
        (O.SEND_MIDDLE, PSN + 1), (O.SEND_MIDDLE, PSN + 3), (O.SEND_MIDDLE, PSN + 4)
    )
    assert all(packet[BTH].ackreq for packet in found)
    peer.missing(PSN + 1, [PSN + 2, PSN + 5])
    assert peer.silent(), "it has just been sent"
    peer.missing(PSN + 3, [PSN + 4, PSN + 5, PSN + 6])
    peer.ack(PSN + 7)
    assert peer.happened() == [(EventKind.COMPLETED, 1)] and peer.silent()
    assert peer.stats.repeated_packets == 3


def test_the_bitmap_moves_with_what_is_far_ahead() -> None:
    """128 bits hold the highest PSN that is here, across 2^24 too."""
    start = 0xFFFFFF - 20
    peer = ScriptedPeer(repeat=Repeat.SELECTIVE, peer_psn=start)
    peer.card.receive_anything(QPN)
    for ahead in (1, 100, 200):
        peer.send(O.SEND_ONLY, start + ahead, b"x")
    packet = peer.expect_ack(start, msn=0, syndrome=Syndrome.SEQUENCE_ERROR)
    assert packet[NakBitmap].base == (start + 200 - 127) & 0xFFFFFF
    assert packet[NakBitmap].arrived() == [(start + ahead) & 0xFFFFFF for ahead in (100, 200)]


def test_a_nak_without_a_bitmap_tells_of_one_packet() -> None:
    """From a receiver that does go-back-N."""
    peer = ScriptedPeer(repeat=Repeat.SELECTIVE)
    post(peer, S, 4 * MTU)
    peer.all()
    peer.ack(PSN + 1, Syndrome.SEQUENCE_ERROR)
    peer.expect((O.SEND_MIDDLE, PSN + 1))


# --- receivers that are not ready ---------------------------------------------------------------


@pytest.mark.parametrize(("timer_us", "code"), [(0, 1), (10, 1), (11, 2), (50, 5), (491_520, 31)])
def test_a_send_without_a_buffer(timer_us: int, code: int) -> None:
    peer, _ = receiver(rnr_timer_ps=timer_us * US)
    peer.send(O.SEND_ONLY, PSN, b"hello")
    peer.expect_ack(PSN, msn=0, syndrome=Syndrome.RNR + code)
    peer.send(O.SEND_ONLY, PSN + 1, b"world")
    assert peer.silent(), "the peer knows where to begin anew"
    buffer = bytearray(8)
    peer.card.post_receive(QPN, 1, buffer)
    peer.send(O.SEND_ONLY, PSN, b"hello")
    peer.expect_ack(PSN, msn=1)
    assert buffer == b"hello\0\0\0"
    assert peer.happened() == [(EventKind.RECEIVED, 1), (EventKind.PLACED, 0)]


def test_immediate_data_needs_a_buffer_too() -> None:
    peer, memory = receiver()
    peer.write(O.WRITE_ONLY_IMM, PSN, 0x1000, 0x55, b"hello")
    peer.expect_ack(PSN, msn=0, syndrome=Syndrome.RNR + 1)
    assert memory[:5] == bytes(5)
    peer.card.post_receive(QPN, 9)
    peer.write(O.WRITE_ONLY_IMM, PSN, 0x1000, 0x55, b"hello")
    peer.expect_ack(PSN, msn=1)
    (received, placed) = peer.events()
    assert (received.kind, received.id, received.bytes) == (EventKind.RECEIVED, 9, 5)
    assert received.immediate == 0xDEADBEEF and received.operation is WI
    assert (placed.kind, placed.bytes) == (EventKind.PLACED, 5) and memory[:5] == b"hello"


@pytest.mark.parametrize("repeat", list(Repeat))
@pytest.mark.parametrize(
    ("code", "wait_us"), [(0, 655_360), (1, 10), (2, 20), (14, 1280), (31, 491_520)]
)
def test_the_timer_of_an_rnr_nak_is_kept_to_the_picosecond(
    code: int, wait_us: int, repeat: Repeat
) -> None:
    peer = ScriptedPeer(repeat=repeat, timeout_ps=10**12)
    post(peer, S, 5)
    peer.all()
    peer.now = 1234
    peer.ack(PSN, Syndrome.RNR + code)
    end = 1234 + wait_us * US
    assert peer.card.next_event() == end
    peer.pass_time(end - 1)
    assert peer.silent()
    peer.pass_time(end)
    peer.expect((O.SEND_ONLY, PSN))
    assert peer.stats.timeouts == 0


@pytest.mark.parametrize("repeat", list(Repeat))
def test_an_rnr_timer_that_runs_out_when_all_has_arrived(repeat: Repeat) -> None:
    peer = ScriptedPeer(repeat=repeat)
    post(peer, S, 5)
    peer.all()
    peer.ack(PSN, Syndrome.RNR + 1)
    peer.ack(PSN)  # of a copy of it that came after the buffer
    assert peer.happened() == [(EventKind.COMPLETED, 1)]
    peer.pass_time(10 * US)
    assert peer.silent() and peer.stats.repeated_packets == 0
    post(peer, S, 6, id=2)
    peer.expect((O.SEND_ONLY, PSN + 1))


def test_a_copy_of_an_rnr_nak_counts_once() -> None:
    peer = ScriptedPeer(rnr_retries=1)
    post(peer, S, 5)
    peer.all()
    for _ in range(5):
        peer.ack(PSN, Syndrome.RNR + 1)
    assert peer.happened() == [] and peer.stats.rnr_received == 5
    peer.pass_time(10 * US)
    peer.expect((O.SEND_ONLY, PSN))


def test_patience_with_a_receiver_that_is_never_ready_ends() -> None:
    peer = ScriptedPeer(rnr_retries=2)
    post(peer, S, 5, id=7)
    for _ in range(2):
        peer.expect((O.SEND_ONLY, PSN))
        peer.ack(PSN, Syndrome.RNR + 1)
        peer.pass_time(peer.now + 10 * US)
    peer.expect((O.SEND_ONLY, PSN))
    peer.ack(PSN, Syndrome.RNR + 1)
    failed, work = peer.events()
    assert (failed.kind, failed.status) == (EventKind.QP_FAILED, Failure.RNR_EXCEEDED)
    assert (work.kind, work.id, work.status) == (EventKind.FAILED, 7, Failure.RNR_EXCEEDED)


# --- READs answered -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("length", "opcodes"),
    [
        (0, [O.READ_ONLY]),
        (MTU, [O.READ_ONLY]),
        (MTU + 1, [O.READ_FIRST, O.READ_LAST]),
        (3 * MTU, [O.READ_FIRST, O.READ_MIDDLE, O.READ_LAST]),
    ],
)
def test_a_read_is_answered(length: int, opcodes: list[Opcode]) -> None:
    peer, memory = receiver()
    memory[:] = DATA + DATA
    peer.read(PSN, 0x1003, 0x55, length)
    packets = peer.expect(*((opcode, PSN + i) for i, opcode in enumerate(opcodes)))
    content = b"".join(
        p[Raw].load[: len(p[Raw].load) - p[BTH].padcount] for p in packets if Raw in p
    )
    assert content == memory[3 : 3 + length]
    for packet in packets:
        assert packet.haslayer(AETH) == (packet[BTH].opcode != O.READ_MIDDLE)
    assert packets[0][AETH].syndrome == Syndrome.ACK


def test_a_read_that_comes_twice_is_answered_twice_in_part_if_so_asked() -> None:
    peer, memory = receiver()
    memory[:] = DATA + DATA
    peer.read(PSN, 0x1000, 0x55, 4 * MTU)
    assert len(peer.all()) == 4
    peer.read(PSN + 2, 0x1000 + 2 * MTU, 0x55, 2 * MTU)
    packets = peer.expect((O.READ_FIRST, PSN + 2), (O.READ_LAST, PSN + 3))
    assert packets[0][Raw].load == DATA[2 * MTU : 3 * MTU]
    assert peer.stats.duplicates == 1 and peer.stats.repeated_packets == 2
    peer.write(O.WRITE_ONLY, PSN + 4, 0x1000, 0x55, b"x")
    peer.expect_ack(PSN + 4, msn=2)


def test_no_acknowledgement_overtakes_a_reads_responses() -> None:
    peer, _ = receiver()
    peer.read(PSN, 0x1000, 0x55, 2 * MTU)
    peer.write(O.WRITE_ONLY, PSN + 2, 0x1000, 0x55, b"x")
    peer.expect((O.READ_FIRST, PSN), (O.READ_LAST, PSN + 1), (O.ACK, PSN + 2))


@pytest.mark.parametrize("repeat", list(Repeat))
def test_responses_that_are_missing_are_asked_for_again(repeat: Repeat) -> None:
    peer = ScriptedPeer(repeat=repeat)
    into = post(peer, Operation.READ, 4 * MTU).data
    peer.expect((O.READ_REQUEST, PSN))
    peer.send(O.READ_FIRST, PSN, AETH(syndrome=0x1F), DATA[:MTU])
    peer.send(O.READ_MIDDLE, PSN + 2, DATA[2 * MTU : 3 * MTU])
    (packet,) = peer.expect((O.READ_REQUEST, PSN + 1))
    assert (packet[RETH].address, packet[RETH].length) == (0x1000 + MTU, 3 * MTU)
    peer.send(O.READ_LAST, PSN + 3, AETH(syndrome=0x1F), DATA[3 * MTU : 4 * MTU])
    assert peer.silent(), "asked once a gap"
    peer.send(O.READ_FIRST, PSN + 1, AETH(syndrome=0x1F), DATA[MTU : 2 * MTU])
    peer.send(O.READ_MIDDLE, PSN + 2, DATA[2 * MTU : 3 * MTU])
    peer.send(O.READ_LAST, PSN + 3, AETH(syndrome=0x1F), DATA[3 * MTU : 4 * MTU])
    assert into == DATA[: 4 * MTU]
    assert peer.happened() == [(EventKind.COMPLETED, 1)]


def test_an_acknowledgement_behind_a_read_shows_that_its_responses_were_lost() -> None:
    peer = ScriptedPeer()
    post(peer, Operation.READ, 2 * MTU, id=1)
    post(peer, W, 1, id=2)
    peer.all()
    peer.ack(PSN + 2)
    assert peer.happened() == []
    peer.expect((O.READ_REQUEST, PSN), (O.WRITE_ONLY, PSN + 2))


def test_kinds_of_packets() -> None:
    """What drivers are told of a packet that they send."""
    peer, _ = receiver()
    peer.card.post(QPN, Work(3, W, DATA[: 2 * MTU], rkey=1), 0)
    packets = [peer.card.transmit(0) for _ in range(2)]
    assert [p.kind for p in packets if p] == [PacketKind.DATA] * 2
    peer.read(PSN, 0x1000, 0x55, 1)
    response = peer.card.transmit(0)
    assert response and response.kind is PacketKind.RESPONSE
    post(peer, Operation.READ, 1)
    peer.write(O.WRITE_ONLY, PSN + 1, 0x1000, 0x55, b"x")
    kinds = [peer.card.transmit(0) for _ in range(2)]
    assert [p.kind for p in kinds if p] == [PacketKind.ACK, PacketKind.READ_REQUEST]
