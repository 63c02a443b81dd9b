"""Two jobs whose bursts meet on uplinks, with and without `iglb: {rotate: true}`.

    .venv/bin/python tests/bench/phases_in_time.py [--seeds 1 2 3 4 5 6] [--iterations 10]

Two leaves, two spines, four hosts a leaf, 100 Gb/s, PFC: each job has four ranks, whose ring goes
to and fro between the leaves, so each uplink carries a flow of either job. An iteration computes,
then sums up 1.6 MB a rank, for which the planner reckons 197 us alone. By seed: clocks (+-50 ppm),
and in the rows that say so when the second job starts. Printed is the mean iteration of the slower
job, in us, and how much longer it takes without rotation; median [least, most] by seed.
"""

from __future__ import annotations

import argparse
import random
import statistics

import command_line
import numpy as np

from compiler import compile_p4
from controller.program import CompiledProgram
from mechanisms.program import FABRIC
from mechanisms.registry import defines
from simulator.runner import Simulation
from workloads.loader import read_run
from workloads.model import SpanKind
from workloads.plan import plan

RUN = """
topology:
  generator: leaf_spine
  time_scale: 1
  leaves: 2
  spines: 2
  hosts_per_leaf: 4
  link: {{rate: 100Gbps, delay: 500ns, queue: 8MB, mtu: 4200B}}
  classes:
    roce: {{dscp: 26, queue: 3, lossless: true}}
    control: {{dscp: 48, queue: 6}}
    rest: {{queue: 0}}
  iglb: {{rotate: {rotate}}}
until: 100ms
sample: 10ms
buffer: {{shared: 32MB, alpha: 1/2, headroom: formula}}
clocks: {{ppm: 50}}
jobs:
  - name: one
    ranks: 4
    placement: [h1, h5, h2, h6]
    iterations: {iterations}
    phases: [{{compute: {one}us}}, {{allreduce: {{bytes: 1600KB}}}}]
  - name: two
    ranks: 4
    placement: [h3, h7, h4, h8]
    start: {start}us
    iterations: {iterations}
    phases: [{{compute: {two}us}}, {{allreduce: {{bytes: 1600KB}}}}]
"""
CASES = {
    "both 200 us, at once": (200, 200, False),
    "both 200 us, by the seed": (200, 200, True),
    "both 100 us, at once": (100, 100, False),
    "200 and 600 us, at once": (200, 600, False),
    "200 and 250 us, at once": (200, 250, False),
    "200 and 250 us, by the seed": (200, 250, True),
}
"""What each job computes in an iteration, and whether the second one's start is random."""


def slower_us(program: CompiledProgram, text: str, iterations: int, seed: int) -> float:
    """Play it; return the mean iteration of the slower job."""
    run = read_run(text)
    traffic = plan(run, seed)
    end = Simulation(run, program, seed=seed, traffic=traffic).run().end
    done = end.message_times["done"]
    assert (done >= 0).all(), "a message was not done"
    jobs = [span for span in traffic.spans if span.kind is SpanKind.JOB]
    took = [int(done[span.first : span.stop].max()) - (span.start_ps or 0) for span in jobs]
    return max(took) / iterations / 1e6


def main() -> None:
    """Print a row for each case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", nargs="*", type=int, default=[1, 2, 3, 4, 5, 6])
    parser.add_argument("--iterations", type=command_line.count, default=10)
    given = parser.parse_args()
    topology = read_run(RUN.format(rotate="true", iterations=1, one=1, two=1, start=0)).topology
    program = CompiledProgram.of(compile_p4(FABRIC, defines=defines(topology)))
    for name, (one, two, by_seed) in CASES.items():
        found = np.zeros((2, len(given.seeds)))
        for place, seed in enumerate(given.seeds):
            start = round(random.Random(seed).uniform(0, two + 197)) if by_seed else 0
            for row, rotate in enumerate(("false", "true")):
                text = RUN.format(
                    rotate=rotate, iterations=given.iterations, one=one, two=two, start=start
                )
                found[row, place] = slower_us(program, text, given.iterations, seed)
        ratio = found[0] / found[1]
        print(f"{name:28} as they start {_said(found[0])}  rotated {_said(found[1])}  "
              f"{_said(ratio, 3)} times as long", flush=True)  # fmt: skip


def _said(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]], digits: int = 1) -> str:
    middle = statistics.median(values.tolist())
    return f"{middle:.{digits}f} [{values.min():.{digits}f}, {values.max():.{digits}f}]"


if __name__ == "__main__":
    command_line.run(main)
