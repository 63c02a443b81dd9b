"""Notifications in datagrams, from a module of one switch to one two hops on and to a host.

h1 -- s1 ---- s3 ---- s2 -- h3        s1's module makes it, s3's relays it, s2's takes it and
                                      lets its hosts have a copy
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, UDP, IPOption_NOP
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Packet, Raw

from controller.diff import changes
from controller.entries import DefaultEntry, TableEntry
from controller.fabric_state import desired_entries
from controller.policy import FabricPolicy
from protocols.notification import (
    NEIGHBOURS,
    NEIGHBOURS_MAC,
    NOTIFICATION_PORT,
    Notification,
    NotificationType,
    datagram,
)
from tests.p4src import alarm_scenario as scenario
from tests.p4src.alarm_scenario import (
    BAD_NOTIFICATION,
    LINK_DOWN,
    MADE,
    RELAYED,
    ROUTED,
    SPOOFED,
    TAKEN,
    alarm,
    from_switch,
    to_host,
)
from tests.p4src.conftest import Bench, Network, Program, bench_of, model_of, show

DOWN, QUALITY = NotificationType.LINK_DOWN, NotificationType.PATH_QUALITY
QUEUE = NotificationType.QUEUE
PARSER_ERROR = 2  # of a drop
TO_S3, TO_S1, TO_S2 = 3, 1, 2  # of s1 to s3, of s3 to s1 and to s2
S2_HOSTS, S2_TO_S3, S2_TO_S4 = (1, 2), 3, 4


@pytest.fixture(
    scope="module",
    params=["weft", pytest.param("p4c", marks=pytest.mark.reference("p4c-bm2-ss"))],
)
def fabric_program(request: Any) -> Program:
    """fabric.p4 with the alarm's module, compiled with warnings as errors."""
    return Program(*scenario.compiled(request.param))


def equip(bench: Bench, made_by: tuple[int, ...], relayed_by: tuple[int, ...]) -> None:
    """Say by which ports a switch sends its own, and by which it relays others'."""
    bench.apply(changes(scenario.entries(made_by, relayed_by), (), bench.p4info))


@pytest.fixture
def row(fabric_program: Program, topology: Any, policy: FabricPolicy) -> Iterator[Network]:
    """Yield the default fabric. s1's own leave towards s3 alone, and s3 and s2 relay to all."""
    network = Network(fabric_program, topology, policy)
    equip(network.switches["s1"], (TO_S3,), (3, 4))
    equip(network.switches["s3"], (1, 2), (TO_S1, TO_S2))
    equip(network.switches["s4"], (1, 2), ())
    equip(network.switches["s2"], (S2_TO_S3,), (*S2_HOSTS, S2_TO_S3))
    yield network
    for bench in network.switches.values():
        bench.switch.close()


@pytest.fixture
def spine(fabric_program: Program, topology: Any, policy: FabricPolicy) -> Iterator[Bench]:
    """s3 alone: it relays to both leaves."""
    bench = bench_of(fabric_program, "s3", topology, policy)
    equip(bench, (1, 2), (1, 2))
    yield bench
    bench.switch.close()


@pytest.fixture
def leaf(fabric_program: Program, topology: Any, policy: FabricPolicy) -> Iterator[Bench]:
    """s2 alone: it relays to its hosts and to both spines."""
    bench = bench_of(fabric_program, "s2", topology, policy)
    equip(bench, (3, 4), (1, 2, 3, 4))
    yield bench
    bench.switch.close()


def counted(bench: Bench) -> dict[int, int]:
    """By outcome and type; those of which there are none are left out."""
    counts = {i: bench.switch.counter_read("notifications", i)[0] for i in range(64)}
    return {index: packets for index, packets in counts.items() if packets}


def last(bench: Bench, kind: int) -> int:
    """Return what the alarm's module remembers of a type."""
    return bench.switch.register_read("alarm_last", kind)


def remembered(said: Notification) -> int:
    number: int = said.sequence
    return 1 << 40 | said.switch_id << 24 | said.port << 12 | number


