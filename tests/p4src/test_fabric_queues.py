"""What a queue does to packets: ECN marks above the installed depth, and classes by DSCP.

h1 -- 1 +----+ 2 -- slow -- h2
        | s1 |
        +----+
"""

from __future__ import annotations

from typing import Any

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from controller.entries import Exact, TableEntry, call, match
from controller.policy import FabricPolicy
from controller.target_facts import MAX_DEPTH, TargetFacts
from protocols.rocev2 import icrc_is_valid

NOT_CAPABLE, CAPABLE_1, CAPABLE_0, CONGESTED = 0, 1, 2, 3
CNP_DSCP = 48
SLOW_BPS = 1_000_000
LONG_NS = 10**9


def frames(leaf: Any, count: int, *, ecn: int = CAPABLE_0, dscp: int = 0, first: int = 0) -> list:
    """Equal frames from h1 to h2, numbered in the IPv4 identification."""
    h1, h2 = leaf.host("h1"), leaf.host("h2")
    ip = {"src": str(h1.address.ip), "dst": str(h2.address.ip), "tos": dscp << 2 | ecn}
    return [
        Ether(src=h1.mac, dst=leaf.me.mac) / IP(**ip, id=first + i) / UDP() / Raw(bytes(200))
        for i in range(count)
    ]


def slow_port(leaf: Any) -> None:
    """Port 2 gets a rate, so that what arrives together waits there."""
    leaf.switch.configure_port(2, rate_bps=SLOW_BPS, queue_packets=1000)


def install_threshold(leaf: Any, packets: int, class_of_service: int = 0) -> None:
    key = match(**{"port": Exact(2), "class": Exact(class_of_service)})
    leaf.install(TableEntry("ecn_threshold", key, call("mark_above", threshold=packets)))


def arrivals(leaf: Any) -> list[IP]:
    leaf.settle(LONG_NS)
    return [Ether(frame)[IP] for frame in leaf.take(2)]


def test_marks_only_while_more_than_the_threshold_waits(leaf: Any) -> None:
    slow_port(leaf)
    install_threshold(leaf, 5)
    leaf.send(1, *frames(leaf, 20))
    received = arrivals(leaf)
    assert [ip.id for ip in received] == list(range(20))
    # The first leaves at once, nothing behind it yet; behind the second wait 18, and so on to 0.
    waiting = [0, *range(18, -1, -1)]
    assert [ip.tos & 3 for ip in received] == [
        CONGESTED if behind > 5 else CAPABLE_0 for behind in waiting
    ]
    assert leaf.switch.counter_read("port_marked", 2)[0] == 13
    for ip in received:  # a mark changes the header's checksum
        sum_before = ip.chksum
        del ip.chksum
        assert IP(bytes(ip)).chksum == sum_before


def test_without_a_threshold_nothing_is_marked(leaf: Any) -> None:
    slow_port(leaf)
    leaf.send(1, *frames(leaf, 20))
    assert {ip.tos & 3 for ip in arrivals(leaf)} == {CAPABLE_0}


@pytest.mark.parametrize(("dscp", "marked"), [(0, 0), (CNP_DSCP, 18)])
def test_a_threshold_is_of_its_class(leaf: Any, dscp: int, marked: int) -> None:
    slow_port(leaf)
    install_threshold(leaf, 0, class_of_service=7)
    leaf.send(1, *frames(leaf, 20, dscp=dscp))
    assert sum(ip.tos & 3 == CONGESTED for ip in arrivals(leaf)) == marked


@pytest.mark.parametrize(
    ("ecn", "after"),
    [(NOT_CAPABLE, NOT_CAPABLE), (CAPABLE_1, CONGESTED), (CONGESTED, CONGESTED)],
)
def test_only_capable_flows_are_marked(leaf: Any, ecn: int, after: int) -> None:
    slow_port(leaf)
    install_threshold(leaf, 0)
    leaf.send(1, *frames(leaf, 3, ecn=ecn))
    assert arrivals(leaf)[1].tos & 3 == after


