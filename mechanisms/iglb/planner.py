"""The planner: from jobs that say what they send to a path for every flow.

In Clos fabrics paths come from edge colouring, which leaves no two flows on a link that are busy
together; elsewhere, and for flows whose links are down, from greedy search with local search. With
a plan before it, a flow whose path is whole keeps it, and only others are planned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from controller.jobs import DeclaredJob
from mechanisms.iglb import colouring
from mechanisms.iglb.cut import SAME, by_cut
from mechanisms.iglb.demand import Demand
from mechanisms.iglb.even import can_even, even
from mechanisms.iglb.fabric import Fabric, Ints
from mechanisms.iglb.fixed import fixed, least
from mechanisms.iglb.known import Known
from mechanisms.iglb.loads import loads, lost
from mechanisms.iglb.plan import Plan
from mechanisms.iglb.search import search
from topologies.model import Link, Topology

Bools = npt.NDArray[np.bool_]


class Planner:
    """Plans jobs' flows in one fabric. Pure: a plan depends on what is given, on nothing else."""

    def __init__(self, topology: Topology, down: frozenset[Link] = frozenset()) -> None:
        self._set(Known(Fabric.of(topology)))
        if down:
            self._fail(self._numbers(down))

    @classmethod
    def of(cls, fabric: Fabric) -> Planner:
        """Return a planner of a fabric that is given as arrays."""
        planner = object.__new__(cls)
        planner._set(Known(fabric))
        return planner

    def _set(self, known: Known) -> None:
        self._known = known
        self._network = known.network
        self.fabric = known.whole

    def _fail(self, links: Ints) -> None:
        self.fabric = self._known.whole.without(links)
        self._network = self._network.at(self.fabric)

    def _numbers(self, links: frozenset[Link]) -> Ints:
        return np.array(sorted(self._known.whole.links[link] for link in links), dtype=np.int64)

    def with_down(self, down: frozenset[Link]) -> Planner:
        """Return the planner of the same fabric with exactly these links down. Raises KeyError."""
        return self.with_links_down(self._numbers(down))

    def with_links_down(self, links: Ints) -> Planner:
        """Return the planner of the same fabric with exactly these links down, by number."""
        planner = object.__new__(Planner)
        planner._set(self._known)
        planner._fail(links)
        return planner

    def demand(self, jobs: Sequence[DeclaredJob]) -> Demand:
        """Return what jobs send, in the order of a plan's flows. Raises ValueError."""
        return self._known.demand(jobs)[0]

    def plan(self, jobs: Sequence[DeclaredJob], before: Plan | None = None) -> Plan:
        """Return a plan of all flows of these jobs.

        With `before`, flows that are in it keep their path if it is whole and among the shortest;
        only the others are planned. Flows are the same in both if their jobs have the same name and
        they the same number, source and target. Raises ValueError.
        """
        demand, of_all = self._known.demand(jobs)
        old, known = _paths_before(jobs, demand, before)
        kept = self._stands(demand, old)
        arcs = old.copy()
        arcs[~kept] = -1
        bound = least(self.fabric, of_all)
        best = bound.seconds
        found = self._new_coloured(demand, arcs, ~known)
        if found is None or not self._is_done(demand, found, bound.unsplit):
            found, most = self._searched(demand, arcs, found, ~kept, bound.unsplit)
            if most > best * (1 + SAME) and can_even(demand):
                found = even(self._network, demand, found, ~kept, best)
        without = lost(self.fabric, demand, found)
        if without.any():
            bound = least(self.fabric, fixed(self.fabric, demand, ~without))
        return Plan(
            tuple(jobs),
            found,
            _rows_that_differ(found, old),
            by_cut(self.fabric, demand, found, bound),
            0 if before is None else before.version + 1,
            np.flatnonzero(without),
        )

    def better(self, than: Plan, by: float) -> Plan | None:
        """Return a new plan of the same jobs if it needs less time, by a share.

        `than`: a plan that this planner made. `by`: 0.05 asks for more than 5 % less. For links
        that return: flows that were moved off them are well where they are, and only a gain is
        worth moving them again.
        """
        return self.if_better(self.plan(than.jobs), than, by)

    def if_better(self, fresh: Plan, than: Plan, by: float) -> Plan | None:
        """Return a plan as the next one after `than` if it needs less time, by a share."""
        if fresh.proof.planned_s >= than.proof.planned_s * (1 - by):
            return None
        return self.after(fresh, than)

    def after(self, plan: Plan, before: Plan | None) -> Plan:
        """Return a plan as the next one after another, with what it moves."""
        old = _paths_before(plan.jobs, self.demand(plan.jobs), before)[0]
        moved = _rows_that_differ(plan.arcs, old)
        return replace(plan, moved=moved, version=0 if before is None else before.version + 1)

    def _new_coloured(self, demand: Demand, arcs: Ints, new: Bools) -> Ints | None:
        """Return paths with those of new flows by colouring, as far as links are up.

        None where the fabric is no Clos network, or no flow is new.
        """
        clos = self._known.clos
        if clos is None or not new.any():
            return None
        found = colouring.paths(clos, self._known.whole, demand, new)
        found[self._broken(demand, found)] = -1
        width = max(found.shape[1], arcs.shape[1])
        return np.where(new[:, None], _wide(found, width), _wide(arcs, width))

    def _searched(
        self, demand: Demand, arcs: Ints, coloured: Ints | None, movable: Bools, floor: float
    ) -> tuple[Ints, float]:
        """Return paths of all flows that can have one, moved as far as that makes them better.

        And the seconds that the busiest link between switches needs. From coloured paths, from
        none but those that are kept, or the better of both.
        """
        starts = [] if coloured is None else [coloured]
        if coloured is None or ((arcs >= 0).any() and movable.any()):
            starts.append(arcs)
        found = [search(self._network, demand, each, movable, floor) for each in starts]
        return min(found, key=lambda each: each[1])

    def _is_done(self, demand: Demand, arcs: Ints, floor: float) -> bool:
        """Say whether nothing is left to plan or to improve."""
        if lost(self.fabric, demand, arcs).any():
            return False
        bits = loads(demand, arcs, len(self.fabric.tail))
        return bool((bits * self.fabric.cost).max(initial=0.0) <= floor * (1 + SAME))

    def _broken(self, demand: Demand, arcs: Ints) -> Bools:
        """Say which flows have a path with a link that is down, their hosts' included."""
        down = np.append(self.fabric.rate <= 0, False)  # the last is what fills paths up
        ends = down[self.fabric.out] | down[self.fabric.out ^ 1]
        broken: Bools = ends[demand.source] | ends[demand.target]
        broken[_rows(down[arcs])] = True
        return broken

    def _stands(self, demand: Demand, arcs: Ints) -> Bools:
        """Say which flows have a path that is whole and one of the shortest."""
        length = np.zeros(len(arcs), dtype=np.int64)
        for hop in arcs.T:
            length += hop >= 0
        whole: Bools = (length > 0) & ~self._broken(demand, arcs)
        flows = np.flatnonzero(whole)
        source = self.fabric.leaf[demand.source[flows]]
        target = self.fabric.leaf[demand.target[flows]]
        longer = length[flows] > self._known.lengths(source, target)
        if longer.any():  # a way around links that are down, or were
            targets, row = np.unique(target[longer], return_inverse=True)
            hops = self._network.hops(targets)[row, source[longer]]
            whole[flows[longer]] = length[flows[longer]] == hops
        return whole


