"""Fast CNPs as packets: what the switch sends, to whom, how often, and what it keeps from hosts.

h1 -- 1 +----+ 2 -- slow -- h2        one packet takes 1 ms on the slow port, so that a burst
h3 -- 3 | s1 |                        from port 1 leaves it packet by packet, each behind fewer
        +----+
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from ipaddress import IPv4Address
from random import Random
from typing import Any

import pytest
from scapy.contrib.roce import BTH, CNPPadding
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

import topologies
from controller.entries import (
    CloneSession,
    DefaultEntry,
    Exact,
    Range,
    TableEntry,
    call,
    match,
)
from protocols.notification import Notification, NotificationType, notification_of
from protocols.rocev2 import Opcode, icrc_is_valid
from tests.p4src.conftest import Bench, Program, bench_of
from topologies import Topology

MS = 1_000_000
US = 1000
SPOOFED = 11
SENT, INTERVAL, ALREADY_TOLD, PORT_LIMIT, COLLISION, NOBODY, UNKNOWN_QP, AMBIGUOUS_QP = range(8)
PAYLOAD = 1000
PACKET_BYTES = 14 + 20 + 8 + 12 + PAYLOAD + 4
SLOW_BPS = (PACKET_BYTES + 24) * 8 * 1000  # a packet a millisecond
TOLD = 1
CAPABLE, CONGESTED = 2, 3
SWITCH_ID = 513

THREE_HOSTS = """
time_scale: 1
switches: [s1]
hosts: [h1, h2, h3]
link: {rate: 100Gbps, delay: 0us, queue: 64MB}
links: [{a: h1, b: "s1:1"}, {a: h2, b: "s1:2"}, {a: h3, b: "s1:3"}]
"""


@pytest.fixture
def topology() -> Topology:
    return topologies.loads(THREE_HOSTS, name="three")


@pytest.fixture
def leaf(fabric_program: Program, topology: Topology, policy: Any) -> Iterator[Bench]:
    bench = bench_of(fabric_program, "s1", topology, policy)
    bench.switch.configure_port(2, rate_bps=SLOW_BPS, queue_packets=1000)
    bench.install(
        CloneSession(510, ((510, 1),), 7),
        DefaultEntry("fast_cnp_mode", call("enable_fast_cnp", dscp=48, switch_id=SWITCH_ID)),
    )
    yield bench
    bench.switch.close()


def watch(leaf: Bench, low: int = 4, **changed: int) -> None:
    numbers = {
        "low": low, "high": 1000, "smoothing": 0, "window": 1000, "idle": 8000, "gap": 1,
        "burst": 1000, "growth_scale": 64 << 16, "cell_scale": 1500, **changed,
    }  # fmt: skip
    key = match(**{"port": Exact(2), "class": Exact(0)})
    leaf.install(TableEntry("fast_cnp_queue", key, call("watch_queue", **numbers)))


def source(leaf: Bench, host: str = "h1", *, stock: bool = False, every: int = 3000) -> None:
    """A tick is a microsecond: `every` is in those."""
    key = match(source=Exact(int(leaf.host(host).address.ip)))
    action = (
        call("send_plain_cnp", every=every)
        if stock
        else call("notify_source", stands=5, every=every)
    )
    leaf.install(TableEntry("fast_cnp_source", key, action))


def severity(leaf: Bench, value: int, low: int = 0, high: int = 65535) -> None:
    key = match(deep=Exact(0), growth=Range(low, high))
    leaf.install(
        TableEntry("fast_cnp_severity", key, call("set_severity", severity=value), priority=1)
    )


def data(leaf: Bench, qp: int = 77, psn: int = 0, *, src: str = "h1", **fields: Any) -> Packet:
    h1, h2 = leaf.host(src), leaf.host("h2")
    ip = IP(src=str(h1.address.ip), dst=str(h2.address.ip), tos=CAPABLE, id=9, flags="DF")
    bth = BTH(opcode=fields.pop("opcode", Opcode.SEND_MIDDLE), dqpn=qp, psn=psn, **fields)
    frame = Ether(src=h1.mac, dst=leaf.me.mac) / ip / UDP(sport=50001, chksum=0) / bth
    return Ether(bytes(frame / Raw(bytes(PAYLOAD))))


def burst(leaf: Bench, count: int, **fields: Any) -> None:
    for psn in range(count):
        leaf.switch.inject(1, bytes(data(leaf, psn=psn, **fields)))


def outcomes(leaf: Bench) -> dict[int, int]:
    found = {i: leaf.switch.counter_read("fast_cnps", 2 * 8 + i)[0] for i in range(8)}
    return {i: count for i, count in found.items() if count}


def cnps(leaf: Bench, port: int = 1, ns: int = 100 * MS) -> list[Ether]:
    leaf.settle(ns)
    return [Ether(frame) for frame in leaf.take(port)]


def told(frame: Ether) -> Notification:
    return notification_of(frame[CNPPadding])


def arrived(leaf: Bench) -> list[Ether]:
    return [Ether(frame) for frame in leaf.take(2)]


def test_every_byte_of_a_fast_cnp(leaf: Bench) -> None:
    watch(leaf)
    source(leaf)
    severity(leaf, 9)
    h1, h2 = leaf.host("h1"), leaf.host("h2")
    burst(leaf, 7, qp=0xABCDEF)
    (first, *_) = cnps(leaf)
    # Five waited behind the second packet, which was the first to meet more than four.
    signal = Notification(
        type=NotificationType.CONGESTION, severity=9, hops=0, validity=5, switch_id=SWITCH_ID,
        port=2, sequence=1, destination=str(h2.address.ip), destination_qp=0xABCDEF,
        queue=5 * 1500 // 256,
    )  # fmt: skip
    ip = IP(src=str(h2.address.ip), dst=str(h1.address.ip), tos=48 << 2, id=0, flags="DF", ttl=63)
    bth = BTH(opcode=Opcode.CNP, becn=1, migreq=0, pkey=0xFFFF, dqpn=0, psn=0)
    wanted = (
        Ether(src=leaf.me.mac, dst=h1.mac) / ip / UDP(sport=50001, dport=4791, chksum=0) / bth
        / CNPPadding(bytes(signal))
    )  # fmt: skip
    assert bytes(first) == bytes(wanted)
    assert len(bytes(first)) == 74
    assert icrc_is_valid(bytes(first))


def test_the_packet_that_met_the_queue_goes_on_whole(leaf: Bench) -> None:
    watch(leaf)
    source(leaf)
    sent = [data(leaf, psn=psn) for psn in range(7)]
    burst(leaf, 7)
    cnps(leaf)
    received = arrived(leaf)
    assert [frame[BTH].psn for frame in received] == list(range(7))
    for before, after in zip(sent, received, strict=True):
        assert bytes(after[BTH])[5:] == bytes(before[BTH])[5:]
        assert icrc_is_valid(bytes(after)), "told bits are masked in the ICRC"


def test_none_up_to_the_threshold(leaf: Bench) -> None:
    watch(leaf, low=5)
    source(leaf)
    burst(leaf, 7)
    assert cnps(leaf) == []
    assert outcomes(leaf) == {}


def test_off_at_run_time(leaf: Bench) -> None:
    watch(leaf)
    source(leaf)
    leaf.install(DefaultEntry("fast_cnp_mode", call("disable_fast_cnp")))
    burst(leaf, 20)
    assert cnps(leaf) == []
    assert outcomes(leaf) == {}
    leaf.install(DefaultEntry("fast_cnp_mode", call("enable_fast_cnp", dscp=48, switch_id=1)))
    burst(leaf, 20)
    assert len(cnps(leaf)) > 0


def test_one_a_flow_an_interval(leaf: Bench) -> None:
    watch(leaf)
    source(leaf, every=3000)
    burst(leaf, 16)  # behind the second wait 14; more than four behind the 2nd to the 11th
    assert len(cnps(leaf)) == 4  # at 1, 4, 7, 10 ms
    assert outcomes(leaf) == {SENT: 4, INTERVAL: 6}


def test_flows_are_told_each_for_itself(leaf: Bench) -> None:
    watch(leaf)
    source(leaf, every=100_000)
    for psn in range(12):
        leaf.switch.inject(1, bytes(data(leaf, qp=70 + psn % 3, psn=psn)))
    signals = [told(frame) for frame in cnps(leaf)]
    assert sorted(signal.destination_qp for signal in signals) == [70, 71, 72]
    assert [signal.sequence for signal in signals] == [1, 2, 3]


@pytest.mark.parametrize(("stock", "marks"), [(False, 0), (True, 2)])
def test_marked_only_where_the_source_does_not_understand(
    leaf: Bench, stock: bool, marks: int
) -> None:
    watch(leaf)
    source(leaf, stock=stock, every=3000)
    key = match(destination=Exact(int(leaf.host("h2").address.ip)), qp=Exact(77))
    leaf.install(TableEntry("stock_queue_pairs", key, call("set_source_qp", qp=0x1234)))
    burst(leaf, 10)  # told at 1 and 4 ms
    sent = cnps(leaf)
    assert len(sent) == 2
    assert {frame[BTH].dqpn for frame in sent} == {0x1234 if stock else 0}
    received = arrived(leaf)
    assert sum(frame[IP].tos & 3 == CONGESTED for frame in received) == marks
    assert [frame[BTH].resv6 & TOLD for frame in received] == [0, 1, 1, 1, 1, 0, 0, 0, 0, 0]


def test_ecn_marks_what_fast_cnp_does_not_tell(leaf: Bench) -> None:
    watch(leaf)
    source(leaf, every=100_000)
    key = match(**{"port": Exact(2), "class": Exact(0)})
    leaf.install(TableEntry("ecn_threshold", key, call("mark_above", threshold=2)))
    burst(leaf, 10)
    cnps(leaf)
    # Told while more than four wait behind (the 2nd to the 5th); ECN has the next two.
    assert [frame[IP].tos & 3 for frame in arrived(leaf)] == [2, 2, 2, 2, 2, 3, 3, 2, 2, 2]


@pytest.mark.parametrize(
    ("action", "outcome"), [(None, UNKNOWN_QP), (call("skip_ambiguous_qp"), AMBIGUOUS_QP)]
)
def test_a_stock_card_is_not_told_by_guess(leaf: Bench, action: Any, outcome: int) -> None:
    watch(leaf)
    source(leaf, stock=True)
    if action is not None:
        key = match(destination=Exact(int(leaf.host("h2").address.ip)), qp=Exact(77))
        leaf.install(TableEntry("stock_queue_pairs", key, action))
    burst(leaf, 10)
    assert cnps(leaf) == []
    assert outcomes(leaf) == {outcome: 4}
    assert [frame[BTH].resv6 for frame in arrived(leaf)] == [0] * 10


def test_nobody_is_told_who_is_not_known(leaf: Bench) -> None:
    watch(leaf)
    burst(leaf, 10)
    assert cnps(leaf) == []
    assert outcomes(leaf) == {NOBODY: 4}


@pytest.mark.parametrize(
    "opcode", [Opcode.ACK, Opcode.CNP, Opcode.READ_REQUEST], ids=lambda o: o.name
)
def test_only_data_has_a_source_to_slow_down(leaf: Bench, opcode: Opcode) -> None:
    watch(leaf)
    source(leaf)
    key = match(port=Exact(1))
    leaf.apply_delete(TableEntry("host_port", key, call("guard_host", address=0)))
    burst(leaf, 10, opcode=opcode)
    assert cnps(leaf) == []
    assert outcomes(leaf) == {}


def test_a_port_sends_so_many_and_no_more(leaf: Bench) -> None:
    watch(leaf, gap=4000, burst=0)
    source(leaf, every=1)
    burst(leaf, 16)  # a packet a millisecond that could be told; one in four is
    assert len(cnps(leaf)) == 3
    assert outcomes(leaf) == {SENT: 3, PORT_LIMIT: 7}


def test_a_switch_further_on_says_no_more(leaf: Bench, fabric_program: Program) -> None:
    watch(leaf)
    source(leaf, every=100_000)
    burst(leaf, 10)
    assert len(cnps(leaf)) == 1
    from_first = arrived(leaf)
    # The same switch as the next one on the way: its port 1 leads to a switch.
    leaf.apply_delete(TableEntry("host_port", match(port=Exact(1)), call("guard_host", address=0)))
    before = outcomes(leaf)
    for frame in from_first:
        frame[Ether].dst = leaf.me.mac
        leaf.switch.inject(1, bytes(frame))
    assert cnps(leaf) == []
    # the 2nd to the 5th were told of upstream; they are those that meet more than four here
    assert outcomes(leaf) == {**before, ALREADY_TOLD: 4}


# ---------------------------------------------------------------- how much


def test_severity_is_what_the_table_says_of_growth(leaf: Bench) -> None:
    watch(leaf, window=1500, low=2)
    source(leaf, every=1)
    severity(leaf, 12, low=129)
    severity(leaf, 3, low=128, high=128)
    severity(leaf, 1, high=127)
    burst(leaf, 8)
    leaf.settle(3 * MS + 100 * US)
    burst(leaf, 12)  # it grows
    signals = [told(frame) for frame in cnps(leaf)]
    assert 12 in [signal.severity for signal in signals]
    assert signals[-1].severity == 1, "in the end it drains"
    depths = [signal.queue for signal in signals]
    assert depths[-1] == 3 * 1500 // 256


def test_the_average_follows_by_a_part_of_the_distance(leaf: Bench) -> None:
    watch(leaf, low=4, smoothing=2)
    source(leaf, every=1)
    burst(leaf, 9)  # behind the second wait 7, then 6, 5, ...: averages 1.75, 2.8, 3.3, 3.5, 3.4
    assert cnps(leaf) == []
    burst(leaf, 30)
    signals = [told(frame).queue for frame in cnps(leaf)]
    # 28 at once: the average passes four with the second sample at the latest, and later than that
    # the last one that is told of met fewer than five.
    assert signals[0] == 28 * 1500 // 256
    assert signals[-1] < 4 * 1500 // 256


def test_who_can_not_be_told_how_much_is_told_later(leaf: Bench) -> None:
    """After a pause the growth of the queue is not known until a window is over."""
    watch(leaf, window=2500)
    source(leaf, every=100_000)
    severity(leaf, 7, low=129)
    for _ in range(2):
        burst(leaf, 20)
        signals = [told(frame) for frame in cnps(leaf, ns=200 * MS)]
        assert [signal.severity for signal in signals] == [7]
        # 18 waited behind the second packet; the window ends with the fourth, before which 16 do
        assert [signal.queue for signal in signals] == [16 * 1500 // 256]


# ---------------------------------------------------------------- flows that share a cell


def cell(src: int, dst: int, qp: int) -> tuple[int, int]:
    """The two cells that a flow may use: CRC-32 over the fields, modulo the table's size."""
    qp_bytes, ends = qp.to_bytes(3, "big"), (src.to_bytes(4, "big"), dst.to_bytes(4, "big"))
    one = zlib.crc32(ends[0] + ends[1] + qp_bytes)
    two = zlib.crc32(b"\x01" + qp_bytes + ends[1] + ends[0])
    return one % 4096, two % 4096


