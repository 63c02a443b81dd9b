"""Queue pairs over two planes of real hosts: a plane that is lost, told of, drained, and back.

h1  near 10.77.1.1 ======================= near 10.77.1.2  h2
    far  10.77.2.1 ==== left [wire] right ==== far 10.77.2.2
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.l2 import Ether

from hostagent import agent
from hostagent.rnic.card_records import EventKind
from hostagent.rnic.client import EndpointClient, RequestRefused, join
from hostagent.rnic.interface import mac_text
from hostagent.rnic.planes import PlaneConfig, PlaneLoss, PlaneState, PlaneUse
from protocols.notification import Notification, NotificationType, datagram
from tests.hostagent.both_wires import (
    BOTH,
    MS,
    NAMES,
    Way,
    arrived,
    exchange,
    hosts,
    joined_by_both,
    maps,
    sent,
    way,
    write,
)
from tests.hostagent.two_hosts import Joined, TwoHosts, daemon, until

pytestmark = [pytest.mark.root, pytest.mark.realtime]
__all__ = ["hosts", "maps", "way"]

LINE = 16_000_000  # a megabyte takes a quarter of a second by both
PLANES = replace(
    BOTH,
    reorder_ps=50 * MS,
    timeout_ps=2_000 * MS,
    planes=PlaneConfig(PlaneUse.SHARED, misses=4, silence_ps=200 * MS, probe_ps=20 * MS),
)
CONTROL = {
    "dual_plane": {
        "line_rate": LINE,
        "min_rate": LINE // 100,
        "hold_ns": 50_000_000,
        "hold_most_ns": 10_000_000_000,
        "stable_ns": 2_000_000_000,
        "ramp_ns": 1_000_000,
        "answers": 3,
    }
}


@pytest.fixture
def pair(hosts: TwoHosts, way: Way) -> Iterator[Joined]:
    with joined_by_both(hosts, way, LINE, PLANES, CONTROL) as found:
        yield found


def state(pair: Joined, plane: int = 1) -> PlaneState:
    return pair.one.plane_stats(pair.near.qpn)[plane].state


def under_way(pair: Joined) -> None:
    """Wait until plane 1 carries some of what was posted, and much is left."""
    until(lambda: pair.one.plane_stats(pair.near.qpn)[1].sent_packets > 10, pair.one)


def test_planes_share_and_each_has_a_slot(hosts: TwoHosts, way: Way) -> None:
    with joined_by_both(hosts, way, 200_000_000, PLANES, CONTROL) as pair:
        for seed, size in enumerate((1, 2049, 300_001)):
            exchange(pair, size, seed)
        planes = pair.one.plane_stats(pair.near.qpn)
        own = pair.one.pair_stats(pair.near.qpn)
        if way[1] is not None:
            mine = sorted(s.plane for s in way[1].slots() if s.qpn == pair.near.qpn)
            assert mine == [0, 1]
    assert own.repeated_packets == 0
    assert [plane.losses for plane in planes] == [0, 0]
    assert sum(plane.sent_packets for plane in planes) == own.sent_packets
    assert min(plane.sent_packets for plane in planes) > 0.3 * own.sent_packets
    if way[1] is not None:
        assert not list(way[1].slots())


def test_a_plane_is_lost_by_its_link_and_found_again(hosts: TwoHosts, pair: Joined) -> None:
    data = write(pair, 5)
    under_way(pair)
    hosts.h1.ip(f"link set {NAMES[1]} down")
    try:
        until(lambda: state(pair) is PlaneState.LOST, pair.one)
        assert pair.one.plane_stats(pair.near.qpn)[1].why is PlaneLoss.LINK
        arrived(pair, data)
        assert pair.one.pair_stats(pair.near.qpn).timeouts == 0
    finally:
        hosts.h1.ip(f"link set {NAMES[1]} up")
    until(lambda: state(pair) is PlaneState.UP, pair.one, 20)
    plane = pair.one.plane_stats(pair.near.qpn)[1]
    assert plane.up_at - plane.lost_at >= 50 * MS  # it was held down
    assert plane.probes_answered >= 3
    before = plane.sent_packets
    exchange(pair, 300_000, 7)
    assert pair.one.plane_stats(pair.near.qpn)[1].sent_packets > before + 30


def test_a_plane_is_lost_by_a_switchs_word(hosts: TwoHosts, pair: Joined) -> None:
    one, other = (end.config.interfaces[1] for end in (pair.one, pair.other))
    said = Notification(
        type=NotificationType.LINK_DOWN,
        severity=15,
        validity=9,
        switch_id=3,
        port=2,
        destination=str(IPv4Address(other.ip)),
    )
    link = Ether(dst=mac_text(one.mac), src=mac_text(other.mac))
    frame = bytes(link / datagram(said, to=str(IPv4Address(one.ip))))

    def send() -> None:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as wire:
            wire.bind((NAMES[1], 0))
            wire.send(frame)

    data = write(pair, 6)
    agent.in_namespace(hosts.h2.pid, send)
    until(lambda: pair.one.plane_stats(pair.near.qpn)[1].losses == 1, pair.one, 10)
    assert pair.one.plane_stats(pair.near.qpn)[1].why is PlaneLoss.TOLD
    assert pair.one.plane_stats(pair.near.qpn)[0].losses == 0
    arrived(pair, data)
    until(lambda: state(pair) is PlaneState.UP, pair.one, 20)  # it is well, and answers


def test_a_drained_plane_carries_nothing_new_and_loses_nothing(pair: Joined) -> None:
    data = write(pair, 7)
    under_way(pair)
    pair.one.drain(1, True)
    arrived(pair, data)
    plane = pair.one.plane_stats(pair.near.qpn)[1]
    assert (plane.state, plane.losses, plane.moved_packets) == (PlaneState.DRAINED, 0, 0)
    assert pair.one.pair_stats(pair.near.qpn).repeated_packets == 0
    pair.one.drain(1, False)
    assert state(pair) is not PlaneState.DRAINED
    pair.events(0, EventKind.COMPLETED).clear()
    before = plane.sent_packets
    exchange(pair, 100_000, 8)
    assert pair.one.plane_stats(pair.near.qpn)[1].sent_packets > before + 10


def test_daemons_join_queue_pairs_over_planes(hosts: TwoHosts, tmp_path: Path) -> None:
    planes = {"silence_us": 200_000, "misses": 4, "probe_us": 20_000}
    settings: dict[str, Any] = {
        "repeat": "selective-repeat",
        "reorder_us": 50_000,
        "window": 256,
        "interfaces": "all",
        "congestion_control": CONTROL,
    }
    with ExitStack() as stack:
        clients = []
        for place, host in enumerate((hosts.h1, hosts.h2), 1):
            path, also = tmp_path / f"{place}", f"far,10.77.2.{place},100000000"
            options = ("--line-rate", "100000000", "--also", also)
            stack.enter_context(daemon(host, f"10.77.1.{place}", path, *options))
            clients.append(stack.enter_context(EndpointClient.connect(path)))
        for wrong, says in (
            ({"planes": {"misses": 3}}, "planes are a mapping of silence_us, misses, probe_us"),
            ({"planes": planes, "interfaces": "one"}, "planes need selective repeat and two"),
            ({"planes": planes, "repeat": "go-back-n"}, "planes need selective repeat and two"),
        ):
            with pytest.raises(RequestRefused, match=says):
                clients[0].call("open", **{**settings, **wrong})
        with pytest.raises(RequestRefused, match="no interface 2: the card has 0 to 1"):
            clients[0].call("drain", interface=2)
        ours, theirs = join(*clients, qps=1, buffer_bytes=65536, planes=planes, **settings)
        clients[0].call("drain", interface=1)
        before = sent(hosts.h1)
        task = {"operation": "write", "mode": "bandwidth", "size": 65536, "count": 4}
        result = clients[0].call("measure", timeout_s=60, qpns=ours, **task)
        near, far = (now - then for now, then in zip(sent(hosts.h1), before, strict=True))
        assert result["messages"] == 4
        assert near >= 4 * 65536 // 2048
        assert far <= 2
        (row,) = clients[0].call("stats")["pairs"]
        assert [plane["state"] for plane in row["planes"]][1] == "drained"
        for size, contents in ((65536, 7), (3, 8)):
            there = {"qpn": theirs[0], "contents": contents, "size": size}
            task |= {"size": size, "count": 1, "contents": contents}
            clients[0].call("measure", timeout_s=60, qpns=ours, **task)
            assert clients[1].call("compare", **there) == {"wrong_bytes": 0}
        whole = {"qpn": theirs[0], "contents": 7, "size": 65536}
        assert clients[1].call("compare", **whole) == {"wrong_bytes": 3}  # of the last message
        with pytest.raises(RequestRefused, match="65537 bytes, and the queue pair's buffer has"):
            clients[1].call("compare", **{**whole, "size": 65537})
        clients[0].call("drain", interface=1, on=False)
        (row,) = clients[0].call("stats")["pairs"]
        assert [plane["why"] for plane in row["planes"]] == [None, None]
        assert [plane["losses"] for plane in row["planes"]] == [0, 0]
