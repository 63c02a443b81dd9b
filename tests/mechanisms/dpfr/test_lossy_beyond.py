"""A link that loses packets behind the only way to a leaf: who sends there goes around it.

Three tiers: only the leaf's other aggregation switch leads around it, so that leaves of all pods
have to be warned: by the aggregation switch, its cores, and aggregation switches of other pods.
"""

from __future__ import annotations

import pytest

from protocols.notification import NotificationType
from tests.mechanisms.dpfr import cuts
from tests.mechanisms.dpfr.rig import TTL_EXPIRED, Rig
from tests.mechanisms.dpfr.test_adversity import news
from tests.mechanisms.dpfr.test_losses import FROM_US, SEEN_US, flows, ran
from topologies.model import Link

SHAPE = "generator: fat_tree\n  k: 4"
LONG = 1 << 20
"""Rounds for which a link loses packets: to the end of the test."""


def up_and_down(rig: Rig, link: Link) -> tuple[str, str]:
    """Return the aggregation switch and the leaf of a link between them."""
    ends = (link.a.node, link.b.node)
    leaf = next(end for end in ends if end in rig.leaves)
    return next(end for end in ends if end != leaf), leaf


def of_leaf(rig: Rig, leaf: str) -> list[Link]:
    return [link for link in rig.links() if leaf in (link.a.node, link.b.node)]


@pytest.mark.parametrize("sender", ["h3", "h9"], ids=["own-pod", "other-pod"])
@pytest.mark.parametrize("seed", [1, 2])
def test_one_percent_is_avoided_within_2_ms_by_leaves_of_all_pods(sender: str, seed: int) -> None:
    rig = Rig(SHAPE)
    aggregation, leaf = up_and_down(rig, rig.links()[0])
    event = f"{{at: {FROM_US}us, link: {aggregation}-{leaf}, loss: 1%, towards: {leaf}}}"
    early = flows(of=(sender,), to="h1", size="2MB")
    late = flows(of=(sender,), to="h1", at_us=SEEN_US)
    found = ran(event, traffic=early + "\n" + late, seed=seed, shape=SHAPE)
    assert found.counts["degraded"] == found.counts["lossy"] == 1
    assert sum(found.lost[:16]) > 0
    assert sum(found.lost[16:]) == 0


def test_messages_are_as_many_as_of_a_dead_link() -> None:
    rig = Rig(SHAPE)
    aggregation, _ = up_and_down(rig, rig.links()[0])
    rig.degrade(aggregation, rig.links()[0], LONG)
    copy = 2 * (len(rig.leaves) - 1) + 1
    before = rig.news(NotificationType.DEGRADED)
    rig.rounds(20)
    assert rig.news(NotificationType.DEGRADED) - before == copy * rig.setting.copies
    for _ in range(3):
        before = rig.news(NotificationType.DEGRADED)
        rig.rounds(rig.setting.refresh + 1)
        assert rig.news(NotificationType.DEGRADED) - before == copy
    assert rig.news(NotificationType.LINK_DOWN) == 0


def test_every_leaf_goes_around_it_and_back_when_it_is_good_again() -> None:
    rig = Rig(SHAPE)
    link = rig.links()[0]
    aggregation, leaf = up_and_down(rig, link)
    rig.degrade(aggregation, link, 300)
    rig.rounds(20)
    warned = {switch for switch, _ in rig.lossy()}
    assert warned >= {each for each in rig.leaves if each != leaf}
    rig.cut(link, towards=leaf)
    rig.probe()
    rig.run(rig.crossing_ps())
    came = rig.arrived().came
    assert {pair for pair in rig.pairs if came.get(pair, 0) < rig.ports} <= {
        pair for pair in rig.pairs if pair[0] == leaf
    }
    rig.heal(link)
    rig.rounds(300)
    rig.settle(rig.longest_hold())
    assert not rig.lossy()


def test_where_all_ways_lose_packets_all_are_used() -> None:
    rig = Rig(SHAPE)
    leaf = up_and_down(rig, rig.links()[0])[1]
    for link in of_leaf(rig, leaf):
        rig.degrade(up_and_down(rig, link)[0], link, LONG)
    rig.rounds(40)
    assert rig.lossy()
    rig.probe()
    rig.run(rig.crossing_ps())
    came = rig.arrived().came
    assert all(came.get(pair) == rig.ports for pair in rig.pairs)
    assert rig.counts()["no_way"] == rig.dropped(TTL_EXPIRED) == 0


def test_a_dead_way_is_worse_than_one_that_was_warned_of() -> None:
    rig = Rig(SHAPE)
    one, other = of_leaf(rig, up_and_down(rig, rig.links()[0])[1])
    rig.degrade(up_and_down(rig, one)[0], one, LONG)
    rig.rounds(20)
    rig.cut(other)
    rig.run(rig.bound_ps())
    rig.arrived()
    rig.probe()
    rig.run(rig.crossing_ps())
    came = rig.arrived().came
    assert all(came.get(pair) == rig.ports for pair in rig.pairs)


def test_a_warning_counts_once_and_expires() -> None:
    rig = Rig(cuts.FAT_TREE)
    port = rig.way_port("s1", 0)
    for sequence in (5, 5, 4):
        rig.hand_over("s1", port, news(NotificationType.DEGRADED, sequence=sequence, validity=6))
        rig.run(100_000)
    assert (rig.counts()["warned"], rig.counts()["old"]) == (1, 2)
    assert rig.lossy() == {("s1", 7): 1}
    rig.rounds((1 << 6) + len(rig.ways.destinations) + 4)
    assert not rig.lossy()
