"""Queue pairs that share their load over planes, in virtual time and exact: loss and return."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from ipaddress import IPv4Address
from random import Random

import pytest
from scapy.contrib.roce import BTH
from scapy.layers.l2 import Ether
from scapy.packet import Packet

from hostagent.rnic.card_records import (
    CardError,
    Event,
    EventKind,
    Failure,
    Operation,
    PacketKind,
    QueuePairConfig,
    Repeat,
)
from hostagent.rnic.planes import PlaneConfig, PlaneLoss, PlaneState, PlaneUse
from protocols.notification import Notification, datagram
from protocols.notification_types import NotificationType
from protocols.rocev2 import NakBitmap, plane_echo
from tests.hostagent.virtual_links import GBPS, US, Link, Pair, Sent, address, tolerant

MS = 1000 * US
RATE = 20 * GBPS
LONG = 8 << 20
PLANES = PlaneConfig(PlaneUse.SHARED, misses=3, silence_ps=30 * US, probe_ps=MS)
HEALTH = {
    "line_rate": RATE,
    "min_rate": RATE // 100,
    "hold_ns": 10_000_000,
    "hold_most_ns": 10_000_000_000,
    "stable_ns": 2_000_000_000,
    "ramp_ns": 100_000,
    "answers": 5,
}


def over_planes(**changes: object) -> QueuePairConfig:
    values: dict[str, object] = {"planes": PLANES, "window_packets": 4096, "timeout_ps": 50 * MS}
    return tolerant(**{**values, **changes})  # type: ignore[arg-type]


def pair_of(n: int = 2, *, health: bool = True, **changes: object) -> Pair:
    pair = Pair([Link(rate_bps=RATE) for _ in range(n)])
    given = {"dual_plane": HEALTH} if health else {}
    pair.join(over_planes(interfaces=n, **changes), **given)
    return pair


def bytes_between(pair: Pair, first: int, last: int) -> int:
    """Payload that left `a` for the first time between two times."""
    return sum(
        row.packet.tail - 4
        for row in pair.sent
        if row.card is pair.a
        and first <= row.at < last
        and row.packet.kind is PacketKind.DATA
        and not row.packet.repeated
    )


def test_both_planes_are_full_and_nothing_is_repeated() -> None:
    pair = pair_of()
    pair.post(LONG)
    pair.run(until=20 * MS)
    stats = pair.a.queue_pair_stats(1)
    assert stats.acked_bytes == LONG
    assert (stats.repeated_packets, stats.timeouts, stats.naks_received) == (0, 0, 0)
    planes = [pair.a.plane_stats(1, i) for i in range(2)]
    assert abs(planes[0].sent_packets - planes[1].sent_packets) <= 1
    assert [plane.losses for plane in planes] == [0, 0]
    assert LONG * 8 * 10**12 / pair.done_at() >= 0.98 * 2 * RATE * 4096 / (4096 + 60 + 24)


@pytest.mark.parametrize("knows", [True, False], ids=["link", "silence"])
def test_one_plane_lost(knows: bool) -> None:
    pair = pair_of()
    pair.post(LONG)
    if knows:
        pair.at(300 * US, lambda: pair.set_link(1, False))
    else:
        pair.lose = lambda sent: sent.link == 1 and sent.at >= 300 * US
    pair.run(until=5 * MS)
    stats, plane = pair.a.queue_pair_stats(1), pair.a.plane_stats(1, 1)
    assert stats.acked_bytes == LONG
    assert plane.state is PlaneState.LOST
    assert plane.why is (PlaneLoss.LINK if knows else PlaneLoss.SILENT)
    full = bytes_between(pair, 100 * US, 300 * US) / 200
    after = bytes_between(pair, 800 * US, 1300 * US) / 500
    assert after >= 0.48 * full


def test_found_again() -> None:
    pair = pair_of()
    for _ in range(20):
        pair.post(LONG)
    pair.at(300 * US, lambda: pair.set_link(1, False))
    pair.at(1300 * US, lambda: pair.set_link(1, True))
    pair.run(until=16 * MS)
    plane = pair.a.plane_stats(1, 1)
    assert plane.state is PlaneState.UP
    assert 10_300 * US <= plane.up_at <= 11_400 * US
    full = bytes_between(pair, 100 * US, 300 * US) / 200
    assert bytes_between(pair, 11_000 * US, 12_000 * US) / 1000 >= 0.98 * full


# --- the matrix: what has to happen, and does ----------------------------------------------------


def goodput(pair: Pair, first: int, last: int) -> float:
    """Payload per us that was new when it left `a`."""
    return bytes_between(pair, first, last) / ((last - first) / US)


def failures(pair: Pair) -> list[Event]:
    kinds = (EventKind.FAILED, EventKind.QP_FAILED)
    return [e for events in pair.events.values() for e in events if e.kind in kinds]


def busy(n: int = 2, messages: int = 30, **changes: object) -> Pair:
    """Return a queue pair that has enough to do for 50 ms."""
    pair = pair_of(n, **changes)  # type: ignore[arg-type]
    for _ in range(messages):
        pair.post(LONG)
    return pair


def silent(*dead: tuple[int, int, int]) -> Callable[[Sent], bool]:
    """(link, from, to): what is lost there in that time, and nobody is told."""
    return lambda sent: any(
        sent.link == link and first <= sent.at < last for link, first, last in dead
    )


def test_another_plane_fails_during_failover() -> None:
    """Of three planes two die 50 us apart, both silently: the third one carries on."""
    pair = busy(3)
    pair.lose = silent((1, 300 * US, 99 * MS), (2, 350 * US, 99 * MS))
    pair.run(until=2 * MS)
    assert failures(pair) == []
    assert [pair.a.plane_stats(1, i).state for i in (1, 2)] == [PlaneState.LOST] * 2
    assert goodput(pair, MS, 2 * MS) >= 0.32 * goodput(pair, 100 * US, 300 * US)


def test_the_other_plane_fails_as_the_first_one_returns() -> None:
    """Plane 0 dies within the hold-down of plane 1, which works again: it is used at once."""
    pair = busy()
    pair.lose = silent((1, 300 * US, 2 * MS), (0, 3 * MS, 99 * MS))
    pair.run(until=6 * MS)
    assert failures(pair) == []
    full = goodput(pair, 100 * US, 300 * US)
    assert goodput(pair, 5 * MS, 6 * MS) >= 0.48 * full


def test_it_fails_again_after_it_was_found() -> None:
    pair = busy()
    pair.lose = silent((1, 300 * US, MS), (1, 13 * MS, 14 * MS))
    pair.run(until=36 * MS)
    plane = pair.a.plane_stats(1, 1)
    assert failures(pair) == []
    assert (plane.losses, plane.state) == (2, PlaneState.UP)
    assert plane.up_at - plane.lost_at >= 20 * MS  # twice the first hold-down


def test_sides_that_disagree() -> None:
    """One side's link event comes, the other's never does; and each believes what it sees."""
    pair = busy()
    for time, up in ((300 * US, False), (MS, True)):
        pair.at(time, partial(pair.b.set_link, 1, up))
    pair.run(until=14 * MS)
    assert failures(pair) == []
    full = goodput(pair, 100 * US, 300 * US)
    assert goodput(pair, 13 * MS, 14 * MS) >= 0.98 * full


@pytest.mark.parametrize(("times", "losses"), [(3, 3), pytest.param(8, 6, marks=pytest.mark.long)])
def test_a_flapping_plane_is_left_alone(times: int, losses: int) -> None:
    """Down and up for 50 ms each: held for 10, 20, 40 ... ms, longer than it stands."""
    pair = pair_of(mtu=4096)
    dead = [(1, 50 * MS * (2 * i + 1), 50 * MS * (2 * i + 2)) for i in range(times)]
    pair.lose = silent(*dead)

    def more() -> None:
        pair.post(1 << 18)
        pair.at(pair.now + MS, more)

    more()
    pair.run(until=100 * times * MS)
    plane = pair.a.plane_stats(1, 1)
    assert failures(pair) == []
    assert plane.losses == losses
    slot_hold = HEALTH["hold_ns"] << plane.losses - 1
    assert plane.up_at == -1 or plane.up_at - plane.lost_at >= slot_hold * 1000


@pytest.mark.parametrize("way", ["there", "back"])
@pytest.mark.parametrize("operation", [Operation.WRITE, Operation.READ])
def test_one_direction_is_dead(way: str, operation: Operation) -> None:
    """Of data or of acknowledgements: the plane is not used, the other one carries all."""
    pair = pair_of()
    for _ in range(20):
        pair.post(LONG, operation)
    pair.lose = lambda sent: (
        sent.link == 1 and sent.at >= 300 * US and (sent.card is pair.a) == (way == "there")
    )
    pair.run(until=2 * MS)
    assert failures(pair) == []
    sender = pair.b if operation is Operation.READ else pair.a
    assert sender.plane_stats(1, 1).state is PlaneState.LOST
    assert sum(p.state is PlaneState.LOST for p in (sender.plane_stats(1, i) for i in (0, 1))) == 1
    late = [r for r in pair.sent if r.card is sender and r.at >= MS and r.packet.tail > 4000]
    assert {r.link for r in late} == {0}
    assert sum(r.packet.tail for r in late) * 8e12 / MS >= 0.95 * RATE


def test_a_slow_plane_carries_what_it_can() -> None:
    pair = Pair([Link(rate_bps=RATE), Link(rate_bps=RATE // 10)])
    pair.join(over_planes(reorder_ps=50 * US), dual_plane=HEALTH)
    pair.post(LONG)
    pair.run(until=20 * MS)
    assert failures(pair) == []
    stats = pair.a.queue_pair_stats(1)
    assert (stats.repeated_packets, stats.timeouts) == (0, 0)
    assert [pair.a.plane_stats(1, i).losses for i in (0, 1)] == [0, 0]
    fast, slow = pair.shares()
    assert fast == pytest.approx(10 * slow, rel=0.02)


def test_a_paused_plane_is_lost_and_comes_back() -> None:
    """A PFC storm: its own class may not send there for 3 ms, so probes wait where data waits."""
    pair = busy()
    pair.at(300 * US, lambda: pair.a.set_pause(1 << 3, 1))
    pair.at(3 * MS, lambda: pair.a.set_pause(0, 1))
    pair.run(until=14 * MS)
    assert failures(pair) == []
    full = goodput(pair, 100 * US, 300 * US)
    assert pair.a.plane_stats(1, 1).losses == 1
    assert goodput(pair, MS, 3 * MS) >= 0.48 * full
    assert goodput(pair, 13 * MS, 14 * MS) >= 0.98 * full


@pytest.mark.parametrize("knows", [True, False], ids=["link", "silence"])
def test_all_planes_are_gone_and_back_in_time(knows: bool) -> None:
    pair = pair_of(timeout_ps=MS)
    for _ in range(4):
        pair.post(LONG)
    if knows:
        for time, up in ((300 * US, False), (4 * MS, True)):
            for link in (0, 1):
                pair.at(time, partial(pair.set_link, link, up))
    else:
        pair.lose = silent((0, 300 * US, 4 * MS), (1, 300 * US, 4 * MS))
    pair.run(until=40 * MS)
    assert failures(pair) == []
    assert pair.a.queue_pair_stats(1).acked_bytes == 4 * LONG
    assert goodput(pair, 6 * MS, 7 * MS) >= 0.48 * goodput(pair, 100 * US, 300 * US)


def test_all_planes_are_gone_for_good() -> None:
    """Held for the queue pair's time-outs, then one clear failure, and silence."""
    pair = pair_of(timeout_ps=MS, retries=3)
    pair.post(LONG)
    for link in (0, 1):
        pair.at(300 * US, partial(pair.set_link, link, False))
    pair.run(until=20 * MS)
    found = failures(pair)
    assert [e.kind for e in found] == [EventKind.QP_FAILED, EventKind.FAILED]
    assert {e.status for e in found} == {Failure.RETRY_EXCEEDED}
    assert 4 * MS <= found[0].at <= 6 * MS


