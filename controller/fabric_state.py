"""What every switch should hold, and how events change it: `(model, event, now) -> writes`.

    topology + failures + policy + target's units -> entries of each switch (a pure function)
    entries wanted - entries there               -> the fewest updates    (controller.diff)

An event costs what it touches. Routes are repaired where a link changed (`leaf_routes`), and a
switch's plan is made of pieces (`switch_plan`), of which only those are made again whose inputs
are others. `desired_entries` is the same without any memory, which tests hold the rest against.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeAlias

from controller import base_entries
from controller.diff import Change, Difference, Operation, canonical, changes
from controller.entries import DefaultEntry, Entry, TableEntry
from controller.leaf_routes import Routes
from controller.p4info import P4Info
from controller.parts import FabricView, Learned, LearnedEntry, Part, View, all_parts
from controller.policy import FabricPolicy
from controller.switch_plan import Basis, Plan
from controller.target_facts import TargetFacts
from topologies.model import Link, Switch, Topology


@dataclass(frozen=True)
class _Kept:
    """What a model's next step can start from. Holds for the topology and failures it names."""

    routes: Routes
    bases: tuple[Basis, ...] = ()


@dataclass(frozen=True)
class FabricModel:
    """All that the logic remembers. `installed` holds what each connected switch has.

    `p4infos` holds those of switches that run another program than the rest. `learned`: entries
    that come from what switches saw rather than from the topology, by switch and key; they are not
    among `installed`. `parts`: what mechanisms add (`controller.parts`). `kept` is no state: what
    it holds follows from the rest, and is rebuilt where it does not fit.
    """

    topology: Topology
    p4info: P4Info
    facts: TargetFacts = field(default_factory=TargetFacts)
    policy: FabricPolicy = field(default_factory=FabricPolicy)
    down: frozenset[Link] = frozenset()
    installed: Mapping[str, Sequence[Entry]] = field(default_factory=dict)
    p4infos: Mapping[str, P4Info] = field(default_factory=dict)
    learned: Mapping[str, Mapping[object, LearnedEntry]] = field(default_factory=dict)
    parts: tuple[Part, ...] = field(default_factory=all_parts)
    kept: _Kept | None = field(default=None, compare=False, repr=False)

    def info(self, switch: str) -> P4Info:
        """Return the P4Info of the program that a switch runs."""
        return self.p4infos.get(switch, self.p4info)

    def routes(self) -> Routes:
        """Return the routes around the links that are down: those kept, if they are these."""
        kept = None if self.kept is None else self.kept.routes
        if kept is None or kept.topology is not self.topology:
            return Routes.of(self.topology, self.down)
        return kept.with_down(self.down)

    def with_routes(self) -> FabricModel:
        """Return the same model that keeps its routes."""
        bases = () if self.kept is None else self.kept.bases
        return replace(self, kept=_Kept(self.routes(), bases))


@dataclass(frozen=True)
class SwitchReady:
    """A switch runs our program and holds these entries (read back from it)."""

    switch: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class FabricReady:
    """Several switches at once run our program and hold these entries, by switch."""

    entries: Mapping[str, tuple[Entry, ...]]


@dataclass(frozen=True)
class LinkChanged:
    """A link between switches came up or went down."""

    link: Link
    up: bool


@dataclass(frozen=True)
class MechanismSwitched:
    """Request to enable or disable a mechanism in all switches."""

    name: str
    on: bool


Event: TypeAlias = SwitchReady | FabricReady | LinkChanged | MechanismSwitched | Learned
Writes: TypeAlias = Mapping[str, tuple[Change, ...]]


def step(model: FabricModel, event: Event, now: int) -> tuple[FabricModel, Writes]:
    """Take one event at time `now` (nanoseconds); return the new model and each switch's changes.

    Routes depend on the events alone, so `now` is unused here; it is part of the signature that
    all of the controller's logic shares. Raises ControllerError for entries that a switch's program
    can't hold; the model it was given is as good as before.
    """
    del now
    ready: Mapping[str, tuple[Entry, ...]] = {}
    match event:
        case SwitchReady(switch, entries):
            ready = {switch: entries}
        case FabricReady(entries_of):
            ready = entries_of
        case LinkChanged(link, up):
            down = model.down - {link} if up else model.down | {link}
            model = replace(model, down=down)
        case MechanismSwitched(name, on):
            off = model.policy.off - {name} if on else model.policy.off | {name}
            model = replace(model, policy=replace(model.policy, off=off))
        case Learned():
            return _learn(model, event)
    routes = model.routes()
    bases = _Bases(model, routes)
    writes: dict[str, tuple[Change, ...]] = {}
    installed = dict(model.installed)
    for name in ready or installed:
        basis, row, off = bases.of(name), routes.row(name), model.policy.off
        there = installed.get(name, ())
        if name not in ready and isinstance(there, Plan) and there.basis is basis:
            if there.row is row and there.off == off:
                writes[name] = ()
            else:
                installed[name], writes[name] = there.moved(row, off)
            continue
        plan = Plan.of(basis, model.topology.switch(name), row, off)
        if name in ready:
            writes[name] = _to_ready(model, name, plan, ready[name])
        else:
            writes[name] = changes(plan, _planned(model.parts, there), basis.p4info)
        installed[name] = plan
    kept = _Kept(routes, bases.all())
    return replace(model, installed=installed, kept=kept), MappingProxyType(writes)


