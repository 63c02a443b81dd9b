"""The default fabric as a whole, from host to host, with exactly what the controller installs.

            s3    s4
            | \\  / |
            |  /\\  |
            s1    s2
           /  \\  /  \\
          h1  h2 h3  h4
"""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from scapy.contrib.roce import AETH, BTH
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Packet, Raw

from protocols.rocev2 import RETH, icrc_is_valid

HOSTS = ("h1", "h2", "h3", "h4")
NAK = 0x60


def frame(network: Any, src: str, dst: str, rest: Packet, **ip: object) -> Packet:
    a, b = network.topology.host(src), network.topology.host(dst)
    gateway = network.topology.switch(a.switch)
    addresses = {"src": str(a.address.ip), "dst": str(b.address.ip)}
    return Ether(bytes(Ether(src=a.mac, dst=gateway.mac) / IP(**addresses, **ip) / rest))


def spine_packets(network: Any) -> dict[str, int]:
    """Packets that each spine received."""
    return {
        name: sum(network.switches[name].rx(port)[0] for port in (1, 2)) for name in ("s3", "s4")
    }


@pytest.mark.parametrize(("src", "dst"), list(permutations(HOSTS, 2)))
def test_every_pair_reaches_each_other(network: Any, src: str, dst: str) -> None:
    sent = frame(network, src, dst, ICMP(id=1) / b"ping")
    network.send(src, sent)
    arrived = network.settle()
    (got,) = arrived.pop(dst)
    assert not any(arrived.values())
    here, there = network.topology.host(src), network.topology.host(dst)
    wanted = sent.copy()
    wanted.src, wanted.dst = network.topology.switch(there.switch).mac, there.mac
    wanted[IP].ttl = sent[IP].ttl - (1 if here.switch == there.switch else 3)
    del wanted[IP].chksum
    assert got == bytes(wanted)


@pytest.mark.parametrize("host", HOSTS)
def test_every_host_finds_its_gateway(network: Any, host: str) -> None:
    me = network.topology.host(host)
    request = ARP(hwsrc=me.mac, psrc=str(me.address.ip), pdst=str(me.gateway))
    network.send(host, Ether(src=me.mac, dst="ff:ff:ff:ff:ff:ff") / request)
    (answer,) = network.settle()[host]
    assert Ether(answer)[ARP].hwsrc == network.topology.switch(me.switch).mac


def test_a_host_pings_a_gateway_across_the_fabric(network: Any) -> None:
    sent = frame(network, "h1", "h3", ICMP(id=3, seq=9) / b"gateway of s2")
    sent[IP].dst = "10.0.2.254"
    del sent[IP].chksum
    network.send("h1", sent)
    (got,) = network.settle()["h1"]
    answer = Ether(got)
    assert (answer[IP].src, answer[IP].dst) == ("10.0.2.254", "10.0.1.1")
    assert answer[ICMP].type == 0
    assert bytes(answer[ICMP].payload) == b"gateway of s2"


ROCE = [
    BTH(opcode="RC_SEND_ONLY", dqpn=5, psn=1) / Raw(b"send"),
    BTH(opcode="RC_RDMA_WRITE_FIRST", dqpn=5, psn=1)
    / RETH(address=0x7F00, rkey=1, length=4096)
    / Raw(bytes(1024)),
    BTH(opcode="RC_RDMA_WRITE_MIDDLE", dqpn=5, psn=2) / Raw(bytes(1024)),
    BTH(opcode="RC_RDMA_READ_REQUEST", dqpn=5, psn=3) / RETH(address=0x7F00, rkey=1, length=64),
    BTH(opcode=0x10, dqpn=5, psn=3) / AETH(syndrome=0, msn=2) / Raw(bytes(64)),
    BTH(opcode="RC_ACKNOWLEDGE", dqpn=5, psn=1) / AETH(syndrome=0x1F, msn=1),
    BTH(opcode="RC_ACKNOWLEDGE", dqpn=5, psn=1) / AETH(syndrome=NAK, msn=1),
    BTH(opcode="CNP", becn=1, dqpn=5) / Raw(bytes(16)),
]


@pytest.mark.parametrize("rdma", ROCE, ids=lambda p: p.sprintf("%BTH.opcode%"))
def test_rdma_crosses_unchanged_and_its_icrc_holds(network: Any, rdma: Packet) -> None:
    sent = frame(network, "h1", "h4", UDP(sport=51000, chksum=0) / rdma, tos=26 << 2 | 2)
    assert icrc_is_valid(bytes(sent))
    network.send("h1", sent)
    (got,) = network.settle()["h4"]
    assert icrc_is_valid(got)
    assert got[14 + 20 :] == bytes(sent)[14 + 20 :]
    assert network.switches["s1"].switch.counter_read("roce_rx", 1) == (1, len(sent))
    naks = network.switches["s1"].switch.counter_read("roce_nak_rx", 1)[0]
    assert naks == (1 if AETH in sent and sent[AETH].syndrome == NAK else 0)


def test_rdma_uses_both_spines(network: Any) -> None:
    flows = range(49152, 49152 + 128)
    for sport in flows:
        rdma = BTH(opcode="RC_SEND_ONLY", dqpn=sport & 0xFFF) / Raw(b"payload")
        network.send("h1", frame(network, "h1", "h3", UDP(sport=sport) / rdma))
    arrived = network.settle()["h3"]
    assert len(arrived) == len(flows)
    assert all(icrc_is_valid(got) for got in arrived)
    by_spine = spine_packets(network)
    assert sum(by_spine.values()) == len(flows)
    assert min(by_spine.values()) >= 32


def test_a_flow_uses_one_spine_and_stays_in_order(network: Any) -> None:
    sent = [
        frame(network, "h2", "h4", UDP(sport=50000) / BTH(opcode=4, psn=i) / Raw(b"x"))
        for i in range(20)
    ]
    network.send("h2", *sent)
    arrived = network.settle()["h4"]
    assert [Ether(got)[BTH].psn for got in arrived] == list(range(20))
    assert sorted(spine_packets(network).values()) == [0, 20]


def test_counters_are_exact_at_every_hop(network: Any) -> None:
    sent = frame(network, "h1", "h3", UDP(sport=1, dport=2) / Raw(bytes(100)))
    for _ in range(10):
        network.send("h1", sent)
    network.settle()
    carried = (10, 10 * len(sent))
    s1, s2 = network.switches["s1"], network.switches["s2"]
    (uplink,) = [port for port in (3, 4) if s1.tx(port) != (0, 0)]
    spine = network.switches["s3" if uplink == 3 else "s4"]
    assert s1.rx(1) == s1.tx(uplink) == carried
    assert spine.rx(1) == spine.tx(2) == carried
    assert s2.rx(uplink) == s2.tx(1) == carried
    assert all(bench.dropped() == {} for bench in network.switches.values())


def test_a_dead_link_is_routed_around_and_used_again(network: Any) -> None:
    def send_many() -> int:
        for sport in range(64):
            network.send("h1", frame(network, "h1", "h3", UDP(sport=sport, dport=9) / Raw(b"x")))
        return len(network.settle()["h3"])

    writes = network.set_link("s1", 3, up=False)
    assert {name for name, updates in writes.items() if updates} == {"s1", "s2", "s3"}
    before = spine_packets(network)
    assert send_many() == 64
    assert spine_packets(network) == {"s3": before["s3"], "s4": before["s4"] + 64}
    network.set_link("s1", 3, up=True)
    assert send_many() == 64
    assert spine_packets(network)["s3"] > before["s3"]
