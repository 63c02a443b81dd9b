"""Paths in any fabric: greedy by the least largest load, then local search; the loops are C.

Every path is a shortest one over links that are up. Loads are those of `loads`: over jobs the sum,
over a job's phases the most.
"""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from mechanisms.iglb.demand import Demand
from mechanisms.iglb.fabric import Fabric, Ints
from mechanisms.iglb.native import Lent, native

FAR = 65535
MOST_CELLS = 1 << 24
"""Of arcs x phases; beyond that phases are counted as if several were under way together."""
CHAIN = 512
"""Moves in a row that may be needed to take one flow off the busiest arc."""

Hops = npt.NDArray[np.uint16]
Path = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Effort:
    """How long the local search may look: searches of a path, `fixed` and for each flow."""

    fixed: int = 20_000
    each: int = 20


class Sent:
    """A demand in C's form, as far as that is the same whichever links are down and flows may move.

    `source`, `target`: the leaves of each flow; `fields`: of `iglb_flows`.
    """

    def __init__(self, fabric: Fabric, arcs: int, demand: Demand) -> None:
        self.source, self.target = fabric.leaf[demand.source], fabric.leaf[demand.target]
        column, starts = _columns(demand, arcs)
        self._lent = lend = Lent()
        self.fields = {
            "flows": len(demand),
            "columns": int(starts[-1]),
            "jobs": len(starts) - 1,
            "entry_start": lend(demand.entry_start, "int32_t"),
            "entry_column": lend(column, "int32_t"),
            "entry_bits": lend(demand.bits, "double"),
            "job": lend(demand.job, "int32_t"),
            "column_start": lend(starts, "int32_t"),
            "source": lend(self.source, "int32_t"),
            "target": lend(self.target, "int32_t"),
        }


