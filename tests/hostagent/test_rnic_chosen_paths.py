"""Paths that an algorithm of the list chooses: a card built with one more, `wheel`.

It gives the first `of_16` of each 16 packets to interface 0 and the others to interface 1, takes
UDP ports in turn, and counts by path what is acknowledged.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hostagent.algorithms import pack
from hostagent.rnic.card_records import Access, EventKind, Operation, PacketKind, Work
from tests.hostagent import more_algorithms
from tests.hostagent.virtual_links import GBPS, RKEY, US, Link, Pair, address, tolerant

LONG = 2048 * 4096


@pytest.fixture(autouse=True, scope="module")
def _with_wheel() -> Iterator[None]:
    with more_algorithms.built().card_in_place():
        yield


def turning(links: list[Link], of_16: int, **changes: object) -> Pair:
    """Return a pair whose sender deals packets out by the wheel."""
    pair = Pair(links)
    rate = sum(link.rate_bps for link in links)
    wheel = {"line_rate": rate, "min_rate": GBPS, "of_16": of_16}
    pair.join(tolerant(interfaces=len(links), **changes), wheel=wheel)
    return pair


@pytest.mark.parametrize("operation", [Operation.WRITE, Operation.SEND])
@pytest.mark.parametrize(("of_16", "rates"), [(8, (100, 100)), (12, (150, 50)), (4, (50, 150))])
def test_what_it_says_holds_and_lines_of_these_rates_are_full(
    of_16: int, rates: tuple[int, int], operation: Operation
) -> None:
    pair = turning([Link(rate * GBPS) for rate in rates], of_16)
    pair.post(LONG, operation)
    pair.run()
    for link, packets in enumerate(pair.data()):
        assert all((p.psn % 16 >= of_16) == link for p in packets)
    assert pair.shares() == [2048 * of_16 // 16, 2048 * (16 - of_16) // 16]
    assert min(pair.used()) >= 0.98
    assert pair.a.queue_pair_stats(1).repeated_packets == 0


def test_the_slower_line_limits_what_is_dealt_out_equally() -> None:
    pair = turning([Link(), Link(50 * GBPS)], 8)
    pair.post(LONG)
    pair.run()
    assert pair.shares() == [1024, 1024]
    fast, slow = pair.used()
    assert slow >= 0.98
    assert fast == pytest.approx(0.5, abs=0.01)


def test_ports_are_paths_too() -> None:
    pair = turning([Link(), Link()], 8, udp_ports=3)
    pair.post(96 * 4096, Operation.SEND)
    pair.run()
    for packets in pair.data():
        for packet in packets:
            assert int.from_bytes(packet.frame[34:36]) == 0xC000 + packet.psn % 3


def test_ports_of_one_interface_are_paths() -> None:
    pair = turning([Link()], 16, udp_ports=3)
    pair.post(96 * 4096, Operation.SEND)
    pair.run()
    assert [int.from_bytes(p.frame[34:36]) for p in pair.data()[0]] == [
        0xC000 + psn % 3 for psn in range(96)
    ]


@pytest.mark.parametrize("operation", [Operation.SEND, Operation.READ])
def test_acknowledgements_tell_the_path_of_what_they_acknowledge(operation: Operation) -> None:
    """Each packet is acknowledged by itself, in order; a READ by the path of its request."""
    pair = Pair([Link(), Link()])
    card, config = pair.a, tolerant(ack_every=1, rate_bps=50 * GBPS)
    slot = card.ffi.new("struct cc_slot *")
    wheel = {"line_rate": 200 * GBPS, "min_rate": GBPS, "of_16": 4}
    card.lib.cc_start_slot(slot, pack(card.ffi, {"wheel": wheel}), 0)
    native = card.ffi.new(
        "struct rnic_qp_config *", {**config.fields(), "slot": slot, "slot_is_ours": 1}
    )
    pair.join(tolerant(), wheel=wheel)
    card.remove_queue_pair(1)
    assert card.lib.rnic_add_qp(card.handle, native, card.ffi.NULL) == 0
    card.connect_ways(1, [address(2, 0), address(2, 1)], peer_qpn=1, peer_psn=0)
    for _ in range(160):  # a READ of one packet has one PSN
        pair.post(4096, operation)
    pair.run()
    assert [int(n) for n in slot.wheel.acked] == [40, 120, 0, 0, 0, 0, 0, 0]


def test_a_dead_interface_gives_way_to_the_next() -> None:
    pair = turning([Link(), Link(), Link()], 8)
    pair.set_link(2, False)
    pair.post(LONG)
    pair.run(until=10 * US)
    assert pair.shares()[1:] == [0, 0]  # that of 0 takes what 2 would, as the next in turn
    pair.set_link(0, False)
    pair.at(60 * US, lambda: pair.set_link(0, True))
    pair.run()
    assert pair.shares()[1] > 0
    assert [e.kind for e in pair.events[pair.a]] == [EventKind.COMPLETED]


@pytest.mark.parametrize("paused", [0, 1])
def test_what_waits_for_a_paused_line_lets_a_few_pass_and_is_sent_once(paused: int) -> None:
    pair = turning([Link(), Link()], 8, timeout_ps=10_000 * US, reorder_ps=1000 * US)
    pair.a.set_pause(1 << 3, paused)
    pair.post(LONG)
    pair.run(until=100 * US)
    shares = pair.shares()
    # Of 16 packets 8 are for each line; 8 may wait for the one that is paused.
    assert shares[paused] == 0
    assert shares[1 - paused] == (16 if paused else 8)
    pair.a.set_pause(0, paused)
    pair.run()
    assert pair.shares() == [1024, 1024]
    assert pair.a.queue_pair_stats(1).repeated_packets == 0


@pytest.mark.parametrize("mended", [True, False])
def test_what_waits_for_a_line_that_goes_down_takes_another(mended: bool) -> None:
    pair = turning([Link(), Link()], 8, timeout_ps=10_000 * US, reorder_ps=1000 * US)
    pair.a.set_pause(1 << 3, 1)
    pair.post(64 * 4096)
    pair.run(until=20 * US)
    waiting = pair.a.outstanding_by(1, 1)
    assert waiting == list(range(8, 16))
    pair.set_link(1, False)
    assert pair.a.outstanding_by(1, 1) == []
    if mended:
        pair.set_link(1, True)
        pair.a.set_pause(0, 1)
    pair.run()
    assert [e.kind for e in pair.events[pair.a]] == [EventKind.COMPLETED]
    stats = pair.a.queue_pair_stats(1)
    assert (stats.repeated_packets, stats.timeouts) == (0, 0)
    assert {p.psn for p in pair.data()[0]} >= set(waiting)


def test_what_was_acknowledged_while_it_waited_is_not_sent() -> None:
    pair = turning([Link(), Link()], 8, timeout_ps=50 * US)
    pair.a.set_pause(1 << 3, 1)
    pair.post(16 * 4096)
    pair.run(until=400 * US)  # a time-out sends again what waits, by numbers that go to line 0
    assert [e.kind for e in pair.events[pair.a]] == [EventKind.COMPLETED]
    pair.a.set_pause(0, 1)
    pair.run()
    assert pair.shares()[1] == 0


def test_memory_that_is_withdrawn_is_not_read_when_the_line_is_free() -> None:
    pair = Pair([Link(), Link()], whole=True)
    wheel = {"line_rate": 200 * GBPS, "min_rate": GBPS, "of_16": 8}
    config = tolerant(mtu=256, interfaces=2, retries=1)
    pair.join(config, wheel=wheel)
    for card, parameters in ((pair.a, None), (pair.b, {"wheel": wheel})):
        card.remove_queue_pair(1)
        card.add_queue_pair(config, parameters)
        ips = [address(2 if card is pair.a else 1, i) for i in range(2)]
        card.connect_ways(1, ips, peer_qpn=1, peer_psn=0)
    memory = bytearray(b"x" * 8192)
    pair.b.register(RKEY, 0, memory, Access.REMOTE_READ)
    pair.b.set_pause(1 << 3, 1)
    pair.a.post(1, Work(0, Operation.READ, bytearray(8192), rkey=RKEY))
    pair.run(until=20 * US)
    sent = len(pair.sent)
    pair.b.deregister(RKEY)
    pair.b.set_pause(0, 1)
    pair.run()
    responses = [r for r in pair.sent[sent:] if r.packet.kind is PacketKind.RESPONSE]
    assert responses == []
    assert pair.events[pair.a][0].kind is EventKind.QP_FAILED
