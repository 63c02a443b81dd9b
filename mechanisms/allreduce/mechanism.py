"""AllReduce as a mechanism of the house: what it has of what `mechanisms.contract` names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from controller.entries import Entry
from controller.parts import Learner, View
from controller.policy import FabricPolicy
from controller.target_facts import TargetFacts
from mechanisms.allreduce.counters import ALLREDUCE as COUNTER
from mechanisms.allreduce.entries import EDGE_TABLE, NAME, PORT_TABLE, TREE_TABLE, entries
from mechanisms.allreduce.groups import Groups
from mechanisms.allreduce.life import Jobs
from mechanisms.allreduce.plan_error import PlanError
from mechanisms.allreduce.settings import ALLREDUCE, KEY, LANES, POOL, SLOTS, TREES
from mechanisms.allreduce.starts import count_start
from mechanisms.allreduce.trees import plan_of
from mechanisms.allreduce.words import WORDS
from mechanisms.allreduce.workers import hosts_of_jobs, worker_of
from mechanisms.contract import Mechanism, SwitchJobs
from topologies.errors import FieldPath
from topologies.lint.findings import Remark, Severity
from topologies.model import Topology

TREE_ENTRIES, EDGE_ENTRIES = 1024, 8192
"""As ALLREDUCE_TREES and ALLREDUCE_EDGES of p4src/modules/allreduce/trees.p4."""


@dataclass(frozen=True)
class AllReduceMechanism(Mechanism):
    """Switches that add up what hosts send, and send the sums back."""

    def features(self, topology: Topology) -> Iterable[str]:
        """Name the pool, where a job has a server."""
        setting = topology.setting(KEY)
        return ("BEST_EFFORT",) if setting is not None and setting.cells else ()

    def sizes(self, topology: Topology) -> Mapping[str, int]:
        """Return the lanes and sizes that a topology needs, where the module has others.

        Lanes also where they are fewer: a program with more refuses packets of fewer.
        """
        setting = topology.setting(KEY)
        if setting is None:
            return {}
        needed = {
            "ALLREDUCE_SLOTS": (setting.slots, SLOTS),
            "ALLREDUCE_TREES": (TREES * len(setting.jobs), TREE_ENTRIES),
        }
        with suppress(PlanError):  # which lint says
            needed["ALLREDUCE_EDGES"] = (plan_of(topology).most_edges, EDGE_ENTRIES)
        if setting.cells:
            needed["ALLREDUCE_POOL"] = (setting.cells, POOL)
        lanes = {"ALLREDUCE_LANES": setting.lanes} if setting.lanes != LANES else {}
        return lanes | {name: size for name, (size, usual) in needed.items() if size > usual}

    def entries(self, view: View) -> Iterator[Entry]:
        """Yield the workers behind ports, and multicast groups; nothing while switched off."""
        return entries(view)

    def learner(
        self, topology: Topology, facts: TargetFacts, policy: FabricPolicy
    ) -> Learner | None:
        """Return what starts and ends jobs and reroutes them round dead links. Raises PlanError."""
        plan = plan_of(topology)
        return Jobs(plan, facts, NAME not in policy.off) if plan.jobs else None

    def remarks(self, topology: Topology, prefix: FieldPath = ()) -> Iterator[Remark]:
        """Yield that jobs do not fit the fabric."""
        try:
            plan_of(topology)
        except PlanError as error:
            path = (*prefix, *error.path)
            yield Remark(Severity.ERROR, path, error.subject, error.message, error.right)


MECHANISM = AllReduceMechanism(
    NAME,
    "AllReduce",
    settings=(ALLREDUCE,),
    aggregation=Groups(),
    tables=frozenset({PORT_TABLE, EDGE_TABLE, TREE_TABLE}),
    learned_tables=frozenset({EDGE_TABLE, TREE_TABLE}),
    counters=(COUNTER,),
    words=WORDS,
    jobs=SwitchJobs(hosts_of_jobs, worker_of, count_start),
)
