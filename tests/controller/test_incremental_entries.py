"""What events write, piece by piece, against everything computed anew after each of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import topologies
from controller import CompiledProgram, FabricPolicy, TargetFacts
from controller.diff import Change, Operation, changes
from controller.entries import Entry, Exact, TableEntry, call, match
from controller.fabric_state import (
    FabricModel,
    FabricReady,
    LinkChanged,
    MechanismSwitched,
    SwitchReady,
    desired_entries,
    step,
)
from controller.p4info import P4Info
from controller.parts import Learned
from controller.switch_plan import Plan
from softswitch.p4runtime.protos import p4i
from tests.controller.random_fabrics import LINK, fabrics
from topologies import Topology

P4SRC = Path(__file__).parents[2] / "p4src"
WHOLE = CompiledProgram("", (P4SRC / "fabric.p4info.txtpb").read_text()).p4info
LESS = P4Info(
    p4i.P4Info(
        tables=[
            table
            for table in WHOLE.message.tables
            if table.preamble.alias not in ("host_port", "ecn_threshold")
        ],
        actions=WHOLE.message.actions,
        action_profiles=WHOLE.message.action_profiles,
        counters=WHOLE.message.counters,
        digests=WHOLE.message.digests,
    )
)
"""Another program, without two tables."""
LEARNED = "stock_queue_pairs"

CLASSES: tuple[dict[str, Any], ...] = (
    {},
    {"ecn": "200kB"},
    {"fast_cnp": True},
    {"fast_cnp": {"gateway": True}, "ecn": {"min": "100kB", "max": "400kB", "probability": "10%"}},
)


@dataclass
class Fabric:
    """A model, and beside it what each switch would hold if everything were computed anew."""

    model: FabricModel
    held: dict[str, tuple[Entry, ...]] = field(default_factory=dict)

    def take(self, event: Any, ready: Mapping[str, tuple[Entry, ...]] | None = None) -> None:
        """Take an event, and compare. `ready`: what switches that are ready say they hold."""
        before = self.model
        self.model, writes = step(before, event, 0)
        assert before.installed == self.held, "the model of before is as it was"
        expected: dict[str, tuple[Change, ...]] = {}
        for name in ready or self.held:
            p4info = self.model.info(name)
            wanted = desired_entries(self.model, name)
            assert len({entry.key for entry in wanted}) == len(wanted)
            if ready is None:
                expected[name] = changes(wanted, self.held[name], p4info)
            else:
                learned = self.model.learned.get(name, {}).values()
                expected[name] = changes((*wanted, *learned), ready[name], p4info)
            self.held[name] = wanted
        assert dict(writes) == expected
        assert self.model.installed == self.held


def learned_entry(number: int) -> TableEntry:
    key = match(destination=Exact(number), qp=Exact(1))
    return TableEntry(LEARNED, key, call("set_source_qp", qp=number))


@st.composite
def _cases(draw: st.DrawFn) -> Fabric:
    """Draw a fabric of which no switch is ready yet."""
    classes = {
        "roce": {"dscp": 26, "queue": 3, **draw(st.sampled_from(CLASSES))},
        "rest": {"queue": 0},
    }
    topology = draw(fabrics(classes=classes))
    facts = TargetFacts(priorities=draw(st.sampled_from([1, 8])), watches_ports=draw(st.booleans()))
    policy = FabricPolicy.of(topology)
    if draw(st.booleans()):
        policy = replace(policy, stock_nics=frozenset({topology.hosts[0].name}))
    others = draw(st.sets(st.sampled_from(topology.switches), max_size=1))
    p4infos = {switch.name: LESS for switch in others}
    return Fabric(FabricModel(topology, WHOLE, facts, policy, p4infos=p4infos))


def _happen(fabric: Fabric, data: st.DataObject) -> None:
    """Let something happen to a fabric."""
    topology = fabric.model.topology
    kinds = ["link", "link", "link", "mechanism", "ready", "learned", "read back"]
    match data.draw(st.sampled_from(kinds)):
        case "link":
            link = data.draw(st.sampled_from(topology.links))
            # Now and then a link is said to be what it is already.
            up = link in fabric.model.down
            fabric.take(LinkChanged(link, up if data.draw(st.integers(0, 5)) else not up))
        case "mechanism":
            name = data.draw(st.sampled_from([part.name for part in fabric.model.parts]))
            fabric.take(MechanismSwitched(name, data.draw(st.booleans())))
        case "ready":
            name = data.draw(st.sampled_from(topology.switches)).name
            some = desired_entries(replace(fabric.model, down=frozenset()), name)
            there = some[:: data.draw(st.integers(1, 3))] if data.draw(st.booleans()) else ()
            fabric.take(SwitchReady(name, there), {name: there})
        case "learned":
            name = data.draw(st.sampled_from(topology.switches)).name
            entry = learned_entry(data.draw(st.integers(1, 3)))
            which = "put" if data.draw(st.booleans()) else "gone"
            fabric.model, _ = step(fabric.model, Learned(**{which: {name: (entry,)}}), 0)
        case _:  # somebody else was its primary: what it holds is read, not planned
            if fabric.held:
                name = data.draw(st.sampled_from(sorted(fabric.held)))
                there = fabric.held[name][1:]
                model = fabric.model
                fabric.model = replace(model, installed={**model.installed, name: there})
                fabric.held[name] = there


@settings(deadline=None, max_examples=150)  # other tests share the processor
@given(fabric=_cases(), data=st.data())
def test_events_write_what_everything_computed_anew_would(
    fabric: Fabric, data: st.DataObject
) -> None:
    names = [switch.name for switch in fabric.model.topology.switches]
    ready = dict.fromkeys(names[: data.draw(st.integers(0, len(names)))], ())
    if ready:
        fabric.take(FabricReady(ready), ready)
    for _ in range(data.draw(st.integers(1, 10))):
        _happen(fabric, data)


def test_what_goes_goes_in_the_order_of_the_plan() -> None:
    """A border loses a watched port and, behind it in its plan, a far queue."""
    shape = {"generator": "two_dc", "spines": 1, "leaves": 1, "hosts_per_leaf": 1, "borders": 1}
    classes = {"roce": {"dscp": 26, "queue": 3, **CLASSES[-1]}, "rest": {"queue": 0}}
    file = {**shape, "long_link": {"length": "10km"}, "link": LINK, "classes": classes}
    topology = topologies.loads(yaml.safe_dump({"time_scale": 1, **file}, sort_keys=False))
    facts = TargetFacts(priorities=8)
    fabric = Fabric(FabricModel(topology, WHOLE, facts, FabricPolicy.of(topology)))
    ready = dict.fromkeys((switch.name for switch in topology.switches), ())
    fabric.take(FabricReady(ready), ready)
    for link in topology.links:
        fabric.take(LinkChanged(link, False))
        fabric.take(LinkChanged(link, True))


# ---------------------------------------------------------------- what is asked again, and what not


class Counting:
    """Another part, and how often each of its methods was asked."""

    def __init__(self, part: Any) -> None:
        self.part = part
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.part, name)
        if name in ("entries", "entries_towards", "entries_of"):
            self.asked.append(name)
        return found


TREE = """
generator: fat_tree
time_scale: 1
k: 4
link: {rate: 100Gbps, delay: 1us, queue: 1MB}
classes:
  roce: {dscp: 26, queue: 3, fast_cnp: true}
  rest: {queue: 0}
