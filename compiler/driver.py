"""The compiler as one call: source file in, BMv2 JSON and P4Info out."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from finsy.proto import p4i

from compiler import frontend
from compiler.bmv2.lower_program import ProgramLowering
from compiler.bmv2.program import write_program
from compiler.depth import deep_recursion
from compiler.errors import Diagnostic
from compiler.p4info.p4info import P4InfoBuilder, to_text
from compiler.passes.diagnostic_actions import DiagnosticActions
from compiler.passes.elaborate import elaborate


@dataclass
class CompileResult:
    """Both outputs, as objects and as the text of the files; `timings` in seconds by stage.

    Without P4Info (see `compile_p4`) `p4info` and its text are empty.
    """

    json: dict[str, Any]
    p4info: p4i.P4Info
    p4info_text: str
    json_text: str
    warnings: list[Diagnostic]
    timings: dict[str, float] = field(default_factory=dict)


def compile_p4(
    source: Path,
    *,
    include_dirs: Sequence[Path] = (),
    defines: Sequence[str] = (),
    std: str = "p4-16",
    diagnostics: Sequence[str] = (),
    with_p4info: bool = True,
) -> CompileResult:
    """Compile a v1model program.

    `include_dirs` are searched before our own core.p4 and v1model.p4; `defines` are `NAME` or
    `NAME=VALUE`; `diagnostics` are p4c's options for warnings, such as "Werror=unused".
    `with_p4info`: some good programs can't be described to the control plane (registers of plain
    enums), which is an error only where P4Info is wanted, as with p4c. Raises `CompileError` with
    everything found wrong, `NotSupported` if the program needs what this compiler can't do yet,
    `UnknownKind` for diagnostics that there are none of.
    """
    actions = DiagnosticActions.of(diagnostics)
    with deep_recursion(source):
        return _compile(source, include_dirs, defines, std, actions, with_p4info)


def _compile(
    source: Path,
    include_dirs: Sequence[Path],
    defines: Sequence[str],
    std: str,
    actions: DiagnosticActions,
    with_p4info: bool,
) -> CompileResult:
    checked = frontend.check(source, include_dirs, defines, std, with_p4info=with_p4info)
    timings = dict(checked.timings)
    start = time.perf_counter()
    program = ProgramLowering(checked, elaborate(checked))
    program.run()
    lowered = time.perf_counter()
    info = P4InfoBuilder(program).build() if with_p4info else p4i.P4Info()
    text = to_text(info) if with_p4info else ""
    described = time.perf_counter()
    written = write_program(program, source)
    json_text = json.dumps(written, indent=1) + "\n"
    timings |= {
        "lower": lowered - start,
        "p4info": described - lowered,
        "json": time.perf_counter() - described,
    }
    actions = actions.with_annotations(checked.program)
    warnings = actions.apply([*checked.warnings, *program.warnings])
    return CompileResult(written, info, text, json_text, warnings, timings)


def write_outputs(result: CompileResult, out_dir: Path, stem: str) -> tuple[Path, Path]:
    """Write `stem.json` and `stem.p4info.txtpb` into `out_dir`, which is made if missing."""
    out_dir.mkdir(parents=True, exist_ok=True)
    json_path = out_dir / f"{stem}.json"
    info_path = out_dir / f"{stem}.p4info.txtpb"
    json_path.write_text(result.json_text)
    info_path.write_text(result.p4info_text)
    return json_path, info_path
