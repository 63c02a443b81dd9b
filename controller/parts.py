"""What mechanisms add to the controller, which iterates over them and knows none by name.

A part says what each switch should hold for its mechanism (`entries`, a pure function), and may
learn from what switches report (`learner`, passive: every call says what time it is). Parts are
handed in from above, for all fabrics (`install`) or for one (`FabricModel.parts`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from controller.digests import DigestMessage
from controller.entries import Entry, TableEntry
from controller.policy import FabricPolicy
from controller.routing import Paths
from controller.target_facts import TargetFacts
from topologies.extensions import ask_for_mechanisms
from topologies.model import Link, Switch, Topology


@dataclass(frozen=True)
class View:
    """All that the entries of one switch may depend on.

    `paths`: the shortest ones without the links that are down. `tables`: those of the part
    that the switch's program has.
    """

    topology: Topology
    switch: Switch
    paths: Paths
    facts: TargetFacts
    policy: FabricPolicy
    tables: frozenset[str]


@dataclass(frozen=True)
class Learned:
    """Entries that switches are to hold from now on, or no more, by switch."""

    put: Mapping[str, tuple[TableEntry, ...]] = field(default_factory=dict)
    gone: Mapping[str, tuple[TableEntry, ...]] = field(default_factory=dict)


class Learner(Protocol):
    """What a mechanism learns while a fabric runs. Times in ns of the fabric's own clock."""

    def heard(self, messages: Iterable[DigestMessage], now: int) -> Learned | None:
        """Take digests of any kind; return what follows from them, None if nothing does."""

    def elapsed(self, now: int) -> Learned | None:
        """Do what is due."""

    def due(self) -> int | None:
        """Return when `elapsed` next has something to do, None for never."""

    def routed(self, down: frozenset[Link]) -> Learned | None:
        """Take notice that paths avoid these links now."""

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
        """Yield what a switch should hold for it, in an order in which it can be installed."""

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
