"""Phases in time: jobs of a run start later where their bursts meet less then.

h1 h2 h3 h4 - s1 =< s3, s4 >= s2 - h5 h6 h7 h8      each uplink carries a flow of either job
"""

from __future__ import annotations

import pytest

from compiler import compile_p4
from controller.program import CompiledProgram
from mechanisms.program import FABRIC
from mechanisms.registry import defines
from simulator.runner import Simulation
from topologies.errors import TopologyError
from workloads.loader import read_run
from workloads.model import RunFile, SpanKind
from workloads.plan import plan

RUN = """\
topology:
  generator: leaf_spine
  time_scale: 1
  leaves: 2
  spines: 2
  hosts_per_leaf: 4
  link: {rate: 100Gbps, delay: 500ns, queue: 8MB, mtu: 4200B}
  classes: {roce: {dscp: 26, queue: 3, lossless: true}, rest: {queue: 0}}
  iglb: {rotate: true}
until: 20ms
sample: 10ms
buffer: {shared: 32MB, alpha: 1/2, headroom: formula}
jobs:
  - {name: one, ranks: 4, placement: [h1, h5, h2, h6], iterations: 4,
     phases: [{compute: 200us}, {allreduce: {bytes: 1600KB}}]}
  - {name: two, ranks: 4, placement: [h3, h7, h4, h8], iterations: 4, start: 0us,
     phases: [{compute: 200us}, {allreduce: {bytes: 1600KB}}]}
"""
BURST_US = 1.5 * 1600e3 * 8 / 100e9 * 1e6 * 4178 / 4096  # 2 (n - 1) / n of the buffer, with headers


def start_us(text: str) -> float:
    """When the second job starts."""
    traffic = plan(read_run(text))
    found = [span.start_ps for span in traffic.spans if span.kind is SpanKind.JOB]
    assert found[0] == 0 and found[1] is not None
    return found[1] / 1e6


def test_the_second_job_sends_while_the_first_computes() -> None:
    late = start_us(RUN)
    assert BURST_US * 0.97 <= late <= 200 * 1.03, (BURST_US, late)


def test_what_meets_nowhere_starts_as_it_says() -> None:
    assert start_us(RUN.replace("start: 0us", "start: 198us")) == 198
    apart = RUN.replace("[h1, h5, h2, h6]", "[h1, h2, h5, h6]").replace("ranks: 4", "ranks: 2")
    apart = apart.replace("[h1, h2, h5, h6]", "[h1, h2]").replace("[h3, h7, h4, h8]", "[h3, h4]")
    assert start_us(apart) == 0


@pytest.mark.parametrize(
    "changed",
    [("{rotate: true}", "true"), ("iterations: 4", "iterations: 1"), ("iglb: {rotate: true}", "")],
)
def test_nothing_is_late_unless_it_is_asked_for_and_jobs_repeat(changed: tuple[str, str]) -> None:
    assert start_us(RUN.replace(*changed)) == 0


def test_rotate_is_yes_or_no() -> None:
    with pytest.raises(TopologyError, match="rotate"):
        read_run(RUN.replace("rotate: true", "rotate: often"))


def last_us(run: RunFile, program: CompiledProgram) -> float:
    return float(Simulation(run, program, seed=1).run().end.message_times["done"].max()) / 1e6


def test_rotated_jobs_are_done_earlier() -> None:
    """Four iterations of 400 us with bursts that never meet, or of 600 us with bursts that do."""
    runs = [read_run(RUN.replace("rotate: true", f"rotate: {each}")) for each in ("true", "false")]
    program = CompiledProgram.of(compile_p4(FABRIC, defines=defines(runs[0].topology)))
    rotated, usual = (last_us(run, program) for run in runs)
    assert rotated < 0.85 * usual
