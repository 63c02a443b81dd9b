"""Cuts of one link each, drawn from all links between switches, and flows that cross them.

What a flow crosses follows from its UDP port. Which port leads over a link is asked of the program
itself, in copies of the switches, so that every flow that watches a cut is hit by it:

    a link of a leaf    down to it from every other leaf; up from it to a leaf of each pod
    a link of a core    down from a leaf of each other pod; up from each leaf of the pod below

What goes up can take another way right there. What goes down has to be sent elsewhere further up:
by the leaves, or, where the link is a core's, by the switches above them. Each gets a flow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

from simulator.flow_paths import FlowPaths
from topologies.model import Endpoint, Link, Role, Topology
from workloads.model import Flow

FIRST_PORT, PORTS = 49152, 16384
MOST_TRIES = 2000
"""UDP ports that are tried for one flow: with k = 16, one in 64 leads over a certain core link."""

_TIERS = {Role.LEAF: 0, Role.SPINE: 1, Role.CORE: 2}


@dataclass(frozen=True)
class Cut:
    """A link on which everything vanishes, or only what goes `towards` a switch.

    `lower`, `upper`: its ends. `at`: when, as a share of a period of heartbeats.
    """

    link: Link
    lower: Endpoint
    upper: Endpoint
    towards: str
    at: float

    def __str__(self) -> str:
        """As people name it."""
        return f"{self.lower.node}-{self.upper.node}" + (self.towards and f" to {self.towards}")


@dataclass(frozen=True)
class Probe:
    """A flow that crosses a cut: from one leaf to another, `down` or up."""

    flow: Flow
    down: bool


class Cuts:
    """Draws cuts and their probes; both follow from the seed."""

    def __init__(self, topology: Topology, seed: int) -> None:
        """Prepare cuts of `topology`. Raises ValueError for less than two pods of three tiers."""
        self._topology, self._random = topology, Random(f"cuts {seed}")
        self._hosts: dict[str, list[str]] = {}
        for host in topology.hosts:
            self._hosts.setdefault(host.interfaces[0].switch, []).append(host.name)
        pods: dict[frozenset[str], list[str]] = {}
        for leaf in self._hosts:
            pods.setdefault(frozenset(_above(topology, leaf)), []).append(leaf)
        self._pods = tuple(tuple(leaves) for leaves in pods.values())
        self._links = [link for link in topology.links if _ends(topology, link) is not None]
        if len(self._pods) < 2 or not any(s.role is Role.CORE for s in topology.switches):
            raise ValueError(
                f"{topology.name}: cuts are drawn in fabrics of three tiers, with pods"
            )

    def draw(self, count: int) -> Iterator[Cut]:
        """Yield cuts of different links: both ways or one direction, as often each."""
        for link in self._random.sample(self._links, min(count, len(self._links))):
            ends = _ends(self._topology, link)
            assert ends is not None, "only such were kept"
            towards = self._random.choice(("", ends[0].node, ends[1].node))
            yield Cut(link, *ends, towards, self._random.random())

    def probes(self, cut: Cut, paths: FlowPaths, like: Flow) -> Iterator[Probe]:
        """Yield flows that cross it, with what `like` has beside ends and UDP port."""
        for down, source, target in self._pairs(cut):
            over = cut.upper if down else cut.lower
            ends = [
                Endpoint(self._random.choice(self._hosts[leaf]), 0) for leaf in (source, target)
            ]
            bare = replace(like, src=ends[0], dst=ends[1])
            first = self._random.randrange(PORTS)
            for n in range(MOST_TRIES):
                flow = replace(bare, udp_port=FIRST_PORT + (first + n) % PORTS)
                if (over.node, over.port) in paths.path(flow):
                    yield Probe(flow, down)
                    break

    def _pairs(self, cut: Cut) -> Iterator[tuple[bool, str, str]]:
        """Yield which leaves the flows join: whether down, from, to."""
        leaf = cut.lower.node if cut.lower.node in self._hosts else None
        below = self._leaves_below(cut.lower.node)
        others = [pod for pod in self._pods if not set(pod) & set(below)]
        if leaf is None:
            for pod in others:
                yield True, self._any(pod), self._any(below)
            for source in below:
                yield False, source, self._any(self._random.choice(others))
            return
        for source in self._hosts:
            if source != leaf:
                yield True, source, leaf
        for pod in self._pods:
            near = [each for each in pod if each != leaf]
            if near:
                yield False, leaf, self._any(near)

    def _leaves_below(self, switch: str) -> tuple[str, ...]:
        if switch in self._hosts:
            return (switch,)
        return tuple(leaf for leaf in self._hosts if switch in _above(self._topology, leaf))

    def _any(self, leaves: Sequence[str]) -> str:
        return self._random.choice(leaves)


def _ends(topology: Topology, link: Link) -> tuple[Endpoint, Endpoint] | None:
    """Return the lower and the upper end of a link between tiers of switches."""
    if not all(topology.is_switch(end.node) for end in (link.a, link.b)):
        return None
    tiers = [_TIERS.get(topology.switch(end.node).role) for end in (link.a, link.b)]
    if None in tiers or tiers[0] == tiers[1]:
        return None
    return (link.a, link.b) if tiers[0] < tiers[1] else (link.b, link.a)  # type: ignore[operator]


def _above(topology: Topology, leaf: str) -> list[str]:
    ports = topology.ports_of(leaf)
    return [port.peer.node for port in ports if topology.is_switch(port.peer.node)]