def as_heard(hops: int, number: int = 1, **fields: Any) -> Notification:
    """Return s1's notification, as it looks with so many relays left."""
    return Notification(**{**LINK_DOWN, "switch_id": 1, "sequence": number, "hops": hops, **fields})


def expect_at(frames: list[bytes], *wanted: Packet) -> None:
    assert len(frames) == len(wanted)
    for got, want in zip(frames, wanted, strict=True):
        assert got == bytes(want), show(got, bytes(want))


# --- make, take, relay, to a host -----------------------------------------------------------------


def test_from_a_module_to_one_two_hops_on_and_to_hosts(row: Network, topology: Any) -> None:
    row.send("h1", alarm(topology, LINK_DOWN))
    arrived = row.settle()
    s1, s2, s3 = (row.switches[name] for name in ("s1", "s2", "s3"))
    assert (counted(s1), counted(s3)) == ({MADE | DOWN: 1}, {TAKEN | DOWN: 1, RELAYED | DOWN: 1})
    assert counted(s2) == {TAKEN | DOWN: 1, RELAYED | DOWN: 1}
    assert last(s3, DOWN) == last(s2, DOWN) == remembered(as_heard(0))
    mac = topology.switch("s2").mac
    for name in ("h3", "h4"):
        expect_at(arrived[name], to_host(mac, topology.host(name), as_heard(0)))
    assert not arrived["h1"] and not arrived["h2"]
    assert counted(row.switches["s4"]) == {}
    assert [bench.dropped() for bench in row.switches.values()] == [{}] * 4


def test_numbers_count_a_switch_s_own_and_wrap(row: Network, topology: Any) -> None:
    s1 = row.switches["s1"]
    s1.switch.register_write("notification_number", 0, 4094)
    for number in (4095, 0, 1):
        row.send("h1", alarm(topology, LINK_DOWN))
        arrived = row.settle()
        wanted = as_heard(0, number)
        expect_at(arrived["h3"], to_host(topology.switch("s2").mac, topology.host("h3"), wanted))


def test_hops_end_it(row: Network, topology: Any) -> None:
    """0: the neighbour's alone; 1: one further, but not on to hosts."""
    for hops, at_s2 in ((0, 0), (1, 1)):
        row.send("h1", alarm(topology, {**LINK_DOWN, "hops": hops}))
        assert not any(row.settle().values())
        assert counted(row.switches["s2"]).get(TAKEN | DOWN, 0) == at_s2
    assert RELAYED | DOWN not in counted(row.switches["s2"])


def test_every_bit_of_it_and_its_addresses(spine: Bench, topology: Any) -> None:
    """In by one port and out by the other: one hop less, the switch's own address, nothing else."""
    s1, s3 = topology.switch("s1"), topology.switch("s3")
    said = Notification(type=DOWN, severity=10, hops=15, validity=5, switch_id=0xA5A5, port=0x5A5,
                        sequence=0xA5A, destination="165.90.165.90", destination_qp=0xA55AA5,
                        queue=0x5AA5)  # fmt: skip
    spine.send(TO_S1, from_switch(s1.mac, said, body=b"what is behind it"))
    relayed = said.copy()
    relayed.hops = 14
    spine.expect(TO_S2, from_switch(s3.mac, relayed, body=b"what is behind it"))


def test_what_has_come_before_is_known_by_switch_and_number(spine: Bench, topology: Any) -> None:
    s1 = topology.switch("s1")
    for number, alarms in ((5, (1, 0)), (5, (1, 1)), (6, (2, 1))):
        spine.send(TO_S1, from_switch(s1.mac, as_heard(3, number)))
        found = tuple(spine.switch.counter_read("alarms", i)[0] for i in (0, 1))
        assert found == alarms
        assert len(spine.take(TO_S2)) == alarms[0] - (number == 5 and alarms[1]) - (number == 6)
    spine.expect_nothing()


