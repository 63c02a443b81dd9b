"""P4_16 compiler: source text -> BMv2 JSON and P4Info, the two files that p4c-bm2-ss writes.

Nothing here runs packets or knows our switch; the JSON is the only way out.
"""

from __future__ import annotations

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
