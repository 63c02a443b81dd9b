"""A congestion-control algorithm's window: how many bytes of payload may be on the way.

`windowed` is an algorithm of these tests alone (algorithms_for_tests). See scripted_peer.py for who
is who; packets are of 256 bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from scapy.contrib.roce import BTH

from hostagent.rnic.card_records import Access, EventKind, Operation, QueuePairConfig, Repeat, Work
from protocols.rocev2 import Opcode, Syndrome
from tests.hostagent import more_algorithms
from tests.hostagent.more_algorithms import windowed
from tests.hostagent.scripted_peer import MTU, PEER_IP, PEER_QPN, PSN, QPN, ScriptedPeer
from tests.hostagent.virtual_wire import SANITIZE, US, Faults, VirtualWire, make_card

DATA = bytes(100 * MTU)
TIMEOUT = 100 * US


@pytest.fixture(autouse=True, scope="module")
def algorithms() -> Iterator[None]:
    with more_algorithms.built().card_in_place(sanitize=SANITIZE):
        yield


def peer_with(window: int, config: dict[str, Any] | None = None, **fields: int) -> ScriptedPeer:
    limited = {"windowed": windowed(window, **fields)}
    return ScriptedPeer(congestion_control=limited, **(config or {}))


def post(peer: ScriptedPeer, size: int, id: int = 1) -> None:
    peer.card.post(QPN, Work(id, Operation.SEND, DATA[:size]), peer.now)


def psns(peer: ScriptedPeer) -> list[int]:
    """Return what leaves now, counted from the first PSN."""
    return [packet[BTH].psn - PSN for packet in peer.all()]


@pytest.mark.parametrize(
    ("window", "packets"),
    [
        (MTU, 1),
        (10 * MTU, 10),
        (MTU // 2, 1),
        (0, 1),
        (MTU + 1, 2),
        (3 * MTU - 1, 3),
        (1 << 63, 40),
    ],
)
@pytest.mark.parametrize("repeat", list(Repeat))
def test_as_many_packets_leave_as_the_window_has_room_for(
    window: int, packets: int, repeat: Repeat
) -> None:
    peer = peer_with(window, {"repeat": repeat, "ack_every": 8})
    post(peer, 40 * MTU)
    first = peer.all()
    assert [packet[BTH].psn - PSN for packet in first] == list(range(packets))
    # Whatever becomes of the window, an acknowledgement is on its way.
    assert all(packet[BTH].ackreq for packet in first)
    if packets < 40:
        peer.ack(PSN)
        assert psns(peer) == [packets]


def test_bytes_count_and_not_packets() -> None:
    peer = peer_with(35)
    for n in range(20):
        post(peer, 10, n)
    assert psns(peer) == [0, 1, 2, 3], "30 bytes have not reached 35"
    peer.ack(PSN + 1)
    assert psns(peer) == [4, 5]
    peer.ack(PSN + 5)
    assert psns(peer) == [6, 7, 8, 9]


def test_messages_without_bytes_are_not_stopped_but_by_a_window_of_none() -> None:
    for window, packets in ((1, 5), (0, 1)):
        peer = peer_with(window)
        for n in range(5):
            post(peer, 0, n)
        assert len(psns(peer)) == packets


def test_both_windows_hold() -> None:
    for constant, packets in ((3, 3), (30, 5)):
        peer = peer_with(5 * MTU, {"window_packets": constant})
        post(peer, 40 * MTU)
        assert len(psns(peer)) == packets


def test_acknowledgements_widen_it() -> None:
    peer = peer_with(MTU, each=MTU)
    post(peer, 20 * MTU)
    assert psns(peer) == [0]
    peer.ack(PSN)
    assert psns(peer) == [1, 2]
    peer.ack(PSN + 1)
    assert psns(peer) == [3, 4]
    peer.ack(PSN + 4)
    assert psns(peer) == [5, 6, 7, 8]


def test_what_is_out_is_not_taken_back_when_it_shrinks() -> None:
    peer = peer_with(10 * MTU, {"ack_every": 16}, shrinks_at=MTU, shrunk=2 * MTU + 1)
    post(peer, 40 * MTU)
    assert psns(peer) == list(range(10))
    peer.ack(PSN)
    assert peer.silent() and peer.stats.outstanding == 9
    peer.ack(PSN + 6)
    assert peer.silent() and peer.stats.outstanding == 3
    peer.ack(PSN + 7)
    assert psns(peer) == [10]
    peer.ack(PSN + 10)
    assert psns(peer) == [11, 12, 13]


def test_time_alone_widens_it_to_the_nanosecond() -> None:
    opens = 31_416
    peer = peer_with(MTU, later_at=opens, later=3 * MTU)
    post(peer, 20 * MTU)
    assert psns(peer) == [0]
    assert peer.card.next_event() == opens * 1000
    peer.pass_time(opens * 1000 - 1)
    assert peer.silent()
    peer.pass_time(opens * 1000)
    assert psns(peer) == [1, 2]
    assert peer.card.next_event() == TIMEOUT, "and there is nothing more to wait for"


def test_an_acknowledgement_comes_before_time_has_widened_it() -> None:
    peer = peer_with(MTU, later_at=50_000, later=3 * MTU)
    post(peer, 5 * MTU)
    assert psns(peer) == [0]
    peer.pass_time(10 * US)
    peer.ack(PSN)
    assert psns(peer) == [1]
    assert peer.card.next_event() == 50 * US
    peer.pass_time(50 * US)
    assert psns(peer) == [2, 3]


def test_a_window_that_opens_after_the_time_out_is_no_matter() -> None:
    """What is out is sent again then, and nothing waits for the window without end."""
    peer = peer_with(MTU, later_at=150_000, later=3 * MTU)
    post(peer, 5 * MTU)
    assert psns(peer) == [0]
    assert peer.card.next_event() == TIMEOUT
    peer.pass_time(TIMEOUT)
    assert psns(peer) == [0]
    assert peer.card.next_event() == 150 * US
    peer.pass_time(150 * US)
    assert psns(peer) == [1, 2]


def test_a_rate_holds_beside_the_window() -> None:
    peer = peer_with(2 * MTU, {"rate_bps": 8 * 10**9})
    post(peer, 20 * MTU)
    assert psns(peer) == [0]
    wire = (14 + 20 + 8 + 12 + MTU + 4 + 24) * 1000  # a byte takes a nanosecond
    assert peer.card.next_event() == wire
    peer.pass_time(wire)
    assert psns(peer) == [1]
    peer.pass_time(10 * wire)
    assert peer.silent()
    peer.ack(PSN)
    assert psns(peer) == [2]


def test_selective_repeat_sends_what_was_lost_at_once() -> None:
    config = {"repeat": Repeat.SELECTIVE}
    peer = peer_with(6 * MTU, config, shrinks_at=MTU, shrunk=MTU)
    post(peer, 20 * MTU)
    assert psns(peer) == list(range(6))
    peer.missing(PSN + 1, [PSN + 2, PSN + 3, PSN + 5])
    assert psns(peer) == [1, 4], "though five packets are out and the window is one"
    peer.ack(PSN + 5)
    assert psns(peer) == [6]


def test_go_back_n_goes_back_within_the_window() -> None:
    peer = peer_with(6 * MTU, shrinks_at=MTU, shrunk=2 * MTU)
    post(peer, 20 * MTU)
    assert psns(peer) == list(range(6))
    peer.ack(PSN + 1, Syndrome.SEQUENCE_ERROR)
    assert psns(peer) == [1, 2]
    peer.ack(PSN + 2)
    assert psns(peer) == [3, 4]
    peer.pass_time(peer.now + TIMEOUT)
    assert psns(peer) == [3, 4]


@pytest.mark.parametrize("repeat", list(Repeat))
def test_a_read_counts_with_all_that_it_asks_for(repeat: Repeat) -> None:
    peer = peer_with(3 * MTU, {"repeat": repeat})
    space = bytearray(10 * MTU)
    for id in (1, 2):
        peer.card.post(QPN, Work(id, Operation.READ, space, rkey=1), peer.now)
    peer.expect((Opcode.READ_REQUEST, PSN))
    for n in range(10):
        opcode = Opcode.READ_FIRST if n == 0 else Opcode.READ_LAST if n == 9 else Opcode.READ_MIDDLE
        aeth = [bytes([0x1F, 0, 0, 0])] if n in (0, 9) else []
        assert peer.card.receive(_response(peer, opcode, n, aeth), peer.now)
        if n < 7:
            assert peer.silent(), "three packets and more are to come"
        elif n == 7:
            peer.expect((Opcode.READ_REQUEST, PSN + 10))
    assert peer.happened() == [(EventKind.COMPLETED, 1)]


def _response(peer: ScriptedPeer, opcode: Opcode, n: int, aeth: list[bytes]) -> bytes:
    return peer.frame(opcode, PSN + n, b"".join(aeth) + bytes(MTU))


def test_responses_are_not_stopped_by_the_window_of_whoever_sends_them() -> None:
    peer = peer_with(MTU)
    peer.card.register(9, 0, bytearray(10 * MTU), Access.REMOTE_READ)
    assert peer.read(PSN, 0, 9, 10 * MTU)
    assert len(peer.all()) == 10


# --- slots that somebody else writes --------------------------------------------------------------


@pytest.fixture
def foreign() -> Iterator[tuple[ScriptedPeer, Any]]:
    """Yield a queue pair whose slot the test writes, as the kernel does."""
    peer = peer_with(0)  # for its card; its queue pair is another one
    ffi, lib = peer.card.ffi, peer.card.lib
    slot = ffi.new("struct cc_slot *")
    slot.algorithms = 1 << int(lib.CC_PLACE_windowed)
    slot.windowed.params.line_rate = slot.windowed.rate = more_algorithms.NO_LIMIT
    slot.windowed.window = 2 * MTU
    values = QueuePairConfig(qpn=QPN + 1, mtu=MTU, first_psn=PSN, timeout_ps=TIMEOUT).fields()
    config = ffi.new("struct rnic_qp_config *", values)
    config.slot = slot
    assert lib.rnic_add_qp(peer.card.handle, config, ffi.NULL) == 0
    peer.card.connect(QPN + 1, PEER_IP, peer_qpn=PEER_QPN + 1, peer_psn=PSN)
    yield peer, slot
    peer.card.close()


def test_a_window_that_the_kernel_writes_is_taken_up(
    foreign: tuple[ScriptedPeer, Any],
) -> None:
    peer, slot = foreign
    peer.card.post(QPN + 1, Work(1, Operation.SEND, DATA[: 20 * MTU]), peer.now)
    assert psns(peer) == [0, 1]
    slot.windowed.window = 4 * MTU  # the program has seen the acknowledgement before the card does
    assert peer.send(Opcode.ACK, PSN, bytes([0x1F, 0, 0, 1]), qpn=QPN + 1)
    assert psns(peer) == [2, 3, 4]
    assert slot.windowed.bytes == 0, "only the kernel writes"
    slot.windowed.params.later_at, slot.windowed.params.later = 20_000, 5 * MTU
    slot.sequence = 1  # is being written: nothing new may go
    assert peer.send(Opcode.ACK, PSN + 1, bytes([0x1F, 0, 0, 1]), qpn=QPN + 1)
    assert peer.silent()
    slot.sequence = 2
    assert peer.send(Opcode.ACK, PSN + 1, bytes([0x1F, 0, 0, 1]), qpn=QPN + 1)
    assert psns(peer) == [5]
    assert peer.card.next_event() == 20 * US
    peer.pass_time(20 * US)
    assert psns(peer) == [6]


# --- acknowledgements that are lost ---------------------------------------------------------------


def timed_peer(window: int, **config: Any) -> ScriptedPeer:
    """Return a peer whose card knows a round trip of 10 us, which the first packets took."""
    timed = {"line_rate": more_algorithms.NO_LIMIT, "min_rate": 1}
    limited = {"windowed": windowed(window), "timed": timed}
    peer = ScriptedPeer(congestion_control=limited, timeout_ps=10_000 * US, **config)
    post(peer, 40 * MTU)
    window_packets = len(peer.all())
    peer.pass_time(10 * US)
    for psn in range(window_packets):
        peer.ack(PSN + psn)
    return peer


@pytest.mark.parametrize("repeat", list(Repeat))
@pytest.mark.parametrize("packets", [1, 3])
def test_one_packet_leaves_beyond_a_full_window_after_two_silent_round_trips(
    packets: int, repeat: Repeat
) -> None:
    peer = timed_peer(packets * MTU, repeat=repeat)
    assert psns(peer) == [packets + n for n in range(packets)]
    for probe, trips in enumerate((2, 4, 8, 16, 16)):  # twice as long, but no more than that
        due = peer.now + trips * 10 * US
        assert peer.card.next_event() == due
        peer.pass_time(due - 1)
        assert peer.silent()
        peer.pass_time(due)
        assert psns(peer) == [2 * packets + probe]
    peer.ack(PSN + 2 * packets)  # of the first probe: for all before it, too
    assert psns(peer) == []  # what has left is more than the window
    peer.ack(PSN + 2 * packets + 4)
    assert psns(peer) == [2 * packets + 5 + n for n in range(packets)]
    assert peer.card.queue_pair_stats(QPN, peer.now).repeated_packets == 0


@pytest.mark.parametrize("repeat", list(Repeat))
def test_the_last_packet_of_all_is_its_own_probe(repeat: Repeat) -> None:
    """Nothing new is left to send, so that the last packet leaves once more, and again later."""
    peer = timed_peer(40 * MTU, repeat=repeat)  # all 40 packets are acknowledged
    post(peer, 3 * MTU)
    assert psns(peer) == [40, 41, 42]
    peer.ack(PSN + 40)
    for probe, trips in enumerate((2, 4, 8, 16, 16)):
        due = peer.now + trips * 10 * US
        assert peer.card.next_event() == due
        peer.pass_time(due - 1)
        assert peer.silent()
        peer.pass_time(due)
        assert psns(peer) == [42]
        assert peer.card.queue_pair_stats(QPN, peer.now).repeated_packets == probe + 1
    peer.ack(PSN + 42)
    assert peer.events()[-1].kind is EventKind.COMPLETED
    peer.pass_time(2000 * US)
    assert peer.silent() and peer.card.queue_pair_stats(QPN, peer.now).timeouts == 0


@pytest.mark.parametrize("repeat", list(Repeat))
def test_no_probe_while_the_receiver_is_not_ready(repeat: Repeat) -> None:
    """It has asked for silence, for longer than a probe would wait (code 12: 640 us)."""
    peer = timed_peer(40 * MTU, repeat=repeat)
    post(peer, 3 * MTU)
    assert psns(peer) == [40, 41, 42]
    peer.ack(PSN + 41, Syndrome.RNR + 12)
    asked = peer.now
    peer.pass_time(asked + 639 * US)
    assert peer.silent()
    peer.pass_time(asked + 641 * US)
    assert psns(peer)[0] == 41


def test_a_lost_tail_comes_with_the_probe_before_the_time_out() -> None:
    """The peer lacks 41 and 42: the probe makes it say so, and both are there at once."""
    peer = timed_peer(40 * MTU, repeat=Repeat.GO_BACK_N)
    post(peer, 3 * MTU)
    assert psns(peer) == [40, 41, 42]
    peer.ack(PSN + 40)
    peer.pass_time(peer.now + 20 * US)
    assert psns(peer) == [42]
    peer.ack(PSN + 41, Syndrome.SEQUENCE_ERROR)
    assert psns(peer) == [41, 42]
    peer.ack(PSN + 42)
    assert peer.card.queue_pair_stats(QPN, peer.now).timeouts == 0


def test_a_word_in_between_puts_a_probe_off() -> None:
    peer = timed_peer(2 * MTU)
    assert psns(peer) == [2, 3]
    peer.pass_time(29 * US)
    peer.ack(PSN + 2)
    assert psns(peer) == [4]
    due = (29 + 2 * 19) * US  # PSN 2 took 19 us, longer than any before
    peer.pass_time(due - 1)
    assert peer.silent()
    peer.pass_time(due)
    assert psns(peer) == [5]


def test_a_round_trip_that_is_not_known_makes_no_probe() -> None:
    timed = {"line_rate": more_algorithms.NO_LIMIT, "min_rate": 1}
    for known in ({}, {"timed": timed}):
        limited = {"windowed": windowed(MTU), **known}
        peer = ScriptedPeer(congestion_control=limited, timeout_ps=1000 * US)
        post(peer, 4 * MTU)
        assert psns(peer) == [0]
        peer.pass_time(999 * US)
        assert peer.silent()


def test_no_probe_for_a_read_whose_responses_are_on_the_way() -> None:
    peer = timed_peer(MTU)
    assert psns(peer) == [1]
    peer.ack(PSN + 1)
    for psn in range(2, 40):
        assert psns(peer) == [psn]
        peer.ack(PSN + psn)
    for id in (2, 3):
        peer.card.post(QPN, Work(id, Operation.READ, bytearray(3 * MTU), rkey=4), peer.now)
    assert psns(peer) == [40]
    peer.pass_time(1000 * US)
    assert peer.silent()


# --- between two cards ----------------------------------------------------------------------------


@pytest.mark.parametrize("repeat", list(Repeat))
@pytest.mark.parametrize("window", [0, MTU, 5 * MTU + 3, 30 * MTU])
@pytest.mark.parametrize("loss", [0.0, 0.05])
def test_all_arrives_whatever_the_window(window: int, repeat: Repeat, loss: float) -> None:
    a, b = make_card(1), make_card(2)
    config = QueuePairConfig(qpn=1, mtu=MTU, repeat=repeat, timeout_ps=50 * US, ack_every=4)
    a.add_queue_pair(config, {"windowed": windowed(window)})
    b.add_queue_pair(config)
    a.connect(1, b.config.ip, peer_qpn=1, peer_psn=0)
    b.connect(1, a.config.ip, peer_qpn=1, peer_psn=0)
    sent = bytes(n * 7 % 251 for n in range(100 * MTU + 13))
    there = bytearray(len(sent) + 100)
    b.register(4, 0, there, Access.REMOTE_WRITE)
    for id, (start, end) in enumerate([(0, 5), (5, 30 * MTU), (30 * MTU, len(sent))]):
        work = Work(id, Operation.WRITE, sent[start:end], remote_address=start, rkey=4)
        a.post(1, work)
    wire = VirtualWire(a, b, faults=Faults(loss=loss), seed=7)
    wire.run()
    assert there[: len(sent)] == sent
    assert [event.kind for event in wire.events[a]] == [EventKind.COMPLETED] * 3
    if not loss:
        assert a.queue_pair_stats(1, wire.now).timeouts == 0
