"""The switch core: tables, passes, queues and time in C, and its typed binding.

Here: what happens to packets, and the AF_PACKET loop around it. Not here: P4Runtime, names and ids
of entities, the command line (softswitch.p4runtime, softswitch.daemon).
"""

from softswitch.core.binding import SwitchCore
from softswitch.core.descriptor import (
    ActionDescriptor,
    CounterDescriptor,
    KeyDescriptor,
    LearnDescriptor,
    MatchKind,
    MeterDescriptor,
    PipelineDescriptor,
    ProfileDescriptor,
    RegisterDescriptor,
    TableDescriptor,
    TableType,
)
from softswitch.core.loop import DaemonLoop
from softswitch.core.records import (
    CoreConfig,
    CoreError,
    CoreErrorCode,
    CoreStats,
    Counter,
    Keep,
    KeepKind,
    LoopStats,
    MeterConfig,
    Output,
    OutputKind,
    PortConfig,
    PortState,
    PortStats,
    Replica,
    Session,
    Spec,
    Target,
)

__all__ = [
    "ActionDescriptor",
    "CoreConfig",
    "CoreError",
    "CoreErrorCode",
    "CoreStats",
    "Counter",
    "CounterDescriptor",
    "DaemonLoop",
    "Keep",
    "KeepKind",
    "KeyDescriptor",
    "LearnDescriptor",
    "LoopStats",
    "MatchKind",
    "MeterConfig",
    "MeterDescriptor",
    "Output",
    "OutputKind",
    "PipelineDescriptor",
    "PortConfig",
    "PortState",
    "PortStats",
    "ProfileDescriptor",
    "RegisterDescriptor",
    "Replica",
    "Session",
    "Spec",
    "SwitchCore",
    "TableDescriptor",
    "TableType",
    "Target",
]