def test_a_marked_rdma_packet_keeps_its_icrc(leaf: Any) -> None:
    from scapy.contrib.roce import BTH

    slow_port(leaf)
    install_threshold(leaf, 0)
    h1, h2 = leaf.host("h1"), leaf.host("h2")
    ip = IP(src=str(h1.address.ip), dst=str(h2.address.ip), tos=26 << 2 | CAPABLE_0)
    rdma = Ether(src=h1.mac, dst=leaf.me.mac) / ip / UDP(sport=49152) / BTH(opcode=4) / b"data"
    leaf.send(1, rdma, rdma, rdma)
    leaf.settle(LONG_NS)
    received = leaf.take(2)
    assert [Ether(frame)[IP].tos & 3 for frame in received] == [CAPABLE_0, CONGESTED, CAPABLE_0]
    assert all(icrc_is_valid(frame) for frame in received)


def test_congestion_notifications_overtake(leaf: Any) -> None:
    slow_port(leaf)
    leaf.switch.inject(1, b"".join(map(bytes, frames(leaf, 1))))
    for frame in frames(leaf, 9, first=1) + frames(leaf, 1, dscp=CNP_DSCP, first=100):
        leaf.switch.inject(1, bytes(frame))
    order = [ip.id for ip in arrivals(leaf)]
    assert order == [0, 100, *range(1, 10)]


@pytest.mark.parametrize("policy", [FabricPolicy(class_of_dscp={})])
def test_without_a_class_map_nothing_overtakes(leaf: Any, policy: FabricPolicy) -> None:
    slow_port(leaf)
    leaf.send(1, *frames(leaf, 5), *frames(leaf, 1, dscp=CNP_DSCP, first=100))
    assert [ip.id for ip in arrivals(leaf)] == [0, 1, 2, 3, 4, 100]


@pytest.mark.parametrize(
    ("facts", "queued", "depth"),
    [
        (TargetFacts(), 150_000, 100),  # packets of 1500 bytes
        (TargetFacts(depth_cell_bytes=256), 150_000, 585),
        (TargetFacts(depth_cell_bytes=256), 10**9, MAX_DEPTH),
    ],
)
def test_the_controller_speaks_the_targets_unit(
    facts: TargetFacts, queued: int, depth: int
) -> None:
    assert facts.depth(queued, packet_bytes=1500) == depth


def install_ramp(leaf: Any, low: int, high: int, probability: float) -> None:
    key = match(**{"port": Exact(2), "class": Exact(0)})
    slope = int(probability * 2**32) // (high - low)
    ramp = call("mark_between", low=low, high=high, slope=slope)
    leaf.install(TableEntry("ecn_threshold", key, ramp))


def test_between_two_depths_ever_more_is_marked(leaf: Any) -> None:
    """A queue that drains from 1 000 packets meets every depth once a round."""
    rounds, low, high, most = 10, 200, 600, 0.5
    slow_port(leaf)
    install_ramp(leaf, low, high, most)
    marked: dict[int, int] = {}
    for _ in range(rounds):
        leaf.send(1, *frames(leaf, 900))
        leaf.settle(2 * LONG_NS)
        for behind, ip in zip([0, *range(898, -1, -1)], arrivals(leaf), strict=True):
            marked[behind] = marked.get(behind, 0) + ((ip.tos & 3) == CONGESTED)
    assert not any(marked[behind] for behind in range(1, low + 1))
    assert all(marked[behind] == rounds for behind in range(high + 1, 899))
    expected = [most * (behind - low) / (high - low) for behind in range(low + 1, high + 1)]
    for half, middle in ((slice(0, 200), low + 100), (slice(200, 400), low + 300)):
        share = expected[half]
        mean, spread = rounds * sum(share), (rounds * sum(p * (1 - p) for p in share)) ** 0.5
        depths = range(low + 1, high + 1)[half]
        assert abs(sum(marked[behind] for behind in depths) - mean) < 4 * spread, middle
