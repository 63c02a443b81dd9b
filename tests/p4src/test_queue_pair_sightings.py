"""What a leaf reports of the connections of stock NICs, and what the controller makes of it.

h1 (stock) -- 1 +----+ 3 -- s3 -- s2 -- h3, h4
h2         -- 2 | s1 | 4 -- s4 ---'
                +----+
"""

from __future__ import annotations

import zlib
from typing import Any

import pytest
from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

import topologies
from controller.digests import digest_messages
from controller.entries import TableEntry, decode, describe
from controller.fabric_state import step
from controller.policy import FabricPolicy
from controller.target_facts import TargetFacts
from mechanisms.fast_cnp.parameters import FastCnp
from mechanisms.fast_cnp.queue_pairs import Kind
from mechanisms.fast_cnp.stock_queue_pairs import DIGEST, Sampling, StockQueuePairs, sighting_of
from protocols.rocev2 import Opcode
from softswitch.p4runtime.protos import p4r
from tests.p4src.conftest import Bench, Network
from topologies import Topology

MS = 1_000_000
PS_PER_MS = 1_000_000_000
INTERVAL, LATER, REPORTS = 100 * MS, 1000 * MS, 3
CELLS = 1 << 16


TWO_LEAVES = """
time_scale: 1
generator: leaf_spine
leaves: 2
spines: 2
hosts_per_leaf: 2
link: {rate: 1Gbps, delay: 500ns, queue: 1MB}
"""


@pytest.fixture
def topology() -> Topology:
    return topologies.loads(TWO_LEAVES, name="two leaves")


