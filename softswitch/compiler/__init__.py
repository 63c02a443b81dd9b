"""P4_16 compiler: source text -> BMv2 JSON and P4Info, the two files that p4c-bm2-ss writes.

Nothing here runs packets or knows our switch; the JSON is the only way out.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from softswitch.compiler.driver import CompileResult, compile_p4, write_outputs
    from softswitch.compiler.errors import CompileError, Diagnostic, NotSupported

__all__ = [
    "CompileError",
    "CompileResult",
    "Diagnostic",
    "NotSupported",
    "compile_p4",
    "write_outputs",
]

_HOME = {
    "CompileError": "softswitch.compiler.errors",
    "CompileResult": "softswitch.compiler.driver",
    "Diagnostic": "softswitch.compiler.errors",
    "NotSupported": "softswitch.compiler.errors",
    "compile_p4": "softswitch.compiler.driver",
    "write_outputs": "softswitch.compiler.driver",
}


def __getattr__(name: str) -> object:
    """Import the public names when first asked for.

    The preprocessor alone (a look into the cache of compiled programs) then needs no protobuf.
    """
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
