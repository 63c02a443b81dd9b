"""The embedded switch: codegen (JSON to C), core (C), P4Runtime, daemon.

`from softswitch import Switch` is the in-process switch. Nothing here knows topologies, controllers
or emulation; heavy parts (gRPC, the compiler) are imported when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from softswitch.p4runtime.status import Code, PipelineError, WriteError
    from softswitch.switch import Output, PacketIn, Switch, SwitchError

__all__ = ["Code", "Output", "PacketIn", "PipelineError", "Switch", "SwitchError", "WriteError"]

_HOME = {
    "Code": "softswitch.p4runtime.status",
    "PipelineError": "softswitch.p4runtime.status",
    "WriteError": "softswitch.p4runtime.status",
    "Output": "softswitch.switch",
    "PacketIn": "softswitch.switch",
    "Switch": "softswitch.switch",
    "SwitchError": "softswitch.switch",
}


def __getattr__(name: str) -> object:
    """Import the public names when first asked for: `import softswitch` alone stays cheap."""
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