def test_types_that_no_module_knows_end_at_the_neighbour(spine: Bench, topology: Any) -> None:
    s1 = topology.switch("s1")
    for kind in range(1, 16):
        if kind not in (DOWN, QUALITY, QUEUE):
            spine.send(TO_S1, from_switch(s1.mac, as_heard(3, type=kind)))
            assert counted(spine)[TAKEN | kind] == 1
    spine.expect_nothing()
    assert spine.dropped() == {}


def test_a_report_of_a_queue_without_its_body_is_dropped(spine: Bench, topology: Any) -> None:
    spine.send(TO_S1, from_switch(topology.switch("s1").mac, as_heard(3, type=QUEUE)))
    spine.expect_nothing()
    assert spine.dropped() == {PARSER_ERROR: 1}


def test_a_body_goes_along(row: Network, topology: Any) -> None:
    """A module's own header behind the notification; a switch on the way reads it too."""
    said = {**LINK_DOWN, "type": QUALITY, "port": 9}
    row.send("h1", alarm(topology, said, quality=0x12345678))
    arrived = row.settle()
    wanted = as_heard(0, type=QUALITY, port=9)
    body = scenario.quality_of(0x12345678)
    expect_at(arrived["h3"], to_host(topology.switch("s2").mac, topology.host("h3"), wanted, body))
    for name in ("s2", "s3"):
        assert row.switches[name].switch.register_read("alarm_quality", 9) == 0x12345678


def test_a_body_is_whole_after_it_has_recirculated(row: Network, topology: Any) -> None:
    said = {**LINK_DOWN, "type": QUALITY}
    asked = alarm(topology, said, to="10.0.2.1", quality=7)
    row.send("h1", bytes(asked) + bytes(range(256)))
    wanted = as_heard(2, type=QUALITY)
    h3, mac = topology.host("h3"), topology.switch("s2").mac
    expect_at(row.settle()["h3"], to_host(mac, h3, wanted, scenario.quality_of(7), ttl=61))


def test_to_a_host_behind_other_switches_it_is_routed(row: Network, topology: Any) -> None:
    """Nobody on the way takes it; its TTL falls as any packet's."""
    row.send("h1", alarm(topology, {**LINK_DOWN, "hops": 0}, to="10.0.2.2"))
    arrived = row.settle()
    wanted = to_host(topology.switch("s2").mac, topology.host("h4"), as_heard(0), ttl=61)
    expect_at(arrived["h4"], wanted)
    total: dict[int, int] = {}
    for bench in row.switches.values():
        for index, packets in counted(bench).items():
            total[index] = total.get(index, 0) + packets
    assert total == {MADE | DOWN: 1, ROUTED | DOWN: 3}


def test_nothing_is_left_of_the_packet_that_it_was_made_of(row: Network, topology: Any) -> None:
    for to in ("0.0.0.0", "10.0.2.1"):
        asked = alarm(topology, LINK_DOWN, to=to)
        row.send("h1", bytes(asked) + bytes(range(256)) * 5)
        (frame,) = row.settle()["h3"]
        assert len(frame) == 14 + 20 + 8 + 16


def test_it_waits_in_the_highest_queue(leaf: Bench, topology: Any) -> None:
    """Behind a packet that is being sent, and before whatever waits."""
    s3 = topology.switch("s3")
    leaf.switch.configure_port(1, rate_bps=10**9)
    h3 = topology.host("h3")
    data = Ether(src=s3.mac, dst=topology.switch("s2").mac) / IP(
        src="10.0.1.1", dst=str(h3.address.ip), tos=26 << 2
    ) / UDP(sport=1, dport=2) / Raw(bytes(900))  # fmt: skip
    leaf.send(3, *[data] * 5, from_switch(s3.mac, as_heard(1)))
    sizes = [len(frame) for frame in leaf.take(1)]
    assert sizes == [942, 58, 942, 942, 942, 942]


