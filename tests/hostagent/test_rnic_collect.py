"""Data that collects whatever its congestion control wants, and what its receiver keeps of it.

See scripted_peer.py for who is who. Records are path telemetry's, the last switch's first.
"""

from __future__ import annotations

from typing import Any

import pytest
from scapy.contrib.roce import AETH

from hostagent.rnic.binding import Card
from hostagent.rnic.card_records import (
    Interface,
    Operation,
    QueuePairConfig,
    Repeat,
    Work,
)
from hostagent.rnic.card_statistics import SeenPath, seen_path_of
from hostagent.rnic.planes import PlaneConfig, PlaneUse
from mechanisms.dcqcn.parameters import parameters
from protocols.path_telemetry import WRAPS, record
from protocols.rocev2 import Opcode, Syndrome, icrc_is_valid
from protocols.telemetry import Telemetry, TelemetryKind, has_telemetry, shim_of, with_shim, without
from tests.hostagent.scripted_peer import MTU, PSN, QPN, ScriptedPeer
from tests.hostagent.virtual_wire import SANITIZE, US, card_config

GBPS = 10**9
DCQCN = {"dcqcn": parameters("hpcc-dcqcn", 100 * GBPS).fields()}


def collect(peer: ScriptedPeer, on: bool = True, qpn: int = QPN) -> int:
    return int(peer.card.lib.rnic_collect(peer.card.handle, qpn, int(on)))


def frames(peer: ScriptedPeer, packets: int) -> list[bytes]:
    """Post a SEND of so many packets, and return them."""
    peer.card.post(QPN, Work(1, Operation.SEND, bytes(packets * MTU)), peer.now)
    found = []
    while (packet := peer.card.transmit(peer.now)) is not None:
        found.append(packet.frame)
    return found


def test_data_has_an_empty_shim_as_long_as_it_collects() -> None:
    peer = ScriptedPeer()
    assert not peer.card.lib.rnic_collects(peer.card.handle, QPN)
    assert not any(map(has_telemetry, frames(peer, 2)))
    assert collect(peer) == 0 and peer.card.lib.rnic_collects(peer.card.handle, QPN)
    sent = frames(peer, 3)
    assert len(sent) == 3
    for frame in sent:
        shim = shim_of(frame)
        assert (shim.kind, shim.words, shim.hops) == (TelemetryKind.COLLECTS, 0, 0)
        assert icrc_is_valid(without(frame))
    assert collect(peer, on=False) == 0
    assert not any(map(has_telemetry, frames(peer, 1)))


def test_acknowledgements_that_bring_it_back_are_taken_as_others() -> None:
    """DCQCN hears of the same bytes whether or not its packets collect."""
    rates = []
    for on in (False, True):
        peer = ScriptedPeer(congestion_control=DCQCN, timeout_ps=10**12)
        assert collect(peer, on) == 0
        peer.card.post(QPN, Work(1, Operation.SEND, bytes(4 * MTU)), peer.now)
        for _ in range(4):
            assert peer.card.transmit(peer.now) is not None
            peer.now += US
        peer.cnp()
        for psn in (PSN + 1, PSN + 1, PSN + 3):  # the second one acknowledges nothing
            peer.now += 50_000_000
            ack = peer.frame(Opcode.ACK, psn, AETH(syndrome=int(Syndrome.ACK), msn=1))
            if on:
                returned = Telemetry(kind=TelemetryKind.RETURNED, format=1, hops=2, data=bytes(24))
                ack = with_shim(ack, returned)
            assert peer.card.receive(ack, peer.now)
        stats = peer.card.queue_pair_stats(QPN, peer.now)
        rates.append((stats.rate_bps, stats.acked_bytes, stats.first_cut_at))
    assert rates[0] == rates[1]
    assert 0 < rates[0][0] < 100 * GBPS and rates[0][1] == 4 * MTU


def test_who_is_not_there_is_refused() -> None:
    peer = ScriptedPeer()
    assert collect(peer, qpn=QPN + 1) < 0
    error = peer.card.ffi.string(peer.card.lib.rnic_error(peer.card.handle)).decode()
    assert error == f"there is no queue pair {QPN + 1}"


def test_who_shares_its_load_over_planes_is_refused() -> None:
    more = Interface(0x020000000009, 0, 0x0A000901)
    card = Card(card_config(1), more, sanitize=SANITIZE)
    planes = PlaneConfig(PlaneUse.SHARED, 2, US, US)
    card.add_queue_pair(
        QueuePairConfig(QPN, MTU, repeat=Repeat.SELECTIVE, interfaces=2, planes=planes)
    )
    assert card.lib.rnic_collect(card.handle, QPN, 1) < 0
    error = card.ffi.string(card.lib.rnic_error(card.handle)).decode()
    assert error == f"queue pair {QPN}: over planes packets collect no telemetry"


# --- the receiver ---------------------------------------------------------------------------------


