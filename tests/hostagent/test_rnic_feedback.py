"""What acknowledgements tell an algorithm beside bytes: round-trip times, and telemetry.

`listener` is an algorithm of these tests alone (algorithms_for_tests): it remembers what it hears.
See scripted_peer.py for who is who; packets are of 256 bytes.

      card  -- data, an empty shim -->  switches write  -->  receiver
        ^----------- what they wrote, with the acknowledgement -----'
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from scapy.contrib.roce import AETH, BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from hostagent.rnic.binding import Card
from hostagent.rnic.card_records import (
    Access,
    EventKind,
    Operation,
    Packet,
    QueuePairConfig,
    Repeat,
    Work,
)
from protocols.rocev2 import Opcode, Syndrome, icrc_is_valid
from protocols.telemetry import (
    TELEMETRY_PORT,
    Telemetry,
    TelemetryKind,
    appended,
    has_telemetry,
    shim_of,
    with_shim,
    without,
)
from tests.hostagent import more_algorithms
from tests.hostagent.more_algorithms import LISTENER, windowed
from tests.hostagent.scripted_peer import MTU, PSN, QPN, ScriptedPeer
from tests.hostagent.virtual_wire import SANITIZE, US, Faults, Passed, VirtualWire, make_card

ACK = AETH(syndrome=int(Syndrome.ACK), msn=1)
MOST = 64
RECORD = 12
SHIM_AT = 14 + 20 + 8


@pytest.fixture(autouse=True, scope="module")
def algorithms() -> Iterator[None]:
    with more_algorithms.built().card_in_place(sanitize=SANITIZE):
        yield


class Listening(ScriptedPeer):
    """Its queue pair has the algorithm; what it sends has a shim, which `all` takes off."""

    def __init__(self, *, card: dict[str, Any] | None = None, **config: Any) -> None:
        super().__init__(card=card, congestion_control={"listener": LISTENER}, **config)

    def next(self) -> Any:
        packet = self.card.transmit(self.now)
        if packet is None:
            return None
        frame = packet.frame
        if packet.kind.name == "DATA":
            shim = shim_of(frame)
            assert (shim.kind, shim.words, shim.hops, shim.format) == (0, 0, 0, 0)
            frame = without(frame)
        assert icrc_is_valid(frame)
        return Ether(frame)

    def returned(self, psn: int, blob: bytes, syndrome: int = Syndrome.ACK, **shim: int) -> bool:
        """Acknowledge, and bring telemetry back."""
        frame = self.frame(Opcode.ACK, psn, AETH(syndrome=int(syndrome), msn=1))
        shim = {"kind": TelemetryKind.RETURNED, "hops": 2, "format": 1, **shim}
        return self.card.receive(with_shim(frame, Telemetry(data=blob, **shim)), self.now)

    @property
    def heard(self) -> Any:
        """What the algorithm remembers."""
        return heard(self.card, QPN)


def heard(card: Card, qpn: int) -> Any:
    return card.lib.rnic_qp_slot(card.handle, qpn).listener


def words(state: Any) -> bytes:
    """Return the telemetry that the algorithm received last."""
    return b"".join(int(word).to_bytes(8) for word in state.words)


def post(peer: ScriptedPeer, packets: int, id: int = 1) -> None:
    peer.card.post(QPN, Work(id, Operation.SEND, bytes(packets * MTU)), peer.now)


def records(hops: int) -> list[bytes]:
    """Return the records of that many switches, the one next to the sender first."""
    return [bytes([(16 * hop + i) % 256 for i in range(RECORD)]) for hop in range(1, hops + 1)]


# --- round-trip times -----------------------------------------------------------------------------


def test_a_round_trip_is_timed_by_the_packet_that_is_acknowledged() -> None:
    peer = Listening(rate_bps=8 * 10**9)
    post(peer, 3)
    sent = []
    for _ in range(3):
        sent.append(peer.now // 1000)
        assert len(peer.all()) == 1
        peer.now = peer.card.next_event()
    peer.now = 7_654_321
    peer.ack(PSN + 1)
    assert peer.heard.rtt_ns == 7_654 - sent[1] > 0
    peer.now = 9_000_000
    peer.ack(PSN + 2)
    assert peer.heard.rtt_ns == 9_000 - sent[2]
    assert (peer.heard.events, peer.heard.timed, peer.heard.bytes) == (2, 2, 3 * MTU)


def test_nothing_new_and_naks_have_no_round_trip() -> None:
    peer = Listening()
    post(peer, 5)
    assert len(peer.all()) == 5
    peer.now = 1000 * 1000
    peer.ack(PSN + 1)
    assert (peer.heard.rtt_ns, peer.heard.timed) == (1000, 1)
    for psn, syndrome, bytes_ in (
        (PSN + 1, Syndrome.ACK, 2),
        (PSN, Syndrome.ACK, 2),
        (PSN + 99, Syndrome.ACK, 2),
        (PSN + 3, Syndrome.SEQUENCE_ERROR, 3),
    ):
        events = peer.heard.events
        peer.ack(psn, syndrome)
        assert (peer.heard.rtt_ns, peer.heard.timed) == (0, 1)
        assert (peer.heard.events, peer.heard.bytes) == (events + 1, bytes_ * MTU)


@pytest.mark.parametrize("repeat", list(Repeat))
def test_a_packet_that_was_sent_twice_has_none(repeat: Repeat) -> None:
    """Karn's rule: the acknowledgement may be for either."""
    peer = Listening(repeat=repeat)
    post(peer, 4)
    assert len(peer.all()) == 4
    peer.pass_time(100 * US)
    again = [packet[BTH].psn for packet in peer.all()]
    assert again == [PSN + n for n in range(4)]
    peer.now += US
    for n in range(4):
        peer.ack(PSN + n)
        assert peer.heard.rtt_ns == 0
    post(peer, 1, 2)
    assert len(peer.all()) == 1
    peer.now += 5000
    peer.ack(PSN + 4)
    assert (peer.heard.rtt_ns, peer.heard.timed) == (5, 1)


