"""Numbers of ways and destinations, and which ways lead where: what a topology without faults says.

A way is a switch's port to another switch, by number from 0. A destination is a leaf, or a group of
leaves that are beside the same switches: a pod. Candidates are the ports of all shortest ways. Each
is a hop closer to the leaf, so no choice among them makes a loop, whatever is masked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from controller.leaf_routes import Routes
from topologies.kept import kept
from topologies.model import Port, Switch, Topology

WAYS = 64
"""As DPFR_WAYS of p4src/modules/dpfr.p4: bits of a set of ways."""

MOST_DESTINATIONS = 1 << 14


class PlanError(Exception):
    """A topology that DPFR does not fit; the message says why, and what would."""


@dataclass(frozen=True)
class Destination:
    """A leaf, or a group of leaves, by number. `group`: a leaf's, and a group's own."""

    number: int
    group: int
    leaves: tuple[Switch, ...]

    @property
    def network(self) -> int:
        """The address of the first leaf's network, for readers of a notification."""
        gateway = self.leaves[0].gateway
        assert gateway is not None, "a leaf has hosts"
        return int(gateway.network.network_address)


@dataclass(frozen=True)
class SwitchWays:
    """One switch: its ports to other switches by number of the way, and what they lead to.

    `candidates`: destination -> set of ways, as bits; a group has them if all its leaves have the
    same. `listeners`: destination -> the ports to the neighbours of which a candidate leads here,
    ascending; none if there are none. `behind`: by way, the destinations to look at when it dies:
    those that it leads to and that somebody listens for. Groups stand for their leaves.
    """

    ports: tuple[Port, ...]
    candidates: dict[int, int]
    listeners: dict[int, tuple[int, ...]]
    behind: tuple[tuple[int, ...], ...]


class FabricWays:
    """All of a topology. Raises PlanError."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self._routes = Routes.of(topology)
        self.leaves = self._routes.leaves
        self.destinations = tuple(self._numbered())
        self._kept: dict[str, SwitchWays] = {}
        self._led: dict[str, tuple[tuple[Port, ...], dict[int, int]]] = {}
        if len(self.destinations) > MOST_DESTINATIONS:
            raise PlanError(
                f"{topology.name} has {len(self.destinations)} leaves and groups, and DPFR "
                f"has room for {MOST_DESTINATIONS}"
            )

    def _numbered(self) -> Iterator[Destination]:
        beside: dict[frozenset[str], list[Switch]] = {}
        for leaf in self.leaves:
            ports = ports_to_switches(self.topology, leaf.name)
            beside.setdefault(frozenset(port.peer.node for port in ports), []).append(leaf)
        groups = [found for found in beside.values() if len(found) > 1]
        first = len(self.leaves)
        of = {leaf.name: first + n for n, found in enumerate(groups) for leaf in found}
        for number, leaf in enumerate(self.leaves):
            yield Destination(number, of.get(leaf.name, number), (leaf,))
        for n, found in enumerate(groups):
            yield Destination(first + n, first + n, tuple(found))

    def of(self, switch: str) -> SwitchWays:
        """Return one switch's ways."""
        if switch not in self._kept:
            self._kept[switch] = self._found(switch)
        return self._kept[switch]

    def longest(self) -> int:
        """Return how many destinations at most a switch has to look at when a way dies."""
        every = (self.of(switch.name).behind for switch in self.topology.switches)
        return max((len(behind) for each in every for behind in each), default=0)

    def _found(self, switch: str) -> SwitchWays:
        ports, candidates = self._leads(switch)
        heard: dict[int, list[int]] = {}
        for port in ports:
            others, theirs = self._leads(port.peer.node)
            here = 1 << next(n for n, other in enumerate(others) if other.number == port.peer.port)
            for number, ways in theirs.items():
                if ways & here and number in candidates:
                    heard.setdefault(number, []).append(port.number)
        listeners = {number: tuple(each) for number, each in heard.items()}
        behind = tuple(
            tuple(self._behind(candidates, listeners, 1 << way)) for way in range(len(ports))
        )
        return SwitchWays(ports, candidates, listeners, behind)

    def _leads(self, switch: str) -> tuple[tuple[Port, ...], dict[int, int]]:
        """Return a switch's ports to switches, and the candidates by destination."""
        if switch not in self._led:
            self._led[switch] = self._led_by(switch)
        return self._led[switch]

    def _led_by(self, switch: str) -> tuple[tuple[Port, ...], dict[int, int]]:
        ports = ports_to_switches(self.topology, switch)
        if len(ports) > WAYS:
            raise PlanError(f"{switch} has {len(ports)} links to switches, and DPFR numbers {WAYS}")
        way_of = {port.number: way for way, port in enumerate(ports)}
        candidates: dict[int, int] = {}
        for number, way in enumerate(self._routes.row(switch)):
            if way is not None and way.ports:
                candidates[number] = sum(1 << way_of[port] for port in way.ports)
        for each in self.destinations[len(self.leaves) :]:
            found = {candidates.get(leaf.number) for leaf in self._members(each)}
            only = found.pop() if len(found) == 1 else None
            if only is not None:
                candidates[each.number] = only
        return ports, candidates

    def _members(self, group: Destination) -> Iterator[Destination]:
        return (
            each for each in self.destinations[: len(self.leaves)] if each.group == group.number
        )

    def _behind(
        self, candidates: dict[int, int], listeners: dict[int, tuple[int, ...]], way: int
    ) -> Iterator[int]:
        for each in self.destinations:
            whole = each.group == each.number or each.group not in candidates
            if whole and each.number in listeners and candidates.get(each.number, 0) & way:
                yield each.number


def ports_to_switches(topology: Topology, switch: str) -> tuple[Port, ...]:
    """Return a switch's ports to other switches, by number."""
    return tuple(port for port in topology.ports_of(switch) if topology.is_switch(port.peer.node))


@kept
def ways_of(topology: Topology) -> FabricWays:
    """Return a topology's ways, kept as long as the topology is. Raises PlanError."""
    return FabricWays(topology)
