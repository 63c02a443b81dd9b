"""Emulated links of the in-process switch, as labs use them.

h1 --- 1 [l3 switch] 2 --- h2    everything for 10/8 leaves by port 2
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Packet

from softswitch import Switch
from softswitch.core import Direction, PortImpair
from softswitch.impairments import Flow, fixed_point, impair

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
ROCE = IP(src="10.0.1.1", dst="10.0.2.1") / UDP(sport=49152, dport=4791) / bytes(64)


@pytest.fixture
def l3() -> Iterator[Switch]:
    with Switch.from_json(GOLDEN / "l3.json", GOLDEN / "l3.p4info.txtpb") as switch:
        switch.table_add("I.route", {"h.ip.dst": ("10.0.0.0", 8)}, "I.fwd", {"mac": 2, "port": 2})
        yield switch


def ethernet(packet: Packet, *tags: Packet) -> bytes:
    frame = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:99")
    for tag in tags:
        frame /= tag
    return bytes(frame / packet)


FLOW = Flow("10.0.1.0/24", "10.0.2.1", "udp", 49152, 4791)


@pytest.mark.parametrize(
    ("flow", "packet", "hit"),
    [
        (FLOW, ethernet(ROCE), True),
        (FLOW, ethernet(ROCE, Dot1Q(vlan=5)), True),
        (FLOW, ethernet(ROCE, Dot1Q(type=0x88A8, vlan=6), Dot1Q(vlan=5)), True),
        (Flow(), ethernet(ROCE), True),
        (Flow(dport=4791), ethernet(ROCE), True),
        (Flow(protocol="udp"), ethernet(ROCE), True),
        (Flow(protocol=17, src="10.0.1.1"), ethernet(ROCE), True),
        (Flow(dport=80), ethernet(IP() / TCP(dport=80)), True),
        (Flow(protocol="icmp"), ethernet(IP() / ICMP()), True),
        (Flow(dport=4791), ethernet(IP(options=b"\x01" * 4) / ROCE[UDP]), True),
        (Flow(protocol="udp"), ethernet(IP(frag=9) / bytes(64)), False),  # protocol 0
        (Flow(dport=4791), ethernet(IP(frag=9, proto=17) / bytes(ROCE[UDP])), False),
        (Flow(protocol="tcp"), ethernet(ROCE), False),
        (Flow(src="10.0.2.1"), ethernet(ROCE), False),
        (Flow(dst="10.0.3.0/24"), ethernet(ROCE), False),
        (Flow(sport=4791), ethernet(ROCE), False),
        (Flow(dport=49152), ethernet(ROCE), False),
        (Flow(dport=8), ethernet(IP() / ICMP()), False),  # ICMP has no ports
        (Flow(), ethernet(IPv6() / UDP()), False),
        (Flow(), ethernet(ROCE)[:33], False),  # the header is cut off
        (Flow(dport=4791), ethernet(ROCE)[:37], False),  # the ports are
        (Flow(), ethernet(ROCE, Dot1Q())[:16], False),
        (Flow(), bytes(3), False),
        (Flow(), b"", False),
    ],
)
def test_a_flow_is_lost_silently(l3: Switch, flow: Flow, packet: bytes, hit: bool) -> None:
    l3.configure_port(1, receive=impair(flow=flow))
    l3.inject(1, packet)
    stats = l3.impair_stats(1, Direction.RECEIVE)
    assert (stats.frames, stats.lost_flow) == (1, int(hit))
    assert l3.stats(1).rx_packets == int(not hit)


def test_only_the_flow_is_lost_and_counters_tell_where(l3: Switch) -> None:
    l3.configure_port(2, send=impair(flow=FLOW))
    other = ethernet(IP(src="10.0.3.1", dst="10.0.2.1") / UDP(sport=49152, dport=4791) / bytes(64))
    for packet in (ethernet(ROCE), other, ethernet(ROCE)):
        l3.inject(1, packet)
    (output,) = l3.run_until(1000)
    assert output.packet[26:30] == bytes([10, 0, 3, 1])
    assert l3.stats(2).tx_packets == 3  # the switch has sent them: its own counters show nothing
    assert l3.impair_stats(2).lost_flow == 2


def test_part_of_a_flow_may_be_lost(l3: Switch) -> None:
    l3.configure_port(2, send=impair(flow=FLOW, flow_loss="25%"))
    for n in range(400):
        l3.inject(1, ethernet(ROCE), at_ns=n)
    assert len(l3.run_until(1000)) == 400 - l3.impair_stats(2).lost_flow
    assert 65 < l3.impair_stats(2).lost_flow < 135


def test_settings_are_those_of_the_last_call(l3: Switch) -> None:
    l3.configure_port(2, send=impair(loss=1), weights={0: 1}, queue_cells=3)
    l3.inject(1, ethernet(ROCE))
    assert l3.run_until(10) == []
    assert l3.core.port_scheduler(2).quanta[0] > 0
    l3.configure_port(2)
    l3.inject(1, ethernet(ROCE))
    assert len(l3.run_until(20)) == 1
    assert l3.core.port_impair(2, Direction.SEND) == PortImpair()
    assert not any(l3.core.port_scheduler(2).quanta)


@pytest.mark.parametrize(
    ("share", "value"),
    [
        ("1%", 42_949_673),
        (0.5, 1 << 31),
        ("1e-9", 4),
        ("100%", 1 << 32),
        ("0", 0),
        (1, 1 << 32),
        ("1/3", 1_431_655_765),
    ],
)
def test_shares_as_people_write_them(share: str | float, value: int) -> None:
    assert fixed_point(share) == value


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ({"loss": "2"}, "not from 0 to 1"),
        ({"loss": -0.1}, "not from 0 to 1"),
        ({"loss": "one"}, "write it as 1% or 0.01"),
        ({"loss": True}, "write it as 1% or 0.01"),
        ({"loss": "1/0"}, "write it as 1% or 0.01"),
        ({"corrupt": "1e-12"}, "too little"),
        ({"bit_errors": "51%"}, "not from 0 to 1/2"),
        ({"flow": Flow(src="10.0.0.1/8")}, "10.0.0.1/8"),
        ({"flow": Flow(sport=0)}, "sport"),
        ({"flow": Flow(protocol=256)}, "256"),
    ],
)
def test_settings_that_make_no_sense(setting: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        impair(**setting)
