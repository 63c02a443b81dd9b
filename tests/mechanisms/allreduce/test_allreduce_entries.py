"""What switches hold for AllReduce, and how it follows links, operators and switches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

import topologies
from controller.entries import (
    ActionCall,
    CloneSession,
    Entry,
    Exact,
    MulticastGroup,
    TableEntry,
)
from controller.leaf_routes import Routes
from controller.parts import Learned, View
from controller.policy import FabricPolicy
from controller.target_facts import TargetFacts
from mechanisms import registry
from mechanisms.allreduce.entries import EDGE_TABLE, PORT_TABLE, TREE_TABLE, entries
from mechanisms.allreduce.life import Jobs, agree
from mechanisms.allreduce.mechanism import MECHANISM
from mechanisms.allreduce.starts import count_start, starts
from mechanisms.allreduce.trees import plan_of
from mechanisms.dpfr.entries import LISTENERS
from mechanisms.dpfr.entries import entries as dpfr_entries
from mechanisms.dpfr.ways import MOST_DESTINATIONS
from topologies import Topology
from topologies.model import Link

FAT_TREE = """\
time_scale: 1
generator: fat_tree
k: 4
link: {rate: 400Gbps, delay: 500ns, queue: 1MB}
classes: {roce: {dscp: 26, queue: 3}, rest: {queue: 0}}
dpfr: true
allreduce: {slots: 512, jobs: {a: , b: {workers: [h2, h1], slots: 64}}}
"""
FACTS = TargetFacts(priorities=8, clone_classes=True)


@pytest.fixture(scope="module")
def topology() -> Topology:
    return topologies.loads(FAT_TREE)


def view_of(topology: Topology, switch: str, off: frozenset[str] = frozenset()) -> View:
    policy = replace(FabricPolicy.of(topology), off=off)
    return View(topology, FACTS, policy, MECHANISM.tables, topology.switch(switch))


class Held:
    """What switches hold of learned entries: what a controller was given, put together."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.jobs = Jobs(plan_of(topology), FACTS)
        self.entries: dict[str, dict[object, TableEntry]] = {}
        self.take(self.jobs.routed(Routes.of(topology), 0))

    def take(self, learned: Learned | None) -> int:
        """Take what follows; return how many updates that is."""
        if learned is None:
            return 0
        for name, found in learned.put.items():
            held = self.entries.setdefault(name, {})
            assert all(held.get(each.key) != each for each in found), "written though it is there"
            held.update((each.key, each) for each in found)
        for name, found in learned.gone.items():
            for each in found:
                assert self.entries[name].pop(each.key) == each
        return sum(map(len, (*learned.put.values(), *learned.gone.values())))

    def down(self, *links: Link) -> int:
        return self.take(self.jobs.routed(Routes.of(self.topology, frozenset(links)), 0))

    def of(self, switch: str, table: str) -> Iterator[tuple[Mapping[str, int], ActionCall]]:
        for each in self.entries.get(switch, {}).values():
            if each.table == table:
                key = {name: v.value for name, v in each.match if isinstance(v, Exact)}
                assert isinstance(each.action, ActionCall)
                yield key, each.action


def test_a_leafs_neighbours_and_groups(topology: Topology) -> None:
    found = list(entries(view_of(topology, "s1")))
    ports = {e.match: e.action for e in found if isinstance(e, TableEntry)}
    assert len(ports) == 4 and all(
        e.table == PORT_TABLE for e in found if isinstance(e, TableEntry)
    )
    h1, s1 = topology.host("h1").interfaces[0], topology.switch("s1")
    action = ports[(("port", Exact(h1.port)),)]
    assert isinstance(action, ActionCall) and action.action == "address_allreduce_to_host"
    assert dict(action.arguments) == {
        "src_mac": int(s1.mac.replace(":", ""), 16),
        "dst_mac": int(h1.mac.replace(":", ""), 16),
        "address": int(h1.address.ip),
    }
    up = ports[(("port", Exact(3)),)]
    assert isinstance(up, ActionCall) and up.action == "address_allreduce_to_neighbour"
    groups = {tuple(p for p, _ in e.replicas) for e in found if isinstance(e, MulticastGroup)}
    # Both jobs have both hosts; job a's parent is a spine, by either port; job b's root is s1.
    assert groups == {(1, 2), (1, 2, 3), (1, 2, 4)}


