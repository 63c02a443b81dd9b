"""A flow's path from traces: hops, queues, and where probes vanish.

h1 - s1 === s3, s4 === s2 - h3          traces made by hand: who came, who left
"""

from __future__ import annotations

import pytest

import topologies
from observe.flow_trace import FlowTrace, TracedFlow, assemble, is_settled
from softswitch.tracing.records import Branch, Egress, End, Ingress, Outcome, PacketTrace, Step
from topologies.model import Endpoint

LEAFSPINE = topologies.load("leafspine")
FLOW = TracedFlow(Endpoint("h1", 0), Endpoint("h3", 0), 50000, 26)


def packet(came: int, left: int, outcome: Outcome = Outcome.SENT, queue: int = 3) -> PacketTrace:
    """Return a probe that came by a port and ended at another."""
    steps: list[Step] = [Ingress(0, came)]
    if outcome is Outcome.SENT or outcome is Outcome.LOST:
        steps.append(Egress(0, left, queue, 0, 0))
    steps.append(End(outcome, 0, left, 60, "" if left else "no route"))
    return PacketTrace(1, 0, came, 60, b"", (Branch(0, "received", None, tuple(steps)),))


def traced(**traces: list[PacketTrace]) -> FlowTrace:
    return assemble(LEAFSPINE, FLOW, 4, traces)


def test_hops_are_in_order_with_port_queue_and_count() -> None:
    found = traced(s1=[packet(1, 3)] * 4, s3=[packet(1, 2)] * 4, s2=[packet(3, 1)] * 4)
    assert found.ports == (("s1", 3), ("s3", 2), ("s2", 1))
    assert [(hop.switch, hop.port, hop.left[0].towards) for hop in found.hops] == [
        ("s1", 1, "s3:1"), ("s3", 1, "s2:3"), ("s2", 3, "h3"),
    ]  # fmt: skip
    assert {way.queue for hop in found.hops for way in hop.left} == {3}
    assert (found.arrived, found.vanished) == (4, ())


def test_what_left_and_did_not_come_vanished_on_the_link() -> None:
    # Whether the sender's side of an emulated link knows of it or not.
    lost = [packet(1, 2), packet(1, 2, Outcome.LOST), packet(1, 2), packet(1, 2)]
    found = traced(s1=[packet(1, 3)] * 4, s3=lost, s2=[packet(3, 1)] * 2)
    assert [(each.place, each.packets) for each in found.vanished] == [("s3:2 to s2:3", 2)]
    assert found.arrived == 2


def test_nothing_at_the_first_switch_vanished_on_the_hosts_link() -> None:
    found = traced()
    assert [(each.place, each.packets) for each in found.vanished] == [("h1:0 to s1:1", 4)]
    assert not found.hops


def test_a_switch_that_drops_says_why() -> None:
    dropped = [packet(1, 0, Outcome.DROPPED_IN_INGRESS)] * 4
    found = traced(s1=[packet(1, 3)] * 4, s3=dropped)
    (gone,) = found.vanished
    assert (gone.place, gone.packets) == ("s3", 4)
    assert gone.reason == "dropped in ingress: no route"
    assert is_settled(LEAFSPINE, FLOW, 4, {"s1": [packet(1, 3)] * 4, "s3": dropped})


def test_probes_on_two_ways_are_shown_on_both() -> None:
    found = traced(
        s1=[packet(1, 3), packet(1, 4), packet(1, 4), packet(1, 4)],
        s3=[packet(1, 2)], s4=[packet(1, 2)] * 3,
        s2=[packet(3, 1), *[packet(4, 1)] * 3],
    )  # fmt: skip
    assert [(way.port, way.packets) for way in found.hops[0].left] == [(3, 1), (4, 3)]
    assert found.arrived == 4


def test_frames_lost_towards_the_host_have_not_arrived() -> None:
    last = [packet(3, 1), packet(3, 1, Outcome.LOST), packet(3, 1), packet(3, 1)]
    found = traced(s1=[packet(1, 3)] * 4, s3=[packet(1, 2)] * 4, s2=last)
    assert found.arrived == 3
    assert [(each.place, each.packets) for each in found.vanished] == [("s2:1 to h3", 1)]


@pytest.mark.parametrize("missing", ["s3", "s2"])
def test_probes_that_are_on_their_way_are_not_settled(missing: str) -> None:
    traces = {"s1": [packet(1, 3)] * 4, "s3": [packet(1, 2)] * 4, "s2": [packet(3, 1)] * 4}
    assert is_settled(LEAFSPINE, FLOW, 4, traces)
    assert not is_settled(LEAFSPINE, FLOW, 4, {**traces, missing: []})
