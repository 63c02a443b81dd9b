"""Queue pairs over several interfaces of a card, in virtual time and exact."""

from __future__ import annotations

import struct
from ipaddress import IPv4Address
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
    Work,
)
from mechanisms.fast_cnp.parameters import fast_cnp_parameters
from protocols.notification import Notification, NotificationType
from tests.hostagent.virtual_links import GBPS, RKEY, US, Link, Pair, address, device, tolerant

LONG = 8 << 20  # 2048 packets
DATA = [Operation.WRITE, Operation.SEND, Operation.READ]
OTHER_WAY = 5_500_000  # ps; 4.5 us more than the first one's


def sender(pair: Pair, operation: Operation) -> Card:
    return pair.b if operation is Operation.READ else pair.a


def carried(
    *links: Link, operation: Operation = Operation.WRITE, size: int = LONG, **changes: object
) -> Pair:
    """One message over these links, from end to end."""
    pair = Pair(links)
    pair.join(tolerant(interfaces=len(links), **changes))
    pair.post(size, operation)
    pair.run()
    return pair


def repeats(pair: Pair) -> list[int]:
    """Packets sent again, time-outs and NAKs, of both ends together."""
    found = [card.queue_pair_stats(1) for card in (pair.a, pair.b)]
    return [
        sum(getattr(each, name) for each in found)
        for name in ("repeated_packets", "timeouts", "naks_received")
    ]


# --- what they carry -----------------------------------------------------------------------------


@pytest.mark.parametrize("operation", DATA)
@pytest.mark.parametrize("delay", [US, OTHER_WAY])
@pytest.mark.parametrize("n", [2, 3, 8])
def test_lines_share_packets_and_are_full(n: int, delay: int, operation: Operation) -> None:
    pair = carried(*[Link()] * (n - 1), Link(delay_ps=delay), operation=operation)
    shares = pair.shares(sender(pair, operation))
    assert sum(shares) == 2048
    assert max(shares) - min(shares) <= 1
    assert repeats(pair) == [0, 0, 0]
    assert min(pair.used(card=sender(pair, operation))) >= 0.98


@pytest.mark.parametrize("operation", DATA)
def test_each_of_unequal_lines_carries_what_it_can(operation: Operation) -> None:
    pair = carried(Link(), Link(rate_bps=50 * GBPS), operation=operation)
    fast, slow = pair.shares(sender(pair, operation))
    assert fast + slow == 2048
    assert abs(fast - 2 * slow) <= 3
    assert repeats(pair) == [0, 0, 0]
    assert min(pair.used(card=sender(pair, operation))) >= 0.98


def test_turns_are_kept_below_the_lines_rate() -> None:
    """Both lines are free each time that a packet may leave."""
    pair = carried(Link(), Link(), Link(), rate_bps=30 * GBPS)
    order = [row.link for row in pair.sent if row.packet.kind is PacketKind.DATA]
    assert order == [i % 3 for i in range(2048)]
    assert sum(pair.used()) * 100 == pytest.approx(30, rel=0.01)


def test_a_rate_between_one_line_and_both_is_kept() -> None:
    pair = carried(Link(), Link(), rate_bps=150 * GBPS)
    assert pair.shares() == [1024, 1024]
    assert sum(pair.used()) * 100 == pytest.approx(150, rel=0.01)


def test_queue_pairs_of_one_and_of_both_interfaces_share_a_card() -> None:
    pair = Pair([Link(), Link()])
    pair.join(tolerant())
    for qpn, interface in ((2, 1), (3, 0)):
        config = tolerant(qpn, interface=interface, interfaces=1)
        for card, peer in ((pair.a, 2), (pair.b, 1)):
            card.add_queue_pair(config)
            card.connect(qpn, address(peer, interface), peer_qpn=qpn, peer_psn=0)
    for qpn in (1, 2, 3):
        pair.post(LONG, qpn=qpn)
    pair.run()
    by_line = [{qpn: sum(p.qpn == qpn for p in line) for qpn in (1, 2, 3)} for line in pair.data()]
    assert [line[qpn] for line, qpn in zip(by_line, (2, 3), strict=True)] == [0, 0]
    assert by_line[0][3] == by_line[1][2] == 2048
    # On each line the two take turns, and the one of both has what they leave in the end.
    assert by_line[0][1] == pytest.approx(1024, abs=2)
    assert min(pair.used()) >= 0.98