def test_a_drained_plane_loses_nothing() -> None:
    pair = busy()
    pair.at(300 * US, lambda: pair.a.drain(1, True))
    pair.at(2 * MS, lambda: pair.a.drain(1, False))
    pair.run(until=3 * MS)
    stats = pair.a.queue_pair_stats(1)
    assert (stats.repeated_packets, stats.naks_received, stats.timeouts) == (0, 0, 0)
    assert not [
        r
        for r in pair.sent
        if r.link == 1 and r.packet.kind is PacketKind.DATA and 300 * US < r.at < 2 * MS
    ]
    full = goodput(pair, 100 * US, 300 * US)
    assert goodput(pair, 500 * US, 2 * MS) >= 0.48 * full
    assert goodput(pair, 2100 * US, 3 * MS) >= 0.98 * full


def test_a_switch_says_that_the_peer_is_gone_there() -> None:
    pair = busy()
    said = Notification(
        type=NotificationType.LINK_DOWN,
        switch_id=1,
        port=2,
        destination=str(IPv4Address(address(2, 1))),
        validity=4,
    )
    frame = bytes(Ether() / datagram(said, to=str(IPv4Address(address(1, 1)))))

    def tell() -> None:
        pair.a.receive(frame, pair.now, 0, 1)

    pair.at(300 * US, tell)
    pair.lose = silent((1, 300 * US, 99 * MS))
    pair.run(until=500 * US)
    plane = pair.a.plane_stats(1, 1)
    assert (plane.why, plane.lost_at) == (PlaneLoss.TOLD, 300 * US)
    assert failures(pair) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"repeat": Repeat.GO_BACK_N, "reorder_ps": 0}, "need selective repeat and two interfaces"),
        ({"interfaces": 1}, "need selective repeat and two interfaces"),
        ({"planes": PlaneConfig(PlaneUse.SHARED, 0, US, US)}, "silence, probes or misses"),
        ({"planes": PlaneConfig(PlaneUse.SHARED, 3, 0, US)}, "silence, probes or misses"),
        ({"planes": PlaneConfig(PlaneUse.SHARED, 3, US, 0)}, "silence, probes or misses"),
        ({"planes": PlaneConfig()}, "decides on planes, and it has none"),
    ],
)
def test_what_is_refused(changes: dict[str, object], words: str) -> None:
    pair = Pair([Link(), Link()])
    with pytest.raises(CardError, match=words):
        pair.a.add_queue_pair(over_planes(**changes), {"dual_plane": HEALTH})


