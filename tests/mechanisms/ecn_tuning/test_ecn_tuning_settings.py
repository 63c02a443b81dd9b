"""`ecn_tuning:` in topology files: what it takes, what it refuses, and what lint says."""

from __future__ import annotations

import pytest

import topologies
from controller.policy import FabricPolicy
from controller.target_facts import TargetFacts
from mechanisms.ecn_tuning.mechanism import MECHANISM
from mechanisms.ecn_tuning.queues import TunedQueue, queues_of
from mechanisms.ecn_tuning.settings import EcnTuning
from mechanisms.round_trips import longest_round_trip_ps
from topologies import Topology, TopologyError
from topologies.lint.findings import Severity
from workloads.loader import read_run

US = 1_000_000


def fabric(tuning: str, ecn: str = "ecn: 400kB, ") -> Topology:
    return topologies.loads(
        f"""
generator: leaf_spine
time_scale: 1
leaves: 2
spines: 1
hosts_per_leaf: 2
link: {{rate: 100Gbps, delay: 1us, queue: 2MB, mtu: 4200B}}
classes:
  roce: {{dscp: 26, queue: 3, {ecn}ecn_tuning: {tuning}}}
  rest: {{queue: 0}}
"""
    )


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("true", EcnTuning()),
        ("{}", EcnTuning()),
        ("false", None),
        (
            "{feedback: 20us, wait: 30us, interval: 1ms, memory: 10ms, room: 4MB}",
            EcnTuning(20 * US, 30 * US, 1000 * US, 10_000 * US, 4_000_000),
        ),
    ],
)
def test_what_a_class_may_say(said: str, meant: EcnTuning | None) -> None:
    assert fabric(said).classes[0].setting("ecn_tuning") == meant


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ("{feedback: 10ns}", "from 1us to 1s"),
        ("{interval: 2s}", "from 1us to 1s"),
        ("{feedback: 1ms, interval: 100us}", "interval is shorter than feedback"),
        ("{interval: 1ms, memory: 100us}", "memory is shorter than interval"),
        ("{feedback: 1ms, memory: 100us}", "memory is shorter than feedback"),
        ("{room: 0B}", "at least 1 B"),
        ("{threshold: 1MB}", "threshold"),
        ("3", "ecn_tuning"),
    ],
)
def test_what_is_wrong_is_refused_in_one_line(said: str, wrong: str) -> None:
    with pytest.raises(TopologyError) as refused:
        fabric(said)
    (line,) = str(refused.value).splitlines()
    assert wrong in line and "ecn_tuning" in line


def test_a_class_that_does_not_mark_is_an_error() -> None:
    (found,) = MECHANISM.remarks(fabric("true", ecn=""))
    assert found.severity is Severity.ERROR
    assert found.path == ("classes", "roce", "ecn_tuning")
    assert "no ecn" in found.message
    assert list(MECHANISM.remarks(fabric("true"))) == []


@pytest.mark.parametrize(("room", "remarks"), [("", 1), ("room: 4MB", 0)])
def test_a_shared_buffer_needs_a_room(room: str, remarks: int) -> None:
    run = read_run(
        f"""
topology:
  generator: single
  hosts: 2
  link: {{rate: 100Gbps, delay: 1us, queue: 2MB}}
  classes:
    roce: {{dscp: 26, queue: 3, ecn: 400kB, ecn_tuning: {{{room}}}}}
    rest: {{queue: 0}}
buffer: {{shared: 32MB, alpha: 1/2}}
until: 1ms
traffic: [{{message: {{from: h1, to: h2, bytes: 1MB}}}}]
"""
    )
    assert len(list(MECHANISM.run_remarks(run))) == remarks


def test_what_is_not_said_follows_from_the_topology() -> None:
    """Four links there and four back, and on each link there a packet of 4200 + 38 bytes."""
    topology = fabric("true")
    trip = longest_round_trip_ps(topology)
    assert trip == 8 * US + 4 * (4238 * 8 * 10)
    policy = FabricPolicy.of(topology)
    queues = queues_of(topology, topology.switch("s1"), policy, TargetFacts(priorities=8))
    ports = [port.number for port in topology.ports_of("s1")]
    assert list(queues) == [
        TunedQueue(port, 3, n, 100 * 10**9, 2_000_000, trip, 2 * trip, 5 * trip, 5000 * trip)
        for n, port in enumerate(ports)
    ]


def test_a_target_with_one_queue_has_none_that_is_measured() -> None:
    topology = fabric("true")
    policy = FabricPolicy.of(topology)
    assert list(queues_of(topology, topology.switch("s1"), policy, TargetFacts())) == []


def test_large_switches_have_room_for_all_their_queues() -> None:
    assert MECHANISM.sizes(fabric("true")) == {}
    large = topologies.loads(
        """
generator: single
time_scale: 1
hosts: 200
link: {rate: 100Gbps, delay: 1us, queue: 2MB}
classes:
  roce: {dscp: 26, queue: 3, ecn: 400kB, ecn_tuning: true}
  bulk: {dscp: 10, queue: 1, ecn: 400kB, ecn_tuning: true}
  rest: {queue: 0}
"""
    )
    assert MECHANISM.sizes(large) == {"ECN_TUNING_QUEUES": 512}
