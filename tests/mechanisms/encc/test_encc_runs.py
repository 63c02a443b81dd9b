"""ENCC in virtual time, from the run file to what flows got, beside DCQCN on the same traffic.

h1, h2 -- s1 ====== s2 -- h3, h4, h5      100 Gb/s and 500 ns each
              ^       ^
h1 -> h5: both links; h2 -> h4: the first; h3 -> h5: the second
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mechanisms.registry import mechanisms
from simulator.runner import Simulation
from tests.simulator.fabric_program import fabric_program
from topologies.lint.findings import Remark
from workloads.loader import read_run
from workloads.model import RunFile

GBPS = 10**9
LINE = 100 * GBPS * 4096 / 4178  # payload's part of a link
INCAST = """
topology:
  generator: single
  hosts: 9
  link: {rate: 100Gbps, delay: 1us, queue: 16MB, mtu: 4200B}
  classes:
    cnp: {dscp: 48, queue: 6}
    roce: {dscp: 26, queue: 3, TELLS}
    rest: {queue: 0}
until: 1ms
sample: 1us
transport: {congestion_control: CONTROL, EXTRA}
traffic:
  - incast: {to: h1, senders: 8, persistent: true}
"""
NEAR_END = """
topology:
  switches: [s1, s2]
  hosts: [h1, h2, h3, h4, h5]
  link: {rate: 100Gbps, delay: 1us, queue: 64MB, mtu: 4200B}
  classes:
    cnp: {dscp: 48, queue: 6}
    roce: {dscp: 26, queue: 3, TELLS}
    rest: {queue: 0}
  links:
    - {a: h1, b: "s2:1"}
    - {a: "s1:9", b: "s2:9", delay: 100us}
    - {a: h2, b: "s1:1"}
    - {a: h3, b: "s1:2"}
    - {a: h4, b: "s1:3"}
    - {a: h5, b: "s1:4"}
until: 2ms
sample: 10us
transport: {congestion_control: CONTROL, mtu: 4096B}
traffic:
  - incast: {to: h1, senders: 4, persistent: true}
"""
TWO_LINKS = """
topology:
  switches: [s1, s2]
  hosts: [h1, h2, h3, h4, h5]
  link: {rate: 100Gbps, delay: 500ns, queue: 16MB, mtu: 4200B}
  links:
    - {a: h1, b: "s1:1"}
    - {a: h2, b: "s1:2"}
    - {a: "s1:9", b: "s2:9"}
    - {a: h3, b: "s2:1"}
    - {a: h4, b: "s2:2"}
    - {a: h5, b: "s2:3"}
  classes:
    cnp: {dscp: 48, queue: 6}
    roce: {dscp: 26, queue: 3, path_telemetry: hops}
    rest: {queue: 0}
until: 2ms
transport: {congestion_control: encc}
traffic:
  - incast: {to: h5, from: [h1, h3], persistent: true}
  - incast: {to: h4, from: [h2], persistent: true}
"""


def incast(control: str, tells: str, extra: str = "mtu: 4096B") -> str:
    text = INCAST.replace("CONTROL", control).replace("TELLS", tells)
    return text.replace("EXTRA", extra)


class Played:
    """A run that has ended: what each flow got, and what waited in front of the receiver."""

    def __init__(self, text: str, scale: int = 1) -> None:
        run = read_run(text)
        assert run.until_ps is not None
        self.seconds = run.until_ps * scale / 10**12
        simulation = Simulation(
            run, fabric_program(), time_scale=scale, until_ps=run.until_ps * scale
        )
        outcome = simulation.run()
        flows: Any = np.asarray(outcome.end.flow_stats)
        self.goodput = flows["received_bytes"] * 8 / self.seconds * scale
        self.first_cut = np.asarray(outcome.end.transport_stats)["first_cut_at"]
        ports = [port for switch in outcome.end.switches.values() for port in switch.ports.values()]
        longest = max(ports, key=lambda port: port["wait_ps"])
        self.mean_wait_ps = longest["wait_ps"] / longest["waited"] / scale


@pytest.fixture(scope="module")
def hops() -> Played:
    return Played(incast("encc", "path_telemetry: hops"))


def test_flows_share_a_link_that_is_full_and_has_no_queue(hops: Played) -> None:
    assert (hops.first_cut > 0).all()
    assert hops.goodput.sum() > 0.93 * LINE
    assert hops.goodput.sum() ** 2 / (8 * (hops.goodput**2).sum()) > 0.95  # Jain
    marks = Played(incast("dcqcn", "ecn: hpcc-dcqcn"))
    assert hops.mean_wait_ps < marks.mean_wait_ps / 4


def test_one_word_for_the_whole_path_does_the_same(hops: Played) -> None:
    word = Played(incast("encc", "path_telemetry: most-used"))
    assert word.goodput.sum() == pytest.approx(hops.goodput.sum(), rel=0.06)
    assert word.mean_wait_ps < 1.5 * hops.mean_wait_ps


def test_in_slow_motion_it_is_the_same(hops: Played) -> None:
    slow = Played(incast("encc", "path_telemetry: hops"), scale=10)
    assert slow.goodput.sum() == pytest.approx(hops.goodput.sum(), rel=0.02)


def test_where_switches_say_nothing_it_is_the_line() -> None:
    """Another control gives another result: the window is all that holds senders."""
    silent = Played(incast("encc", "ecn: 200kB"))
    assert (silent.first_cut == -1).all()  # never


def test_who_passes_two_full_links_gets_as_much_as_who_passes_one() -> None:
    """Each hop has a rate of its own: by the larger of two loads it would be half as much."""
    both, second, first = Played(TWO_LINKS).goodput
    for link in (both + first, both + second):
        assert 0.9 * LINE < link <= LINE
    assert both == pytest.approx(LINE / 2, rel=0.1)


def remarks(run: RunFile) -> list[Remark]:
    return [remark for each in mechanisms() for remark in each.run_remarks(run)]


def test_lint_says_where_switches_write_nothing() -> None:
    said = [each.message for each in remarks(read_run(incast("encc", "ecn: 200kB")))]
    assert any("it has no path_telemetry: ENCC has nothing to go by" in each for each in said)
    said = [each.message for each in remarks(read_run(incast("encc+swift", "ecn: 200kB")))]
    assert any("ENCC has nothing to go by" in each for each in said)
    said = [each.message for each in remarks(read_run(incast("encc", "path_telemetry: hops")))]
    assert not any("ENCC" in each for each in said)


def test_both_controls_hear_a_far_receiver_s_near_bottleneck_at_once() -> None:
    """Records go to the receiver, 100 us away, first; a switch's own word comes straight back."""
    tells = "path_telemetry: hops, ecn: hpcc-dcqcn, fast_cnp: true"
    alone, both = (
        Played(NEAR_END.replace("CONTROL", each).replace("TELLS", tells))
        for each in ("encc", "encc+fast-cnp")
    )
    assert both.mean_wait_ps < alone.mean_wait_ps / 10
    assert both.goodput.sum() > 0.8 * alone.goodput.sum()
