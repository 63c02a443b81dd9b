"""Fast CNPs as packets: what the switch sends, to whom, how often, and what it keeps from hosts."""

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
from scapy.packet import Packet

import topologies
from controller.entries import (
    DefaultEntry,
    Exact,
    TableEntry,
    call,
    match,
)
from protocols.notification import Notification, NotificationType
from protocols.rocev2 import Opcode, icrc_is_valid
from tests.p4src.conftest import Bench, Program
from tests.p4src.fast_cnp_bench import (
    ALREADY_TOLD,
    AMBIGUOUS_QP,
    CAPABLE,
    COLLISION,
    CONGESTED,
    FILL_QP,
    INTERVAL,
    MOST,
    MS,
    NOBODY,
    PACKET_BYTES,
    PORT_LIMIT,
    SAID,
    SENT,
    SLOW_BPS,
    SPOOFED,
    STEP,
    SWITCH_ID,
    THREE_HOSTS,
    TOLD,
    UNKNOWN_QP,
    arrived,
    asked,
    burst,
    cnps,
    data,
    fill,
    leaf_of,
    outcomes,
    source,
    stock_qp,
    told,
    watch,
)
from topologies import Topology


@pytest.fixture
def topology() -> Topology:
    return topologies.loads(THREE_HOSTS, name="three")


@pytest.fixture
def leaf(fabric_program: Program, topology: Topology, policy: Any) -> Iterator[Bench]:
    yield from leaf_of(fabric_program, topology, policy)


