"""When the card sends: windows, time-outs, turns, classes, pauses, rates, and what CNPs do to them.

See scripted_peer.py for who is who.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from scapy.contrib.roce import BTH, CNPPadding
from scapy.layers.inet import IP, UDP

from hostagent.rnic.binding import Card
from hostagent.rnic.card_records import (
    NEVER,
    Access,
    EventKind,
    Failure,
    Operation,
    PacketKind,
    QueuePairConfig,
    QueuePairState,
    Repeat,
    Work,
)
from mechanisms.dcqcn.parameters import parameters
from protocols.rocev2 import Opcode
from tests.hostagent.scripted_peer import MTU, PEER_IP, PEER_QPN, PSN, QPN, ScriptedPeer
from tests.hostagent.virtual_wire import US, VirtualWire, join, make_card

O = Opcode  # noqa: E741
DATA = bytes(64 * MTU)


def post(peer: ScriptedPeer, packets: int, id: int = 1) -> None:
    peer.card.post(QPN, Work(id, Operation.SEND, DATA[: packets * MTU]), peer.now)


# --- windows and time-outs ----------------------------------------------------------------------


@pytest.mark.parametrize("repeat", list(Repeat))
@pytest.mark.parametrize("window", [1, 2, 5])
def test_no_more_than_a_window_is_under_way(window: int, repeat: Repeat) -> None:
    peer = ScriptedPeer(window_packets=window, repeat=repeat)
    post(peer, 12)
    first = peer.all()
    assert [p[BTH].psn for p in first] == list(range(PSN, PSN + window))
    # The last one that fits asks for the acknowledgement that opens the window.
    assert [p[BTH].ackreq for p in first] == [0] * (window - 1) + [1]
    assert peer.stats.outstanding == window
    peer.ack(PSN)
    (packet,) = peer.all()
    assert (packet[BTH].psn, packet[BTH].ackreq) == (PSN + window, 1)
    peer.ack(PSN + window)
    assert len(peer.all()) == window


@pytest.mark.parametrize("repeat", list(Repeat))
def test_a_timeout_repeats_to_the_picosecond_and_at_last_fails(repeat: Repeat) -> None:
    peer = ScriptedPeer(timeout_ps=7_000_001, retries=2, repeat=repeat)
    peer.now = 5
    for id in (1, 2, 3):
        post(peer, 1, id)
    peer.all()
    for attempt in (1, 2):
        due = 5 + 7_000_001 * attempt
        assert peer.card.next_event() == due
        peer.pass_time(due - 1)
        assert peer.silent()
        peer.pass_time(due)
        assert [p[BTH].psn for p in peer.all()] == [PSN, PSN + 1, PSN + 2]
        assert peer.stats.timeouts == attempt
    assert peer.happened() == []
    peer.pass_time(5 + 3 * 7_000_001)
    assert peer.silent()
    events = peer.events()
    assert [(row.kind, row.id, row.status) for row in events] == [
        (EventKind.QP_FAILED, 0, Failure.RETRY_EXCEEDED),
        (EventKind.FAILED, 1, Failure.RETRY_EXCEEDED),
        (EventKind.FAILED, 2, Failure.FLUSHED),
        (EventKind.FAILED, 3, Failure.FLUSHED),
    ]
    assert {row.at for row in events} == {5 + 3 * 7_000_001}
    assert peer.stats.state is QueuePairState.ERROR
    assert peer.card.next_event() == NEVER


def test_progress_begins_the_count_of_retries_anew() -> None:
    peer = ScriptedPeer(timeout_ps=10 * US, retries=1)
    post(peer, 3)
    peer.all()
    for psn in range(PSN, PSN + 3):
        peer.pass_time(peer.now + 10 * US)
        assert peer.all()[0][BTH].psn == psn
        peer.ack(psn)
    assert peer.happened() == [(EventKind.COMPLETED, 1)] and peer.stats.timeouts == 3


def test_an_acknowledgement_moves_the_timeout() -> None:
    peer = ScriptedPeer(timeout_ps=10 * US)
    post(peer, 2)
    peer.all()
    peer.pass_time(6 * US)
    peer.ack(PSN)
    peer.pass_time(16 * US - 1)
    assert peer.silent() and peer.stats.timeouts == 0
    peer.pass_time(16 * US)
    peer.expect((O.SEND_LAST, PSN + 1))


# --- whose turn it is ---------------------------------------------------------------------------


def several(queues: list[int], **changes: object) -> Card:
    """Return a card with a queue pair 1, 2, ... in each of these queues, with 4 packets to send."""
    card = make_card(1)
    for qpn, queue in enumerate(queues, 1):
        card.add_queue_pair(
            QueuePairConfig(qpn=qpn, mtu=MTU, queue=queue, **changes)  # type: ignore[arg-type]
        )
        card.connect(qpn, PEER_IP, peer_qpn=qpn, peer_psn=0)
        card.post(qpn, Work(qpn, Operation.SEND, DATA[: 4 * MTU]))
    return card


def order(card: Card, now: int = 0) -> list[int]:
    """Queue pairs of the packets that may leave now."""
    found = []
    while packet := card.transmit(now):
        found.append(packet.qpn)
    return found


def test_queue_pairs_take_turns() -> None:
    assert order(several([3, 3, 3])) == [1, 2, 3] * 4


def test_a_higher_queue_goes_first() -> None:
    assert order(several([2, 5, 2, 5])) == [2, 4] * 4 + [1, 3] * 4


def test_one_that_comes_later_is_not_behind_all_that_waits() -> None:
    card = several([3, 3])
    assert [p.qpn for p in (card.transmit(0), card.transmit(0), card.transmit(0)) if p] == [1, 2, 1]
    card.add_queue_pair(QueuePairConfig(qpn=9, mtu=MTU))
    card.connect(9, PEER_IP, peer_qpn=9, peer_psn=0)
    card.post(9, Work(9, Operation.SEND, DATA[:MTU]))
    assert order(card) == [2, 1, 9, 2, 1, 2]


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        (0, [3, 2, 1]),
        (1 << 3, [3, 1]),
        (1 << 5, [2, 1]),
        (1 << 2 | 1 << 3, [3]),
        (0xFF, []),
        (0xFF & ~(1 << 2), [1]),
    ],
)
def test_a_paused_queue_is_silent(mask: int, expected: list[int]) -> None:
    card = several([2, 3, 5])
    card.set_pause(mask)
    assert order(card) == [qpn for qpn in expected for _ in range(4)]
    assert (card.next_event() > 0) == (len(expected) < 3 or mask == 0)
    card.set_pause(0)
    left = [qpn for qpn in (3, 2, 1) if qpn not in expected]
    assert order(card) == [qpn for qpn in left for _ in range(4)]


def test_pfc_stops_acknowledgements_and_cnps_of_its_queue_too() -> None:
    peer = ScriptedPeer(cnp_interval_ns=0, queue=3)
    peer.card.receive_anything(QPN)
    peer.card.set_pause(1 << 3)
    peer.send(O.SEND_ONLY, PSN, b"x", ce=True)
    peer.expect((O.CNP, 0))
    peer.card.set_pause(1 << 6)
    peer.expect((O.ACK, PSN))
    peer.send(O.SEND_ONLY, PSN + 1, b"x", ce=True)
    peer.expect((O.ACK, PSN + 1))
    peer.card.set_pause(0)
    peer.expect((O.CNP, 0))


def test_acknowledgements_come_before_data_of_their_queue() -> None:
    peer = ScriptedPeer()
    peer.card.receive_anything(QPN)
    post(peer, 3)
    assert peer.next()[BTH].opcode == O.SEND_FIRST  # type: ignore[index]
    peer.send(O.SEND_ONLY, PSN, b"x")
    peer.expect((O.ACK, PSN), (O.SEND_MIDDLE, PSN + 1), (O.SEND_LAST, PSN + 2))


def test_own_work_and_answers_take_turns() -> None:
    peer = ScriptedPeer()
    peer.card.register(1, 0, DATA, Access.REMOTE_READ)
    post(peer, 3)
    peer.read(PSN, 0, 1, 3 * MTU)
    opcodes = [p[BTH].opcode for p in peer.all()]
    sent = [opcode <= O.SEND_LAST for opcode in opcodes]
    assert sent in ([True, False] * 3, [False, True] * 3)


# --- rates --------------------------------------------------------------------------------------

RATE = 10_000_000_000


def departures(peer: ScriptedPeer, n: int) -> list[int]:
    """When the next packets leave if each leaves as soon as it may."""
    times: list[int] = []
    while len(times) < n:
        due = max(peer.now, peer.card.next_event())
        if due > peer.now:
            peer.pass_time(due - 1)
            assert peer.silent(), "a picosecond too early"
        peer.pass_time(due)
        if peer.next() is not None:
            times.append(due)
    return times


def test_packets_leave_at_the_rate_to_the_picosecond() -> None:
    """256 + 54 + 4 bytes of frame and 24 of preamble, FCS and gap: 338 bytes in 270 400 ps."""
    peer = ScriptedPeer(rate_bps=RATE, timeout_ps=10**12)
    post(peer, 6)
    assert departures(peer, 6) == [270_400 * i for i in range(6)]


@pytest.mark.parametrize(("rate", "gap"), [(3_000_000_000, 901_334), (999_999_999, 2_704_001)])
def test_a_gap_is_rounded_up(rate: int, gap: int) -> None:
    peer = ScriptedPeer(rate_bps=rate, timeout_ps=10**12)
    post(peer, 4)
    assert departures(peer, 4) == [gap * i for i in range(4)]


def test_a_rate_counts_short_frames_as_the_wire_does() -> None:
    """A SEND of nothing is 58 bytes and 24: 84 on the wire, as Ethernet's shortest."""
    peer = ScriptedPeer(rate_bps=RATE, timeout_ps=10**12)
    for id in range(3):
        peer.card.post(QPN, Work(id, Operation.SEND, b""))
    assert departures(peer, 3) == [67_200 * i for i in range(3)]


