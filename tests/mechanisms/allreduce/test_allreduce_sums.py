"""Sums through one to three levels of switches are numpy's, whatever links do to the packets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.mechanisms.allreduce.network import Faults, Job, Network, Shape
from tests.mechanisms.allreduce.switches import program
from tests.mechanisms.allreduce.worker import CHUNKS, Worker

LANES = 2
INT32 = np.iinfo(np.int32)
Lanes = np.ndarray[Any, np.dtype[np.int64]]


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


class Run:
    """Jobs over a shape, with random chunks: who sums them has to get what numpy does."""

    def __init__(
        self, shape: Shape, jobs: list[Job], chunks: int, seed: int, faults: Faults, largest: int
    ) -> None:
        rng = np.random.default_rng(seed)
        self.jobs, self.data = jobs, {}
        workers = {}
        for job in jobs:
            first, epoch = int(rng.integers(CHUNKS)), int(rng.integers(1 << 13)) * 8
            exponents = {host: list(map(int, rng.integers(256, size=chunks))) for host in job.hosts}
            for host in job.hosts:
                lanes = rng.integers(-largest, largest, (chunks, LANES), np.int64, endpoint=True)
                self.data[job.number, host] = lanes
                rows = [tuple(map(int, row)) for row in lanes]
                workers[job.number, host] = Worker(
                    job.number, job.slots, rows, first=first, epoch=epoch, exponents=exponents[host]
                )
        self.network = Network(program(LANES), shape, jobs, workers, seed=seed, faults=faults)
        self.network.start()

    def check(self) -> None:
        """Compare all workers' results with numpy's, lane by lane, with overflows and exponents."""
        for job in self.jobs:
            exact: Lanes = sum(self.data[job.number, host] for host in job.hosts)  # type: ignore[assignment]
            beyond = ((exact < INT32.min) | (exact > INT32.max)).any(axis=1)
            members = [self.network.workers[job.number, host] for host in job.hosts]
            for worker in members:
                chunks = [worker.first + i for i in range(len(exact))]
                got = np.array([worker.results[chunk].lanes for chunk in chunks])
                assert np.array_equal(got, exact.astype(np.int32))
                assert {c for c, b in zip(chunks, beyond, strict=True) if b} <= worker.overflowed
                for i, chunk in enumerate(chunks[: -job.slots]):
                    needed = max(each.exponents[i + job.slots] for each in members)
                    assert worker.results[chunk].exponent == needed


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    workers = draw(st.integers(2, 32))
    jobs = draw(st.integers(1, 2))
    hosts = draw(st.permutations(range(1, workers + 1)))
    cut = draw(st.integers(1, workers - 1)) if jobs == 2 else workers
    slots = [1 << draw(st.integers(0, 3)) for _ in range(2)]
    both = [Job(1, tuple(hosts[:cut]), 0, slots[0]), Job(2, tuple(hosts[cut:]), 8, slots[1])]
    return {
        "shape": tree_of(draw(st.integers(1, 3)), workers),
        "jobs": both[:jobs],
        "chunks": draw(st.integers(8, 24)),
        "seed": draw(st.integers(0, 1 << 30)),
        "faults": Faults(
            loss=draw(st.sampled_from([0, 0.01, 0.1])),
            twice=draw(st.sampled_from([0, 0.05, 0.3])),
            time_out=draw(st.sampled_from([0, 0.02, 0.2])),
        ),
        "largest": draw(st.sampled_from([1 << 26, INT32.max])),
    }


def exact_in_any(case: Mapping[str, Any]) -> None:
    run = Run(**case)
    run.network.run()
    run.check()
    if case["largest"] * case["shape"].leaf_of.__len__() <= INT32.max:
        assert run.network.total("overflowed") == 0
    assert run.network.total("refused") == run.network.total("stale") == 0


def property_of(examples: int) -> Callable[[], None]:
    """Return the property with so many examples, always the same."""
    options = settings(
        max_examples=examples, deadline=None, derandomize=True, database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )  # fmt: skip
    return options(given(case=cases())(exact_in_any))


test_sums_are_exact = property_of(12)
test_sums_are_exact_in_many_more = pytest.mark.long(property_of(60))


def test_slots_are_used_many_times_and_exponents_run_ahead() -> None:
    jobs = [Job(1, (1, 2, 3), 5, 2)]
    run = Run(tree_of(2, 3), jobs, 200, 3, Faults(0.05, 0.05, 0.05), 1 << 29)
    run.network.run()
    run.check()
    assert run.network.total("repeated") > 0 and run.network.total("answered") > 0


def test_an_addition_beyond_int32_is_flagged_at_every_level() -> None:
    """The sum itself fits again: 2^31 - 1 + 1 - 1. Whether a leaf left int32 hangs on the order."""
    job = Job(1, (1, 2, 3, 4), 0, 1)
    shape = Shape({1: "a", 2: "a", 3: "b", 4: "b"}, ({"a": "r", "b": "r"},))
    lanes = {1: (INT32.max, 0), 2: (1, 0), 3: (-1, 5), 4: (0, 6)}
    workers = {(1, host): Worker(1, 1, [lanes[host]]) for host in job.hosts}
    network = Network(program(LANES), shape, [job], workers, seed=1)
    network.start()
    network.run()
    for worker in workers.values():
        assert worker.results[0].lanes == (INT32.max, 11)
        assert worker.overflowed == {0}
    assert network.total("overflowed") == 2  # in the leaf, and back at the root
