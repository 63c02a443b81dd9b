"""Plans of any fabric: shortest paths over what is up, loads as counted, and what stays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.jobs import DeclaredJob, FlowSet
from mechanisms.iglb.clos import recognise
from mechanisms.iglb.fabric import Fabric, Ints
from mechanisms.iglb.loads import loads
from mechanisms.iglb.planner import Planner
from tests.mechanisms.iglb import fabrics, verified
from topologies.loader import load

MESSAGE_S = (4096 + 82) * 8 / fabrics.RATE
"""What a full packet needs of a link."""


def between(pairs: list[tuple[int, int]], name: str = "job", size: int = 4096) -> DeclaredJob:
    source, target = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return fabrics.job(source, target, size=size, name=name)


def shortest_and_whole(fabric: Fabric, planner: Planner, jobs: list[DeclaredJob]) -> None:
    plan = planner.plan(jobs)
    demand = planner.demand(jobs)
    kept = np.setdiff1d(np.arange(len(demand)), plan.lost)
    wrong = verified.broken(fabric, demand, plan.arcs)
    assert set(wrong.tolist()) <= set(plan.lost.tolist())
    for flow in kept.tolist():
        ends = fabric.leaf[demand.source[flow]], fabric.leaf[demand.target[flow]]
        assert (plan.arcs[flow] >= 0).sum() == verified.shortest(fabric, *map(int, ends))
    for flow in plan.lost.tolist():
        ends = fabric.leaf[demand.source[flow]], fabric.leaf[demand.target[flow]]
        assert verified.shortest(fabric, *map(int, ends)) == -1
    counted = verified.seconds(fabric, demand, plan.arcs)
    assert loads(demand, plan.arcs, len(fabric.tail)) * fabric.cost == pytest.approx(counted)
    assert plan.proof.planned_s >= counted.max(initial=0.0) * (1 - 1e-9)
    assert plan.proof.planned_s >= plan.proof.bound_s * (1 - 1e-9)


@settings(max_examples=40)
@given(st.data())
def test_irregular_fabric_gets_shortest_paths_over_what_is_up(data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    switches = data.draw(st.integers(2, 8))
    links = rng.integers(0, switches, (data.draw(st.integers(1, 16)), 2))
    links = links[links[:, 0] != links[:, 1]]
    leaves = rng.integers(0, switches, data.draw(st.integers(2, 6)))
    fabric = fabrics.fabric(switches, links, leaves)
    rate = fabric.rate.copy()
    rate[: 2 * len(links)] = np.repeat(rng.choice([0.0, 100e9, 200e9, 400e9], len(links)), 2)
    fabric = replace(fabric, rate=rate)
    flows = rng.integers(0, len(leaves), (data.draw(st.integers(0, 12)), 2))
    phases = tuple(
        FlowSet(f"p{phase}", phase, np.flatnonzero(on), rng.integers(1, 99999, on.sum()))
        for phase, on in enumerate(rng.random((3, len(flows))) < 0.6)
    )
    one = DeclaredJob("one", flows[:, 0], flows[:, 1], flows[:, 0], phases)
    two = between([(int(a), int(b)) for a, b in flows[::2]], "two")
    shortest_and_whole(fabric, Planner.of(fabric), [one, two])


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32 - 1), pairs=st.sampled_from([1, 3]), tree=st.booleans())
def test_only_flows_of_failed_link_move_and_they_return(seed: int, pairs: int, tree: bool) -> None:
    fabric = fabrics.fat_tree(4, 2) if tree else fabrics.leaf_spine(6, 4, 4)
    planner, rng = Planner.of(fabric), np.random.default_rng(seed)
    hosts = len(fabric.leaf)
    jobs = [fabrics.job(np.arange(hosts), fabrics.derangement(hosts, rng), pairs)]
    before = planner.plan(jobs)
    link = int(rng.integers(len(fabric.tail) // 2 - hosts))
    less = planner.with_links_down(np.array([link]))
    after = less.plan(jobs, before)
    touched = ((before.arcs >= 0) & (before.arcs // 2 == link)).any(axis=1)
    assert after.moved.tolist() == np.flatnonzero(touched).tolist()
    assert after.version == before.version + 1
    assert not len(verified.broken(less.fabric, less.demand(jobs), after.arcs))
    stays = planner.plan(jobs, after)
    assert not len(stays.moved)
    back = planner.better(stays, 0.01)
    if after.proof.planned_s > before.proof.planned_s * 1.02:
        assert back is not None and back.proof.planned_s == pytest.approx(before.proof.planned_s)
        assert planner.better(back, 0.01) is None
    else:
        assert back is None


def test_jobs_come_and_go_without_moving_others() -> None:
    fabric = fabrics.leaf_spine(4, 4, 4)
    planner = Planner.of(fabric)
    one = between([(0, 4), (1, 5), (2, 6)], "one")
    two = between([(8, 12), (9, 13), (3, 7)], "two")
    first = planner.plan([one])
    both = planner.plan([one, two], first)
    assert both.moved.tolist() == [3, 4, 5]
    assert (both.arcs[both.of("one")] == first.arcs).all()
    assert both.proof.kind == "colouring"
    left = planner.plan([two], both)
    assert not len(left.moved)
    again = between([(8, 12), (9, 14), (3, 7)], "two")
    assert planner.plan([again], left).moved.tolist() == [1]


def test_one_job_in_phases_may_use_links_twice() -> None:
    fabric = fabrics.leaf_spine(2, 1, 2)
    flows = np.arange(2)
    sets = tuple(FlowSet(f"p{i}", i, flows[i : i + 1], np.array([4096])) for i in flows)
    plan = Planner.of(fabric).plan([DeclaredJob("job", flows, flows + 2, flows, sets)])
    assert plan.proof.planned_s == pytest.approx(MESSAGE_S)
    both = DeclaredJob("job", flows, flows + 2, flows, (FlowSet("p", 0, flows, 0 * flows + 4096),))
    assert Planner.of(fabric).plan([both]).proof.planned_s == pytest.approx(2 * MESSAGE_S)


def test_two_jobs_whose_union_is_no_permutation_share_evenly() -> None:
    fabric = fabrics.leaf_spine(4, 4, 4)
    ring = [(i, (i + 4) % 16) for i in range(16)]
    other = [(i, (i + 8) % 16) for i in range(16)]
    plan = Planner.of(fabric).plan([between(ring, "one"), between(other, "two")])
    assert plan.proof.quality == pytest.approx(1)
    assert plan.proof.planned_s == pytest.approx(2 * MESSAGE_S)


def test_fragmented_placement_stays_conflict_free() -> None:
    fabric, rng = fabrics.leaf_spine(16, 8, 8), np.random.default_rng(5)
    hosts = np.arange(128)
    moved = rng.choice(128, 38, replace=False)
    hosts[moved] = rng.permutation(hosts[moved])
    jobs = [
        fabrics.job(ring, np.roll(ring, -1), 2, name=f"job{i}")
        for i, ring in enumerate(hosts.reshape(4, 32))
    ]
    assert Planner.of(fabric).plan(jobs).proof.kind == "colouring"


def test_unequal_spines_carry_by_their_rates() -> None:
    fabric = fabrics.leaf_spine(2, 2, 6)
    rate = fabric.rate.copy()
    slow = (fabric.head == 3) | (fabric.tail == 3)
    rate[slow] = 200e9
    fabric = replace(fabric, rate=rate)
    assert recognise(fabric) is None
    plan = Planner.of(fabric).plan([between([(i, i + 6) for i in range(6)])])
    used = [int((fabric.head[plan.arcs[:, 0]] == spine).sum()) for spine in (2, 3)]
    assert used == [4, 2]
    assert plan.proof.quality == pytest.approx(1)


def test_leaf_with_one_uplink_left_takes_all_over_it() -> None:
    fabric = fabrics.leaf_spine(4, 4, 4)
    planner = Planner.of(fabric).with_links_down(np.array([0, 1, 2]))
    plan = planner.plan([between([(i, (i + 4) % 16) for i in range(16)])])
    assert (plan.arcs[:4, 0] == 6).all()
    assert plan.proof.planned_s == pytest.approx(4 * MESSAGE_S)
    assert plan.proof.quality == pytest.approx(1)
    assert plan.proof.kind == "cut" and plan.proof.binding == ("0->7",)


def test_host_and_leaf_that_are_cut_off_leave_flows_without_path() -> None:
    fabric = fabrics.leaf_spine(2, 2, 2)
    host_link = 4
    jobs = [between([(0, 2), (1, 3)])]
    plan = Planner.of(fabric).with_links_down(np.array([host_link])).plan(jobs)
    assert plan.lost.tolist() == [0] and (plan.arcs[0] == -1).all()
    assert plan.proof.planned_s == pytest.approx(MESSAGE_S)
    cut = Planner.of(fabric).with_links_down(np.array([0, 1])).plan(jobs)
    assert cut.lost.tolist() == [0, 1] and cut.proof.planned_s == 0


@pytest.mark.parametrize("name", ["rail", "dualplane", "fattree4", "leafspine", "single"])
def test_generated_fabrics_are_recognised_by_their_links(name: str) -> None:
    fabric = Fabric.of(load(name))
    assert recognise(fabric) is not None
    order = np.random.default_rng(1).permutation(fabric.switches)
    nodes = np.concatenate([order, np.arange(fabric.switches, 1 + fabric.tail.max())])
    named = replace(
        fabric, tail=nodes[fabric.tail], head=nodes[fabric.head], leaf=nodes[fabric.leaf]
    )
    assert recognise(named) is not None
    hosts = np.arange(len(fabric.leaf))
    jobs = [fabrics.job(hosts, np.roll(hosts, -2), 2)]
    assert Planner.of(named).plan(jobs).proof == replace(
        Planner.of(fabric).plan(jobs).proof, binding=Planner.of(named).plan(jobs).proof.binding
    )


@pytest.mark.parametrize("name", ["two-dc", "triangle"])
def test_other_fabrics_are_no_clos_networks(name: str) -> None:
    assert recognise(Fabric.of(load(name))) is None


def test_missing_rail_is_planned_around() -> None:
    topology = load("rail")
    inside = [
        link for link in topology.links
        if topology.is_switch(link.a.node) and topology.is_switch(link.b.node)
    ]  # fmt: skip
    spine = inside[0].b.node
    down = frozenset(link for link in inside if spine in (link.a.node, link.b.node))
    planner = Planner(topology, down)
    hosts = np.arange(len(list(topology.interfaces())))
    jobs = [fabrics.job(hosts, np.roll(hosts, -2), 1)]
    shortest_and_whole(planner.fabric, planner, jobs)
    assert (Planner(topology).with_down(down).plan(jobs).arcs == planner.plan(jobs).arcs).all()


@pytest.mark.parametrize(
    ("job", "says"),
    [
        (DeclaredJob("x", np.array([0]), np.array([9]), np.array([1]), ()), "from 0 to 7"),
        (DeclaredJob("x", np.array([0]), np.array([], dtype=int), np.array([1]), ()), "0 targets"),
        (
            DeclaredJob("x", np.array([0]), np.array([1]), np.array([1]),
                        (FlowSet("p", 0, np.array([1]), np.array([1])),)),
            "has 1 flows",
        ),
        (
            DeclaredJob("x", np.array([0]), np.array([1]), np.array([1]),
                        (FlowSet("p", 0, np.array([0]), np.array([0])),)),
            "above 0",
        ),
    ],
)  # fmt: skip
def test_declaration_that_cannot_be_is_refused(job: DeclaredJob, says: str) -> None:
    with pytest.raises(ValueError, match=f"job x.*{says}"):
        Planner.of(fabrics.leaf_spine(2, 2, 4)).plan([job])


def test_no_job_and_no_flow_need_nothing() -> None:
    planner = Planner.of(fabrics.leaf_spine(2, 2, 2))
    none: Ints = np.empty(0, dtype=np.int64)
    for jobs in ([], [DeclaredJob("empty", none, none, none, ())]):
        plan = planner.plan(jobs)
        assert plan.proof.planned_s == 0 and plan.proof.quality == 1 and not len(plan.moved)
