"""How many messages news of a failure takes, in three tiers, and when it is where it has to be.

Of each copy: a link between a leaf and an aggregation switch is told to all other leaves by one
path, and the switches on these paths hear it too: 2 x leaves + 1. An aggregation switch's death is
told of by the cores, for its whole pod.
"""

from __future__ import annotations

import pytest

from protocols.notification import NotificationType
from tests.mechanisms.dpfr.rig import Rig
from topologies.model import Link

TREES = (4, pytest.param(6, marks=pytest.mark.long))


def tree(k: int) -> Rig:
    return Rig(f"generator: fat_tree\n  k: {k}")


def told(rig: Rig, rounds: int, *, traffic: bool = False) -> int:
    """Return how many LINK_DOWN came to switches in the next rounds."""
    before = rig.news(NotificationType.LINK_DOWN)
    for _ in range(rounds):
        if traffic:
            rig.probe()
        rig.rounds(1)
    return rig.news(NotificationType.LINK_DOWN) - before


@pytest.mark.parametrize("traffic", [False, True], ids=["idle", "busy"])
@pytest.mark.parametrize("k", TREES)
def test_a_link_between_leaf_and_aggregation(k: int, traffic: bool) -> None:
    rig = tree(k)
    rig.cut(rig.links()[0])
    affected = len(rig.leaves) - 1
    copy = 2 * affected + 1
    assert told(rig, 20, traffic=traffic) == copy * rig.setting.copies
    for _ in range(3):
        assert told(rig, rig.setting.refresh + 1, traffic=traffic and k == 4) == copy


@pytest.mark.parametrize("traffic", [False, True], ids=["idle", "busy"])
@pytest.mark.parametrize("k", TREES)
def test_an_aggregation_switch(k: int, traffic: bool) -> None:
    """Each core tells the other pods' aggregation switches; these tell their leaves, once each."""
    rig = tree(k)
    rig.kill(rig.links()[0].b.node)
    affected = len(rig.leaves) - k // 2
    copy = k // 2 * (k - 1) + affected
    assert copy <= 2 * affected + 1
    assert told(rig, 20, traffic=traffic) == copy * rig.setting.copies
    for _ in range(3):
        assert told(rig, rig.setting.refresh + 1, traffic=traffic and k == 4) == copy


def test_a_pod_is_told_of_as_a_whole_and_at_once() -> None:
    """Where nobody sends anything: the cores that lost a pod's switch have one thing to say."""
    rig = tree(4)
    rig.kill(rig.links()[0].b.node)
    rounds = rig.setting.misses + 2 + 1
    rig.run(rounds * rig.setting.period_ps + rig.crossing_ps())
    pod = rig.ways.destinations[0].group
    masked = {switch for (switch, number), _ in rig.masks().items() if number == pod}
    assert set(rig.leaves[2:]) <= masked
    assert {number for _, number in rig.masks()} == {pod}


def test_the_last_of_several_ways_tells_too() -> None:
    """An aggregation switch loses both cores, and tells its leaves: a round for each other pod."""
    rig = tree(4)
    leaves = rig.leaves[:2]
    one, last = cores_of(rig, rig.links()[0].b.node)
    rig.cut(one)
    rig.rounds(20)
    assert not masked_at(rig, leaves)
    rig.cut(last)
    rounds = rig.setting.misses + 2 + rig.ways.longest()
    rig.run(rounds * rig.setting.period_ps + rig.crossing_ps())
    other_pods = {each.group for each in rig.ways.destinations[2:8]}
    assert len(other_pods) == rig.ways.longest() == 3
    assert masked_at(rig, leaves) == {(leaf, pod) for leaf in leaves for pod in other_pods}


def test_nobody_hears_what_is_nothing_to_them() -> None:
    """A leaf's own dead links, a core's death: others go round it, and there is nothing to tell."""
    rig = tree(4)
    rig.kill(rig.links()[-1].b.node)
    assert told(rig, 80, traffic=True) == 0
    assert rig.counts()["went_down"] == 4


@pytest.mark.parametrize("place", [0, -1], ids=["leaf", "core"])
def test_up_is_told_to_those_who_heard_down(place: int) -> None:
    """As often, and to nobody else: at a core's link the aggregation switch has nothing to tell."""
    rig = tree(4)
    link = rig.links()[place]
    rig.cut(link)
    down = told(rig, 20)
    assert down == (45 if place == 0 else 9)
    rig.heal(link)
    rig.settle(rig.longest_hold())
    rig.rounds(20)
    assert rig.news(NotificationType.LINK_UP) == rig.news(NotificationType.LINK_DOWN) == down


def masked_at(rig: Rig, switches: list[str]) -> set[tuple[str, int]]:
    """Return the destinations that these switches go round a way to."""
    return {key for key in rig.masks() if key[0] in switches}


def cores_of(rig: Rig, aggregation: str) -> list[Link]:
    """Return a switch's links to cores."""
    return [
        link
        for link in rig.links()
        if aggregation in (link.a.node, link.b.node) and link.a.node not in rig.leaves
    ]
