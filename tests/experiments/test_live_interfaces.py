"""Queue pairs over several interfaces in real time: the shipped run, and DCQCN over two planes.

h1:0 h2:0 h3:0 - s1        the first plane
h1:1 h2:1 h3:1 - s2        the second, whose links are 4.5 us longer
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from controller.program import CompiledProgram
from emulation import run_state
from experiments import live, live_beside
from experiments.live_flows import live_flows
from experiments.live_model import LiveRun, LiveSettings
from hostagent.rnic.client import EndpointGone
from tests.experiments.test_live import SCALES, Teller
from workloads.loader import DIRECTORY, read_run
from workloads.model import RunFile
from workloads.plan import plan

US = 10**6
LINE_BPS = 100e9 * 2048 / (2048 + 84)  # preamble, Ethernet, IPv4, UDP, BTH, ICRC, FCS, gap: 84
SETTINGS = LiveSettings(time_scale=10_000, ports=(("s1", 2), ("s2", 2)))
NONE = "congestion_control: none"


def shipped(until: str = "150us", **changes: str) -> RunFile:
    """Return the run file that comes with Weft, with packets as namespaces carry them."""
    text = (DIRECTORY / "two-interfaces.yaml").read_text()
    for before, after in {
        "mtu: 4200B": "mtu: 2200B",
        "until: 10ms": f"until: {until}",
        **changes,
    }.items():
        assert before in text
        text = text.replace(before, after)
    return read_run(text, name="two-interfaces")


THIRD = """\
    - {a: h3, b: s1:3}
    - {a: h3:1, b: s2:3, delay: 5us}
  classes:
    cnp: {dscp: 48, queue: 6}
"""


def congested() -> RunFile:
    """Two senders with DCQCN for one target: both planes' queues there mark."""
    changes = {
        NONE: "congestion_control: dcqcn, parameters: hpcc-dcqcn",
        "hosts: [h1, h2]": "hosts: [h1, h2, h3]",
        "  classes:\n": THIRD,
        "queue: 3}": "queue: 3, ecn: hpcc-dcqcn}",
        "from: h1": "from: [h1, h3]",
    }
    return shipped("200us", **changes)


def played(
    run: RunFile, program: CompiledProgram, teller: Teller, enough: Callable[[LiveRun], bool]
) -> tuple[LiveRun, LiveRun]:
    """In real time and in the simulator. A machine that is too busy plays it slower."""
    for scale in SCALES:
        settings = replace(SETTINGS, time_scale=scale)
        seen = live.play(run, program, settings, teller)
        if enough(seen):
            break
    return seen, live_beside.simulate(run, program, settings)


def test_a_queue_pair_over_all_interfaces_is_played() -> None:
    run = shipped()
    (flow,) = live_flows(run, plan(run))
    assert flow.several
    assert (str(flow.source.end), str(flow.target.end)) == ("h1", "h2")
    assert (flow.transport.interfaces, flow.transport.line_rate_bps) == (2, 200 * 10**9)
    one = shipped(**{"interfaces: all": "interfaces: one"})
    assert not live_flows(one, plan(one))[0].several


PLANES = {"reorder: 10us": "reorder: 10us, failover: true"}


@pytest.mark.root
@pytest.mark.parametrize(
    "changes", [{}, pytest.param(PLANES, marks=pytest.mark.long)], ids=["lines", "planes"]
)
def test_the_shipped_run_moves_what_two_lines_carry(
    roots: None,
    whole_fabric: CompiledProgram,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, str],
) -> None:
    monkeypatch.setattr(live, "ATTEMPTS", 1)
    teller = Teller()

    def goodput(seen: LiveRun) -> float:
        return seen.goodput_bps(20 * US)

    def keeps_up(seen: LiveRun) -> bool:
        return goodput(seen) > 1.9 * LINE_BPS and not seen.count("repeated_packets")

    seen, beside = played(shipped(**changes), whole_fabric, teller, keeps_up)
    assert goodput(seen) > 1.9 * LINE_BPS
    assert goodput(seen) == pytest.approx(goodput(beside), rel=0.05)
    assert (seen.count("repeated_packets"), seen.count("timeouts")) == (0, 0)
    assert seen.count("out_of_order", at_target=True) > 0  # one way is longer, and nobody minds
    near, far = (port.sent_bytes for port in seen.ports)
    assert abs(near - far) < 0.1 * (near + far)
    assert seen.drops == beside.drops == {}
    assert [flow.name for flow in seen.flows] == [flow.name for flow in beside.flows] == ["h1->h2"]
    assert set(beside.flows[0].source_counts) <= {*seen.flows[0].source_counts}
    assert set(beside.flows[0].target_counts) <= {*seen.flows[0].target_counts}
    assert teller.run
    assert teller.left() == []


@pytest.mark.root
def test_the_kernel_controls_congestion_of_both_planes(
    roots: None, whole_fabric: CompiledProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "ATTEMPTS", 1)

    def both_mark(seen: LiveRun) -> bool:
        return seen.count("cnps_received") > 0 and all(port.marked_packets for port in seen.ports)

    seen, beside = played(congested(), whole_fabric, Teller(), both_mark)
    assert seen.count("cnps_received") > 0
    assert seen.count("marked", at_target=True) > 0
    for flow, expected in zip(seen.flows, beside.flows, strict=True):
        assert flow.failure == ""
        assert flow.rate_bps[0] == 200 * 10**9 == expected.rate_bps[0]  # both lines together
        assert flow.rate_bps.min() < 190 * 10**9
    assert seen.first_cut_ps is not None
    assert beside.first_cut_ps is not None
    marked = [port.marked_packets for port in seen.ports]
    assert all(marked), marked


def endpoint_killed() -> None:
    """Kill the daemon of h1, which has both of its interfaces."""
    record = run_state.holder()
    assert record is not None
    state = run_state.read_record(Path(os.environ[run_state.RUN_ROOT_VARIABLE]) / record[0])
    assert state is not None
    (daemon,) = [each for each in state.processes if each.role == "endpoint of h1"]
    assert not [each for each in state.processes if each.role.startswith("endpoint of h1:")]
    os.kill(daemon.pid, signal.SIGKILL)


@pytest.mark.root
def test_a_killed_endpoint_ends_the_run_and_leaves_nothing_behind(
    roots: None, whole_fabric: CompiledProgram
) -> None:
    teller = Teller(endpoint_killed)
    with pytest.raises(EndpointGone):
        live.play(shipped("2ms"), whole_fabric, SETTINGS, teller)
    assert teller.run
    assert teller.left() == []
    assert run_state.holder() is None
