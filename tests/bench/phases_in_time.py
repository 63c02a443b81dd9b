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

import command_line
import numpy as np
from jobs_on_leaves import program_of, run_text, said, took_ps

JOBS = """\
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


def run_of(rotate: str, iterations: int, one: int, two: int, start: int) -> str:
    """Return a run of both jobs, which compute `one` and `two` us in an iteration."""
    jobs = JOBS.format(iterations=iterations, one=one, two=two, start=start)
    return run_text(spines=2, hosts=4, iglb=f"rotate: {rotate}", until="100ms", jobs=jobs)


def main() -> None:
    """Print a row for each case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", nargs="*", type=int, default=[1, 2, 3, 4, 5, 6])
    parser.add_argument("--iterations", type=command_line.count, default=10)
    given = parser.parse_args()
    program = program_of(run_of("true", 1, 1, 1, 0))
    for name, (one, two, by_seed) in CASES.items():
        found = np.zeros((2, len(given.seeds)))
        for place, seed in enumerate(given.seeds):
            start = round(random.Random(seed).uniform(0, two + 197)) if by_seed else 0
            for row, rotate in enumerate(("false", "true")):
                text = run_of(rotate, given.iterations, one, two, start)
                slower = max(took_ps(program, text, seed))
                found[row, place] = slower / given.iterations / 1e6
        ratio = found[0] / found[1]
        print(f"{name:28} as they start {said(found[0], 1)}  rotated {said(found[1], 1)}  "
              f"{said(ratio, 3)} times as long", flush=True)  # fmt: skip


if __name__ == "__main__":
    command_line.run(main)
