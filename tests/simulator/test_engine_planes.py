"""Two hosts wired together by two planes: what switches say of one, by whichever it comes."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address

import pytest
from scapy.layers.l2 import Ether

from hostagent.rnic.card_records import Operation, Repeat
from hostagent.rnic.planes import NO_PLANES, PlaneConfig, PlaneLoss, PlaneState, PlaneUse
from protocols.notification import Notification, NotificationType, datagram
from simulator.core.binding import EngineError, Transport
from tests.simulator.conftest import Net

US = 10**6
MS = 1000 * US
PLANES = PlaneConfig(PlaneUse.SHARED, misses=3, silence_ps=5 * MS, probe_ps=MS)
TRANSPORT = Transport(repeat=Repeat.SELECTIVE, reorder_ps=100 * US, planes=PLANES)


def address(node: int, interface: int) -> int:
    return 0x0A000000 + node + 256 * interface  # as the net gives them


@pytest.mark.parametrize(
    ("by", "about", "lost"), [(0, 0, [1, 0]), (1, 1, [0, 1]), (1, 0, [0, 0]), (0, 1, [0, 0])]
)
def test_a_switchs_word_loses_the_plane_by_which_it_came(
    net: Net, by: int, about: int, lost: list[int]
) -> None:
    a, b = net.host(interfaces=2), net.host(interfaces=2)
    for interface in range(2):
        net.link((a, interface), (b, interface))
    number = net.engine.add_transports([TRANSPORT]) + 1
    write = int(Operation.WRITE)
    flow = net.flow(a, b, payload=4096, interfaces=2, transport=number, operation=write)
    net.messages([{"flow": flow, "bytes": 4 << 20}])
    said = Notification(
        type=NotificationType.LINK_DOWN,
        severity=15,
        validity=9,
        switch_id=2,
        port=2,
        destination=str(IPv4Address(address(b, about))),
    )
    link = Ether(dst="02:00:00:00:00:00", src="02:00:00:00:00:01")
    frame = bytes(link / datagram(said, to=str(IPv4Address(address(a, by)))))
    net.engine.add_script([(b, by, 20 * US, frame)])
    net.engine.run(to_the_end=True)
    rows = [row for row in net.engine.plane_rows() if row["sends"]]
    assert [int(row["interface"]) for row in rows] == [0, 1]
    assert [int(row["losses"]) for row in rows] == lost
    for row in rows:
        assert PlaneLoss(row["why"]) is (PlaneLoss.TOLD if row["losses"] else PlaneLoss.NONE)
        assert PlaneState(row["state"]) is PlaneState.UP  # it is well: an answer is enough
    assert net.engine.totals().messages_done == 1


def test_only_interfaces_of_a_host_are_drained(net: Net) -> None:
    a, b = net.host(interfaces=2), net.host()
    net.link((a, 0), (b, 0))
    for node, interface in ((a, 2), (9, 0)):
        with pytest.raises(EngineError, match=f"node {node} has no interface {interface}"):
            net.engine.drain(node, interface, True)
    net.engine.drain(a, 1, True)  # it has no card of several interfaces: nothing to drain


@pytest.mark.parametrize("use", [PlaneUse.SHARED, PlaneUse.TURNS])
def test_only_planes_leave_out_what_is_drained(net: Net, use: PlaneUse) -> None:
    """Cards that take turns over interfaces send by all: why a run file may not drain there."""
    a, b = net.host(interfaces=2), net.host(interfaces=2)
    for interface in range(2):
        net.link((a, interface), (b, interface))
    planes = PLANES if use is PlaneUse.SHARED else NO_PLANES
    number = net.engine.add_transports([replace(TRANSPORT, planes=planes)]) + 1
    write = int(Operation.WRITE)
    flow = net.flow(a, b, payload=4096, interfaces=2, transport=number, operation=write)
    net.messages([{"flow": flow, "bytes": 4 << 20}])
    net.engine.run(20 * US)
    net.engine.drain(a, 1, True)
    before = [net.engine.host_port_stats(a, interface).tx_packets for interface in range(2)]
    net.engine.run(to_the_end=True)
    after = [net.engine.host_port_stats(a, interface).tx_packets for interface in range(2)]
    sent = [now - then for now, then in zip(after, before, strict=True)]
    assert net.engine.totals().messages_done == 1
    assert sent[0] > 100
    assert sent[1] <= 1 if use is PlaneUse.SHARED else sent[1] > 100