Flow = tuple[int, int]  # source address, destination queue pair


def colliding(leaf: Bench) -> tuple[Flow, Flow, Flow]:
    """Three flows with the same first cell, of which the last two have the same second one, too."""
    dst = int(leaf.host("h2").address.ip)
    random = Random(1)
    first: dict[int, list[Flow]] = {}
    both: dict[tuple[int, int], list[Flow]] = {}
    while True:
        flow = (0x0A000000 | random.randrange(1 << 24), random.randrange(1, 1 << 24))
        cells = cell(flow[0], dst, flow[1])
        others = both.setdefault(cells, [])
        neighbours = [each for each in first.setdefault(cells[0], []) if each not in others]
        if others and neighbours:
            return neighbours[0], others[0], flow
        first[cells[0]].append(flow)
        others.append(flow)


def test_flows_that_collide_do_not_silence_each_other(leaf: Bench) -> None:
    flows = colliding(leaf)
    watch(leaf, low=0)
    for address, _ in flows:
        key = match(source=Exact(address))
        action = call("notify_source", stands=5, every=10_000)
        leaf.install(TableEntry("fast_cnp_source", key, action))
    for psn in range(40):
        address, qp = flows[(psn + 2) % 3]  # the first packet of all meets no queue
        frame = data(leaf, qp=qp, psn=psn)
        frame[IP].src = str(IPv4Address(address))
        del frame[IP].chksum
        leaf.switch.inject(1, bytes(frame))
    leaf.settle(100 * MS)
    received = arrived(leaf)
    # Two have the two cells for 10 ms at a time, the third waits until one of them is free again.
    assert outcomes(leaf)[COLLISION] > 0
    spoken = [(int(IPv4Address(f[IP].src)), f[BTH].dqpn) for f in received if f[BTH].resv6]
    assert set(spoken) == set(flows)


