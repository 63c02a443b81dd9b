"""The planes of a fabric, found in its graph: parts that only hosts with several interfaces share.

Interface k of each host with several leads into one plane, so a leaf belongs to the interfaces that
most of its hosts have there, and a switch above it to those of most of its links down. Interfaces
whose switches are mostly the same ones lead into one plane: the rails of a fabric whose spines join
all rails, say. Names of nodes and groups play no part, but for what a plane is called.
"""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property

from topologies.graph import SwitchGraph
from topologies.model import Interface, Link, Topology

_MOST = 2  # "mostly" is more than one in so many
_PREFIX = "plane "  # of a group: not a part of the name

Labels = frozenset[int]


@dataclass(frozen=True)
class Plane:
    """One plane: the switches that it has alone, and the hosts' interfaces at its leaves."""

    name: str
    switches: tuple[str, ...]
    interfaces: tuple[Interface, ...]


@dataclass(frozen=True)
class Planes:
    """The planes of a topology, in the order of the interfaces that lead there; none or several.

    `shared`: switches that belong to several, with their planes. `joints`: links between switches
    of different planes. `crossed`: interfaces that are in another plane than those of their number
    on other hosts, each with that plane.
    """

    planes: tuple[Plane, ...] = ()
    shared: tuple[tuple[str, tuple[Plane, ...]], ...] = ()
    joints: tuple[Link, ...] = ()
    crossed: tuple[tuple[Interface, Plane], ...] = ()

    @cached_property
    def by_switch(self) -> Mapping[str, Plane]:
        """The plane of each switch that belongs to one alone."""
        return {name: plane for plane in self.planes for name in plane.switches}

    @cached_property
    def names(self) -> Mapping[str, str]:
        """What planes each switch belongs to, in words: 'A', or 'A and B'."""
        alone = {name: plane.name for name, plane in self.by_switch.items()}
        several = {name: joined(planes) for name, planes in self.shared}
        return alone | several

    @property
    def are_separate(self) -> bool:
        """Whether there are several, and nothing but hosts is in two of them."""
        return bool(self.planes) and not self.shared and not self.joints

    def named(self, name: str) -> Plane:
        """Return the plane called `name`. Raises KeyError."""
        return {plane.name: plane for plane in self.planes}[name]


def joined(planes: Sequence[Plane]) -> str:
    """Return the names of some planes in words: 'A, B and C'."""
    *others, last = [plane.name for plane in planes]
    return f"{', '.join(others)} and {last}" if others else last


def planes_of(topology: Topology) -> Planes:
    """Return the planes of a topology. Their cost grows with the number of links."""
    attached = _attached(topology)
    labels = _labels(topology, attached)
    merged = _merged(topology, attached, labels)
    parts = sorted({min(part): part for part in merged.values()}.items())
    if len(parts) < _MOST:
        return Planes()
    place = {label: number for number, (_, part) in enumerate(parts) for label in part}
    at = {
        switch.name: frozenset(place[label] for label in labels.get(switch.name, ()))
        for switch in topology.switches
    }
    planes = _made(topology, at, len(parts))
    return Planes(
        planes,
        tuple(
            (name, tuple(planes[number] for number in sorted(numbers)))
            for name, numbers in at.items()
            if len(numbers) > 1
        ),
        tuple(link for link in topology.links if _is_joint(link, at)),
        tuple(_crossed(topology, at, place, planes)),
    )


def _attached(topology: Topology) -> dict[str, Counter[int]]:
    """Return which interfaces hosts with several have at each leaf, by number."""
    found: dict[str, Counter[int]] = {}
    for host in topology.hosts:
        for part in host.interfaces if len(host.interfaces) > 1 else ():
            found.setdefault(part.switch, Counter())[part.number] += 1
    return found


def _most(weights: Counter[int]) -> Labels:
    """Return those with the greatest weight."""
    most = max(weights.values())
    return frozenset(label for label, weight in weights.items() if weight == most)


