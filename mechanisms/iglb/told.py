"""What is reported to a scheduler of a job: from the plan of all jobs and their flows' ports."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from controller.jobs import PlannedJob
from mechanisms.iglb.plan import Plan

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def planned_job(plan: Plan, name: str, udp_port: Ints, by_entry: Bools) -> PlannedJob | None:
    """Return what is planned for a job, None for one that is not in the plan.

    `udp_port`, `by_entry`: of all the plan's flows.
    """
    try:
        flows = plan.of(name)
    except KeyError:
        return None
    proof = plan.proof
    return PlannedJob(
        udp_port[flows],
        by_entry[flows],
        proof.planned_s,
        proof.bound_s,
        proof.kind,
        plan.version,
    )
