"""What one switch should hold, in pieces that each know what they depend on.

    head         topology, target, classes                         one of a switch
    groups       the sets of ports among its ways                  one of a switch
    host routes  topology                                          one of a switch
    routes       the way to a leaf, and its group's number         one for each leaf
    tail         topology, program                                 one of a switch
    of each part:
      fixed      topology, target, policy, what is switched off    one of a switch
      towards    the round trip to a leaf                          one for each leaf
      summed up  one value of the part's summary of all ways       one for each key

A `Plan` is a value: a function of its `Basis`, of its switch's row of ways and of what is switched
off. `moved` makes the plan for another row or another choice, and the updates from this one to
that: it looks at what differs only, and gives what `controller.diff.changes` gives for both in
full. A `Basis` is all else that plans depend on; it also keeps entries that switches share.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, compress
from operator import is_not
from typing import Any, overload

from controller import base_entries
from controller.base_entries import GroupPorts
from controller.diff import Change, Difference, canonical
from controller.entries import Entry
from controller.leaf_routes import Routes, Row, Ways
from controller.p4info import P4Info
from controller.parts import FabricView, Part, View
from controller.policy import FabricPolicy
from controller.target_facts import TargetFacts
from topologies.model import Switch, Topology

Piece = tuple[Entry, ...]
_KEPT_ENTRIES = 1 << 16  # of which other switches, or this one later, may hold an equal one
_KEPT_GROUPS = 1 << 14  # sets of ports; failures make new ones as long as a fabric runs
_NOTHING: Piece = ()


class Basis:
    """What the plans of all switches with one program depend on, beside their ways.

    Immutable but for what it keeps, which are results of pure functions of it.
    """

    def __init__(
        self,
        topology: Topology,
        p4info: P4Info,
        facts: TargetFacts,
        policy: FabricPolicy,
        parts: tuple[Part, ...],
        routes: Routes,
    ) -> None:
        """`routes`: of `topology`, for its leaves."""
        self.topology = topology
        self.p4info = p4info
        self.facts = facts
        self.policy = replace(policy, off=frozenset())
        self.parts = parts
        self.leaves = routes.leaves
        self.access_ps = routes.access_ps
        self.place = {leaf.name: place for place, leaf in enumerate(routes.leaves)}
        known = p4info.tables
        self.tables = tuple(
            (number, frozenset(table for table in part.tables if table in known))
            for number, part in enumerate(parts)
        )
        self.views = tuple(
            (parts[number], FabricView(topology, facts, self.policy, tables))
            for number, tables in self.tables
            if tables
        )
        self._towards: dict[tuple[int, int, int], Piece] = {}
        self._routes: dict[tuple[int, bool, int], Entry] = {}
        self._one: Callable[[Entry], Entry] = lru_cache(_KEPT_ENTRIES)(self._canonical)
        self.member: Callable[[int], Entry] = lru_cache(None)(self._member)
        self.group: Callable[[int, tuple[int, ...]], Entry] = lru_cache(_KEPT_GROUPS)(self._group)
        self.group_use: Callable[[int], Entry] = lru_cache(None)(self._group_use)

    def fits(
        self,
        topology: Topology,
        p4info: P4Info,
        facts: TargetFacts,
        policy: FabricPolicy,
        parts: tuple[Part, ...],
    ) -> bool:
        """Say whether plans for this have this basis; what is switched off is no part of it."""
        return (
            self.topology is topology
            and self.p4info is p4info
            and self.facts == facts
            and self.parts == parts
            and self.policy == replace(policy, off=frozenset())
        )

    def canonical(self, entries: Iterable[Entry]) -> Piece:
        """Return entries as a switch reports them. Raises ControllerError for what can't be."""
        return tuple(map(self._one, entries))

    def towards(self, part: int, place: int, round_trip_ps: int) -> Piece:
        """Return what part `part` of `views` wants for a leaf from wherever it is so far away."""
        key = (part, place, round_trip_ps)
        found = self._towards.get(key)
        if found is None:
            mechanism, view = self.views[part]
            leaf = self.leaves[place]
            found = self.canonical(mechanism.entries_towards(view, leaf, round_trip_ps))
            self._towards[key] = found
        return found

    def route(self, place: int, ports: tuple[int, ...], number: int) -> Entry:
        """Return the route to a leaf: over group `number`, or out of the only port."""
        grouped = len(ports) > 1
        key = (place, grouped, number if grouped else ports[0])
        found = self._routes.get(key)
        if found is None:
            leaf = self.leaves[place]
            make = base_entries.route_over_group if grouped else base_entries.route_over_port
            found = self._routes[key] = self._one(make(leaf, key[2]))
        return found

    def _member(self, port: int) -> Entry:
        return self._one(base_entries.member(port))

    def _group(self, number: int, ports: tuple[int, ...]) -> Entry:
        return self._one(base_entries.group(number, ports, self.facts.watches_ports))

    def _group_use(self, number: int) -> Entry:
        return self._one(base_entries.group_use(number))

    def _canonical(self, entry: Entry) -> Entry:
        (found,) = canonical((entry,), self.p4info)
        return found


