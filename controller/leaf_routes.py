"""Routes towards leaves, kept for a whole fabric and repaired where a link changes.

    Routes.of(topology, down)         all of them, computed at once
    routes.with_link(link, up=False)  another value, which shares all that the link does not touch

Traffic ends at hosts, so switches need routes to those that have hosts: the leaves. For each leaf
there is a column of distances, and each switch has a row with its way to every leaf. A link that
fails matters to a leaf only if its two ends are not equally far from it; then the farther end loses
a port. Only where that was its last one do distances grow, of that end and of what is behind it;
they are found again from the rim of that part inwards. A link that returns is the same backwards.

Values are immutable, and a row that did not change is the same object in both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from topologies.model import Link, Switch, Topology

PS_PER_S = 1_000_000_000_000
FRAME_BYTES = 38  # Ethernet's header, FCS, preamble and gap
_FAR = 1 << 30  # hops to what can't be reached
_BITS = 62  # of neighbours in one number


class Way(NamedTuple):
    """How a switch reaches a leaf: out of any of `ports` (ascending), all equally short.

    `round_trip_ps` (fabric picoseconds): there and back by the slowest of the ways, without queues:
    twice the propagation, and on each hop there the time in which a packet of the MTU is whole.
    """

    ports: tuple[int, ...]
    round_trip_ps: int


Row: TypeAlias = tuple[Way | None, ...]
_Neighbours: TypeAlias = tuple[tuple[int, int, int], ...]
"""Of one switch, by ascending port: own port, the number of the switch at its far end, its trip."""


def packet_ps(link: Link) -> int:
    """Return how long a packet of the link's MTU takes on it, in fabric picoseconds."""
    return (link.mtu_bytes + FRAME_BYTES) * 8 * PS_PER_S // link.rate_bps


def round_trip_ps(topology: Topology, link: Link) -> int:
    """Return what one link adds to the round trip of a `Way`, in fabric picoseconds.

    The latencies of the switches at its ends are in it.
    """
    return topology.there_and_back_ps(link) + packet_ps(link)


@dataclass(frozen=True)
class Ways:
    """One switch's ways: `row[i]` leads to `leaves[i]`; None where nothing does.

    The way to itself has no ports. `access_ps[i]`: the round trip of the slowest link from that
    leaf to a host, None where it has no host.
    """

    leaves: tuple[Switch, ...]
    access_ps: tuple[int | None, ...]
    row: Row

    def different(self) -> Iterator[tuple[Way, int | None]]:
        """Yield ways with the `access_ps` behind them; leaves that are alike in both come once.

        Mostly: equal ways that are not one object come again. Quick, for `Part.summary`.
        """
        row, access_ps = self.row, self.access_ps
        if access_ps and access_ps.count(access_ps[0]) == len(access_ps):
            ways = dict(zip(map(id, row), row, strict=True)).values()
            return ((way, access_ps[0]) for way in ways if way is not None)
        ids = zip(map(id, row), access_ps, strict=True)
        found = dict(zip(ids, row, strict=True))
        return ((way, access) for (_, access), way in found.items() if way is not None)

    def __iter__(self) -> Iterator[tuple[Switch, Way]]:
        """Yield the leaves that can be reached, with the way there, in the topology's order."""
        return (
            (leaf, way) for leaf, way in zip(self.leaves, self.row, strict=True) if way is not None
        )


