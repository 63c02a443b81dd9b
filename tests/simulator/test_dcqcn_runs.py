"""DCQCN in whole runs: pauses that it saves, and what a flow alone gets of its link.

h2 .. h33 ==100 Gb/s==> s1 ==100 Gb/s==> h1
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from compiler import compile_p4
from controller.program import CompiledProgram
from simulator.runner import Simulation
from workloads.loader import load_run_file, read_run
from workloads.model import RunFile

FABRIC = Path(__file__).parents[2] / "p4src" / "fabric.p4"
GBPS = 10**9
MS = 10**9
PAYLOAD, ON_THE_WIRE = 4096, 4096 + 82

ALONE = """
topology:
  generator: single
  hosts: 2
  link: {{rate: {gbps}Gbps, delay: 500ns, queue: 16MB, mtu: 4200B}}
  classes:
    cnp: {{dscp: 48, queue: 6}}
    roce: {{dscp: 26, queue: 3, lossless: true, ecn: hpcc-dcqcn}}
    rest: {{queue: 0}}
until: 2ms
transport: {{operation: {operation}}}
traffic:
  - message: {{from: h2, to: h1, bytes: {size}MB}}
"""


@cache
def program() -> CompiledProgram:
    result = compile_p4(FABRIC)
    return CompiledProgram.of(result)


def summary(run: RunFile, out: Path) -> dict[str, Any]:
    Simulation(run, program()).run(out)
    found: dict[str, Any] = json.loads((out / "summary.json").read_text())
    return found


def incast(congestion_control: str) -> RunFile:
    """Return the shipped run, whole or without DCQCN and nothing else changed."""
    run = load_run_file("incast-32-dcqcn")
    assert run.transport is not None and run.until_ps == 20 * MS
    changed = {"congestion_control": congestion_control}
    return replace(run, transport=run.transport.model_copy(update=changed))


def test_a_persistent_incast_pauses_less_than_a_fifth_of_what_pfc_alone_does(
    tmp_path: Path,
) -> None:
    with_dcqcn = summary(incast("dcqcn"), tmp_path / "dcqcn")
    alone = summary(incast("none"), tmp_path / "none")
    assert with_dcqcn["drops"]["packets"] == alone["drops"]["packets"] == 0
    # 31 of 32 senders' time is waited away: 3 200 Gb/s offered to 100.
    assert alone["flows"]["paused_ps"] == pytest.approx(32 * 20 * MS * 31 / 32, rel=0.02)
    assert with_dcqcn["flows"]["paused_ps"] * 5 <= alone["flows"]["paused_ps"]
    assert with_dcqcn["flows"]["marked"] > 0 and with_dcqcn["transport"]["cnps"] > 0
    assert with_dcqcn["transport"]["repeated_packets"] == 0


@pytest.mark.parametrize("operation", ["write", "send", "read"])
@pytest.mark.parametrize("gbps", [100, 400])
def test_one_flow_has_98_percent_of_its_link(gbps: int, operation: str) -> None:
    """Of the payload that back-to-back packets carry, from the first post to the last byte."""
    run = read_run(ALONE.format(gbps=gbps, operation=operation, size=gbps // 10))
    simulation = Simulation(run, program())
    simulation.run()
    times = simulation.engine.message_times(0, 1)[0]
    ideal_bps = gbps * GBPS * PAYLOAD / ON_THE_WIRE
    size = gbps // 10 * 10**6
    assert size * 8e12 / int(times["done"] - times["ready"]) >= 0.98 * ideal_bps
