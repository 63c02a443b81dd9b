"""Faults of links: rates, delays and queues that do not fit together, MTUs that differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from topologies.errors import FieldPath
from topologies.lint.findings import Remark, Severity
from topologies.loader import Source
from topologies.model import Link, Topology
from topologies.oversubscription import HEIGHT
from topologies.reach import Reach
from topologies.units import format_duration, format_rate, format_size

PS_PER_S = 10**12
MIN_QUEUED_PACKETS = 2


def link_faults(source: Source) -> Iterator[Remark]:
    """Yield what is wrong with the links."""
    paths = dict(zip(source.topology.links, source.link_paths, strict=True))
    yield from _hosts_above_uplinks(source.topology, paths)
    yield from _unequal_ways(source.topology, paths)
    yield from _queues(source.topology, paths)
    yield from _mtus(source.topology, paths)


def _name(link: Link) -> str:
    return f"{link.a}-{link.b}"


def _uplinks(topology: Topology, switch: str) -> list[Link]:
    """Return a switch's links to switches of its own tier and above."""
    height = HEIGHT[topology.switch(switch).role]
    return [
        port.link
        for port in topology.ports_of(switch)
        if topology.is_switch(port.peer.node)
        and HEIGHT[topology.switch(port.peer.node).role] >= height
    ]


def _hosts_above_uplinks(topology: Topology, paths: dict[Link, FieldPath]) -> Iterator[Remark]:
    for switch in topology.switches:
        uplinks = _uplinks(topology, switch.name)
        if not uplinks:
            continue
        fastest = max(link.rate_bps for link in uplinks)
        for part in topology.interfaces_of(switch.name):
            link = topology.link_at(part.host, part.number)
            if link.rate_bps > fastest:
                message = (
                    f"at {format_rate(link.rate_bps)} the host sends faster than any uplink of "
                    f"its leaf ({format_rate(fastest)}), and one flow takes one uplink"
                )
                right = "give the uplinks at least the hosts' rate"
                yield Remark(Severity.WARNING, paths[link], _name(link), message, right)


def _unequal_ways(topology: Topology, paths: dict[Link, FieldPath]) -> Iterator[Remark]:
    """Yield remarks on links of one switch that share traffic by hash.

    They lead to one neighbour, or up to one tier.
    """
    seen: set[tuple[Link, str]] = set()
    for switch in topology.switches:
        parallel: dict[str, list[Link]] = {}
        for port in topology.ports_of(switch.name):
            peer = port.peer.node
            if topology.is_switch(peer):
                parallel.setdefault(f"the links between {switch.name} and {peer}", []).append(
                    port.link
                )
        upwards: dict[str, list[Link]] = {}
        for link in _uplinks(topology, switch.name):
            other = topology.switch(link.b.node if link.a.node == switch.name else link.a.node)
            if HEIGHT[other.role] > HEIGHT[switch.role]:
                key = f"the uplinks of {switch.name} to its {other.role.value} switches"
                upwards.setdefault(key, []).append(link)
        for what, links in (*parallel.items(), *upwards.items()):
            for remark, link, kind in _differences(what, links, paths):
                if (link, kind) not in seen:
                    seen.add((link, kind))
                    yield remark


def _differences(
    what: str, links: list[Link], paths: dict[Link, FieldPath]
) -> Iterator[tuple[Remark, Link, str]]:
    """Yield a remark for each link whose rate or delay is not that of most of `links`."""
    rates = [link.rate_bps for link in links]
    delays = [link.delay_ps for link in links]
    usual_rate, usual_delay = max(rates, key=rates.count), max(delays, key=delays.count)
    for link in links:
        subject, path = _name(link), paths[link]
        if link.rate_bps != usual_rate:
            message = f"{format_rate(link.rate_bps)}, where {what} have {format_rate(usual_rate)}"
            right = "hashing gives each the same share: give them one rate"
            yield Remark(Severity.WARNING, path, subject, message, right), link, "rate"
        if link.delay_ps != usual_delay:
            message = (
                f"delay {format_duration(link.delay_ps)}, "
                f"where {what} have {format_duration(usual_delay)}"
            )
            right = "packets that change their way overtake each other: give them one delay"
            yield Remark(Severity.WARNING, path, subject, message, right), link, "delay"


def _queues(topology: Topology, paths: dict[Link, FieldPath]) -> Iterator[Remark]:
    for link in topology.links:
        product = link.rate_bps * 2 * link.delay_ps // (8 * PS_PER_S)
        queue = format_size(link.queue_bytes)
        least = MIN_QUEUED_PACKETS * link.mtu_bytes
        if link.queue_bytes < least:
            message = f"a queue of {queue} does not hold {MIN_QUEUED_PACKETS} full packets"
            right = f"{format_size(least)} is the least"
            yield Remark(Severity.ERROR, paths[link], _name(link), message, right)
        elif link.queue_bytes < product:
            message = (
                f"a queue of {queue} is shorter than what is in flight over this link and back "
                f"({format_size(product)})"
            )
            right = f"congestion control over it needs queue: {format_size(product)} or more"
            yield Remark(Severity.WARNING, paths[link], _name(link), message, right)


def _mtus(topology: Topology, paths: dict[Link, FieldPath]) -> Iterator[Remark]:
    islands = Reach(topology).islands
    hosts: dict[int, list[Link]] = {}
    for part in topology.interfaces():
        link = topology.link_at(part.host, part.number)
        hosts.setdefault(islands[part.switch], []).append(link)
    most = {island: max(each.mtu_bytes for each in links) for island, links in hosts.items()}
    for link in topology.links:
        if not (topology.is_switch(link.a.node) and topology.is_switch(link.b.node)):
            continue
        largest = most.get(islands[link.a.node], 0)
        if link.mtu_bytes < largest:
            message = f"MTU {link.mtu_bytes} B, and hosts send packets of {largest} B"
            right = f"switches drop what does not fit: give it mtu: {largest}B"
            yield Remark(Severity.ERROR, paths[link], _name(link), message, right)
    for links in hosts.values():
        sizes = Counter(link.mtu_bytes for link in links)
        usual = max(sizes, key=sizes.__getitem__)
        for link in links:
            if link.mtu_bytes != usual:
                message = f"MTU {link.mtu_bytes} B, where the other hosts have {usual} B"
                right = f"RoCE's two ends must agree on a size: give it mtu: {usual}B"
                yield Remark(Severity.WARNING, paths[link], _name(link), message, right)
