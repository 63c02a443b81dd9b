"""What hosts are given beyond their addresses: neighbours that stay."""

from __future__ import annotations

from emulation.host_setup import static_neighbours
from topologies import loads

TEXT = """
time_scale: 1
controller: none
switches: [s1, s2]
hosts:
  - {name: h1, address: 10.0.0.1/24, mac: "02:00:00:00:00:01"}
  - {name: h2, address: 10.0.0.2/24, mac: "02:00:00:00:00:02", gateway: 10.0.0.9}
  - {name: h3, address: 10.0.7.3/24, mac: "02:00:00:00:00:03"}
link: {rate: 1Gbps, delay: 0ns, queue: 1MB}
links: [{a: h1, b: "s1:1"}, {a: h2, b: "s2:1"}, {a: h3, b: "s2:2"}, {a: "s1:2", b: "s2:3"}]
"""


def test_a_host_knows_its_networks_and_its_gateways_but_no_others() -> None:
    topology = loads(TEXT)
    add = "neigh replace {} lladdr {} nud permanent dev x"
    found = {host.name: list(static_neighbours(topology, host, ["x"])) for host in topology.hosts}
    assert found == {
        "h1": [
            add.format("10.0.0.254", "02:01:00:00:00:01"),
            add.format("10.0.0.2", "02:00:00:00:00:02"),
        ],
        "h2": [
            add.format("10.0.0.9", "02:01:00:00:00:02"),
            add.format("10.0.0.1", "02:00:00:00:00:01"),
        ],
        "h3": [add.format("10.0.7.254", "02:01:00:00:00:02")],
    }
