"""What paths put on links: counted from the arcs alone, however the paths were chosen."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mechanisms.iglb.demand import Demand
from mechanisms.iglb.fabric import Fabric, Floats, Ints, sums

MOST_CELLS = 1 << 23


def lost(fabric: Fabric, demand: Demand, arcs: Ints) -> npt.NDArray[np.bool_]:
    """Say which flows have no path: nothing joins their hosts."""
    up = fabric.rate[fabric.out] * fabric.rate[fabric.out ^ 1] > 0
    far = fabric.leaf[demand.source] != fabric.leaf[demand.target]
    none = arcs[:, 0] < 0 if arcs.shape[1] else np.ones(len(arcs), dtype=bool)
    found: npt.NDArray[np.bool_] = ~up[demand.source] | ~up[demand.target] | (far & none)
    return found


def loads(demand: Demand, arcs: Ints, count: int) -> Floats:
    """Return the bits on each of `count` arcs: over jobs the sum, over a job's phases the most."""
    columns = demand.columns
    if count * columns <= MOST_CELLS:
        if not columns:
            return np.zeros(count)
        # What fills paths up is counted, too: as arc -1, which is before all others.
        bits = np.repeat(demand.bits, arcs.shape[1])
        if columns == 1:
            return sums((demand.rows(arcs) + 1).ravel(), bits, count + 1)[1:]
        cell = (arcs[demand.flow] + 1) * columns + demand.column[:, None]
        cells = sums(cell.ravel(), bits, (count + 1) * columns)[columns:].reshape(count, columns)
        most = np.maximum.reduceat(cells, demand.starts[:-1], axis=1)
        return np.asarray(most.sum(axis=1))
    arc, column, bits = on_arcs(demand, arcs)
    key, place = np.unique(arc * columns + column, return_inverse=True)
    return _most(demand, key, sums(place, bits, len(key)), count)


def on_arcs(demand: Demand, arcs: Ints) -> tuple[Ints, Ints, Floats]:
    """Return all that lies on arcs: arc, column and bits of each entry on each of its arcs."""
    of_entry = arcs[demand.flow].ravel()
    place = np.flatnonzero(of_entry >= 0)
    entry = place // max(1, arcs.shape[1])
    return of_entry[place], demand.column[entry], demand.bits[entry]


def _most(demand: Demand, key: Ints, bits: Floats, count: int) -> Floats:
    """Return loads of arcs from sums by arc and column, in ascending order of these."""
    found = np.zeros(count)
    if not len(key):
        return found
    arc, column = np.divmod(key, demand.columns)
    job = np.searchsorted(demand.starts, column, side="right") - 1
    first = np.flatnonzero(np.diff(arc, prepend=-1) | np.diff(job, prepend=-1))
    np.add.at(found, arc[first], np.maximum.reduceat(bits, first))
    return found
