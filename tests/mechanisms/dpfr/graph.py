"""Which leaves reach which over the links that are left: plain graph code, nothing of DPFR's.

A switch's tier is its distance from the nearest leaf, but where leaves have neighbours alone that
is all there is to it. An up-down path goes up, tier by tier, and then down.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from topologies.model import Link, Topology

Pair = tuple[str, str]


class Graph:
    """The switches of a topology, their tiers, and the links between them."""

    def __init__(self, topology: Topology) -> None:
        self.links = [
            link
            for link in topology.links
            if topology.is_switch(link.a.node) and topology.is_switch(link.b.node)
        ]
        self.tier = dict.fromkeys({host.interfaces[0].switch for host in topology.hosts}, 0)
        self.leaves = [s.name for s in topology.switches if s.name in self.tier]
        rim = set(self.tier)
        while rim:
            around = {n for link in self.links for n in _ends(link) if rim & set(_ends(link))}
            rim = around - set(self.tier)
            self.tier |= dict.fromkeys(rim, 1 + max(self.tier.values()))

    def up_down(self, cut: Collection[Link] = (), dead: Collection[str] = ()) -> set[Pair]:
        """Return the pairs of leaves that a path joins which goes up and then down."""
        above: dict[str, set[str]] = {}
        for low, high in self._alive(cut, dead):
            if self.tier[low] > self.tier[high]:
                low, high = high, low
            above.setdefault(low, set()).add(high)
        tops = {leaf: _closure(leaf, above) for leaf in self.leaves if leaf not in dead}
        return {(a, b) for a in tops for b in tops if a != b and tops[a] & tops[b]}

    def joined(self, cut: Collection[Link] = (), dead: Collection[str] = ()) -> set[Pair]:
        """Return the pairs of leaves that any path joins."""
        beside: dict[str, set[str]] = {}
        for one, other in self._alive(cut, dead):
            beside.setdefault(one, set()).add(other)
            beside.setdefault(other, set()).add(one)
        reach = {leaf: _closure(leaf, beside) for leaf in self.leaves if leaf not in dead}
        return {(a, b) for a in reach for b in reach if a != b and b in reach[a]}

    def _alive(self, cut: Collection[Link], dead: Collection[str]) -> Iterable[Pair]:
        for link in self.links:
            one, other = _ends(link)
            if link not in cut and one not in dead and other not in dead:
                yield one, other


def _ends(link: Link) -> Pair:
    return link.a.node, link.b.node


def _closure(start: str, following: dict[str, set[str]]) -> set[str]:
    found, rim = {start}, [start]
    while rim:
        new = following.get(rim.pop(), set()) - found
        found |= new
        rim += new
    return found