def test_the_controller_says_who_each_switch_and_its_hosts_are(
    row: Network, topology: Any, policy: FabricPolicy
) -> None:
    """Enabled last of all: hosts are kept from sending any before that."""
    for name, bench in row.switches.items():
        switch = topology.switch(name)
        plan = tuple(row.model.installed[name])
        assert plan == desired_entries(model_of(bench.p4info, topology, policy), name)
        tables = [each.table for each in plan if isinstance(each, TableEntry | DefaultEntry)]
        mine = tables.index("notification_mode")
        assert "host_port" not in tables[mine:]
        assert tables.count("notification_port") == len(topology.interfaces_of(name))
        (mode,) = (each for each in plan if each.key == ("default", "notification_mode"))
        mac = int(switch.mac.replace(":", ""), 16)
        wanted = {"switch_id": switch.device_id, "mac": mac, "dscp": 48, "class_of_service": 7}
        assert dict(mode.action.arguments) == wanted


# --- who may send one ----------------------------------------------------------------------------

FORGED = {
    "to the neighbour": datagram(as_heard(3)),
    "to a host": datagram(as_heard(3), to="10.0.2.1"),
    "to a host beside it": datagram(as_heard(3), to="10.0.2.2"),
    "from the host's own address": IP(src="10.0.2.1", dst="10.0.1.1")
    / UDP(sport=5, dport=NOTIFICATION_PORT)
    / as_heard(3),
    "with a body": datagram(as_heard(3), body=bytes(100)),
    "with IPv4 options": IP(src="192.0.0.8", dst=NEIGHBOURS, ttl=255, options=[IPOption_NOP()] * 8)
    / UDP(sport=5, dport=NOTIFICATION_PORT)
    / as_heard(3),
    "in a first fragment": IP(src="10.0.2.1", dst="10.0.1.1", flags="MF", proto=17)
    / UDP(sport=5, dport=NOTIFICATION_PORT, len=24)
    / as_heard(3),
    "in a first fragment with options": IP(dst="10.0.1.1", flags="MF", options=[IPOption_NOP()] * 4)
    / UDP(sport=5, dport=NOTIFICATION_PORT, len=24)
    / as_heard(3),
    "in a first fragment of eight bytes": IP(src="10.0.2.1", dst="10.0.1.1", flags="MF", proto=17)
    / Raw(bytes(UDP(sport=5, dport=NOTIFICATION_PORT, len=24, chksum=0))),
    "with nothing in it": datagram(Notification()),
}


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
def test_a_host_may_not_send_one(leaf: Bench, topology: Any, forged: Packet) -> None:
    h3 = topology.host("h3")
    for target in (topology.switch("s2").mac, NEIGHBOURS_MAC):
        leaf.send(h3.port, Ether(src=h3.mac, dst=target) / forged)
    leaf.expect_nothing()
    assert leaf.dropped() == {SPOOFED: 2}
    assert counted(leaf) == {}


def test_a_host_may_send_what_only_looks_like_one(leaf: Bench, topology: Any) -> None:
    """Another port, TCP, pieces behind the first one: they are not taken for one anywhere."""
    h3, h4 = topology.host("h3"), topology.host("h4")
    begin = Ether(src=h3.mac, dst=topology.switch("s2").mac)
    ours = IP(src="10.0.2.1", dst=str(h4.address.ip))
    packets = [
        begin / ours / UDP(sport=NOTIFICATION_PORT, dport=53) / Raw(bytes(16)),
        begin / IP(src="10.0.2.1", dst=str(h4.address.ip), frag=1, flags="MF", proto=17)
        / Raw(bytes(UDP(sport=5, dport=NOTIFICATION_PORT, len=24)) + bytes(16)),
        begin / IP(src="10.0.2.1", dst=str(h4.address.ip), flags="MF", proto=17)
        / Raw(bytes(UDP(sport=5, dport=53, len=24)) + bytes(16)),
    ]  # fmt: skip
    leaf.send(h3.port, *packets)
    assert [port for port, _ in leaf.pending] == [h4.port] * 3
    assert (leaf.dropped(), counted(leaf)) == ({}, {})


