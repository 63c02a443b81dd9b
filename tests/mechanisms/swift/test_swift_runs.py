"""Swift in virtual time, from the run file to what flows got, beside DCQCN on the same traffic.

a1 ------ s1 ====== s2 ====== s3 ------ b1      100 Gb/s and 1 us each
a2 -------^         ^--- b2
          a3 -------^         ^-------- b3
a1 -> b1: both links; a2 -> b2: the first; a3 -> b3: the second
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from simulator.runner import Simulation
from tests.simulator.fabric_program import fabric_program
from workloads.loader import read_run

GBPS = 10**9
LINE = 100 * GBPS * 4096 / 4178  # payload's part of a link
REST = """
  classes:
    cnp: {dscp: 48, queue: 6}
    roce: {dscp: 26, queue: 3, ecn: hpcc-dcqcn}
    rest: {queue: 0}
"""
INCAST = f"""
topology:
  generator: single
  hosts: 9
  link: {{rate: 100Gbps, delay: 1us, queue: 16MB, mtu: 4200B}}{REST}
until: 1ms
sample: 1us
transport: {{congestion_control: CONTROL, EXTRA}}
traffic:
  - incast: {{to: h1, senders: 8, persistent: true}}
"""
TWO_LINKS = f"""
topology:
  switches: [s1, s2, s3]
  hosts: [a1, a2, a3, b1, b2, b3]
  link: {{rate: 100Gbps, delay: 1us, queue: 16MB, mtu: 4200B}}
  links:
    - {{a: a1, b: "s1:1"}}
    - {{a: a2, b: "s1:2"}}
    - {{a: "s1:9", b: "s2:9"}}
    - {{a: b2, b: "s2:1"}}
    - {{a: a3, b: "s2:2"}}
    - {{a: "s2:10", b: "s3:10"}}
    - {{a: b1, b: "s3:1"}}
    - {{a: b3, b: "s3:2"}}{REST}
until: 2ms
transport: {{congestion_control: swift, mtu: 4096B}}
traffic:
  - incast: {{to: b1, from: [a1], persistent: true}}
  - incast: {{to: b2, from: [a2], persistent: true}}
  - incast: {{to: b3, from: [a3], persistent: true}}
"""


class Played:
    """A run that has ended: what each flow got, and what waited in front of the receiver."""

    def __init__(self, text: str, scale: int = 1) -> None:
        run = read_run(text)
        assert run.until_ps is not None
        seconds = run.until_ps / 10**12
        simulation = Simulation(
            run, fabric_program(), time_scale=scale, until_ps=run.until_ps * scale
        )
        outcome = simulation.run()
        flows: Any = np.asarray(outcome.end.flow_stats)
        self.goodput = flows["received_bytes"] * 8 / seconds
        ports = [port for switch in outcome.end.switches.values() for port in switch.ports.values()]
        longest = max(ports, key=lambda port: port["wait_ps"])
        self.mean_wait_ps = longest["wait_ps"] / longest["waited"] / scale


def incast(control: str, extra: str = "mtu: 4096B") -> str:
    return INCAST.replace("CONTROL", control).replace("EXTRA", extra)


@pytest.fixture(scope="module")
def plain() -> Played:
    return Played(incast("swift"))


def test_flows_share_a_link_that_is_full_with_a_queue_of_a_round_trip(plain: Played) -> None:
    assert plain.goodput.sum() > 0.97 * LINE
    assert plain.goodput.sum() ** 2 / (8 * (plain.goodput**2).sum()) > 0.97  # Jain
    marks = Played(incast("dcqcn"))
    assert plain.mean_wait_ps < marks.mean_wait_ps / 3


def test_without_flow_scaling_the_queue_is_shorter(plain: Played) -> None:
    """Another parameter gives another result: the target is what holds the queue."""
    short = Played(incast("swift", "mtu: 4096B, swift_overrides: {fs_range: 0us}"))
    assert short.mean_wait_ps < 0.8 * plain.mean_wait_ps


def test_in_slow_motion_it_is_the_same(plain: Played) -> None:
    slow = Played(incast("swift"), scale=10)
    assert slow.goodput.sum() == pytest.approx(plain.goodput.sum(), rel=0.02)
    assert slow.mean_wait_ps == pytest.approx(plain.mean_wait_ps, rel=0.2)


def test_who_passes_two_full_links_waits_at_both_and_gets_less() -> None:
    both, first, second = Played(TWO_LINKS).goodput
    for link in (both + first, both + second):
        assert 0.95 * LINE < link <= LINE
    assert 0.02 * LINE < both < 0.35 * LINE
