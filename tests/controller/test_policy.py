"""What a topology's class map makes of the policy, and what interfaces make of routes."""

from __future__ import annotations

import topologies
from controller import CompiledProgram, FabricPolicy, TargetFacts
from controller.entries import describe
from controller.fabric_state import FabricModel, desired_entries
from topologies.ecn import step

CLASSES = """\
time_scale: 1
generator: single
hosts: 2
link: {rate: 400Gbps, delay: 500ns, queue: 1MB}
classes:
  cnp: {dscp: 48, queue: 6}
  roce: {dscp: [24, 26], queue: 3, lossless: true, ecn: 256kB}
  rest: {}
"""


def lines(model: FabricModel, switch: str, table: str) -> list[str]:
    described = (describe(entry) for entry in desired_entries(model, switch))
    return [line for line in described if line.startswith(f"{table} ")]


def test_a_class_map_is_the_policy() -> None:
    policy = FabricPolicy.of(topologies.loads(CLASSES))
    assert policy.class_of_dscp == {48: 6, 24: 3, 26: 3}
    assert policy.setting("ecn") == {3: step(256_000)}
    assert policy.setting("fast_cnp") == {}


def test_without_a_class_map_notifications_still_go_first() -> None:
    assert FabricPolicy.of(topologies.load("triangle")) == FabricPolicy()
    assert FabricPolicy().class_of_dscp == {48: 7}


def test_the_class_map_is_installed(program: CompiledProgram) -> None:
    topology = topologies.loads(CLASSES)
    facts = TargetFacts(depth_cell_bytes=256, priorities=8)
    policy = FabricPolicy.of(topology)
    model = FabricModel(topology, program.p4info, facts, policy)
    assert lines(model, "s1", "dscp_class") == [
        "dscp_class dscp=0x18 -> set_class(class_of_service=0x3)",
        "dscp_class dscp=0x1a -> set_class(class_of_service=0x3)",
        "dscp_class dscp=0x30 -> set_class(class_of_service=0x6)",
    ]
    assert lines(model, "s1", "ecn_threshold") == [
        f"ecn_threshold class=0x3 port={port:#x} -> mark_above(threshold=0x3e8)" for port in (1, 2)
    ]


def test_every_interface_of_a_host_has_its_route_and_mac(program: CompiledProgram) -> None:
    topology = topologies.load("rail")
    model = FabricModel(topology, program.p4info)
    h2 = topology.host("h2").interfaces[3]
    routes = lines(model, "s4", "ipv4_route")
    assert f"ipv4_route dst={int(h2.address.ip):#x}/32 -> route_to(next_hop=0x2)" in routes
    assert len(routes) == 4 + 7  # its own four interfaces, the other leaves' networks
    (hop,) = [line for line in lines(model, "s4", "next_hop") if "next_hop=0x2 " in line]
    assert f"dst_mac={int(h2.mac.replace(':', ''), 16):#x}" in hop
    assert f"arp_targets target_ip={int(h2.address.ip):#x}" in " ".join(
        lines(model, "s4", "arp_targets")
    )


def test_separate_planes_have_no_routes_to_each_other(program: CompiledProgram) -> None:
    topology = topologies.load("dualplane")
    model = FabricModel(topology, program.p4info)
    networks = {part.address.network for part in topology.interfaces() if part.number == 1}
    for line in lines(model, "s1", "ipv4_route"):
        assert all(f"{int(network.network_address):#x}/24" not in line for network in networks)