# --- what has come by each -----------------------------------------------------------------------


def acknowledgements(pair: Pair) -> list[Packet]:
    """Those of `b`, as scapy reads them."""
    return [
        Ether(row.packet.frame + bytes(row.packet.tail))
        for row in pair.sent
        if row.card is pair.b and row.packet.kind is PacketKind.ACK
    ]


def test_acknowledgements_say_what_has_come_by_each_plane() -> None:
    """8 packets by turns over a plane that is 20 us longer: the other one's four come early."""
    pair = Pair([Link(rate_bps=RATE, delay_ps=21 * US), Link(rate_bps=RATE)])
    pair.join(over_planes(ack_every=2), dual_plane=HEALTH)
    pair.post(8 * 4096)
    pair.run(until=200 * US)
    found = [(packet[BTH], plane_echo(packet)) for packet in acknowledgements(pair)]
    told = [echo.come for _, echo in found if echo is not None]
    first = [each for n, each in enumerate(told) if each not in told[:n]]  # probes have one, too
    assert first == [[0, 2], [0, 4], [1, 4], [2, 4], [3, 4], [4, 4]]
    quick = [r.packet.psn for r in pair.sent if r.card is pair.a and r.link == 1]
    for bth, echo in found:
        come = quick[: echo.come[1]] if echo else []
        early = echo[NakBitmap].arrived() if echo and NakBitmap in echo else []
        assert early == [psn for psn in come if psn > (bth.psn + 1) % (1 << 24)]
    assert pair.a.queue_pair_stats(1).repeated_packets == 0


