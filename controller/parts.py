"""What mechanisms add to the controller, which iterates over them and knows none by name.

A part says what each switch should hold for its mechanism, and may learn from what switches report
(`learner`, passive: every call says what time it is). Parts are handed in from above, for all
fabrics (`install`) or for one (`FabricModel.parts`).

**What an entry depends on** is what the method is given that yields it. All are pure functions, so
the controller keeps what they yielded, and asks again only where their arguments changed:

    entries(view)                      on no route: asked once, and when a mechanism is switched
    entries_towards(view, leaf, trip)  on how long a round trip to one leaf takes, wherever from
    summary(view, ways)                what else matters of a switch's ways, as values by key
    entries_of(view, key, value)       on one of those values

So a link that fails costs a mechanism of fixed entries nothing, and others no more than what their
routes made different. No two of the methods yield entries of the same key for one switch, and each
yields its own in an order in which they can be installed, before those of the methods below it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from controller.digests import DigestMessage
from controller.entries import DefaultEntry, Entry, TableEntry
from controller.leaf_routes import Routes, Ways
from controller.policy import FabricPolicy
from controller.target_facts import TargetFacts
from topologies.extensions import ask_for_mechanisms
from topologies.model import Switch, Topology


@dataclass(frozen=True)
class FabricView:
    """What entries may depend on that is the same everywhere.

    `tables`: those of the part that the switches' program has. `policy.off` is empty, except for
    `Part.entries`: what is switched off at run time keeps its other entries.
    """

    topology: Topology
    facts: TargetFacts
    policy: FabricPolicy
    tables: frozenset[str]


@dataclass(frozen=True)
class View(FabricView):
    """The same, and the switch that is to hold the entries."""

    switch: Switch


LearnedEntry: TypeAlias = TableEntry | DefaultEntry


@dataclass(frozen=True)
class Learned:
    """Entries that switches are to hold from now on, or no more, by switch.

    `then(failed, now)`: what follows once all of it has been written, for what has to be in force
    before something else is. `failed`: the switches that do not hold what they were to: those that
    could not be reached, or that refused it. They are given it, or what `then` puts in its place,
    when they are reached again; until then nothing is known of what they hold.
    """

    put: Mapping[str, tuple[LearnedEntry, ...]] = field(default_factory=dict)
    gone: Mapping[str, tuple[TableEntry, ...]] = field(default_factory=dict)
    then: Then | None = field(default=None, compare=False)


Then: TypeAlias = Callable[[frozenset[str], int], Learned | None]


class Learner(Protocol):
    """What a mechanism learns while a fabric runs. Times in ns of the fabric's own clock."""

    def heard(self, messages: Iterable[DigestMessage], now: int) -> Learned | None:
        """Take digests of any kind; return what follows from them, None if nothing does."""

    def elapsed(self, now: int) -> Learned | None:
        """Do what is due."""

    def due(self) -> int | None:
        """Return when `elapsed` next has something to do, None for never."""

    def routed(self, routes: Routes, now: int) -> Learned | None:
        """Take notice that these are the routes now; for the first time before the fabric is up."""

    def switched(self, on: bool, now: int) -> Learned | None:
        """Take notice that the mechanism is switched off or on at run time."""

    def totals(self) -> Mapping[str, int]:
        """Return what it has counted so far, by the names that results give it."""


class Part(Protocol):
    """A mechanism as the controller sees it."""

    @property
    def name(self) -> str:
        """The mechanism's name, as it is switched off and on by."""

    @property
    def tables(self) -> frozenset[str]:
        """The tables that it owns. A switch whose program has none of them is not asked for."""

    @property
    def learned_tables(self) -> frozenset[str]:
        """Those of `tables` that hold what its learner learned, and no planned entry."""

    def entries(self, view: View) -> Iterator[Entry]:
        """Yield what a switch should hold for it whatever the routes are."""

    def entries_towards(
        self, view: FabricView, leaf: Switch, round_trip_ps: int
    ) -> Iterator[Entry]:
        """Yield what each switch should hold that is so far from a leaf (`Way`; 0: the leaf)."""

    def summary(self, view: View, ways: Ways) -> Mapping[Hashable, Hashable]:
        """Return what `entries_of` has to know of a switch's ways; keys always in one order."""

    def entries_of(self, view: View, key: Hashable, value: Hashable) -> Iterator[Entry]:
        """Yield what a switch should hold in whose summary `key` has this value."""

    def learner(
        self, topology: Topology, facts: TargetFacts, policy: FabricPolicy
    ) -> Learner | None:
        """Return what learns in one fabric, None where there is nothing to learn."""


_installed: tuple[Part, ...] | None = None


def install(parts: Iterable[Part]) -> None:
    """Take these parts for fabrics that are made from now on without others."""
    global _installed
    _installed = tuple(parts)


def all_parts() -> tuple[Part, ...]:
    """Return the parts of all mechanisms, in the order of the registry."""
    if _installed is None:
        ask_for_mechanisms()
    assert _installed is not None, "no mechanism has a part in the controller"
    return _installed
