"""A root, a link or a leaf dies in mid-run: workers move to another tree, and sums stay exact.

trees    0 over r        1 over q        2 over r again ...
leaves   a: h1 h2        b: h3 h4
"""

from __future__ import annotations

import pytest

from protocols.allreduce import TREES
from tests.mechanisms.allreduce.network import Faults, Job, Shape
from tests.mechanisms.allreduce.test_allreduce_sums import Run

LEAVES = {1: "a", 2: "a", 3: "b", 4: "b"}
TREE_OVER = {root: {"a": root, "b": root} for root in "rq"}
SHAPE = Shape(LEAVES, tuple(TREE_OVER["rq"[tree % 2]] for tree in range(TREES)))
JOBS = [Job(1, (1, 3), 0, 4), Job(2, (2, 4), 4, 2)]
PATIENCE = 400  # steps without a result until a worker moves


def run_with(seed: int, faults: Faults | None = None) -> Run:
    return Run(SHAPE, JOBS, 40, seed, faults or Faults(0.02, 0.05, 0.05), 1 << 29)


def finish(run: Run) -> int:
    """Let workers that make no progress move; return how often that was."""
    network, moves = run.network, 0
    while not network.finished:
        before = {key: len(worker.results) for key, worker in network.workers.items()}
        network.run_some(PATIENCE)
        for key, worker in network.workers.items():
            if worker.in_flight and len(worker.results) == before[key]:
                network.move(key)
                moves += 1
                break  # the others hear of it
        assert moves < 100
    run.check()
    return moves


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_root_that_dies(seed: int) -> None:
    run = run_with(seed)
    run.network.run_some(600)
    for leaf in "ab":
        run.network.kill_link(leaf, "r")
    assert finish(run) >= 1
    assert all(worker.epoch % 2 == 1 for worker in run.network.workers.values())


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_link_that_dies_and_another_while_the_workers_move(seed: int) -> None:
    run = run_with(seed)
    run.network.run_some(600)
    run.network.kill_link("a", "r")
    run.network.run_some(PATIENCE)
    run.network.move((1, 1))
    run.network.run_some(5)
    run.network.faults.dead_links = {frozenset("bq")}
    assert finish(run) >= 1


@pytest.mark.parametrize("restarted", ["a", "r"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_switch_that_restarts(restarted: str, seed: int) -> None:
    run = run_with(seed)
    for _ in range(4):
        run.network.run_some(300)
        run.network.switches[restarted].restart()
    finish(run)


def test_workers_that_move_for_no_reason() -> None:
    run = run_with(5)
    keys = sorted(run.network.workers)
    for i in range(20):
        run.network.run_some(100)
        if not run.network.finished:
            run.network.move(keys[i % len(keys)])
    finish(run)
    assert run.network.total("moved") > 0
    assert run.network.total("stale") > 0