def _labels(topology: Topology, attached: Mapping[str, Counter[int]]) -> dict[str, Labels]:
    """Return the interfaces that each switch belongs to, tier by tier upwards from the leaves.

    A leaf at which no number has more hosts than others is what the switches next to it are, unless
    some host has several interfaces there: then it is of them all.
    """
    graph = SwitchGraph(topology)
    told = {name: _most(weights) for name, weights in attached.items()}
    sure = {n for n, of in told.items() if len(of) == 1 or _is_twice(topology, n)}
    found: dict[str, Labels] = {}
    for seeds in (sure, told.keys() - sure):
        layer = [name for name in told if name in seeds and name not in found]
        found |= {name: told[name] for name in layer}
        while layer:
            above: dict[str, Counter[int]] = {}
            for name in layer:
                for _, there, _ in graph.neighbours[graph.index[name]]:
                    if graph.names[there] not in found:
                        above.setdefault(graph.names[there], Counter()).update(found[name])
            found |= {name: _most(weights) for name, weights in above.items()}
            layer = list(above)
    return found


def _is_twice(topology: Topology, switch: str) -> bool:
    """Say whether a host has several interfaces at a switch."""
    hosts = [part.host for part in topology.interfaces_of(switch)]
    return len(set(hosts)) < len(hosts)


def _merged(
    topology: Topology, attached: Mapping[str, Counter[int]], labels: Mapping[str, Labels]
) -> dict[int, Labels]:
    """Return with which others each interface leads into one plane."""
    leaves: dict[int, set[str]] = {}
    above: dict[int, set[str]] = {}
    for switch in topology.switches:
        of_label = leaves if switch.name in attached else above
        for label in labels.get(switch.name, ()):
            of_label.setdefault(label, set()).add(switch.name)
    merged: dict[int, Labels] = {label: frozenset((label,)) for label in leaves}
    for one in leaves:
        for two in leaves:
            if two in merged[one] or one > two:
                continue
            if _are_one(leaves[one], leaves[two]) or _are_one(
                above.get(one, set()), above.get(two, set())
            ):
                both = merged[one] | merged[two]
                merged |= dict.fromkeys(both, both)
    return merged


def _are_one(one: Set[str], two: Set[str]) -> bool:
    """Say whether most of the smaller is in the other, too."""
    return _MOST * len(one & two) > min(len(one), len(two))


def _made(topology: Topology, at: Mapping[str, Labels], count: int) -> tuple[Plane, ...]:
    switches: list[list[str]] = [[] for _ in range(count)]
    for name, numbers in at.items():
        if len(numbers) == 1:
            switches[min(numbers)].append(name)
    interfaces: list[list[Interface]] = [[] for _ in range(count)]
    for part in topology.interfaces():
        if len(at[part.switch]) == 1:
            interfaces[min(at[part.switch])].append(part)
    names = _names(topology, switches)
    return tuple(
        Plane(name, tuple(own), tuple(ends))
        for name, own, ends in zip(names, switches, interfaces, strict=True)
    )


def _names(topology: Topology, switches: Sequence[Sequence[str]]) -> list[str]:
    """Return what planes are called: by the group that each one's switches have, else A, B, ..."""
    groups = [{topology.switch(name).group for name in own} for own in switches]
    names = [group.removeprefix(_PREFIX) for of_plane in groups for group in of_plane]
    if all(len(of_plane) == 1 for of_plane in groups) and all(names) and _differ(names):
        return names
    letters = string.ascii_uppercase
    return [
        letters[number % len(letters)] + (str(number // len(letters)) if number > 25 else "")
        for number in range(len(switches))
    ]


def _differ(names: Sequence[str]) -> bool:
    return len(set(names)) == len(names)


def _is_joint(link: Link, at: Mapping[str, Labels]) -> bool:
    one, two = at.get(link.a.node, frozenset()), at.get(link.b.node, frozenset())
    return len(one) == len(two) == 1 and one != two


def _crossed(
    topology: Topology, at: Mapping[str, Labels], place: Mapping[int, int], planes: Sequence[Plane]
) -> Iterator[tuple[Interface, Plane]]:
    for host in topology.hosts:
        for part in host.interfaces if len(host.interfaces) > 1 else ():
            usual, here = place.get(part.number), at[part.switch]
            if usual is not None and len(here) == 1 and usual not in here:
                yield part, planes[usual]