def test_each_way_has_its_addresses_and_answers_come_back_by_it() -> None:
    delays = (US, US + 100_000, US + 200_000)
    pair = carried(
        *(Link(delay_ps=d) for d in delays), operation=Operation.SEND, size=300 * 4096, ack_every=1
    )
    for row in pair.sent:
        here, there = (1, 2) if row.card is pair.a else (2, 1)
        frame = row.packet.frame
        assert struct.unpack("!II", frame[26:34]) == (
            address(here, row.link),
            address(there, row.link),
        )
        assert frame[6:12] == (0x0200 << 32 | address(here, row.link)).to_bytes(6, "big")
        header = struct.unpack("!10H", frame[14:34])
        total = sum(header)
        assert (total & 0xFFFF) + (total >> 16) == 0xFFFF  # the checksum is right
    acks = [row.link for row in pair.sent if row.card is pair.b]
    assert {acks.count(link) for link in range(3)} == {100}


# --- what comes from any address -----------------------------------------------------------------


@pytest.mark.parametrize("link", range(3))
def test_notifications_name_any_address_of_the_peer(link: int) -> None:
    pair = Pair([Link()] * 3)
    pair.join(tolerant(interfaces=3), fast_cnp=fast_cnp_parameters(300 * GBPS).fields())
    pair.post(LONG)
    pair.run(until=50 * US)
    for named, heard in ((address(2, link), 1), (address(9, link), 0)):
        said = Notification(
            type=NotificationType.CONGESTION,
            queue=1000,
            destination=str(IPv4Address(named)),
            destination_qp=1,
        )
        frame = bytearray(pair.sent[0].packet.frame[:54]) + bytes(said) + bytes(4)
        frame[26:34] = struct.pack("!II", named, address(1, (link + 1) % 3))
        frame[16:18] = struct.pack("!H", len(frame) - 14)
        frame[38:40] = struct.pack("!H", len(frame) - 34)
        frame[42], frame[43] = 0x81, 0
        before = pair.a.queue_pair_stats(1).notified_received
        pair.a.receive(bytes(frame[:-4]), pair.now, 4, (link + 2) % 3)
        assert pair.a.queue_pair_stats(1).notified_received == before + heard


def test_strangers_and_other_cards_addresses_are_not_taken() -> None:
    pair = carried(Link(), Link(), size=4096)
    frame = next(row.packet.frame for row in pair.sent if row.card is pair.a)
    stranger, elsewhere = bytearray(frame), bytearray(frame)
    stranger[26:30] = struct.pack("!I", address(3, 0))
    elsewhere[30:34] = struct.pack("!I", address(2, 2))
    for wrong in (stranger, elsewhere):
        assert not pair.b.receive(bytes(wrong), pair.now, 4100, 0)
    crossed = bytearray(frame)
    crossed[26:34] = struct.pack("!II", address(1, 1), address(2, 0))
    assert pair.b.receive(bytes(crossed), pair.now, 4100, 0)
    assert (pair.b.stats().unknown_qp, pair.b.stats().other) == (1, 1)


# --- pauses --------------------------------------------------------------------------------------


@pytest.mark.parametrize("paused", [0, 1])
def test_a_paused_line_holds_nothing_up(paused: int) -> None:
    pair = Pair([Link(), Link()])
    pair.join(tolerant())
    pair.a.set_pause(1 << 3, paused)
    pair.post(LONG)
    pair.run(until=500 * US)
    assert pair.shares()[paused] == 0
    assert pair.used(500 * US)[1 - paused] >= 0.98
    pair.a.set_pause(0, paused)
    pair.run()
    assert pair.shares()[paused] > 0
    assert repeats(pair) == [0, 0, 0]


def test_what_is_to_be_acknowledged_waits_for_no_paused_line() -> None:
    pair = Pair([Link(), Link()])
    pair.join(tolerant(ack_every=1))
    pair.b.set_pause(1 << 3, 0)
    pair.post(LONG)
    pair.run()
    assert pair.events[pair.a][-1].kind is EventKind.COMPLETED
    assert repeats(pair) == [0, 0, 0]
    assert {row.link for row in pair.sent if row.card is pair.b} == {1}


