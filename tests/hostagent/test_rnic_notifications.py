"""A card that is sent notifications in datagrams: what it keeps, and which queue pair hears of it.

switch --- UDP 28791 ---> card 10.0.1.1, whose queue pair 5 is joined to 10.0.1.2's 77
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.inet import IP, UDP, IPOption_NOP
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Packet, Raw

from hostagent.notifications import Heard, HeardCounts
from hostagent.rnic.card_records import EventKind
from protocols.notification import (
    NEIGHBOURS,
    NOTIFICATION_PORT,
    SOURCE,
    Notification,
    NotificationType,
    datagram,
)
from tests.hostagent.scripted_peer import PEER_IP, PEER_QPN
from tests.hostagent.test_rnic_fast_cnp import Source, said_rate
from tests.hostagent.virtual_wire import SANITIZE, US, make_card

HERE, PEER = "10.0.1.1", "10.0.1.2"
DOWN = NotificationType.LINK_DOWN
MOST = 4096
KEPT = (2, 3, 4, 5, 8)
"""Types that hosts keep, beside congestion."""
SAID: dict[str, Any] = {
    "type": DOWN, "severity": 10, "hops": 3, "validity": 5, "switch_id": 0xA5A5, "port": 0x5A5,
    "sequence": 0xA5A, "destination": "165.90.165.91", "destination_qp": 0xA55AA5, "queue": 0x5AA5,
}  # fmt: skip


def frame(*, to: str = HERE, body: bytes = b"", **fields: Any) -> Packet:
    said = Notification(**{**SAID, **fields})
    return Ether(dst="02:00:0a:00:01:01") / datagram(said, to=to, body=body)


def counts(types: dict[int, int] | None = None, malformed: int = 0, no_qp: int = 0) -> HeardCounts:
    return HeardCounts(types or {}, malformed, no_qp, 0)


def test_every_field_and_when_and_how_often() -> None:
    card = make_card(1)
    card.receive(bytes(frame(body=b"seven b")), now=5 * US)
    (row,) = card.notifications()
    values = {**SAID, "destination": 0xA55AA55B}
    assert {name: getattr(row, name) for name in values} == values
    assert (row.local, row.kind, row.body_bytes) == (HERE, DOWN, 7)
    assert (row.at_ns, row.times) == (5_000, 1)
    assert card.notification_counts() == counts({DOWN: 1})
    assert card.stats().other == 0
    assert card.events() == []


def test_the_latest_of_each_type_switch_and_port_comes_first() -> None:
    card = make_card(1)
    steps = [{}, {"type": 3}, {"switch_id": 1}, {"port": 1}, {"sequence": 9, "severity": 1}]
    for now, fields in enumerate(steps):
        card.receive(bytes(frame(**fields)), now * US)
    rows = card.notifications()
    assert [(row.at_ns // 1000, row.times) for row in rows] == [(4, 2), (3, 1), (2, 1), (1, 1)]
    assert (rows[0].sequence, rows[0].severity) == (9, 1)


def test_without_a_queue_pair_nothing_is_taken_for_it() -> None:
    """Header-only, as in the simulator: the body is bytes that are not there."""
    card = make_card(1, whole=False)
    whole = bytes(frame(body=bytes(100)))
    assert not card.receive(whole[:-100], 0, tail=100)
    assert [row.body_bytes for row in card.notifications()] == [100]
    card.receive(whole[:-100], 0, tail=99)
    assert card.notification_counts() == counts({DOWN: 1}, malformed=1)


def test_one_of_congestion_does_what_it_does_in_a_cnp() -> None:
    by_cnp, by_datagram = Source(), Source()
    for now in (7 * US, 9 * US, 60 * US):
        by_cnp.now = by_datagram.now = now
        assert by_cnp.told(4, validity=3)
        assert heard(by_datagram, queue=said_rate(4), validity=3)
        assert by_datagram.stats == by_cnp.stats
        assert by_datagram.rates() == by_cnp.rates()
    assert by_datagram.rates() != [16]
    assert by_datagram.card.notification_counts() == counts({1: 3})
    (row,) = by_datagram.card.notifications()
    assert (row.kind, row.times) == (NotificationType.CONGESTION, 3)


def heard(source: Source, **fields: Any) -> bool:
    """Whether a queue pair of the card heard of congestion, or of what `fields` say."""
    values = {"type": 1, "queue": said_rate(8), "destination": PEER, "destination_qp": PEER_QPN}
    return source.card.receive(bytes(frame(**{**values, **fields})), source.now)


def test_it_is_for_the_queue_pair_that_is_joined_to_the_one_it_names() -> None:
    source = Source()
    source.also(6, PEER_IP, 78)
    assert heard(source, queue=said_rate(12), destination_qp=78)
    assert (source.rates(5), source.rates(6)) == ([16], [12])


STRANGE: dict[str, dict[str, Any]] = {
    "another queue pair": {"destination_qp": PEER_QPN + 1},
    "another destination": {"destination": "10.0.1.3"},
}


@pytest.mark.parametrize("fields", STRANGE.values(), ids=STRANGE)
def test_for_no_queue_pair_of_ours_it_changes_none(fields: dict[str, Any]) -> None:
    source = Source()
    before = source.stats
    assert not heard(source, **fields)
    assert source.stats == before
    assert source.card.notification_counts() == counts({1: 1}, no_qp=1)


@pytest.mark.parametrize("kind", [0, *range(2, 16)])
def test_no_other_type_reaches_a_queue_pair(kind: int) -> None:
    source = Source()
    before = source.stats
    assert not heard(source, type=kind)
    assert (source.stats, source.rates()) == (before, [16])
    assert len(source.card.notifications()) == (kind in KEPT)
    wanted = counts({kind: 1}) if kind else counts(malformed=1)
    assert source.card.notification_counts() == wanted


def test_a_queue_pair_whose_algorithms_do_not_hear_it_is_left_alone() -> None:
    source = Source(fast=None)
    before = source.stats
    assert not heard(source)
    assert (source.stats, source.rates()) == (before, [16])
    assert source.card.notification_counts() == counts({1: 1})


@pytest.mark.parametrize("kind", range(16))
def test_in_a_cnp_it_is_kept_as_well_and_the_cnp_is_one(kind: int) -> None:
    """By type, whichever way it came; of congestion a CNP's is the queue pair's alone."""
    source = Source()
    assert source.told(8, qpn=5, type=kind)
    assert source.stats.cnps_received == (kind != 1)
    assert [row.type for row in source.card.notifications()] == [kind] * (kind in KEPT)
    assert source.card.notification_counts() == counts()


def test_a_queue_pair_that_is_gone_hears_nothing() -> None:
    source = Source()
    source.card.remove_queue_pair(5)
    assert not heard(source)
    assert source.card.notification_counts().no_queue_pair == 1


# --- what is not as it has to be -----------------------------------------------------------------


def changed(**fields: Any) -> Packet:
    packet = frame()
    for name, value in fields.items():
        setattr(packet[IP], name, value)
    return packet


def with_udp_length(length: int) -> Packet:
    packet = frame(body=bytes(8))
    packet[UDP].len = length
    return packet


MALFORMED: dict[str, Packet] = {
    "of no type": frame(type=0),
    "from a host's address": changed(src=PEER),
    "a UDP length of none": with_udp_length(0),
    "a UDP length without it": with_udp_length(23),
    "a UDP length short of IPv4's": with_udp_length(24),
    "a UDP length beyond IPv4's": with_udp_length(40),
    "a body longer than the packet": changed(len=1000),
    "half of it": Ether() / IP(src=SOURCE, dst=HERE) / UDP(dport=NOTIFICATION_PORT) / Raw(b"12345"),
}

OTHER: dict[str, Packet] = {
    "another host's": frame(to=PEER),
    "a neighbour's": frame(to=NEIGHBOURS),
    "options": changed(options=[IPOption_NOP()] * 4),
    "a first fragment": changed(flags="MF"),
    "a later fragment": changed(frag=2),
    "another IPv4": changed(version=5),
    "a VLAN": Ether() / Dot1Q(vlan=3) / datagram(Notification(**SAID), to=HERE),
}


@pytest.mark.parametrize("bad", MALFORMED.values(), ids=MALFORMED)
def test_one_that_is_wrong_is_counted(bad: Packet) -> None:
    card = make_card(1)
    assert not card.receive(bytes(bad), 0)
    assert (card.notifications(), card.notification_counts()) == ([], counts(malformed=1))


@pytest.mark.parametrize("other", OTHER.values(), ids=OTHER)
def test_what_cannot_be_one_is_something_else(other: Packet) -> None:
    card = make_card(1)
    assert not card.receive(bytes(other), 0)
    assert (card.notifications(), card.notification_counts()) == ([], counts())
    assert card.stats().other == 1


def test_cut_short_anywhere_it_is_safe() -> None:
    card = make_card(1)
    whole = bytes(frame(body=b"body"))
    for size in range(len(whole)):
        module = card.ffi
        exact = module.new("uint8_t[]", whole[:size]) if size else module.NULL
        card.lib.rnic_receive(card.handle, exact, size, 0, 0)
    assert card.notifications() == []
    assert card.notification_counts() == counts(malformed=len(whole) - 42)


# --- how many ------------------------------------------------------------------------------------


def test_a_flood_of_keys_forgets_the_oldest_and_no_more() -> None:
    card = make_card(1)
    raw = bytearray(bytes(frame()))
    at, flood = 14 + 20 + 8 + 2, 20_000 if SANITIZE else 100_000
    for n in range(flood):
        raw[at : at + 4] = (n << 4).to_bytes(4, "big")
        card.receive(bytes(raw), n * US)
    rows = card.notifications()
    newest = range(flood - 1, flood - 1 - MOST, -1)
    assert [row.switch_id << 12 | row.port for row in rows] == list(newest)
    assert card.notification_counts() == counts({DOWN: flood})


KEYS = st.tuples(st.integers(1, 5), st.integers(0, 3), st.integers(0, 3))


@settings(deadline=None, max_examples=20 if SANITIZE else 100)
@given(st.lists(KEYS, max_size=120))
def test_it_holds_what_a_dictionary_would(keys: list[tuple[int, int, int]]) -> None:
    card = make_card(1)
    wanted: OrderedDict[tuple[int, int, int], int] = OrderedDict()
    raw = bytearray(bytes(frame()))
    for now, (kind, switch, port) in enumerate(keys):
        said = Notification(**{**SAID, "type": kind, "switch_id": switch, "port": port})
        raw[42:58] = bytes(said)
        card.receive(bytes(raw), now * US)
        wanted[kind, switch, port] = wanted.pop((kind, switch, port), 0) + 1

    def key(row: Heard) -> tuple[int, int, int]:
        return row.type, row.switch_id, row.port

    found = [(key(row), row.times) for row in card.notifications()]
    assert found == list(reversed(wanted.items()))
    assert EventKind.COMPLETED not in {event.kind for event in card.events()}
