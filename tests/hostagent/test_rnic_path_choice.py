"""Queue pairs that choose their paths: what goes over the wire, and what the card makes of it.

sender                                       receiver
  |-- data, UDP source port = first + EV -->|
  |<-- ACK: source ports that came, CE -----|
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, UDP

from hostagent.rnic.card_records import CardError, EventKind, Operation, Repeat, Status, Work
from hostagent.rnic.path_kinds import PathKind
from protocols.rocev2 import NakBitmap, Opcode, PathEcho, PathHeard, Syndrome, icrc, path_echo
from tests.hostagent.scripted_peer import PSN, QPN, ScriptedPeer
from tests.hostagent.test_path_choice import Card as Alone
from tests.hostagent.virtual_links import US, Link, Pair, tolerant

FIRST = 0xC000
CHOICE: dict[str, Any] = {"repeat": Repeat.SELECTIVE, "reorder_ps": 20 * US, "udp_ports": 16}
ECHOING = [PathKind.BITMAP, PathKind.REPS, PathKind.PLB]


def receiver(kind: PathKind = PathKind.REPS, **config: Any) -> ScriptedPeer:
    peer = ScriptedPeer(**{**CHOICE, "path_kind": kind, **config})
    peer.card.receive_anything(QPN)
    return peer


def come(peer: ScriptedPeer, ahead: int, port: int, *, ce: bool = False) -> None:
    """Deliver a packet of the peer's, so many PSNs ahead, by a source port."""
    frame = bytearray(peer.frame(Opcode.SEND_ONLY, PSN + ahead, b"1234", ce=ce))
    frame[34:36] = port.to_bytes(2)
    frame[-4:] = icrc(bytes(frame)).to_bytes(4, "little")
    assert peer.card.receive(bytes(frame), peer.now)


def told(packet: Any) -> list[tuple[int, int]]:
    echo = path_echo(packet)
    return [] if echo is None else [(row.port, row.marked) for row in echo.heard]


@pytest.mark.parametrize("kind", ECHOING)
def test_an_acknowledgement_says_by_which_ports_packets_came(kind: PathKind) -> None:
    peer = receiver(kind)
    come(peer, 0, 0xD001)
    come(peer, 1, 0xD007, ce=True)
    assert told(peer.expect_ack(PSN + 1, msn=2)) == [(0xD001, 0), (0xD007, 1)]
    come(peer, 2, 0xD002)
    assert told(peer.expect_ack(PSN + 2, msn=3)) == [(0xD002, 0)]


def test_what_comes_early_is_told_of_at_once() -> None:
    """It may only have overtaken others, and is no gap: an acknowledgement of what was there."""
    peer = receiver()
    come(peer, 3, 0xD009)
    assert told(peer.expect_ack(PSN - 1, msn=0)) == [(0xD009, 0)]
    peer.now = 30 * US
    peer.card.advance(peer.now)
    packet = peer.expect_ack(PSN, msn=0, syndrome=Syndrome.SEQUENCE_ERROR)
    assert told(packet) == [] and packet[NakBitmap].arrived() == [PSN + 3]


def test_a_nak_has_paths_and_then_its_bitmap() -> None:
    peer = receiver(ack_every=8)
    come(peer, 3, 0xD009, ce=True)
    peer.expect()
    peer.now = 30 * US
    peer.card.advance(peer.now)
    packet = peer.expect_ack(PSN, msn=0, syndrome=Syndrome.SEQUENCE_ERROR)
    assert told(packet) == [(0xD009, 1)]
    assert path_echo(packet)[NakBitmap].arrived() == [PSN + 3]


def test_an_acknowledgement_for_eight_tells_of_all_eight_and_of_more_the_last_ones() -> None:
    peer = receiver(ack_every=8)
    for i in range(7):
        come(peer, 1 + i, 0xD000 + i)
    peer.expect()
    come(peer, 8, 0xD007)
    for i in range(3):
        come(peer, 9 + i, 0xD008 + i)
    assert told(peer.expect_ack(PSN - 1, msn=0)) == [(0xD003 + i, 0) for i in range(8)]


@pytest.mark.parametrize("kind", [PathKind.NONE, PathKind.OBLIVIOUS])
def test_without_feedback_acknowledgements_are_as_ever(kind: PathKind) -> None:
    peer = receiver(kind)
    come(peer, 0, 0xD001, ce=True)
    packet = peer.expect_ack(PSN, msn=1)
    assert path_echo(packet) is None
    assert packet[IP].len == 20 + 8 + 12 + 4 + 4
    come(peer, 2, 0xD001)
    assert peer.silent()


# --- the sender -----------------------------------------------------------------------------------


def sender(kind: PathKind, **config: Any) -> ScriptedPeer:
    peer = ScriptedPeer(
        **{**CHOICE, "path_kind": kind, "udp_port": FIRST, "ack_every": 1, **config}
    )
    peer.card.post(QPN, Work(1, Operation.SEND, bytearray(64 * peer.config.mtu)))
    return peer


def evs(packets: list[Any]) -> list[int]:
    return [packet[UDP].sport - FIRST for packet in packets]


def take(peer: ScriptedPeer, n: int) -> list[Any]:
    return [packet for _ in range(n) if (packet := peer.next()) is not None]


def hear(
    peer: ScriptedPeer, psn: int, rows: list[tuple[int, int]], syndrome: int = Syndrome.ACK
) -> None:
    heard = [PathHeard(port=FIRST + ev, marked=marked) for ev, marked in rows]
    peer.ack(psn, syndrome, 0, PathEcho(count=len(heard), heard=heard))


