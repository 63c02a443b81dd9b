"""What is done to DPFR on purpose: it goes on, it counts, and at the end nothing is held.

All in virtual time, in a fat tree with k = 4 unless a test says otherwise.
"""

from __future__ import annotations

import random

import pytest
from scapy.layers.l2 import Ether

from mechanisms.dpfr.mechanism import KINDS
from protocols.notification import NEIGHBOURS_MAC, Notification, NotificationType, datagram
from softswitch.core import PortImpair
from tests.mechanisms.dpfr.graph import Graph
from tests.mechanisms.dpfr.rig import TTL_EXPIRED, Pair, Rig, name_of
from topologies.model import Link

SPOOFED = 11
LEAF_SPINE = "generator: leaf_spine\n  leaves: 2\n  spines: 2\n  hosts_per_leaf: 1"
SECOND = 1_000_000_000_000
OFTEN = 1 << 31


@pytest.fixture(scope="module")
def fabric() -> Rig:
    return Rig()


@pytest.fixture
def rig(fabric: Rig) -> Rig:
    """Return a fabric without faults, whose counts are 0."""
    fabric.anew()
    return fabric


def link_of(rig: Rig, name: str) -> Link:
    return next(link for link in rig.links() if name_of(link) == name)


def reached(rig: Rig) -> set[Pair]:
    """Return the pairs of leaves of which all packets come that are sent now, by shortest ways."""
    rig.run(rig.crossing_ps())
    rig.arrived()
    rig.probe()
    rig.run(rig.crossing_ps())
    found = rig.arrived()
    assert all(met <= {3, 5} for met in found.hops.values())
    assert rig.dropped(TTL_EXPIRED) == 0
    return {pair for pair, count in found.came.items() if count == rig.ports}


def young(rig: Rig, ps: int) -> None:
    """Let time pass, with packets on all ways."""
    while ps > 0:
        rig.probe()
        rig.run(min(ps, 9_000_000))
        ps -= 9_000_000


