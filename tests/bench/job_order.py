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
from jobs_on_leaves import program_of, run_text, said, took_ps

from controller.program import CompiledProgram
from workloads.loader import read_run

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


def run_of(order: str, uplinks: int, listed: str) -> str:
    """Return a run with these jobs."""
    iglb = f"order: {order}"
    return run_text(spines=uplinks, hosts=12, iglb=iglb, until="200ms", jobs=listed)


def busy(program: CompiledProgram, text: str, computes: list[int], seed: int) -> float:
    """Play it; return the mean over jobs of the share of time in which ranks compute."""
    iterations = [job.iterations for job in read_run(text).jobs]
    ends = [took / 1e6 for took in took_ps(program, text, seed)]
    shares = [us * times / end for us, times, end in zip(computes, iterations, ends, strict=True)]
    return statistics.mean(shares)


def main() -> None:
    """Print both orders and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", nargs="*", type=int, default=[1, 2, 3, 4, 5, 6])
    parser.add_argument("--uplinks", type=command_line.count, default=3)
    given = parser.parse_args()
    program = program_of(run_of("together", given.uplinks, jobs(1)[0]))
    found: dict[str, list[float]] = {"together": [], "intensity": []}
    for seed in given.seeds:
        text, computes = jobs(seed)
        for order, values in found.items():
            run = run_of(order, given.uplinks, text)
            values.append(busy(program, run, computes, seed))
    pairs = zip(found["intensity"], found["together"], strict=True)
    found["intensity over together"] = [one / other for one, other in pairs]
    for name, values in found.items():
        print(f"{name:24} {said(values, 3)}")


if __name__ == "__main__":
    command_line.run(main)
