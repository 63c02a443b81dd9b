"""AllReduce as a mechanism of the house: what it has of what `mechanisms.contract` names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from mechanisms.allreduce.counters import ALLREDUCE as COUNTER
from mechanisms.allreduce.settings import ALLREDUCE, KEY, LANES, SLOTS
from mechanisms.allreduce.trees import PlanError, plan_of
from mechanisms.contract import Mechanism
from topologies.errors import FieldPath
from topologies.lint.findings import Remark, Severity
from topologies.model import Topology


@dataclass(frozen=True)
class AllReduceMechanism(Mechanism):
    """Switches that add up what hosts send, and send the sums back."""

    def sizes(self, topology: Topology) -> Mapping[str, int]:
        """Return the lanes and slots that a topology asks for, where the module has others.

        Lanes also where they are fewer: packets of fewer are refused by a program with more.
        """
        setting = topology.setting(KEY)
        if setting is None:
            return {}
        found = {"ALLREDUCE_LANES": setting.lanes} if setting.lanes != LANES else {}
        return found | ({"ALLREDUCE_SLOTS": setting.slots} if setting.slots > SLOTS else {})

    def remarks(self, topology: Topology, prefix: FieldPath = ()) -> Iterator[Remark]:
        """Yield that jobs do not fit the fabric."""
        try:
            plan_of(topology)
        except PlanError as error:
            path = (*prefix, *error.path)
            yield Remark(Severity.ERROR, path, error.subject, error.message, error.right)


MECHANISM = AllReduceMechanism(KEY, "AllReduce", settings=(ALLREDUCE,), counters=(COUNTER,))
