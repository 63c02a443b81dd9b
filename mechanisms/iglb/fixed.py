"""What lies on links whatever the paths: on hosts' own, and over all links of a leaf together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mechanisms.iglb.demand import Demand
from mechanisms.iglb.fabric import Fabric, Floats, Ints, sums
from mechanisms.iglb.loads import loads

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Pieces:
    """Flows that leave or enter leaves: `leaf`, `bits`, and `rank`, from 0, by size in the leaf.

    Ranked together are flows that can be under way together; of jobs with several phases those of
    one phase.
    """

    leaf: Ints
    bits: Floats
    rank: Ints


@dataclass(frozen=True, eq=False)
class Fixed:
    """Bits that flows put on arcs of hosts (`host`), and out of and into each switch's hosts.

    `leaving`, `entering`: of flows between switches, by the switch of their source and of their
    target; the same flows one by one are `out` and `into`.
    """

    host: Floats
    leaving: Floats
    entering: Floats
    out: Pieces
    into: Pieces


def fixed(fabric: Fabric, demand: Demand, carried: Bools | None = None) -> Fixed:
    """Return what is fixed of all flows, or of those that are carried. No rate matters."""
    carried = np.ones(len(demand), dtype=bool) if carried is None else carried
    ends = np.stack([fabric.out[demand.source], fabric.out[demand.target] ^ 1], axis=1)
    ends[~carried] = -1
    source, target = fabric.leaf[demand.source], fabric.leaf[demand.target]
    far = carried & (source != target)
    return Fixed(
        loads(demand, ends, len(fabric.tail)),
        loads(demand, np.where(far, source, -1)[:, None], fabric.switches),
        loads(demand, np.where(far, target, -1)[:, None], fabric.switches),
        _pieces(demand, far, source),
        _pieces(demand, far, target),
    )


def _pieces(demand: Demand, far: Bools, leaf: Ints) -> Pieces:
    entry = np.flatnonzero(far[demand.flow])
    at, bits = leaf[demand.flow[entry]], demand.bits[entry]
    several = (np.diff(demand.starts) > 1).any()
    together = demand.column[entry] if several else np.zeros(len(entry), dtype=np.int64)
    group = together * (int(leaf.max(initial=0)) + 1) + at
    order = np.lexsort((-bits, group))
    first = np.flatnonzero(np.diff(group[order], prepend=-1))
    count = np.diff(np.append(first, len(order)))
    return Pieces(at[order], bits[order], np.arange(len(order)) - np.repeat(first, count))


@dataclass(frozen=True)
class Least:
    """What no paths can go below: `host_s`, of hosts' links; `cut_s`, of a leaf's links together.

    `host`: the arc; `leaf`: the switch, and whether it is what leaves it or what comes.
    `unsplit_s`: of flows that take one path each, some of which must then share a link.
    """

    host_s: float
    host: int
    cut_s: float
    leaf: int
    leaving: bool
    unsplit_s: float

    @property
    def seconds(self) -> float:
        """The larger of the first two: the bound of flows that may be split."""
        return max(self.host_s, self.cut_s)

    @property
    def unsplit(self) -> float:
        """The largest of all."""
        return max(self.seconds, self.unsplit_s)


def least(fabric: Fabric, of: Fixed) -> Least:
    """Return what no paths can go below in a fabric with these rates.

    Unsplit: among the n m + 1 largest flows that leave a leaf by m links, n + 1 share a link.
    """
    host = of.host * fabric.cost
    inside = fabric.inside & (fabric.rate > 0)
    cuts, unsplit = [], 0.0
    sides = (of.leaving, fabric.tail, of.out), (of.entering, fabric.head, of.into)
    for bits, end, pieces in sides:
        ends, rate = end[inside], fabric.rate[inside]
        cuts.append(_over(bits, sums(ends, rate, fabric.switches)))
        links = np.bincount(ends, minlength=fabric.switches)
        fastest = np.zeros(fabric.switches)
        np.maximum.at(fastest, ends, rate)
        shared = pieces.rank // np.maximum(links, 1)[pieces.leaf] + 1
        unsplit = max(unsplit, _over(shared * pieces.bits, fastest[pieces.leaf]).max(initial=0.0))
    cut = np.concatenate(cuts)
    arc, place = int(host.argmax()), int(cut.argmax())
    side, leaf = divmod(place, fabric.switches)
    return Least(float(host[arc]), arc, float(cut[place]), leaf, side == 0, float(unsplit))


def _over(bits: Floats, rate: Floats) -> Floats:
    return np.divide(bits, rate, out=np.zeros_like(bits), where=rate > 0)