def test_what_is_mended_sooner_than_found_only_costs_what_was_sent(rig: Rig) -> None:
    """Down to the shortest time of finding, (misses - 1) periods; nobody hears of it."""
    link = rig.links()[0]
    for eighths in range(1, (rig.setting.misses - 1) * 8 + 1, 3):
        rig.run(1_300_000)
        rig.cut(link)
        rig.run(rig.setting.period_ps * eighths // 8)
        rig.heal(link)
        assert reached(rig) == set(rig.pairs)
        rig.rounds(6)
    counted = rig.counts()
    assert counted["went_down"] == counted["notified"] == counted["no_way"] == 0
    assert not rig.down() and not rig.masks()


def test_cuts_about_as_long_as_finding_them_takes_leave_nothing(rig: Rig) -> None:
    """The two ends, and those who are told, may each see another part of it."""
    draw = random.Random(5)
    for _ in range(25):
        link = draw.choice(rig.links())
        rig.cut(link, towards=draw.choice([None, link.a.node, link.b.node]))
        rig.run(rig.setting.period_ps * draw.randrange(16, 64) // 8)
        rig.heal(link)
        rig.settle(rig.longest_hold())
        assert reached(rig) == set(rig.pairs)
        rig.forget_flaps()
    assert rig.counts()["went_down"] == rig.counts()["came_up"] > 0


@pytest.mark.parametrize(
    ("seconds", "dpfr"),
    [
        pytest.param(1.5, "{carrier: false}", id="a while"),
        pytest.param(
            60,
            "{period: 33.6us, hold: 4, carrier: false}",
            marks=pytest.mark.long,
            id="a minute",
        ),
    ],
)
def test_a_link_that_flaps_at_10_hz_is_soon_left_alone(seconds: float, dpfr: str) -> None:
    """The hold-down grows until it is longer than the link is ever alive: 2^9 times the first.

    A whole minute has a quarter of the heartbeats, and holds of the same time.
    """
    rig = Rig(LEAF_SPINE, ports=8, dpfr=dpfr)
    link = rig.links()[0]
    dead, seen = [], 0
    for _ in range(int(seconds * 10)):
        rig.cut(link)
        rig.run(SECOND // 20)
        rig.heal(link)
        rig.run(SECOND // 20)
        dead.append(rig.counts()["went_down"] - seen)
        seen += dead[-1]
        assert reached(rig) == set(rig.pairs)
    both_ends = 2
    assert dead[:8] == [both_ends] * 8
    assert not any(dead[11:])
    alive = SECOND // 20 // rig.setting.period_ps + rig.settle(rig.longest_hold())
    assert alive >= rig.setting.hold << 9
    assert reached(rig) == set(rig.pairs)
    assert rig.counts()["went_down"] == rig.counts()["came_up"]


def test_two_cuts_that_leave_exactly_one_path(rig: Rig) -> None:
    """A leaf keeps one uplink, and its switch there one core: all must find it, and those alone."""
    cuts = (link_of(rig, "s1-s10"), link_of(rig, "s9-s17"))
    for first, second in (cuts, cuts[::-1]):
        rig.cut(first)
        young(rig, 20_000_000)
        rig.cut(second)
        young(rig, rig.bound_ps())
        assert reached(rig) == set(rig.pairs)
        for link in cuts:
            rig.heal(link)
        rig.settle(rig.longest_hold())
        assert reached(rig) == set(rig.pairs)
        rig.forget_flaps()


def test_a_second_failure_while_the_first_is_being_repaired(rig: Rig) -> None:
    """At any time after it, links and switches, and the first comes back while the second lasts."""
    graph = Graph(rig.topology)
    draw = random.Random(3)
    for after_us in range(2, 90, 8):
        one, other = draw.sample(rig.links(), 2)
        rig.cut(one)
        rig.run(after_us * 1_000_000)
        rig.cut(other)
        young(rig, rig.bound_ps())
        assert reached(rig) == graph.up_down((one, other))
        rig.heal(one)
        young(rig, draw.randrange(10, 300) * 1_000_000)
        rig.cut(one)
        young(rig, rig.bound_ps())
        assert reached(rig) == graph.up_down((one, other))
        rig.heal(other)
        rig.heal(one)
        rig.settle(rig.longest_hold())
        assert reached(rig) == set(rig.pairs)
        rig.forget_flaps()


@pytest.mark.parametrize("lost", [1, 2])
def test_the_first_copies_of_news_are_lost(rig: Rig, lost: int) -> None:
    """The next one, a period later, is as good."""
    cut = rig.links()[0]
    rig.cut(cut)
    while rig.counts()["notified"] == 0:
        rig.run(50_000)
    agg = cut.b.node
    others = [x for x in rig.links() if agg in (x.a.node, x.b.node) and x is not cut]
    for n in range(lost):
        for link in others:
            rig.cut(link)
        rig.run(4_000_000)
        for link in others:
            rig.heal(link)
        if n + 1 < lost:
            rig.run(rig.setting.period_ps - 4_000_000)
    assert not rig.masks()
    rig.run(rig.setting.period_ps + rig.crossing_ps())
    assert {switch for switch, _ in rig.masks()} >= set(rig.leaves[1:])
    assert reached(rig) == set(rig.pairs)
    assert rig.counts()["went_down"] == 2


@pytest.mark.parametrize(
    "wrong",
    [PortImpair(duplicate=1 << 32), PortImpair(reorder=OFTEN, reorder_ps=12_000_000)],
    ids=["twice", "out of order"],
)
def test_news_that_comes_twice_or_out_of_order(rig: Rig, wrong: PortImpair) -> None:
    """Old news is counted as such, and not told on."""
    cut, *others = rig.links()
    rig.rounds(20)
    for link in others:
        rig.impair(link, wrong)
    rig.cut(cut)
    young(rig, rig.bound_ps() + 6 * rig.setting.period_ps)
    assert rig.masks()
    rig.heal(cut)
    for link in others:
        rig.heal(link)
    rig.settle(rig.longest_hold())
    assert reached(rig) == set(rig.pairs)
    assert rig.counts()["went_down"] == 2
    assert rig.counts()["old"] > 0


def news(
    kind: NotificationType = NotificationType.LINK_DOWN,
    number: int = 7,
    *,
    origin: int = 999,
    sequence: int = 5,
    validity: int = 7,
    hops: int = 4,
) -> bytes:
    """Return LINK_DOWN for a destination, as a neighbour would send it."""
    said = Notification(
        type=kind, severity=15, hops=hops, validity=validity, switch_id=origin,
        sequence=sequence, destination_qp=number,
    )  # fmt: skip
    return bytes(Ether(dst=NEIGHBOURS_MAC, src="02:00:00:00:00:01") / datagram(said))


def test_a_host_can_not_tell_switches_anything(rig: Rig) -> None:
    for kind in (*KINDS, NotificationType.HEARTBEAT):
        for n in range(8):
            frame = news(kind, n)
            rig.engine.add_script([(rig.fabric.nodes["h1"], 0, rig.engine.now + 1000, frame)])
            rig.run(1_000_000)
    assert rig.dropped(SPOOFED) == 32
    assert not rig.masks() and not rig.down() and not rig.lossy()
    assert rig.counts()["masked"] == rig.counts()["old"] == 0


def test_news_of_a_switch_that_is_not_its_origin_holds_as_long_as_it_says(rig: Rig) -> None:
    """Relays are such: a switch is believed, whoever it names. What nobody repeats ends."""
    rig.hand_over("s1", rig.way_port("s1", 0), news())
    rig.rounds(2)
    assert rig.masks() == {("s1", 7): 1}
    assert reached(rig) == set(rig.pairs)
    rig.rounds((1 << 7) - 4)
    assert rig.masks()
    rig.rounds(len(rig.ways.destinations) + 4)
    assert not rig.masks()
    assert reached(rig) == set(rig.pairs)


def test_any_news_at_any_switch_leaves_nothing(rig: Rig) -> None:
    """Random types, destinations that nobody has, numbers and origins, by all ways."""
    draw = random.Random(11)
    kinds = sorted(KINDS)
    for _ in range(600):
        switch = draw.choice([s.name for s in rig.topology.switches])
        port = rig.way_port(switch, draw.randrange(len(rig.ways.of(switch).ports)))
        number = draw.choice([draw.randrange(14), draw.randrange(1 << 16), draw.randrange(1 << 24)])
        frame = news(
            draw.choice(kinds), number, origin=draw.randrange(30), sequence=draw.randrange(4096),
            validity=draw.randrange(9), hops=draw.randrange(16),
        )  # fmt: skip
        rig.hand_over(switch, port, frame)
        rig.run(400_000)
        if draw.random() < 0.05:
            rig.probe()
    rig.settle((1 << 9) + 2 * len(rig.ways.destinations))
    assert rig.counts()["masked"] > 50 and rig.counts()["warned"] > 50
    assert rig.counts()["went_down"] == 0
    assert rig.dropped(TTL_EXPIRED) == 0
    assert reached(rig) == set(rig.pairs)


def test_numbers_wrap(rig: Rig) -> None:
    """Of the copies of one piece of news: 4094, 4095, 0, 1; none of them is old."""
    link = rig.links()[0]
    for switch in rig.topology.switches:
        rig.write_register(switch.name, "notification_number", 4093)
    rig.cut(link)
    young(rig, rig.bound_ps() + 8 * rig.setting.period_ps)
    assert rig.counts()["masked"] == 45
    assert rig.register(link.b.node, "notification_number") == 0
    rig.heal(link)
    rig.settle(rig.longest_hold())
    rig.rounds(10)
    assert rig.counts()["unmasked"] == 45
    assert rig.counts()["old"] == 0
    assert reached(rig) == set(rig.pairs)


@pytest.mark.parametrize("refresh", [56, 60])
def test_what_expires_just_when_it_is_told_again_is_held_all_the_time(refresh: int) -> None:
    """Refreshed in the last round but one or so: no moment without it, for a dozen refreshes."""
    rig = Rig(dpfr=f"{{refresh: {refresh}, validity: 6, carrier: false}}")
    rig.cut(rig.links()[0])
    rig.rounds(20)
    held = rig.masks()
    assert {switch for switch, _ in held} >= set(rig.leaves[1:])
    for _ in range(12 * 2 * (refresh + 4)):
        rig.run(rig.setting.period_ps // 2)
        assert rig.masks() == held


def test_one_lost_refresh_does_no_harm(rig: Rig) -> None:
    cut = rig.links()[0]
    agg = cut.b.node
    others = [x for x in rig.links() if agg in (x.a.node, x.b.node) and x is not cut]
    rig.cut(cut)
    rig.rounds(rig.setting.refresh)
    held, told = rig.masks(), rig.counts()["notified"]
    while rig.counts()["notified"] == told:
        rig.run(50_000)
    for link in others:
        rig.cut(link)
    rig.run(4_000_000)
    for link in others:
        rig.heal(link)
    for _ in range(2 * rig.setting.refresh):
        rig.rounds(1)
        assert rig.masks() == held


@pytest.mark.parametrize("switch", ["s1", "s9", "s17"], ids=["leaf", "aggregation", "core"])
def test_a_switch_dies_and_returns(rig: Rig, switch: str) -> None:
    """It remembers nothing, and its numbers begin anew; three times, the last two at once."""
    graph = Graph(rig.topology)
    for away in (400, 30, 3):
        rig.kill(switch)
        young(rig, away * rig.setting.period_ps)
        if away > 20:
            assert reached(rig) == graph.up_down(dead=(switch,))
        rig.revive(switch)
        young(rig, rig.bound_ps())
        rig.settle(rig.longest_hold())
        assert reached(rig) == set(rig.pairs)
