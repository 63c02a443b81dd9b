"""How long the planner of paths takes, and how good its plans are beside links that are down.

    python tests/bench/bench_iglb.py [--json] [--rounds 6] [--seeds 6] [--small]

Times are CPU times of this process, which has one thread: the median of the rounds, [least, most].
Fabrics and jobs are made as arrays beforehand (a topology file of 131 072 hosts is another
matter), and so is the planner, once for a fabric: recognising it takes what "planner" says. "plan"
is from a declared job to paths with their proof by cuts, "coloured" the colouring in it, "again"
planning after a link failed, its own arrays included. Each plan is verified apart from the planner,
outside of what is timed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import command_line
import numpy as np

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))  # as a script it is called from anywhere

from controller.jobs import DeclaredJob  # noqa: E402
from mechanisms.iglb import colouring  # noqa: E402
from mechanisms.iglb.clos import recognise  # noqa: E402
from mechanisms.iglb.fabric import Fabric  # noqa: E402
from mechanisms.iglb.plan import Plan  # noqa: E402
from mechanisms.iglb.planner import Planner  # noqa: E402
from mechanisms.iglb.proof import prove  # noqa: E402
from tests.mechanisms.iglb import fabrics, verified  # noqa: E402

SIZE = 1 << 20
"""Bytes that each host sends."""
PAIRS, DOWN = (1, 4, 8), range(5)
GOALS = {"leaf-spine 128 x 64": 50.0, "leaf-spine 1024 x 128": 1000.0}
AGAIN_MS, PROGRAM_S = 5.0, 15.0

Large = dict[str, Callable[[], Fabric]]
LARGE: Large = {
    "leaf-spine 128 x 64": lambda: fabrics.leaf_spine(128, 64, 64),
    "leaf-spine 1024 x 128": lambda: fabrics.leaf_spine(1024, 128, 128),
    "fat tree k=16": lambda: fabrics.fat_tree(16),
    "fat tree k=32": lambda: fabrics.fat_tree(32),
}
SMALL: Large = {"leaf-spine 8 x 4": lambda: fabrics.leaf_spine(8, 4, 4)}


def timed(rounds: int, what: Callable[[], Any]) -> dict[str, float]:
    """Milliseconds of CPU time of the rounds: the least, the median and the most."""
    took = []
    for _ in range(rounds):
        start = time.process_time()
        what()
        took.append((time.process_time() - start) * 1e3)
    return {"least": min(took), "median": statistics.median(took), "most": max(took)}


def verify(planner: Planner, plan: Plan, most: int | None) -> None:
    """End the bench if a plan is wrong. `most`: flows that may share a link, None for any."""
    wrong = verified.broken(planner.fabric, planner.demand(plan.jobs), plan.arcs)
    if len(wrong):
        raise SystemExit(f"error: the path of flow {wrong[0]} does not lead to its target")
    if most is not None and (shared := verified.most_flows(planner.fabric, plan.arcs)) > most:
        raise SystemExit(f"error: {shared} flows share a link, not {most}")


def ring(hosts: int, pairs: int, seed: int) -> DeclaredJob:
    """Return a job whose hosts are one ring in random order, so that each sends and receives
    once.
    """
    to = fabrics.derangement(hosts, np.random.default_rng(seed))
    return fabrics.job(np.arange(hosts), to, pairs, SIZE)


def of_fabric(make: Callable[[], Fabric], rounds: int) -> dict[str, Any]:
    """Planning a permutation of all hosts, and planning again after one link has failed."""
    fabric = make()
    hosts = len(fabric.leaf)
    jobs = [ring(hosts, 1, seed) for seed in range(rounds)]
    made = timed(1, lambda: Planner.of(fabric))["least"]
    planner, clos = Planner.of(fabric), recognise(fabric)
    assert clos is not None
    planner.plan([ring(hosts, 1, rounds)])  # the first loads what is compiled
    demands = [planner.demand([job]) for job in jobs]
    every = np.ones(hosts, dtype=bool)
    rows = iter(demands)
    coloured = timed(rounds, lambda: colouring.paths(clos, fabric, next(rows), every))
    fresh, once = Planner.of(fabric), iter(jobs)
    planned = timed(rounds, lambda: fresh.plan([next(once)]))
    for job in jobs:
        verify(planner, planner.plan([job]), 1)
    return {
        "hosts": hosts, "flows": hosts, "planner_ms": made, "coloured_ms": coloured,
        "plan_ms": planned,
    }  # fmt: skip


def again(make: Callable[[], Fabric], pairs: int, rounds: int) -> dict[str, Any]:
    """Planning again after one link between switches has failed, at `pairs` queue pairs each."""
    fabric = make()
    planner = Planner.of(fabric)
    job = ring(len(fabric.leaf), pairs, 1)
    before = planner.plan([job])
    links = len(fabric.tail) // 2 - len(fabric.leaf)
    failed = np.random.default_rng(2).choice(links, rounds, replace=False)
    rest = iter(failed.tolist())

    def fail() -> None:
        planner.with_links_down(np.array([next(rest)])).plan([job], before)

    took, moved = timed(rounds, fail), []
    for link in failed.tolist():
        less = planner.with_links_down(np.array([link]))
        plan = less.plan([job], before)
        verify(less, plan, None)
        touched = np.flatnonzero((before.arcs // 2 == link).any(axis=1) & (before.arcs >= 0).any(1))
        if (plan.moved != touched).any():
            raise SystemExit("error: a flow moved that the failed link does not touch")
        moved.append(len(plan.moved))
    return {"flows": len(job), "again_ms": took, "moved": moved}


def quality(make: Callable[[], Fabric], seeds: int) -> list[dict[str, Any]]:
    """Plans beside links that are down, against the linear program and the unsplit bound."""
    fabric = make()
    whole = Planner.of(fabric)
    links = len(fabric.tail) // 2 - len(fabric.leaf)
    rows = []
    for pairs in PAIRS:
        for down in DOWN:
            shares, unsplit, took = [], [], []
            for seed in range(seeds):
                failed = np.random.default_rng(seed).choice(links, down, replace=False)
                planner = whole.with_links_down(np.sort(failed))
                plan = planner.plan([ring(len(fabric.leaf), pairs, seed)])
                verify(planner, plan, None)
                start = time.process_time()
                proof = prove(plan, planner)
                took.append(time.process_time() - start)
                shares.append(proof.quality)
                unsplit.append(proof.unsplit_s / proof.planned_s)
            rows.append(
                {"pairs": pairs, "down": down, "quality": [min(shares), max(shares)],
                 "unsplit": min(unsplit), "proof_s": max(took)}
            )  # fmt: skip
    return rows


def run(rounds: int, seeds: int, small: bool) -> dict[str, Any]:
    """All numbers."""
    tree = (lambda: fabrics.fat_tree(4)) if small else (lambda: fabrics.fat_tree(16))
    split = (4, 4, 4) if small else (64, 32, 32)
    return {
        "goals_ms": GOALS, "again_goal_ms": AGAIN_MS, "program_goal_s": PROGRAM_S,
        "fabrics": {
            name: of_fabric(make, rounds) for name, make in (SMALL if small else LARGE).items()
        },
        "again": {str(pairs): again(tree, pairs, max(rounds, 3)) for pairs in (1, 8)},
        "split": list(split), "seeds": seeds,
        "quality": quality(lambda: fabrics.leaf_spine(*split), seeds),
    }  # fmt: skip


def shown(ms: dict[str, float], digits: int) -> str:
    """Format times for people."""
    median, least, most = (f"{ms[key]:.{digits}f}" for key in ("median", "least", "most"))
    return f"{median} [{least}, {most}]"


def show(result: dict[str, Any]) -> None:
    """Print the numbers for people."""
    print("CPU ms: median [least, most]; each plan verified: one flow a link at most")
    for name, row in result["fabrics"].items():
        times = "   ".join(
            f"{what} {shown(row[key], 1)}"
            for what, key in (("coloured", "coloured_ms"), ("plan", "plan_ms"))
        )
        print(f"  {name:22} {row['flows']:7} flows   {times}   (planner {row['planner_ms']:.0f})")
    print("again after one failed link of the fat tree; only the link's flows move")
    for pairs, row in result["again"].items():
        ms, moved = row["again_ms"], row["moved"]
        print(
            f"  {pairs} queue pairs {row['flows']:6} flows   {shown(ms, 2)} ms   "
            f"moved {min(moved)} to {max(moved)}"
        )
    leaves, spines, hosts = result["split"]
    print(
        f"slowest link, bound over plan: a ring of all hosts, {leaves} x {spines}, {hosts} hosts "
        f"a leaf; [lo, hi] of {result['seeds']} seeds"
    )
    print("  queue pairs  links down  linear program    unsplit, least  proof, CPU s")
    for row in result["quality"]:
        low, high = row["quality"]
        print(
            f"  {row['pairs']:11}  {row['down']:10}  [{low:.4f}, {high:.4f}]  "
            f"{row['unsplit']:14.4f}  {row['proof_s']:12.2f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=command_line.count, default=6)
    parser.add_argument("--seeds", type=command_line.count, default=6)
    parser.add_argument("--small", action="store_true", help="few hosts, for a first look")
    arguments = parser.parse_args()
    result = run(arguments.rounds, arguments.seeds, arguments.small)
    if arguments.json:
        print(json.dumps(result))
    else:
        show(result)


if __name__ == "__main__":
    command_line.run(main)
