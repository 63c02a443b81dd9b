"""Pins in the switch: which packets follow them, and who overrules whom.

s3 s4 s5 s6      leaf s1, its four ways, and queue pairs of h1 to the other leaf's h3
  \\ | | /
    s1 -- h1
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

import topologies
from compiler import compile_p4
from controller.diff import Change, Operation, changes
from controller.entries import DefaultEntry, Entry, TableEntry
from controller.fabric_state import FabricModel, desired_entries
from controller.p4info import P4Info
from controller.policy import FabricPolicy
from controller.target_facts import TargetFacts
from mechanisms.dpfr.entries import MODE_TABLE, STAND_STILL
from mechanisms.iglb.counters import OUTCOMES, cells
from mechanisms.iglb.entries import PIN_TABLE
from mechanisms.iglb.pins import follow, pin
from mechanisms.program import FABRIC
from protocols.rocev2 import ROCE_V2_PORT
from softswitch import Switch
from softswitch.core import CoreConfig, PortState
from softswitch.p4runtime.protos import p4r

TOPOLOGY = """\
time_scale: 1
generator: leaf_spine
leaves: 2
spines: 4
hosts_per_leaf: 2
link: {rate: 100Gbps, delay: 500ns, queue: 1MB}
classes: {roce: {dscp: 26, queue: 3, lossless: true, load_balancing: round-robin}, rest: {queue: 0}}
dpfr: true
"""
WRITE_ONLY, ACKNOWLEDGE, READ_REQUEST = 0x0A, 0x11, 0x0C
ROCE_DSCP, OTHER_DSCP = 26, 0


@cache
def program() -> object:
    defines = ("PROFILE", "WITH_FABRIC", "WITH_DLB", "WITH_DPFR", "WITH_IGLB")
    return compile_p4(FABRIC, defines=defines)


class Leaf:
    """s1 with its entries."""

    def __init__(self, iglb: str, watches: bool = True) -> None:
        self.topology = topologies.loads(TOPOLOGY + f"iglb: {iglb}\n")
        made = program()
        config = CoreConfig(priorities=8)
        self.switch = Switch.from_json(made.json_text.encode(), made.p4info, config=config)
        self.info = P4Info(made.p4info)
        facts = TargetFacts(priorities=8, clone_classes=True, watches_ports=watches)
        policy = FabricPolicy.of(self.topology)
        model = FabricModel(self.topology, self.info, facts, policy)
        found = changes(desired_entries(model, "s1"), (), self.info)
        self.write(*found)
        self.ways = [
            port.number
            for port in self.topology.ports_of("s1")
            if self.topology.is_switch(port.peer.node)
        ]
        self.source = self.topology.host("h1").interfaces[0]
        self.target = self.topology.host("h3").interfaces[0]

    def write(self, *changes: Change) -> None:
        statuses = self.switch.write([change.encode(self.info) for change in changes])
        assert statuses is None or all(statuses)

    def put(self, entry: Entry) -> None:
        insert = isinstance(entry, TableEntry)
        self.write(Change(Operation.INSERT if insert else Operation.MODIFY, entry))

    def pin(self, version: int, udp_port: int, port: int) -> TableEntry:
        flow = (int(self.source.address.ip), int(self.target.address.ip), udp_port)
        return pin(version, flow, port)

    def port_of(
        self, udp_port: int, opcode: int = WRITE_ONLY, dscp: int = ROCE_DSCP, to: int = ROCE_V2_PORT
    ) -> int | None:
        """Send a packet; return the port by which it leaves, None if by none."""
        bth = bytes((opcode, 0, 0xFF, 0xFF, 0, 0, 0, 9, 0, 0, 0, 1))
        frame = (
            Ether(dst=self.topology.switch("s1").mac, src=self.source.mac)
            / IP(src=str(self.source.address.ip), dst=str(self.target.address.ip), tos=dscp << 2)
            / UDP(sport=udp_port, dport=to, chksum=0)
            / (bth + bytes(64))
        )
        self.switch.inject(self.source.port, bytes(frame))
        found = self.switch.run_until(self.switch.now_ns + 1_000_000)
        for out in found:
            packet = Ether(out.packet)
            if packet.haslayer(UDP) and packet[UDP].sport == udp_port:
                return int(out.port)
        return None

    def spread(self, udp_port: int, **said: int) -> set[int | None]:
        """Return the ports of packets that round-robin sends by all."""
        return {self.port_of(udp_port, **said) for _ in range(8)}

    def counts(self) -> dict[str, int]:
        """Return what came by h1's port, by outcome."""
        found = {label: self.switch.counter_read("iglb", index)[0]
                 for index, label in cells(self.source.port).items()}  # fmt: skip
        return {label: number for label, number in found.items() if number}


