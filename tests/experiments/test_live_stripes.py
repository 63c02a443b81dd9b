"""A message that two queue pairs share as they drain, in real time and in the simulator.

h1 - s1 == 40 Gb/s == s3 - s2 - h2
       \\== 10 Gb/s == s4 -/
"""

from __future__ import annotations

import pytest

from controller.program import CompiledProgram
from experiments import live, live_beside
from experiments.live_flows import live_flows
from experiments.live_model import LiveRun, LiveSettings
from tests.experiments.test_live import Teller
from tests.simulator.test_stripe_runs import TWO_PATHS
from workloads.loader import read_run
from workloads.model import RunFile
from workloads.plan import plan

SIZE, PIECE = 1_000_000, 65536
SETTINGS = LiveSettings(time_scale=10_000, ports=(("s1", 2), ("s1", 3)))


def striped(striping: str = "as-drained", until: str = "230us") -> RunFile:
    text = TWO_PATHS.replace("STRIPING", striping).replace("SIZE", f"{SIZE}B")
    return read_run(text.replace("until: 20ms", f"until: {until}"), name="striped")


def test_a_group_is_its_queue_pairs_and_the_first_has_the_messages() -> None:
    run = striped()
    first, other = live_flows(run, plan(run))
    assert (first.first, other.first) == (0, 0)
    assert other.messages == ()
    (message,) = first.messages
    assert (message.count, message.size, message.depth) == (16, SIZE // 16, 2)
    assert first.udp_port != other.udp_port
    one, two = live_flows(striped("equal"), plan(striped("equal")))
    assert (one.first, two.first) == (0, 1)
    assert len(one.messages) == len(two.messages) == 1


def received(seen: LiveRun) -> list[int]:
    return [int(flow.delivered_bytes[-1]) for flow in seen.flows]


@pytest.mark.root
def test_shares_go_as_the_paths_rates(
    roots: None, whole_fabric: CompiledProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "ATTEMPTS", 1)
    run, teller = striped(), Teller()
    seen = live.play(run, whole_fabric, SETTINGS, teller)
    beside = live_beside.simulate(run, whole_fabric, SETTINGS)
    for each in (seen, beside):
        assert [flow.failure for flow in each.flows] == ["", ""]
        assert all(flow.done_ps is not None for flow in each.flows)
        assert sum(received(each)) == SIZE
        slow, fast = sorted(received(each))
        assert abs(fast - 4 * slow) < 4 * 5 * PIECE
    ours, theirs = sorted(received(seen)), sorted(received(beside))
    assert abs(ours[0] - theirs[0]) <= 3 * PIECE
    assert seen.flows[0].done_ps == seen.flows[1].done_ps
    assert seen.flows[0].done_ps < 1.3 * beside.flows[0].done_ps
    assert teller.left() == []
