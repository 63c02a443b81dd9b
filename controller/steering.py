"""Which switches the controller plans for, and which it leaves alone with their own program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.entries import encode
from controller.entry_files import NO_ENTRIES, OwnEntries
from controller.errors import ControllerError
from controller.fabric_state import FabricModel, desired_entries
from controller.p4info import P4Info
from controller.program import CompiledProgram
from controller.target_facts import TargetFacts
from topologies.model import Topology


@dataclass(frozen=True)
class SwitchPrograms:
    """What each switch of a fabric runs. `program`: those that `others` does not name.

    `own`: switches without a plan, each with what it is given once, with its program.
    """

    program: CompiledProgram
    others: Mapping[str, CompiledProgram] = field(default_factory=dict)
    own: Mapping[str, OwnEntries] = field(default_factory=dict)

    def of(self, switch: str) -> CompiledProgram:
        """Return a switch's program."""
        return self.others.get(switch, self.program)

    def entries_of(self, switch: str) -> OwnEntries:
        """Return what a switch is given; nothing where the controller plans for it."""
        return self.own.get(switch, NO_ENTRIES)


def lacking(topology: Topology, switch: str, p4info: P4Info, facts: TargetFacts) -> str:
    """Say what a switch's program lacks of what a fabric's controller writes; "" for nothing."""
    model = FabricModel(topology, p4info, facts)
    try:
        for entry in desired_entries(model, switch):
            encode(entry, p4info)
    except ControllerError as error:
        # Without a guess at what else might have been meant.
        return str(error).partition(";")[0].partition(": it has")[0]
    return ""
