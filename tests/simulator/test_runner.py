"""Runs from their files to their ends: rerouting, dead switches, interruption, sameness."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from compiler import compile_p4
from controller.program import CompiledProgram
from simulator.result_model import Stop
from simulator.runner import Outcome, Progress, Simulation
from workloads.loader import read_run

FABRIC = Path(__file__).parents[2] / "p4src" / "fabric.p4"
RATE = 100_000_000_000
FRAME = 1000 + 54 + 4 + 24  # payload 1000 B on the wire

TRIANGLE = """
topology:
  switches: [s1, s2, s3]
  hosts: [h1, h2]
  link: {rate: 100Gbps, delay: 1us, queue: 1MB, mtu: 4200B}
  links:
    - {a: h1, b: s1:1}
    - {a: h2, b: s2:1}
    - {a: s1:2, b: s2:2}
    - {a: s1:3, b: s3:1}
    - {a: s3:2, b: s2:3}
until: 2ms
sample: 100us
controller: {delay: 300us}
events:
  EVENTS
traffic:
  - cbr: {from: h1, to: h2, rate: 10Gbps, payload: 1000B}
"""


@cache
def program() -> CompiledProgram:
    result = compile_p4(FABRIC)
    return CompiledProgram.of(result)


def run(text: str, **options: int) -> Outcome:
    return Simulation(read_run(text), program(), **options).run()


def with_event(*events: str) -> str:
    return TRIANGLE.replace("EVENTS", "\n  ".join(f"- {event}" for event in events))


def lost_packets(outcome: Outcome) -> int:
    """Those that were sent and neither came nor can be on their way any more."""
    stats = outcome.end.flow_stats[0]
    return int(stats["sent_packets"] - stats["received_packets"])


ON_THE_WAY = 6  # on the link that went down, and at the end: up to four links of 1 us


def test_a_dead_link_loses_until_the_controller_has_written() -> None:
    outcome = run(with_event("{at: 1ms, link: s1-s2, do: down}"))
    interval = 8 * FRAME * 10**12 // (RATE // 10)
    window = 300_000_000 / interval
    assert lost_packets(outcome) == pytest.approx(window, abs=2 + ON_THE_WAY)
    # From then on over s3.
    stats = outcome.end.switches["s3"].stats
    assert stats["egress"] == pytest.approx(700_000_000 / interval, abs=2 + ON_THE_WAY)


def test_without_a_controller_in_time_everything_is_lost() -> None:
    text = with_event("{at: 1ms, link: s1-s2, do: down}").replace("300us", "5ms")
    outcome = run(text)
    half = int(outcome.end.flow_stats[0]["sent_packets"]) / 2
    assert lost_packets(outcome) == pytest.approx(half, abs=2 + ON_THE_WAY)


def test_a_switch_that_was_killed_comes_back_empty_and_is_filled_again() -> None:
    outcome = run(with_event("{at: 500us, switch: s2, do: kill, lasts: 500us}"))
    interval = 8 * FRAME * 10**12 // (RATE // 10)
    # h2 hangs on s2: all is lost while that is dead, and until its entries are there again.
    assert lost_packets(outcome) == pytest.approx(800_000_000 / interval, abs=3 + ON_THE_WAY)


@pytest.mark.parametrize("lasts_us", [1, 100, 299, 301])
def test_a_switch_that_is_back_before_the_controller_heard_is_filled_all_the_same(
    lasts_us: int,
) -> None:
    outcome = run(with_event(f"{{at: 500us, switch: s2, do: kill, lasts: {lasts_us}us}}"))
    interval = 8 * FRAME * 10**12 // (RATE // 10)
    lost = (lasts_us + 300) * 1_000_000 / interval
    assert lost_packets(outcome) == pytest.approx(lost, abs=3 + ON_THE_WAY)


def test_a_switch_that_dies_again_before_the_controller_heard_that_it_was_back() -> None:
    outcome = run(
        with_event(
            "{at: 500us, switch: s2, do: kill, lasts: 100us}",
            "{at: 700us, switch: s2, do: kill, lasts: 400us}",
        )
    )
    interval = 8 * FRAME * 10**12 // (RATE // 10)
    assert lost_packets(outcome) == pytest.approx(900_000_000 / interval, abs=3 + ON_THE_WAY)


@pytest.mark.parametrize("second_us", [502, 650, 799])
def test_a_switch_that_is_back_twice_before_the_controller_heard_is_filled_once(
    second_us: int,
) -> None:
    """What the controller hears of the first return is of a switch that is gone since."""
    outcome = run(
        with_event(
            "{at: 500us, switch: s2, do: kill, lasts: 1us}",
            f"{{at: {second_us}us, switch: s2, do: kill, lasts: 1us}}",
        )
    )
    interval = 8 * FRAME * 10**12 // (RATE // 10)
    lost = (second_us + 1 + 300 - 500) * 1_000_000 / interval
    assert lost_packets(outcome) == pytest.approx(lost, abs=3 + ON_THE_WAY)


def test_a_degraded_link_builds_a_queue() -> None:
    good = run(with_event("{at: 1us, link: s1-s2, rate: 100Gbps}"))
    bad = run(with_event("{at: 1us, link: s1-s2, rate: 5Gbps}"))
    assert good.end.switches["s1"].ports[2]["max_depth_packets"] <= 1
    assert bad.end.switches["s1"].ports[2]["max_depth_packets"] > 100


def test_one_flow_vanishes_silently() -> None:
    flow = "{src: 10.0.1.1, dst: 10.0.2.1, dport: 4791}"
    outcome = run(with_event(f"{{at: 1ms, link: s1-s2, towards: s2, drop_flow: {flow}}}"))
    half = int(outcome.end.flow_stats[0]["sent_packets"]) / 2
    assert lost_packets(outcome) == pytest.approx(half, abs=2 + ON_THE_WAY)


def test_ctrl_c_keeps_what_there_is(tmp_path: Path) -> None:
    simulation = Simulation(read_run(with_event("{at: 1ms, link: s1-s2, do: down}")), program())
    simulation.slice_events = 1000

    def press(progress: Progress) -> None:
        if progress.now_ps > 500_000_000:
            raise KeyboardInterrupt

    outcome = simulation.run(tmp_path, press)
    assert outcome.stop is Stop.INTERRUPTED
    assert 500_000_000 < outcome.end.now_ps < 2_000_000_000
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["end"]["reason"] == "interrupted"
    assert summary["end"]["now_ps"] == outcome.end.now_ps
    assert summary["flows"]["received_packets"] == outcome.end.flow_stats[0]["received_packets"]


def test_the_file_s_time_can_be_changed() -> None:
    outcome = run(with_event("{at: 1ms, link: s1-s2, do: down}"), until_ps=700_000)
    assert outcome.end.now_ps == 700_000