# --- links ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", DATA)
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_one_link_after_the_other_goes_and_comes_back(
    order: tuple[int, int], operation: Operation
) -> None:
    pair = Pair([Link(), Link()])
    pair.join(tolerant())
    pair.post(LONG, operation)
    for i, link in enumerate(order):
        pair.at((100 + 200 * i) * US, lambda link=link: pair.set_link(link, False))
        pair.at((200 + 200 * i) * US, lambda link=link: pair.set_link(link, True))
    pair.run()
    assert [e.kind for e in pair.events[pair.a]] == [EventKind.COMPLETED]
    card = sender(pair, operation)
    for i, link in enumerate(order):  # nothing is given to a link that is down
        down = range((100 + 200 * i) * US, (200 + 200 * i) * US)
        of = [row.link for row in pair.sent if row.card is card and row.at in down]
        assert set(of) == {1 - link}
        assert len(of) > 200
    # What was on the way is lost, nothing else: 1 us of line and what the links hold.
    assert 0 < repeats(pair)[0] < 200
    assert pair.done_at() < 1400 * US


def test_both_links_down_within_the_retries_is_survived() -> None:
    pair = Pair([Link(), Link()])
    pair.join(tolerant(retries=7))
    pair.post(LONG)
    for link in (0, 1):
        pair.at((100 + 50 * link) * US, lambda link=link: pair.set_link(link, False))
        pair.at((900 - 50 * link) * US, lambda link=link: pair.set_link(link, True))
    pair.run()
    assert [e.kind for e in pair.events[pair.a]] == [EventKind.COMPLETED]
    assert [e.kind for e in pair.events[pair.b]] == [EventKind.PLACED]


def test_both_links_down_for_longer_is_a_clear_failure() -> None:
    pair = Pair([Link(), Link()])
    pair.join(tolerant(retries=2))
    pair.post(LONG)
    for link in (0, 1):
        pair.at(100 * US, lambda link=link: pair.set_link(link, False))
    pair.run()
    stats = pair.a.queue_pair_stats(1)
    assert (stats.state, stats.failure) == (QueuePairState.ERROR, Failure.RETRY_EXCEEDED)


@pytest.mark.parametrize("how", ["its link goes", "the other one may send"])
def test_an_acknowledgement_that_can_not_leave_by_its_line_leaves_by_another(how: str) -> None:
    pair = Pair([Link(), Link()])
    pair.join(tolerant(ack_every=1))
    pair.post(4096)
    for link in (0, 1):
        pair.b.set_pause(0xFF, link)  # it is due, and stands there
    pair.run(until=3 * US)
    assert not [row for row in pair.sent if row.card is pair.b]
    if how == "its link goes":
        pair.set_link(0, False)
    pair.b.set_pause(0, 1)
    pair.run()
    assert [row.link for row in pair.sent if row.card is pair.b] == [1]
    assert repeats(pair) == [0, 0, 0]


def test_what_a_dead_interface_took_with_it_is_known() -> None:
    pair = Pair([Link(), Link(delay_ps=50 * US)])
    pair.join(tolerant(first_psn=100, reorder_ps=100 * US))
    pair.post(40 * 4096, Operation.SEND)
    pair.run(until=20 * US)
    odd = [100 + n for n in range(40) if n % 2]
    assert pair.a.outstanding_by(1, 0) == list(range(100, 140, 2))  # none is acknowledged in order
    assert pair.a.outstanding_by(1, 1) == odd
    assert pair.a.outstanding_by(1, 2) == pair.a.outstanding_by(9, 0) == []
    pair.run()
    assert pair.a.outstanding_by(1, 0) == pair.a.outstanding_by(1, 1) == []


