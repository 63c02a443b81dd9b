"""Runs of jobs on two leaves whose uplinks all share, for benchmarks of when jobs send."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from compiler import compile_p4
from controller.program import CompiledProgram
from mechanisms.program import FABRIC
from mechanisms.registry import defines
from simulator.runner import Simulation
from workloads.loader import read_run
from workloads.model import SpanKind
from workloads.plan import plan

_RUN = """
topology:
  generator: leaf_spine
  time_scale: 1
  leaves: 2
  spines: {spines}
  hosts_per_leaf: {hosts}
  link: {{rate: 100Gbps, delay: 500ns, queue: 8MB, mtu: 4200B}}
  classes:
    roce: {{dscp: 26, queue: 3, lossless: true}}
    control: {{dscp: 48, queue: 6}}
    rest: {{queue: 0}}
  iglb: {{{iglb}}}
until: {until}
sample: 10ms
buffer: {{shared: 32MB, alpha: 1/2, headroom: formula}}
clocks: {{ppm: 50}}
jobs:
{jobs}"""


def run_text(*, spines: int, hosts: int, iglb: str, until: str, jobs: str) -> str:
    """Return a run file: 100 Gb/s, PFC, so many hosts a leaf.

    `jobs`: its list, `iglb`: its setting.
    """
    return _RUN.format(spines=spines, hosts=hosts, iglb=iglb, until=until, jobs=jobs)


def program_of(text: str) -> CompiledProgram:
    """Return the program of such a run, and of all that differ from it in jobs and iglb's words
    only.
    """
    return CompiledProgram.of(compile_p4(FABRIC, defines=defines(read_run(text).topology)))


def took_ps(program: CompiledProgram, text: str, seed: int) -> list[int]:
    """Play it; return how long each job took from its start on. All messages have to be done."""
    run = read_run(text)
    traffic = plan(run, seed)
    done = Simulation(run, program, seed=seed, traffic=traffic).run().end.message_times["done"]
    assert (done >= 0).all(), "a message was not done"
    jobs = [span for span in traffic.spans if span.kind is SpanKind.JOB]
    return [int(done[span.first : span.stop].max()) - (span.start_ps or 0) for span in jobs]


def said(values: Sequence[float], digits: int) -> str:
    """Median [least, most]."""
    middle = statistics.median(values)
    return f"{middle:.{digits}f} [{min(values):.{digits}f}, {max(values):.{digits}f}]"