@dataclass(frozen=True, eq=False)
class Routes:
    """All ways to leaves in a topology without the links in `down`.

    `leaves`: the switches that have a gateway, in the topology's order. `access_ps`: as in `Ways`.
    """

    topology: Topology
    down: frozenset[Link]
    leaves: tuple[Switch, ...]
    access_ps: tuple[int | None, ...]
    _index: Mapping[str, int]
    _places: Mapping[str, int]
    _neighbours: tuple[_Neighbours, ...]
    _hops: tuple[tuple[int, ...], ...]  # by leaf, then by switch
    _rows: tuple[Row, ...]  # by switch, then by leaf

    @classmethod
    def of(cls, topology: Topology, down: frozenset[Link] = frozenset()) -> Routes:
        """Compute all ways from nothing."""
        index = {switch.name: number for number, switch in enumerate(topology.switches)}
        neighbours = tuple(_neighbours(topology, name, index, down) for name in index)
        leaves = tuple(switch for switch in topology.switches if switch.gateway is not None)
        hops, rows = _search(neighbours, [index[leaf.name] for leaf in leaves])
        return cls(
            topology,
            down,
            leaves,
            tuple(_access_ps(topology, leaf) for leaf in leaves),
            index,
            {leaf.name: place for place, leaf in enumerate(leaves)},
            neighbours,
            hops,
            rows,
        )

    def row(self, switch: str) -> Row:
        """Return a switch's ways by the places of `leaves`; the same object while none changes."""
        return self._rows[self._index[switch]]

    def ways(self, switch: str) -> Ways:
        """Return a switch's ways."""
        return Ways(self.leaves, self.access_ps, self.row(switch))

    def farthest(self) -> int:
        """Return how many links lie between two leaves at most, of those that reach each other."""
        leaves = [self._index[leaf.name] for leaf in self.leaves]
        apart = (hops[leaf] for hops in self._hops for leaf in leaves)
        return max((links for links in apart if links < _FAR), default=0)

    def towards(self, switch: str, leaf: str) -> tuple[int, ...]:
        """Return the ports at `switch` that lead to `leaf`; empty if none does."""
        way = self.row(switch)[self._places[leaf]]
        return way.ports if way is not None else ()

    def with_down(self, down: frozenset[Link]) -> Routes:
        """Return the routes without the links in `down`, repaired link by link."""
        routes = self
        for link in self.down ^ down:
            routes = routes.with_link(link, up=link not in down)
        return routes

    def with_link(self, link: Link, up: bool) -> Routes:
        """Return the routes with one link more or less; itself where it is like that already."""
        if (link not in self.down) == up:
            return self
        down = self.down - {link} if up else self.down | {link}
        ends = [self._index.get(end.node) for end in (link.a, link.b)]
        a, b = ends
        if a is None or b is None:  # a host's link: routes lead to its leaf all the same
            return replace(self, down=down)
        neighbours = list(self._neighbours)
        for number in {a, b}:
            name = self.topology.switches[number].name
            neighbours[number] = _neighbours(self.topology, name, self._index, down)
        repair = _Repair(neighbours, self._rows)
        hops = list(self._hops)
        for place, column in enumerate(self._hops):
            if column[a] != column[b]:
                near, far = (a, b) if column[a] < column[b] else (b, a)
                hops[place] = repair.column(place, column, near, far, up)
        rows = repair.rows()
        return replace(
            self, down=down, _neighbours=tuple(neighbours), _hops=tuple(hops), _rows=rows
        )


class _Repair:
    """The rows of one fabric while the columns of a link's change are worked off."""

    def __init__(self, neighbours: Sequence[_Neighbours], rows: tuple[Row, ...]) -> None:
        self._neighbours = neighbours
        self._before = rows
        self._rows: list[Sequence[Way | None]] = list(rows)
        self._written: dict[int, list[Way | None]] = {}

    def rows(self) -> tuple[Row, ...]:
        """Return all rows; those in which nothing changed are the ones from before."""
        found = list(self._before)
        for switch, row in self._written.items():
            found[switch] = tuple(row)
        return tuple(found)

    def column(
        self, place: int, column: tuple[int, ...], near: int, far: int, up: bool
    ) -> tuple[int, ...]:
        """Repair the ways to one leaf; return the distances from it.

        `near` and `far` are the ends of the link, `far` farther from the leaf without it.
        """
        if up and column[far] > column[near] + 1:
            hops, moved = self._shortened(column, far, column[near] + 1)
        elif not up and not self._closer(far, column):
            hops, moved = self._lengthened(column, far)
        else:
            self._renew(place, column, (far,))
            return column
        touched = {there for here in moved for _, there, _ in self._neighbours[here]}
        self._renew(place, hops, touched.union(moved))
        return tuple(hops)

    def _closer(self, switch: int, hops: Sequence[int]) -> bool:
        """Say whether some neighbour of a switch is closer to the leaf than it is."""
        closer = hops[switch] - 1
        return any(hops[there] == closer for _, there, _ in self._neighbours[switch])

    def _shortened(
        self, column: tuple[int, ...], far: int, distance: int
    ) -> tuple[list[int], list[int]]:
        """Return the distances after `far` came closer, and the switches that did so with it."""
        hops = list(column)
        hops[far] = distance
        moved = [far]
        for here in moved:
            for _, there, _ in self._neighbours[here]:
                if hops[there] > hops[here] + 1:
                    hops[there] = hops[here] + 1
                    moved.append(there)
        return hops, moved

    def _lengthened(self, column: tuple[int, ...], far: int) -> tuple[list[int], list[int]]:
        """Return the distances after `far` lost its last way, and the switches that lost it too."""
        moved, lost = [far], {far}
        for here in moved:
            behind = column[here] + 1
            for _, there, _ in self._neighbours[here]:
                if column[there] == behind and there not in lost:
                    others = (other for _, other, _ in self._neighbours[there])
                    if all(column[other] != column[here] or other in lost for other in others):
                        lost.add(there)
                        moved.append(there)
        hops = list(column)
        for here in moved:
            hops[here] = _FAR
        rim = [(self._nearest(here, hops), here) for here in moved]
        heapify(rim)
        while rim:
            distance, here = heappop(rim)
            if distance >= hops[here]:
                continue
            hops[here] = distance
            for _, there, _ in self._neighbours[here]:
                if hops[there] > distance + 1:
                    heappush(rim, (distance + 1, there))
        return hops, moved

    def _nearest(self, switch: int, hops: Sequence[int]) -> int:
        return min((hops[there] + 1 for _, there, _ in self._neighbours[switch]), default=_FAR)

    def _renew(self, place: int, hops: Sequence[int], touched: Sequence[int] | set[int]) -> None:
        """Find the ways of `touched` switches to one leaf again, and of those behind, as needed.

        The nearest come first: a round trip is made of those of switches that are closer.
        """
        queue = [(hops[switch], switch) for switch in touched if hops[switch]]
        heapify(queue)
        done: set[int] = set()
        while queue:
            distance, switch = heappop(queue)
            if switch in done:
                continue
            done.add(switch)
            before = self._rows[switch][place]
            after = None
            if distance < _FAR:
                after = _way(self._neighbours[switch], hops, switch, self._rows, place)
            if after == before:
                continue
            self._write(switch, place, after)
            if after is None or (before is not None and after[1] == before[1]):
                continue
            for _, there, _ in self._neighbours[switch]:
                if hops[there] == distance + 1:
                    heappush(queue, (distance + 1, there))

    def _write(self, switch: int, place: int, way: Way | None) -> None:
        row = self._written.get(switch)
        if row is None:
            row = self._rows[switch] = self._written[switch] = list(self._before[switch])
        row[place] = way