class Network:
    """The arcs between switches in C's form, and distances over those that are up."""

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self.arcs = np.flatnonzero(fabric.inside)
        # Both ways, with one more at the end, which is what fills paths up, -1, as an index.
        self._place = np.full(len(fabric.tail) + 1, -1, dtype=np.int32)
        self._place[self.arcs] = np.arange(len(self.arcs))
        self._arc = np.append(self.arcs, -1)
        self._sent: WeakKeyDictionary[Demand, Sent] = WeakKeyDictionary()
        self._lent = Lent()
        lend, nodes = self._lent, fabric.switches
        tail, head = fabric.tail[self.arcs], fabric.head[self.arcs]
        out, into = np.argsort(tail, kind="stable"), np.argsort(head, kind="stable")
        self._static = {
            "nodes": nodes,
            "arcs": len(self.arcs),
            "tail": lend(tail, "int32_t"),
            "head": lend(head, "int32_t"),
            "out_start": lend(np.searchsorted(tail[out], np.arange(nodes + 1)), "int32_t"),
            "out_arc": lend(out, "int32_t"),
            "in_start": lend(np.searchsorted(head[into], np.arange(nodes + 1)), "int32_t"),
            "in_arc": lend(into, "int32_t"),
        }
        self._with(fabric)

    def _with(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self._hops: dict[int, Hops] = {}
        self._costs = Lent()
        costs = {"cost": self._costs(fabric.cost[self.arcs], "double")}
        self.net = native().ffi.new("iglb_net *", {**self._static, **costs})

    def at(self, fabric: Fabric) -> Network:
        """Return the network with other rates of the same arcs."""
        other = object.__new__(Network)
        other.arcs, other._place, other._arc = self.arcs, self._place, self._arc
        other._lent, other._static, other._sent = self._lent, self._static, self._sent
        other._with(fabric)
        return other

    def sent(self, demand: Demand) -> Sent:
        """Return a demand in C's form, made once for the network whatever its rates."""
        found = self._sent.get(demand)
        if found is None:
            found = self._sent[demand] = Sent(self.fabric, len(self.arcs), demand)
        return found

    def to_path(self, arcs: Ints) -> Path:
        """Return paths in C's numbers of arcs."""
        return self._place.take(arcs)

    def from_path(self, path: Path) -> Ints:
        """Return paths in the fabric's numbers of arcs."""
        return self._arc.take(path)

    def hops(self, targets: Ints) -> Hops:
        """Return how many arcs each switch is away from each target (rows); FAR: none leads."""
        new = [target for target in targets.tolist() if target not in self._hops]
        found = np.empty((len(new), self.fabric.switches), dtype=np.uint16)
        lent = Lent()
        rows = lent(np.array(new, dtype=np.int32), "int32_t")
        if native().lib.iglb_hops(self.net, len(new), rows, lent(found, "uint16_t")):
            raise MemoryError
        self._hops.update(zip(new, found, strict=True))
        table = [self._hops[target] for target in targets.tolist()]
        return np.stack(table) if table else found


def search(
    network: Network,
    demand: Demand,
    arcs: Ints,
    movable: Bools,
    floor: float,
    effort: Effort | None = None,
    order: Ints | None = None,
) -> tuple[Ints, float]:
    """Return paths (flows x the longest path) with one for each flow that has none and can have.

    And the seconds that the busiest arc between switches needs.

    Flows without a path are placed in `order`, as far as that says, then largest first. Then those
    in `movable` and the new ones are moved while the busiest arc needs more than `floor` seconds.
    """
    fabric, effort = network.fabric, effort or Effort()
    sent = network.sent(demand)
    source, target = sent.source, sent.target
    pathless = (arcs[:, 0] < 0) if arcs.shape[1] else np.ones(len(arcs), dtype=bool)
    up = fabric.rate[fabric.out] * fabric.rate[fabric.out ^ 1] > 0
    wanted = pathless & (source != target) & up[demand.source] & up[demand.target]
    moves = movable | wanted
    rows, row = np.unique(target[moves], return_inverse=True)
    hops = network.hops(rows)
    of_flow = np.zeros(len(demand), dtype=np.int64)
    of_flow[moves] = row
    length = np.zeros(len(demand), dtype=np.int64)
    length[moves] = hops[row, source[moves]]
    wanted &= length < FAR
    length[length == FAR] = 0
    width = max(arcs.shape[1], int(length.max(initial=0)), 1)
    path = np.full((len(demand), width), -1, dtype=np.int32)
    path[:, : arcs.shape[1]] = network.to_path(arcs)
    placed = _order(demand, np.flatnonzero(wanted), order)
    lent = Lent()
    flows = native().ffi.new(
        "iglb_flows *",
        {
            **sent.fields,
            "width": width,
            "row": lent(of_flow, "int32_t"),
            "hops": lent(hops, "uint16_t"),
            "movable": lent(moves & (wanted | ~pathless), "uint8_t"),
            "path": lent(path, "int32_t"),
        },
    )
    budget = effort.fixed + effort.each * len(demand) if effort.fixed else 0
    most = native().lib.iglb_search(
        network.net, flows, len(placed), lent(placed, "int32_t"), floor, budget, CHAIN
    )
    if most < 0:
        raise MemoryError
    found = np.full(path.shape, -1)
    found[:, : arcs.shape[1]] = arcs
    found[moves] = network.from_path(path[moves])
    return found, float(most)


def _order(demand: Demand, flows: Ints, order: Ints | None) -> Ints:
    rank = np.zeros(len(demand), dtype=np.int64) if order is None else order
    return flows[np.lexsort((-demand.weight[flows], rank[flows]))]


def _columns(demand: Demand, arcs: int) -> tuple[Ints, Ints]:
    """Return each entry's column and where jobs' columns start, with no more cells than fit."""
    own = np.diff(demand.starts)
    most = max(1, MOST_CELLS // max(1, arcs) // max(1, len(own)))
    if own.max(initial=0) <= most:
        return demand.column, demand.starts
    kept = np.minimum(own, most)
    starts: Ints = np.concatenate([[0], np.cumsum(kept)]).astype(np.int64)
    job = demand.job[demand.flow]
    local = demand.column - demand.starts[job]
    return starts[job] + local % np.maximum(kept, 1)[job], starts
