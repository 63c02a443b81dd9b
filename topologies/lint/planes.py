"""Planes that are not as separate as they look, and hosts that two failures cut apart."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from topologies.errors import FieldPath
from topologies.lint.findings import SHOWN_SUBJECTS, Remark, Severity
from topologies.loader import Source
from topologies.model import Host, Topology
from topologies.planes import Planes, joined, planes_of
from topologies.reach import Reach

Islands = tuple[int, ...]  # of a host's interfaces, sorted


@dataclass(frozen=True)
class CutPairs:
    """Pairs of hosts that lose each other when each loses one of its interfaces, the right ones.

    `first` are the first ones, in the file's order. `helper` is a third host that then still
    reaches both of the first pair; None if there is none.
    """

    count: int = 0
    first: tuple[tuple[Host, Host], ...] = ()
    helper: Host | None = None


def cut_pairs(topology: Topology, shown: int = SHOWN_SUBJECTS) -> CutPairs:
    """Return the pairs that meet now, and no longer when each host has lost some interface.

    A failure is that of an interface, its cable or its port; both hosts have others that work, but
    none of the one meets any of the other. Hosts with one interface, for which one failure is
    enough, are left out. Hosts whose interfaces lead into the same parts of the fabric are counted
    together.
    """
    islands = Reach(topology).islands
    kinds = {
        host.name: tuple(sorted(islands[part.switch] for part in host.interfaces))
        for host in topology.hosts
        if len(host.interfaces) > 1
    }
    sizes = Counter(kinds.values())
    cut = {
        pair: helpers
        for pair in itertools.combinations_with_replacement(sorted(sizes), 2)
        if (helpers := _cuts(*pair)) is not None
    }
    count = sum(
        sizes[one] * (sizes[one] - 1) // 2 if one == two else sizes[one] * sizes[two]
        for one, two in cut
    )
    if not count:
        return CutPairs()
    hosts = [host for host in topology.hosts if host.name in kinds]
    first = tuple(itertools.islice(_pairs(hosts, kinds, cut), shown))
    (a, b), *_ = first
    left = cut[_ordered(kinds[a.name], kinds[b.name])]
    helper = next(
        (
            host
            for host in hosts
            if host not in (a, b) and all(set(kinds[host.name]) & rest for rest in left)
        ),
        None,
    )
    return CutPairs(count, first, helper)


def _ordered(one: Islands, two: Islands) -> tuple[Islands, Islands]:
    return (one, two) if one <= two else (two, one)


def _cuts(one: Islands, two: Islands) -> tuple[set[int], set[int]] | None:
    """Return what two kinds of hosts have left when one failure at each cuts them apart."""
    if not set(one) & set(two):
        return None
    for i, j in itertools.product(range(len(one)), range(len(two))):
        left = {*one[:i], *one[i + 1 :]}, {*two[:j], *two[j + 1 :]}
        if not left[0] & left[1]:
            return left
    return None


def _pairs(
    hosts: Sequence[Host],
    kinds: Mapping[str, Islands],
    cut: Mapping[tuple[Islands, Islands], object],
) -> Iterator[tuple[Host, Host]]:
    for at, one in enumerate(hosts):
        for two in itertools.islice(hosts, at + 1, None):
            if _ordered(kinds[one.name], kinds[two.name]) in cut:
                yield one, two


def plane_faults(source: Source) -> Iterator[Remark]:
    """Yield what the planes of a fabric share, and which hosts have no common plane left."""
    found = planes_of(source.topology)
    yield from _shared(source, found)
    yield from _joints(source, found)
    yield from _crossed(source, found)
    yield from _cut(source, found)


def _place(source: Source, kind: str, number: int | None = None) -> FieldPath:
    """Return where hosts or switches stand; in a generated fabric, what makes them."""
    if ("generator",) in source.document.positions:
        return ("generator",)
    return (kind,) if number is None else (kind, number)


def _shared(source: Source, found: Planes) -> Iterator[Remark]:
    numbers = {switch.name: i for i, switch in enumerate(source.topology.switches)}
    right = "give each plane switches and links of its own"
    for name, planes in found.shared:
        message = f"shared by planes {joined(planes)}: its failure harms them all"
        place = _place(source, "switches", numbers[name])
        yield Remark(Severity.WARNING, place, name, message, right)
    shared = dict(found.shared)
    for link, path in zip(source.topology.links, source.link_paths, strict=True):
        both = [
            plane for plane in shared.get(link.a.node, ()) if plane in shared.get(link.b.node, ())
        ]
        if len(both) > 1:
            message = f"shared by planes {joined(both)}: its failure harms them all"
            yield Remark(Severity.WARNING, path, f"{link.a}-{link.b}", message, right)


def _joints(source: Source, found: Planes) -> Iterator[Remark]:
    paths = dict(zip(source.topology.links, source.link_paths, strict=True))
    for link in found.joints:
        ends = [found.by_switch[end.node] for end in (link.a, link.b)]
        message = (
            f"joins planes {joined(sorted(ends, key=found.planes.index))}: hosts that have lost "
            "different planes still have a way, and the planes are no longer separate"
        )
        yield Remark(Severity.INFO, paths[link], f"{link.a}-{link.b}", message, "")


def _crossed(source: Source, found: Planes) -> Iterator[Remark]:
    numbers = {host.name: i for i, host in enumerate(source.topology.hosts)}
    for part, usual in found.crossed:
        here = found.by_switch[part.switch]
        message = (
            f"in plane {here.name}, where interface {part.number} of other hosts is in plane "
            f"{usual.name}"
        )
        right = "a queue pair over planes joins first to first, and so on: swap the cables"
        place = _place(source, "hosts", numbers[part.host])
        yield Remark(Severity.WARNING, place, f"{part.host}:{part.number}", message, right)


def _cut(source: Source, found: Planes) -> Iterator[Remark]:
    pairs = cut_pairs(source.topology)
    if not pairs.count:
        return
    (a, b), *others = pairs.first
    message = (
        f"cut apart when each has lost another plane (by an interface, a cable or a port); "
        f"{pairs.count} pair{'s' if pairs.count > 1 else ''} of hosts can be"
    )
    if others:
        message += ", as " + ", ".join(f"{one.name} and {two.name}" for one, two in others)
    right = "a link between the planes would serve them"
    if pairs.helper is not None:
        right = f"a third host in both planes ({pairs.helper.name}) that forwards, or {right}"
    subject = f"{a.name} and {b.name}"
    yield Remark(Severity.INFO, _place(source, "hosts"), subject, message, right)
