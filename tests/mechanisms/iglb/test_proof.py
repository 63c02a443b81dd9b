"""Proofs: what the linear program says holds, is close where it can be, and names what binds."""

from __future__ import annotations

import numpy as np
import pytest

from controller.jobs import DeclaredJob, FlowSet
from mechanisms.iglb import proof
from mechanisms.iglb.planner import Planner
from mechanisms.iglb.proof import least_time, prove
from tests.mechanisms.iglb import fabrics
from topologies.concurrent_flow import GAP, TooLargeError


@pytest.mark.parametrize("down", [1, 4])
def test_program_of_2048_hosts_is_certified(down: int) -> None:
    whole = Planner.of(fabrics.leaf_spine(64, 32, 32))
    rng = np.random.default_rng(down)
    planner = whole.with_links_down(np.sort(rng.choice(2048, down, replace=False)))
    jobs = [fabrics.job(np.arange(2048), fabrics.derangement(2048, rng), 4)]
    plan = planner.plan(jobs)
    demand = planner.demand(jobs)
    found, _ = least_time(planner.fabric, demand, np.array([0]), np.arange(len(demand)))
    assert found.gap <= GAP and found.lost <= 1e-9
    proven = prove(plan, planner)
    assert proven.bound_s >= found.lower * (1 - 1e-9)
    assert plan.proof.bound_s <= proven.bound_s <= plan.proof.planned_s
    assert proven.planned_s == plan.proof.planned_s
    assert proven.unsplit_s == pytest.approx(proven.planned_s)


def uneven() -> tuple[Planner, list[DeclaredJob]]:
    """Leaves 0 and 1 without spine 0's links to leaf 2: the cut at leaf 0 does not see it.

    Leaf 0 has both spines, but only one leads on to leaf 2.
    """
    planner = Planner.of(fabrics.leaf_spine(3, 2, 4)).with_links_down(np.array([4]))
    source = np.array([0, 1, 2, 3, 4, 5])
    target = np.array([8, 9, 10, 4, 6, 7])
    return planner, [fabrics.job(source, target, 1)]


def test_program_names_links_that_bind() -> None:
    planner, jobs = uneven()
    proven = prove(planner.plan(jobs), planner)
    assert proven.quality == pytest.approx(1)
    assert "4->2" in proven.binding


def test_phases_are_proved_one_by_one() -> None:
    planner = Planner.of(fabrics.leaf_spine(4, 2, 4)).with_links_down(np.array([0]))
    flows = np.arange(8)
    source, target = np.tile(np.arange(4), 2), np.concatenate([np.arange(4, 8), np.arange(8, 12)])
    sets = (
        FlowSet("small", 7, flows[:4], np.full(4, 4096)),
        FlowSet("large", 3, flows[4:], np.full(4, 40960)),
    )
    plan = planner.plan([DeclaredJob("job", source, target, flows, sets)])
    proven = prove(plan, planner)
    assert proven.planned_s == pytest.approx(4 * 10 * 4178 * 8 / fabrics.RATE)
    assert proven.quality == pytest.approx(1)


def test_several_jobs_are_proved_together() -> None:
    planner = Planner.of(fabrics.leaf_spine(4, 4, 4)).with_links_down(np.array([0]))
    hosts = np.arange(16)
    jobs = [fabrics.job(hosts, np.roll(hosts, -4), 8, name="one"),
            fabrics.job(hosts, np.roll(hosts, -8), 8, name="two")]  # fmt: skip
    plan = planner.plan(jobs)
    proven = prove(plan, planner)
    assert proven.bound_s >= plan.proof.bound_s
    assert 0.9 <= proven.quality <= 1


def test_too_large_program_leaves_the_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise TooLargeError

    monkeypatch.setattr(proof, "solve", refuse)
    planner = Planner.of(fabrics.leaf_spine(4, 4, 4)).with_links_down(np.array([0]))
    hosts = np.arange(16)
    plan = planner.plan([fabrics.job(hosts, np.roll(hosts, -4))])
    assert prove(plan, planner) == plan.proof
    assert plan.proof.kind == "cut" and len(plan.proof.binding) == 3


def test_plan_without_conflict_needs_no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "solve", None)
    planner, hosts = Planner.of(fabrics.leaf_spine(4, 4, 4)), np.arange(16)
    plan = planner.plan([fabrics.job(hosts, np.roll(hosts, -4))])
    assert prove(plan, planner).kind == "colouring"
