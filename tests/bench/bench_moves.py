"""Time of a broadcast and an allgather among four hosts of `training`: blocks, sums, both rings.

    sudo python tests/bench/bench_moves.py [--json] [--rounds 5] [--bytes 1000000]

Through P4 switches in namespaces, time scale 1000: links of 100 Mb/s in real time. Blocks are what
`Communicator` has switches multicast, sums what it does without them. From the first rank's call
to the last one's result, the least and the median of equally many rounds, in ms. Needs root.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import command_line
import numpy as np

import topologies
from emulation.switch_node import Target
from experiments.training.fabric import Fabric, brought_up
from experiments.training.job import RankJob, Training, Transport
from experiments.training.run import Request, jobs_of
from hostagent.agent import in_namespace
from hostagent.collective.communicator import Communicator
from hostagent.collective.neighbours import PORT, listen
from hostagent.collective.ring import Ring

NETNS = Path("/run/netns")
RANK = Callable[[], Any]


def communicator(job: RankJob, rate_bps: int) -> Any:
    """Return a rank of the job of switches, by blocks at a rate or (0) by sums."""
    assert job.worker is not None
    made = Communicator(job.worker, job.gateway, job.address, timeout_s=job.timeout_s,
                        block_rate_bps=rate_bps)  # fmt: skip
    return made, {
        "broadcast": lambda data: made.broadcast(data, 0).wait(),
        "allgather": lambda data: made.allgather(data).wait(),
    }


def ring(jobs: list[RankJob], job: RankJob) -> Any:
    """Return a rank of the ring, over RDMA if it has a card."""
    addresses = [(each.address, PORT) for each in jobs]
    made = Ring(job.rank, addresses, listen(*addresses[job.rank]), lanes=job.lanes,
                rdma=job.rdma())  # fmt: skip
    return made, {"broadcast": lambda data: made.broadcast(data, 0), "allgather": made.allgather}


def times(pool: ThreadPoolExecutor, jobs: list[RankJob], make: Any, size: int, rounds: int) -> Any:
    """Least and median ms by collective; the ranks are made in their hosts' namespaces."""
    there = [partial(in_namespace, NETNS / job.namespace, partial(make, job)) for job in jobs]
    ranks = list(pool.map(lambda made: made(), there))
    found: dict[str, dict[str, float]] = {}
    for what, data in (("broadcast", np.ones(size, np.uint8)),
                       ("allgather", np.ones(size // len(jobs), np.uint8))):  # fmt: skip
        took = []
        for _ in range(rounds + 1):
            began = time.monotonic()
            list(pool.map(lambda rank: rank[1][what](data.copy()), ranks))  # noqa: B023
            took.append(1000 * (time.monotonic() - began))
        found[what] = {"least": min(took[1:]), "median": statistics.median(took[1:])}
    list(pool.map(lambda rank: rank[0].close(), ranks))
    return found


def jobs_for(fabric: Fabric, transport: Transport) -> list[RankJob]:
    """Return the settings of each rank of a job."""
    return list(jobs_of(Request(transport, Training()), fabric))


def measure(size: int = 1_000_000, rounds: int = 5) -> dict[str, Any]:
    """Least and median ms, by what carries it and by collective. Raises EmulationError."""
    found = {}
    topology = topologies.load("training")
    with (
        brought_up(topology, Target.SOFTSWITCH, lambda step: None, lambda text: None) as fabric,
        ThreadPoolExecutor(4) as pool,
    ):
        for name, blocks in (("blocks", True), ("sums", False)):
            jobs = jobs_for(fabric, Transport.IN_NETWORK)
            rate = jobs[0].block_rate_bps if blocks else 0
            found[name] = times(pool, jobs, partial(communicator, rate_bps=rate), size, rounds)
        for name, transport in (("ring, TCP", Transport.RING), ("ring, RDMA", Transport.RDMA)):
            jobs = jobs_for(fabric, transport)
            found[name] = times(pool, jobs, partial(ring, jobs), size, rounds)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=command_line.count, default=5)
    parser.add_argument("--bytes", type=command_line.count, default=1_000_000)
    arguments = parser.parse_args()
    result = measure(arguments.bytes, arguments.rounds)
    if arguments.json:
        print(json.dumps(result))
        return
    for name, row in result.items():
        for what, took in row.items():
            print(f"{name:12} {what:10} {took['least']:8.1f} ms, median {took['median']:8.1f} ms")


if __name__ == "__main__":
    command_line.run(main)
