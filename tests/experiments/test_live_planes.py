"""Planes of a queue pair that a link leaves and comes back to, in both runtimes.

h1:0 h2:0 - s1        plane A
h1:1 h2:1 - s3        plane B
"""

from __future__ import annotations

from typing import Any

import pytest

from controller.program import CompiledProgram
from emulation import run_state
from emulation.errors import EmulationError
from emulation.link_events import FabricCalls
from experiments import live, live_beside
from experiments.live_flows import LiveError
from experiments.live_model import LiveRun, LiveSettings
from workloads.loader import read_run

US = 10**6
PLANES = """\
topology:
  generator: dual_plane
  spines: 1
  leaves: 1
  hosts_per_leaf: 2
  link: {rate: 200Gbps, delay: 500ns, queue: 4MB, mtu: 2200B}
  classes: {roce: {dscp: 26, queue: 3}, rest: {queue: 0}}
until: 200us
transport:
  {retransmission: selective-repeat, reorder: 100us, interfaces: all, timeout: 4ms,
   link_delay: 1us, failover: {hold: 20us, probe: 5us, ramp: 5us}}
traffic: [{message: {from: h1, to: h2, bytes: 4MB, dscp: 26}}]
events: [{at: 30us, link: "h1:0-s1:1", do: down}, {at: 60us, link: "h1:0-s1:1", do: up}]
"""

ROCE = "roce: {dscp: 26, queue: 3, path_telemetry: hops}, cnp: {dscp: 48, queue: 6}"


def check_planes(seen: LiveRun) -> None:
    """One link was down from 30 to 60 us, and its plane in use again before the message's end."""
    (flow,) = seen.flows
    assert flow.failure == ""
    assert flow.done_ps is not None
    down, healthy = flow.planes
    assert (down.why, down.losses, healthy.why, healthy.losses) == ("link", 1, None, 0)
    assert down.lost_ps is not None and down.up_ps is not None
    assert 30 * US < down.lost_ps < 35 * US
    assert 80 * US < down.up_ps < flow.done_ps
    assert 0 < down.moved_packets < 0.1 * healthy.sent_packets


def test_planes_are_seen_in_the_simulator(whole_fabric: CompiledProgram) -> None:
    seen = live_beside.simulate(read_run(PLANES), whole_fabric, LiveSettings(10_000, compared=True))
    check_planes(seen)
    assert seen.modes == {}
    assert seen.flows[0].wrong_bytes is None


@pytest.mark.root
@pytest.mark.realtime
@pytest.mark.long
def test_events_are_played_and_bytes_are_compared(
    roots: None, whole_fabric: CompiledProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "ATTEMPTS", 1)
    run, settings = read_run(PLANES), LiveSettings(20_000, seed=1, compared=True)
    seen = live.play(run, whole_fabric, settings)
    check_planes(seen)
    (flow,) = seen.flows
    assert flow.wrong_bytes == 0
    assert seen.modes == {"h1": "af_xdp", "h2": "af_xdp"}
    beside = live_beside.simulate(run, whole_fabric, settings).flows[0].done_ps
    assert beside is not None
    assert flow.done_ps == pytest.approx(beside, rel=0.3)


@pytest.mark.root
@pytest.mark.realtime
@pytest.mark.long
def test_windows_of_each_plane_in_the_kernel(
    roots: None, whole_fabric: CompiledProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same with an algorithm that has a window, round trips and telemetry of each plane."""
    monkeypatch.setattr(live, "ATTEMPTS", 1)
    text = PLANES.replace("{retransmission:", "{congestion_control: encc, retransmission:")
    text = text.replace("roce: {dscp: 26, queue: 3}", ROCE)
    seen = live.play(read_run(text), whole_fabric, LiveSettings(10_000, seed=1, compared=True))
    check_planes(seen)
    (flow,) = seen.flows
    assert flow.wrong_bytes == 0
    assert seen.modes == {"h1": "af_xdp", "h2": "af_xdp"}


@pytest.mark.root
@pytest.mark.long
def test_an_event_that_goes_wrong_ends_the_run(
    roots: None, whole_fabric: CompiledProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_self: Any, call: Any) -> None:
        raise EmulationError("no way")

    monkeypatch.setattr(live, "ATTEMPTS", 1)
    monkeypatch.setattr(FabricCalls, "perform", refused)
    with pytest.raises(LiveError, match="no way"):
        live.play(read_run(PLANES), whole_fabric, LiveSettings(10_000, seed=1))
    assert run_state.holder() is None


DRAINED = PLANES.replace(
    '{at: 30us, link: "h1:0-s1:1", do: down}, {at: 60us, link: "h1:0-s1:1", do: up}',
    "{at: 30us, plane: B, do: drain}",
)


def check_drained(seen: LiveRun) -> None:
    """One plane was drained at 30 us of some 110 us: the other carried what was left."""
    (flow,) = seen.flows
    assert flow.failure == ""
    assert flow.done_ps is not None
    used, drained = flow.planes
    assert (used.losses, drained.losses) == (0, 0)
    assert (used.moved_packets, drained.moved_packets) == (0, 0)
    assert 0.1 < drained.sent_packets / used.sent_packets < 0.4
    assert used.sent_packets + drained.sent_packets == -(-4_000_000 // 2048)  # each went once


def test_a_plane_is_drained_by_an_event(whole_fabric: CompiledProgram) -> None:
    run = read_run(DRAINED)
    check_drained(live_beside.simulate(run, whole_fabric, LiveSettings(10_000, compared=True)))


@pytest.mark.root
@pytest.mark.realtime
@pytest.mark.long
def test_a_plane_is_drained_by_an_event_in_real_time(
    roots: None, whole_fabric: CompiledProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "ATTEMPTS", 1)
    seen = live.play(read_run(DRAINED), whole_fabric, LiveSettings(20_000, seed=1, compared=True))
    check_drained(seen)
    assert seen.flows[0].wrong_bytes == 0
