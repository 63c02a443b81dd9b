"""A persistent incast of 32 senders at 100 Gb/s loses nothing with headroom by the formula.

h2 .. h33 ==100 Gb/s==> s1 ==100 Gb/s==> h1         20 ms, 3 200 Gb/s offered
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compiler import compile_p4
from controller.program import CompiledProgram
from simulator.runner import Simulation
from workloads.loader import load_run_file
from workloads.model import RunFile

FABRIC = Path(__file__).parents[2] / "p4src" / "fabric.p4"
MS = 10**9
PAYLOAD, ON_THE_WIRE = 4096, 4096 + 82
SLOT_PS = ON_THE_WIRE * 8 * 10  # at 100 Gb/s
DELAYS_PS = 2 * 500_000


@pytest.fixture(scope="module")
def program() -> CompiledProgram:
    compiled = compile_p4(FABRIC)
    return CompiledProgram.of(compiled)


def incast(program: CompiledProgram, out: Path, run: RunFile) -> dict[str, Any]:
    Simulation(run, program).run(out)
    summary: dict[str, Any] = json.loads((out / "summary.json").read_text())
    return summary


def with_headroom(headroom: int | None) -> RunFile:
    run = load_run_file("incast-32")
    assert run.buffer is not None and run.until_ps == 20 * MS
    return replace(run, buffer=replace(run.buffer, headroom_bytes=headroom))


def test_nothing_is_lost_and_the_link_is_full(program: CompiledProgram, tmp_path: Path) -> None:
    summary = incast(program, tmp_path, with_headroom(None))
    assert summary["drops"]["packets"] == 0
    assert summary["pauses"]["xoff_sent"] > 1000 and summary["pauses"]["xon_sent"] > 1000
    full = (20 * MS - DELAYS_PS - SLOT_PS) // SLOT_PS  # the switch sends without a gap
    assert full - 1 <= summary["flows"]["received_packets"] <= full
    switch, flows = summary["switches"], summary["flows"]
    assert switch["drop_ingress"] == switch["drop_egress"] == 0
    waiting = flows["sent_packets"] - flows["received_packets"]
    # What was sent and has not come waits in the pool and the headroom, or is on one of 33 links.
    assert waiting * PAYLOAD <= summary["buffers"]["s1"]["shared_bytes"] + 33 * 30_000


def test_without_headroom_the_same_run_loses(program: CompiledProgram, tmp_path: Path) -> None:
    summary = incast(program, tmp_path, replace(with_headroom(0), until_ps=2 * MS))
    assert summary["drops"]["packets"] >= 32  # each sender had a frame on the way at least
    assert summary["drops"]["by_reason"].keys() == {"headroom"}
    assert summary["pauses"]["xoff_sent"] > 0
