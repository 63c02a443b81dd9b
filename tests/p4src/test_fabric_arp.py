"""The leaf answers ARP itself: hosts need no static neighbours, and no first packet is lost.

h1 10.0.1.1 -- 1 +----+ 3 -- s3
                 | s1 |            gateway 10.0.1.254
h2 10.0.1.2 -- 2 +----+ 4 -- s4
"""

from __future__ import annotations

from typing import Any

import pytest
from scapy.layers.l2 import ARP, Ether

BROADCAST = "ff:ff:ff:ff:ff:ff"
ARP_UNKNOWN = 5
PARSER_ERROR = 2


def who_has(host: Any, address: str, **fields: object) -> Ether:
    values = {"op": "who-has", "hwsrc": host.mac, "psrc": str(host.address.ip), "pdst": address}
    return Ether(src=host.mac, dst=BROADCAST) / ARP(**{**values, **fields})


@pytest.mark.parametrize("address", ["10.0.1.254", "10.0.1.2"])
def test_answers_for_the_gateway_and_for_its_hosts(leaf: Any, address: str) -> None:
    h1, s1 = leaf.host("h1"), leaf.me
    leaf.send(1, who_has(h1, address))
    answer = ARP(op="is-at", hwsrc=s1.mac, psrc=address, hwdst=h1.mac, pdst=str(h1.address.ip))
    leaf.expect(1, Ether(src=s1.mac, dst=h1.mac) / answer)
    assert leaf.rx(1) == (1, 42)
    assert leaf.tx(1) == (1, 42)
    assert leaf.dropped() == {}


def test_keeps_what_follows_the_arp_packet(leaf: Any) -> None:
    h2, s1 = leaf.host("h2"), leaf.me
    padding = bytes(18)  # to the 60 bytes that Ethernet cards send at least
    leaf.send(2, bytes(who_has(h2, "10.0.1.254")) + padding)
    answer = ARP(op="is-at", hwsrc=s1.mac, psrc="10.0.1.254", hwdst=h2.mac, pdst="10.0.1.2")
    leaf.expect(2, bytes(Ether(src=s1.mac, dst=h2.mac) / answer) + padding)


@pytest.mark.parametrize(
    ("address", "fields"),
    [
        pytest.param("10.0.1.77", {}, id="nobody's address"),
        pytest.param("10.0.2.1", {}, id="a host elsewhere: ask the gateway"),
        pytest.param("10.0.1.1", {}, id="gratuitous: its own address"),
        pytest.param("10.0.1.1", {"psrc": "0.0.0.0"}, id="probe for duplicates"),
        pytest.param("10.0.1.2", {"op": "is-at"}, id="an answer"),
    ],
)
def test_says_nothing_else(leaf: Any, address: str, fields: dict[str, object]) -> None:
    leaf.send(1, who_has(leaf.host("h1"), address, **fields))
    leaf.expect_nothing()
    assert leaf.dropped() == {ARP_UNKNOWN: 1}


@pytest.mark.parametrize("offset", range(14, 20))
def test_arp_for_other_protocols_is_no_arp(leaf: Any, offset: int) -> None:
    frame = bytearray(bytes(who_has(leaf.host("h1"), "10.0.1.254")))
    frame[offset] ^= 1  # in turn: hardware, protocol, their address lengths
    leaf.send(1, bytes(frame))
    leaf.expect_nothing()
    assert leaf.dropped() == {PARSER_ERROR: 1}
