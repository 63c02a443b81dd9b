"""Sums through one to three levels of switches are numpy's, whatever links do to the packets."""

from __future__ import annotations

import numpy as np
import pytest

from tests.mechanisms.allreduce.network import Faults, Job, Network, Shape
from tests.mechanisms.allreduce.switches import program
from tests.mechanisms.allreduce.worker import Worker

LANES = 2
INT32 = np.iinfo(np.int32)


def tree_of(levels: int, workers: int) -> Shape:
    """Return a tree: workers at leaves in turn, then middle switches, then a root."""
    if levels == 1:
        return Shape(dict.fromkeys(range(1, workers + 1), "a"), ({},))
    leaves = min(workers, 2 if levels == 2 else 4)
    leaf_of = {host: f"a{host % leaves}" for host in range(1, workers + 1)}
    names = sorted(set(leaf_of.values()))
    if levels == 2:
        return Shape(leaf_of, (dict.fromkeys(names, "r"),))
    parents = {name: f"m{i % 2}" for i, name in enumerate(names)}
    return Shape(leaf_of, ({**parents, **dict.fromkeys(sorted(set(parents.values())), "r")},))


def chunks_of(rng: np.random.Generator, chunks: int, largest: int) -> np.ndarray:
    return rng.integers(-largest, largest, size=(chunks, LANES), endpoint=True, dtype=np.int64)


def check(network: Network, job: Job, data: dict[int, np.ndarray]) -> None:
    """Compare all workers' results with numpy's sums, lane by lane, and with each other."""
    exact = sum(data.values())
    wrapped = exact.astype(np.int32)
    for host in job.hosts:
        worker = network.workers[job.number, host]
        got = [worker.results[worker.first + i].lanes for i in range(len(exact))]
        assert np.array_equal(np.array(got), wrapped)
        for index in np.flatnonzero(((exact < INT32.min) | (exact > INT32.max)).any(axis=1)):
            assert worker.first + int(index) in worker.overflowed


def run(
    shape: Shape, jobs: list[Job], chunks: int, seed: int, faults: Faults, largest: int
) -> Network:
    rng = np.random.default_rng(seed)
    first = int(rng.integers(0, 1 << 32))
    data = {
        job.number: {host: chunks_of(rng, chunks, largest) for host in job.hosts} for job in jobs
    }
    workers = {
        (job.number, host): Worker(
            job.number, job.slots, [tuple(map(int, row)) for row in data[job.number][host]],
            first=first - first % job.slots, epoch=8 * seed % (1 << 16),
        )
        for job in jobs
        for host in job.hosts
    }  # fmt: skip
    network = Network(program(LANES), shape, jobs, workers, seed=seed, faults=faults)
    network.start()
    network.run()
    for job in jobs:
        check(network, job, data[job.number])
    return network


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_sums_are_exact_without_faults(levels: int) -> None:
    job = Job(1, (1, 2, 3, 4), 0, 4)
    network = run(tree_of(levels, 4), [job], 16, 1, Faults(), 1 << 28)
    assert network.total("overflowed") == 0
    assert network.total("refused") == 0
