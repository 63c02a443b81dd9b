"""PowerTCP in virtual time, from the run file to what flows got, beside DCQCN on the same traffic.

h1, h2 -- s1 ====== s2 -- h3, h4, h5      100 Gb/s and 500 ns each
              ^       ^
h1 -> h5: both links; h2 -> h4: the first; h3 -> h5: the second
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mechanisms.contract import Measured
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
transport: {congestion_control: CONTROL, mtu: 4096B}
traffic:
  - incast: {to: h1, senders: 8, persistent: true}
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
transport: {congestion_control: powertcp}
traffic:
  - incast: {to: h5, from: [h1, h3], persistent: true}
  - incast: {to: h4, from: [h2], persistent: true}
"""


def incast(control: str, tells: str) -> str:
    return INCAST.replace("CONTROL", control).replace("TELLS", tells)


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
        self.first_cut = np.asarray(outcome.end.transport_stats)["first_cut_at"]
        ports = [port for switch in outcome.end.switches.values() for port in switch.ports.values()]
        longest = max(ports, key=lambda port: port["wait_ps"])
        self.mean_wait_ps = longest["wait_ps"] / longest["waited"] / scale


@pytest.fixture(scope="module")
def hops() -> Played:
    return Played(incast("powertcp", "path_telemetry: hops"))


def test_flows_share_a_link_that_is_full_and_has_a_short_queue(hops: Played) -> None:
    assert (hops.first_cut > 0).all()
    assert hops.goodput.sum() > 0.93 * LINE
    assert hops.goodput.sum() ** 2 / (8 * (hops.goodput**2).sum()) > 0.97  # Jain
    marks = Played(incast("dcqcn", "ecn: hpcc-dcqcn"))
    assert hops.mean_wait_ps < marks.mean_wait_ps / 3


def test_in_slow_motion_it_is_the_same(hops: Played) -> None:
    slow = Played(incast("powertcp", "path_telemetry: hops"), scale=10)
    assert slow.goodput.sum() == pytest.approx(hops.goodput.sum(), rel=0.02)
    assert slow.mean_wait_ps == pytest.approx(hops.mean_wait_ps, rel=0.2)


def test_where_switches_say_nothing_it_is_the_line() -> None:
    """Another control gives another result: the window is all that holds senders."""
    silent = Played(incast("powertcp", "ecn: 200kB"))
    assert (silent.first_cut == -1).all()  # never


def test_the_most_powerful_hop_of_a_path_decides() -> None:
    both, second, first = Played(TWO_LINKS).goodput
    for link in (both + first, both + second):
        assert 0.9 * LINE < link <= LINE
    # The larger of two powers is more than either: who passes both gets less than its half.
    assert 0.1 * LINE < both < min(first, second)


def remarks(run: RunFile) -> list[Remark]:
    return [remark for each in mechanisms() for remark in each.run_remarks(run)]


@pytest.mark.parametrize(
    ("tells", "says"),
    [
        ("ecn: 200kB", "it has no path_telemetry: PowerTCP has nothing to go by"),
        ("path_telemetry: most-used", "its path_telemetry is most-used: PowerTCP has nothing"),
        ("path_telemetry: hops", None),
    ],
)
def test_lint_says_where_switches_write_nothing_that_it_reads(tells: str, says: str | None) -> None:
    said = [each.message for each in remarks(read_run(incast("powertcp", tells)))]
    about_it = [each for each in said if "PowerTCP" in each]
    assert (says is not None) == bool(about_it)
    assert all(says is not None and says in each for each in about_it)


@pytest.mark.parametrize(("tells", "warns"), [("most-used", True), ("hops", False)])
def test_a_measurement_says_where_switches_write_nothing_that_it_reads(
    tells: str, warns: bool
) -> None:
    topology = read_run(incast("powertcp", f"path_telemetry: {tells}")).topology
    roce = next(each for each in topology.classes if each.name == "roce")
    for control, expected in (("powertcp", warns), ("dcqcn", False)):
        measured = Measured(topology, roce, control, hears=True)
        said = [line for each in mechanisms() for line in each.cautions(measured)]
        assert any("so PowerTCP has nothing to go by" in line for line in said) == expected