@pytest.mark.parametrize("reorder_us", [0, 10])
def test_a_plane_that_is_longer_than_reorder_costs_nothing(reorder_us: int) -> None:
    pair = Pair([Link(rate_bps=RATE), Link(rate_bps=RATE, delay_ps=41 * US)])
    planes = PlaneConfig(PlaneUse.SHARED, misses=3, silence_ps=100 * US, probe_ps=MS)
    pair.join(over_planes(planes=planes, reorder_ps=reorder_us * US), dual_plane=HEALTH)
    pair.post(LONG)
    pair.run(until=20 * MS)
    stats = pair.a.queue_pair_stats(1)
    assert stats.acked_bytes == LONG
    assert (stats.repeated_packets, stats.timeouts) == (0, 0)
    assert min(pair.used()) >= 0.97


@pytest.mark.parametrize("operation", [Operation.WRITE, Operation.SEND])
def test_a_tenth_of_a_planes_packets_is_lost(operation: Operation) -> None:
    """Only these are sent again, give or take a few, and both planes stay in use."""
    pair = pair_of()
    pair.post(LONG, operation)
    random, lost = Random(1), [0]

    def lose(sent: Sent) -> bool:
        if sent.link != 1 or sent.card is not pair.a or random.random() >= 0.1:
            return False
        lost[0] += sent.packet.kind is PacketKind.DATA
        return True

    pair.lose = lose
    pair.run(until=20 * MS)
    stats = pair.a.queue_pair_stats(1)
    assert stats.acked_bytes == LONG
    assert lost[0] <= stats.repeated_packets <= 1.05 * lost[0] + 4
    assert pair.a.plane_stats(1, 1).losses == 0
    assert LONG * 8 * 10**12 / pair.done_at() >= 0.9 * 2 * RATE


