"""Faults of the whole fabric: what can't reach what, what hangs on one part, what is too narrow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet

from topologies.errors import FieldPath
from topologies.graph import SwitchGraph
from topologies.lint.findings import Remark, Severity
from topologies.loader import Source
from topologies.model import Host, Role, Topology
from topologies.oversubscription import long_hauls, ratio_text, switch_ratio
from topologies.reach import Reach
from topologies.units import format_rate

UP_OF_A_FULL_FABRIC = 1  # down : up; more is oversubscribed


def path_faults(source: Source) -> Iterator[Remark]:
    """Yield what is wrong with the fabric as a graph."""
    topology = source.topology
    reach = Reach(topology)
    yield from _unreachable(source, reach)
    yield from _cut_off(source)
    yield from _single_points(source)
    yield from _oversubscription(source)
    yield from _long_hauls(source)


def _place(source: Source, kind: str, number: int) -> FieldPath:
    """Return where a switch or host stands; in a generated fabric, what makes it."""
    generated = ("generator",) in source.document.positions
    return ("generator",) if generated else (kind, number)


def _hosts_place(source: Source) -> FieldPath:
    return ("generator",) if ("generator",) in source.document.positions else ("hosts",)


def _unreachable(source: Source, reach: Reach) -> Iterator[Remark]:
    hosts = source.topology.hosts
    groups: dict[frozenset[int], list[int]] = {}
    for i, host in enumerate(hosts):
        islands = frozenset(reach.islands[part.switch] for part in host.interfaces)
        groups.setdefault(islands, []).append(i)
    pairs = [
        (here, there)
        for a, here in groups.items()
        for b, there in groups.items()
        if here[0] < there[0] and not a & b
    ]
    if pairs:
        count = sum(len(here) * len(there) for here, there in pairs)
        here, there = pairs[0]
        subject = f"{hosts[here[0]].name} and {hosts[there[0]].name}"
        message = f"no way between them; {count} pairs of hosts can't reach each other"
        right = "join their switches by a link"
        yield Remark(Severity.ERROR, _place(source, "hosts", there[0]), subject, message, right)


def _cut_off(source: Source) -> Iterator[Remark]:
    for i, switch in enumerate(source.topology.switches):
        if not source.topology.ports_of(switch.name):
            right = "link it, or leave it out"
            yield Remark(
                Severity.WARNING, _place(source, "switches", i), switch.name, "has no link", right
            )


def _single_points(source: Source) -> Iterator[Remark]:
    topology = source.topology
    for host in topology.hosts:
        if len(host.interfaces) == 1:
            message = "one link: it, its port and its leaf are single points of failure"
            right = "a second interface at another switch would survive any of them"
            yield Remark(Severity.INFO, _hosts_place(source), host.name, message, right)
    graph = SwitchGraph(topology)
    critical = graph.articulation_points()
    for name in critical:
        lost = _split_by(topology, graph.islands_without(name))
        if lost is not None:
            message = f"a single point of failure: without it {lost}"
            right = "a second way past it would survive its failure"
            place = _place(source, "switches", graph.index[name])
            yield Remark(Severity.WARNING, place, name, message, right)
    paths = dict(zip(topology.links, source.link_paths, strict=True))
    for link in graph.bridges():
        if link.a.node in critical or link.b.node in critical:
            continue
        lost = _split_by(topology, graph.islands_without(link))
        if lost is not None:
            message = f"a single point of failure: without it {lost}"
            right = "a second link would survive its failure"
            subject = f"{link.a}-{link.b}"
            yield Remark(Severity.WARNING, paths[link], subject, message, right)


def _split_by(topology: Topology, island: Mapping[str, int]) -> str | None:
    """Say which hosts lose each other when only these islands are left; None if none do."""
    groups: dict[AbstractSet[int], Host] = {}
    for host in topology.hosts:
        left = frozenset(island[part.switch] for part in host.interfaces if part.switch in island)
        if left:  # a host at the failed switch alone is lost itself, and reported as such
            groups.setdefault(left, host)
    for a, here in groups.items():
        for b, there in groups.items():
            if not a & b:
                return f"{here.name} and {there.name} can't reach each other"
    return None


def _oversubscription(source: Source) -> Iterator[Remark]:
    for i, switch in enumerate(source.topology.switches):
        ratio = switch_ratio(source.topology, switch.name)
        if ratio is None or ratio <= UP_OF_A_FULL_FABRIC:
            continue
        above = "beyond it" if switch.role is Role.BORDER else "upwards"
        message = f"oversubscribed {ratio_text(ratio)} {above}"
        right = "more or faster links up, or fewer hosts, would make it 1:1"
        place = _place(source, "switches", i)
        yield Remark(Severity.WARNING, place, switch.name, message, right)


def _long_hauls(source: Source) -> Iterator[Remark]:
    """Say what of the hosts' rate goes over the links between data centres."""
    for haul in long_hauls(source.topology):
        if haul.ratio <= UP_OF_A_FULL_FABRIC:
            continue
        rates = f"{format_rate(haul.hosts_bps)} of hosts, {format_rate(haul.out_bps)} out of it"
        message = f"the long haul is oversubscribed {ratio_text(haul.ratio)}: {rates}"
        right = "a job that sends little across needs no more: say what share of its bytes does"
        yield Remark(Severity.INFO, _hosts_place(source), haul.group, message, right)
