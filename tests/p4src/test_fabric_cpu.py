"""The controller's port: packets out by any port, packets in with their port and reason.

h1 -- 1 +----+ 3 --
        | s1 |        255: controller
h2 -- 2 +----+ 4 --
"""

from __future__ import annotations

from typing import Any

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from controller.entries import TableEntry, Ternary, call, match

CPU_PORT = 255
REASON = 42
HEADER_BYTES = 2


@pytest.mark.parametrize("port", [1, 2, 3, 4])
def test_packet_out_leaves_unchanged_by_its_port(leaf: Any, port: int) -> None:
    frame = bytes(Ether(dst="ff:ff:ff:ff:ff:ff", type=0x88B5) / b"as it is")
    leaf.switch.packet_out(frame, {"egress_port": port})
    leaf.settle()
    leaf.expect(port, frame)
    # Counters take a packet's length as it arrived (BMv2's rule): here with its controller header.
    assert leaf.tx(port) == leaf.rx(CPU_PORT) == (1, len(frame) + HEADER_BYTES)
    assert leaf.dropped() == {}


def test_packet_out_is_not_routed(leaf: Any) -> None:
    frame = bytes(Ether(dst=leaf.me.mac) / IP(src="10.0.1.1", dst="10.0.1.2", ttl=1) / UDP())
    leaf.switch.packet_out(frame, {"egress_port": 4})
    leaf.settle()
    leaf.expect(4, frame)


def test_a_trapped_packet_goes_to_the_controller_only(leaf: Any) -> None:
    trap = call("trap_to_cpu", reason=REASON)
    leaf.install(TableEntry("acl", match(dst=Ternary(0x0A000102, 0xFFFFFFFF)), trap, priority=1))
    h1 = leaf.host("h1")
    frame = bytes(Ether(src=h1.mac, dst=leaf.me.mac) / IP(src="10.0.1.1", dst="10.0.1.2") / b"look")
    leaf.send(1, frame)
    assert leaf.pending == []
    (packet,) = leaf.switch.packet_ins
    assert packet.payload == frame
    assert packet.metadata["ingress_port"] == 1
    assert packet.metadata["reason"] == REASON
    assert leaf.tx(CPU_PORT) == (1, len(frame))
    assert leaf.dropped() == {}


def test_a_higher_priority_wins(leaf: Any) -> None:
    everything = TableEntry("acl", match(), call("deny_packet"), priority=1)
    ours = match(ingress_port=Ternary(2, 0x1FF))
    leaf.install(everything, TableEntry("acl", ours, call("permit_packet"), priority=2))
    for port, host in ((1, "h1"), (2, "h2")):
        mac = leaf.host(host).mac
        leaf.send(port, Ether(src=mac, dst=leaf.me.mac) / IP(dst="10.0.1.1") / UDP())
    assert [port for port, _ in leaf.pending] == [1]  # h2's packet reached h1, h1's was denied
