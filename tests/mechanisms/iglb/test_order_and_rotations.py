"""Options of planning: which jobs choose first, and how far apart in time they start."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import topologies
from controller.jobs import DeclaredJob
from mechanisms.iglb.fabric import Floats
from mechanisms.iglb.intensity import InOrder, by_intensity, plan_in_order, planner_of, work_of
from mechanisms.iglb.planner import Planner
from mechanisms.iglb.rotations import beyond, rotations
from mechanisms.iglb.settings import setting_of
from tests.mechanisms.iglb import fabrics
from topologies.errors import TopologyError


def bursts(period: int, start: int, length: int) -> Floats:
    load = np.zeros((1, period))
    load[0, start : start + length] = 1.0
    return load


def test_bursts_that_fit_beside_each_other_do_not_meet() -> None:
    loads = [bursts(4, 0, 2), bursts(4, 0, 1), bursts(4, 0, 1)]
    late = rotations(loads)
    assert late[0] == 0
    assert beyond(loads, late) == 0 < beyond(loads, 0 * late)


def test_jobs_that_share_no_link_start_at_once() -> None:
    loads = [np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([[0.0, 0.0], [1.0, 0.0]])]
    assert rotations(loads).tolist() == [0, 0]


@given(st.integers(0, 2**32 - 1))
def test_two_jobs_meet_least_and_more_never_meet_more(seed: int) -> None:
    rng = np.random.default_rng(seed)
    loads = [rng.random((2, period)).round(1) for period in rng.choice([2, 3, 4, 6], 3)]
    pair = loads[:2]
    least = min(beyond(pair, np.array([0, late])) for late in range(pair[1].shape[1]))
    assert beyond(pair, rotations(pair)) == pytest.approx(least)
    found = beyond(loads, rotations(loads))
    periods = [range(load.shape[1]) for load in loads[1:]]
    every = [beyond(loads, np.array([0, *late])) for late in itertools.product(*periods)]
    assert min(every) - 1e-9 <= found <= max(every) + 1e-9


@pytest.mark.parametrize(
    ("loads", "says"),
    [
        ([np.zeros((1, 2)), np.zeros((2, 2))], "different links"),
        ([np.zeros((1, 65521)), np.zeros((1, 2))], "meet after 131042"),
    ],
)
def test_what_has_no_circle_is_refused(loads: list[Floats], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        rotations(loads)


def test_no_job_has_no_offset() -> None:
    assert len(rotations([])) == 0


def test_jobs_with_more_work_a_second_of_traffic_come_first() -> None:
    planner = Planner.of(fabrics.leaf_spine(4, 4, 4))
    hosts = np.arange(4)
    jobs = [
        fabrics.job(hosts + 4 * i, hosts + 4 * i + 4, size=size, name=name)
        for i, (name, size) in enumerate([("silent", 4096), ("light", 4096), ("heavy", 409600)])
    ]
    order = by_intensity(planner, jobs, {"heavy": 50.0, "light": 1.0})
    assert [job.name for job in order] == ["light", "heavy", "silent"]


def computing(job: DeclaredJob, seconds: float) -> DeclaredJob:
    return replace(job, computing=((0, seconds),))


def test_in_order_jobs_that_come_together_choose_by_what_they_compute() -> None:
    planner = Planner.of(fabrics.leaf_spine(2, 2, 4)).with_links_down(np.array([0]))
    hosts = np.arange(2)
    jobs = [fabrics.job(hosts + 2 * i, hosts + 4 + 2 * i, name=name) for i, name in enumerate("ab")]
    ordered = InOrder(planner)
    assert (ordered.plan(jobs).arcs == planner.plan(jobs).arcs).all(), "nobody computes"
    works = [computing(jobs[0], 0.1), computing(jobs[1], 0.2)]
    assert [work_of(job) for job in works] == pytest.approx([0.4, 0.8])
    plan = ordered.plan(works)
    assert list(plan.jobs) == works and plan.version == 0
    assert plan.moved.tolist() == list(range(len(plan.arcs)))
    assert (plan.arcs[plan.of("b")] == planner.plan([works[1]]).arcs).all()
    # Who is there already keeps its paths, and is not counted as moved.
    third = computing(fabrics.job(hosts, hosts + 6, name="c"), 9.0)
    fourth = computing(fabrics.job(hosts + 2, hosts + 4, name="d"), 1.0)
    later = ordered.plan([*works, third, fourth], plan)
    assert (later.arcs[: len(plan.arcs)] == plan.arcs).all() and later.version == 1
    assert later.moved.tolist() == list(range(len(plan.arcs), len(later.arcs)))
    assert ordered.better(plan, 0.05) is None


@pytest.mark.parametrize(
    ("said", "order"), [("true", "together"), ("{order: intensity}", "intensity")]
)
def test_the_setting_says_who_plans(said: str, order: str) -> None:
    topology = topologies.loads(
        "generator: leaf_spine\nspines: 2\nleaves: 2\nhosts_per_leaf: 2\n"
        f"link: {{rate: 100Gbps, delay: 1us, queue: 1MB}}\ntime_scale: 1\niglb: {said}"
    )
    setting = setting_of(topology)
    assert setting is not None and setting.order.value == order
    assert isinstance(planner_of(topology, setting.order), InOrder) == (order == "intensity")


def test_an_unknown_order_is_refused() -> None:
    with pytest.raises(TopologyError, match="known are together, intensity"):
        topologies.loads(
            "generator: single\nlink: {rate: 100Gbps, delay: 1us, queue: 1MB}\n"
            "time_scale: 1\nhosts: 2\niglb: {order: alphabet}"
        )


def test_first_in_order_has_the_best_paths() -> None:
    planner = Planner.of(fabrics.leaf_spine(2, 2, 4)).with_links_down(np.array([0]))
    hosts = np.arange(2)
    jobs = [fabrics.job(hosts + 2 * i, hosts + 4 + 2 * i, name=name) for i, name in enumerate("ab")]
    plan = plan_in_order(planner, jobs, jobs[::-1])
    assert list(plan.jobs) == jobs
    first = planner.plan([jobs[1]])
    assert (plan.arcs[plan.of("b")] == first.arcs).all()
    assert plan_in_order(planner, [], []).version == 0
