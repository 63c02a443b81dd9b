"""What each switch should hold, what an event changes, and the fewest updates for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller import CompiledProgram, FabricPolicy, TargetFacts
from controller.diff import Change, Operation, batches, changes
from controller.entries import (
    DefaultEntry,
    Entry,
    Exact,
    Group,
    GroupRef,
    Lpm,
    Member,
    TableEntry,
    call,
    describe,
    match,
)
from controller.fabric_state import (
    FabricModel,
    LinkChanged,
    SwitchReady,
    desired_entries,
    step,
)
from topologies import Topology
from topologies.ecn import step as step_at

P4INFO = Path(__file__).parents[2] / "p4src/fabric.p4info.txtpb"
PROGRAM_INFO = CompiledProgram("", P4INFO.read_text()).p4info


@pytest.fixture
def model(program: CompiledProgram, topology: Topology) -> FabricModel:
    return FabricModel(topology, program.p4info)


def table(model: FabricModel, switch: str, name: str) -> dict[str, str]:
    """One table of a switch as text: key -> action."""
    lines = (describe(entry) for entry in desired_entries(model, switch))
    prefix = f"{name} "
    ours = (line.removeprefix(prefix) for line in lines if line.startswith(prefix))
    return dict(line.split(" -> ") for line in ours)


def test_a_leafs_routes_and_groups(model: FabricModel) -> None:
    assert table(model, "s1", "ipv4_route") == {
        "dst=0xa000101/32": "route_to(next_hop=0x1)",
        "dst=0xa000102/32": "route_to(next_hop=0x2)",
        "dst=0xa000200/24": "route_to_group(group=0x1)",
    }
    assert table(model, "s1", "ecmp_group") == {"group=0x1": "group 1"}
    assert Group("ecmp_members", 1, ((3, 1), (4, 1))) in desired_entries(model, "s1")
    assert set(table(model, "s1", "arp_targets")) == {
        "target_ip=0xa0001fe",
        "target_ip=0xa000101",
        "target_ip=0xa000102",
    }
    assert table(model, "s1", "own_addresses") == {"address=0xa0001fe": "take_packet()"}


def test_a_spine_needs_no_groups_no_arp_and_no_addresses(model: FabricModel) -> None:
    entries = desired_entries(model, "s3")
    assert table(model, "s3", "ipv4_route") == {
        "dst=0xa000100/24": "route_to(next_hop=0x1)",
        "dst=0xa000200/24": "route_to(next_hop=0x2)",
    }
    assert not [e for e in entries if isinstance(e, Group | Member)]
    assert not table(model, "s3", "arp_targets")
    assert not table(model, "s3", "own_addresses")


@pytest.mark.parametrize("switch", ["s1", "s2", "s3", "s4"])
def test_the_first_bring_up_writes_everything_and_the_next_nothing(
    model: FabricModel, switch: str
) -> None:
    model, writes = step(model, SwitchReady(switch, ()), now=0)
    wanted = desired_entries(model, switch)
    assert sorted(describe(c.entry) for c in writes[switch]) == sorted(map(describe, wanted))
    model, again = step(model, SwitchReady(switch, wanted), now=1)
    assert again == {switch: ()}


def test_a_link_that_fails_and_returns(model: FabricModel) -> None:
    for switch in model.topology.switches:
        model, _ = step(model, SwitchReady(switch.name, ()), now=0)
    before = model.installed
    link = model.topology.link_at("s1", 3)
    model, writes = step(model, LinkChanged(link, up=False), now=1)
    assert {name for name, updates in writes.items() if updates} == {"s1", "s2", "s3"}
    first = writes["s1"][0]
    assert first.operation is Operation.MODIFY  # the route moves first, then the group goes
    assert describe(first.entry) == "ipv4_route dst=0xa000200/24 -> route_to(next_hop=0x4)"
    assert [c.operation for c in writes["s1"][1:]] == [Operation.DELETE] * 4
    model, _ = step(model, LinkChanged(link, up=True), now=2)
    assert model.installed == before


def test_the_policy_speaks_bytes_and_the_target_its_unit(model: FabricModel) -> None:
    marking = {0: step_at(150_000), 3: step_at(300_000)}
    policy = FabricPolicy({"ecn": marking}, class_of_dscp={48: 7})
    packets = replace(model, policy=policy, facts=TargetFacts(priorities=8))
    assert table(packets, "s1", "ecn_threshold")["class=0x0 port=0x3"] == (
        "mark_above(threshold=0x64)"
    )
    assert len(table(packets, "s1", "ecn_threshold")) == 8
    assert table(packets, "s1", "dscp_class") == {"dscp=0x30": "set_class(class_of_service=0x7)"}
    cells = replace(packets, facts=TargetFacts(priorities=4, depth_cell_bytes=256))
    assert table(cells, "s1", "ecn_threshold")["class=0x3 port=0x4"] == (
        "mark_above(threshold=0x493)"
    )
    assert table(cells, "s1", "dscp_class") == {"dscp=0x30": "set_class(class_of_service=0x3)"}


def test_a_target_with_one_queue_gets_no_classes(model: FabricModel) -> None:
    assert model.facts.priorities == 1
    assert table(model, "s1", "dscp_class") == {}


def test_ticks_follow_the_time_scale() -> None:
    assert TargetFacts(time_scale=10_000).ticks(500_000) == 5_000  # 500 ns, in us
    assert TargetFacts(tick_ps=1000).ticks(500_000) == 500
    assert TargetFacts().ticks(1) == 1


# ---------------------------------------------------------------- the diff on its own

GROUP = Group("ecmp_members", 1, ((1, 1), (2, 1)))
MEMBERS = [Member("ecmp_members", i, call("choose_next_hop", next_hop=i)) for i in (1, 2, 3)]
USE = TableEntry("ecmp_group", match(group=Exact(1)), GroupRef(1))
DEFAULT = DefaultEntry("router", call("set_router_mac", mac=1))


def route(last: int, next_hop: int) -> TableEntry:
    return TableEntry("ipv4_route", match(dst=Lpm(last, 32)), call("route_to", next_hop=next_hop))


def shown(updates: tuple[Change, ...]) -> list[str]:
    return [f"{c.operation.value} {describe(c.entry).split(' -> ')[0]}" for c in updates]


def test_referred_to_before_referring_and_the_other_way_to_delete(
    program: CompiledProgram,
) -> None:
    everything: list[Entry] = [USE, GROUP, *MEMBERS[:2]]
    assert shown(changes(everything, [], program.p4info)) == [
        "INSERT ecmp_members member 1",
        "INSERT ecmp_members member 2",
        "INSERT ecmp_members group 1 of 1, 2",
        "INSERT ecmp_group group=0x1",
    ]
    assert shown(changes([], everything, program.p4info)) == [
        "DELETE ecmp_group group=0x1",
        "DELETE ecmp_members group 1 of 1, 2",
        "DELETE ecmp_members member 1",
        "DELETE ecmp_members member 2",
    ]


def test_a_new_group_member_is_in_before_the_old_one_goes(program: CompiledProgram) -> None:
    before: list[Entry] = [*MEMBERS[:2], GROUP, USE]
    after: list[Entry] = [MEMBERS[0], MEMBERS[2], replace(GROUP, members=((1, 1), (3, 1))), USE]
    assert shown(changes(after, before, program.p4info)) == [
        "INSERT ecmp_members member 3",
        "MODIFY ecmp_members group 1 of 1, 3",
        "DELETE ecmp_members member 2",
    ]


def test_defaults_are_modified_and_never_deleted(program: CompiledProgram) -> None:
    assert shown(changes([DEFAULT], [], program.p4info)) == ["MODIFY router default"]
    assert changes([], [DEFAULT], program.p4info) == ()


STATES = st.dictionaries(st.integers(0, 9), st.integers(1, 3), max_size=10)


@settings(deadline=None)  # other tests share the processor
@given(there=STATES, wanted=STATES)
def test_applying_the_diff_gives_what_was_wanted(
    there: dict[int, int], wanted: dict[int, int]
) -> None:
    # 10.0.0.n -> next hop, applied as a switch would
    state = {route(n, hop).key: route(n, hop) for n, hop in there.items()}
    for change in changes(
        [route(n, hop) for n, hop in wanted.items()],
        [route(n, hop) for n, hop in there.items()],
        PROGRAM_INFO,
    ):
        entry = change.entry
        assert isinstance(entry, TableEntry)
        match change.operation:
            case Operation.INSERT:
                assert entry.key not in state
                state[entry.key] = entry
            case Operation.MODIFY:
                assert state[entry.key] != entry
                state[entry.key] = entry
            case Operation.DELETE:
                del state[entry.key]
    assert set(state.values()) == {route(n, hop) for n, hop in wanted.items()}


def test_batches_keep_order_and_never_mix_an_object_with_references_to_it(
    program: CompiledProgram,
) -> None:
    updates = changes([*MEMBERS, GROUP, USE, DEFAULT, route(1, 1)], [], program.p4info)
    parts = list(batches(updates, size=2))
    assert [change for part in parts for change in part] == list(updates)
    assert [len(part) for part in parts] == [2, 1, 1, 2, 1]
    assert list(batches((), size=2)) == []
