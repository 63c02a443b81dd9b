"""A three-tier fat tree from host to host: every tier spreads flows, whatever the one below chose.

s17   s18   s19   s20         cores: s9 is joined to s17 and s18, s10 to s19 and s20
 | \\ / |     | \\ / |
 s9 ... s15  s10 ... s16      spines
 s1, s2 ...     ... s7, s8    leaves, two hosts each
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import pytest
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.l2 import Ether

import topologies
from topologies import Topology

FLOWS = 128
CORES = ("s17", "s18", "s19", "s20")
FEWEST = 16  # of 128 flows over four cores; 32 is the mean, and the hash is fixed


@pytest.fixture
def topology() -> Topology:
    return topologies.load("fattree4")


@pytest.mark.parametrize(
    "source_port",
    [lambda n: 0xC000 + n, lambda n: 0xC000 + 16 * n, lambda n: 0xC000 + (n * 40503) % 0x4000],
    ids=["consecutive", "sixteen apart", "scattered"],
)
def test_flows_between_pods_use_every_core(network: Any, source_port: Callable[[int], int]) -> None:
    h1, h9 = network.topology.host("h1"), network.topology.host("h9")
    for number in range(FLOWS):
        packet = (
            Ether(src=h1.mac, dst=network.topology.switch("s1").mac)
            / IP(src=str(h1.address.ip), dst=str(h9.address.ip))
            / UDP(sport=source_port(number), dport=9)
            / b"data"
        )
        network.send("h1", packet)
    assert len(network.settle()["h9"]) == FLOWS
    carried = {
        name: sum(
            network.switches[name].rx(port.number)[0] for port in network.topology.ports_of(name)
        )
        for name in CORES
    }
    assert sum(carried.values()) == FLOWS
    assert min(carried.values()) >= FEWEST, carried


def test_pings_of_all_pairs_use_every_link_between_spines_and_cores(network: Any) -> None:
    hosts = network.topology.hosts
    for here, there in permutations(hosts, 2):
        gateway = network.topology.switch(here.switch).mac
        addresses = IP(src=str(here.address.ip), dst=str(there.address.ip))
        network.send(here.name, Ether(src=here.mac, dst=gateway) / addresses / ICMP() / b"ping")
    arrived = network.settle()
    assert {name: len(frames) for name, frames in arrived.items()} == {
        host.name: len(hosts) - 1 for host in hosts
    }
    unused = [
        f"{name}:{port.number}"
        for name in CORES
        for port in network.topology.ports_of(name)
        if network.switches[name].rx(port.number)[0] == 0
    ]
    assert unused == []