# ---------------------------------------------------------------- what hosts may not say


def cnp_of(leaf: Bench, src: str, *, signal: Notification | None = None) -> Packet:
    h1, h2 = leaf.host("h1"), leaf.host("h2")
    padding = CNPPadding(bytes(signal)) if signal else CNPPadding()
    ip = IP(src=src, dst=str(h2.address.ip), tos=48 << 2)
    frame = Ether(src=h1.mac, dst=leaf.me.mac) / ip / UDP(sport=5) / BTH(opcode=0x81, becn=1)
    return frame / padding


def test_a_host_may_send_plain_cnps_of_its_own(leaf: Bench) -> None:
    leaf.send(1, cnp_of(leaf, str(leaf.host("h1").address.ip)))
    assert len(arrived(leaf)) == 1
    assert leaf.dropped() == {}


@pytest.mark.parametrize("kind", list(NotificationType)[1:], ids=lambda k: k.name)
def test_a_host_may_not_send_notifications(leaf: Bench, kind: NotificationType) -> None:
    own = str(leaf.host("h1").address.ip)
    leaf.send(1, cnp_of(leaf, own, signal=Notification(type=kind, severity=15)))
    assert arrived(leaf) == []
    assert leaf.dropped() == {SPOOFED: 1}


def test_a_host_may_not_send_cnps_of_others(leaf: Bench) -> None:
    leaf.send(1, cnp_of(leaf, str(leaf.host("h3").address.ip)))
    assert arrived(leaf) == []
    assert leaf.dropped() == {SPOOFED: 1}