def receiver(**config: Any) -> ScriptedPeer:
    peer = ScriptedPeer(**config)
    peer.card.receive_anything(QPN)
    return peer


def bring(peer: ScriptedPeer, psn: int, *hops: tuple[int, int, int], format: int = 1) -> None:
    """Let a packet come with records of (hop, at, queue in bytes), the first switch's first."""
    rows = [bytes(record(hop, 100 * GBPS, at, 0, queue)) for hop, at, queue in reversed(hops)]
    shim = Telemetry(format=format, hops=len(hops), data=b"".join(rows))
    frame = with_shim(peer.frame(Opcode.SEND_ONLY, psn, b"abcd"), shim)
    assert peer.card.receive(frame, peer.now)


def seen(peer: ScriptedPeer, qpn: int = QPN) -> SeenPath | None:
    row = peer.card.ffi.new("struct rnic_path *")
    if peer.card.lib.rnic_path_get(peer.card.handle, qpn, row):
        return None
    return seen_path_of(row)


def test_queues_and_times_are_kept_from_the_sender_s_side_on() -> None:
    peer = receiver()
    assert seen(peer) is None and seen(peer, QPN + 1) is None
    bring(peer, PSN, (7, 1000, 0), (8, 1600, 4096), (9, 9000, 512))
    peer.now = 5_000_000
    bring(peer, PSN + 1, (7, 2000, 1024), (8, 2700, 0), (9, 3400, 1024))
    found = seen(peer)
    assert found is not None
    assert (found.packets, found.written, found.changes, found.at) == (2, 3, 0, 5_000_000)
    told = [
        (hop.hop, hop.queue_bytes, hop.since_ns, hop.packets, hop.queue_sum, hop.since_sum_ns)
        for hop in found.hops
    ]
    assert told == [
        (7, 1024, 0, 2, 1024, 0),
        (8, 0, 700, 2, 4096, 600 + 700),
        (9, 1024, 700, 2, 1536, 7400 + 700),
    ]
    assert {hop.rate_bps for hop in found.hops} == {found.hops[0].rate_bps}
    assert found.hops[0].rate_bps == pytest.approx(100 * GBPS, rel=1 / 2048)


def test_times_of_switches_that_began_at_other_moments_still_have_a_mean() -> None:
    """The second one's clock is 600 ns behind: times go below 0, and come out modulo a wrap."""
    peer = receiver()
    for n, waited in enumerate((500, 700, 300)):
        bring(peer, PSN + n, (7, 10_000 * n, 0), (8, (10_000 * n + waited - 600) % WRAPS, 0))
    found = seen(peer)
    assert found is not None
    last = found.hops[1]
    assert last.since_ns == WRAPS - 300
    mean = last.since_sum_ns / last.packets + 600
    assert mean % WRAPS == pytest.approx(500)


def test_another_path_starts_again_where_it_differs() -> None:
    peer = receiver()
    for n in range(3):
        bring(peer, PSN + n, (1, 0, 512), (2, 100, 512), (3, 200, 512))
    bring(peer, PSN + 3, (1, 0, 512), (5, 100, 1024), (3, 200, 512))
    found = seen(peer)
    assert found is not None
    assert [(hop.hop, hop.packets) for hop in found.hops] == [(1, 4), (5, 1), (3, 4)]
    assert found.hops[1].queue_sum == 1024 and found.changes == 1
    bring(peer, PSN + 4, (1, 0, 512), (3, 200, 512))
    found = seen(peer)
    assert found is not None
    assert [hop.hop for hop in found.hops] == [1, 3] and found.changes == 2


def test_of_more_than_five_hops_those_next_to_the_receiver_are_kept() -> None:
    peer = receiver()
    bring(peer, PSN, *((n, 100 * n, 0) for n in range(1, 8)))
    found = seen(peer)
    assert found is not None and found.written == 7
    assert [hop.hop for hop in found.hops] == [3, 4, 5, 6, 7]
    assert [hop.since_ns for hop in found.hops] == [0, 100, 100, 100, 100]


def test_what_is_no_record_of_hops_is_not_taken_for_one() -> None:
    peer = receiver()
    shim = Telemetry(format=2, hops=3, data=bytes(4))
    assert peer.card.receive(with_shim(peer.frame(Opcode.SEND_ONLY, PSN, b"abcd"), shim), 0)
    bring(peer, PSN + 1, (1, 5, 512), format=9)
    assert seen(peer) is None


def test_header_only_cards_keep_nothing() -> None:
    peer = receiver(card={"whole": False}, repeat=Repeat.GO_BACK_N)
    row = bytes(record(3, 100 * GBPS, 5, 0, 512))
    frame = with_shim(peer.frame(Opcode.SEND_ONLY, PSN, b"abcd"), Telemetry(format=1, data=row))
    assert peer.card.receive(frame, 0)
    assert seen(peer) is None