def later(pair: Pair, late: Callable[[Sent], int]) -> None:
    """Let what `a` sends by plane 1 arrive later by so much, in its own time each."""

    def delay(sent: Sent) -> bool:
        if sent.link != 1 or sent.card is not pair.a:
            return False
        frame, tail = sent.packet.frame, sent.packet.tail

        def arrive() -> None:
            pair.b.receive(frame, pair.now, tail, 1)

        pair.at(sent.at + late(sent), arrive)
        return True

    pair.lose = delay


@pytest.mark.parametrize("most_us", [1, 5, 20])
def test_packets_of_a_plane_that_overtake_each_other_are_soon_waited_for(most_us: int) -> None:
    """As where a fabric sprays them: the first ones are repeated in vain, and then no more."""
    pair = pair_of()
    for _ in range(4):
        pair.post(LONG)
    random = Random(1)
    later(pair, lambda _: 2 * US + random.randrange(most_us * US))
    pair.run(until=20 * MS)
    stats = pair.a.queue_pair_stats(1)
    assert stats.acked_bytes == 4 * LONG
    assert stats.timeouts == 0
    assert stats.repeated_packets <= 100
    assert 4 * LONG * 8 * 10**12 / pair.done_at() >= 0.95 * 2 * RATE


def test_the_last_packet_lost_where_packets_overtake_each_other() -> None:
    """Nothing comes behind it, and the plane has learnt to wait: a probe's answer settles it."""
    pair = pair_of()
    pair.post(LONG)
    random = Random(1)
    later(pair, lambda _: 2 * US + random.randrange(20 * US))
    pair.run(until=5 * MS)
    before = pair.done_at()
    pair.post(2 * 4096)
    late, dropped = pair.lose, [0]

    def last(sent: Sent) -> bool:
        if sent.link == 1 and sent.packet.kind is PacketKind.DATA and not dropped[0]:
            dropped[0] = sent.at
            return True
        return late(sent)

    pair.lose = last
    pair.run(until=8 * MS)
    stats = pair.a.queue_pair_stats(1)
    assert dropped[0] > before
    assert stats.acked_bytes == LONG + 2 * 4096
    assert stats.timeouts == 0
    assert pair.done_at() - dropped[0] <= 300 * US


