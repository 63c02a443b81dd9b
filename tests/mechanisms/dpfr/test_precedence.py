"""Who wins at the next hop: a dead way, then a pinned path, then a choice by load, then the hash.

DPFR is there; the two between are stand-ins, each a file and a line as later mechanisms will be,
and each with a table of flows that it decides about.

        s3 s4 s5 s6      leaf s1, its four ways, and the flows of h1 to the other leaf's h3
          \\ | | /
            s1 -- h1
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

import topologies
from compiler import compile_p4
from controller.diff import changes
from controller.fabric_state import FabricModel, desired_entries
from controller.p4info import P4Info
from controller.policy import FabricPolicy
from controller.target_facts import TargetFacts
from softswitch import Switch
from softswitch.core import CoreConfig

P4SRC = Path(__file__).parents[3] / "p4src"
TOPOLOGY = """\
time_scale: 1
generator: leaf_spine
leaves: 2
spines: 4
hosts_per_leaf: 2
link: {rate: 100Gbps, delay: 500ns, queue: 1MB}
dpfr: true
"""
DSCP_OF_OTHERS = 0
UDP_PORT = 9999
CHOICE = """
#if HOOK == HOOK_PROFILE
#elif defined(WITH_{upper})
#if HOOK == HOOK_CONTROLS
control Choose{title}(in headers_t hdr, inout local_metadata_t meta) {{
    action {name}(next_hop_id_t next_hop) {{ meta.next_hop = next_hop; }}
    table {name}_flow {{
        key = {{ meta.flow.src_port: exact @name("flow"); }}
        actions = {{ {name}; @defaultonly NoAction; }}
    }}
    apply {{ {name}_flow.apply(); }}
}}
#elif HOOK == HOOK_INGRESS_INSTANCES
    Choose{title}() choose_{name};
#elif HOOK == HOOK_PATH_CHOICE
            choose_{name}.apply(hdr, meta);
#endif
#endif
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the fabric with the two stand-ins above DPFR in the list: the last one is the
    strongest.
    """
    folder = shutil.copytree(P4SRC, tmp_path_factory.mktemp("p4src") / "p4src")
    for name in ("load", "pin"):
        text = CHOICE.format(name=name, upper=name.upper(), title=name.title())
        (folder / f"modules/{name}.p4").write_text(text)
    places = folder / "mechanisms.p4"
    own = '#include "modules/dpfr.p4"\n'
    lines = "".join(f'#include "modules/{name}.p4"\n' for name in ("load", "pin"))
    places.write_text(places.read_text().replace(own, lines + own))
    defines = ("PROFILE", "WITH_FABRIC", "WITH_DPFR", "WITH_LOAD", "WITH_PIN")
    return compile_p4(folder / "fabric.p4", defines=defines)


class Leaf:
    """s1 with its entries."""

    def __init__(self, program: Any) -> None:
        self.topology = topologies.loads(TOPOLOGY)
        self.switch = Switch.from_json(
            program.json_text.encode(), program.p4info, config=CoreConfig(priorities=8)
        )
        info = P4Info(program.p4info)
        facts = TargetFacts(priorities=8, clone_classes=True)
        model = FabricModel(self.topology, info, facts, FabricPolicy.of(self.topology))
        found = changes(desired_entries(model, "s1"), (), info)
        self.switch.write([change.encode(info) for change in found])
        self.ways = [
            port.number
            for port in self.topology.ports_of("s1")
            if self.topology.is_switch(port.peer.node)
        ]
        self.source = self.topology.host("h1")
        self.target = self.topology.host("h3")

    def port_of(self, flow: int) -> int | None:
        """Send a packet of a flow; return the port by which it leaves, None if by none."""
        mine = self.topology.switch("s1").mac
        at = self.source.interfaces[0]
        frame = (
            Ether(dst=mine, src=at.mac)
            / IP(
                src=str(at.address.ip),
                dst=str(self.target.interfaces[0].address.ip),
                tos=DSCP_OF_OTHERS,
            )
            / UDP(sport=flow, dport=UDP_PORT, chksum=0)
            / b"payload"
        )
        self.switch.inject(self.source.port, bytes(frame))
        outputs = self.switch.run_until(self.switch.now_ns + 1_000_000)
        data = [
            each
            for each in outputs
            if Ether(each.packet)[IP].dst == str(self.target.interfaces[0].address.ip)
        ]
        assert len(data) <= 1
        return data[0].port if data else None

    def kill(self, *ports: int) -> None:
        """Kill these ways, and no others."""
        down = sum(1 << self.ways.index(port) for port in ports)
        self.switch.register_write("dpfr_down", 0, down)

    def decide(self, what: str, flow: int, port: int) -> None:
        self.switch.table_add(f"{what}_flow", {"flow": flow}, what, {"next_hop": port})


@pytest.fixture
def leaf(program: Any) -> Iterator[Leaf]:
    made = Leaf(program)
    yield made
    made.switch.close()


def test_each_is_overruled_by_the_stronger_ones_alone(leaf: Leaf) -> None:
    flow = 50_000
    hashed = leaf.port_of(flow)
    assert hashed in leaf.ways
    a, b, c = (port for port in leaf.ways if port != hashed)
    leaf.decide("load", flow, a)
    assert leaf.port_of(flow) == a
    leaf.decide("pin", flow, b)
    assert leaf.port_of(flow) == b
    leaf.kill(a, c, hashed)
    assert leaf.port_of(flow) == b
    leaf.kill(b)
    assert leaf.port_of(flow) in {a, c, hashed}
    leaf.kill(a, b, hashed)
    assert leaf.port_of(flow) == c
    leaf.kill(*leaf.ways)
    assert leaf.port_of(flow) is None
    leaf.kill()
    assert leaf.port_of(flow) == b


def test_in_every_combination_the_strongest_that_is_alive_wins(leaf: Leaf) -> None:
    """All choices by load and by pin, under every set of dead ways: 4 x 4 x 16 cases and more."""
    flow = 50_000
    for load, pin in product((None, *leaf.ways), repeat=2):
        flow += 1
        hashed = leaf.port_of(flow)
        for what, port in (("load", load), ("pin", pin)):
            if port is not None:
                leaf.decide(what, flow, port)
        wanted = pin or load or hashed
        for dead in range(16):
            gone = [port for n, port in enumerate(leaf.ways) if dead >> n & 1]
            leaf.kill(*gone)
            left = set(leaf.ways) - set(gone)
            got = leaf.port_of(flow)
            if not left:
                assert got is None
            else:
                assert got == wanted if wanted in left else got in left
        leaf.kill()


def test_what_a_dead_way_carried_is_spread_evenly(leaf: Leaf) -> None:
    """Not all of it to one neighbour, as turning the set by a hash and taking the first would."""
    flows = range(20_000, 21_200)
    before = {flow: leaf.port_of(flow) for flow in flows}
    dead, *others = leaf.ways
    leaf.kill(dead)
    moved = [leaf.port_of(flow) for flow in flows if before[flow] == dead]
    assert len(moved) > 240
    for port in others:
        assert moved.count(port) == pytest.approx(len(moved) / len(others), rel=0.25)
    for flow in flows:
        if before[flow] != dead:
            assert leaf.port_of(flow) == before[flow]
