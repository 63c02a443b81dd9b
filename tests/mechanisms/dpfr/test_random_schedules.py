"""Random Clos fabrics, settings and fault schedules: who can be reached is, and nothing circulates.

A schedule cuts links (both ways or one), lets some be lossy for a while, kills switches, and mends
some of them meanwhile. Once the bound after its last event is over, every pair of leaves with an
up-down path that no event touched is served: links that are back may still be held down, and a
lossy one is better than none. At the end all is mended, and after the longest hold everybody is
served again. `WEFT_RANDOM_DPFR=200` tries so many schedules; `WEFT_RANDOM_DPFR_FROM=17` begins
with that one.
"""

from __future__ import annotations

import os
import random

import pytest

from tests.mechanisms.dpfr.graph import Graph
from tests.mechanisms.dpfr.rig import TTL_EXPIRED, Rig, name_of
from topologies.model import Link

CASES = int(os.environ.get("WEFT_RANDOM_DPFR", "6"))
FIRST = int(os.environ.get("WEFT_RANDOM_DPFR_FROM", "0"))
PORTS = 2


def shape(chance: random.Random) -> str:
    """Return a generator's lines: two or three tiers, links in parallel."""
    kind = chance.choice(["leaf_spine", "leaf_spine", "fat_tree"])
    if kind == "fat_tree":
        return "generator: fat_tree\n  k: 4"
    return (
        f"generator: leaf_spine\n  spines: {chance.randint(2, 5)}\n  leaves: {chance.randint(2, 5)}"
        f"\n  hosts_per_leaf: 1\n  links_per_spine: {chance.choice([1, 1, 2])}"
    )


def settings(chance: random.Random) -> str:
    """Return `dpfr:` with times at and between their limits."""
    misses, hold = chance.choice([1, 2, 3, 5]), chance.choice([1, 2, 8, 16])
    copies, validity = chance.choice([1, 3]), chance.choice([5, 6, 7])
    refresh = chance.choice([4, 12, (1 << validity) - copies - 1])
    period = chance.choice(["2us", "8400ns", "20us"])
    return (
        f"{{period: {period}, misses: {misses}, hold: {hold}, copies: {copies}, "
        f"refresh: {refresh}, validity: {validity}, carrier: {chance.choice(['true', 'false'])}}}"
    )


class Schedule:
    """What happens to one running fabric, and what of it was ever touched."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.shape, self.dpfr = shape(self.chance), settings(self.chance)
        self.rig = Rig(self.shape, dpfr=self.dpfr, ports=PORTS, seed=seed + 1)
        self.graph = Graph(self.rig.topology)
        self.cut: set[Link] = set()
        self.touched: set[Link] = set()
        self.killed: set[str] = set()
        self.events: list[str] = []

    def run(self) -> None:
        """Let up to eight things happen, some before the one before is even detected."""
        for _ in range(self.chance.randint(1, 8)):
            self.step()
            self.rig.probe()
            self.rig.rounds(self.chance.choice([1, 1, 3, 10, 40]))

    def step(self) -> None:
        rig, chance = self.rig, self.chance
        what = chance.choice(["cut", "cut", "one way", "mend", "kill", "down", "lossy"])
        if what == "mend":
            for link in chance.sample(sorted(self.cut, key=str), min(1, len(self.cut))):
                self.mend(link)
        elif what == "kill":
            name = chance.choice([switch.name for switch in rig.topology.switches])
            if name not in self.killed:
                self.killed.add(name)
                rig.kill(name)
                self.events.append(f"kill {name}")
        elif what == "lossy":
            link = chance.choice(rig.links())
            switch = chance.choice([link.a.node, link.b.node])
            if switch not in self.killed:
                rig.degrade(switch, link, chance.choice([10, 100, 400]))
                self.events.append(f"lossy {name_of(link)} from {switch}")
        else:
            link = chance.choice(rig.links())
            self.cut.add(link)
            self.touched.add(link)
            if what == "down":
                rig.fabric.set_link(link, up=False)
            else:
                rig.cut(link, towards=link.a.node if what == "one way" else None)
            self.events.append(f"{what} {name_of(link)}")

    def mend(self, link: Link) -> None:
        self.cut.discard(link)
        self.rig.heal(link)
        self.rig.fabric.set_link(link, up=True)
        self.events.append(f"mend {name_of(link)}")

    def check(self, untouched_only: bool) -> None:
        """Send a probe of every pair, and hold what comes against the graph."""
        rig = self.rig
        rig.run(rig.crossing_ps())
        rig.arrived()
        rig.probe()
        rig.run(rig.crossing_ps())
        found = rig.arrived()
        says = f"{self.shape}\n{self.dpfr}\n" + "\n".join(self.events)
        dead = self.killed if untouched_only else set()
        wanted = self.graph.up_down(self.touched if untouched_only else (), dead)
        missing = [pair for pair in sorted(wanted) if found.came.get(pair, 0) != PORTS]
        assert not missing, f"{missing} were not served after\n{says}"
        assert not rig.dropped(TTL_EXPIRED), says
        longest = 2 * max(self.graph.tier.values()) + 1
        assert all(max(hops) <= longest for hops in found.hops.values()), says


@pytest.mark.parametrize("seed", range(FIRST, FIRST + CASES))
def test_whoever_can_be_reached_is_after_the_bound(seed: int) -> None:
    case = Schedule(seed)
    rig = case.rig
    case.run()
    rig.run(rig.bound_ps())
    case.check(untouched_only=True)
    for link in sorted(case.cut, key=str):
        case.mend(link)
    for switch in sorted(case.killed):
        rig.revive(switch)
    rig.rounds(2 + rig.setting.misses)
    rig.settle(rig.longest_hold())
    case.check(untouched_only=False)
