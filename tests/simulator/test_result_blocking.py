"""Who blocks whom: a row of switches with one congested host, and rings with and without a way out.

h1 - s1 - s2 - s3 - h3        s1, s2, s3 in a ring as well; a host at each
"""

from __future__ import annotations

import numpy as np
import pytest

from simulator.result_blocking import Blocking, Queue, Waiting, analyse, waiting_rows
from topologies import Topology, load

C = 3  # the lossless class


@pytest.fixture(scope="module")
def ring() -> Topology:
    return load("triangle")


def port(topology: Topology, node: str, peer: str) -> int:
    return next(p.number for p in topology.ports_of(node) if p.peer.node == peer)


def waits(
    topology: Topology, came_from: str, node: str, goes_to: str, paused: bool, packets: int = 10
) -> Waiting:
    queue = Queue(node, port(topology, node, goes_to), C)
    return Waiting(queue, port(topology, node, came_from), packets, packets * 1000, paused)


def names(topology: Topology, cycle: tuple[Queue, ...]) -> list[str]:
    return [f"{q.node}->{topology.peer(q.node, q.port).node}" for q in cycle]


def test_nothing_waits(ring: Topology) -> None:
    assert analyse(ring, []) == Blocking()
    assert analyse(ring, [waits(ring, "h1", "s1", "s2", paused=False)]).blocked == ()


def test_a_chain_of_pauses_ends_at_the_congested_port(ring: Topology) -> None:
    rows = [
        waits(ring, "h1", "s1", "s2", paused=True),
        waits(ring, "s1", "s2", "s3", paused=True),
        waits(ring, "s2", "s3", "h3", paused=False, packets=500),
    ]
    found = analyse(ring, rows)
    congested = Queue("s3", port(ring, "s3", "h3"), C)
    assert [each.roots for each in found.blocked] == [(congested,), (congested,)]
    assert found.deadlocks == ()
    assert not any(each.deadlocked for each in found.blocked)


def test_flows_that_pass_by_the_congestion_are_victims(ring: Topology) -> None:
    rows = [
        waits(ring, "h1", "s1", "s2", paused=True),
        waits(ring, "s1", "s2", "s3", paused=True),
        waits(ring, "s1", "s2", "h2", paused=False, packets=1),
        waits(ring, "s2", "s3", "h3", paused=False, packets=500),
    ]
    out = {
        0: [
            ("s1", port(ring, "s1", "s2")),
            ("s2", port(ring, "s2", "s3")),
            ("s3", port(ring, "s3", "h3")),
        ],
        1: [("s1", port(ring, "s1", "s2")), ("s2", port(ring, "s2", "s3"))],
        2: [("s1", port(ring, "s1", "s2")), ("s2", port(ring, "s2", "s1"))],
    }
    blocked_at = Queue("s1", port(ring, "s1", "s2"), C)
    found = analyse(ring, rows, {**out}, dict.fromkeys(out, C))
    # Flow 1 ends before h3's port; flow 2 turns round at s2: both wait at s1 for h3's congestion.
    assert {flow for flow, _ in found.victims} == {1, 2}
    assert (2, blocked_at) in found.victims
    # Another class is not in that queue.
    assert analyse(ring, rows, out, dict.fromkeys(out, 0)).victims == ()


def ring_rows(ring: Topology, **changes: bool) -> list[Waiting]:
    return [
        waits(ring, "s3", "s1", "s2", paused=changes.get("s1", True)),
        waits(ring, "s1", "s2", "s3", paused=changes.get("s2", True)),
        waits(ring, "s2", "s3", "s1", paused=changes.get("s3", True)),
    ]


def test_a_ring_of_paused_queues_is_a_deadlock(ring: Topology) -> None:
    found = analyse(ring, ring_rows(ring))
    assert [names(ring, cycle) for cycle in found.deadlocks] == [["s1->s2", "s2->s3", "s3->s1"]]
    assert all(each.deadlocked and each.roots == () for each in found.blocked)


def test_what_waits_for_a_deadlock_is_stuck_and_no_cycle(ring: Topology) -> None:
    # h1's port of s1 is not paused by anyone, but s1->s2 holds its packets too.
    rows = [*ring_rows(ring), waits(ring, "h1", "s1", "s2", paused=True)]
    assert len(analyse(ring, rows).deadlocks) == 1


def test_a_ring_with_one_open_queue_is_none(ring: Topology) -> None:
    for node in ("s1", "s2", "s3"):
        found = analyse(ring, ring_rows(ring, **{node: False}))
        assert found.deadlocks == ()
        assert len(found.blocked) == 2


def test_a_ring_that_can_drain_somewhere_is_none(ring: Topology) -> None:
    rows = [*ring_rows(ring), waits(ring, "s1", "s2", "h2", paused=False)]
    found = analyse(ring, rows)
    assert found.deadlocks == ()
    assert not any(each.deadlocked for each in found.blocked)
    assert {each.roots for each in found.blocked} == {(Queue("s2", port(ring, "s2", "h2"), C),)}


def test_a_paused_queue_whose_far_end_is_empty_is_its_own_root(ring: Topology) -> None:
    (only,) = analyse(ring, [waits(ring, "h1", "s1", "s2", paused=True)]).blocked
    assert only.roots == (only.queue,)
    assert not only.deadlocked


def test_rows_of_the_core(ring: Topology) -> None:
    kind = [(n, "<u4") for n in ("ingress_port", "egress_port", "queue", "paused", "packets")]
    rows = np.array([(1, 2, 3, 1, 4, 4000)], np.dtype([*kind, ("bytes", "<u8")]))
    expected = [Waiting(Queue("s1", 2, 3), 1, 4, 4000, True)]
    assert waiting_rows("s1", rows) == expected
