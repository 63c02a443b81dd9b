"""What a plan is: a path for each flow of each job, and the proof of how good it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from controller.jobs import DeclaredJob

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Proof:
    """How good a plan is; times in seconds, of link bytes on links.

    `planned_s`: the largest time that a link needs for one phase of all jobs as they are planned.
    `bound_s`: what no plan can go below. `kind`: "colouring" (no link between switches carries more
    that is under way together than the busiest host's own link, which is the bound), "linear
    program" or "cut". `binding`: directions of links that prove the bound, as people read them.
    `unsplit_s`: the same for flows that take one path each, where it is known to be more.
    """

    planned_s: float
    bound_s: float
    kind: str
    binding: tuple[str, ...] = ()
    unsplit_s: float = 0.0

    @property
    def quality(self) -> float:
        """The bound over what is planned: 1 is the best there is."""
        return self.bound_s / self.planned_s if self.planned_s else 1.0


@dataclass(frozen=True, eq=False)
class Plan:
    """Paths of all flows of `jobs`, one job's behind the other's; n flows.

    `arcs[i]`: directions of links between switches that flow i takes, in order, by the numbers of
    `topologies.capacities.directions` (2 l: link l of `topology.links` from a to b, 2 l + 1: from b
    to a), filled up with -1; none for a flow within a leaf, or one that nothing joins.
    `moved`: flows whose path is another than in the plan before, or that were not in it.
    `version`: counts plans. `lost`: flows that nothing joins.
    """

    jobs: Sequence[DeclaredJob]
    arcs: Ints
    moved: Ints
    proof: Proof
    version: int = 0
    lost: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def of(self, job: str) -> Ints:
        """Return the numbers of a job's flows. Raises KeyError."""
        first = 0
        for each in self.jobs:
            if each.name == job:
                return np.arange(first, first + len(each))
            first += len(each)
        raise KeyError(job)
