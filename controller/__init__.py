"""The control plane: what each switch should hold, and P4Runtime sessions that bring it there.

The logic is passive, `(model, event, now) -> writes`; only `session`, `fabric_controller` with what
it is made of, and `blocking` touch sockets. Nothing here starts switches or knows which runtime it
talks to.
"""

from __future__ import annotations

from controller.blocking import BlockingController, run
from controller.errors import (
    ControllerError,
    NotPrimary,
    ProgramError,
    SwitchUnreachable,
    UnknownName,
    WriteFailed,
)
from controller.fabric_controller import BringUp, FabricController
from controller.fabric_sessions import PortCounters
from controller.other_controllers import Restored
from controller.policy import FabricPolicy
from controller.program import CompiledProgram
from controller.session import Reloaded
from controller.target_facts import TargetFacts

__all__ = [
    "BlockingController",
    "BringUp",
    "CompiledProgram",
    "ControllerError",
    "FabricController",
    "FabricPolicy",
    "NotPrimary",
    "PortCounters",
    "ProgramError",
    "Reloaded",
    "Restored",
    "SwitchUnreachable",
    "TargetFacts",
    "UnknownName",
    "WriteFailed",
    "run",
]
