"""Which links jobs' flows take, as the plan in force has it: for pictures of the fabric."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mechanisms.contract import LinkMarks
from mechanisms.iglb.plan import Plan
from topologies.model import Endpoint, Topology


def link_marks(topology: Topology, plan: Plan | None) -> LinkMarks:
    """Return how many flows of each job an end of a link sends, hosts' links included."""
    jobs = () if plan is None else plan.jobs
    return LinkMarks("job", {job.name: _of_job(topology, plan, job.name) for job in jobs})


def _of_job(topology: Topology, plan: Plan | None, name: str) -> Mapping[Endpoint, int]:
    assert plan is not None
    flows = plan.of(name)
    (job,) = (each for each in plan.jobs if each.name == name)
    ends = [end for link in topology.links for end in (link.a, link.b)]
    counts = np.bincount(plan.arcs[flows][plan.arcs[flows] >= 0], minlength=len(ends))
    found = {ends[n]: int(counts[n]) for n in np.flatnonzero(counts)}
    interfaces = [interface.end for interface in topology.interfaces()]
    for places, sends in ((job.source, True), (job.target, False)):
        for place, count in zip(*np.unique(places, return_counts=True), strict=True):
            end = interfaces[place]
            here = topology.link_at(end.node, end.port)
            found[end if sends else here.other(end)] = int(count)
    return found