def test_nothing_while_off_or_without_jobs(topology: Topology) -> None:
    assert list(entries(view_of(topology, "s1", frozenset({"allreduce"})))) == []
    bare = topologies.loads(FAT_TREE[: FAT_TREE.index("allreduce")] + "allreduce: true\n")
    assert list(entries(view_of(bare, "s1"))) == []
    assert MECHANISM.learner(bare, FACTS, FabricPolicy.of(bare)) is None
    assert MECHANISM.holds(bare)


def test_groups_are_nobody_elses(topology: Topology) -> None:
    numbers = [g for groups in plan_of(topology).groups.values() for g in groups.values()]
    assert min(numbers) >= LISTENERS + MOST_DESTINATIONS and max(numbers) < 1 << 15
    for switch in topology.switches:
        view = view_of(topology, switch.name)
        both: list[Entry] = [*entries(view), *dpfr_entries(view)]
        groups = [e.group for e in both if isinstance(e, MulticastGroup)]
        assert len(groups) == len(set(groups))
        assert not any(isinstance(e, CloneSession) for e in entries(view))


def test_edges_and_trees_of_all_tree_bits(topology: Topology) -> None:
    held = Held(topology)
    plan = plan_of(topology)
    for name in (switch.name for switch in topology.switches):
        trees = {(k["job"], k["tree"]): dict(a.arguments) for k, a in held.of(name, TREE_TABLE)}
        edges: dict[tuple[int, int], dict[int, ActionCall]] = {}
        for key, action in held.of(name, EDGE_TABLE):
            edges.setdefault((key["job"], key["tree"]), {})[key["port"]] = action
        assert trees.keys() == edges.keys()
        for (number, bits), said in trees.items():
            job = next(job for job in plan.jobs.values() if job.number == number)
            node = job.tree_of(bits).nodes[name]
            for index, port in enumerate(node.ports):
                assert edges[number, bits][port] == ActionCall(
                    "join_from_child", (("index", index),)
                )
            assert len(edges[number, bits]) == len(node.ports) + (node.parent is not None)
            groups = plan.groups[name]
            assert said == {
                "base": job.base,
                "slots": job.slots,
                "children": (1 << len(node.ports)) - 1,
                "root": int(node.parent is None),
                "parent": node.parent or 0,
                "children_group": groups[node.children],
                "flood_group": groups[node.neighbours],
                "class_of_service": 3,
            }
    everywhere = {(k["job"], k["tree"]) for s in held.entries for k, _ in held.of(s, TREE_TABLE)}
    assert everywhere == {(job, bits) for job in (1, 2) for bits in range(8)}
    assert plan.jobs["a"].base == 0 and plan.jobs["b"].base == 256


def test_queues_are_the_targets(topology: Topology) -> None:
    jobs = Jobs(plan_of(topology), TargetFacts(priorities=2))
    learned = jobs.routed(Routes.of(topology), 0)
    assert learned is not None
    found = {
        dict(e.action.arguments)["class_of_service"]
        for each in learned.put.values()
        for e in each
        if e.table == TREE_TABLE and isinstance(e.action, ActionCall)
    }
    assert found == {1}


def test_bits_of_a_dead_tree_go_to_a_whole_one_and_no_others(topology: Topology) -> None:
    held = Held(topology)
    before = list(held.jobs.running["a"].trees)
    link = topology.link_at("s1", 3)
    assert held.down(link) > 0
    after = held.jobs.running["a"].trees
    for bits in range(8):
        if link in before[bits].links:
            assert link not in after[bits].links
        else:
            assert after[bits] is before[bits]
    assert held.jobs.dead("a") == [] and held.jobs.totals() == {"allreduce_rerouted": 4}
    # When the link is back, nothing moves.
    assert held.down() == 0 and held.jobs.running["a"].trees == after
    # Job b is beneath one leaf.
    assert [tree.root for tree in held.jobs.running["b"].trees] == ["s1"] * 8


def test_where_no_tree_is_whole_bits_stay(topology: Topology) -> None:
    held = Held(topology)
    before = list(held.jobs.running["a"].trees)
    assert held.down(topology.link_at("s1", 3), topology.link_at("s1", 4)) == 0
    assert held.jobs.running["a"].trees == before
    assert held.jobs.dead("a") == list(range(8))
    # One of them comes back: the bits of the other's trees follow.
    assert held.down(topology.link_at("s1", 4)) > 0
    assert held.jobs.dead("a") == []


