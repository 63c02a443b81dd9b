"""Trees: each worker reaches the root once, children are numbered densely, trees are apart.

A fat tree with k = 4: leaves s1 to s8, spines s9 to s16, two a pod, cores s17 to s20; the first
spine of each pod meets s17 and s18.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import topologies
from mechanisms.allreduce.plan_error import PlanError
from mechanisms.allreduce.settings import AllReduce, Job
from mechanisms.allreduce.trees import (
    CHILDREN,
    GROUPS,
    KEPT,
    JobPlan,
    Plan,
    Tree,
    plan_of,
    sharing,
)
from tests.controller.random_fabrics import fabrics
from topologies import Topology
from topologies.extensions import Settings
from topologies.model import Role

LINK = "link: {rate: 400Gbps, delay: 500ns, queue: 1MB}\n"
FAT_TREE = f"time_scale: 1\ngenerator: fat_tree\nk: %d\n{LINK}"
EIGHT_JOBS = "allreduce:\n  slots: 1024\n  jobs:\n" + "".join(
    f"    j{j}: {{workers: {{first: h{j + 1}, every: 8}}, slots: 128}}\n" for j in range(8)
)


def planned(text: str) -> tuple[Topology, Plan]:
    topology = topologies.loads(text)
    return topology, plan_of(topology)


def sums(topology: Topology, job: JobPlan, tree: Tree) -> Counter[str]:
    """Follow each worker's contribution up to the root; return how often each of them got there."""
    reached: Counter[str] = Counter()
    for rank, worker in enumerate(job.workers):
        here, came_by, met = worker.switch, worker.port, set()
        while True:
            assert here not in met, "a tree has no loop"
            met.add(here)
            node = tree.nodes[here]
            assert node.covers[node.ports.index(came_by)] >> rank & 1
            if node.parent is None:
                assert here == tree.root
                reached[worker.host] += 1
                break
            far = topology.peer(here, node.parent)
            here, came_by = far.node, far.port
    return reached


def check(topology: Topology, plan: Plan) -> None:
    """Hold a whole plan against what a tree is."""
    for job in plan.jobs.values():
        assert 1 <= len(job.trees) <= 8 and len(job.all_trees) <= KEPT
        assert len(
            {tree.root + str(sorted(map(str, tree.links))) for tree in job.all_trees}
        ) == len(job.all_trees)
        everyone = (1 << len(job.workers)) - 1
        ranks = {each.host: rank for rank, each in enumerate(job.workers)}
        for tree in job.all_trees:
            assert sums(topology, job, tree) == {each.host: 1 for each in job.workers}
            assert sum(node.parent is None for node in tree.nodes.values()) == 1
            links = set()
            for name, node in tree.nodes.items():
                assert 0 < len(node.ports) == len(set(node.ports)) <= CHILDREN
                assert node.parent not in node.ports
                seen = 0
                for port, cover in zip(node.ports, node.covers, strict=True):
                    assert cover and not cover & seen
                    seen |= cover
                    far = topology.peer(name, port)
                    if topology.is_switch(far.node):
                        child = tree.nodes[far.node]
                        assert child.parent == far.port and sum(child.covers) == cover
                        links.add(topology.link_at(name, port))
                    else:
                        assert far.port == 0 and cover == 1 << ranks[far.node]
                lowest = [cover & -cover for cover in node.covers]
                assert lowest == sorted(lowest)
                if node.parent is None:
                    assert seen == everyone
                groups = plan.groups[name]
                assert groups[tuple(sorted(node.ports))] >= GROUPS
                parent = () if node.parent is None else (node.parent,)
                assert tuple(sorted((*node.ports, *parent))) in groups
            assert links == tree.links and len(links) == len(tree.nodes) - 1


@settings(max_examples=40, deadline=None)
@given(
    fabrics(
        allreduce={
            "slots": 1024,
            "jobs": {
                "a": {"slots": 64},
                "b": {"workers": {"every": 2}, "slots": 16, "trees": 3},
            },
        }
    )
)
def test_every_worker_reaches_every_root_once(topology: Topology) -> None:
    try:
        plan = plan_of(topology)
    except PlanError as error:
        assert "has 1 worker" in str(error) or "no tree reaches both" in str(error)
        return
    check(topology, plan)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_workers_of_a_fat_tree(data: st.DataObject) -> None:
    hosts = [f"h{n}" for n in range(1, 17)]
    workers = data.draw(
        st.lists(st.sampled_from(hosts), min_size=2, max_size=16, unique=True), "workers"
    )
    topology, plan = planned(FAT_TREE % 4 + f"allreduce: {{jobs: {{a: {{workers: {workers}}}}}}}\n")
    check(topology, plan)
    job = plan.jobs["a"]
    assert [each.host for each in job.workers] == workers
    leaves = {topology.host(name).switch for name in workers}
    pods = {topology.switch(leaf).group for leaf in leaves}
    role = Role.CORE if len(pods) > 1 else Role.SPINE if len(leaves) > 1 else Role.LEAF
    assert {topology.switch(tree.root).role for tree in job.all_trees} == {role}
    assert len(job.all_trees) == {Role.CORE: 4, Role.SPINE: 2, Role.LEAF: 1}[role]
    assert sharing(plan).next_to == 0


