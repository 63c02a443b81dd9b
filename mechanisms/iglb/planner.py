"""The planner: from jobs that say what they send to a path for every flow.

In Clos fabrics paths come from edge colouring, which leaves no two flows on a link that are busy
together; elsewhere, and for flows whose links are down, from greedy search with local search. With
a plan before it, a flow whose path is whole keeps it, and only others are planned.
"""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from controller.jobs import DeclaredJob
from mechanisms.iglb import colouring, proof
from mechanisms.iglb.clos import Clos, recognise
from mechanisms.iglb.demand import Demand, of_job, together
from mechanisms.iglb.fabric import Fabric, Ints
from mechanisms.iglb.loads import lost
from mechanisms.iglb.plan import Plan
from mechanisms.iglb.search import Effort, Network, search
from topologies.model import Link, Topology

Bools = npt.NDArray[np.bool_]


class Planner:
    """Plans jobs' flows in one fabric. Pure: a plan depends on what is given, on nothing else."""

    def __init__(self, topology: Topology, down: frozenset[Link] = frozenset()) -> None:
        fabric = Fabric.of(topology)
        self._set(fabric, recognise(fabric), Network(fabric), WeakKeyDictionary())
        if down:
            self._fail(self._numbers(down))

    @classmethod
    def of(cls, fabric: Fabric) -> Planner:
        """Return a planner of a fabric that is given as arrays."""
        planner = object.__new__(cls)
        planner._set(fabric, recognise(fabric), Network(fabric), WeakKeyDictionary())
        return planner

    def _set(
        self,
        whole: Fabric,
        clos: Clos | None,
        network: Network,
        known: WeakKeyDictionary[DeclaredJob, Demand],
    ) -> None:
        self._whole, self._clos, self._network = whole, clos, network
        self._known = known
        self.fabric = whole

    def _fail(self, links: Ints) -> None:
        self.fabric = self._whole.without(links)
        self._network = self._network.at(self.fabric)

    def _numbers(self, links: frozenset[Link]) -> Ints:
        return np.array(sorted(self._whole.links[link] for link in links), dtype=np.int64)

    def with_down(self, down: frozenset[Link]) -> Planner:
        """Return the planner of the same fabric with exactly these links down. Raises KeyError."""
        return self.with_links_down(self._numbers(down))

    def with_links_down(self, links: Ints) -> Planner:
        """Return the planner of the same fabric with exactly these links down, by number."""
        planner = object.__new__(Planner)
        planner._set(self._whole, self._clos, self._network, self._known)
        planner._fail(links)
        return planner

    def demand(self, jobs: Sequence[DeclaredJob]) -> Demand:
        """Return what jobs send, in the order of a plan's flows. Raises ValueError."""
        for job in jobs:
            if job not in self._known:
                self._known[job] = of_job(job, self._whole)
        return together([self._known[job] for job in jobs])

    def plan(self, jobs: Sequence[DeclaredJob], before: Plan | None = None) -> Plan:
        """Return a plan of all flows of these jobs.

        With `before`, flows that are in it keep their path if it is whole and among the shortest;
        only the others are planned. Flows are the same in both if the job has the same name and
        they have the same number, source and target. Raises ValueError.
        """
        demand = self.demand(jobs)
        if before is None:
            kept, old = np.zeros(len(demand), dtype=bool), np.full((len(demand), 0), -1)
        else:
            kept, old = self._kept(jobs, demand, before)
        arcs = np.where(kept[:, None], old, -1)
        if not kept.any() and self._clos is not None:
            arcs = self._whole_only(colouring.paths(self._clos, self._whole, demand))
        arcs = self._searched(demand, arcs, ~kept)
        return self._made(jobs, demand, arcs, old, before)

    def better(self, jobs: Sequence[DeclaredJob], than: Plan, by: float) -> Plan | None:
        """Return a plan made all anew if it needs less time than `than` does here, by a share.

        `by`: 0.05 asks for more than 5 % less. For links that return: flows that were moved off
        them are well where they are, and only a gain is worth moving them again.
        """
        kept = self.plan(jobs, than)
        fresh = self.plan(jobs)
        if fresh.proof.planned_s >= kept.proof.planned_s * (1 - by):
            return None
        _, old = self._kept(jobs, self.demand(jobs), than)
        return self._made(jobs, self.demand(jobs), fresh.arcs, old, than)

    def _made(
        self,
        jobs: Sequence[DeclaredJob],
        demand: Demand,
        arcs: Ints,
        old: Ints,
        before: Plan | None,
    ) -> Plan:
        width = max(arcs.shape[1], old.shape[1])
        moved = (_wide(arcs, width) != _wide(old, width)).any(axis=1)
        return Plan(
            tuple(jobs),
            arcs,
            np.flatnonzero(moved),
            proof.by_cut(self.fabric, demand, arcs),
            0 if before is None else before.version + 1,
            np.flatnonzero(lost(self.fabric, demand, arcs)),
        )

    def _whole_only(self, arcs: Ints) -> Ints:
        """Return paths without those that a link which is down breaks."""
        broken = ((arcs >= 0) & (self.fabric.rate[arcs] <= 0)).any(axis=1)
        arcs[broken] = -1
        return arcs

    def _kept(
        self, jobs: Sequence[DeclaredJob], demand: Demand, before: Plan
    ) -> tuple[Bools, Ints]:
        """Return which flows keep their path, and the paths that flows had before."""
        kept = np.zeros(len(demand), dtype=bool)
        old = np.full((len(demand), before.arcs.shape[1]), -1)
        names = {job.name: job for job in before.jobs}
        first = 0
        for job in jobs:
            was = names.get(job.name)
            if was is not None:
                same = min(len(job), len(was))
                here = np.arange(first, first + same)
                there = before.of(job.name)[:same]
                if job is not was:
                    like = (demand.source[here] == was.source[:same]) & (
                        demand.target[here] == was.target[:same]
                    )
                    here, there = here[like], there[like]
                old[here] = before.arcs[there]
                kept[here] = True
            first += len(job)
        kept &= self._stands(demand, old)
        return kept, old

    def _stands(self, demand: Demand, arcs: Ints) -> Bools:
        """Say which flows have a path that is whole and one of the shortest."""
        source, target = self.fabric.leaf[demand.source], self.fabric.leaf[demand.target]
        on = arcs >= 0
        whole = np.asarray(on.any(axis=1) & ~(on & (self.fabric.rate[arcs] <= 0)).any(axis=1))
        flows = np.flatnonzero(whole)
        targets, row = np.unique(target[flows], return_inverse=True)
        hops = self._network.hops(targets)[row, source[flows]]
        whole[flows] = on[flows].sum(axis=1) == hops
        return np.asarray(whole & (source != target))

    def _searched(self, demand: Demand, arcs: Ints, movable: Bools) -> Ints:
        """Return paths of all flows that can have one, moved while that makes them better."""
        without = np.flatnonzero(lost(self.fabric, demand, arcs))
        found = proof.by_cut(self.fabric, demand, arcs)
        floor = proof.least(self.fabric, demand, np.empty(0, dtype=np.int64)).seconds
        far = self.fabric.leaf[demand.source] != self.fabric.leaf[demand.target]
        if not far[without].any() and found.planned_s <= floor * (1 + proof.SAME):
            return arcs
        return search(self._network, demand, arcs, movable, floor, Effort())


def _wide(arcs: Ints, width: int) -> Ints:
    return np.pad(arcs, ((0, 0), (0, width - arcs.shape[1])), constant_values=-1)