def test_time_that_was_not_used_is_lost() -> None:
    peer = ScriptedPeer(rate_bps=RATE, timeout_ps=10**12)
    post(peer, 2)
    peer.pass_time(50 * US)
    assert departures(peer, 2) == [50 * US, 50 * US + 270_400]


def test_a_driver_that_comes_late_catches_up_as_far_as_it_may() -> None:
    peer = ScriptedPeer(card={"pace_slack_ps": 2 * US}, rate_bps=RATE, timeout_ps=10**12)
    post(peer, 40)
    peer.pass_time(50 * US)
    burst = len(peer.all())
    assert burst == 2 * US // 270_400 + 1
    assert departures(peer, 1) == [48 * US + 270_400 * burst]


@pytest.mark.parametrize("line", [RATE, RATE // 2])
def test_the_lines_own_rate_is_not_paced(line: int) -> None:
    peer = ScriptedPeer(card={"line_rate_bps": line}, rate_bps=RATE)
    post(peer, 5)
    assert len(peer.all()) == 5


def test_acknowledgements_are_not_paced() -> None:
    peer = ScriptedPeer(rate_bps=1_000_000)
    peer.card.receive_anything(QPN)
    post(peer, 2)
    assert len(peer.all()) == 1
    for i in range(3):
        peer.send(O.SEND_ONLY, PSN + i, b"x")
        peer.expect_ack(PSN + i, msn=i + 1)


# --- congestion ---------------------------------------------------------------------------------


def test_a_marked_packet_makes_a_cnp() -> None:
    peer = ScriptedPeer(card={"cnp_dscp": 40, "cnp_queue": 7}, cnp_interval_ns=0, udp_ports=4)
    peer.card.receive_anything(QPN)
    peer.send(O.SEND_ONLY, PSN, b"x", ce=True)
    native = peer.card.transmit(0)
    assert native and (native.kind, native.queue) == (PacketKind.CNP, 7)
    peer.send(O.SEND_ONLY, PSN + 1, b"x", ce=True)
    cnp, _ = peer.expect((O.CNP, 0), (O.ACK, PSN + 1))
    assert (cnp[BTH].dqpn, cnp[BTH].becn, cnp[BTH].fecn, cnp[BTH].migreq) == (PEER_QPN, 1, 0, 0)
    assert cnp[IP].tos == 40 << 2, "not ECN-capable"
    assert bytes(cnp[CNPPadding])[:16] == bytes(16) and len(cnp) == 14 + 20 + 8 + 12 + 16 + 4
    assert cnp[UDP].sport == 0xC000
    assert (peer.stats.marked, peer.stats.cnps_sent) == (2, 2)


def test_one_cnp_an_interval() -> None:
    """Marks within 10 us of a CNP are told when they are over and a packet comes, marked or not."""
    peer = ScriptedPeer(cnp_interval_ns=10_000)
    peer.card.receive_anything(QPN)
    told = []
    for i, (us, ce) in enumerate(
        [(0, True), (1, True), (9.999, False), (10, False), (15, True), (20, True), (31, False)]
    ):
        peer.now = int(us * US)
        peer.send(O.SEND_ONLY, PSN + i, b"x", ce=ce)
        if Opcode.CNP in [packet[BTH].opcode for packet in peer.all()]:
            told.append(us)
    assert told == [0, 10, 20]
    assert (peer.stats.marked, peer.stats.cnps_sent) == (4, 3)


def test_nobody_is_told_if_the_queue_pair_is_not_to_tell() -> None:
    peer = ScriptedPeer()
    peer.card.receive_anything(QPN)
    peer.send(O.SEND_ONLY, PSN, b"x", ce=True)
    peer.expect((O.ACK, PSN))
    assert peer.stats.marked == 1


def test_acknowledgements_that_are_marked_tell_nobody() -> None:
    peer = ScriptedPeer(cnp_interval_ns=0)
    post(peer, 1)
    peer.all()
    peer.send(O.CNP, 0, CNPPadding(), ce=True)
    assert peer.silent()


def test_a_cnp_halves_the_rate_and_paces() -> None:
    """DCQCN's first CNP: alpha is 1, so the rate is half of the line's."""
    line = 100_000_000_000
    cc = replace(parameters("hpcc-dcqcn", line), increase_timer_ns=10**9)
    peer = ScriptedPeer(
        card={"line_rate_bps": line}, congestion_control={"dcqcn": cc.fields()}, timeout_ps=10**12
    )
    post(peer, 60)
    assert peer.stats.rate_bps in (0, line)
    assert peer.next() is not None and peer.next() is not None
    peer.cnp()
    assert peer.stats.cnps_received == 1
    assert peer.stats.rate_bps == line // 2
    assert departures(peer, 3) == [0, 54_080, 108_160]


def test_a_mark_goes_round_and_slows_the_sender() -> None:
    """A switch marks what A sends to B: B tells A, A halves its rate."""
    line = 100_000_000_000
    a, b = make_card(1, line_rate_bps=line), make_card(2, line_rate_bps=line)
    config = QueuePairConfig(qpn=1, mtu=1024, cnp_interval_ns=50_000)
    cc = replace(parameters("ns3-rdma", line), increase_timer_ns=10**9)
    a.add_queue_pair(config, {"dcqcn": cc.fields()})
    b.add_queue_pair(config)
    a.connect(1, b.config.ip, peer_qpn=1, peer_psn=0)
    b.connect(1, a.config.ip, peer_qpn=1, peer_psn=0)
    b.receive_anything(1)
    wire = VirtualWire(a, b)
    wire.mark = lambda packet: packet.psn == 5 and packet.kind is PacketKind.DATA
    a.post(1, Work(1, Operation.SEND, bytes(100 * 1024)))
    wire.run()
    assert [event.kind for event in wire.events[a]] == [EventKind.COMPLETED]
    assert b.queue_pair_stats(1).cnps_sent == a.queue_pair_stats(1).cnps_received == 1
    assert a.queue_pair_stats(1, wire.now).rate_bps == line // 2
    gaps = [row.at for row in wire.passed if row.packet.kind is PacketKind.DATA]
    slow = gaps[-1] - gaps[-2]
    assert slow == (1024 + 58 + 24) * 8 * 10**12 // (line // 2)


def test_works_both_ways_on_one_pair() -> None:
    a, b = make_card(1), make_card(2)
    join(a, b, QueuePairConfig(qpn=4, mtu=MTU, ack_every=4))
    wire = VirtualWire(a, b)
    for card in (a, b):
        card.receive_anything(4)
        card.post(4, Work(1, Operation.SEND, DATA))
    wire.run()
    for card in (a, b):
        assert [row.kind for row in wire.events[card]].count(EventKind.COMPLETED) == 1
        stats = card.queue_pair_stats(4)
        assert (stats.sent_packets, stats.received_packets, stats.repeated_packets) == (64, 64, 0)
        assert stats.acks_sent == 64 // 4
