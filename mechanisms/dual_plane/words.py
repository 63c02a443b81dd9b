"""The word `plane` at the prompt: the planes of a fabric, and maintenance of one of them.

Hosts choose the planes that they send by, so a plane is drained at the hosts: their cards let no
new packet take it, and what is on the way arrives. Switches and routes stay as they are.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator

from mechanisms.contract import Rows, Running, Word, WordError
from topologies.errors import did_you_mean
from topologies.model import Endpoint, Link, Topology
from topologies.planes import Plane, Planes, planes_of

DRAIN, UNDRAIN = "drain", "undrain"
PATIENCE_S = 10.0
_LOOK_S = 0.02
_USAGE = "plane [drain|undrain NAME]"
_COLUMNS = ("plane", "switches", "links up", "hosts", "on the way", "now")


def _plane(running: Running, rest: str) -> Iterator[str | Rows]:
    word, _, name = rest.partition(" ")
    name = name.strip()
    if word not in ("", DRAIN, UNDRAIN) or bool(word) != bool(name):
        raise WordError(f"{_USAGE}, not {rest!r}")
    planes = planes_of(running.topology)
    without = f"{running.topology.name} has no planes: no host has interfaces that do not meet"
    if not planes.planes:
        if word:
            raise WordError(without, "topologies of generators dual_plane and hpn have them")
        yield without
        return
    if not word:
        yield from _shown(running, planes)
    elif word == DRAIN:
        yield from _drain(running, planes, _named(planes, name))
    else:
        plane = _named(planes, name)
        running.cards.drain(_ends(plane), False)
        yield f"plane {plane.name}: hosts may send by it again"


def _named(planes: Planes, name: str) -> Plane:
    """Return a plane by its name, with or without the word before it. Raises WordError."""
    try:
        return planes.named(name.removeprefix("plane "))
    except KeyError:
        names = [plane.name for plane in planes.planes]
        hint = did_you_mean(name, names) or f"; available: {', '.join(names)}"
        raise WordError(f"no plane is called {name!r}{hint}") from None


def _ends(plane: Plane) -> frozenset[Endpoint]:
    return frozenset(part.end for part in plane.interfaces)


def _is_drained(running: Running, plane: Plane) -> bool:
    return bool(plane.interfaces) and _ends(plane) <= running.cards.drained


def _drain(running: Running, planes: Planes, plane: Plane) -> Iterator[str]:
    others = [each for each in planes.planes if each is not plane]
    if all(_is_drained(running, each) for each in others):
        names = " and ".join(each.name for each in others)
        raise WordError(
            f"{plane.name} is the last plane that is not drained: hosts would go on sending by it",
            f"plane undrain NAME first, with NAME of {names}",
        )
    ends = _ends(plane)
    hosts = len({end.node for end in ends})
    running.cards.drain(ends, True)
    yield f"plane {plane.name}: {_counted(len(ends), 'interface')} of {_counted(hosts, 'host')}"
    yield from _waited(running, plane, ends)


def _waited(running: Running, plane: Plane, ends: Collection[Endpoint]) -> Iterator[str]:
    """Wait until nothing is on the way by a plane; say how long that took."""
    start = time.monotonic()
    while left := running.cards.outstanding(ends):
        if time.monotonic() - start > PATIENCE_S:
            yield (
                f"plane {plane.name}: drained, and {_counted(left, 'packet')} still on the way "
                f"after {PATIENCE_S:g} s: do not take it down yet; plane shows what is left"
            )
            return
        time.sleep(_LOOK_S)
    waited = time.monotonic() - start
    yield (
        f"plane {plane.name}: drained; nothing on the way after {waited:.2f} s, so that it may "
        f"be taken down. plane undrain {plane.name}: hosts use it again"
    )


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _shown(running: Running, planes: Planes) -> Iterator[str | Rows]:
    rows = []
    for plane in planes.planes:
        ends = _ends(plane)
        links = _links(running.topology, plane)
        up = sum(link not in running.controller.links_down for link in links)
        rows.append(
            [
                plane.name,
                str(len(plane.switches)),
                f"{up} of {len(links)}",
                str(len({end.node for end in ends})),
                _counted(running.cards.outstanding(ends), "packet"),
                "drained" if _is_drained(running, plane) else "in use",
            ]
        )
    yield Rows(_COLUMNS, rows, f"planes of {running.topology.name}")
    shared = [name for name, _ in planes.shared]
    joints = [f"{link.a} - {link.b}" for link in planes.joints]
    if shared:
        yield f"several planes have {', '.join(shared)}"
    if joints:
        yield f"planes are joined by {', '.join(joints)}"


def _links(topology: Topology, plane: Plane) -> list[Link]:
    """Return the links of a plane: among its switches, and to hosts."""
    inside = {*plane.switches, *(host.name for host in topology.hosts)}
    own = set(plane.switches)
    return [
        link
        for link in topology.links
        if {link.a.node, link.b.node} <= inside and {link.a.node, link.b.node} & own
    ]


WORDS = (
    Word(
        "plane",
        "[drain|undrain NAME]",
        "the planes of the fabric; maintenance of one without losing a packet",
        _plane,
        """\
plane             each plane's switches, its links that are up, what hosts have on the way by it
plane drain B     hosts send nothing new by plane B; waits until what is on the way has arrived
plane undrain B   hosts use it again
Only queue pairs over planes move to the others (transport: failover; queue pairs of one interface
and TCP stay). Without another plane that works, hosts send by a drained one rather than not at all.
Hosts' endpoints that start later know it, too; help: docs/topologies.md.""",
        (DRAIN, UNDRAIN),
    ),
)
