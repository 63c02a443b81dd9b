"""Two paths of unequal length, packets in turn, nothing lost: what a transport makes of it."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from compiler import compile_p4
from controller.program import CompiledProgram
from mechanisms.program import FABRIC
from simulator.runner import Outcome, Simulation
from topologies.errors import TopologyError
from workloads.loader import read_run

RUN = """
topology:
  switches: [s1, s2, {name: s3, role: spine}, {name: s4, role: spine}]
  hosts: [h1, h2]
  link: {rate: RATE, delay: 500ns, queue: 4MB, mtu: 4200B}
  links:
    - {a: h1, b: s1:1}
    - {a: h2, b: s2:1}
    - {a: s1:2, b: s3:1}
    - {a: s1:3, b: s4:1, delay: LONGER}
    - {a: s2:2, b: s3:2}
    - {a: s2:3, b: s4:2}
  classes: {roce: {dscp: 26, queue: 3}}
  EVENTS
until: 8ms
transport: {congestion_control: none, TRANSPORT, udp_ports: 8, timeout: 50ms}
traffic: [{incast: {to: h2, from: h1, persistent: true, operation: OPERATION}}]
"""
SELECTIVE = "retransmission: selective-repeat"


@cache
def program() -> CompiledProgram:
    return CompiledProgram.of(compile_p4(FABRIC))


def text(
    transport: str = SELECTIVE,
    *,
    longer: str = "5us",
    operation: str = "write",
    rate: str = "100Gbps",
    events: str = "",
) -> str:
    values = {"TRANSPORT": transport, "LONGER": longer, "OPERATION": operation, "RATE": rate}
    found = RUN.replace("EVENTS", events)
    for key, value in values.items():
        found = found.replace(key, value)
    return found


def run(transport: str = SELECTIVE, **how: str) -> Outcome:
    return Simulation(read_run(text(transport, **how)), program()).run()


def goodput(outcome: Outcome) -> float:
    """In Gb/s."""
    return float(outcome.end.flow_stats[0]["received_bytes"]) * 8e3 / outcome.end.now_ps


def repeated(outcome: Outcome) -> int:
    assert outcome.end.transport_stats is not None
    return int(outcome.end.transport_stats[0]["repeated_packets"])


@pytest.mark.parametrize("operation", ["write", "send", "read"])
@pytest.mark.parametrize(
    ("longer", "reorder"), [("5us", "5us"), ("5us", "100us"), ("50us", "60us"), ("1us", "2us")]
)
def test_a_longer_path_costs_nothing_within_what_is_allowed(
    longer: str, reorder: str, operation: str
) -> None:
    outcome = run(f"{SELECTIVE}, reorder: {reorder}", longer=longer, operation=operation)
    assert repeated(outcome) == 0
    assert goodput(outcome) >= 0.98 * 98
    assert int(outcome.end.flow_stats[0]["out_of_order"]) > 100


def test_without_it_the_longer_path_costs_much() -> None:
    assert goodput(run("retransmission: go-back-n")) < 40
    selective = run()
    assert goodput(selective) < 85
    assert repeated(selective) > 1000


def test_at_400_gb_s_too() -> None:
    outcome = run(f"{SELECTIVE}, reorder: 10us", rate="400Gbps")
    assert repeated(outcome) == 0
    assert goodput(outcome) >= 0.98 * 392


def test_what_is_lost_is_still_sent_again_once_and_soon() -> None:
    """One packet in a thousand is lost on the short path; the time-out is longer than the run."""
    lossy = "events: [{at: 0us, link: s1-s3, towards: s3, loss: 0.2%}]"
    outcome = run(f"{SELECTIVE}, reorder: 10us", events=lossy)
    lost = sum(
        int(counts["lost"])
        for switch in outcome.end.switches.values()
        for wires in switch.wires.values()
        for counts in wires.values()
    )
    assert lost > 3
    assert lost <= repeated(outcome) <= lost + 2  # one that was lost again, or is on its way
    assert goodput(outcome) >= 0.97 * 98


def test_results_say_what_was_allowed() -> None:
    loaded = read_run(text(f"{SELECTIVE}, reorder: 10us"))
    made = Simulation(loaded, program(), time_scale=10, until_ps=10**9)
    assert made.traffic.transports[0].reorder_ps == 10_000_000
    outcome = made.run()
    assert repeated(outcome) == 0
    assert np.all(outcome.end.flow_stats["received_bytes"] > 0)


def test_go_back_n_has_nowhere_to_keep_what_comes_early() -> None:
    with pytest.raises(TopologyError, match=r"transport\.reorder: go-back-n keeps nothing"):
        read_run(text("retransmission: go-back-n, reorder: 10us"))