def test_what_is_held_is_what_a_new_controller_would_give(topology: Topology) -> None:
    """Step by step, off and on, end and start: nothing is left behind, and nothing is missing."""
    held, fresh = Held(topology), Held(topology)
    held.take(held.jobs.switched(on=False, now=0))
    assert not any(held.entries.values())
    held.down(topology.link_at("s1", 3))
    held.take(held.jobs.end("a"))
    held.take(held.jobs.switched(on=True, now=0))
    assert {k["job"] for s in held.entries for k, _ in held.of(s, TREE_TABLE)} == {2}
    held.down()
    held.take(held.jobs.start("a"))
    assert held.entries == fresh.entries


def test_a_start_takes_trees_that_are_whole(topology: Topology) -> None:
    held = Held(topology)
    link = topology.link_at("s1", 3)
    held.take(held.jobs.end("a"))
    held.down(link)
    held.take(held.jobs.start("a"))
    trees = held.jobs.running["a"].trees
    assert all(link not in tree.links for tree in trees)
    assert len({tree.root for tree in trees}) == 2


def test_a_controller_that_starts_beside_dead_links_keeps_what_is_whole(
    topology: Topology,
) -> None:
    link = topology.link_at("s1", 3)
    fresh = Jobs(plan_of(topology), FACTS)
    fresh.routed(Routes.of(topology, frozenset({link})), 0)
    job, trees = plan_of(topology).jobs["a"], fresh.running["a"].trees
    for bits in range(8):
        planned = job.tree_of(bits)
        if link in planned.links:
            assert link not in trees[bits].links and agree(planned, trees[bits])
        else:
            assert trees[bits] is planned
    assert Counter(tree.root for tree in trees) == {"s19": 4, "s20": 4}
    # It is what a controller that has seen the link die has: the same trees are whole.
    held = Held(topology)
    held.down(link)
    assert held.jobs.running["a"].trees == trees


def test_trees_agree_where_the_same_workers_are_beneath_the_same_children() -> None:
    fat = plan_of(topologies.loads(FAT_TREE)).jobs["a"].all_trees
    assert all(agree(one, other) for one in fat for other in fat)
    triangle = (Path(topologies.__file__).parent / "triangle.yaml").read_text()
    three = plan_of(topologies.loads(triangle + "allreduce: {jobs: {a: }}\n")).jobs["a"].all_trees
    assert [[agree(one, other) for other in three] for one in three] == [
        [one is other for other in three] for one in three
    ]


def test_sizes_are_what_the_module_does_not_have_anyway() -> None:
    def sizes(allreduce: str) -> Mapping[str, int]:
        head = FAT_TREE[: FAT_TREE.index("allreduce")]
        return MECHANISM.sizes(topologies.loads(f"{head}allreduce: {allreduce}\n"))

    assert sizes("true") == sizes("{slots: 64}") == {} == sizes("false")
    assert sizes("{lanes: 2, wire_lanes: 256}") == {"ALLREDUCE_LANES": 2}
    assert sizes("{lanes: 256, slots: 1024}") == {"ALLREDUCE_LANES": 256, "ALLREDUCE_SLOTS": 1024}
    many = ", ".join(f"j{n}: {{slots: 1}}" for n in range(300))
    # A core has 4 children of each job, a leaf 3 neighbours.
    assert sizes(f"{{slots: 512, jobs: {{{many}}}}}") == {
        "ALLREDUCE_SLOTS": 512,
        "ALLREDUCE_TREES": 2400,
        "ALLREDUCE_EDGES": 9600,
    }


def test_the_registry_builds_it_in(topology: Topology) -> None:
    defines = registry.defines(topology)
    assert "WITH_ALLREDUCE" in defines and "ALLREDUCE_SLOTS=512" in defines
    assert "WITH_ALLREDUCE" not in registry.defines(topologies.load("fattree4"))


def test_starts_are_counted_by_run(tmp_path: Path) -> None:
    folder = tmp_path
    assert starts(folder) == {}
    assert [count_start(folder, "a"), count_start(folder, "b"), count_start(folder, "a")] == [
        0,
        0,
        1,
    ]
    assert starts(folder) == {"a": 2, "b": 1}
