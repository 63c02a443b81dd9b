"""What is found once for a fabric, whichever of its links are down, and for the jobs in it."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from controller.jobs import DeclaredJob
from mechanisms.iglb.clos import recognise
from mechanisms.iglb.demand import Demand, of_job, together
from mechanisms.iglb.fabric import Fabric, Ints
from mechanisms.iglb.fixed import Fixed, fixed
from mechanisms.iglb.search import FAR, Network

Lengths = npt.NDArray[np.int64]


class Known:
    """`clos`: the fabric as a Clos network, None where it is none; `network`: as C has it."""

    def __init__(self, whole: Fabric) -> None:
        self.whole = whole
        self.clos = recognise(whole)
        self.network = Network(whole)
        self._jobs: WeakKeyDictionary[DeclaredJob, Demand] = WeakKeyDictionary()
        self._last: tuple[tuple[DeclaredJob, ...], Demand, Fixed] | None = None

    def demand(self, jobs: Sequence[DeclaredJob]) -> tuple[Demand, Fixed]:
        """Return what jobs send together, and what of it is fixed. Raises ValueError."""
        asked = tuple(jobs)
        if self._last is None or self._last[0] != asked:
            for job in asked:
                if job not in self._jobs:
                    self._jobs[job] = of_job(job, self.whole)
            demand = together([self._jobs[job] for job in asked])
            self._last = asked, demand, fixed(self.whole, demand)
        return self._last[1:]

    def lengths(self, source: Ints, target: Ints) -> Lengths:
        """Return the links between switches when none is down; FAR where no path leads."""
        if self.clos is not None:
            pod, between = self.clos.pod, 4 if self.clos.top.shape[2] else FAR
            far = np.where(pod[source] == pod[target], 2, between)
            return np.asarray(np.where(source == target, 0, far))
        targets, row = np.unique(target, return_inverse=True)
        return self.network.hops(targets)[row, source].astype(np.int64)