@pytest.fixture
def policy() -> FabricPolicy:
    return FabricPolicy(
        {"fast_cnp": {0: FastCnp()}},
        stock_nics=frozenset({"h1"}),
        options={
            "fast_cnp": Sampling(INTERVAL // MS * PS_PER_MS, LATER // MS * PS_PER_MS, REPORTS)
        },
    )


def roce(
    topology: Topology, src: str, dst: str, qp: int, psn: int, opcode: int = Opcode.SEND_ONLY
) -> Packet:
    here, there = topology.host(src), topology.host(dst)
    ip = IP(src=str(here.address.ip), dst=str(there.address.ip))
    frame = Ether(src=here.mac, dst=topology.switch(here.switch).mac) / ip
    return frame / UDP(sport=50001, dport=4791) / BTH(opcode=opcode, dqpn=qp, psn=psn)


def send(leaf: Bench, port: int, *frames: Packet) -> None:
    for frame in frames:
        leaf.switch.inject(port, bytes(frame / Raw(bytes(40))))
    leaf.settle()


def seen(leaf: Bench, wait_ns: int = INTERVAL) -> list[tuple[int, ...]]:
    """Return the reports since the last call, as (port, qp, psn, kind, length)."""
    leaf.settle(wait_ns)
    lists = [each for each in leaf.switch.digests if each.name == DIGEST]
    leaf.switch.digests.clear()
    found = [
        sighting_of(message)
        for each in lists
        for message in digest_messages("s1", each.message, leaf.p4info)
    ]
    return [(x.port, x.destination_qp, x.psn, int(x.kind), x.length) for x in found]


def test_data_of_a_stock_nic_is_reported(leaf: Bench, topology: Topology) -> None:
    send(leaf, 1, roce(topology, "h1", "h3", 0xABCDEF, 0xFEDCBA))
    leaf.settle(INTERVAL)
    (reported,) = leaf.switch.digests
    h1, h3 = (int(topology.host(name).address.ip) for name in ("h1", "h3"))
    assert reported.name == DIGEST
    assert reported.rows == ((h1, h3, 0xABCDEF, 0xFEDCBA, Kind.DATA, 0, 1, 1),)


@pytest.mark.parametrize("name", ["h2", "h3"])
def test_data_of_others_is_not(leaf: Bench, topology: Topology, name: str) -> None:
    port = 2 if name == "h2" else 3
    send(leaf, port, roce(topology, name, "h1", 5, 6))
    assert seen(leaf) == []


DATA = [*range(0x0C), 0x16, 0x17]
RESPONSES = range(0x0D, 0x11)
KINDS = {
    **dict.fromkeys(DATA, Kind.DATA),
    **dict.fromkeys(RESPONSES, Kind.READ_RESPONSE),
    Opcode.READ_REQUEST: Kind.READ_REQUEST,
    Opcode.ACK: Kind.ACKNOWLEDGEMENT,
}


def test_every_opcode_has_its_kind_at_its_host(leaf: Bench, topology: Topology) -> None:
    """What carries data counts if its sender has the stock NIC, the rest if its receiver has."""
    for opcode in range(256):
        send(leaf, 1, roce(topology, "h1", "h2", opcode, 1, opcode))
        send(leaf, 2, roce(topology, "h2", "h1", opcode, 2, opcode))
    found = {qp: (port, kind) for port, qp, _, kind, _ in seen(leaf)}
    to_the_stock_nic = (Kind.READ_REQUEST, Kind.ACKNOWLEDGEMENT)
    assert found == {
        int(opcode): (2 if kind in to_the_stock_nic else 1, kind) for opcode, kind in KINDS.items()
    }


def test_a_read_request_says_how_much_it_asks_for(leaf: Bench, topology: Topology) -> None:
    frame = roce(topology, "h2", "h1", 5, 6, Opcode.READ_REQUEST)
    send(leaf, 2, frame / Raw(bytes(12) + (70_000).to_bytes(4, "big")))
    assert seen(leaf) == [(2, 5, 6, Kind.READ_REQUEST, 70_000)]


@pytest.mark.parametrize("port", [2, 3])
def test_a_host_is_not_spoken_for_at_another_port(
    leaf: Bench, topology: Topology, port: int
) -> None:
    send(leaf, port, roce(topology, "h1", "h3", 5, 6))
    send(leaf, port, roce(topology, "h3", "h1", 5, 6, Opcode.ACK))
    assert seen(leaf) == []


def test_what_is_dropped_is_not_reported(leaf: Bench, topology: Topology) -> None:
    frame = roce(topology, "h1", "h3", 5, 6)
    frame[IP].ttl = 1
    send(leaf, 1, frame)
    assert seen(leaf) == []


def test_one_report_an_interval_and_then_fewer(leaf: Bench, topology: Topology) -> None:
    begun = leaf.switch.now_ns
    for number in range(400):  # 4 s, a packet each 10 ms
        frame = bytes(roce(topology, "h1", "h3", 5, number))
        leaf.switch.inject(1, frame, begun + number * 10 * MS)
    leaf.settle(INTERVAL)
    rows = [row for each in leaf.switch.digests for row in each.rows]
    members = [field.name for field in leaf.p4info.digests[DIGEST].fields]
    found = [dict(zip(members, row, strict=True)) for row in rows]
    assert [each["sequence"] for each in found] == [0, 10, 20, 120, 220, 320]
    assert [each["reports"] for each in found] == [1, 2, 3, 4, 5, 6]


def test_flows_are_reported_each_for_itself(leaf: Bench, topology: Topology) -> None:
    send(leaf, 1, *(roce(topology, "h1", "h3", qp, 7) for qp in range(50)))
    assert sorted(qp for _, qp, *_ in seen(leaf)) == list(range(50))


def colliding(topology: Topology) -> tuple[int, int]:
    """Two queue pairs of h3 whose data from h1 shares a cell, under different tags."""
    ends = b"".join(topology.host(name).address.ip.packed for name in ("h1", "h3"))
    cells: dict[int, tuple[int, int]] = {}
    for qp in range(1 << 20):
        mixed = zlib.crc32(ends + qp.to_bytes(3, "big") + bytes([Kind.DATA]))
        other, tag = cells.setdefault(mixed % CELLS, (qp, mixed >> 24))
        if tag != mixed >> 24:
            return other, qp
    raise AssertionError("no two queue pairs share a cell")


def test_two_flows_in_a_cell_take_turns(leaf: Bench, topology: Topology) -> None:
    one, two = colliding(topology)
    begun = leaf.switch.now_ns
    for number in range(60):
        for qp in (one, two):
            frame = bytes(roce(topology, "h1", "h3", qp, number))
            leaf.switch.inject(1, frame, begun + number * 10 * MS)
    reported = [(qp, psn) for _, qp, psn, *_ in seen(leaf)]
    turns = [(one if turn % 2 == 0 else two, 5 * turn) for turn in range(12)]
    assert reported == turns


@pytest.mark.parametrize(
    "policy",
    [FabricPolicy(stock_nics=frozenset({"h1"})), FabricPolicy({"fast_cnp": {0: FastCnp()}})],
    ids=["no fast CNP", "no stock NIC"],
)
def test_nothing_is_reported_where_nobody_needs_it(leaf: Bench, topology: Topology) -> None:
    send(leaf, 1, roce(topology, "h1", "h3", 5, 6))
    assert seen(leaf) == []


def learned(network: Network, switch: str) -> list[str]:
    table = network.switches[switch].p4info.tables["stock_queue_pairs"]
    wanted = p4r.Entity(table_entry=p4r.TableEntry(table_id=table.id))
    found = network.switches[switch].switch.read(wanted)
    entries = [decode(each, network.switches[switch].p4info) for each in found]
    return sorted(describe(each) for each in entries if isinstance(each, TableEntry))


def test_the_table_follows_from_what_leaves_report(
    network: Network, topology: Topology, policy: FabricPolicy
) -> None:
    """h1 and h3 talk over two connections; then s3 loses its link to s1."""
    facts = TargetFacts(priorities=8)
    queue_pairs = StockQueuePairs(topology, facts, policy)

    def learn(change: Any) -> None:
        if change is not None:
            network.model, writes = step(network.model, change, now=0)
            network.apply(writes)

    def tell() -> None:
        network.settle()
        for name, bench in network.switches.items():
            bench.settle(INTERVAL)
            for each in bench.switch.digests:
                messages = digest_messages(name, each.message, bench.p4info)
                learn(queue_pairs.heard(messages, bench.switch.now_ns))
            bench.switch.digests.clear()

    for number in range(30):
        for qp, peer, first in ((11, 21, 100), (12, 22, 9_000_000)):
            psn = first + number
            network.send("h1", roce(topology, "h1", "h3", qp, psn))
            network.send("h3", roce(topology, "h3", "h1", peer, psn, Opcode.ACK))
        tell()
    entries = [
        "stock_queue_pairs destination=0xa000201 qp=0xb -> set_source_qp(qp=0x15)",
        "stock_queue_pairs destination=0xa000201 qp=0xc -> set_source_qp(qp=0x16)",
    ]
    assert [learned(network, name) for name in network.switches] == [entries] * 4

    port = next(p.number for p in topology.ports_of("s1") if p.peer.node == "s3")
    network.set_link("s1", port, up=False)
    learn(queue_pairs.routed(network.model.routes(), 0))
    assert [learned(network, name) for name in ("s1", "s2", "s3", "s4")] == [
        entries, entries, [], entries,
    ]  # fmt: skip

    for bench in network.switches.values():
        bench.settle(4 * LATER)
    later = queue_pairs.logic.times.age_ns * 3
    learn(queue_pairs.elapsed(later))
    assert all(learned(network, name) == [] for name in network.switches)