class _Bases:
    """The bases of the plans of one model, by the program that a switch runs."""

    def __init__(self, model: FabricModel, routes: Routes) -> None:
        self._model = model
        self._routes = routes
        self._kept = () if model.kept is None else model.kept.bases
        self._found: dict[int, Basis] = {}

    def of(self, switch: str) -> Basis:
        """Return the basis of a switch's plan: the one kept, where it fits."""
        model, p4info = self._model, self._model.info(switch)
        basis = self._found.get(id(p4info))
        if basis is None:
            inputs = (model.topology, p4info, model.facts, model.policy, model.parts)
            fitting = (each for each in self._kept if each.fits(*inputs))
            basis = next(fitting, None) or Basis(*inputs, self._routes)
            self._found[id(p4info)] = basis
        return basis

    def all(self) -> tuple[Basis, ...]:
        """Return those that were asked for, and of the kept ones those of other programs."""
        programs = {id(self._model.p4info), *map(id, self._model.p4infos.values())}
        others = (
            each
            for each in self._kept
            if id(each.p4info) in programs and id(each.p4info) not in self._found
        )
        return (*self._found.values(), *others)


def _to_ready(
    model: FabricModel, name: str, plan: Plan, there: Sequence[Entry]
) -> tuple[Change, ...]:
    """Return what a switch lacks that holds `there`, what was learned for it included.

    Default actions that were learned come last: they may be what puts the rest in force.
    """
    known = _known(model, name, model.learned.get(name, {}).values())
    learned = sorted(known, key=lambda entry: isinstance(entry, DefaultEntry))
    found = Difference()
    wanted = (*plan, *plan.basis.canonical(learned))
    found.add_all(tuple(canonical(there, plan.basis.p4info)), wanted)
    return found.changes()


def _planned(parts: Iterable[Part], there: Iterable[Entry]) -> Iterator[Entry]:
    """Yield the entries of a switch that were read back without those that were learned."""
    tables = {table for part in parts for table in part.learned_tables}
    return (
        entry for entry in there if not (isinstance(entry, TableEntry) and entry.table in tables)
    )


def _learn(model: FabricModel, event: Learned) -> tuple[FabricModel, Writes]:
    """Put and take away single entries, whatever else a switch holds."""
    learned = dict(model.learned)
    writes: dict[str, tuple[Change, ...]] = {}
    for name in sorted({*event.put, *event.gone}):
        entries = dict(learned.get(name, {}))
        found: list[Change] = []
        for entry in _known(model, name, event.put.get(name, ())):
            there = entries.get(entry.key)
            if there != entry:
                stands = there is not None or isinstance(entry, DefaultEntry)
                found.append(Change(Operation.MODIFY if stands else Operation.INSERT, entry))
            entries[entry.key] = entry
        for entry in _known(model, name, event.gone.get(name, ())):
            there = entries.pop(entry.key, None)
            if there is not None:
                found.append(Change(Operation.DELETE, there))
        learned[name] = entries
        if name in model.installed:
            writes[name] = tuple(found)
    return replace(model, learned=learned), MappingProxyType(writes)


def _known(
    model: FabricModel, name: str, entries: Iterable[LearnedEntry]
) -> Iterator[LearnedEntry]:
    """Yield the entries whose table a switch's program has."""
    tables = model.info(name).tables
    return (entry for entry in entries if entry.table in tables)


# ---------------------------------------------------------------- everything, without memory


def desired_entries(
    model: FabricModel, switch_name: str, routes: Routes | None = None
) -> tuple[Entry, ...]:
    """Return everything that a switch should hold, in an order in which it can be installed.

    Nothing is kept or taken from what is kept: the reference for what `step` installs. `routes`:
    those without the links that are down, where they are known.
    """
    topology, facts = model.topology, model.facts
    switch = topology.switch(switch_name)
    routes = routes or Routes.of(topology, model.down)
    row = routes.row(switch_name)
    groups = base_entries.groups_of(row)
    tables = model.info(switch_name).tables
    notifying = base_entries.notifying(topology, switch, facts, model.policy)
    return (
        *base_entries.head(topology, switch, facts, model.policy),
        *base_entries.group_entries(groups, facts.watches_ports),
        *base_entries.host_routes(topology, switch),
        *base_entries.leaf_routes(routes.leaves, row, groups),
        *base_entries.tail(topology, switch, "host_port" in tables),
        *(notifying if "notification_mode" in tables else ()),
        *_of_parts(model, switch, routes),
    )


def _of_parts(model: FabricModel, switch: Switch, routes: Routes) -> Iterator[Entry]:
    """Yield what mechanisms want a switch to hold, as far as its program has their tables."""
    known = model.info(switch.name).tables
    steady = replace(model.policy, off=frozenset())
    ways = routes.ways(switch.name)
    for part in model.parts:
        tables = frozenset(table for table in part.tables if table in known)
        if not tables:
            continue
        yield from part.entries(View(model.topology, model.facts, model.policy, tables, switch))
        for leaf, way in ways:
            anywhere = FabricView(model.topology, model.facts, steady, tables)
            yield from part.entries_towards(anywhere, leaf, way.round_trip_ps)
        view = View(model.topology, model.facts, steady, tables, switch)
        for key, value in part.summary(view, ways).items():
            yield from part.entries_of(view, key, value)
