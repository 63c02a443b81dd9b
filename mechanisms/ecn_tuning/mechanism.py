"""Dynamic ECN thresholds as a mechanism: what they have of what `mechanisms.contract` names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from controller.entries import Entry
from controller.parts import Learner, View
from controller.policy import FabricPolicy
from controller.target_facts import TargetFacts
from mechanisms.contract import Mechanism
from mechanisms.ecn_tuning.entries import NAME, QUEUE_TABLE, THRESHOLD_TABLE, entries
from mechanisms.ecn_tuning.learner import EcnTuner
from mechanisms.ecn_tuning.lint import room_remarks, tuning_remarks
from mechanisms.ecn_tuning.settings import ECN_TUNING, KEY
from mechanisms.ecn_tuning.words import WORDS
from topologies.errors import FieldPath
from topologies.lint.findings import Remark
from topologies.model import Topology
from workloads.model import RunFile


@dataclass(frozen=True)
class EcnTuningMechanism(Mechanism):
    """A controller that finds when queues mark by what switches measure."""

    def sizes(self, topology: Topology) -> Mapping[str, int]:
        """Return room for all queues of a switch, a power of two; the module has 256."""
        classes = sum(each.setting(KEY) is not None for each in topology.classes)
        ports = (len(topology.ports_of(switch.name)) for switch in topology.switches)
        queues = max(ports, default=0) * classes
        return {"ECN_TUNING_QUEUES": 1 << (queues - 1).bit_length()} if queues > QUEUES else {}

    def entries(self, view: View) -> Iterator[Entry]:
        """Yield which queues are measured."""
        return entries(view)

    def learner(
        self, topology: Topology, facts: TargetFacts, policy: FabricPolicy
    ) -> Learner | None:
        """Return what finds thresholds; None where no class asks for it."""
        return EcnTuner(topology, facts, policy) if policy.setting(KEY) else None

    def remarks(self, topology: Topology, prefix: FieldPath = ()) -> Iterator[Remark]:
        """Yield classes that do not mark."""
        return tuning_remarks(topology, prefix)

    def run_remarks(self, run: RunFile, prefix: FieldPath = ()) -> Iterator[Remark]:
        """Yield classes whose queues' room is not known."""
        return room_remarks(run, prefix)


QUEUES = 256  # as p4src/modules/ecn_tuning.p4 has it


MECHANISM = EcnTuningMechanism(
    NAME,
    "dynamic ECN thresholds",
    settings=(ECN_TUNING,),
    tables=frozenset({QUEUE_TABLE, THRESHOLD_TABLE}),
    learned_tables=frozenset({THRESHOLD_TABLE}),
    words=WORDS,
)
