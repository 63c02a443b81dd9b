"""What the default fabric looks like once loaded, and how real time follows from fabric time."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Interface

import pytest

import topologies
from topologies import Endpoint, Role

LINK = "{rate: 400Gbps, delay: 500ns, queue: 1MB}"


def leaf_spine(**overrides: object) -> topologies.Topology:
    values = {"time_scale": 10000, "spines": 2, "leaves": 2, "hosts_per_leaf": 2, "link": LINK}
    values.update(overrides)
    text = "\n".join(f"{key}: {value}" for key, value in values.items())
    return topologies.loads(f"generator: leaf_spine\n{text}\n")


def test_the_default_fabric() -> None:
    fabric = topologies.load("leafspine")
    assert fabric.name == "leafspine"
    assert [(s.name, s.role, s.device_id) for s in fabric.switches] == [
        ("s1", Role.LEAF, 1),
        ("s2", Role.LEAF, 2),
        ("s3", Role.SPINE, 3),
        ("s4", Role.SPINE, 4),
    ]
    assert [(h.name, str(h.address), h.switch, h.port) for h in fabric.hosts] == [
        ("h1", "10.0.1.1/24", "s1", 1),
        ("h2", "10.0.1.2/24", "s1", 2),
        ("h3", "10.0.2.1/24", "s2", 1),
        ("h4", "10.0.2.2/24", "s2", 2),
    ]
    h1, s1 = fabric.host("h1"), fabric.switch("s1")
    assert (h1.mac, s1.mac) == ("02:00:0a:00:01:01", "02:01:00:00:00:01")
    assert h1.gateway == IPv4Address("10.0.1.254")
    assert s1.gateway == IPv4Interface("10.0.1.254/24")
    assert fabric.switch("s3").gateway is None
    assert len(fabric.links) == 8


def test_ports_and_peers() -> None:
    fabric = topologies.load("leafspine")
    peers = {port.number: str(port.peer) for port in fabric.ports_of("s1")}
    assert peers == {1: "h1", 2: "h2", 3: "s3:1", 4: "s4:1"}
    assert fabric.peer("s3", 2) == Endpoint("s2", 3)
    assert fabric.link_at("h1") == fabric.link_at("s1", 1)
    assert [host.name for host in fabric.hosts_of("s2")] == ["h3", "h4"]
    with pytest.raises(KeyError):
        fabric.peer("s1", 9)


def test_real_time_is_fabric_time_scaled_once() -> None:
    fabric = topologies.load("leafspine")
    link = fabric.links[0]
    assert (link.rate_bps, link.delay_ps, link.queue_bytes) == (400 * 10**9, 500_000, 10**6)
    assert fabric.real_rate_bps(link) == 40_000_000
    assert fabric.real_delay_ns(link) == 5_000_000
    simulated = fabric.with_time_scale(1)
    assert simulated.real_rate_bps(link) == 400 * 10**9
    assert simulated.real_delay_ns(link) == 500
    with pytest.raises(ValueError, match="at least 1"):
        fabric.with_time_scale(0)


def test_every_shipped_topology_loads() -> None:
    assert {"leafspine", "triangle"} <= set(topologies.available())
    for name in topologies.available():
        assert topologies.load(name).name == name


def test_the_explicit_form() -> None:
    ring = topologies.load("triangle")
    assert [switch.role for switch in ring.switches] == [Role.LEAF] * 3
    assert str(ring.host("h3").address) == "10.0.3.33/24"
    slow = ring.link_at("s3", 3)
    assert (slow.rate_bps, slow.delay_ps, slow.queue_bytes) == (100 * 10**9, 2_000_000, 10**6)


@pytest.mark.parametrize(
    ("spines", "leaves", "hosts_per_leaf"), [(1, 1, 1), (4, 3, 2), (8, 20, 5), (2, 254, 1)]
)
def test_leaf_spine_of_any_size(spines: int, leaves: int, hosts_per_leaf: int) -> None:
    fabric = leaf_spine(spines=spines, leaves=leaves, hosts_per_leaf=hosts_per_leaf)
    assert len(fabric.switches) == spines + leaves
    assert len(fabric.hosts) == leaves * hosts_per_leaf
    assert len(fabric.links) == leaves * (hosts_per_leaf + spines)
    assert len({host.address for host in fabric.hosts}) == len(fabric.hosts)
    macs = [node.mac for node in (*fabric.switches, *fabric.hosts)]
    assert len(set(macs)) == len(macs)
    for spine in fabric.switches_with(Role.SPINE):
        leaves_of = [port.peer.node for port in fabric.ports_of(spine.name)]
        assert leaves_of == [f"s{1 + i}" for i in range(leaves)]


def test_host_links_may_differ() -> None:
    fabric = leaf_spine(host_link="{rate: 200Gbps}")
    assert fabric.link_at("h1").rate_bps == 200 * 10**9
    assert fabric.link_at("h1").delay_ps == 500_000
    assert fabric.link_at("s1", 3).rate_bps == 400 * 10**9
