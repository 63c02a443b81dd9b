"""Ports that are chosen for a run's queue pairs lead them along a plan without conflicts."""

from __future__ import annotations

from collections import Counter

import pytest

from controller.fabric_state import FabricModel, desired_entries
from controller.policy import FabricPolicy
from mechanisms.registry import remarks, run_remarks
from simulator.fabric import target_facts
from simulator.flow_paths import FlowPaths
from tests.simulator.fabric_program import fabric_program
from topologies.model import Topology
from workloads.declared import declarations
from workloads.loader import read_run
from workloads.model import Traffic
from workloads.plan import plan

RUN = """\
topology:
  generator: fat_tree
  k: 4
  link: {rate: 100Gbps, delay: 1us, queue: 1MB, mtu: 4200B}
  iglb: PINNING
  classes:
    roce: {dscp: 26, queue: 3}
    rest: {queue: 0}
job: {ranks: 16, placement: random, phases: [PHASE]}
"""
RING, ALL_TO_ALL = "{allreduce: {bytes: 1MB}}", "{alltoall: {bytes: 15MB}}"
PORTS = "{pinning: ports}"


def run_text(pinning: str, phase: str) -> str:
    return RUN.replace("PINNING", pinning).replace("PHASE", phase)


def most_on_a_link(topology: Topology, traffic: Traffic, text: str) -> list[int]:
    """Of each set of flows that are busy together: how many the fullest link carries."""
    program = fabric_program()
    policy = FabricPolicy.of(topology)
    model = FabricModel(topology, program.p4info, target_facts(topology), policy)
    entries = {switch.name: desired_entries(model, switch.name) for switch in topology.switches}
    paths = FlowPaths(topology, program, entries)
    (told,) = declarations(read_run(text), traffic)
    found = paths.of(traffic, told.flows.tolist())
    paths.close()
    return [
        max(Counter(hop for flow in told.flows[each.flow].tolist() for hop in found[flow]).values())
        for each in told.job.sets
    ]


@pytest.mark.parametrize("phase", [RING, ALL_TO_ALL])
def test_flows_that_are_busy_together_share_no_link_in_the_program(phase: str) -> None:
    text = run_text(PORTS, phase)
    run = read_run(text)
    full = most_on_a_link(run.topology, plan(run), text)
    assert full == [1] * len(full)
    by_hash = run_text("false", phase)
    chance = most_on_a_link(run.topology, plan(read_run(by_hash)), by_hash)
    assert max(chance) > 1, "ECMP has conflicts there"


def test_with_entries_ports_stay_as_they_are() -> None:
    entries, none = (plan(read_run(run_text(word, RING))) for word in ("true", "false"))
    assert (entries.flows["udp_port"] == none.flows["udp_port"]).all()


def test_lint_says_where_ports_decide_nothing() -> None:
    text = run_text(PORTS, RING).replace("queue: 3", "queue: 3, load_balancing: flowlet")
    (found,) = remarks(read_run(text).topology)
    assert found.path == ("classes", "roce", "load_balancing")
    assert "take no notice of the source ports" in found.message
    assert not list(remarks(read_run(text.replace(PORTS, "true")).topology))


def test_lint_says_that_paths_of_several_source_ports_are_not_planned() -> None:
    several = "transport: {congestion_control: none, udp_ports: 4}\n"
    same = read_run(run_text("false", RING) + several)
    assert not any("source ports" in each.message for each in run_remarks(same))
    for word, says in ((PORTS, "leaves them alone"), ("true", "pins for the first of them only")):
        run = read_run(run_text(word, RING) + several)
        (found,) = (each for each in run_remarks(run) if "source ports" in each.message)
        assert "4 source ports" in found.message and found.message.endswith(says)
        assert (plan(run).flows["udp_port"] == plan(same).flows["udp_port"]).all()
