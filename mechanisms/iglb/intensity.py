"""Jobs in the order of what their traffic is worth (Crux, SIGCOMM 2024)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from controller.jobs import DeclaredJob
from mechanisms.iglb.plan import Plan
from mechanisms.iglb.planner import Planner
from mechanisms.iglb.settings import Order
from topologies.model import Link, Topology


def by_intensity(
    planner: Planner, jobs: Sequence[DeclaredJob], work: Mapping[str, float]
) -> list[DeclaredJob]:
    """Return jobs by descending intensity: work of an iteration over seconds of its traffic alone.

    `work`: of jobs that say it, by name and in any one unit (FLOP, or seconds of all GPUs); the
    others come last. Jobs of equal intensity stay in their order, those without traffic are first.
    """

    def intensity(job: DeclaredJob) -> float:
        seconds = planner.plan([job]).proof.planned_s
        return work[job.name] / seconds if seconds else float("inf")

    return sorted(jobs, key=lambda job: -intensity(job) if job.name in work else float("inf"))


def plan_in_order(
    planner: Planner,
    jobs: Sequence[DeclaredJob],
    order: Sequence[DeclaredJob],
    before: Plan | None = None,
) -> Plan:
    """Return a plan for which jobs chose their paths one after the other, each around those before.

    `order` has the same jobs, but for those that are in `before` and keep their paths. The plan's
    flows are in the order of `jobs`.
    """
    kept = [job for job in jobs if job not in order]
    plan = before
    for count in range(1, len(order) + 1):
        plan = planner.plan([*kept, *order[:count]], plan)
    return planner.after(planner.plan(jobs, plan), before)


def work_of(job: DeclaredJob) -> float:
    """Return the seconds that all ranks of a job compute in an iteration, by its declaration."""
    ranks = len(np.unique(np.concatenate([job.source, job.target])))
    return ranks * sum(seconds for _, seconds in job.computing)


class InOrder:
    """Plans as `Planner` does, but jobs that are new choose one after the other, by intensity.

    Jobs that compute nothing are the last. Satisfies `mechanisms.iglb.learner.Plans`.
    """

    def __init__(self, planner: Planner) -> None:
        self._planner = planner

    def plan(self, jobs: Sequence[DeclaredJob], before: Plan | None = None) -> Plan:
        """Return a plan, as `Planner.plan`. Raises ValueError."""
        there = () if before is None else tuple(before.jobs)
        new = [job for job in jobs if job not in there]
        work = {job.name: seconds for job in new if (seconds := work_of(job))}
        if len(new) < 2 or not work:
            return self._planner.plan(jobs, before)
        order = by_intensity(self._planner, new, work)
        return plan_in_order(self._planner, jobs, order, before)

    def better(self, than: Plan, by: float) -> Plan | None:
        """Return a plan that needs less time by a share, as `Planner.better`."""
        return self._planner.if_better(self.plan(than.jobs), than, by)

    def with_down(self, down: frozenset[Link]) -> InOrder:
        """Return the same with exactly these links down. Raises KeyError."""
        return InOrder(self._planner.with_down(down))


def planner_of(topology: Topology, order: Order) -> Planner | InOrder:
    """Return what plans in a topology."""
    planner = Planner(topology)
    return InOrder(planner) if order is Order.INTENSITY else planner
