"""Paths without conflicts in Clos fabrics, by edge colouring of bipartite multigraphs.

In two tiers the colours are the slots of a leaf, and a flow is an edge from its leaf to that of its
target: flows of one colour share no link. A leaf with more flows than slots is taken apart, the
largest flows first, so that each slot gets one flow of each part: equal flows are spread evenly,
and queue pairs of one connection onto different links. In three tiers the leaves are coloured
first, which chooses the plane; then, in each plane, pods by the slots of the switches there. Flows
that are never under way together are coloured apart.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mechanisms.iglb.clos import Clos
from mechanisms.iglb.demand import Demand
from mechanisms.iglb.fabric import Fabric, Floats, Ints
from mechanisms.iglb.native import Lent, native


def colour(left: Ints, right: Ints, weight: Floats, colours: int) -> Ints:
    """Return colours of edges of a bipartite multigraph, spread evenly where they do not suffice.

    Of n edges at a node at most ceil(n / colours) get the same colour, and of its `colours`
    heaviest edges no two, nor of the next. Edges of equal weight stay in their order.
    """
    if not len(left):
        return np.empty(0, dtype=np.int64)
    left, right = _apart(left, weight, colours), _apart(right, weight, colours)
    lent, found = Lent(), np.empty(len(left), dtype=np.int32)
    done = native().lib.iglb_colour(
        len(left), lent(left, "int32_t"), lent(right, "int32_t"),
        int(left.max()) + 1, int(right.max()) + 1, colours, lent(found, "int32_t"),
    )  # fmt: skip
    if done == -1:
        raise MemoryError
    if done < 0:
        raise ValueError(f"edges need more than {colours} colours")
    return found.astype(np.int64)


def _apart(node: Ints, weight: Floats, colours: int) -> Ints:
    """Return nodes with at most so many edges each: parts of the nodes that have more."""
    count = np.bincount(node)
    parts = -(-count // max(colours, 1))
    if parts.max(initial=0) <= 1:
        return np.asarray(np.cumsum(parts)[node] - 1)
    order = np.lexsort((-weight, node))
    first = np.cumsum(count) - count
    rank = np.empty(len(node), dtype=np.int64)
    rank[order] = np.arange(len(node)) - first[node[order]]
    found: Ints = (np.cumsum(parts) - parts)[node] + rank // colours
    return found


def paths(clos: Clos, fabric: Fabric, demand: Demand, wanted: npt.NDArray[np.bool_]) -> Ints:
    """Return the arcs of each flow (flows x 2 or 4), filled up with -1.

    None for flows that are not wanted, for those within a leaf, and for those between pods that
    nothing joins.
    """
    pods, planes, tops = clos.top.shape
    arcs = np.full((len(demand), 4 if tops else 2), -1)
    source, target = fabric.leaf[demand.source], fabric.leaf[demand.target]
    near = clos.pod[source] == clos.pod[target]
    far = np.flatnonzero(wanted & (source != target) & (near | (tops > 0)))
    slots = clos.up.shape[1]
    if not slots or not len(far):
        return arcs
    near, group, weight = near[far], demand.group[far], demand.weight[far]
    here, there = clos.leaf[source[far]], clos.leaf[target[far]]
    leaves = len(clos.up)
    slot = colour(group * leaves + here, group * leaves + there, weight, slots)
    arcs[far, 0], last = clos.up[here, slot], clos.up[there, slot] ^ 1
    arcs[far[near], 1] = last[near]
    between = ~near
    if between.any():
        far, slot, group = far[between], slot[between], group[between]
        pod_here, pod_there = clos.pod[source[far]], clos.pod[target[far]]
        plane = clos.plane[slot]
        top = colour(
            (group * pods + pod_here) * planes + plane,
            (group * pods + pod_there) * planes + plane,
            weight[between],
            tops,
        )
        arcs[far, 1] = clos.top[pod_here, plane, top]
        arcs[far, 2] = clos.top[pod_there, plane, top] ^ 1
        arcs[far, 3] = last[between]
    return arcs
