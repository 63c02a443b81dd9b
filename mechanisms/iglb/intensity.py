"""Jobs in the order of what their traffic is worth (Crux, SIGCOMM 2024)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from controller.jobs import DeclaredJob
from mechanisms.iglb.plan import Plan
from mechanisms.iglb.planner import Planner


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
    planner: Planner, jobs: Sequence[DeclaredJob], order: Sequence[DeclaredJob]
) -> Plan:
    """Return a plan for which jobs chose their paths one after the other, each around those before.

    `order` has the same jobs. The plan's flows are in the order of `jobs`.
    """
    plan: Plan | None = None
    for count in range(1, len(order) + 1):
        plan = planner.plan(order[:count], plan)
    return planner.plan(jobs, plan)
