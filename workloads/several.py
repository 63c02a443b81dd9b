"""Queue pairs that use all interfaces of both hosts (`transport: {interfaces: all}`).

The k-th interface of the source talks to the k-th of the destination, so that both hosts have as
many, and each pair meets.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from topologies.model import Interface, Link, Topology
from topologies.reach import Reach
from workloads.job_schema import JobEntry
from workloads.senders import of_planes
from workloads.transport_schema import TransportFields

MAX_INTERFACES = 8  # of a card: hostagent/rnic/core/rnic.h
MAX_PATHS = 256  # of a queue pair of several interfaces: these by UDP ports


def span(transport: TransportFields | None) -> bool:
    """Say whether queue pairs use all interfaces of their hosts."""
    return transport is not None and transport.interfaces == "all"


def links_of(topology: Topology, hosts: Sequence[Interface], *, whole: bool) -> list[Link]:
    """Return the links of these interfaces, or `whole`, all those of their hosts."""
    ends = [i for end in hosts for i in (topology.host(end.host).interfaces if whole else (end,))]
    return [topology.link_at(end.host, end.number) for end in ends]


def unjoined(
    topology: Topology,
    reach: Reach,
    transport: TransportFields,
    sources: Iterable[Interface],
    targets: Iterable[Interface],
) -> str | None:
    """Return why a host of one list can't have such a queue pair with one of the other."""
    from_hosts, to_hosts = (
        list(dict.fromkeys(interface.host for interface in ends)) for ends in (sources, targets)
    )
    islands = {
        name: tuple(reach.islands[i.switch] for i in topology.host(name).interfaces)
        for name in dict.fromkeys((*from_hosts, *to_hosts))
    }
    ports = transport.source_ports
    planes = of_planes(transport)
    for name, of_host in islands.items():
        n = len(of_host)
        if n == 1 and planes:
            return f"{name} has one interface, and {planes[0].key!r} needs two planes at least"
        if n > MAX_INTERFACES:
            return f"{name} has {n} interfaces: a queue pair uses at most {MAX_INTERFACES}"
        if n > 1 and n * ports > MAX_PATHS:
            return f"{n} interfaces by {ports} UDP ports: at most {MAX_PATHS} paths"
    firsts = {islands[name]: name for name in reversed(from_hosts)}
    for there in to_hosts:
        for of_host, here in firsts.items():
            other = islands[there]
            if len(of_host) != len(other):
                return (
                    f"{here} has {len(of_host)} interface{'s'[: len(of_host) - 1]} and {there} has "
                    f"{len(other)}: a queue pair over all needs as many at both ends"
                )
            for k, (one, two) in enumerate(zip(of_host, other, strict=True)):
                if one != two:
                    return (
                        f"no links join {here}:{k} and {there}:{k}, and a queue pair over all "
                        "interfaces joins the first to the first, and so on"
                    )
    return None


def rank_problem(
    topology: Topology,
    reach: Reach,
    transport: TransportFields,
    job: JobEntry,
    ranks: Sequence[Interface],
) -> str | None:
    """Return why the ranks of a job can't have such queue pairs."""
    if job.interfaces == "all":
        return "the transport's queue pairs use all interfaces, so that a host has one rank"
    for interface in ranks:
        if interface.number:
            return f"{interface.end}: the transport's queue pairs use all interfaces: name the host"
    return unjoined(topology, reach, transport, ranks, ranks)
