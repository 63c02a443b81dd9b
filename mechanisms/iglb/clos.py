"""Clos fabrics, recognised by their links: leaves, what joins a pod's leaves, what joins pods.

Names and roles say nothing here. A fabric is one of these where its shortest paths are those of a
Clos network: each leaf of a pod has the same switches above it as every other, and the switches
above that join pods meet the same one of each pod. With one layer above the leaves (leaf-spine,
rail-optimised, each plane of several) a pod is all that hangs together, and nothing joins pods;
rails that nothing joins are pods of one leaf.

Links that are down count as there: the planner leaves them out afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mechanisms.iglb.fabric import Fabric, Ints


@dataclass(frozen=True, eq=False)
class Clos:
    """`pod[switch]`: -1 for what is no leaf. `leaf[switch]`: a leaf's row, else -1.

    `up[row, slot]`: the arc from a leaf through its slot; slots of the same number lead to the
    same switch in all leaves of a pod. `plane[slot]`: the place of that switch in its pod.
    `top[pod, plane, slot]`: the arc from there upwards; those of the same plane and slot meet.
    """

    pod: Ints
    leaf: Ints
    up: Ints
    plane: Ints
    top: Ints


def recognise(fabric: Fabric) -> Clos | None:
    """Return the fabric as a Clos network, None where it is none."""
    inside = np.flatnonzero(fabric.inside)
    level = _levels(fabric, inside)
    tail, head = level[fabric.tail[inside]], level[fabric.head[inside]]
    if level.max(initial=0) > 2 or ((np.abs(tail - head) != 1) & (tail >= 0)).any():
        return None
    leaves = np.flatnonzero(level == 0)
    up = _rows(fabric, inside[(tail == 0)], leaves)
    if up is None or not _of_one_rate(fabric, up):
        return None
    above = np.sort(fabric.head[up], axis=1) if up.size else np.empty((len(leaves), 0), np.int64)
    pods, of_leaf = np.unique(above, axis=0, return_inverse=True)
    if not up.size:
        of_leaf = np.arange(len(leaves))
    of_leaf = of_leaf.reshape(-1)
    if not _are_apart(pods):
        return None
    pod, leaf = np.full((2, fabric.switches), -1)
    pod[leaves], leaf[leaves] = of_leaf, np.arange(len(leaves))
    joined = _tops(fabric, inside[(tail == 1) & (head == 2)], pods)
    if joined is None:
        return None
    planes, top = joined
    # A leaf's slots in the order of its pod's planes.
    place = np.full(fabric.switches, -1)
    for row in planes:
        place[row] = np.arange(len(row))
    slots = place[fabric.head[up]]
    order = np.argsort(slots, axis=1, kind="stable")
    slots = np.take_along_axis(slots, order, axis=1)
    if len(slots) and (slots != slots[0]).any():
        return None
    plane = slots[0] if len(slots) else np.empty(0, dtype=np.int64)
    return Clos(pod, leaf, np.take_along_axis(up, order, axis=1), plane, top)


def _levels(fabric: Fabric, inside: Ints) -> Ints:
    """Return how many links each switch is above the next leaf; -1 where none is."""
    level = np.full(fabric.switches, -1)
    level[fabric.leaf] = 0
    tail, head = fabric.tail[inside], fabric.head[inside]
    for above in (1, 2, 3):
        new = head[(level[tail] == above - 1) & (level[head] < 0)]
        level[new] = above
    return level


def _rows(fabric: Fabric, arcs: Ints, tails: Ints) -> Ints | None:
    """Return the arcs out of each switch as rows; None where some have more than others."""
    order = np.lexsort((arcs, fabric.head[arcs], fabric.tail[arcs]))
    count = np.bincount(fabric.tail[arcs], minlength=fabric.switches)[tails]
    if len(tails) and (count != count[0]).any():
        return None
    return arcs[order].reshape(len(tails), -1)


def _of_one_rate(fabric: Fabric, arcs: Ints) -> bool:
    """Say whether all these and the ways back have one rate, but for those that are down."""
    rate = np.concatenate([fabric.rate[arcs.ravel()], fabric.rate[arcs.ravel() ^ 1]])
    return len(np.unique(rate[rate > 0])) <= 1


def _are_apart(pods: Ints) -> bool:
    """Say whether no switch joins the leaves of two pods."""
    each = [np.unique(row) for row in pods]
    every = np.concatenate([np.empty(0, dtype=np.int64), *each])
    return len(np.unique(every)) == len(every)


def _tops(fabric: Fabric, arcs: Ints, pods: Ints) -> tuple[list[Ints], Ints] | None:
    """Return each pod's switches in the order of their planes, and `top`; None if they have none.

    Switches on top that meet one pod only join nothing and are left out.
    """
    own = [np.unique(row) for row in pods]
    of_switch = np.full(fabric.switches, -1)
    for number, row in enumerate(own):
        of_switch[row] = number
    met = np.unique(np.stack([fabric.head[arcs], of_switch[fabric.tail[arcs]]]), axis=1)[0]
    joins = np.bincount(met, minlength=fabric.switches) > 1
    arcs = arcs[joins[fabric.head[arcs]]]
    width = max((len(row) for row in own), default=0)
    if not len(arcs):
        return own, np.empty((len(own), width, 0), dtype=np.int64)
    if any(len(row) != width for row in own):
        return None
    rows = _rows(fabric, arcs, np.concatenate(own))
    if rows is None or not _of_one_rate(fabric, rows):
        return None
    top = rows.reshape(len(own), width, -1)
    heads = fabric.head[top]
    for number in range(len(own)):
        order = np.lexsort((own[number], *heads[number].T[::-1]))
        own[number], top[number] = own[number][order], top[number][order]
    heads = fabric.head[top]
    return (own, top) if (heads == heads[0]).all() else None