def test_a_host_may_not_say_that_it_was_told(leaf: Bench) -> None:
    watch(leaf)
    source(leaf)
    burst(leaf, 7, resv6=0x3F)
    assert len(cnps(leaf)) == 1
    assert [frame[BTH].resv6 for frame in arrived(leaf)] == [0, 1, 0, 0, 0, 0, 0]


def test_what_a_switch_makes_is_not_taken_for_a_host_s(leaf: Bench) -> None:
    watch(leaf)
    source(leaf)
    burst(leaf, 7)
    assert len(cnps(leaf)) == 1
    assert leaf.dropped() == {}
    assert leaf.rx(1)[0] == 7, "what recirculates is not received twice"


# ---------------------------------------------------------------- for a port that is far away


def test_a_gateway_answers_for_a_far_port(leaf: Bench) -> None:
    """A queue that is only a number fills at what passes and drains at the far port's rate."""
    leaf.switch.configure_port(2, rate_bps=SLOW_BPS * 100)  # here nothing waits for long
    source(leaf, every=1)
    key = match(port=Exact(2), destination=Exact(int(leaf.host("h2").address.ip)))
    numbers = {
        "index": 512, "drain": PACKET_BYTES * 65536 // 1000, "low": 8, "high": 1000, "smoothing": 0,
        "window": 500, "idle": 8000, "growth_scale": 1 << 16, "gap": 1,
        "burst": 1000,
    }  # fmt: skip
    leaf.install(TableEntry("fast_cnp_far", key, call("watch_far_queue", **numbers)))
    for psn in range(10):  # two a millisecond, where one drains
        leaf.switch.inject(1, bytes(data(leaf, psn=psn)))
        leaf.settle(MS // 2)
    leaf.settle(MS)
    signals = [told(Ether(frame)).queue for frame in leaf.take(1)]
    # After n packets there are n of them less what drained in (n - 1) / 2 ms.
    filled = [PACKET_BYTES * n - PACKET_BYTES * (n - 1) // 2 for n in range(1, 11)]
    assert signals == [pytest.approx(depth // 256, abs=1) for depth in filled if depth // 256 > 8]
    leaf.settle(100 * MS)  # all drained
    leaf.switch.inject(1, bytes(data(leaf)))
    assert cnps(leaf) == []
