"""How a job's ranks are split: the groups that its collectives go over."""

from __future__ import annotations

import numpy as np

from workloads.dag import Numbers
from workloads.job_schema import JobEntry


def groups(job: JobEntry, over: str) -> Numbers:
    """Return the ranks of each group as rows. Ranks count tensor first, then data, then pipeline.

    Rank = (pipeline stage x dp + data rank) x tp + tensor rank; expert groups are consecutive data
    ranks: the order of Megatron-LM.
    """
    tp, pp = job.tp or 1, job.pp or 1
    dp = job.dp or job.ranks // (tp * pp)
    ranks = np.arange(job.ranks).reshape(pp, dp, tp)
    match over:
        case "tp":
            return ranks.reshape(-1, tp)
        case "pp":
            return np.moveaxis(ranks, 0, 2).reshape(-1, pp)
        case "dp":
            return np.moveaxis(ranks, 1, 2).reshape(-1, dp)
        case "ep":
            return np.moveaxis(ranks, 1, 2).reshape(-1, job.ep or dp)
        case "dp_ep":  # who holds the same experts
            ep = job.ep or dp
            return np.moveaxis(ranks.reshape(pp, dp // ep, ep, tp), 1, 3).reshape(-1, dp // ep)
        case _:
            return ranks.reshape(1, -1)
