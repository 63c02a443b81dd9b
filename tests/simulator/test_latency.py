"""A switch's latency: in each direction once, in ideal times, in headroom, in the control loops."""

from __future__ import annotations

from functools import cache

import pytest

import topologies
from compiler import compile_p4
from controller.leaf_routes import Routes
from controller.program import CompiledProgram
from mechanisms.fast_cnp.loops import loop_ps
from mechanisms.program import FABRIC
from simulator.runner import Outcome, Simulation
from topologies.buffers import headroom_bytes
from topologies.errors import TopologyError
from topologies.events import PortCall, calls
from workloads.loader import read_run

LEAF_SPINE = """
  generator: leaf_spine
  spines: 1
  leaves: 2
  hosts_per_leaf: 2
  link: {rate: 100Gbps, delay: 500ns, queue: 1MB, mtu: 4200B}
"""
LATENCY_PS = 700_000


@cache
def program() -> CompiledProgram:
    return CompiledProgram.of(compile_p4(FABRIC))


def text(latency: str = "", more: str = "", topology: str = LEAF_SPINE) -> str:
    told = f"  latency: {latency}\n" if latency else ""
    traffic = "traffic: [{message: {from: h1, to: h4, bytes: 1MB}}]"
    return f"topology:{topology}{told}{more}\n{traffic}\n"


def run(latency: str = "", more: str = "") -> Outcome:
    return Simulation(read_run(text(latency, more)), program()).run()


def first_packet_ps(outcome: Outcome) -> int:
    stats = outcome.end.flow_stats[0]
    return int(stats["first_received"]) - int(stats["first_sent"])


def test_every_switch_on_the_way_takes_its_time_once() -> None:
    late, plain = run("700ns"), run()
    assert first_packet_ps(late) - first_packet_ps(plain) == 3 * LATENCY_PS
    done = [int(each.end.message_times["done"][0]) for each in (late, plain)]
    assert done[0] - done[1] == 3 * LATENCY_PS


def test_nothing_said_is_no_latency() -> None:
    assert first_packet_ps(run("0ns")) == first_packet_ps(run())


def test_the_ideal_time_knows_it() -> None:
    for latency in ("", "700ns"):
        made = Simulation(read_run(text(latency)), program())
        times = made.run().end.message_times[0]
        took = int(times["done"]) - int(times["ready"])
        assert took == int(made.traffic.ideal_ps[0])


def test_one_switch_may_differ_from_the_others() -> None:
    explicit = """
  latency: 100ns
  switches: [s1, {name: s2, latency: 1us}]
  hosts: [h1, h4]
  link: {rate: 100Gbps, delay: 500ns, queue: 1MB, mtu: 4200B}
  links: [{a: h1, b: s1:1}, {a: s1:2, b: s2:2}, {a: h4, b: s2:1}]
"""
    made = read_run(text(topology=explicit))
    assert [each.latency_ps for each in made.topology.switches] == [100_000, 1_000_000]
    plain = read_run(text(topology=explicit.replace("100ns", "0ns").replace("1us", "0us")))
    took = [first_packet_ps(Simulation(each, program()).run()) for each in (made, plain)]
    assert took[0] - took[1] == 1_100_000


def test_headroom_and_control_loops_have_it_on_both_ways() -> None:
    slow, fast = (read_run(text(each)).topology for each in ("700ns", ""))
    uplink, access = (
        next(link for link in slow.links if slow.is_switch(link.a.node) is between)
        for between in (True, False)
    )
    assert headroom_bytes(slow, uplink) - headroom_bytes(fast, uplink) == 2 * 700 * 100 // 8
    assert headroom_bytes(slow, access) - headroom_bytes(fast, access) == 700 * 100 // 8
    source = slow.host("h1").interfaces[0]
    ways = [dict(Routes.of(each).ways("s3")) for each in (slow, fast)]
    loops = [
        loop_ps(each, source, way[each.switch("s1")].round_trip_ps)
        for each, way in zip((slow, fast), ways, strict=True)
    ]
    assert loops[0] - loops[1] == 3 * LATENCY_PS  # the spine's, and the leaf's twice


@pytest.mark.parametrize("latency", ["", "900ns"])
def test_lossless_stays_lossless(latency: str) -> None:
    source = text(latency).replace(
        "mtu: 4200B}", "mtu: 4200B}\n  classes: {roce: {dscp: 26, queue: 3, lossless: true}}"
    )
    source = source.replace(
        "{message: {from: h1, to: h4, bytes: 1MB}}",
        "{incast: {to: h4, from: [h1, h2, h3], bytes: 1MB}}",
    )
    made = Simulation(read_run(source + "buffer: {shared: 100kB, alpha: 8}\n"), program())
    outcome = made.run()
    assert (outcome.end.message_times["done"] > 0).all()
    lost = sum(
        int(n) if isinstance(n, int) else sum(n)
        for switch in outcome.end.switches.values()
        for counts in switch.pfc.values()
        for name, n in counts.items()
        if "drop" in name
    )
    assert lost == 0


def test_a_delay_that_changes_keeps_the_latency_and_the_time_scale_slows_it() -> None:
    event = "  events: [{at: 1us, link: s1-s3, delay: 5us}]\n"
    topology = read_run(text("700ns", event)).topology.with_time_scale(10)
    found = {
        (call.switch, key): call.arguments[key]
        for call in calls(topology)
        if isinstance(call, PortCall)
        for key in call.arguments
    }
    assert found == {("s1", "tx_delay_ps"): 57_000_000, ("s3", "tx_delay_ps"): 57_000_000}


def test_too_much_is_refused_with_its_place() -> None:
    with pytest.raises(TopologyError, match=r"latency: a switch's latency is at most 1ms"):
        topologies.loads(
            "time_scale: 1\ngenerator: single\nhosts: 2\nlatency: 2ms\n"
            "link: {rate: 1Gbps, delay: 1us, queue: 1MB}\n"
        )
