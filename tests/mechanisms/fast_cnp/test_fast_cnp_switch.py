"""Fast CNPs switched off and on at run time: what is written, and that it stays so."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

import topologies
from controller import CompiledProgram, FabricPolicy, SwitchUnreachable, TargetFacts, run
from controller.diff import Change, Operation
from controller.entries import CloneSession, DefaultEntry, Entry
from controller.fabric_state import (
    FabricModel,
    LinkChanged,
    MechanismSwitched,
    SwitchReady,
    step,
)
from mechanisms.fast_cnp.entries import MODE_TABLE, NAME, STAND_STILL
from mechanisms.fast_cnp.words import read
from topologies import Topology

FABRIC = """
generator: leaf_spine
spines: 2
leaves: 2
hosts_per_leaf: 2
link: {rate: 400Gbps, delay: 500ns, queue: 1MB}
time_scale: 10000
classes:
  roce: {dscp: 26, queue: 3, fast_cnp: true}
  rest: {queue: 0}
"""
FACTS = TargetFacts(priorities=8)


@pytest.fixture
def fast() -> Topology:
    """Two leaves, two spines, and fast CNPs for RoCE."""
    return topologies.loads(FABRIC)


def mode(entries: tuple[Entry, ...]) -> str:
    """Return "on" or "off", by the default entry of the table that switches the feature."""
    (entry,) = [e for e in entries if isinstance(e, DefaultEntry) and e.table == MODE_TABLE]
    return "off" if entry.action == STAND_STILL else "on"


def brought_up(topology: Topology, program: CompiledProgram) -> FabricModel:
    policy = FabricPolicy.of(topology)
    model = FabricModel(topology, program.p4info, FACTS, policy)
    for switch in topology.switches:
        model, _ = step(model, SwitchReady(switch.name, ()), 0)
    return model


def test_it_is_one_update_a_switch_and_outlasts_other_events(
    fast: Topology, program: CompiledProgram
) -> None:
    model = brought_up(fast, program)
    before = dict(model.installed)
    off = DefaultEntry(MODE_TABLE, STAND_STILL)
    model, writes = step(model, MechanismSwitched(NAME, on=False), 0)
    assert {name: list(found) for name, found in writes.items()} == {
        switch.name: [Change(Operation.MODIFY, off)] for switch in fast.switches
    }
    assert not any(step(model, MechanismSwitched(NAME, on=False), 0)[1].values())

    link = fast.link_at("s1", 3)
    for up in (False, True):
        model, writes = step(model, LinkChanged(link, up), 0)
        assert writes["s1"]
        touched = [change.entry for found in writes.values() for change in found]
        assert not [e for e in touched if isinstance(e, DefaultEntry)]
        assert {mode(held) for held in model.installed.values()} == {"off"}
    # A switch that begins anew gets all it needs, switched off.
    model, writes = step(model, SwitchReady("s1", ()), 0)
    assert off in [change.entry for change in writes["s1"]]
    assert "fast_cnp_queue" in [getattr(change.entry, "table", "") for change in writes["s1"]]

    model, writes = step(model, MechanismSwitched(NAME, on=True), 0)
    assert [len(found) for found in writes.values()] == [1, 1, 1, 1]
    assert model.installed == before


def test_a_fabric_without_it_has_nothing_to_write(
    topology: Topology, program: CompiledProgram
) -> None:
    model = brought_up(topology, program)
    for on in (False, True):
        model, writes = step(model, MechanismSwitched(NAME, on), 0)
        assert not any(writes.values())
        assert {mode(held) for held in model.installed.values()} == {"off"}


def test_switches_do_as_they_are_told(
    switches: Any, fast: Topology, program: CompiledProgram
) -> None:
    addresses = switches.start_all(fast)
    with run(fast, addresses, program, FACTS) as controller:

        def runs() -> list[bool | None]:
            return [state.runs for state in read(fast, controller).values()]

        assert runs() == [True] * 4
        assert all(state.counts == {} for state in read(fast, controller).values())
        assert controller.switch_mechanism(NAME, on=False) == 4
        assert controller.switch_mechanism(NAME, on=False) == 0
        assert runs() == [False] * 4
        controller.set_link(fast.link_at("s1", 3), up=False)
        assert runs() == [False] * 4
        assert set(controller.bring_up().written.values()) == {0}
        assert controller.switch_mechanism(NAME, on=True) == 4
        assert runs() == [True] * 4


def test_a_switch_that_was_away_is_told_when_it_is_back(
    softswitches: Any, fast: Topology, program: CompiledProgram
) -> None:
    addresses = softswitches.start_all(fast)
    with run(fast, addresses, program, FACTS) as controller:
        softswitches.kill("s3")
        with suppress(SwitchUnreachable):  # that s3 is gone may not be known yet
            controller.switch_mechanism(NAME, on=False)
        softswitches.start("s3", fast.switch("s3").device_id, addresses["s3"])
        controller.restore("s3")
        assert [state.runs for state in read(fast, controller).values()] == [False] * 4


def test_a_controller_that_begins_anew_is_told_of_it(
    softswitches: Any, fast: Topology, program: CompiledProgram
) -> None:
    addresses = softswitches.start_all(fast)
    with run(fast, addresses, program, FACTS) as controller:
        controller.switch_mechanism(NAME, on=False)
        policy = controller.policy
    with run(fast, addresses, program, FACTS, policy) as controller:
        assert set(controller.bring_up().written.values()) == {0}
        assert [state.runs for state in read(fast, controller).values()] == [False] * 4
        assert controller.switch_mechanism(NAME, on=True) == 4


@pytest.mark.parametrize(("has_classes", "wanted"), [(True, 6), (False, 0)])
def test_copies_have_the_cnps_class_where_the_target_takes_one(
    program: CompiledProgram, has_classes: bool, wanted: int
) -> None:
    """BMv2's PI refuses a clone session with a class of service, and so the whole start."""
    text = FABRIC.replace("  rest:", "  cnp: {dscp: 48, queue: 6}\n  rest:")
    topology = topologies.loads(text)
    facts = TargetFacts(priorities=8, clone_classes=has_classes)
    model = FabricModel(topology, program.p4info, facts, FabricPolicy.of(topology))
    model, _ = step(model, SwitchReady("s1", ()), 0)
    (session,) = [each for each in model.installed["s1"] if isinstance(each, CloneSession)]
    assert session.class_of_service == wanted