def test_a_read_request_is_outstanding_until_the_first_response() -> None:
    pair = Pair([Link(), Link()])
    pair.join(tolerant())
    pair.post(40 * 4096, Operation.READ)
    pair.post(4096, Operation.WRITE)
    pair.run(until=US)
    assert pair.a.outstanding_by(1, 0) == [0]
    assert pair.a.outstanding_by(1, 1) == [40]
    pair.run(until=3 * US)
    assert pair.a.outstanding_by(1, 0) == []


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 1 << 30),
    n=st.sampled_from([2, 2, 3, 8]),
    loss=st.sampled_from([0.0, 0.01, 0.1]),
    repeat=st.sampled_from(Repeat),
    udp_ports=st.sampled_from([1, 4]),
    changes=st.lists(
        st.tuples(st.integers(0, 400 * US), st.integers(0, 7), st.booleans()), max_size=8
    ),
    retries=st.sampled_from([1, 50]),
)
def test_any_order_of_link_events_delivers_each_message_once(
    seed: int,
    n: int,
    loss: float,
    repeat: Repeat,
    udp_ports: int,
    changes: list[tuple[int, int, bool]],
    retries: int,
) -> None:
    random = Random(seed)
    links = [
        Link(random.choice([50, 100]) * GBPS, random.choice([US, OTHER_WAY])) for _ in range(n)
    ]
    pair = Pair(links, whole=True, seed=seed, loss=loss)
    reorder = 20 * US if repeat is Repeat.SELECTIVE else 0
    pair.join(
        tolerant(
            interfaces=n,
            mtu=256,
            repeat=repeat,
            reorder_ps=reorder,
            window_packets=64,
            retries=retries,
            udp_ports=udp_ports,
        )
    )
    for at, link, up in changes:
        pair.at(at, lambda link=link % n, up=up: pair.set_link(link, up))
    for link in range(n):
        pair.at(1000 * US, lambda link=link: pair.set_link(link, True))
    written, kept = bytearray(1 << 14), random.randbytes(1 << 14)
    pair.b.register(RKEY, 0, written, Access.REMOTE_WRITE)
    pair.b.register(RKEY + 1, 0, kept, Access.REMOTE_READ)
    expected: list[tuple[bytearray, bytes]] = []
    at = 0
    for number in range(random.randrange(1, 6)):
        operation, size = random.choice(DATA), random.randrange(0, 3000)
        data, place = random.randbytes(size), bytearray(size)
        if operation is Operation.READ:
            expected.append((place, kept[at : at + size]))
            work = Work(number, operation, place, rkey=RKEY + 1, remote_address=at)
        else:
            work = Work(number, operation, data, rkey=RKEY, remote_address=at)
            if operation is Operation.SEND:
                pair.b.post_receive(1, number, place)
                expected.append((place, data))
            else:
                expected.append((written, b""))
        pair.a.post(1, work)
        at += size
    pair.run()
    done = [e.id for e in pair.events[pair.a] if e.kind is EventKind.COMPLETED]
    assert done == list(range(len(done)))
    for number in done:
        place, wanted = expected[number]
        assert place[: len(wanted)] == wanted
    if len(done) < len(expected):
        assert pair.a.queue_pair_stats(1).state is QueuePairState.ERROR
        assert retries == 1
    assert len([e for e in pair.events[pair.b] if e.kind is EventKind.PLACED]) <= len(expected)


# --- what is refused -----------------------------------------------------------------------------


def test_what_a_card_can_not_have_is_refused() -> None:
    with pytest.raises(CardError, match="a card has at most 8 interfaces"):
        device(1, [Link()] * 9)
    two = device(1, [Link(), Link()])
    wrong: dict[str, dict[str, int]] = {
        "queue pair 1: interfaces 0 to 2, but the card has 2": {"interfaces": 3},
        "queue pair 1: interfaces 1 to 2, but the card has 2": {"interface": 1, "interfaces": 2},
        "queue pair 1: interfaces 2 to 2, but the card has 2": {"interface": 2},
        "2 interfaces by 200 UDP ports, at most 256 paths": {"interfaces": 2, "udp_ports": 200},
    }
    for says, values in wrong.items():
        with pytest.raises(CardError, match=says):
            two.add_queue_pair(QueuePairConfig(1, **values))
    two.add_queue_pair(tolerant())
    for ips, says in (
        ([1], "queue pair 1 has 2 interfaces, its peer 1"),
        ([1, 2, 3], "queue pair 1 has 2 interfaces, its peer 3"),
        ([1, 1], "two of the peer's interfaces have one address"),
    ):
        with pytest.raises(CardError, match=says):
            two.connect_ways(1, ips, peer_qpn=1, peer_psn=0)
    interface = two.ffi.new("struct rnic_interface *", {"ip": 77})
    assert two.lib.rnic_add_interface(two.handle, interface) < 0  # after queue pairs


def test_peers_are_found_by_each_address_when_many_have_come_and_gone() -> None:
    pair = Pair([Link(), Link(), Link()])
    for qpn in range(1, 250):
        pair.join(tolerant(qpn, interfaces=3))
    for qpn in range(1, 250, 2):
        pair.a.remove_queue_pair(qpn)
        pair.b.remove_queue_pair(qpn)
    for qpn in range(1, 250, 4):
        pair.join(tolerant(qpn, interfaces=3))
    left = [qpn for qpn in range(1, 250) if qpn % 2 == 0 or qpn % 4 == 1]
    for qpn in left:
        pair.post(3 * 4096, qpn=qpn)
    pair.run()
    assert {e.qpn for e in pair.events[pair.a] if e.kind is EventKind.COMPLETED} == set(left)
