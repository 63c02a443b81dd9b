"""p4src/fabric.p4 by our compiler, compiled once for all tests of a process."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from compiler import compile_p4
from controller.program import CompiledProgram

FABRIC = Path(__file__).parents[2] / "p4src" / "fabric.p4"


@cache
def fabric_program() -> CompiledProgram:
    result = compile_p4(FABRIC)
    return CompiledProgram.of(result)
