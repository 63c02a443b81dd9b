"""iGLB as a mechanism of the house: what it has of what `mechanisms.contract` names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from controller.entries import Entry
from controller.parts import Learner, View
from controller.policy import FabricPolicy
from controller.target_facts import TargetFacts
from mechanisms.contract import LinkMarks, Mechanism
from mechanisms.iglb.counters import IGLB as COUNTER
from mechanisms.iglb.entries import (
    NAME,
    PIN_TABLE,
    PLAN_TABLE,
    PORT_TABLE,
    SOURCE_TABLE,
    entries,
)
from mechanisms.iglb.intensity import planner_of
from mechanisms.iglb.learner import PlannedPaths
from mechanisms.iglb.link_marks import link_marks
from mechanisms.iglb.port_remarks import port_remarks, run_port_remarks
from mechanisms.iglb.room import PINS, pins_room
from mechanisms.iglb.settings import IGLB, setting_of
from mechanisms.iglb.source_ports import PORTS
from mechanisms.iglb.words import WORDS
from topologies.errors import FieldPath
from topologies.lint.findings import Remark
from topologies.model import Topology
from workloads.model import RunFile


@dataclass(frozen=True)
class IglbMechanism(Mechanism):
    """A controller that learns of jobs, plans the paths of their flows, and pins them."""

    def remarks(self, topology: Topology, prefix: FieldPath = ()) -> Iterator[Remark]:
        """Yield where source ports can't lead packets of a class."""
        yield from port_remarks(topology, prefix)

    def run_remarks(self, run: RunFile, prefix: FieldPath = ()) -> Iterator[Remark]:
        """Yield where source ports can't lead queue pairs of a run."""
        yield from run_port_remarks(run, prefix)

    def sizes(self, topology: Topology) -> Mapping[str, int]:
        """Return room for two plans' flows at each switch, a power of two; the module has 16384."""
        room = pins_room(topology)
        return {"IGLB_PINS": room} if room > PINS else {}

    def entries(self, view: View) -> Iterator[Entry]:
        """Yield the ports that pins name, and whose flows should have one."""
        return entries(view)

    def link_marks(self, topology: Topology, learner: PlannedPaths | None) -> LinkMarks | None:
        """Return which links the flows of each job take."""
        return None if learner is None else link_marks(topology, learner.in_force.plan)

    def learner(
        self, topology: Topology, facts: TargetFacts, policy: FabricPolicy
    ) -> Learner | None:
        """Return what keeps jobs and their plan; None where the topology has no iglb."""
        setting = setting_of(topology)
        if setting is None:
            return None
        return PlannedPaths(topology, setting, facts, policy, planner_of(topology, setting.order))


MECHANISM = IglbMechanism(
    NAME,
    "iGLB",
    settings=(IGLB,),
    tables=frozenset({PLAN_TABLE, PIN_TABLE, PORT_TABLE, SOURCE_TABLE}),
    learned_tables=frozenset({PLAN_TABLE, PIN_TABLE}),
    counters=(COUNTER,),
    words=WORDS,
    source_ports=PORTS,
)
