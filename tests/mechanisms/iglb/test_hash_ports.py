"""Source ports that are chosen by the switches' hash: held against the program itself."""

from __future__ import annotations

import numpy as np
import pytest

import topologies
from controller.fabric_state import FabricModel, desired_entries
from controller.leaf_routes import Routes
from controller.policy import FabricPolicy
from mechanisms.iglb.ecmp_hash import EcmpHash
from mechanisms.iglb.hash_ports import NO_PORT, HashPorts, choose_ports
from simulator.fabric import target_facts
from simulator.flow_paths import FlowPaths
from tests.mechanisms.iglb.random_paths import Ints, RandomFlows, ports_along, random_flows
from tests.simulator.fabric_program import fabric_program
from topologies.model import Link, Topology
from workloads.model import Flow

LINK = "time_scale: 1\nlink: {rate: 100Gbps, delay: 1us, queue: 1MB, mtu: 4200B}\n"
FABRICS = {
    "leaf-spine": "generator: leaf_spine\nspines: 8\nleaves: 4\nhosts_per_leaf: 3",
    "three links to each spine": (
        "generator: leaf_spine\nspines: 3\nleaves: 3\nhosts_per_leaf: 2\nlinks_per_spine: 3"
    ),
    "fat tree": "generator: fat_tree\nk: 4",
    "rail": "generator: rail\nrails: 4\ngroups: 2\nhosts_per_group: 3\nspines: 5",
    "dual plane": "generator: dual_plane\nspines: 3\nleaves: 3\nhosts_per_leaf: 2",
}


def fabric(text: str) -> Topology:
    return topologies.loads(LINK + text)


def program_paths(topology: Topology, down: frozenset[Link] = frozenset()) -> FlowPaths:
    program = fabric_program()
    policy = FabricPolicy.of(topology)
    model = FabricModel(topology, program.p4info, target_facts(topology), policy, down)
    entries = {switch.name: desired_entries(model, switch.name) for switch in topology.switches}
    return FlowPaths(topology, program, entries)


def chosen(routes: Routes, flows: RandomFlows) -> HashPorts:
    fabric_hash = EcmpHash(routes.topology, routes)
    return choose_ports(fabric_hash, flows.source, flows.target, flows.arcs, flows.udp_port)


def assert_taken(
    paths: FlowPaths, topology: Topology, flows: RandomFlows, found: HashPorts
) -> None:
    """Every flow takes its path in the program, and pairs tell their queue pairs apart."""
    interfaces = tuple(topology.interfaces())
    for i in range(len(flows)):
        ends = interfaces[flows.source[i]].end, interfaces[flows.target[i]].end
        flow = Flow(*ends, int(found.udp_port[i]), 26, 0, 1024, 0)
        assert paths.path(flow) == ports_along(topology, int(flows.target[i]), flows.arcs[i])
    assert found.udp_port.min() >= 0xC000 and found.udp_port.max() <= 0xFFFF
    named = set(zip(flows.source, flows.target, found.udp_port, strict=True))
    assert len(named) == len(flows)


@pytest.mark.parametrize("name", FABRICS)
def test_flows_take_the_wanted_paths_in_the_program(name: str) -> None:
    topology = fabric(FABRICS[name])
    routes = Routes.of(topology)
    paths = program_paths(topology)
    flows = random_flows(routes, pairs=30, queue_pairs=5, seed=1)
    found = chosen(routes, flows)
    assert len(found.missing) == 0 and found.leads.all()
    assert_taken(paths, topology, flows, found)
    paths.close()


@pytest.mark.parametrize("name", ["leaf-spine", "fat tree"])
def test_with_links_down_ports_fit_the_smaller_groups(name: str) -> None:
    topology = fabric(FABRICS[name])
    between = [link for link in topology.links if topology.is_switch(link.a.node)]
    between = [link for link in between if topology.is_switch(link.b.node)]
    down = frozenset(between[1::9])
    routes = Routes.of(topology, down)
    flows = random_flows(routes, pairs=30, queue_pairs=2, seed=3)
    found = chosen(routes, flows)
    paths = program_paths(topology, down)
    assert_taken(paths, topology, flows, found)
    paths.close()


