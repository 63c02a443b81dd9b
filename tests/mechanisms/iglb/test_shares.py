"""Jobs that lie: hosts that send what nobody declared, and flows with other shares."""

from __future__ import annotations

import numpy as np
import pytest

from mechanisms.iglb.followed import Follower
from mechanisms.iglb.pins import Flow
from mechanisms.iglb.shares import shares, undeclared
from tests.mechanisms.iglb.held import InTurns, ring
from topologies.loader import loads
from topologies.model import Topology

TREE = "generator: fat_tree\nk: 4\ntime_scale: 1\niglb: true\n"
MEGABYTE = 1_000_000  # what each flow of `ring` declares


@pytest.fixture(scope="module")
def topology() -> Topology:
    return loads(TREE + "link: {rate: 100Gbps, delay: 500ns, queue: 1MB}")


def counted(topology: Topology, rounds: np.ndarray) -> tuple[object, dict[Flow, int]]:
    """Return a plan of the ring and what switches counted of it, 2 % of headers with it."""
    job = ring(topology)
    followed = Follower(topology, by_ports=False).follow(InTurns(topology).plan([job]), {})
    address = [int(each.address.ip) for each in topology.interfaces()]
    keys = zip(job.source.tolist(), job.target.tolist(), job.udp_port.tolist(), strict=True)
    flows = [(address[a], address[b], port) for a, b, port in keys]
    return followed, {
        flow: int(1.02 * MEGABYTE * number) for flow, number in zip(flows, rounds, strict=True)
    }


def test_an_honest_job_is_within_a_round_of_itself(topology: Topology) -> None:
    rng = np.random.default_rng(1)
    for done in (0, 1, 7):
        for share in (0.0, 0.3, 1.0):  # flows of this phase, the rest waits
            rounds = done + (rng.random(32) < share) * rng.random(32)
            assert shares(topology, *counted(topology, rounds)) == []


def test_who_sends_more_than_its_share_is_named(topology: Topology) -> None:
    rounds = np.full(32, 5.0)
    rounds[6] = 15.0
    (lie,) = shares(topology, *counted(topology, rounds))
    assert (lie.job, lie.host) == ("ring", "h4")
    assert lie.what.startswith("to h9 by port ") and "15.3 times" in lie.what


def test_who_sends_nothing_of_what_it_declared_is_named(topology: Topology) -> None:
    rounds = np.full(32, 4.0)
    rounds[31] = 0.0
    (lie,) = shares(topology, *counted(topology, rounds))
    assert lie.host == "h16" and "0.0 times" in lie.what


def test_packets_that_nobody_declared_are_told_of_their_host_and_its_jobs(
    topology: Topology,
) -> None:
    job = ring(topology)
    h3 = topology.host("h3").interfaces[0]
    seen = {(h3.switch, h3.port): 12, ("s1", 99): 5, (h3.switch, 98): 0}
    (lie,) = undeclared(topology, {"ring": job}, seen)
    assert (lie.job, lie.host) == ("ring", "h3")
    assert lie.what == "12 packets of flows that no job declared"
    (lie,) = undeclared(topology, {}, seen)
    assert (lie.job, lie.host) == ("", "h3")