"""


def counted() -> Iterator[tuple[FabricModel, list[Counting]]]:
    """Yield a fat tree that is up, its parts counting from here."""
    topology: Topology = topologies.loads(TREE)
    model = FabricModel(topology, WHOLE, TargetFacts(priorities=8), FabricPolicy.of(topology))
    parts = [Counting(part) for part in model.parts]
    model = replace(model, parts=tuple(parts))
    ready = FabricReady({switch.name: () for switch in topology.switches})
    model, _ = step(model, ready, 0)
    for part in parts:
        part.asked.clear()
    yield model, parts


def test_a_link_asks_a_mechanism_for_what_its_routes_made_different_and_nothing_else() -> None:
    ((model, parts),) = counted()
    before = model
    link = model.topology.link_at("s1", 3)
    model, writes = step(model, LinkChanged(link, up=False), 0)
    of_name = {part.part.name: part.asked for part in parts}
    # s9 is three hops from s1 now, its cores four, other pods' aggregation five: trips to s1 alone,
    # each asked for once, wherever from.
    assert 0 < len(of_name["dcqcn"]) <= 3 and set(of_name["dcqcn"]) == {"entries_towards"}
    assert of_name["fast_cnp"].count("entries_towards") == len(of_name["dcqcn"])
    assert "entries" not in of_name["fast_cnp"]
    touched = {name for name, updates in writes.items() if updates}
    kept = [name for name in model.installed if name not in touched]
    assert kept and all(model.installed[name] is before.installed[name] for name in kept)


def test_a_switched_mechanism_asks_for_fixed_entries_alone() -> None:
    ((model, parts),) = counted()
    model, writes = step(model, MechanismSwitched("fast_cnp", on=False), 0)
    assert {name for part in parts for name in part.asked} == {"entries"}
    assert [len(updates) for updates in writes.values()] == [1] * len(model.topology.switches)


def test_another_policy_or_target_makes_plans_anew() -> None:
    ((model, _),) = counted()
    slower = replace(model, facts=replace(model.facts, time_scale=10))
    after, writes = step(slower, MechanismSwitched("fast_cnp", on=True), 0)
    assert all(updates for updates in writes.values())
    assert after.installed == {name: desired_entries(slower, name) for name in slower.installed}
    back, _ = step(replace(after, facts=model.facts), MechanismSwitched("dcqcn", on=True), 0)
    assert back.installed == model.installed


def test_a_split_off_leaf_does_not_renumber_the_groups_of_others() -> None:
    ((model, _),) = counted()
    link = model.topology.link_at("s1", 3)  # s1 is the first leaf of all
    model, writes = step(model, LinkChanged(link, up=False), 0)
    plan = model.installed["s3"]
    assert isinstance(plan, Plan) and plan.groups == ((3, 4),)
    routes = [change for change in writes["s3"] if change.entry.table == "ipv4_route"]
    assert [change.operation for change in routes] == [Operation.MODIFY]  # to s1, over one port
