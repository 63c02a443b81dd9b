"""An uplink dies: the leaf's own groups leave it out at once, long before the controller writes.

 s3    s4
 | \\  / |
 s1    s2
h1-h4  h5-h8      s1's link to s3 goes down at 1 ms, and the controller needs another 1 ms
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from simulator import controller_link
from simulator.runner import Outcome, Simulation
from tests.simulator.fabric_program import fabric_program
from workloads.loader import read_run

RATE = 25_000_000_000
FLOWS, FLOW_RATE = 16, 1_000_000_000
FRAME_BITS = 8 * (1000 + 54 + 4 + 24)  # payload 1000 B on the wire
LEAF_SPINE = """
topology:
  generator: leaf_spine
  spines: 2
  leaves: 2
  hosts_per_leaf: 4
  link: {rate: 25Gbps, delay: 1us, queue: 1MB, mtu: 4200B}
until: 3ms
sample: 100us
controller: {delay: 1ms}
events:
  - {at: 500us, link: s1-s3, rate: BEFORE}
  - {at: 1ms, link: s1-s3, do: down}
traffic:
  - cbr:
      {from: [h1, h2, h3, h4], to: [h5, h6, h7, h8], rate: 1Gbps, payload: 1000B, stop: 2900us}
"""
WIRE_PACKETS = RATE // 1_000_000 // FRAME_BITS + 2  # that a link of 1 us holds, and its ends
UPLINK = 5  # of s1, to s3; four hosts are before it


def run(before: str) -> Outcome:
    """Run a link at the rate `before` for half a millisecond, then let it fail."""
    text = LEAF_SPINE.replace("BEFORE", before)
    return Simulation(read_run(text), fabric_program()).run()


@pytest.fixture
def without_watching(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switches of which the controller believes that they watch no ports."""
    facts = controller_link.target_facts
    monkeypatch.setattr(
        controller_link,
        "target_facts",
        lambda topology: replace(facts(topology), watches_ports=False),
    )


def lost_packets(outcome: Outcome) -> int:
    """Those that were sent and did not come; at the end none is on its way."""
    stats = outcome.end.flow_stats
    assert len(stats) == FLOWS
    return sum(int(each["sent_packets"]) - int(each["received_packets"]) for each in stats)


def over(outcome: Outcome, spine: str) -> int:
    """Packets that went by a spine."""
    return int(outcome.end.switches[spine].stats["egress"])


def test_a_dead_uplink_loses_what_is_on_the_wire_and_no_more() -> None:
    outcome = run("25Gbps")
    assert over(outcome, "s3") > 0, "both spines had flows"
    burst = outcome.end.switches["s1"].ports[UPLINK]["max_depth_packets"]
    assert burst <= FLOWS  # packets of flows that meet, one each
    assert 0 < lost_packets(outcome) <= burst + WIRE_PACKETS


def test_a_dead_uplink_loses_what_waits_for_it_and_no_more() -> None:
    outcome = run("5Gbps")
    waited = outcome.end.switches["s1"].ports[UPLINK]["max_depth_packets"]
    assert waited > 10 * WIRE_PACKETS
    assert 0 < lost_packets(outcome) <= waited + WIRE_PACKETS
    total = sum(int(each["sent_packets"]) for each in outcome.end.flow_stats)
    assert over(outcome, "s3") + over(outcome, "s4") == total - lost_packets(outcome)


@pytest.mark.usefixtures("without_watching")
def test_without_watch_ports_the_controllers_delay_is_lost() -> None:
    outcome = run("25Gbps")
    # s3 forwards for the first millisecond, and for as long all that it would forward is lost.
    assert lost_packets(outcome) == pytest.approx(over(outcome, "s3"), rel=0.05)
    assert lost_packets(outcome) > 100 * WIRE_PACKETS


def test_the_way_back_to_a_leaf_waits_for_the_controller() -> None:
    """The spine has one port to each leaf: there is no other member that it could take."""
    text = LEAF_SPINE.replace("BEFORE", "25Gbps")
    text = text.replace(
        "[h1, h2, h3, h4], to: [h5, h6, h7, h8]", "[h5, h6, h7, h8], to: [h1, h2, h3, h4]"
    )
    outcome = Simulation(read_run(text), fabric_program()).run()
    # Half of what s3 is given, for a millisecond before and for one after, finds the port dead.
    assert lost_packets(outcome) == pytest.approx(over(outcome, "s3") / 2, rel=0.05)