def test_a_vlan_is_nothing_that_a_switch_knows(leaf: Bench, topology: Any) -> None:
    h3 = topology.host("h3")
    for port in (h3.port, 3):
        leaf.send(
            port, Ether(src=h3.mac, dst=NEIGHBOURS_MAC) / Dot1Q(vlan=5) / datagram(as_heard(3))
        )
    leaf.expect_nothing()
    assert counted(leaf) == {}
    assert leaf.dropped() == {1: 2}


def test_the_guard_of_queue_pairs_is_as_it_was(leaf: Bench, topology: Any) -> None:
    """Of RoCEv2 from a host, the bits between switches are cleared and nothing else."""
    h3, h4 = topology.host("h3"), topology.host("h4")
    data = Ether(src=h3.mac, dst=topology.switch("s2").mac) / IP(
        src="10.0.2.1", dst=str(h4.address.ip)
    ) / UDP(sport=49152, dport=4791, chksum=0) / BTH(opcode=4, dqpn=9, psn=1, resv6=63) / Raw(
        bytes(20)
    )  # fmt: skip
    leaf.send(h3.port, data)
    (frame,) = leaf.take(h4.port)
    assert Ether(frame)[BTH].resv6 == 0


# --- what is not as it has to be -----------------------------------------------------------------


def changed(**fields: Any) -> Packet:
    packet = datagram(as_heard(3))
    for name, value in fields.items():
        setattr(packet[IP], name, value)
    return packet


def with_udp_length(length: int) -> Packet:
    packet = datagram(as_heard(3), body=bytes(8))
    packet[UDP].len = length
    return packet


BAD: dict[str, Packet] = {
    "a router has passed it on": changed(ttl=254),
    "from an address": changed(src="10.0.1.1"),
    "of no type": datagram(Notification()),
    "a UDP length without it": with_udp_length(23),
    "a UDP length beyond IPv4's": with_udp_length(33),
    "a UDP length short of IPv4's": with_udp_length(24),
    "a body longer than the packet": changed(len=400),
    "with options": changed(options=[IPOption_NOP()] * 4),
    "a first fragment": changed(flags="MF"),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_a_switch_takes_none_that_is_wrong(spine: Bench, topology: Any, bad: Packet) -> None:
    spine.send(TO_S1, Ether(src=topology.switch("s1").mac, dst=NEIGHBOURS_MAC) / bad)
    spine.expect_nothing()
    assert spine.dropped() == {BAD_NOTIFICATION: 1}
    assert counted(spine) == {}
    assert last(spine, DOWN) == 0


def test_cut_short_anywhere_it_is_nothing(spine: Bench, topology: Any) -> None:
    frame = bytes(from_switch(topology.switch("s1").mac, as_heard(3)))
    for size in range(14, len(frame)):
        spine.send(TO_S1, frame[:size])
    spine.expect_nothing()
    assert counted(spine) == {}
    assert sum(spine.dropped().values()) == len(frame) - 14


def test_padding_of_ethernet_is_no_body(spine: Bench, topology: Any) -> None:
    frame = bytes(from_switch(topology.switch("s1").mac, as_heard(3)))
    spine.send(TO_S1, frame + bytes(2))
    spine.expect(TO_S2, bytes(from_switch(topology.switch("s3").mac, as_heard(2))) + bytes(2))


def test_a_switch_that_was_not_told_to_has_nothing_to_do_with_them(
    fabric_program: Program, topology: Any, policy: FabricPolicy
) -> None:
    """Before the controller's entries are there it takes, relays, passes on and makes none."""
    bench = bench_of(fabric_program, "s3", topology, policy)
    equip(bench, (1, 2), (1, 2))
    bench.switch.table_default("notification_mode", "disable_notifications")
    s1 = topology.switch("s1")
    bench.send(TO_S1, from_switch(s1.mac, as_heard(3)))
    routed = Ether(src=s1.mac, dst=topology.switch("s3").mac) / datagram(as_heard(3), to="10.0.2.1")
    bench.send(TO_S1, routed)
    bench.send(TO_S1, alarm(topology, LINK_DOWN))
    bench.expect_nothing()
    assert bench.dropped() == {BAD_NOTIFICATION: 2}
    assert counted(bench) == {}
    bench.switch.close()
