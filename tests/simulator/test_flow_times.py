"""The time over which goodput is: that in which flows ran."""

from __future__ import annotations

from pathlib import Path

from simulator.flow_times import FlowTimes
from simulator.runner import Simulation
from tests.simulator.fabric_program import fabric_program
from workloads.loader import load_run_file

TWO = """\
topology:
  switches: [s1]
  hosts: [h1, h2, h3]
  link: {rate: 100Gbps, delay: 500ns, queue: 16MB}
  links: [{a: h1, b: "s1:1"}, {a: h2, b: "s1:2"}, {a: h3, b: "s1:3"}]
until: 1ms
traffic:
"""


def times_of(tmp_path: Path, traffic: str) -> FlowTimes:
    path = tmp_path / "run.yaml"
    path.write_text(TWO + traffic)
    simulation = Simulation(load_run_file(str(path)), fabric_program())
    return FlowTimes.of(simulation.traffic, simulation.run().end)


def test_what_is_done_ran_until_it_was(tmp_path: Path) -> None:
    times = times_of(
        tmp_path,
        "  - message: {from: h1, to: h3, bytes: 100kB}\n"
        "  - message: {from: h2, to: h3, bytes: 200kB, start: 100us}\n",
    )
    first, second = times.each_bps()
    assert 80e9 < first < second < 100e9  # the way there weighs less in what is longer
    assert times.begins.tolist() == [0, 100_000_000]
    assert times.span_ps() == times.ends[1]
    assert times.goodput_bps() == 300_000 * 8 * 10**12 // times.span_ps()


def test_what_is_not_done_runs_to_the_end(tmp_path: Path) -> None:
    times = times_of(tmp_path, "  - message: {from: h1, to: h3, bytes: 1GB}\n")
    assert times.ends.tolist() == [10**9]


def test_a_stream_runs_until_its_own_end(tmp_path: Path) -> None:
    times = times_of(
        tmp_path,
        "  - cbr: {from: h1, to: h3, rate: 10Gbps}\n"
        "  - cbr: {from: h2, to: h3, rate: 10Gbps, stop: 500us}\n",
    )
    assert times.ends[0] == 10**9
    assert 490_000_000 < times.ends[1] < 510_000_000
    assert all(abs(rate - 1e10) < 1e9 for rate in times.each_bps())


def test_nothing_sent_has_no_goodput(tmp_path: Path) -> None:
    times = times_of(tmp_path, "  - message: {from: h1, to: h3, bytes: 1kB, start: 2ms}\n")
    assert (times.goodput_bps(), times.each_bps(), times.span_ps()) == (None, [0], 0)
