"""Phases in time: how much later jobs that repeat iterations start, so that bursts meet least.

Of each job a period is made: what its ranks compute, and each phase as long as its busiest link
needs for it alone, by the paths of the plan of all jobs. `rotations` turns them on a circle.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from controller.jobs import DeclaredJob
from mechanisms.iglb.demand import of_job
from mechanisms.iglb.fabric import Fabric, Floats, Ints
from mechanisms.iglb.plan import Plan
from mechanisms.iglb.rotations import rotations

STEPS = (128, 64, 32, 16, 8)
"""Of the shortest period; fewer where longer circles would come of it."""

Timeline = list[tuple[float, Floats]]
"""Of an iteration: seconds, and the share of each arc's rate meanwhile."""


def late_starts(fabric: Fabric, plan: Plan, starts: Sequence[float]) -> list[float]:
    """Return how many seconds later than it says each job of a plan should start.

    The first one's is 0. `starts`: when jobs start by themselves, in seconds. 0 for all where
    periods meet too rarely.
    """
    jobs = plan.jobs
    lines = [_timeline(fabric, job, plan.arcs[plan.of(job.name)]) for job in jobs]
    periods = [sum(seconds for seconds, _ in line) for line in lines]
    if len(jobs) < 2 or min(periods) <= 0:
        return [0.0] * len(jobs)
    used = np.array([np.any([load > 0 for _, load in line], axis=0) for line in lines])
    shared = np.flatnonzero(used.sum(axis=0) > 1)
    for steps in STEPS:
        step = min(periods) / steps
        loads = [_sampled(line, step, shared) for line in lines]
        begin = [round(at / step) for at in starts]
        turned = [np.roll(load, at, axis=1) for load, at in zip(loads, begin, strict=True)]
        try:
            return [float(late * step) for late in rotations(turned)]
        except ValueError:  # the circle is too long
            continue
    return [0.0] * len(jobs)


def _timeline(fabric: Fabric, job: DeclaredJob, arcs: Ints) -> Timeline:
    demand = of_job(job, fabric)
    ends = np.stack([fabric.out[demand.source], fabric.out[demand.target] ^ 1], axis=1)
    path = np.concatenate([ends, arcs], axis=1)
    count = len(fabric.tail)
    computing = dict(job.computing)
    found: Timeline = []
    for column, phase in enumerate(sorted({each.phase for each in job.sets})):
        for place in sorted(each for each in computing if each <= phase):
            found.append((computing.pop(place), np.zeros(count)))
        entry = np.flatnonzero(demand.column == column)
        on = path[demand.flow[entry]]
        bits = np.repeat(demand.bits[entry], path.shape[1])[(on >= 0).ravel()]
        seconds = np.bincount(on[on >= 0], bits, minlength=count) * fabric.cost
        busiest = float(seconds.max(initial=0.0))
        if busiest > 0:
            found.append((busiest, seconds / busiest))
    found += [(seconds, np.zeros(count)) for seconds in computing.values()]
    return found


def _sampled(line: Timeline, step: float, arcs: Ints) -> Floats:
    """Return the loads of some arcs in each step of a period, as their means over the step."""
    ends = np.cumsum([seconds for seconds, _ in line]) / step
    count = max(1, round(float(ends[-1])))
    ends *= count / ends[-1]
    edges = np.arange(count + 1)
    found = np.zeros((len(arcs), count))
    for begin, end, (_, load) in zip(np.append(0.0, ends), ends, line, strict=False):
        share = np.clip(np.minimum(end, edges[1:]) - np.maximum(begin, edges[:-1]), 0.0, None)
        found += load[arcs][:, None] * share
    return found
