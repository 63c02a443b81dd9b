"""How good paths are: what links need, against what no paths can go below."""

from __future__ import annotations

import numpy as np

from mechanisms.iglb.demand import Demand
from mechanisms.iglb.fabric import Fabric, Ints
from mechanisms.iglb.fixed import Least
from mechanisms.iglb.loads import loads
from mechanisms.iglb.plan import Proof

SAME = 1e-9
"""Two times are the same that differ by no more, relatively."""


def by_cut(fabric: Fabric, demand: Demand, arcs: Ints, bound: Least) -> Proof:
    """Return the proof by hosts' links and leaves' cuts, which takes no linear program.

    `bound`: of the flows that have a path or need none.
    """
    bits = loads(demand, arcs, len(fabric.tail))
    planned = max(float((bits * fabric.cost).max(initial=0.0)), bound.host_s)
    return Proof(planned, bound.seconds, *_said(fabric, bound, planned), bound.unsplit)


def _said(fabric: Fabric, bound: Least, planned: float) -> tuple[str, tuple[str, ...]]:
    """Return the kind of a proof, and the arcs that are its."""
    host = (fabric.says(bound.host),) if planned else ()
    if planned <= bound.host_s * (1 + SAME):
        return "colouring", host
    if bound.host_s >= bound.cut_s:
        return "cut", host
    end = fabric.tail if bound.leaving else fabric.head
    cut = np.flatnonzero(fabric.inside & (end == bound.leaf) & (fabric.rate > 0))
    return "cut", tuple(map(fabric.says, cut.tolist()))
