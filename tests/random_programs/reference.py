"""The same cases with p4c and on simple_switch_grpc, where they are on PATH."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from compat.parity.stf_bmv2 import BMV2, Bmv2Target
from compat.parity.targets import TargetError
from compat.stf.statements import Expect, Packet, Statement
from softswitch.codegen import Bmv2Program, BuildError, JsonError, build_pipeline
from softswitch.p4runtime import schema
from softswitch.p4runtime.names import Names, UnknownName
from softswitch.p4runtime.pipeline import Pipeline, parse_p4info
from softswitch.p4runtime.protos import p4r
from softswitch.p4runtime.status import PipelineError
from tests.random_programs.draw_packets import Case, moment_us
from tests.random_programs.draw_program import PORTS
from tests.random_programs.oracle import Oracle, Sent
from tests.random_programs.ours import (
    Finding,
    Target,
    agree,
    counters,
    difference,
    run_case,
    updates,
)

P4C = "p4c-bm2-ss"
P4C_SECONDS = 120
DIGESTS_S = 10.0
Row = tuple[str, tuple[int, ...]]
"""A digest's name and members."""
_PI_LPM = "Invalid LPM value, incorrect number of trailing zeros"
"""PI counts them wrongly where a key's width is no multiple of 8 (docs/parity.md)."""


@dataclass(frozen=True)
class P4cOutput:
    """What p4c made of a program, or what it said against it."""

    json: bytes = b""
    p4info: bytes = b""
    error: str = ""


LEVELS = {"p4c": (P4C,), "bmv2": (P4C, BMV2)}
"""What a search may be held against, and the programs that it takes."""


def missing(level: str) -> list[str]:
    """Which of the programs are not on PATH."""
    return [name for name in LEVELS[level] if shutil.which(name) is None]


def run_p4c(text: str) -> P4cOutput:
    """Compile with p4c; its include folder is looked for beside it, too."""
    binary = shutil.which(P4C)
    assert binary is not None
    beside = Path(binary).resolve().parent / "p4include"
    with tempfile.TemporaryDirectory(prefix="weft-random-") as scratch:
        source, json, info = (Path(scratch, name) for name in ("p.p4", "p.json", "p.txtpb"))
        source.write_text(text)
        command = [P4C, *(["-I", str(beside)] if beside.is_dir() else [])]
        command += ["-o", str(json), "--p4runtime-files", str(info), str(source)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=P4C_SECONDS
            )
        except subprocess.TimeoutExpired:
            return P4cOutput(error=f"p4c gives no answer in {P4C_SECONDS} s")
        if done.returncode != 0:
            errors = re.search(r"^.*(error:|terminate|Compiler Bug).*$", done.stderr, re.MULTILINE)
            said = errors.group(0) if errors is not None else done.stderr.strip()[:300]
            return P4cOutput(error=said.replace(str(source), "program.p4") or "p4c failed")
        return P4cOutput(json.read_bytes(), info.read_bytes())


def pipeline_of(output: P4cOutput, target: Target) -> Pipeline:
    """p4c's output made ready for our switch. Raises JsonError, BuildError, PipelineError."""
    info = parse_p4info(output.p4info, "p4c's P4Info")
    program = Bmv2Program.from_json(output.json)
    library = build_pipeline(program, cache_dir=target.cache_dir, sanitize=target.sanitize)
    return Pipeline(info, output.json, program, schema.bind(info, program), library)


