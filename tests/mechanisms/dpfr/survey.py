"""Failures one after the other in one running fabric, each held against what the graph says.

While a failure is young, packets may be lost, but none may go in circles. They go on, since where
two failures cut off only together, it is a packet that finds it out. Once the bound is over,
whoever has an up-down path must be reached; whoever has none must not, and is counted. Then it is
mended, and until the longest hold-down is over nothing may be held any more, and all are reached.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from tests.mechanisms.dpfr.graph import Graph
from tests.mechanisms.dpfr.rig import NO_NEXT_HOP, TTL_EXPIRED, Pair, Rig, name_of
from topologies.model import Link

GAP_PS = 9_000_000
"""Between probes while a failure is young."""


@dataclass(frozen=True)
class Failure:
    """Links and switches that fail at once. `towards`: only in the direction of these ends."""

    links: tuple[Link, ...] = ()
    switches: tuple[str, ...] = ()
    towards: str | None = None

    def __str__(self) -> str:
        names = [*map(name_of, self.links), *self.switches]
        return " and ".join(names) + (f" towards {self.towards}" if self.towards else "")


@dataclass
class Survey:
    """What came of all failures."""

    rig: Rig
    graph: Graph
    failures: int = 0
    wrong: list[str] = field(default_factory=list)
    without_way: dict[str, frozenset[Pair]] = field(default_factory=dict)
    """By failure: pairs that are joined, but by no up-down path."""
    longest_rounds: int = 0

    @classmethod
    def of(cls, rig: Rig) -> Survey:
        return cls(rig, Graph(rig.topology))

    def take(self, failures: Iterable[Failure]) -> None:
        """Try them all."""
        for failure in failures:
            self._one(failure)
            self.failures += 1

    def _one(self, failure: Failure) -> None:
        rig, cut, dead = self.rig, failure.links, failure.switches
        wanted = self.graph.up_down(cut, dead)
        only_joined = self.graph.joined(cut, dead) - wanted
        if only_joined:
            self.without_way[str(failure)] = frozenset(only_joined)
        for link in cut:
            rig.cut(link, towards=failure.towards)
        for switch in dead:
            rig.kill(switch)
        left = rig.bound_ps()
        while left > GAP_PS:
            rig.run(GAP_PS)
            rig.probe()
            left -= GAP_PS
        rig.run(left)
        rig.arrived()
        self._after_the_bound(failure, wanted, only_joined)
        for link in cut:
            rig.heal(link)
        for switch in dead:
            rig.revive(switch)
        rig.rounds(1)
        rig.probe()
        self.longest_rounds = max(self.longest_rounds, rig.settle(rig.longest_hold()))
        rig.arrived()
        rig.forget_flaps()
        self._mended(failure)

    def _after_the_bound(self, failure: Failure, wanted: set[Pair], joined: set[Pair]) -> None:
        rig = self.rig
        before, unrouted = rig.counts()["no_way"], rig.dropped(NO_NEXT_HOP)
        rig.probe()
        rig.run(rig.crossing_ps())
        came = rig.arrived()
        for pair in sorted(wanted):
            if came.came.get(pair, 0) != rig.ports:
                self.wrong.append(f"{failure}: {came.came.get(pair, 0)} of {pair} came")
        for pair in sorted(set(came.came) - wanted):
            self.wrong.append(f"{failure}: {pair} have no way, and {came.came[pair]} came")
        counted = rig.counts()["no_way"] - before
        # Whose leaf is dead sends nothing; all others' packets are dropped by name.
        lost = [p for p in set(rig.pairs) - wanted if p[0] not in failure.switches]
        if counted != rig.ports * len(lost):
            self.wrong.append(
                f"{failure}: {len(lost)} pairs cut off, {counted} counted without way"
            )
        if joined and not counted:
            self.wrong.append(f"{failure}: nobody counted those without a way")
        if rig.dropped(NO_NEXT_HOP) - unrouted != counted:
            self.wrong.append(f"{failure}: dropped otherwise than for want of a way")
        self._no_loops(failure, came.hops)

    def _mended(self, failure: Failure) -> None:
        rig = self.rig
        rig.probe()
        rig.run(rig.crossing_ps())
        came = rig.arrived()
        for pair in rig.pairs:
            if came.came.get(pair, 0) != rig.ports:
                self.wrong.append(f"{failure}, mended: {came.came.get(pair, 0)} of {pair} came")
        self._no_loops(failure, came.hops)

    def _no_loops(self, failure: Failure, hops: Mapping[Pair, frozenset[int]]) -> None:
        if expired := self.rig.dropped(TTL_EXPIRED):
            self.wrong.append(f"{failure}: {expired} packets spent their TTL")
        far = {pair: met for pair, met in hops.items() if not met <= {3, 5}}
        if far:
            self.wrong.append(f"{failure}: {far} are no shortest ways")


def single_links(rig: Rig) -> list[Failure]:
    return [Failure((link,)) for link in rig.links()]


def single_directions(rig: Rig) -> list[Failure]:
    return [Failure((link,), towards=end.node) for link in rig.links() for end in (link.a, link.b)]


def switches(rig: Rig) -> list[Failure]:
    return [Failure(switches=(switch.name,)) for switch in rig.topology.switches]


def pairs_of_links(rig: Rig) -> list[Failure]:
    return [Failure(two) for two in combinations(rig.links(), 2)]


def shuffled(failures: Sequence[Failure], seed: int = 1) -> list[Failure]:
    """Return them in an order in which a link seldom fails again at once, as flaps do."""
    found = list(failures)
    random.Random(seed).shuffle(found)
    return found