def test_numbers_that_wrap_are_timed() -> None:
    peer = Listening(first_psn=0xFFFFFE)
    post(peer, 4)
    assert len(peer.all()) == 4
    for n, psn in enumerate((0xFFFFFE, 0xFFFFFF, 0, 1)):
        peer.now = (n + 1) * US
        peer.ack(psn)
        assert peer.heard.rtt_ns == (n + 1) * 1000


@pytest.mark.parametrize("packets", [64, 65, 5000, 70_000])
def test_many_packets_on_the_way_are_remembered(packets: int) -> None:
    """Up to 65536: of more, the oldest are forgotten."""
    peer = Listening(card={"whole": False}, first_psn=0)
    peer.card.post(QPN, Work(1, Operation.SEND, length=packets * MTU), 0)
    for n in range(packets):
        assert peer.card.transmit(n * 1000) is not None
    peer.now = packets * 1000
    for psn in sorted({0, 1, 40, packets // 2, packets - 2, packets - 1}):
        peer.ack(psn)
        remembered = psn >= packets - 65536
        assert peer.heard.rtt_ns == (packets - psn if remembered else 0)


def connect(a: Card, b: Card, config: QueuePairConfig, **more: Any) -> None:
    a.add_queue_pair(config, {"listener": LISTENER, **more})
    b.add_queue_pair(config)
    a.connect(1, b.config.ip, peer_qpn=1, peer_psn=0)
    b.connect(1, a.config.ip, peer_qpn=1, peer_psn=0)
    b.receive_anything(1)


def test_round_trips_over_a_wire_are_exact() -> None:
    a, b = make_card(1), make_card(2)
    connect(a, b, QueuePairConfig(qpn=1, mtu=MTU), windowed=windowed(3 * MTU))
    wire = VirtualWire(a, b, delay_ps=1_234_567)
    a.post(1, Work(1, Operation.SEND, bytes(50 * MTU)))
    wire.run()

    def arrives(row: Passed) -> int:
        return row.at + (len(row.packet.frame) + 24) * 8 * 10**12 // wire.line_rate_bps + 1_234_567

    sent = {row.packet.psn: row.at for row in wire.passed if row.sender is a}
    expected = sum(
        arrives(row) // 1000 - sent[row.packet.psn] // 1000
        for row in wire.passed
        if row.sender is b
    )
    state = heard(a, 1)
    assert (state.timed, state.rtt_sum_ns) == (50, expected)
    assert state.rtt_ns >= 2 * 1234


# --- telemetry: what the card sends and takes -----------------------------------------------------


def test_data_collects_and_nothing_else_does() -> None:
    peer = Listening()
    peer.card.register(9, 0, bytearray(2 * MTU), Access.REMOTE_READ)
    post(peer, 2)
    peer.card.post(QPN, Work(2, Operation.READ, bytearray(MTU), rkey=1), 0)
    assert peer.send(Opcode.SEND_ONLY, PSN, b"abcd")  # not ready
    assert peer.read(PSN, 0, 9, 2 * MTU)
    frames = []
    while (packet := peer.card.transmit(0)) is not None:
        frames.append((packet.kind.name, has_telemetry(packet.frame)))
        layer = Ether(packet.frame)
        assert layer[IP].len == len(packet.frame) - 14
        assert layer[UDP].len == layer[IP].len - 20
    others = {(kind, False) for kind in ("READ_REQUEST", "RESPONSE", "ACK")}
    assert set(frames) == {("DATA", True), *others}


def test_scapy_dissects_what_is_sent() -> None:
    peer = Listening()
    post(peer, 1)
    packet = peer.card.transmit(0)
    assert packet is not None
    layer = Ether(packet.frame)
    assert layer[UDP].dport == TELEMETRY_PORT
    assert (layer[Telemetry].version, layer[Telemetry].kind, layer[Telemetry].words) == (0, 0, 0)
    assert (layer[BTH].opcode, layer[BTH].psn) == (Opcode.SEND_ONLY, PSN)
    checksum = layer[IP].chksum
    del layer[IP].chksum
    assert Ether(bytes(layer))[IP].chksum == checksum


def test_without_the_algorithm_there_is_no_shim() -> None:
    peer = ScriptedPeer(congestion_control={"windowed": windowed(MTU)})
    post(peer, 3)
    assert [packet[UDP].dport for packet in peer.all()] == [4791]


SIZES = [0, 1, 4, 5, 6, 8, 15]


@pytest.mark.parametrize("words_", SIZES)
def test_what_comes_back_is_told_beside_the_event(words_: int) -> None:
    peer = Listening()
    post(peer, 5)
    assert len(peer.all()) == 5
    blob = bytes(range(1, 4 * words_ + 1))
    assert peer.returned(PSN + 1, blob, hops=words_, format=9)
    state = peer.heard
    assert (state.events, state.told, state.bytes, state.cut) == (1, 1, 2 * MTU, 0)
    assert (state.last_bytes, state.last_hops, state.last_format) == (len(blob), words_, 9)
    assert words(state) == blob.ljust(MOST, b"\0")
    peer.ack(PSN + 2)
    assert (peer.heard.events, peer.heard.told) == (2, 1), "it is told once"


def test_more_than_fits_is_cut() -> None:
    for length in (MOST + 4, 255 * 4):
        peer = Listening()
        post(peer, 1)
        assert len(peer.all()) == 1
        blob = bytes(n % 251 for n in range(length))
        assert peer.returned(PSN, blob)
        assert (peer.heard.last_bytes, peer.heard.cut) == (MOST, 1)
        assert words(peer.heard) == blob[:MOST]


@pytest.mark.parametrize("syndrome", [Syndrome.SEQUENCE_ERROR, Syndrome.RNR, Syndrome.ACK])
def test_naks_and_what_acknowledges_nothing_new_bring_it_too(syndrome: Syndrome) -> None:
    peer = Listening()
    post(peer, 5)
    assert len(peer.all()) == 5
    peer.ack(PSN)
    psn = PSN if syndrome is Syndrome.ACK else PSN + 1
    assert peer.returned(psn, b"\1\2\3\4", syndrome)
    state = peer.heard
    assert (state.events, state.told, state.bytes, state.rtt_ns) == (2, 1, MTU, 0)


# --- telemetry: what the receiver makes of it -----------------------------------------------------


def written(frame: bytes, hops: int) -> bytes:
    for record in records(hops):
        frame = appended(frame, record)
    return frame


def collecting(peer: ScriptedPeer, psn: int, hops: int, opcode: Opcode = Opcode.SEND_ONLY) -> bytes:
    """Return a packet for the card, after so many switches have written into it."""
    return written(with_shim(peer.frame(opcode, psn, b"abcd"), Telemetry()), hops)


@pytest.mark.parametrize("hops", [0, 1, 3, 5, 6, 8, 84])
def test_a_receiver_returns_what_was_written(hops: int) -> None:
    peer = ScriptedPeer()
    peer.card.receive_anything(QPN)
    frame = collecting(peer, PSN, hops)
    assert peer.card.receive(frame, 0)
    packet = peer.card.transmit(0)
    assert packet is not None
    shim = shim_of(packet.frame)
    blob = b"".join(reversed(records(hops)))
    assert shim.data == blob[:MOST]
    assert (shim.kind, shim.hops, shim.format) == (TelemetryKind.RETURNED, hops, int(hops > 0))
    assert shim.cut == (hops > 5)
    answer = Ether(without(packet.frame))
    assert icrc_is_valid(without(packet.frame))
    assert (answer[BTH].opcode, answer[BTH].psn, answer[AETH].msn) == (Opcode.ACK, PSN, 1)
    assert peer.silent()


def test_the_last_one_goes_back_when_acknowledgements_are_one() -> None:
    peer = ScriptedPeer(ack_every=8)
    peer.card.receive_anything(QPN)
    for n in range(3):
        assert peer.card.receive(collecting(peer, PSN + n, n + 1), 0)
    packet = peer.card.transmit(0)
    assert packet is not None and shim_of(packet.frame).hops == 3
    assert peer.silent()
    assert peer.send(Opcode.SEND_ONLY, PSN + 3, b"abcd")
    assert not has_telemetry(peer.card.transmit(0).frame), "and once only"  # type: ignore[union-attr]


@pytest.mark.parametrize("repeat", list(Repeat))
def test_naks_return_it_too(repeat: Repeat) -> None:
    peer = ScriptedPeer(repeat=repeat)
    peer.card.receive_anything(QPN)
    assert peer.card.receive(collecting(peer, PSN + 2, 5), 0)
    packet = peer.card.transmit(0)
    assert packet is not None and icrc_is_valid(without(packet.frame))
    assert shim_of(packet.frame).data == b"".join(reversed(records(5)))
    answer = Ether(without(packet.frame))
    assert (answer[BTH].psn, answer[AETH].syndrome) == (PSN, Syndrome.SEQUENCE_ERROR)
    bitmap = 20 if repeat is Repeat.SELECTIVE else 0
    assert len(bytes(answer)) == 14 + 20 + 8 + 12 + 4 + bitmap + 4


def test_the_icrc_does_not_cover_the_shim_and_all_else() -> None:
    peer = ScriptedPeer()
    peer.card.receive_anything(QPN)
    frame = collecting(peer, PSN, 3)
    changed = bytearray(frame)
    changed[SHIM_AT + 4 + 5] ^= 0xFF
    assert peer.card.receive(bytes(changed), 0)
    for at in (26, 34, 40 + 4 + 3 * RECORD + 14, len(frame) - 5, len(frame) - 1):
        changed = bytearray(frame)
        changed[at] ^= 1
        before = peer.card.stats().bad_icrc
        assert not peer.card.receive(bytes(changed), 0)
        assert peer.card.stats().bad_icrc == before + 1, at


def shimmed(peer: ScriptedPeer, opcode: Opcode, *layers: Any, **shim: Any) -> bytes:
    return with_shim(peer.frame(opcode, PSN, *layers), Telemetry(**shim))


def malformed(peer: ScriptedPeer) -> dict[str, bytes]:
    send = b"abcd"
    whole = shimmed(peer, Opcode.SEND_ONLY, send, data=bytes(8))
    longer = bytearray(whole)
    longer[SHIM_AT + 1] = 200  # words
    nearly = bytearray(whole)
    nearly[SHIM_AT + 1] = 5  # so that BTH would not fit
    return {
        "another version": shimmed(peer, Opcode.SEND_ONLY, send, version=1),
        "an unknown kind": shimmed(peer, Opcode.SEND_ONLY, send, kind=2),
        "returned with data": shimmed(peer, Opcode.SEND_ONLY, send, kind=1),
        "an acknowledgement that collects": shimmed(peer, Opcode.ACK, ACK, kind=0),
        "a CNP that collects": shimmed(peer, Opcode.CNP, Raw(bytes(16)), kind=0),
        "more words than bytes": bytes(longer),
        "no room for BTH": bytes(nearly),
        "no room for an ICRC": whole[:-1],
    }


@pytest.mark.parametrize("what", list(malformed(ScriptedPeer())))
def test_malformed_shims_are_counted(what: str) -> None:
    peer = Listening()
    post(peer, 1)
    assert len(peer.all()) == 1
    assert not peer.card.receive(malformed(peer)[what], 0)
    stats = peer.card.stats()
    assert (stats.malformed, stats.received, stats.other) == (1, 0, 0)
    assert peer.heard.events == 0


def test_every_length_of_a_shimmed_frame_is_safe() -> None:
    peer = Listening()
    peer.card.receive_anything(QPN)
    post(peer, 1)
    assert len(peer.all()) == 1
    for frame in (
        collecting(peer, PSN, 5),
        shimmed(peer, Opcode.ACK, ACK, kind=1, data=bytes(60)),
    ):
        for size in range(14, len(frame)):
            assert not peer.card.receive(frame[:size], 0)
    assert peer.heard.events == 0
    stats = peer.card.stats()
    assert stats.received == 0 and stats.malformed > 100


def test_shims_of_any_bytes_are_safe() -> None:
    """Without an ICRC that would tell: whatever is taken stays within the frame."""
    random = Random(3)
    peer = Listening(card={"check_icrc": False})
    peer.card.receive_anything(QPN)
    post(peer, 3)
    assert len(peer.all()) == 3
    frames = [
        collecting(peer, PSN, 2),
        shimmed(peer, Opcode.ACK, ACK, kind=1, data=bytes(60)),
        shimmed(peer, Opcode.ACK, AETH(syndrome=0x60, msn=1), kind=1, data=bytes(8)),
    ]
    for _ in range(6000):
        frame = bytearray(random.choice(frames))
        for _ in range(random.randrange(1, 5)):
            frame[random.randrange(34, len(frame))] = random.randrange(256)
        peer.card.receive(bytes(frame), peer.now)
        peer.card.transmit(peer.now)
        peer.now += 1000
    stats = peer.card.stats()
    assert min(stats.malformed, stats.received) > 500


# --- between two cards, with switches that write --------------------------------------------------


class Switches(VirtualWire):
    """So many switches on the way write 12 bytes each into what collects."""

    hops = 3

    def _send(self, sender: Card, packet: Packet) -> None:
        frame = packet.frame
        if has_telemetry(frame) and shim_of(frame).kind == TelemetryKind.COLLECTS:
            frame = written(frame, self.hops)
        super()._send(sender, Packet(**{**vars(packet), "frame": frame}))


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("hops", [0, 1, 3, 5, 8])
def test_the_sender_sees_what_the_switches_wrote(hops: int, whole: bool) -> None:
    a, b = make_card(1, whole=whole), make_card(2, whole=whole)
    connect(a, b, QueuePairConfig(qpn=1, mtu=MTU))
    wire = Switches(a, b)
    wire.hops = hops
    data = {"data": bytes(20 * MTU)} if whole else {"length": 20 * MTU}
    a.post(1, Work(1, Operation.SEND, **data))
    wire.run()
    state = heard(a, 1)
    assert (state.events, state.told, state.timed, state.bytes) == (20, 20, 20, 20 * MTU)
    blob = b"".join(reversed(records(hops)))
    assert (state.last_bytes, state.last_hops) == (min(MOST, len(blob)), hops)
    assert words(state) == blob[:MOST].ljust(MOST, b"\0")
    assert state.cut == (20 if hops > 5 else 0)


@pytest.mark.parametrize("repeat", list(Repeat))
def test_a_wire_that_loses_and_reorders_shimmed_packets_delivers_all(repeat: Repeat) -> None:
    a, b = make_card(1), make_card(2)
    config = QueuePairConfig(qpn=1, mtu=MTU, repeat=repeat, timeout_ps=50 * US)
    connect(a, b, config, windowed=windowed(8 * MTU))
    sent = bytes(n * 7 % 251 for n in range(200 * MTU + 13))
    there = bytearray(len(sent))
    b.register(4, 0, there, Access.REMOTE_WRITE)
    a.post(1, Work(1, Operation.WRITE, sent, rkey=4))
    faults = Faults(loss=0.03, reordering=0.03, duplication=0.03, corruption=0.02)
    wire = Switches(a, b, faults=faults, seed=11)
    wire.run()
    assert bytes(there) == sent
    assert [event.kind for event in wire.events[a]] == [EventKind.COMPLETED]
    state = heard(a, 1)
    assert 0 < state.timed < state.events
    assert state.bytes == 201 * MTU
    # No time is shorter than the wire, or longer than all of the run.
    assert 2 * 1000 * state.timed <= state.rtt_sum_ns
    assert state.told > 100