def _paths_before(
    jobs: Sequence[DeclaredJob], demand: Demand, before: Plan | None
) -> tuple[Ints, Bools]:
    """Return the paths that flows had before, and which flows were in that plan."""
    known = np.zeros(len(demand), dtype=bool)
    if before is None:
        return np.full((len(demand), 0), -1), known
    if tuple(jobs) == tuple(before.jobs):  # equal if they are the same objects
        return before.arcs, ~known
    old = np.full((len(demand), before.arcs.shape[1]), -1)
    names = {job.name: job for job in before.jobs}
    first = 0
    for job in jobs:
        was = names.get(job.name)
        if was is not None:
            same = min(len(job), len(was))
            here, there = slice(first, first + same), before.of(job.name)[:same]
            like = (demand.source[here] == was.source[:same]) & (
                demand.target[here] == was.target[:same]
            )
            old[here] = np.where(like[:, None], before.arcs[there], -1)
            known[here] = like
        first += len(job)
    return old, known


def _rows_that_differ(arcs: Ints, others: Ints) -> Ints:
    width = max(arcs.shape[1], others.shape[1])
    return np.unique(_rows(_wide(arcs, width) != _wide(others, width)))


def _rows(where: Bools) -> Ints:
    """Return the rows in which something is, some of them several times."""
    found: Ints = np.flatnonzero(where) // max(1, where.shape[1])
    return found


def _wide(arcs: Ints, width: int) -> Ints:
    if arcs.shape[1] == width:
        return arcs
    return np.pad(arcs, ((0, 0), (0, width - arcs.shape[1])), constant_values=-1)
