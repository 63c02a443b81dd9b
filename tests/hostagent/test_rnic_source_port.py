"""A queue pair takes another source port while it sends, and so another path.

A ====== from some time on by a path that is longer, or shorter ====== B
"""

from __future__ import annotations

from random import Random

import pytest

from hostagent.rnic.binding import Card
from hostagent.rnic.card_records import (
    Access,
    CardError,
    EventKind,
    Operation,
    PacketKind,
    QueuePairConfig,
    Repeat,
    Work,
)
from hostagent.rnic.card_statistics import QueuePairStats
from tests.hostagent.virtual_wire import US, VirtualWire, join, make_card

MTU = 1024
SIZE = 400 * MTU
BEFORE, AFTER = 0xC001, 0xD234
MOVES_AT = 10 * US
LINE_PS = SIZE * 8 * 10**12 // 100_000_000_000


def port(frame: bytes) -> int:
    return int.from_bytes(frame[34:36])


def moved(
    operation: Operation = Operation.WRITE,
    *,
    repeat: Repeat = Repeat.SELECTIVE,
    reorder_ps: int = 0,
    delays: tuple[int, int] = (2 * US, 2 * US),
    udp_ports: int = 1,
) -> tuple[VirtualWire, QueuePairStats, QueuePairStats]:
    """One message, whose sender's port changes in its middle; random bytes arrive as they were."""
    a, b = make_card(1, whole=True), make_card(2, whole=True)
    config = QueuePairConfig(
        qpn=5, mtu=MTU, udp_port=BEFORE, udp_ports=udp_ports, repeat=repeat, reorder_ps=reorder_ps,
        timeout_ps=500 * US,
    )  # fmt: skip
    join(a, b, config)
    wire = VirtualWire(a, b, delay_ps=delays[0])
    given, taken = bytearray(Random(1).randbytes(SIZE)), bytearray(SIZE)
    is_read = operation is Operation.READ
    sender = b if is_read else a
    b.register(7, 0, given if is_read else taken, Access.REMOTE_WRITE | Access.REMOTE_READ)
    if operation is Operation.SEND:
        b.post_receive(5, 1, taken)
    data = taken if is_read else given

    def move() -> None:
        sender.set_udp_port(5, AFTER)
        wire.delay_ps = delays[1]

    wire.at(MOVES_AT, move)
    a.post(5, Work(1, operation, data, rkey=7))
    wire.run()
    assert taken == given
    assert [e.id for e in wire.events[a] if e.kind is EventKind.COMPLETED] == [1]
    return wire, sender.queue_pair_stats(5), (a if is_read else b).queue_pair_stats(5)


def data_sent(wire: VirtualWire, sender: Card) -> list[tuple[int, int]]:
    kinds = (PacketKind.DATA, PacketKind.RESPONSE)
    rows = [r for r in wire.passed if r.sender is sender and r.packet.kind in kinds]
    return [(row.at, port(row.packet.frame)) for row in rows]


@pytest.mark.parametrize("repeat", list(Repeat))
@pytest.mark.parametrize("operation", [Operation.SEND, Operation.WRITE, Operation.READ])
def test_all_data_from_that_time_on_has_the_new_port_and_nothing_else_changes(
    operation: Operation, repeat: Repeat
) -> None:
    wire, sent, got = moved(operation, repeat=repeat)
    cards = list(wire.cards.values())
    sender = cards[1] if operation is Operation.READ else cards[0]
    rows = data_sent(wire, sender)
    assert len(rows) == 400
    assert all(p == (BEFORE if at < MOVES_AT else AFTER) for at, p in rows)
    assert {p for _, p in rows} == {BEFORE, AFTER}
    assert (sent.repeated_packets, got.out_of_order, got.dropped) == (0, 0, 0)
    others = [r.packet for r in wire.passed if r.packet.kind is PacketKind.ACK]
    assert {port(packet.frame) for packet in others} <= {BEFORE}  # the other end's own


@pytest.mark.parametrize("repeat", list(Repeat))
def test_a_longer_path_costs_nothing(repeat: Repeat) -> None:
    _, sent, got = moved(repeat=repeat, delays=(2 * US, 9 * US))
    assert (sent.repeated_packets, got.out_of_order, got.dropped) == (0, 0, 0)


def test_on_a_shorter_path_go_back_n_sends_again_what_overtook() -> None:
    wire, sent, got = moved(repeat=Repeat.GO_BACK_N, delays=(9 * US, 2 * US))
    overtaking = 7 * US // (80 * (MTU + 82))  # packets in the difference, at 100 Gb/s
    assert 0 < got.dropped <= got.out_of_order
    assert overtaking // 2 < sent.repeated_packets < 4 * overtaking
    assert got.naks_sent > 0 == sent.timeouts
    last = wire.events[next(iter(wire.cards.values()))][-1]
    assert last.at < LINE_PS + 60 * US


def test_on_a_shorter_path_selective_repeat_keeps_all_and_with_reorder_repeats_nothing() -> None:
    _, eager, kept = moved(delays=(9 * US, 2 * US))
    assert kept.dropped == 0
    assert 0 < eager.repeated_packets <= kept.duplicates + 1
    _, patient, in_time = moved(delays=(9 * US, 2 * US), reorder_ps=8 * US)
    assert in_time.out_of_order > 0
    assert (patient.repeated_packets, in_time.duplicates, in_time.dropped) == (0, 0, 0)


def test_of_several_ports_it_is_the_first() -> None:
    wire, _, _ = moved(udp_ports=4, reorder_ps=20 * US)
    rows = data_sent(wire, next(iter(wire.cards.values())))
    assert {p for at, p in rows if at >= MOVES_AT} == set(range(AFTER, AFTER + 4))


def test_what_can_not_be_is_refused_and_changes_nothing() -> None:
    a, b = make_card(1, whole=False), make_card(2, whole=False)
    join(a, b, QueuePairConfig(qpn=5, mtu=MTU, udp_ports=4))
    with pytest.raises(CardError, match="there is no queue pair 6"):
        a.set_udp_port(6, AFTER)
    for wrong in (0, 65533):
        with pytest.raises(CardError, match=f"4 UDP ports from {wrong} on do not fit"):
            a.set_udp_port(5, wrong)
    a.set_udp_port(5, 65532)
    wire = VirtualWire(a, b)
    b.receive_anything(5)
    a.post(5, Work(1, Operation.SEND, length=8 * MTU))
    wire.run()
    assert {port(frame) for frame in wire.frames_of(a)} == set(range(65532, 65536))