def test_ports_that_serve_are_kept_and_their_paths_stay() -> None:
    routes = Routes.of(fabric(FABRICS["fat tree"]))
    flows = random_flows(routes, pairs=40, queue_pairs=4, seed=4)
    first = chosen(routes, flows)
    again = choose_ports(
        EcmpHash(routes.topology, routes), flows.source, flows.target, flows.arcs, first.udp_port
    )
    assert again.kept.all() and again.tries == 0
    assert (again.udp_port == first.udp_port).all()
    # A tenth of them move: nobody else's port changes.
    moved = np.arange(0, len(flows), 10)
    other = swapped_paths(flows, moved)
    third = choose_ports(
        EcmpHash(routes.topology, routes), flows.source, flows.target, other, first.udp_port
    )
    still = (other == flows.arcs).all(axis=1)
    assert (third.udp_port[still] == first.udp_port[still]).all()
    assert not third.kept[~still].any() and (~still).any()


def swapped_paths(flows: RandomFlows, moved: Ints) -> Ints:
    """Paths in which some flows have that of another queue pair of their pair."""
    arcs = flows.arcs.copy()
    arcs[moved] = flows.arcs[moved + 1]
    assert (flows.source[moved] == flows.source[moved + 1]).all()
    return arcs


def test_queue_pairs_of_one_path_get_different_ports() -> None:
    """64 of two interfaces, all over one of eight spines; the port that all have serves none."""
    topology = fabric(FABRICS["leaf-spine"])
    routes = Routes.of(topology)
    one = random_flows(routes, pairs=1, queue_pairs=1, seed=5)
    flows = RandomFlows(
        one.source.repeat(64), one.target.repeat(64), one.arcs.repeat(64, 0), np.full(64, 0xC001)
    )
    found = chosen(routes, flows)
    assert found.kept.sum() <= 1
    assert len(set(found.udp_port.tolist())) == 64
    paths = program_paths(topology)
    assert_taken(paths, topology, flows, found)
    paths.close()


def test_a_flow_is_tried_as_often_as_there_are_paths() -> None:
    """8 spines: every 8th port leads over the wanted one, so the first of a row is soon found."""
    routes = Routes.of(fabric(FABRICS["leaf-spine"]))
    flows = random_flows(routes, pairs=400, queue_pairs=1, seed=6)
    there = (flows.arcs >= 0).any(axis=1)
    had = chosen(routes, flows).kept[there]
    assert abs(had.mean() - 1 / 8) < 4 * np.sqrt(1 / 8 * 7 / 8 / there.sum())


def test_a_path_that_no_hash_takes_has_no_port() -> None:
    """Out of a port that does not lead to the target, and more queue pairs than ports."""
    topology = fabric("generator: leaf_spine\nspines: 2\nleaves: 3\nhosts_per_leaf: 1")
    routes = Routes.of(topology)
    flows = random_flows(routes, pairs=1, queue_pairs=1, seed=7)
    detour = flows.arcs.copy()
    ends = {
        (end.node, end.port): 2 * number + side
        for number, link in enumerate(topology.links)
        for side, end in enumerate((link.a, link.b))
    }
    leaf = next(i for n, i in enumerate(topology.interfaces()) if n == flows.source[0])
    detour[0, 0] = ends[leaf.switch, leaf.port]
    wrong = RandomFlows(flows.source, flows.target, detour, flows.udp_port)
    assert chosen(routes, wrong).udp_port.tolist() == [NO_PORT]
    many = RandomFlows(
        flows.source.repeat(10_000),
        flows.target.repeat(10_000),
        flows.arcs.repeat(10_000, 0),
        np.full(10_000, 0xC000),
    )
    found = chosen(routes, many)
    fits = found.udp_port[found.udp_port != NO_PORT]
    assert len(set(fits.tolist())) == len(fits)
    # Half of 16,384 ports lead over one of two spines: the rest of the queue pairs get none.
    assert abs(len(fits) - 8192) < 512
    assert len(found.missing) == 10_000 - len(fits)


def test_open_queue_pairs_keep_their_ports_wherever_they_lead() -> None:
    routes = Routes.of(fabric(FABRICS["leaf-spine"]))
    fabric_hash = EcmpHash(routes.topology, routes)
    flows = random_flows(routes, pairs=40, queue_pairs=4, seed=8)
    fixed = np.arange(len(flows)) % 4 < 2
    ends = (flows.source, flows.target, flows.arcs)
    first = choose_ports(fabric_hash, *ends, np.full(len(flows), 0xC000), fixed)
    # Both fixed ones of a pair have the same port, and the others have none of theirs.
    assert (first.udp_port[fixed] == 0xC000).all() and first.kept[fixed].all()
    assert (first.udp_port[~fixed] != 0xC000).all()
    assert first.leads[~fixed].all() and not first.leads[fixed].all()
    assert (choose_ports(fabric_hash, *ends, first.udp_port).kept == first.leads).mean() > 0.9
    again = choose_ports(fabric_hash, *ends, first.udp_port, np.full(len(flows), True))
    assert (again.leads == first.leads).all() and again.tries == 0
