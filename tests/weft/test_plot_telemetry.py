"""`weft plot --what telemetry`: queues and latencies at the hops of watched flows.

h1, h2 -- s1 -- h3, h4      two senders to h3: its port's queue grows
"""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler import compile_p4
from controller.program import CompiledProgram
from mechanisms.program import FABRIC
from mechanisms.registry import defines
from simulator.runner import Simulation
from tests.weft.test_plot import make_result
from weft.cli import main
from workloads.loader import read_run

RUN = """\
topology:
  generator: single
  hosts: 4
  link: {rate: 100Gbps, delay: 1us, queue: 16MB, mtu: 4200B}
  classes:
    roce: {dscp: 26, queue: 3, path_telemetry: {format: hops, monitor: true}}
    rest: {queue: 0}
record: {telemetry: {every: 5us}}
until: 500us
transport: {congestion_control: none}
traffic:
  - incast: {to: h3, from: [h1, h2], persistent: true}
  - message: {from: h2, to: h4, bytes: 1MB, start: 100us}
"""


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("plot") / "result"
    run = read_run(RUN, name="two")
    program = CompiledProgram.of(compile_p4(FABRIC, defines=defines(run.topology)))
    Simulation(run, program).run(out)
    return out


def drawn(result: Path, path: Path, *more: str) -> str:
    words = ["plot", str(result), "--what", "telemetry", "-o", str(path), *more]
    assert main(words) == 0
    return path.read_text()


def test_a_port_is_a_line_with_its_hop(result: Path, tmp_path: Path) -> None:
    text = drawn(result, tmp_path / "x.svg")
    for said in ("s1:3 (1)", "s1:4 (1)", "of 3 flows", "queued [MB]", "latency [", "seed 1"):
        assert said in text


def test_it_follows_flows_and_a_window(result: Path, tmp_path: Path) -> None:
    text = drawn(result, tmp_path / "x.svg", "--flows", "h2>h4", "--window", "100us..300us")
    assert "s1:4 (1)" in text and "of 1 flow left" in text
    assert "s1:3 (1)" not in text


def test_it_is_among_all_that_is_drawn(
    result: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plot", str(result), "-o", str(tmp_path / "x.png")]) == 0
    assert str(tmp_path / "x-telemetry.png") in capsys.readouterr().out


def test_a_run_that_recorded_none_says_what_to_write(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_result(tmp_path / "plain")
    assert main(["plot", str(folder), "--what", "telemetry", "-o", str(tmp_path / "x.png")]) == 1
    said = capsys.readouterr().err
    assert "the run did not record telemetry" in said
    assert "record: {telemetry: {flows: all}}" in said
