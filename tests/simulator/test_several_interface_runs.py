"""Run files with `interfaces: all`: what queue pairs over all interfaces of their hosts do.

   +----+ s1 +----+
h1 |              | h2, h3: two planes, 100 Gb/s each, the second longer by LONGER
   +----+ s2 +----+
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from compiler import compile_p4
from controller.program import CompiledProgram
from experiments.live_flows import live_flows
from mechanisms.program import FABRIC
from simulator.runner import Outcome, Simulation
from topologies.errors import TopologyError
from workloads.lint_transport import transport_faults
from workloads.loader import load_run_file, read_run
from workloads.plan import plan

TOPOLOGY = """
  switches: [s1, s2]
  hosts: [h1, h2, h3, h4]
  link: {rate: 100Gbps, delay: 500ns, queue: 4MB, mtu: 4200B}
  links:
    - {a: "h1:0", b: s1:1}
    - {a: "h2:0", b: s1:2}
    - {a: "h3:0", b: s1:3}
    - {a: "h4:0", b: s1:4}
    - {a: "h1:1", b: s2:1, delay: LONGER}
    - {a: "h2:1", b: s2:2}
    - {a: "h3:1", b: s2:3}
  classes: {roce: {dscp: 26, queue: 3}, cnp: {dscp: 48, queue: 7}}
"""
ROCE = "roce: {dscp: 26, queue: 3}"
RUN = """
topology: TOPOLOGY
transport: {TRANSPORT}
EVENTS
CARRIED
"""
TRANSPORT = (
    "congestion_control: none, retransmission: selective-repeat, reorder: 20us, interfaces: all, "
    "timeout: 500us"
)
MESSAGE = "traffic: [{message: {from: h1, to: h2, bytes: 16MB, operation: OPERATION}}]"


@cache
def program() -> CompiledProgram:
    return CompiledProgram.of(compile_p4(FABRIC))


def text(
    carried: str = MESSAGE,
    *,
    transport: str = TRANSPORT,
    operation: str = "write",
    longer: str = "500ns",
    events: str = "",
) -> str:
    found = RUN.replace("CARRIED", carried).replace("TRANSPORT", transport)
    found = found.replace("TOPOLOGY", TOPOLOGY).replace("EVENTS", events)
    return found.replace("OPERATION", operation).replace("LONGER", longer)


def run(carried: str = MESSAGE, out: Path | None = None, **how: str) -> Outcome:
    return Simulation(read_run(text(carried, **how)), program()).run(out)


def repeated(outcome: Outcome) -> int:
    assert outcome.end.transport_stats is not None
    return int(outcome.end.transport_stats["repeated_packets"].sum())


@pytest.mark.parametrize("operation", ["write", "send", "read"])
@pytest.mark.parametrize("longer", ["500ns", "5us"])
def test_a_message_takes_its_ideal_time_over_two_planes(
    longer: str, operation: str, tmp_path: Path
) -> None:
    outcome = run(operation=operation, longer=longer, out=tmp_path / "out")
    assert repeated(outcome) == 0
    asked = 1.03 if operation == "read" else 1.001
    slowdown = outcome.summary["messages"]["slowdown_ppm"]["max"] / 10**6
    assert 1 <= slowdown < (asked if longer == "500ns" else 1.03)
    told = outcome.summary["transports"][0]
    assert (told["interfaces"], told["line_rate_bps"]) == (2, 200 * 10**9)


def test_the_shipped_run_fills_both_links_and_repeats_nothing() -> None:
    outcome = Simulation(load_run_file("two-interfaces"), program()).run()
    stats = outcome.end.flow_stats[0]
    assert repeated(outcome) == 0
    of_frames = 4096 / (4096 + 82)  # what a link of 100 Gb/s has for payload
    goodput = int(stats["received_bytes"]) * 8e3 / outcome.end.now_ps
    assert goodput >= 0.98 * 200 * of_frames


def test_a_plane_that_fails_halves_a_flow_and_comes_back() -> None:
    events = "events: [{at: 300us, link: h1:1-s2, do: down}, {at: 700us, link: h1:1-s2, do: up}]"
    outcome = run(MESSAGE.replace("16MB", "32MB"), events=events)
    assert outcome.end.totals["messages_done"] == 1
    assert outcome.end.totals["failed_flows"] == 0
    assert 0 < repeated(outcome) < 300
    # 400 us of one line, and what is repeated after a time-out of 500 us at the most.
    whole = 32e6 * (4178 / 4096) * 8e3 / 200  # ps
    assert whole + 150e6 < outcome.end.now_ps < whole + 900e6


def test_congestion_control_has_the_rate_of_both_lines() -> None:
    transport = TRANSPORT.replace("control: none", "control: dcqcn, parameters: hpcc-dcqcn")
    found = text(transport=transport).replace(ROCE, "roce: {dscp: 26, queue: 3, ecn: hpcc-dcqcn}")
    outcome = Simulation(read_run(found), program()).run()
    assert repeated(outcome) == 0
    assert outcome.end.now_ps < 16e6 * (4178 / 4096) * 8e3 / 200 * 1.05


def test_slow_receivers_pause_both_lines() -> None:
    receivers = "receivers: {h2: {rate: 40Gbps, buffer: 128kB}}\nbuffer: {shared: 16MB}"
    lossless = "roce: {dscp: 26, queue: 3, lossless: true}"
    found = text(events=receivers).replace(ROCE, lossless)
    outcome = Simulation(read_run(found), program()).run()
    assert repeated(outcome) == 0
    assert outcome.end.totals["messages_done"] == 1
    assert outcome.end.now_ps == pytest.approx(16e6 * (4178 / 4096) * 8e3 / 80, rel=0.03)


def test_clocks_of_their_own_change_little() -> None:
    outcome = run(events="clocks: {ppm: 100, jitter: 300ns}")
    assert repeated(outcome) == 0
    assert outcome.end.now_ps < 16e6 * (4178 / 4096) * 8e3 / 200 * 1.02


JOB = """
job:
  ranks: 3
  placement: [h1, h2, h3]
  phases: [{allreduce: {bytes: 6MB, over: dp}}, {alltoall: {bytes: 4MB, over: dp}}]
