"""Over P4Runtime: reports come as digests, and thresholds get into switches that run.

h1, h2 -- s1      no links: what is measured are frames that the controller sends out of port 1
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

import topologies
from controller import CompiledProgram, TargetFacts, run
from controller.entries import ActionCall, TableEntry
from mechanisms.ecn_tuning.entries import NAME, QUEUE_TABLE, THRESHOLD_TABLE
from tests.controller.conftest import program, softswitches, wait_for

__all__ = ["program", "softswitches", "wait_for"]

FABRIC = """
generator: single
hosts: 2
link: {rate: 100Gbps, delay: 500ns, queue: 1MB}
time_scale: 10000
classes:
  rest: {queue: 0, ecn: 400kB, ecn_tuning: {interval: 10us, memory: 1s}}
"""
FACTS = TargetFacts(priorities=8, time_scale=10_000)


def frame(flow: int) -> bytes:
    ip = IP(src="10.0.1.2", dst="10.0.1.1", tos=2)
    return bytes(Ether() / ip / UDP(sport=5, dport=4791) / BTH(dqpn=flow) / Raw(bytes(900)))


def lows(controller: Any) -> dict[int, int]:
    """Return the lower threshold by port, as read from the switch."""
    found = {}
    for entry in controller.read_entries("s1", THRESHOLD_TABLE):
        assert isinstance(entry, TableEntry) and isinstance(entry.action, ActionCall)
        found[dict(entry.match)["port"].value] = dict(entry.action.arguments)["low"]  # type: ignore[union-attr]
    return found


@pytest.mark.realtime
def test_what_is_reported_gets_into_the_switch_and_out_again(
    softswitches: Any, program: CompiledProgram, wait_for: Callable[[Callable[[], bool]], None]
) -> None:
    topology = topologies.loads(FABRIC)
    with run(topology, softswitches.start_all(topology), program, FACTS) as controller:
        assert len(controller.read_entries("s1", QUEUE_TABLE)) == 2
        assert lows(controller) == {}

        def reported() -> bool:
            controller.packet_out("s1", 1, frame(1))
            return lows(controller) != {}

        wait_for(reported)
        (port,) = lows(controller)
        assert port == 1
        known = controller.ask(NAME, lambda learner: learner.known["s1", 1, 0])
        assert lows(controller)[1] == FACTS.depth(known.found.min_bytes, 1500)
        assert known.measured().flows == 1

        controller.switch_mechanism(NAME, on=False)
        assert lows(controller) == {}
        controller.switch_mechanism(NAME, on=True)
        assert lows(controller) == {1: FACTS.depth(known.found.min_bytes, 1500)}