@dataclass(frozen=True)
class _PartPlan:
    """What one part wants a switch to hold."""

    fixed: Piece
    towards: tuple[Piece, ...]  # by leaf
    summary: Mapping[Hashable, Hashable]
    summed_up: Mapping[Hashable, Piece]  # by the keys of `summary`


@dataclass(frozen=True, eq=False)
class Plan(Sequence[Entry]):
    """All entries of one switch, in an order in which they can be installed."""

    basis: Basis
    switch: Switch
    row: Row
    off: frozenset[str]
    head: Piece
    groups: GroupPorts
    host_routes: Piece
    routes: tuple[Entry | None, ...]  # by leaf
    tail: Piece
    parts: tuple[_PartPlan, ...]

    @classmethod
    def of(cls, basis: Basis, switch: Switch, row: Row, off: frozenset[str]) -> Plan:
        """Make all pieces. Raises ControllerError for what the program can't hold."""
        topology, groups = basis.topology, base_entries.groups_of(row)
        ways = Ways(basis.leaves, basis.access_ps, row)
        return cls(
            basis,
            switch,
            row,
            off,
            basis.canonical(base_entries.head(topology, switch, basis.facts, basis.policy)),
            groups,
            basis.canonical(base_entries.host_routes(topology, switch)),
            _routes(basis, row, groups),
            basis.canonical(_tail(basis, switch)),
            tuple(
                _part_plan(basis, number, switch, ways, off) for number in range(len(basis.views))
            ),
        )

    def _pieces(self) -> Iterator[Iterable[Entry]]:
        yield self.head
        yield _group_entries(self.basis, self.groups)
        yield self.host_routes
        yield (route for route in self.routes if route is not None)
        yield self.tail
        for part in self.parts:
            yield part.fixed
            yield from part.towards
            yield from part.summed_up.values()

    def __iter__(self) -> Iterator[Entry]:
        return chain.from_iterable(self._pieces())

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @overload
    def __getitem__(self, index: int) -> Entry: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Entry, ...]: ...
    def __getitem__(self, index: int | slice) -> Entry | tuple[Entry, ...]:
        return tuple(self)[index]

    def __eq__(self, other: object) -> bool:
        """Compare entries and their order, whatever plan or tuple they are in."""
        if not isinstance(other, Plan | tuple):
            return NotImplemented
        return self is other or tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    def moved(self, row: Row, off: frozenset[str]) -> tuple[Plan, tuple[Change, ...]]:
        """Return the plan for other ways or another choice of what is off, and what changes."""
        found = Difference()
        basis, groups, routes, parts = self.basis, self.groups, self.routes, self.parts
        places = list(compress(range(len(row)), map(is_not, self.row, row)))
        if places:
            groups = base_entries.groups_of(row)
            self._compare_groups(groups, found)
            renewed = sorted({*places, *self._renumbered(groups)})
            routes = _routes_at(basis, row, groups, routes, renewed)
            for place in renewed:
                found.add(self.routes[place], routes[place])
        if parts and (places or off != self.off):
            ways = Ways(basis.leaves, basis.access_ps, row)
            parts = tuple(
                self._part_moved(number, part, ways, places, off, found)
                for number, part in enumerate(parts)
            )
        plan = Plan(
            basis,
            self.switch,
            row,
            off,
            self.head,
            groups,
            self.host_routes,
            routes,
            self.tail,
            parts,
        )
        return plan, found.changes()

    def _renumbered(self, groups: GroupPorts) -> Iterator[int]:
        """Yield the places of leaves whose group has another number among `groups`."""
        number_of = {ports: number for number, ports in enumerate(groups)}
        others = {
            ports
            for number, ports in enumerate(self.groups)
            if number_of.get(ports, number) != number
        }
        if others:
            for place, way in enumerate(self.row):
                if way is not None and way.ports in others:
                    yield place

    def _compare_groups(self, groups: GroupPorts, found: Difference) -> None:
        """Add what makes one set of groups the other, in the order of `group_entries`."""
        basis, before = self.basis, self.groups
        if groups == before:
            return
        there, wanted = base_entries.members_of(before), base_entries.members_of(groups)
        for port in wanted:
            if port not in there:
                found.add(None, basis.member(port))
        for port in there:
            if port not in wanted:
                found.add(basis.member(port), None)
        last = max(len(before), len(groups))
        for number in range(1, last + 1):
            old = before[number - 1] if number <= len(before) else None
            new = groups[number - 1] if number <= len(groups) else None
            if old != new:
                found.add(
                    None if old is None else basis.group(number, old),
                    None if new is None else basis.group(number, new),
                )
        for number in range(len(groups) + 1, len(before) + 1):
            found.add(basis.group_use(number), None)
        for number in range(len(before) + 1, len(groups) + 1):
            found.add(None, basis.group_use(number))

    def _part_moved(
        self,
        number: int,
        part: _PartPlan,
        ways: Ways,
        places: Sequence[int],
        off: frozenset[str],
        found: Difference,
    ) -> _PartPlan:
        basis = self.basis
        changed: dict[str, Any] = {}
        if off != self.off:
            fixed = basis.canonical(_fixed(basis, number, self.switch, off))
            found.add_all(part.fixed, fixed)
            changed["fixed"] = fixed
        if places:
            towards = list(part.towards)
            for place in places:
                before, way = towards[place], ways.row[place]
                after = _NOTHING if way is None else basis.towards(number, place, way.round_trip_ps)
                if before is not after:
                    found.add_all(before, after)
                    towards[place] = after
            changed["towards"] = tuple(towards)
            mechanism, view = _view(basis, number, self.switch)
            summary = mechanism.summary(view, ways)
            if summary != part.summary:
                summed_up = _summed_up(basis, mechanism, view, summary, part)
                for key in _both(part.summed_up, summed_up):
                    before, piece = part.summed_up.get(key, _NOTHING), summed_up.get(key, _NOTHING)
                    if piece is not before:
                        found.add_all(before, piece)
                changed.update(summary=summary, summed_up=summed_up)
        return replace(part, **changed)


