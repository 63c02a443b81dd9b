"""What switches of a lab run: fabric.p4 with what the variant uses, unless another is asked for."""

from __future__ import annotations

from controller.program import CompiledProgram
from labs import Context
from mechanisms.program import FABRIC
from mechanisms.switch_programs import compile_for
from topologies.model import Topology


def program_of(context: Context, topology: Topology) -> CompiledProgram:
    """Return the program of a variant's switches. Raises CompileError."""
    if context.program.path not in (None, FABRIC):
        return context.program
    return CompiledProgram.of(compile_for(topology)(FABRIC), FABRIC)
