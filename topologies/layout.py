"""Where each node goes in a drawing: tiers in rows, groups side by side, hosts under their leaves.

`x` counts slots of a host's width from 0, `row` counts tiers: 0 the hosts, 1 the leaves, and so on
upwards. Where hosts have a port in each of two separate planes, the second plane hangs below the
hosts, in rows -1, -2, ...
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from topologies.model import Host, Role, Switch, Topology
from topologies.oversubscription import HEIGHT
from topologies.reach import Reach

GROUP_GAP = 0.8  # slots between two groups
SWITCH_WIDTH = 1.0


@dataclass(frozen=True)
class Place:
    """A node's place: `x` in slots from the left, `row` in tiers above the hosts."""

    x: float
    row: int


@dataclass(frozen=True)
class Box:
    """What encloses the nodes of a group."""

    name: str
    left: float
    right: float
    bottom: int
    top: int


@dataclass(frozen=True)
class Layout:
    """Places of all nodes, by name, and the boxes of the groups."""

    places: dict[str, Place]
    boxes: tuple[Box, ...]

    @cached_property
    def width(self) -> float:
        """The largest x, in slots."""
        return max((place.x for place in self.places.values()), default=0.0)

    @cached_property
    def rows(self) -> tuple[int, ...]:
        """The rows in use, from the top."""
        return tuple(sorted({place.row for place in self.places.values()}, reverse=True))

    def in_row(self, row: int) -> list[str]:
        """Return the nodes of a row, from the left."""
        names = [name for name, place in self.places.items() if place.row == row]
        return sorted(names, key=lambda name: self.places[name].x)


def row_title(topology: Topology, names: Sequence[str]) -> str:
    """Return what the nodes of a row are: 'spines', 'hosts', 'cores and borders'."""
    roles = [role.value for role in Role if any(_is_role(topology, name, role) for name in names)]
    plural = {"leaf": "leaves"}
    return " and ".join(plural.get(role, f"{role}s") for role in roles) or "hosts"


def _is_role(topology: Topology, name: str, role: Role) -> bool:
    return topology.is_switch(name) and topology.switch(name).role is role


def place(topology: Topology) -> Layout:
    """Return the layout of a topology; the same one each time."""
    return _Placer(topology).layout()


class _Placer:
    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.islands = Reach(topology).islands
        self.places: dict[str, Place] = {}
        self.mirrored = self._is_mirrored()

    def _is_mirrored(self) -> bool:
        """Say whether each host has one port in each of two planes."""
        return bool(self.topology.hosts) and all(
            sorted(self.islands[part.switch] for part in host.interfaces) == [0, 1]
            for host in self.topology.hosts
        )

    def layout(self) -> Layout:
        self._place_leaves_and_hosts()
        for height in range(2, max(HEIGHT.values()) + 1):
            self._place_above(height)
        return Layout(self.places, tuple(self._boxes()))

    def _row(self, switch: Switch) -> int:
        height = HEIGHT[switch.role]
        return -height if self.mirrored and self.islands[switch.name] == 1 else height

    def _home(self, host: Host) -> str | None:
        """Return the leaf under which a host stands; None where it belongs to several alike."""
        one_each = len({self.islands[part.switch] for part in host.interfaces})
        return host.switch if one_each == len(host.interfaces) else None

    def _place_leaves_and_hosts(self) -> None:
        lowest = [switch for switch in self.topology.switches if HEIGHT[switch.role] == 1]
        first = [switch for switch in lowest if self._row(switch) > 0]
        at_home: dict[str, list[str]] = {switch.name: [] for switch in first}
        roaming: dict[str, list[str]] = {}
        for host in self.topology.hosts:
            home = self._home(host)
            if home in at_home:
                at_home[home].append(host.name)
            else:
                roaming.setdefault(self.topology.switch(host.switch).group, []).append(host.name)
        x = 0.0
        group = first[0].group if first else ""
        for switch in first:
            if switch.group != group:
                group, x = switch.group, x + GROUP_GAP
            hosts = at_home[switch.name]
            width = max(SWITCH_WIDTH, len(hosts))
            self.places[switch.name] = Place(x + width / 2, 1)
            self._spread(hosts, x, x + width, 0)
            x += width
        for name, hosts in roaming.items():
            under = [self.places[s.name].x for s in first if s.group == name] or [0.0, x]
            self._spread(hosts, min(under) - 0.5, max(under) + 0.5, 0)
        for switch in lowest:
            if switch.name not in self.places:  # of the second plane: below its own hosts
                own = [self.places[host.name].x for host in self.topology.hosts_of(switch.name)]
                x = sum(own) / len(own) if own else x + SWITCH_WIDTH
                self.places[switch.name] = Place(x, self._row(switch))

    def _place_above(self, height: int) -> None:
        """Place the switches of a tier over the middle of what they join, evenly by group."""
        groups: dict[tuple[str, int], list[str]] = {}
        for switch in self.topology.switches:
            if HEIGHT[switch.role] == height:
                groups.setdefault((switch.group, self._row(switch)), []).append(switch.name)
        for (_, row), names in groups.items():
            below = [
                self.places[port.peer.node].x
                for name in names
                for port in self.topology.ports_of(name)
                if self._is_below(port.peer.node, height)
            ]
            left, right = (min(below) - 0.5, max(below) + 0.5) if below else (0.0, 1.0)
            missing = len(names) * SWITCH_WIDTH - (right - left)
            if missing > 0:
                left, right = left - missing / 2, right + missing / 2
            self._spread(names, left, right, row)
        for row in {row for _, row in groups}:
            self._push_apart(row)

    def _is_below(self, node: str, height: int) -> bool:
        return not self.topology.is_switch(node) or HEIGHT[self.topology.switch(node).role] < height

    def _spread(self, names: Sequence[str], left: float, right: float, row: int) -> None:
        step = (right - left) / max(1, len(names))
        for i, name in enumerate(names):
            self.places[name] = Place(left + (i + 0.5) * step, row)

    def _push_apart(self, row: int) -> None:
        """Keep a switch's width between neighbours of a row, without moving its middle."""
        names = sorted(
            (name for name, place in self.places.items() if place.row == row),
            key=lambda name: self.places[name].x,
        )
        xs = [self.places[name].x for name in names]
        middle = sum(xs) / len(xs)
        for i in range(1, len(xs)):
            xs[i] = max(xs[i], xs[i - 1] + SWITCH_WIDTH)
        shift = middle - sum(xs) / len(xs)
        for name, x in zip(names, xs, strict=True):
            self.places[name] = Place(x + shift, row)

    def _boxes(self) -> Iterable[Box]:
        members: dict[str, list[str]] = {}
        groups = [(node.group, node.name) for node in self.topology.switches]
        groups += [(node.group, node.name) for node in self.topology.hosts]
        for group, name in groups:
            if group:
                members.setdefault(group, []).append(name)
        for group, names in members.items():
            places = [self.places[name] for name in names]
            xs, rows = [place.x for place in places], [place.row for place in places]
            yield Box(group, min(xs) - 0.5, max(xs) + 0.5, min(rows), max(rows))