@pytest.fixture
def leaf() -> Iterator[Leaf]:
    made = Leaf("true")
    yield made
    made.switch.close()


def test_a_pin_of_the_version_that_is_followed_beats_load_balancing(leaf: Leaf) -> None:
    way = leaf.ways[2]
    leaf.put(leaf.pin(5, 50_000, way))
    assert leaf.spread(50_000) == set(leaf.ways)  # no version is followed
    leaf.put(follow(4))
    assert leaf.spread(50_000) == set(leaf.ways)
    leaf.put(follow(5))
    assert leaf.spread(50_000) == {way}
    assert leaf.spread(50_001) == set(leaf.ways)  # another flow
    leaf.put(leaf.pin(6, 50_000, leaf.ways[0]))
    assert leaf.spread(50_000) == {way}
    leaf.put(follow(6))
    assert leaf.spread(50_000) == {leaf.ways[0]}
    leaf.put(follow(0))
    assert leaf.spread(50_000) == set(leaf.ways)


def test_only_roce_follows_pins(leaf: Leaf) -> None:
    leaf.put(leaf.pin(1, 50_000, leaf.ways[1]))
    leaf.put(follow(1))
    assert leaf.spread(50_000, to=4790) == set(leaf.ways)
    assert leaf.spread(50_000, opcode=ACKNOWLEDGE) == {leaf.ways[1]}


def test_what_nobody_planned_is_counted_at_ports_to_hosts(leaf: Leaf) -> None:
    leaf.put(leaf.pin(1, 50_000, leaf.ways[1]))
    leaf.port_of(50_000)
    assert leaf.counts() == {}  # no plan is in force
    leaf.put(follow(1))
    leaf.port_of(50_000)
    assert leaf.counts() == {"pinned": 1}
    for _ in range(3):
        leaf.port_of(50_001)
    assert leaf.counts() == {"pinned": 1, "unplanned": 3}
    # Neither acknowledgements and requests to read, nor another class.
    for said in ({"opcode": ACKNOWLEDGE}, {"opcode": READ_REQUEST}, {"dscp": OTHER_DSCP}):
        leaf.port_of(50_001, **said)
    assert leaf.counts() == {"pinned": 1, "unplanned": 3}
    assert len(OUTCOMES) == 3


def test_where_source_ports_lead_flows_none_is_missed() -> None:
    leaf = Leaf("{pinning: ports}")
    leaf.put(follow(1))
    leaf.port_of(50_001)
    assert leaf.counts() == {}
    leaf.switch.close()


def test_a_pin_counts_its_packets_and_bytes(leaf: Leaf) -> None:
    leaf.put(leaf.pin(1, 50_000, leaf.ways[1]))
    leaf.put(follow(1))
    for _ in range(4):
        leaf.port_of(50_000)
    number = leaf.info.tables[PIN_TABLE].id
    query = p4r.TableEntry(table_id=number, counter_data=p4r.CounterData())
    (found,) = leaf.switch.read(p4r.Entity(table_entry=query))
    assert found.table_entry.counter_data.packet_count == 4
    assert found.table_entry.counter_data.byte_count == 4 * (14 + 20 + 8 + 12 + 64)


@pytest.mark.parametrize("watches", [True, False])
def test_a_pin_to_a_port_without_carrier_is_passed_over(watches: bool) -> None:
    leaf = Leaf("true", watches)
    leaf.put(leaf.pin(1, 50_000, leaf.ways[1]))
    leaf.put(follow(1))
    leaf.switch.set_port(leaf.ways[1], PortState.DOWN)
    leaf.put(DefaultEntry(MODE_TABLE, STAND_STILL))  # fast reroute is off
    if watches:
        assert leaf.ways[1] not in {leaf.port_of(50_000) for _ in range(8)}
        assert leaf.counts() == {"port_down": 8}
        leaf.switch.set_port(leaf.ways[1], PortState.UP)
    assert leaf.port_of(50_000) == (leaf.ways[1] if watches else None)
    leaf.switch.close()


def test_a_dead_way_beats_a_pin(leaf: Leaf) -> None:
    leaf.put(leaf.pin(1, 50_000, leaf.ways[1]))
    leaf.put(follow(1))
    assert leaf.port_of(50_000) == leaf.ways[1]
    leaf.switch.register_write("dpfr_down", 0, 1 << 1)
    found = leaf.spread(50_000)
    assert len(found) == 1 and found <= set(leaf.ways) - {leaf.ways[1]}
    leaf.switch.register_write("dpfr_down", 0, 0)
    assert leaf.port_of(50_000) == leaf.ways[1]