"""


def test_a_job_over_two_planes_is_no_faster_than_its_ideal_time(tmp_path: Path) -> None:
    outcome = run(JOB, out=tmp_path / "out")
    jobs = {row["name"]: row["slowdown_ppm"] for row in outcome.summary["jobs"]}
    assert all(1_000_000 <= slowdown < 1_100_000 for slowdown in jobs.values())
    one = run(JOB, transport=TRANSPORT.replace("all", "one"))
    assert one.end.now_ps > 1.9 * outcome.end.now_ps


def test_flows_of_all_interfaces_stand_beside_open_loop_ones() -> None:
    beside = MESSAGE.replace(
        "OPERATION}}", "write}}, {cbr: {from: 'h3:1', to: 'h2:1', rate: 50Gbps, stop: 100us}}"
    )
    traffic = plan(read_run(text(beside)))
    assert traffic.flows["interfaces"].tolist() == [2, 0]
    assert traffic.flow(0).interfaces == 2
    assert np.array_equal(traffic.flows["payload"], [4096, 4096])
    assert run(beside).end.totals["messages_done"] == 1


REFUSED: dict[str, tuple[str, str]] = {
    "other numbers": (
        MESSAGE.replace("to: h2", "to: h4"),
        "h1 has 2 interfaces and h4 has 1: a queue pair over all needs as many at both ends",
    ),
    "an interface": (
        MESSAGE.replace("to: h2", "to: 'h2:1'"),
        "h2:1: the transport's queue pairs use all interfaces: write h2",
    ),
    "all hosts": (MESSAGE.replace("to: h2", "to: all"), "h1 has 2 interfaces and h4 has 1"),
    "a job on interfaces": (
        JOB.replace("ranks: 3", "ranks: 3\n  interfaces: all"),
        "the transport's queue pairs use all interfaces, so that a host has one rank",
    ),
    "a rank on an interface": (
        JOB.replace("h3]", "'h3:1']"),
        "h3:1: the transport's queue pairs use all interfaces: name the host",
    ),
    "a job on other numbers": (JOB.replace("h3]", "h4]"), "h4 has 1 interface and h1 has 2"),
}


@pytest.mark.parametrize(("carried", "says"), REFUSED.values(), ids=REFUSED)
def test_what_no_queue_pair_can_join_is_refused(carried: str, says: str) -> None:
    with pytest.raises(TopologyError) as refused:
        read_run(text(carried, operation="write"))
    problems = str(refused.value).splitlines()
    assert len(problems) == 1
    assert says in problems[0]


def test_planes_that_do_not_meet_are_refused() -> None:
    crossed = text().replace('{a: "h2:0", b: s1:2}', '{a: "h2:0", b: s2:2}')
    crossed = crossed.replace('{a: "h2:1", b: s2:2}', '{a: "h2:1", b: s1:2}')
    with pytest.raises(TopologyError, match="no links join h1:0 and h2:0, and a queue pair over"):
        read_run(crossed)


def test_more_paths_than_a_card_counts_are_refused() -> None:
    with pytest.raises(TopologyError, match="2 interfaces by 200 UDP ports: at most 256 paths"):
        read_run(text(transport=f"{TRANSPORT}, udp_ports: 200"))


def test_lint_says_where_overtaking_is_not_tolerated() -> None:
    def told(transport: str) -> list[str]:
        found = transport_faults(read_run(text(transport=transport)))
        return [each.message for each in found if "several interfaces" in each.message]

    assert told(TRANSPORT) == []
    assert told("interfaces: all") == [
        "packets take several interfaces, and go-back-N sends everything again that was overtaken"
    ]
    assert told("interfaces: all, retransmission: selective-repeat") == [
        "packets take several interfaces, and selective-repeat sends what is missing again that "
        "was overtaken"
    ]
    assert told("interfaces: one") == []


def test_real_time_plays_it_with_the_same_interfaces() -> None:
    run_file = read_run(text(transport=f"{TRANSPORT}, mtu: 1024B", events="until: 10ms"))
    flows = live_flows(run_file, plan(run_file))
    assert [flow.several for flow in flows] == [True] * len(flows) != []
    one = TRANSPORT.replace("interfaces: all", "interfaces: one")
    run_file = read_run(text(transport=f"{one}, mtu: 1024B", events="until: 10ms"))
    assert not any(flow.several for flow in live_flows(run_file, plan(run_file)))