def _group_entries(basis: Basis, groups: GroupPorts) -> Iterator[Entry]:
    yield from map(basis.member, base_entries.members_of(groups))
    for number, ports in enumerate(groups, 1):
        yield basis.group(number, ports)
    yield from map(basis.group_use, range(1, len(groups) + 1))


def _tail(basis: Basis, switch: Switch) -> Iterator[Entry]:
    tables, topology = basis.p4info.tables, basis.topology
    yield from base_entries.tail(topology, switch, "host_port" in tables)
    if "notification_mode" in tables:
        yield from base_entries.notifying(topology, switch, basis.facts, basis.policy)


def _routes(basis: Basis, row: Row, groups: GroupPorts) -> tuple[Entry | None, ...]:
    nothing: tuple[Entry | None, ...] = (None,) * len(row)
    return _routes_at(basis, row, groups, nothing, range(len(row)))


def _routes_at(
    basis: Basis,
    row: Row,
    groups: GroupPorts,
    routes: Sequence[Entry | None],
    places: Iterable[int],
) -> tuple[Entry | None, ...]:
    """Return the routes, with those to the leaves at `places` computed again."""
    number_of = {ports: number for number, ports in enumerate(groups, 1)}
    made = list(routes)
    for place in places:
        way = row[place]
        if way is None or not way.ports:
            made[place] = None
        else:
            made[place] = basis.route(place, way.ports, number_of.get(way.ports, 0))
    return tuple(made)


def _part_plan(
    basis: Basis, number: int, switch: Switch, ways: Ways, off: frozenset[str]
) -> _PartPlan:
    mechanism, view = _view(basis, number, switch)
    summary = mechanism.summary(view, ways)
    nothing = _PartPlan(_NOTHING, (), {}, {})
    return _PartPlan(
        basis.canonical(_fixed(basis, number, switch, off)),
        tuple(
            _NOTHING if way is None else basis.towards(number, place, way.round_trip_ps)
            for place, way in enumerate(ways.row)
        ),
        summary,
        _summed_up(basis, mechanism, view, summary, nothing),
    )


def _both(before: Iterable[Hashable], after: Iterable[Hashable]) -> Iterator[Hashable]:
    """Yield the keys of two summaries in the one order that both are in."""
    old, new = dict.fromkeys(before), dict.fromkeys(after)
    gone = iter(old)
    for key in new:
        if key in old:
            for other in gone:
                if other == key:
                    break
                if other not in new:
                    yield other
        yield key
    yield from (other for other in gone if other not in new)


def _summed_up(
    basis: Basis,
    mechanism: Part,
    view: View,
    summary: Mapping[Hashable, Hashable],
    before: _PartPlan,
) -> Mapping[Hashable, Piece]:
    """Return the pieces of a summary; those whose value is as before are the same ones."""
    found: dict[Hashable, Piece] = {}
    for key, value in summary.items():
        if key in before.summary and before.summary[key] == value:
            found[key] = before.summed_up[key]
        else:
            found[key] = basis.canonical(mechanism.entries_of(view, key, value))
    return found


def _fixed(basis: Basis, number: int, switch: Switch, off: frozenset[str]) -> Iterator[Entry]:
    mechanism, view = _view(basis, number, switch)
    return mechanism.entries(replace(view, policy=replace(basis.policy, off=off)))


def _view(basis: Basis, number: int, switch: Switch) -> tuple[Part, View]:
    mechanism, view = basis.views[number]
    return mechanism, View(view.topology, view.facts, view.policy, view.tables, switch)
