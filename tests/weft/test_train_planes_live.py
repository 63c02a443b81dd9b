"""Ranks of `weft train` over two planes of a real fabric, one of which is cut and comes back.

h1:0 h2:0 - s1        12 Gb/s in the fabric, 40 Mb/s here
h1:1 h2:1 - s2
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import topologies
from emulation import run_state
from emulation.switch_node import Target
from experiments.training.fabric import Fabric, brought_up
from experiments.training.job import RankJob, Transport
from experiments.training.planes import PlaneOfRank, planes_of
from experiments.training.run import Request, jobs_of
from experiments.ways import Ways
from hostagent.agent import in_namespace
from hostagent.collective.neighbours import listen
from hostagent.collective.ring import Ring
from tests.weft.test_perf_planes_live import PLANES
from tests.weft.test_train_live import environment, train

pytestmark = [pytest.mark.root, pytest.mark.realtime, pytest.mark.long]
__all__ = ["environment"]

SCALE = 300
HOLD_PS = 10**10  # of failover: true
COUNT = 50_000  # integers: some 20 ms by both planes
PATIENCE_S = 60.0
NETNS = Path("/run/netns")
TRAINED = ("dualplane", "--time-scale", "300", "--transport", "rdma", "--hidden", "200")
BY_PLANES = ("--interfaces", "all", "--failover")


@pytest.fixture
def fabric(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fabric]:
    monkeypatch.setenv(run_state.RUN_ROOT_VARIABLE, str(tmp_path / "run"))
    monkeypatch.setenv(run_state.LOG_ROOT_VARIABLE, str(tmp_path / "log"))
    (tmp_path / "planes.yaml").write_text(PLANES)
    topology = topologies.load(str(tmp_path / "planes.yaml"))
    with brought_up(topology, Target.SOFTSWITCH, lambda step: None, lambda text: None) as found:
        yield found


def ring_of(jobs: list[RankJob], job: RankJob) -> Ring:
    """Return the ring as a rank's process group has it, in the namespace of its host."""
    addresses = [(each.address, job.ring_port) for each in jobs]

    def joined() -> Ring:
        listening = listen(*addresses[job.rank])
        rdma, patience_s = job.rdma(), job.patience_s
        return Ring(
            job.rank, addresses, listening, lanes=job.lanes, timeout_s=patience_s, rdma=rdma
        )

    return in_namespace(NETNS / job.namespace, joined)


def test_ranks_cards_add_up_while_a_plane_is_cut_and_back(fabric: Fabric) -> None:
    """What a rank does with its job but for torch, so that it runs without it."""
    request = Request(Transport.RDMA, ways=Ways("all", failover=True))
    told = [job.line() for job in jobs_of(request, fabric)]
    jobs = [RankJob.of(json.loads(line)) for line in told]
    given = [np.random.default_rng(n).integers(-(2**20), 2**20, COUNT, np.int32) for n in (0, 1)]
    with ThreadPoolExecutor(3) as pool:
        rings = list(pool.map(partial(ring_of, jobs), jobs))
        began_ns = time.monotonic_ns()

        def add_up(rank: int) -> bool:
            values = given[rank].copy()
            rings[rank].sum_integers(values)
            return bool((values == given[0] + given[1]).all())

        def until(done: Callable[[dict[str, Any]], bool]) -> None:
            """Go on adding up until the second plane is so at both ranks."""
            end = time.monotonic() + PATIENCE_S
            while not all(done(ring.planes()[1]) for ring in rings):
                assert all(pool.map(add_up, (0, 1)))
                assert time.monotonic() < end, [ring.planes() for ring in rings]

        try:
            assert all(pool.map(add_up, (0, 1)))
            cut = pool.submit(fabric.do, ("down", "h1:1", "s2"))
            until(lambda plane: plane["state"] == "lost")
            assert cut.result() == "h1:1 - s2: down"
            fabric.do(("up", "h1:1", "s2"))
            until(lambda plane: plane["state"] == "up")
            before = [ring.planes()[1]["sent_packets"] for ring in rings]
            until(lambda plane: plane["sent_packets"] > max(before) + 100)
            counters = [ring.counters() for ring in rings]
            seen = [planes_of(ring.planes(), [began_ns], SCALE) for ring in rings]
        finally:
            list(pool.map(Ring.close, rings))
    assert [each["af_xdp"] for each in counters] == [1, 1]
    for first, second in seen:
        assert (first.losses, first.lost_ps) == (0, None)
        assert second.losses >= 1
        assert was_away_ps(second) >= HOLD_PS
    assert seen[0][1].why == "link"


def was_away_ps(plane: PlaneOfRank) -> int:
    assert plane.lost_ps is not None and plane.up_ps is not None
    return plane.up_ps - plane.lost_ps


@pytest.mark.reference(module="torch", names="make setup-torch installs PyTorch")
def test_a_job_goes_on_while_a_plane_fails(environment: dict[str, str]) -> None:
    quiet = train(environment, *TRAINED)
    faulty = train(environment, *TRAINED, *BY_PLANES, "--fault", "at step 2: down h1:1 s3")
    assert faulty["sha256"] == quiet["sha256"]
    assert [each["what"] for each in faulty["events"]] == ["h1:1 - s3: down"]
    by_host = {each["host"]: each["planes"] for each in faulty["ranks"]}
    assert [len(planes) for planes in by_host.values()] == [2] * 4
    assert all(planes[0]["losses"] == 0 for planes in by_host.values())
    cut = by_host["h1"][1]
    assert (cut["why"], cut["up_step"]) == ("link", None)
    assert cut["lost_step"] >= 2
    assert by_host["h4"][1]["losses"] >= 1  # it sends to h1
    assert by_host["h2"][1]["losses"] == 0
