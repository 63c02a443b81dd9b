"""The control loop: events and learners in, work out; passive, and for every runtime the same."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import pytest

from controller import CompiledProgram
from controller.digests import DigestMessage
from controller.entries import Entry, Exact, TableEntry, call, match
from controller.fabric_state import FabricModel, LinkChanged, MechanismSwitched, SwitchReady
from controller.leaf_routes import Routes, Ways
from controller.loop import ControlLoop, Work
from controller.parts import FabricView, Learned, Learner, View
from controller.policy import FabricPolicy
from controller.target_facts import TargetFacts
from topologies import Topology
from topologies.model import Link, Switch

TABLE = "stock_queue_pairs"


def learned_entry(number: int) -> TableEntry:
    key = match(destination=Exact(number), qp=Exact(1))
    return TableEntry(TABLE, key, call("set_source_qp", qp=number))


@dataclass
class Counting:
    """A learner that learns an entry of s1 from each digest, and wants to be asked at `wakes`."""

    wakes: int | None = None
    seen: int = 0
    routes: list[frozenset[Link]] = field(default_factory=list)
    switches: list[bool] = field(default_factory=list)

    def heard(self, messages: Iterable[DigestMessage], now: int) -> Learned | None:
        self.seen += len(list(messages))
        return Learned({"s1": (learned_entry(self.seen),)}) if self.seen else None

    def elapsed(self, now: int) -> Learned | None:
        if self.wakes is None or now < self.wakes:
            return None
        self.wakes = None
        return Learned(gone={"s1": (learned_entry(self.seen),)})

    def due(self) -> int | None:
        return self.wakes

    def routed(self, routes: Routes, now: int) -> Learned | None:
        self.routes.append(routes.down)
        return None

    def switched(self, on: bool, now: int) -> Learned | None:
        self.switches.append(on)
        return None if on else Learned({"s1": (learned_entry(1),)})

    def totals(self) -> dict[str, int]:
        return {"seen": self.seen}


@dataclass(frozen=True)
class Part:
    """A mechanism with that learner."""

    name: str
    made: Counting | None
    tables: frozenset[str] = frozenset({TABLE})
    learned_tables: frozenset[str] = frozenset({TABLE})

    def entries(self, view: View) -> Iterator[Entry]:
        return iter(())

    def entries_towards(
        self, view: FabricView, leaf: Switch, round_trip_ps: int
    ) -> Iterator[Entry]:
        return iter(())

    def summary(self, view: View, ways: Ways) -> Mapping[Hashable, Hashable]:
        return {}

    def entries_of(self, view: View, key: Hashable, value: Hashable) -> Iterator[Entry]:
        return iter(())

    def learner(
        self, topology: Topology, facts: TargetFacts, policy: FabricPolicy
    ) -> Learner | None:
        return self.made


DIGEST = DigestMessage("s1", "any", {})


@pytest.fixture
def counting() -> Counting:
    return Counting()


@pytest.fixture
def loop(program: CompiledProgram, topology: Topology, counting: Counting) -> ControlLoop:
    """Return a fabric with one mechanism that learns and one that does not, all switches ready."""
    parts = (Part("learns", counting), Part("does not", None))
    made = ControlLoop(FabricModel(topology, program.p4info, parts=parts))
    for switch in topology.switches:
        made.handle(SwitchReady(switch.name, ()), 0)
    return made


def test_a_link_that_changes_is_planned_around_and_told_to_learners(
    loop: ControlLoop, topology: Topology, counting: Counting
) -> None:
    link = topology.link_at("s1", 3)
    work = loop.handle(LinkChanged(link, up=False), 1)
    assert any(work.planned.values()) and work.learned == ()
    # They have heard of the first routes before any switch was ready.
    assert counting.routes == [frozenset(), frozenset({link})] and loop.model.down == {link}
    assert counting.switches == []


def test_a_mechanism_that_is_switched_hears_of_it_and_no_other(
    loop: ControlLoop, counting: Counting
) -> None:
    work = loop.handle(MechanismSwitched("learns", on=False), 2)
    assert loop.model.policy.off == {"learns"} and len(counting.routes) == 1
    (writes,) = work.learned
    assert [change.entry for change in writes["s1"]] == [learned_entry(1)]
    loop.handle(MechanismSwitched("learns", on=True), 3)
    loop.handle(MechanismSwitched("does not", on=False), 4)
    assert counting.switches == [False, True]


def test_what_follows_from_the_first_routes_comes_with_the_plan(
    program: CompiledProgram, topology: Topology
) -> None:
    class Early(Counting):
        def routed(self, routes: Routes, now: int) -> Learned | None:
            return Learned({"s1": (learned_entry(1),)})

    made = ControlLoop(FabricModel(topology, program.p4info, parts=(Part("early", Early()),)))
    work = made.handle(SwitchReady("s1", ()), 0)
    assert learned_entry(1) in [change.entry for change in work.planned["s1"]]


def test_digests_become_learned_writes_and_are_remembered(loop: ControlLoop) -> None:
    work = loop.heard([DIGEST], 5)
    (writes,) = work.learned
    assert [change.entry for change in writes["s1"]] == [learned_entry(1)]
    assert work.planned == {}
    # A switch that starts anew gets what was learned with its plan.
    again = loop.handle(SwitchReady("s1", ()), 6).planned["s1"]
    assert learned_entry(1) in [change.entry for change in again]


def test_time_passes_when_it_is_due(loop: ControlLoop, counting: Counting) -> None:
    assert loop.due() is None
    loop.heard([DIGEST], 5)
    counting.wakes = 100
    assert loop.due() == 100
    assert loop.elapsed(99) == Work()
    (writes,) = loop.elapsed(100).learned
    assert [change.operation.name for change in writes["s1"]] == ["DELETE"]
    assert loop.due() is None


def test_learners_are_asked_and_told_by_name(loop: ControlLoop, counting: Counting) -> None:
    assert loop.ask("learns", lambda learner: learner is counting)
    assert loop.ask("does not", lambda learner: learner is None)
    (writes,) = loop.tell("learns", lambda _: Learned({"s1": (learned_entry(7),)}), 1).learned
    assert [change.entry for change in writes["s1"]] == [learned_entry(7)]
    assert loop.tell("learns", lambda _: None, 2) == Work()
    assert loop.tell("does not", lambda _: Learned(), 3) == Work()
    assert loop.totals() == {"seen": 0}


def test_a_mechanism_whose_table_the_program_lacks_learns_nothing(
    program: CompiledProgram, topology: Topology, counting: Counting
) -> None:
    part = replace(Part("learns", counting), learned_tables=frozenset({"no_such_table"}))
    assert ControlLoop(FabricModel(topology, program.p4info, parts=(part,))).learners == {}