def test_a_plane_that_is_back_owes_nothing_for_what_it_lost() -> None:
    """Packets that came while it counted as lost are known of by then."""
    pair = pair_of()
    for _ in range(10):
        pair.post(LONG)
    late = [0]

    def back(sent: Sent) -> int:
        late[0] = max(late[0], sent.at + 2 * US)
        return late[0] - sent.at

    def cut(sent: Sent) -> bool:
        return sent.link == 1 and sent.card is pair.b and 300 * US <= sent.at < 1300 * US

    later(pair, back)
    there = pair.lose
    pair.lose = lambda sent: cut(sent) or there(sent)
    pair.at(302 * US, lambda: pair.set_link(1, False))
    pair.at(1300 * US, lambda: pair.set_link(1, True))
    pair.run(until=16 * MS)
    repeated = pair.a.queue_pair_stats(1).repeated_packets
    assert pair.a.plane_stats(1, 1).state is PlaneState.UP
    pair.run(until=30 * MS)
    stats = pair.a.queue_pair_stats(1)
    assert stats.acked_bytes == 10 * LONG
    assert stats.repeated_packets == repeated


def test_nothing_is_asked_for_ever_when_all_is_acknowledged() -> None:
    """Eight lossy planes: what was counted as lost too often keeps no idle queue pair busy."""
    pair = pair_of(8, mtu=256)
    pair.post(1 << 20)
    random = Random(3)
    pair.lose = lambda sent: sent.card is pair.a and random.random() < 0.05
    pair.run(until=50 * MS)
    assert pair.a.queue_pair_stats(1).acked_bytes == 1 << 20
    assert sum(pair.a.plane_stats(1, i).probes_sent for i in range(8)) <= 100


def test_acknowledgements_that_are_rare_repeat_nothing() -> None:
    """What has come and is not acknowledged is not taken for lost because a probe is answered."""
    pair = pair_of(ack_every=64)
    pair.post(LONG)
    pair.run(until=20 * MS)
    stats = pair.a.queue_pair_stats(1)
    assert stats.acked_bytes == LONG
    assert pair.a.plane_stats(1, 0).probes_answered > 0
    assert (stats.repeated_packets, stats.timeouts) == (0, 0)


def test_a_plane_that_is_slow_further_on_does_not_hold_up_the_other() -> None:
    """Each of its packets takes ten times as long behind the sender's line, in a queue there."""
    pair = Pair([Link(rate_bps=RATE), Link(rate_bps=RATE)])
    pair.join(over_planes(), dual_plane=HEALTH)
    for _ in range(4):
        pair.post(LONG)
    free = [0]

    def queue(sent: Sent) -> int:
        size = len(sent.packet.frame) + sent.packet.tail
        slower = 10 if sent.at >= 100 * US else 1
        free[0] = max(free[0], sent.at) + slower * size * 8 * 10**12 // RATE
        return free[0] + US - sent.at

    later(pair, queue)
    pair.run(until=20 * MS)
    stats = pair.a.queue_pair_stats(1)
    assert stats.acked_bytes == 4 * LONG
    assert stats.repeated_packets == 0
    assert 4 * LONG * 8 * 10**12 / pair.done_at() >= 1.03 * RATE
