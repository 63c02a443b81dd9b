"""Best effort: exact sums of jobs that share few cells, whatever is lost, doubled or late."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from softswitch.p4runtime.pipeline import Pipeline
from tests.mechanisms.allreduce.best_effort import PartialWorker, Server
from tests.mechanisms.allreduce.network import Faults, Job, Network, Shape
from tests.mechanisms.allreduce.switches import Pool, program
from tests.mechanisms.allreduce.test_allreduce_sums import tree_of
from tests.mechanisms.allreduce.worker import CHUNKS

LANES, CELLS = 2, 16
INT32 = np.iinfo(np.int32)


def pooled() -> Pipeline:
    """Return the program with a pool of 16 cells."""
    return program(LANES, 64, "WITH_BEST_EFFORT", f"ALLREDUCE_POOL={CELLS}")


class Run:
    """Best-effort jobs over a shape, with random chunks and a server each, at a host of its own."""

    def __init__(self, shape: Shape, jobs: list[Job], chunks: int, seed: int, faults: Faults,
                 largest: int = 1 << 24) -> None:  # fmt: skip
        rng = np.random.default_rng(seed)
        self.jobs, self.data, self.chunks = jobs, {}, chunks
        self.servers = {job.number: Server(job.number, len(job.hosts)) for job in jobs}
        nodes: dict[tuple[int, int], Any] = {}
        for job in jobs:
            assert job.server is not None
            nodes[job.number, job.server] = self.servers[job.number]
            first, epoch = int(rng.integers(CHUNKS)), int(rng.integers(1 << 13)) * 8
            for rank, host in enumerate(job.hosts):
                lanes = rng.integers(-largest, largest, (chunks, LANES), np.int64, endpoint=True)
                self.data[job.number, host] = lanes
                rows = [tuple(map(int, row)) for row in lanes]
                exponents = list(map(int, rng.integers(256, size=chunks)))
                nodes[job.number, host] = PartialWorker(
                    rank, job.number, job.slots, rows, first=first, epoch=epoch, exponents=exponents
                )
        self.network = Network(pooled(), shape, jobs, nodes, seed=seed, faults=faults)
        self.network.start()

    def check(self) -> None:
        """Compare all results with numpy's, and exponents with the largest."""
        for job in self.jobs:
            exact = sum(self.data[job.number, host] for host in job.hosts)
            assert isinstance(exact, np.ndarray)
            beyond = ((exact < INT32.min) | (exact > INT32.max)).any(axis=1)
            members = [self.network.workers[job.number, host] for host in job.hosts]
            for worker in members:
                chunks = [worker.first + i for i in range(self.chunks)]
                got = np.array([worker.results[chunk].lanes for chunk in chunks])
                assert np.array_equal(got, exact.astype(np.int32))
                assert {c for c, b in zip(chunks, beyond, strict=True) if b} <= worker.overflowed
                for i, chunk in enumerate(chunks[: -job.slots]):
                    needed = max(each.exponents[i + job.slots] for each in members)
                    assert worker.results[chunk].exponent == needed

    def counted(self, outcome: str) -> int:
        """Return how often switches counted an outcome."""
        return self.network.total(outcome)


def with_servers(shape: Shape, servers: dict[int, str]) -> Shape:
    """Return a shape with servers' hosts at switches."""
    return Shape({**shape.leaf_of, **servers}, shape.trees)


def root_of(shape: Shape) -> str:
    """Return the root of a shape's first tree."""
    tree = shape.trees[0]
    at = next(iter(shape.leaf_of.values()))
    while at in tree:
        at = tree[at]
    return at


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    workers = draw(st.integers(4, 20))
    hosts = draw(st.permutations(range(1, workers + 1)))
    cut = draw(st.integers(2, workers - 2))
    shape = tree_of(draw(st.integers(1, 3)), workers)
    root = root_of(shape)
    jobs = [
        Job(number, tuple(members), 0, 1 << draw(st.integers(0, 4)), 100 + number,
            Pool(draw(st.sampled_from((0, 1, 2, 16))), draw(st.integers(0, 2**31 - 1)) * 2 + 1,
                 draw(st.integers(0, 2**32 - 1)), draw(st.sampled_from((0, 1, 65535)))))
        for number, members in ((1, hosts[:cut]), (2, hosts[cut:]))
    ]  # fmt: skip
    return {
        "shape": with_servers(shape, {101: root, 102: root}),
        "jobs": jobs,
        "chunks": draw(st.integers(1, 24)),
        "seed": draw(st.integers(0, 2**32 - 1)),
        "faults": Faults(
            loss=draw(st.sampled_from((0.0, 0.02, 0.1))),
            twice=draw(st.sampled_from((0.0, 0.05, 0.3))),
            time_out=draw(st.sampled_from((0.0, 0.01, 0.1))),
        ),
        "largest": draw(st.sampled_from((1 << 24, int(INT32.max)))),
    }


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cases())
def test_sums_are_exact_whatever_is_lost_doubled_or_late(case: dict[str, Any]) -> None:
    run = Run(**case)
    run.network.run()
    run.check()


def two_jobs(cells: int, **more: Any) -> Run:
    shape = tree_of(2, 8)
    jobs = [
        Job(1, (1, 2, 3, 4), 0, 4, 101, Pool(cells, 5)),
        Job(2, (5, 6, 7, 8), 0, 4, 102, Pool(cells, 3)),
    ]
    return Run(with_servers(shape, {101: "r", 102: "r"}), jobs, 40, 7, Faults(**more))


def test_without_a_pool_all_goes_to_the_server() -> None:
    run = two_jobs(0)
    run.network.run()
    run.check()
    assert run.counted("passed") == 2 * 2 * 4 * 40  # at two switches
    assert [server.taken for server in run.servers.values()] == [160, 160]


def test_one_job_alone_costs_its_server_one_packet_a_chunk() -> None:
    shape = with_servers(tree_of(2, 8), {101: "r"})
    run = Run(shape, [Job(1, tuple(range(1, 9)), 0, 4, 101, Pool(16, 5))], 40, 7, Faults())
    run.network.run()
    run.check()
    assert run.servers[1].taken == 40
    assert run.counted("passed") == run.counted("flushed") == 0


def test_jobs_that_meet_in_a_cell_are_served_all_the_same() -> None:
    run = two_jobs(2)
    run.network.run()
    run.check()
    assert run.counted("passed") > 0
    assert 80 < sum(server.taken for server in run.servers.values()) < 320


def test_no_cell_stays_claimed_once_all_have_their_results() -> None:
    run = two_jobs(16)
    run.network.run()
    while run.network.outstanding():
        run.network.step()
    for switch in run.network.switches.values():
        cells = [switch.switch.register_read("allreduce_bitmaps", 128 + i) for i in range(CELLS)]
        assert not any(cells)


@pytest.mark.parametrize("loss", [0.02, 0.1])
def test_what_is_lost_is_repeated_past_the_pool(loss: float) -> None:
    run = two_jobs(16, loss=loss)
    run.network.run()
    run.check()
    assert run.counted("flushed") > 0