def test_every_byte_of_a_fast_cnp(leaf: Bench) -> None:
    watch(leaf)
    source(leaf)
    h1, h2 = leaf.host("h1"), leaf.host("h2")
    fill(leaf, 7)  # five waited behind the second packet
    burst(leaf, 2, qp=0xABCDEF)
    (first,) = cnps(leaf)
    signal = Notification(
        type=NotificationType.CONGESTION, severity=0, hops=0, validity=5, switch_id=SWITCH_ID,
        port=2, sequence=1, destination=str(h2.address.ip), destination_qp=0xABCDEF, queue=SAID,
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
    fill(leaf, 7)
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
    fill(leaf, 7)
    burst(leaf, 1)
    assert cnps(leaf) == []
    assert outcomes(leaf) == {}


def test_who_joins_a_long_queue_hears_of_it_at_once(leaf: Bench) -> None:
    """Not when it has waited in it: 200 ms later, here."""
    watch(leaf)
    source(leaf)
    fill(leaf, 200)
    burst(leaf, 1)
    assert len(cnps(leaf, ns=MS)) == 1


def test_nobody_hears_of_a_queue_that_nothing_has_left_for_long(leaf: Bench) -> None:
    watch(leaf, unit=256 * 200)  # 200 us: a loop is four of them
    source(leaf, every=1)
    fill(leaf, 10)
    leaf.switch.configure_port(2, rate_bps=1, queue_packets=1000)
    leaf.settle(2 * MS)  # the one that is being sent, and less than four loops
    burst(leaf, 1)
    assert len(cnps(leaf, ns=2 * MS)) == 1
    burst(leaf, 1)
    assert cnps(leaf) == []


def test_off_at_run_time(leaf: Bench) -> None:
    watch(leaf)
    source(leaf)
    leaf.install(DefaultEntry("fast_cnp_mode", call("disable_fast_cnp")))
    fill(leaf, 20)
    burst(leaf, 4)
    assert cnps(leaf) == []
    assert outcomes(leaf) == {}
    leaf.install(DefaultEntry("fast_cnp_mode", call("enable_fast_cnp", dscp=48, switch_id=1)))
    fill(leaf, 20)
    burst(leaf, 4)
    assert len(cnps(leaf)) == 1


def test_one_a_flow_an_interval(leaf: Bench) -> None:
    watch(leaf)
    source(leaf, every=3000)
    fill(leaf, 16)
    burst(leaf, 10, apart=MS)
    assert len(cnps(leaf)) == 4  # at 0, 3, 6, 9 ms
    assert outcomes(leaf) == {SENT: 4, INTERVAL: 6}


def test_flows_are_told_each_for_itself(leaf: Bench) -> None:
    watch(leaf)
    source(leaf, every=100_000)
    fill(leaf, 12)
    for psn in range(6):
        leaf.switch.inject(1, bytes(data(leaf, qp=70 + psn % 3, psn=psn)))
    signals = [told(frame) for frame in cnps(leaf)]
    assert sorted(signal.destination_qp for signal in signals) == [70, 71, 72]
    assert [signal.sequence for signal in signals] == [1, 2, 3]


@pytest.mark.parametrize("stock", [False, True])
def test_what_is_told_is_not_marked(leaf: Bench, stock: bool) -> None:
    watch(leaf, speed=1 << 30)  # a stock NIC is always too fast
    source(leaf, stock=stock, every=3000)
    stock_qp(leaf, call("set_source_qp", qp=0x1234))
    fill(leaf, 10)
    burst(leaf, 6, apart=MS)
    sent = cnps(leaf)
    assert len(sent) == 2
    assert {frame[BTH].dqpn for frame in sent} == {0x1234 if stock else 0}
    received = arrived(leaf)
    assert [frame[IP].tos & 3 for frame in received] == [CAPABLE] * 6
    assert [frame[BTH].resv6 & TOLD for frame in received] == [1] * 6


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(("percent", "times"), [(102, 1), (106, 4)])
def test_a_stock_card_is_told_again_only_if_it_is_faster_than_its_share(
    leaf: Bench, known: bool, percent: int, times: int
) -> None:
    """It is measured over two packets; an eighth more than its share is let pass."""
    watch(leaf, low=0, speed=(MOST >> 16) * percent // 100)
    fill(leaf, 4)
    source(leaf, stock=True, every=2000)
    if known:
        stock_qp(leaf, call("set_source_qp", qp=0x1234))
    burst(leaf, 8, apart=MS)
    assert len(cnps(leaf)) == (times if known else 0)
    # Where nobody knows whom to tell, the receiver is to.
    marked = sum(frame[IP].tos & 3 == CONGESTED for frame in arrived(leaf))
    assert marked == (0 if known else times)
    assert outcomes(leaf) == ({SENT: times, INTERVAL: 8 - times} if known else {UNKNOWN_QP: 8})


@pytest.mark.parametrize("known", [True, False])
def test_ecn_marks_what_fast_cnp_does_not_tell(leaf: Bench, known: bool) -> None:
    watch(leaf)
    if known:
        source(leaf, every=100_000)
    key = match(**{"port": Exact(2), "class": Exact(0)})
    leaf.install(TableEntry("ecn_threshold", key, call("mark_above", threshold=2)))
    burst(leaf, 10)
    cnps(leaf)
    # Its source hears of the queue while more than four wait behind (the 2nd to the 5th).
    first = [2, 2, 2, 2, 2] if known else [2, 3, 3, 3, 3]
    assert [frame[IP].tos & 3 for frame in arrived(leaf)] == [*first, 3, 3, 2, 2, 2]


@pytest.mark.parametrize(
    ("action", "outcome"), [(None, UNKNOWN_QP), (call("skip_ambiguous_qp"), AMBIGUOUS_QP)]
)
def test_a_stock_card_is_not_told_by_guess(leaf: Bench, action: Any, outcome: int) -> None:
    watch(leaf)
    source(leaf, stock=True)
    if action is not None:
        stock_qp(leaf, action)
    fill(leaf, 10)
    burst(leaf, 4)
    assert cnps(leaf) == []
    assert outcomes(leaf) == {outcome: 4}
    assert [frame[BTH].resv6 for frame in arrived(leaf)] == [0] * 4


def test_nobody_is_told_who_is_not_known(leaf: Bench) -> None:
    watch(leaf)
    fill(leaf, 10)
    burst(leaf, 4)
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
    fill(leaf, 10)
    burst(leaf, 10, opcode=opcode)
    assert cnps(leaf) == []
    assert outcomes(leaf) == {}


def test_a_port_sends_so_many_and_no_more(leaf: Bench) -> None:
    watch(leaf, gap=4000, burst=0)
    source(leaf, every=1)
    fill(leaf, 16)
    burst(leaf, 10, apart=MS)  # a packet a millisecond that could be told; one in four is
    assert len(cnps(leaf)) == 3
    assert outcomes(leaf) == {SENT: 3, PORT_LIMIT: 7}


@pytest.mark.parametrize("stock", [False, True])
def test_a_switch_further_on_tells_its_own_rate_but_a_stock_card_once(
    leaf: Bench, stock: bool
) -> None:
    watch(leaf, speed=1 << 30)
    source(leaf, stock=stock, every=100_000)
    stock_qp(leaf, call("set_source_qp", qp=0x1234))
    key = match(**{"port": Exact(2), "class": Exact(0)})
    leaf.install(TableEntry("ecn_threshold", key, call("mark_above", threshold=6)))
    fill(leaf, 10)
    burst(leaf, 4)
    assert len(cnps(leaf)) == 1
    from_first = arrived(leaf)
    assert [frame[BTH].resv6 for frame in from_first] == [1] * 4
    # The same switch as the next one on the way: its port 1 leads to a switch.
    leaf.apply_delete(TableEntry("host_port", match(port=Exact(1)), call("guard_host", address=0)))
    fill(leaf, 16)
    before = outcomes(leaf)
    for frame in from_first:
        frame[Ether].dst = leaf.me.mac
        frame[IP].tos = CAPABLE
        del frame[IP].chksum
        leaf.switch.inject(1, bytes(frame))
    burst(leaf, 7, qp=FILL_QP, src="h3")  # so that more than six wait behind each of them
    assert len(cnps(leaf)) == (0 if stock else 1)
    now = {name: count - before.get(name, 0) for name, count in outcomes(leaf).items()}
    own = {ALREADY_TOLD: 4} if stock else {SENT: 1, INTERVAL: 3}
    assert {name: now.get(name, 0) for name in own} == own
    assert [frame[IP].tos & 3 for frame in arrived(leaf)] == [CAPABLE] * 4


# ---------------------------------------------------------------- flows that share a cell


def cell(src: int, dst: int, qp: int) -> tuple[int, int]:
    """Return the two cells that a flow may use: CRC-32 over the fields, modulo the table's size."""
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
    leaf.apply_delete(TableEntry("host_port", match(port=Exact(1)), call("guard_host", address=0)))
    fill(leaf, 4)
    for psn in range(40):
        address, qp = flows[psn % 3]
        frame = data(leaf, qp=qp, psn=psn)
        frame[IP].src = str(IPv4Address(address))
        del frame[IP].chksum
        leaf.switch.inject(1, bytes(frame))
        leaf.settle(MS)
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
    leaf.send(1, cnp_of(leaf, own, signal=Notification(type=kind, severity=15, queue=500)))
    assert arrived(leaf) == []
    assert leaf.dropped() == {SPOOFED: 1}


def test_a_host_may_not_send_cnps_of_others(leaf: Bench) -> None:
    leaf.send(1, cnp_of(leaf, str(leaf.host("h3").address.ip)))
    assert arrived(leaf) == []
    assert leaf.dropped() == {SPOOFED: 1}


def test_a_host_may_not_say_that_it_was_told(leaf: Bench) -> None:
    watch(leaf)
    source(leaf)
    fill(leaf, 7, resv6=0x3F)
    burst(leaf, 1, resv6=0x3F)
    assert len(cnps(leaf)) == 1
    frames = [Ether(frame) for frame in leaf.take(2)]
    # Told are those behind which more than four waited, and the one that came then.
    assert [frame[BTH].resv6 for frame in frames] == [0, 1, 1, 0, 0, 0, 0, 1]


def test_what_a_switch_makes_is_not_taken_for_a_host_s(leaf: Bench) -> None:
    watch(leaf)
    source(leaf)
    fill(leaf, 7)
    burst(leaf, 1)
    assert len(cnps(leaf)) == 1
    assert leaf.dropped() == {}
    assert leaf.rx(1)[0] == 8, "what recirculates is not received twice"


# ---------------------------------------------------------------- for a port that is far away


def test_a_gateway_answers_for_a_far_port(leaf: Bench) -> None:
    """A queue that is only a number fills at what passes and drains at the far port's rate."""
    leaf.switch.configure_port(2, rate_bps=SLOW_BPS * 100)  # here nothing waits for long
    source(leaf, every=1)
    key = match(port=Exact(2), destination=Exact(int(leaf.host("h2").address.ip)))
    target = 8 * 256
    numbers = {
        **STEP, "drain": PACKET_BYTES * 65536 // 1000, "wanted_depth": target,
        "burst_depth": target, "unit": 256 * 100,
    }  # fmt: skip
    leaf.install(TableEntry("fast_cnp_far", key, call("watch_far_queue", index=512, **numbers)))
    ask = call("ask_far_queue", index=512, **asked(numbers))
    leaf.install(TableEntry("fast_cnp_far_claims", key, ask))
    for psn in range(10):  # two a millisecond, where one drains
        leaf.switch.inject(1, bytes(data(leaf, psn=psn)))
        leaf.settle(MS // 2)
    leaf.settle(MS)
    signals = [told(Ether(frame)) for frame in leaf.take(1)]
    # After n packets there are n of them less what drained in (n - 1) / 2 ms; the next one is told.
    filled = [PACKET_BYTES * n - PACKET_BYTES * (n - 1) // 2 for n in range(1, 10)]
    long = [depth for depth in filled if depth > target]
    assert [signal.queue for signal in signals] == [SAID] * len(long)
    leaf.settle(100 * MS)  # all drained
    leaf.switch.inject(1, bytes(data(leaf)))
    assert cnps(leaf) == []
