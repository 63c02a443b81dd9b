"""How good paths are: what links need, against what no paths can go below."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mechanisms.iglb.demand import Demand
from mechanisms.iglb.fabric import Fabric, Floats, Ints, sums
from mechanisms.iglb.loads import loads, lost, with_host_links
from mechanisms.iglb.plan import Proof

SAME = 1e-9
"""Two times are the same that differ by no more, relatively."""


@dataclass(frozen=True)
class Least:
    """What no paths can go below: `host_s`, of hosts' links; `cut_s`, of leaves' links together.

    `host`: the arc; `leaf`: the switch, and whether it is what leaves it or what comes.
    """

    host_s: float
    host: int
    cut_s: float
    leaf: int
    leaving: bool

    @property
    def seconds(self) -> float:
        """The larger of the two."""
        return max(self.host_s, self.cut_s)


def least(fabric: Fabric, demand: Demand, without: Ints) -> Least:
    """Return what no paths can go below, of all flows but those in `without`.

    Whatever the paths, a host's link carries all that its host sends or receives, and the links of
    a leaf together all that leaves it or comes to it.
    """
    carried = np.ones(len(demand), dtype=bool)
    carried[without] = False
    ends = np.stack([fabric.out[demand.source], fabric.out[demand.target] ^ 1], axis=1)
    ends[~carried] = -1
    host = loads(demand, ends, len(fabric.tail)) * fabric.cost
    source, target = fabric.leaf[demand.source], fabric.leaf[demand.target]
    far = carried & (source != target)
    out, into = np.where(far, source, -1)[:, None], np.where(far, target, -1)[:, None]
    inside = fabric.inside
    cuts = [
        _over(
            loads(demand, ends, fabric.switches),
            sums(end[inside], fabric.rate[inside], fabric.switches),
        )
        for ends, end in ((out, fabric.tail), (into, fabric.head))
    ]
    cut = np.concatenate(cuts)
    arc, place = int(host.argmax()), int(cut.argmax())
    side, leaf = divmod(place, fabric.switches)
    return Least(float(host[arc]), arc, float(cut[place]), leaf, side == 0)


def _over(bits: Floats, rate: Floats) -> Floats:
    return np.divide(bits, rate, out=np.zeros_like(bits), where=rate > 0)


def by_cut(fabric: Fabric, demand: Demand, arcs: Ints) -> Proof:
    """Return the proof by hosts' links and leaves' cuts, which takes no linear program."""
    without = np.flatnonzero(lost(fabric, demand, arcs))
    bits = loads(demand, with_host_links(fabric, demand, arcs), len(fabric.tail))
    planned = float((bits * fabric.cost).max(initial=0.0))
    bound = least(fabric, demand, without)
    if planned <= bound.host_s * (1 + SAME):
        name = (fabric.says(bound.host),) if planned else ()
        return Proof(planned, bound.host_s, "colouring", name)
    if bound.host_s >= bound.cut_s:
        return Proof(planned, bound.host_s, "cut", (fabric.says(bound.host),))
    end = fabric.tail if bound.leaving else fabric.head
    cut = np.flatnonzero(fabric.inside & (end == bound.leaf) & (fabric.rate > 0))
    return Proof(planned, bound.cut_s, "cut", tuple(map(fabric.says, cut.tolist())))