def _neighbours(
    topology: Topology, name: str, index: Mapping[str, int], down: frozenset[Link]
) -> _Neighbours:
    """Return a switch's neighbours over links that are up."""
    return tuple(
        (port.number, index[port.peer.node], round_trip_ps(topology, port.link))
        for port in topology.ports_of(name)
        if port.peer.node in index and port.link not in down
    )


def _search(
    neighbours: Sequence[_Neighbours], leaves: Sequence[int]
) -> tuple[tuple[tuple[int, ...], ...], tuple[Row, ...]]:
    """Return `Routes._hops` and `Routes._rows`: from all leaves at once, a hop farther each time.

    Arrays have a row a switch, and one more for neighbours that are not there, and a column a leaf.
    Which neighbours are closer is kept as bits, since few sets of them are different.
    """
    count, most = len(neighbours), max(map(len, neighbours), default=0)
    there = np.full((count + 1, most), count, dtype=np.int64)
    trips = np.zeros((count + 1, most), dtype=np.int64)
    for switch, found in enumerate(neighbours):
        for place, (_, neighbour, trip) in enumerate(found):
            there[switch, place], trips[switch, place] = neighbour, trip
    hops = np.full((count + 1, len(leaves)), _FAR, dtype=np.int64)
    slowest = np.full(hops.shape, -1, dtype=np.int64)
    closer = np.zeros((most // _BITS + 1, *hops.shape), dtype=np.int64)
    places = np.arange(len(leaves))
    hops[leaves, places] = slowest[leaves, places] = 0
    for distance in range(1, count):
        new = np.zeros(hops.shape, dtype=bool)
        for place in range(most):
            new |= hops[there[:, place]] == distance - 1
        new &= hops == _FAR
        switches, columns = np.nonzero(new)
        if not len(switches):
            break
        for place in range(most):
            beyond = there[switches, place]
            leads = hops[beyond, columns] == distance - 1
            rows, of = switches[leads], columns[leads]
            closer[place // _BITS, rows, of] |= 1 << place % _BITS
            trip = slowest[beyond[leads], of] + trips[rows, place]
            slowest[rows, of] = np.maximum(slowest[rows, of], trip)
        hops[new] = distance
    known: dict[Way, Way] = {}  # equal ways are one object
    rows_found = tuple(
        _row(found, closer[:, switch], slowest[switch], known)
        for switch, found in enumerate(neighbours)
    )
    return tuple(map(tuple, hops[:count].T.tolist())), rows_found


def _row(neighbours: _Neighbours, closer: Any, slowest: Any, known: dict[Way, Way]) -> Row:
    """Return one switch's ways from its bits and trips by leaf."""
    keys = list(zip(*closer.tolist(), slowest.tolist(), strict=True))
    ways: dict[tuple[int, ...], Way | None] = {}
    for key in dict.fromkeys(keys):
        *words, trip = key
        ports = tuple(
            port
            for place, (port, _, _) in enumerate(neighbours)
            if words[place // _BITS] >> place % _BITS & 1
        )
        way = Way(ports, trip)
        ways[key] = None if trip < 0 else known.setdefault(way, way)
    return tuple(map(ways.__getitem__, keys))


def _way(
    neighbours: _Neighbours,
    hops: Sequence[int],
    switch: int,
    rows: Sequence[Sequence[Way | None]],
    place: int,
) -> Way:
    """Return a switch's way to a leaf; those of all switches that are closer are known."""
    closer, slowest, ports = hops[switch] - 1, 0, []
    for port, there, trip in neighbours:
        if hops[there] == closer:
            ports.append(port)
            way = rows[there][place]
            assert way is not None, "what is closer can be reached"
            slowest = max(slowest, way[1] + trip)
    return Way(tuple(ports), slowest)


def _access_ps(topology: Topology, leaf: Switch) -> int | None:
    links = (topology.link_at(each.switch, each.port) for each in topology.interfaces_of(leaf.name))
    return max((round_trip_ps(topology, link) for link in links), default=None)
