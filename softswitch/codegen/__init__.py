"""BMv2 JSON, from p4c or our compiler, to C and on to a shared object behind `pipeline_abi.h`.

The typed model of the JSON, the C generator, the C runtime headers and the build cache live here.
Tables at run time, queues, packets' paths and P4Runtime do not: they belong to core and p4runtime.
"""

from __future__ import annotations

from softswitch.codegen.build import BuildError, build_pipeline
from softswitch.codegen.generate import generate_c
from softswitch.codegen.json_reader import JsonError
from softswitch.codegen.model import Bmv2Program

__all__ = ["Bmv2Program", "BuildError", "JsonError", "build_pipeline", "generate_c"]
