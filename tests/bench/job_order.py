"""Jobs planned together, or by intensity: how busy their ranks are over uplinks that all share.

    .venv/bin/python tests/bench/job_order.py [--seeds 1 2 3 4 5 6] [--uplinks 3]

Two leaves with 12 hosts each and few uplinks (100 Gb/s, PFC); six jobs of four ranks, whose rings
go to and fro between the leaves. By seed: what each computes in an iteration (100, 400 or 1,600 us)
and sums up (0.4, 1.6 or 3.2 MB a rank), and clocks. Printed is the share of time that ranks
compute, over all jobs (Crux's GPU utilization), with each order, and their ratio; median [least,
most].
"""

from __future__ import annotations

import argparse
import random
import statistics

import command_line

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
  spines: {uplinks}
  hosts_per_leaf: 12
  link: {{rate: 100Gbps, delay: 500ns, queue: 8MB, mtu: 4200B}}
  classes:
    roce: {{dscp: 26, queue: 3, lossless: true}}
    control: {{dscp: 48, queue: 6}}
    rest: {{queue: 0}}
  iglb: {{order: {order}}}
until: 200ms
sample: 10ms
buffer: {{shared: 32MB, alpha: 1/2, headroom: formula}}
clocks: {{ppm: 50}}
jobs:
"""
JOB = """\
  - name: job{number}
    ranks: 4
    placement: [{hosts}]
    iterations: {iterations}
    phases: [{{compute: {us}us}}, {{allreduce: {{bytes: {kb}KB}}}}]
"""
JOBS, LONGEST_US = 6, 10_000


def jobs(seed: int) -> tuple[str, list[int]]:
    """Return a run's jobs, and what each computes in an iteration, in us."""
    draw = random.Random(seed)
    text, computes = "", []
    for number in range(JOBS):
        us, kb = draw.choice((100, 400, 1600)), draw.choice((400, 1600, 3200))
        hosts = ", ".join(f"h{each + 2 * number}" for each in (1, 13, 2, 14))
        alone = us + 1.5 * kb * 8e3 / 100e3
        text += JOB.format(
            number=number, hosts=hosts, us=us, kb=kb, iterations=max(2, round(LONGEST_US / alone))
        )
        computes.append(us)
    return text, computes


def busy(program: CompiledProgram, text: str, computes: list[int], seed: int) -> float:
    """Play it; return the mean over jobs of the share of time in which ranks compute."""
    run = read_run(text)
    traffic = plan(run, seed)
    done = Simulation(run, program, seed=seed, traffic=traffic).run().end.message_times["done"]
    assert (done >= 0).all(), "a message was not done"
    spans = [span for span in traffic.spans if span.kind is SpanKind.JOB]
    took = [int(done[span.first : span.stop].max()) / 1e6 for span in spans]
    shares = [
        us * job.iterations / end for us, job, end in zip(computes, run.jobs, took, strict=True)
    ]
    return statistics.mean(shares)


def main() -> None:
    """Print both orders and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", nargs="*", type=int, default=[1, 2, 3, 4, 5, 6])
    parser.add_argument("--uplinks", type=command_line.count, default=3)
    given = parser.parse_args()
    usual = RUN.format(uplinks=given.uplinks, order="together")
    topology = read_run(usual + jobs(1)[0]).topology
    program = CompiledProgram.of(compile_p4(FABRIC, defines=defines(topology)))
    found: dict[str, list[float]] = {"together": [], "intensity": []}
    for seed in given.seeds:
        text, computes = jobs(seed)
        for order, values in found.items():
            head = RUN.format(uplinks=given.uplinks, order=order)
            values.append(busy(program, head + text, computes, seed))
    pairs = zip(found["intensity"], found["together"], strict=True)
    found["intensity over together"] = [one / other for one, other in pairs]
    for name, values in found.items():
        middle = statistics.median(values)
        print(f"{name:24} {middle:.3f} [{min(values):.3f}, {max(values):.3f}]")


if __name__ == "__main__":
    command_line.run(main)
