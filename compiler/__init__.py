"""P4_16 compiler: source text -> BMv2 JSON and P4Info, the two files that p4c-bm2-ss writes.

Nothing here runs packets or knows our switch; the JSON is the only way out.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from compiler.driver import CompileResult, compile_p4, write_outputs
    from compiler.errors import CompileError, Diagnostic, NotSupported

__all__ = [
    "CompileError",
    "CompileResult",
    "Diagnostic",
    "NotSupported",
    "compile_p4",
    "write_outputs",
]

_HOME = {
    "CompileError": "compiler.errors",
    "CompileResult": "compiler.driver",
    "Diagnostic": "compiler.errors",
    "NotSupported": "compiler.errors",
    "compile_p4": "compiler.driver",
    "write_outputs": "compiler.driver",
}


def __getattr__(name: str) -> object:
    """Import the public names when first asked for.

    The preprocessor alone (a look into the cache of compiled programs) then needs no protobuf.
    """
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