def check_bmv2(case: Case, prepared: Pipeline) -> Finding | None:
    """Run a case on BMv2 and compare with the oracle, port by port."""
    oracle = Oracle(case.program, case.entries)
    wanted: list[Sent] = []
    for at, (port, data) in enumerate(case.packets):
        wanted += oracle.run(port, data, moment_us(at))
    script: list[Statement] = [Packet(0, "packet", port, data) for port, data in case.packets]
    script += [Expect(0, "expect", port, None, False) for port in range(PORTS)]
    try:
        with Bmv2Target(prepared, script) as bmv2:
            for update in updates(bmv2.names, case.program, case.entries):
                refused = bmv2.write(update)
                if _PI_LPM in refused:
                    return None
                if refused:
                    return Finding("bmv2 write", refused)
            for port, data in case.packets:
                bmv2.packet(port, data)
            came = bmv2.end()
            told = _told(bmv2, set(oracle.digests))
            found = counters(bmv2.names, case, oracle, bmv2.read)
    except UnknownName as error:
        return Finding("bmv2 write UnknownName", str(error))
    except TargetError as error:
        return Finding("bmv2 ended", str(error))
    for port in range(PORTS):
        here = [sent for sent in wanted if sent.port == port]
        got = [output for output in came if output[0] == port]
        if len(here) != len(got):
            text = f"port {port}: {len(got)} packets, not {len(here)}"
            return Finding("bmv2 packets", text)
        if not agree(here, got):
            return Finding("bmv2 output", difference(-1, port, b"", here, got))
    if told != set(oracle.digests):  # BMv2 tells the same only once, until it is acknowledged
        return Finding("bmv2 digest", f"{told}, not {oracle.digests}")
    return None if found is None else Finding(f"bmv2 {found.kind}", found.text)


def _told(bmv2: Bmv2Target, wanted: set[Row]) -> set[Row]:
    """Return the digests that BMv2 sends, on a busy machine long after its packets."""
    told: set[Row] = set()
    deadline = time.monotonic() + DIGESTS_S
    while True:
        told |= {row for message in bmv2.told() for row in _rows(bmv2.names, message)}
        if told >= wanted or time.monotonic() > deadline:
            return told
        time.sleep(0.02)


def _rows(names: Names, message: p4r.StreamMessageResponse) -> Iterator[Row]:
    """Yield the digests in a message of the stream."""
    for data in message.digest.data:
        members = data.struct.members if data.WhichOneof("data") == "struct" else [data]
        name = names.schema.digests[message.digest.digest_id].name
        yield name, tuple(int.from_bytes(member.bitstring, "big") for member in members)


OWN_FAULTS = (
    (r"Compiler Bug", "p4c stops by itself"),
    (r"\[--Werror=type-error\] error: '\(int<\d+>\)", "p4c drops a cast, then refuses the program"),
)
"""p4c's own faults, which docs/parity.md lists: they are no finding about us."""
P4C_WRONG = "p4c's JSON is wrong on both switches"


def own_fault(error: str) -> str:
    """Which fault of p4c's own that message shows, "" for none."""
    return next((why for pattern, why in OWN_FAULTS if re.search(pattern, error)), "")


def check_reference(
    case: Case, text: str, prepared: Pipeline, target: Target, live: bool
) -> Finding | None:
    """Check the other three of {our compiler, p4c} x {our switch, BMv2}, each beside the oracle.

    `live`: BMv2 too, which takes a second for each.
    """
    output = run_p4c(text)
    if own_fault(output.error):
        return None
    if output.error:
        return Finding("only ours accepts", output.error)
    try:
        theirs = pipeline_of(output, target)
    except (JsonError, BuildError, PipelineError) as error:
        return Finding("p4c's JSON", str(error))
    here = run_case(case, theirs, target)
    if not live or case.entries.value_sets:  # BMv2's P4Runtime writes no value sets
        return None if here is None else Finding(f"p4c's JSON: {here.kind}", here.text)
    ours = check_bmv2(case, prepared)
    if ours is not None:
        return Finding(f"ours on BMv2: {ours.kind}", ours.text)
    there = check_bmv2(case, theirs)
    match here, there:
        case None, None:
            return None
        case Finding(), None:
            return Finding(f"only on our switch p4c's JSON: {here.kind}", here.text)
        case None, Finding():
            return Finding(f"only on BMv2 p4c's JSON: {there.kind}", there.text)
    return Finding(P4C_WRONG, here.text)