def test_the_source_port_is_the_first_one_and_the_path() -> None:
    peer = sender(PathKind.OBLIVIOUS)
    taken = evs(take(peer, 32))
    assert sorted(taken[:16]) == sorted(taken[16:]) == list(range(16))


def test_reps_sends_on_what_came_back_unmarked() -> None:
    peer = sender(PathKind.REPS)
    take(peer, 8)
    hear(peer, PSN, [(5, 0), (6, 1), (3, 0), (9, 0)])
    assert evs(take(peer, 3)) == [5, 3, 9]


def test_ports_that_are_not_ours_are_no_paths() -> None:
    peer = sender(PathKind.REPS)
    take(peer, 4)
    hear(peer, PSN, [(-1, 0), (16, 0), (4000, 0), (2, 0)])
    assert evs(take(peer, 1)) == [2]


def test_an_echo_that_is_longer_than_its_packet_is_none() -> None:
    peer = sender(PathKind.REPS)
    taken = evs(take(peer, 4))
    peer.ack(PSN + 3, Syndrome.ACK, 0, PathEcho(count=60, heard=[PathHeard(port=FIRST + 1)]))
    assert peer.stats.acks_received == 1 and peer.stats.outstanding == 0
    twin = sender(PathKind.REPS)
    assert evs(take(twin, 12)) == taken + evs(take(peer, 8))  # it has learnt nothing


def test_a_nak_s_bitmap_behind_paths_is_read() -> None:
    peer = sender(PathKind.BITMAP)
    take(peer, 8)
    heard = [PathHeard(port=FIRST + 1)]
    bits = 1 << 127 | 1 << 125
    layers = (PathEcho(count=1, heard=heard), NakBitmap(base=PSN + 1, bits=bits))
    peer.ack(PSN, Syndrome.SEQUENCE_ERROR, 0, *layers)
    again = [p[BTH].psn for p in take(peer, 2)]
    assert again == [PSN, PSN + 2]


def test_bitmap_keeps_off_the_path_of_what_was_lost_for_four_rounds() -> None:
    peer = sender(PathKind.BITMAP, window_packets=1024)
    before = evs(take(peer, 8))
    peer.missing(PSN, [PSN + 3])
    again = take(peer, 3)
    assert [p[BTH].psn for p in again] == [PSN, PSN + 1, PSN + 2]
    later = evs(take(peer, 40))
    for lost in before[:3]:
        assert later.count(lost) <= 1


@pytest.mark.parametrize("kind", ECHOING)
def test_a_time_out_is_told_to_the_choice_once(kind: PathKind) -> None:
    peer = sender(kind)
    before = evs(take(peer, 8))
    peer.now = 100 * US
    peer.card.advance(peer.now)
    again = take(peer, 8)
    assert again[0][BTH].psn == PSN
    if kind is PathKind.BITMAP:
        assert before[0] not in evs(again)
        assert len(set(evs(take(peer, 15)))) == 15  # nothing else is to blame
    if kind is PathKind.PLB:
        assert len(set(evs(again))) == 1 and evs(again)[0] != before[0]


@pytest.mark.parametrize("kind", [PathKind.OBLIVIOUS, *ECHOING])
def test_two_cards_deliver_all_of_it(kind: PathKind) -> None:
    pair = Pair([Link()], loss=0.02, seed=int(kind))
    pair.join(tolerant(interfaces=1, udp_ports=16, path_kind=kind, ack_every=4))
    for _ in range(4):
        pair.post(100 * 4096)
    pair.run()
    assert [e.kind for e in pair.events[pair.a]] == [EventKind.COMPLETED] * 4
    stats = pair.b.queue_pair_stats(1)
    assert stats.received_packets == 400
    assert pair.a.queue_pair_stats(1).repeated_packets > 0


def test_the_same_seed_gives_the_same_paths_and_another_queue_pair_others() -> None:
    one, two = (evs(take(sender(PathKind.OBLIVIOUS), 32)) for _ in range(2))
    other = evs(take(sender(PathKind.OBLIVIOUS, udp_port=FIRST, mtu=256, first_psn=PSN + 1), 32))
    assert one == two != other


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"repeat": Repeat.GO_BACK_N}, "needs selective repeat and one interface"),
        ({"udp_ports": 3}, "power of two from 2 to 256"),
        ({"udp_ports": 1}, "power of two from 2 to 256"),
        ({"path_rounds": 40}, "at most 31 rounds"),
    ],
)
def test_what_makes_no_sense_together_is_refused(changes: dict[str, Any], why: str) -> None:
    peer = receiver()
    config = replace(peer.config, qpn=QPN + 1, **changes)
    with pytest.raises(CardError, match=why) as raised:
        peer.card.add_queue_pair(config)
    assert raised.value.status is Status.INVALID


def test_the_twin_of_a_card_s_choice_has_its_round() -> None:
    """The card only adds a seed: with it a choice alone takes the same paths."""
    peer = sender(PathKind.OBLIVIOUS)
    taken = evs(take(peer, 64))
    ip = 0x0A000101
    seed = ((ip << 32 | QPN) ^ PSN << 24 ^ FIRST << 48) & (1 << 64) - 1
    alone = Alone(PathKind.OBLIVIOUS, 16, seed)
    assert taken == [alone.next() for _ in range(64)]