@pytest.mark.parametrize(
    ("name", "roots", "shared"),
    [
        ("leafspine", ["s3", "s4"], (0, 0, 1)),
        ("single", ["s1"], (0, 0, 0)),
        ("fattree4", ["s17", "s19", "s18", "s20"], (8, 0, 1)),
        ("rail", ["s1"], (0, 0, 0)),
        ("dualplane", ["s5", "s6"], (0, 0, 1)),
        # A border's tree has the long link, which its twin's tree has, too.
        ("two-dc", ["s9", "s10", "s11", "s12", "s10", "s9", "s12", "s11"], (7, 1, 1)),
        # s1-s3 has a quarter of the others' rate.
        ("triangle", ["s2", "s1", "s3"], (1, 1, 1)),
    ],
)
def test_fabrics_of_this_house(name: str, roots: list[str], shared: tuple[int, int, int]) -> None:
    text = (Path(topologies.__file__).parent / f"{name}.yaml").read_text()
    topology, plan = planned(text + "allreduce: {jobs: {a: {}}}\n")
    check(topology, plan)
    assert [tree.root for tree in plan.jobs["a"].trees] == roots
    found = sharing(plan)
    assert (found.within, found.next_to, found.between) == shared


@pytest.fixture(scope="module")
def large() -> Topology:
    """Return a fat tree of 1,024 hosts, with eight jobs."""
    return topologies.loads(FAT_TREE % 16 + EIGHT_JOBS)


def test_eight_interleaved_jobs_of_1024_hosts_have_links_of_their_own(large: Topology) -> None:
    """Rank i of job j is at host 8 i + j; tree 0 of job j is over spine j of each pod."""
    plan = plan_of(large)
    check(large, plan)
    spines: dict[str, list[str]] = {}
    for switch in large.switches_with(Role.SPINE):
        spines.setdefault(switch.group, []).append(switch.name)
    for j, job in enumerate(plan.jobs.values()):
        assert len(job.workers) == 128 and len(job.trees) == 8 and len(job.spare) == 8
        over = {name for name in job.trees[0].nodes if large.switch(name).role is Role.SPINE}
        assert over == {pod[j] for pod in spines.values()}
    # Eight trees over eight spines of each pod: no link twice within a job, either.
    found = sharing(plan)
    assert (found.within, found.next_to, found.between) == (0, 0, 1)


def test_one_job_of_1024_hosts(large: Topology) -> None:
    job = Job("a", (), None, 256, 8, None, None)
    topology = replace(large, settings=Settings.of(allreduce=AllReduce(jobs=(job,))))
    plan = plan_of(topology)
    check(topology, plan)
    assert len(plan.jobs["a"].trees[0].nodes) == 128 + 16 + 1
    assert sharing(plan).within == 0


def test_parallel_links_make_trees_apart() -> None:
    text = (
        "time_scale: 1\ngenerator: leaf_spine\nspines: 2\nleaves: 3\nhosts_per_leaf: 2\n"
        f"links_per_spine: 2\n{LINK}"
    )
    topology, plan = planned(text + "allreduce: {jobs: {a: {}}}\n")
    check(topology, plan)
    trees = plan.jobs["a"].trees
    assert [tree.root for tree in trees[:4]] == ["s4", "s5", "s4", "s5"]
    first = trees[:4]
    assert all(not a.links & b.links for a in first for b in first if a is not b)


def test_fast_links_and_spines_come_first() -> None:
    text = """\
time_scale: 1
link: {rate: 100Gbps, delay: 500ns, queue: 1MB}
switches: [s1, s2, s3, s4]
hosts: [h1, h2]
links:
  - {a: h1, b: s1:1}
  - {a: h2, b: s2:1}
  - {a: s1:2, b: s3:1}
  - {a: s2:2, b: s3:2, rate: 50Gbps}
  - {a: s1:3, b: s4:1}
  - {a: s2:3, b: s4:2, rate: 50Gbps}
  - {a: s2:4, b: s4:3}
"""
    topology, plan = planned(text + "allreduce: {jobs: {a: {level: pod}}}\n")
    check(topology, plan)
    first = plan.jobs["a"].trees[0]
    assert first.root == "s4" and first.nodes["s2"].parent == 4


def test_a_level_that_is_asked_for() -> None:
    text = FAT_TREE % 4 + "allreduce: {jobs: {a: {workers: [h1, h2], level: %s}}}\n"
    for level, role, nodes in (
        ("leaf", Role.LEAF, 1),
        ("pod", Role.SPINE, 2),
        ("core", Role.CORE, 3),
    ):
        topology, plan = planned(text % level)
        check(topology, plan)
        tree = plan.jobs["a"].trees[0]
        assert topology.switch(tree.root).role is role and len(tree.nodes) == nodes
