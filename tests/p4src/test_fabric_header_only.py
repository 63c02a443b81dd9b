"""fabric.p4 and header-only packets: what comes out is, byte for byte, what comes of whole packets.

Queues build up, packets are marked and trapped, and cuts may lie inside any header.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scapy.contrib.roce import BTH
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Packet

import topologies
from controller.diff import changes
from controller.entries import TableEntry, Ternary, call, match
from controller.fabric_state import FabricModel, desired_entries
from controller.p4info import P4Info
from controller.policy import FabricPolicy
from controller.target_facts import TargetFacts
from softswitch import Switch
from softswitch.core import CoreConfig, Output, PortConfig
from topologies.ecn import step

CPU_PORT = 255
SLOW_BPS = 100_000_000
SETTLE_PS = 10**12

Made = Callable[[], Switch]


@pytest.fixture(scope="module")
def topology() -> Any:
    return topologies.load("leafspine")


@pytest.fixture(scope="module")
def make(fabric_program: Any, topology: Any) -> Made:
    """Leaf 1 of the default fabric: marks from 3 KB on, traps TCP, sends slowly."""
    p4info = P4Info(fabric_program.p4info)
    facts = TargetFacts(tick_ps=1000, depth_cell_bytes=256, priorities=8)
    policy = FabricPolicy({"ecn": {0: step(3000)}})
    model = FabricModel(topology, p4info, facts, policy)
    leaf = topology.switches[0]
    trap = TableEntry(
        "acl", match(protocol=Ternary(6, 0xFF)), call("trap_to_cpu", reason=1), priority=1
    )
    updates = changes((*desired_entries(model, leaf.name), trap), (), p4info)

    def made() -> Switch:
        config = CoreConfig(cpu_port=CPU_PORT, priorities=8, tick_ps=1000, depth_cell_bytes=256)
        switch = Switch.from_json(
            fabric_program.json_text.encode(), fabric_program.p4info, config=config
        )
        switch.write([update.encode(p4info) for update in updates])
        for port in topology.ports_of(leaf.name):
            switch.core.configure_port(port.number, PortConfig(rate_bps=SLOW_BPS, queue_packets=20))
        return switch

    return made


def frames(topology: Any) -> list[bytes]:
    """One of each kind that the parser knows, from every host to every other."""
    leaf = topology.switches[0]
    found: list[Packet] = []
    addresses = [str(host.interfaces[0].address.ip) for host in topology.hosts]
    for dst in addresses:
        base = Ether(src="02:00:00:00:00:01", dst=leaf.mac) / IP(
            src=addresses[0], dst=dst, ttl=9, tos=2
        )
        found += [
            base / UDP(sport=50000, dport=4791) / BTH(opcode=4, dqpn=5, psn=6),
            base / UDP(sport=50000, dport=4791) / BTH(opcode=0x0A, dqpn=5) / bytes(16),
            base / UDP(sport=1, dport=2),
            base / TCP(sport=1, dport=2),
            base / ICMP(type=8),
        ]
    gateway = str(leaf.gateway.ip)
    found.append(Ether(dst=leaf.mac) / IP(src=addresses[0], dst=gateway) / ICMP(type=8))
    found.append(Ether(dst="ff:ff:ff:ff:ff:ff") / ARP(psrc=addresses[0], pdst=gateway))
    return [bytes(each) for each in found]


def run(switch: Switch, sent: list[tuple[int, bytes, int, int]], *, folded: bool) -> list[Any]:
    core = switch.core
    for number, (port, head, length, seed) in enumerate(sent):
        at = 10**9 + number * 1_000_000
        if folded:
            core.inject(port, head, at, tail_length=length, tail_seed=seed)
        else:
            core.inject(port, head + core.payload(seed, length), at)
    core.advance(10**9 + SETTLE_PS)

    def whole(out: Output) -> tuple[object, ...]:
        tail = core.payload(out.tail_seed, out.tail_length)
        return out.kind, out.port, out.data + tail, out.at_ps

    return [whole(out) for out in core.take_output()]


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_the_fabric_makes_no_difference(make: Made, topology: Any, data: st.DataObject) -> None:
    kinds = frames(topology)
    sent = []
    for _ in range(data.draw(st.integers(1, 40))):
        frame = data.draw(st.sampled_from(kinds))
        cut = data.draw(st.one_of(st.just(len(frame)), st.integers(0, len(frame))))
        length = data.draw(st.one_of(st.just(0), st.integers(1, 4096)))
        seed = data.draw(st.integers(0, 2**64 - 1))
        sent.append((data.draw(st.integers(1, 3)), frame[:cut], length, seed))
    with make() as one, make() as other:
        assert run(one, sent, folded=True) == run(other, sent, folded=False)
        assert one.core.stats() == other.core.stats()
        for name in ("port_rx", "port_tx", "roce_rx", "port_marked"):
            for port in range(5):
                assert one.counter_read(name, port) == other.counter_read(name, port)


def test_a_burst_is_marked_and_dropped_alike(make: Made, topology: Any) -> None:
    """The case that random packets seldom make: 30 of one flow, more than its queue holds."""
    roce = frames(topology)[5]
    sent = [(1, roce, 4096, seed) for seed in range(30)]
    with make() as one, make() as other:
        folded, whole = run(one, sent, folded=True), run(other, sent, folded=False)
        assert folded == whole
        assert 1 < len(folded) < 30
        marked = sum(one.counter_read("port_marked", port)[0] for port in range(8))
        assert 0 < marked == sum(other.counter_read("port_marked", port)[0] for port in range(8))
