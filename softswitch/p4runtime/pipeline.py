"""A forwarding pipeline config, checked and built but not loaded yet."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from google.protobuf import text_format

from softswitch.codegen import Bmv2Program, JsonError
from softswitch.codegen.build import BuildError, build_pipeline, default_cache
from softswitch.p4runtime import schema
from softswitch.p4runtime.device_config import bmv2_json
from softswitch.p4runtime.protos import p4i
from softswitch.p4runtime.status import PipelineError


@dataclass(frozen=True, slots=True)
class Pipeline:
    """P4Info and device config that fit together, and the shared object made of them."""

    p4info: p4i.P4Info
    device_config: bytes
    program: Bmv2Program
    schema: schema.Schema
    library: Path


def prepare(p4info: p4i.P4Info, device_config: bytes, *, cache_dir: Path | None = None) -> Pipeline:
    """Check `device_config` (BMv2 JSON) against `p4info` and build it.

    Takes as long as the C compiler does unless the build is cached. Raises PipelineError.
    """
    program, library = prepare_program(device_config, cache_dir=cache_dir)
    return Pipeline(p4info, device_config, program, schema.bind(p4info, program), library)


def read_p4info(path: Path) -> p4i.P4Info:
    """Read a P4Info file in Protobuf's text form. Raises PipelineError, OSError."""
    return parse_p4info(path.read_bytes(), str(path))


def parse_p4info(text: bytes, name: str) -> p4i.P4Info:
    """Parse P4Info in Protobuf's text form; `name` is for messages. Raises PipelineError."""
    try:
        p4info: p4i.P4Info = text_format.Parse(text.decode("utf-8"), p4i.P4Info())
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise PipelineError(f"{name}: not a P4Info in Protobuf text form: {error}") from error
    return p4info


def prepare_program(
    device_config: bytes, *, cache_dir: Path | None = None
) -> tuple[Bmv2Program, Path]:
    """Check and build BMv2 JSON alone, in PI's envelope or without. Raises PipelineError.

    The last ones are cached, so repeated runs prepare a program once.
    """
    if not device_config:
        raise PipelineError("the device config is empty; it must be BMv2 JSON")
    device_config = bmv2_json(device_config)
    directory = default_cache() if cache_dir is None else cache_dir
    program, library = _prepared(device_config, directory)
    if not library.exists():  # the cache was emptied since
        _prepared.cache_clear()
        program, library = _prepared(device_config, directory)
    return program, library


@lru_cache(maxsize=4)
def _prepared(device_config: bytes, cache_dir: Path) -> tuple[Bmv2Program, Path]:
    try:
        program = Bmv2Program.from_json(device_config)
        return program, build_pipeline(program, cache_dir=cache_dir)
    except JsonError as error:
        raise PipelineError(f"not BMv2 JSON that this switch can run: {error}") from error
    except BuildError as error:
        raise PipelineError(f"the BMv2 JSON can't be built: {error}") from error
