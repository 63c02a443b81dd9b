"""Reflex, plan and back: every link between switches fails in mid-job, and returns. Virtual time.

      0      500 us       600 us   700 us     1200 us       1300 us       1800 us    3 ms
      |--------|-------------|--------|----------|-------------|-------------|--------|
      early    link fails    late     plan       link returns  known         used again
               reflex: 54.6 us at most                         hold-down 500 us

Early flows run all the time, late ones begin when the reflex has to be done. What the controller
hears takes it 200 us, and each step of entries as long again.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import topologies
from compiler import compile_p4
from controller.jobs import JobsSubmitted
from controller.program import CompiledProgram
from mechanisms import registry
from mechanisms.iglb.learner import PlannedPaths
from mechanisms.program import FABRIC
from simulator.runner import Simulation
from tests.mechanisms.iglb.held import ring
from topologies.model import Link, Topology
from workloads.loader import read_run

TREE = """\
  generator: fat_tree
  k: 4
  time_scale: 1
  link: {rate: 100Gbps, delay: 500ns, queue: 8MB, mtu: 4200B}
  classes: {roce: {dscp: 26, queue: 3}, rest: {queue: 0}}
  dpfr: true
  iglb: {hold_down: 500us}
"""
RUN = """\
topology:
{tree}
controller: {{delay: 200us}}
sample: 1ms
until: 4ms
events:
  - {{at: 500us, link: {link}, do: down}}
  - {{at: 1200us, link: {link}, do: up}}
traffic:
{traffic}
"""
PACKET = 4096
RATE_GBPS = 10  # a leaf with one uplink left carries all of it
PAIRS = 2
LATE_US, END_US = 600, 3000


@cache
def program(defines: tuple[str, ...]) -> CompiledProgram:
    """Compile it only once."""
    return CompiledProgram.of(compile_p4(FABRIC, defines=defines))


def messages(start_us: int, udp_port: int) -> list[str]:
    """Each host sends to the one five places on, by two queue pairs, until END_US."""
    size = (END_US - start_us) * RATE_GBPS * 1000 // 8 // PACKET * PACKET
    return [
        f"  - message: {{from: h{host + 1}, to: h{(host + 5) % 16 + 1}, bytes: {size}B, "
        f"payload: {PACKET}B, dscp: 26, rate: {RATE_GBPS}Gbps, start: {start_us}us, "
        f"udp_port: {udp_port + pair}}}"
        for host in range(16)
        for pair in range(PAIRS)
    ]


def inner_links(topology: Topology) -> list[Link]:
    ends = ((link, (link.a.node, link.b.node)) for link in topology.links)
    return [link for link, both in ends if all(map(topology.is_switch, both))]


LINKS = [
    f"{link.a.node}-{link.b.node}"
    for link in inner_links(topologies.loads(TREE.replace("\n  ", "\n")[2:]))
]


def check(name: str) -> None:
    """Let a link fail and return."""
    traffic = [*messages(0, 50_000), *messages(LATE_US, 51_000)]
    run = read_run(RUN.format(tree=TREE, link=name, traffic="\n".join(traffic)))
    simulation = Simulation(run, program(registry.defines(run.topology)), seed=1)
    learner = simulation.control.loop.learners["iglb"]
    assert isinstance(learner, PlannedPaths)
    home = learner.in_force.pins
    assert sum(map(len, home.first.values())) > 0
    before = learner.in_force.followed
    assert before is not None
    a, b = name.split("-")
    number = next(
        n for n, link in enumerate(run.topology.links) if {link.a.node, link.b.node} == {a, b}
    )
    touched = (before.plan.arcs // 2 == number).any(axis=1) & (before.plan.arcs >= 0).any(axis=1)
    simulation.advance(1_150_000_000)
    away = learner.in_force.followed
    assert away is not None
    arcs = away.plan.arcs
    assert not ((arcs // 2 == number) & (arcs >= 0)).any()
    end = simulation.run().end
    flows = end.flow_stats
    lost = flows["sent_packets"].astype(np.int64) - flows["received_packets"].astype(np.int64)
    early, late = np.split(lost, 2)
    assert late.sum() == 0, (name, late)
    disturbed = flows["out_of_order"] > 0
    moved = int(touched.sum())
    assert (learner.counts.repairs, learner.counts.moved) == ((2, 2 * moved) if moved else (0, 0))
    assert learner.in_force.pins == home
    assert not (disturbed & ~touched).any()
    assert not (lost[~touched] > 0).any()
    assert moved == 0 or early.sum() > 0  # what was on the dead link until the reflex


@pytest.mark.parametrize("name", LINKS[::16])
def test_reflex_plan_and_back(name: str) -> None:
    check(name)


@pytest.mark.long
@pytest.mark.parametrize("name", LINKS)
def test_reflex_plan_and_back_at_every_link(name: str) -> None:
    check(name)


def test_another_plan_costs_flows_that_stay_no_packet() -> None:
    """A second job comes in the middle: all pins are written again, under another version."""
    traffic = messages(0, 50_000)
    text = RUN.format(tree=TREE, link="s1-s9", traffic="\n".join(traffic))
    run = read_run(text.replace(text[text.index("events:") : text.index("traffic:")], ""))
    simulation = Simulation(run, program(registry.defines(run.topology)), seed=1)
    learner = simulation.control.loop.learners["iglb"]
    assert isinstance(learner, PlannedPaths)
    before = learner.in_force
    more = ring(run.topology, "more", pairs=8, by=3)
    simulation.at(1_000_000_000, lambda: simulation.control.take(JobsSubmitted((more,))) and None)
    end = simulation.run().end
    now = learner.in_force
    assert now.version == before.version + 1 and len(now.jobs) == 1 + len(before.jobs)
    assert all(
        now.pins.first[switch][flow] == port
        for switch, pins in before.pins.first.items()
        for flow, port in pins.items()
    )
    flows = end.flow_stats
    assert (flows["sent_packets"] == flows["received_packets"]).all()
    assert flows["out_of_order"].sum() == 0
    assert end.counters["iglb"]["unplanned"] == 0
