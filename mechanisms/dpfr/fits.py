"""Whether a topology's links can be rerouted around: what lint says where DPFR does not fit.

DPFR knows the shortest ways, and takes no other. Where the death of one link leaves two leaves
without any, though a longer way is there (in a ring, say), a controller alone would do better.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mechanisms.dpfr.settings import KEY
from mechanisms.dpfr.ways import FabricWays
from topologies.errors import FieldPath
from topologies.lint.findings import Remark, Severity
from topologies.model import Link, Topology

LEAVE_OUT = "leave dpfr out here"
Only = frozenset[Link]
"""The links that all shortest ways of a switch to a leaf have in common."""


def fit_remarks(topology: Topology, prefix: FieldPath, fabric: FabricWays) -> Iterator[Remark]:
    """Yield why DPFR can't help in a topology, or would do harm."""
    where = (*prefix, KEY)
    if not any(fabric.of(switch.name).candidates for switch in topology.switches):
        message = "no two switches with hosts are joined by links: nothing can be rerouted"
        yield Remark(Severity.ERROR, where, topology.name, message, LEAVE_OUT)
        return
    only = dict(_only_ways(fabric))
    worse = [each for each in only if _joined(topology, *only[each], without=each)]
    if worse:
        link, (one, other) = worse[0], only[worse[0]]
        more = f" ({len(worse) - 1} more such links)" if len(worse) > 1 else ""
        message = (
            f"{one} has no shortest way to {other} without the link {link.a}-{link.b}{more}: once "
            "it is dead, DPFR drops their packets, and a controller's longer way is not taken"
        )
        right = f"{LEAVE_OUT}, or give each leaf two shortest ways to every other one"
        yield Remark(Severity.ERROR, where, topology.name, message, right)
    elif not any(
        ways & (ways - 1)
        for switch in topology.switches
        for ways in fabric.of(switch.name).candidates.values()
    ):
        message = (
            "no switch has two ways to any leaf: DPFR detects dead links here and notifies hosts, "
            "and can reroute nothing"
        )
        yield Remark(
            Severity.WARNING, where, topology.name, message, "add a spine, or parallel links"
        )


def _only_ways(fabric: FabricWays) -> Iterator[tuple[Link, tuple[str, str]]]:
    """Yield links that all shortest ways between two leaves have in common, with these leaves.

    Leaves of a group are alike, so that one of each is looked at as the destination. Raises
    PlanError.
    """
    groups: dict[int, int] = {}
    for each in fabric.destinations[: len(fabric.leaves)]:
        groups.setdefault(each.group, each.number)
    for number in groups.values():
        target = fabric.leaves[number].name
        found: dict[str, Only] = {target: frozenset()}
        for leaf in fabric.leaves:
            if leaf.name != target and number in fabric.of(leaf.name).candidates:
                for link in sorted(_only(fabric, leaf.name, number, found), key=str):
                    yield link, (leaf.name, target)


def _only(fabric: FabricWays, switch: str, number: int, found: dict[str, Only]) -> Only:
    """Return the links without which a switch has no way to a destination."""
    if switch not in found:
        ways = fabric.of(switch)
        each_way = (
            _only(fabric, port.peer.node, number, found) | {port.link}
            for way, port in enumerate(ways.ports)
            if ways.candidates[number] >> way & 1
        )
        common = next(each_way)
        for links in each_way:
            common &= links
            if not common:
                break
        found[switch] = common
    return found[switch]


def _joined(topology: Topology, one: str, other: str, *, without: Link) -> bool:
    """Say whether switches join two leaves in any way without a link."""
    beside: Mapping[str, set[str]] = {switch.name: set() for switch in topology.switches}
    for link in topology.links:
        if link != without and link.a.node in beside and link.b.node in beside:
            beside[link.a.node].add(link.b.node)
            beside[link.b.node].add(link.a.node)
    found, rim = {one}, [one]
    while rim:
        new = beside[rim.pop()] - found
        found |= new
        rim += new
    return other in found
