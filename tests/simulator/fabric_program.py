"""p4src/fabric.p4 by our compiler, compiled once for all tests of a process."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from controller.p4info import P4Info
from controller.program import CompiledProgram
from softswitch.compiler import compile_p4

FABRIC = Path(__file__).parents[2] / "p4src" / "fabric.p4"


@cache
def fabric_program() -> CompiledProgram:
    result = compile_p4(FABRIC)
    return CompiledProgram(result.json_text.encode(), P4Info(result.p4info), 1)
