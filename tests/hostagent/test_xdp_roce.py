"""The XDP program on packets built by scapy, by BPF_PROG_TEST_RUN: verdicts, counters, slots.

    scapy --> roce_xdp --> verdict
                 |--> counters          (what the run has seen)
                 '--> cc_slots          (what the queue pair has seen, and its congestion control)

The program is loaded with maps of its own; nothing is attached or pinned.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from scapy.contrib.roce import AETH, BTH
from scapy.layers.inet import IP, TCP, UDP, IPOption_NOP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.packet import Packet, Raw

from hostagent import bpf_syscall, kernel_headers
from hostagent.agent import BPF_DIRECTORY, PROGRAM, SOURCE
from hostagent.bpf_test_run import XdpAction, test_run
from hostagent.pinned_maps import PinnedMaps
from hostagent.pins import MAPS
from hostagent.rnic.native import native
from mechanisms.dcqcn.parameters import parameters
from mechanisms.fast_cnp.parameters import fast_cnp_parameters
from protocols.notification import Notification, rate_of, rate_units
from protocols.rocev2 import ROCE_V2_PORT, Opcode, Syndrome
from protocols.telemetry import Telemetry, with_shim
from tests.hostagent.native_replay import Alone

pytestmark = pytest.mark.root

HERE, PEER, OTHER = "10.0.0.1", "10.0.0.2", "10.0.0.3"
QPN, FAR_QPN = 0x11, 0x22
MTU = 1024
FIRST_PSN = 0xFFFFFE  # so that acknowledgements wrap
CE = 3
AF_XDP = 44
DCQCN = {"dcqcn": parameters("hpcc-dcqcn", 100 * 10**9).fields()}


def number(address: str) -> int:
    return int.from_bytes(bytes(int(part) for part in address.split(".")), "big")


@dataclass
class Program:
    """The loaded program, its maps, and what its counters said last."""

    fd: int
    maps: PinnedMaps
    before: dict[str, int] = field(default_factory=dict)
    own: int = 0  # the slot of the queue pair that every test has

    def run(self, frame: Packet | bytes) -> XdpAction:
        """Run it on a frame, which it must leave as it is."""
        given = bytes(frame)
        self.before = self.maps.counters()
        result = test_run(self.fd, given)
        assert result.data == given
        return result.action

    def counted(self) -> dict[str, int]:
        """Counters that the last frame has moved, and by how much."""
        now = self.maps.counters()
        return {
            name: now[name] - self.before[name] for name in now if now[name] > self.before[name]
        }

    def slot(self, at: int | None = None) -> Any:
        """Return a copy of struct cc_slot, of the test's own queue pair or another."""
        ffi = native().ffi
        at = self.own if at is None else at
        data = bpf_syscall.map_lookup(
            self.maps.slots_fd, struct.pack("=I", at), self.maps.slot_bytes
        )
        assert data is not None
        copy = ffi.new("struct cc_slot *")
        ffi.buffer(copy)[:] = data
        return copy


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    bcc = pytest.importorskip("bcc")
    kernel_headers.export()
    flags = [f"-I{BPF_DIRECTORY}", f"-I{BPF_DIRECTORY.parent / 'include'}"]
    bpf = bcc.BPF(src_file=str(SOURCE).encode(), cflags=flags)
    function = bpf.load_func(PROGRAM.encode(), bcc.BPF.XDP)
    descriptors = {name: bcc.lib.bpf_table_fd(bpf.module, name.encode()) for name in MAPS}
    maps = PinnedMaps(tmp_path_factory.mktemp("pins"), descriptors)
    yield Program(function.fd, maps)
    bpf.cleanup()


@pytest.fixture
def program(loaded: Program) -> Iterator[Program]:
    """With one queue pair of HERE that has sent 8 packets from FIRST_PSN on."""
    loaded.own = loaded.maps.add_queue_pair(
        number(HERE),
        QPN,
        number(PEER),
        FAR_QPN,
        mtu=MTU,
        first_psn=FIRST_PSN,
        congestion_control=DCQCN,
    )
    yield loaded
    loaded.maps.remove_queue_pair(number(HERE), QPN)


def ip(source: str = PEER, to: str = HERE, **fields: Any) -> Packet:
    return Ether(src="02:00:00:00:00:02", dst="02:00:00:00:00:01") / IP(
        src=source, dst=to, **fields
    )


def roce(opcode: int, psn: int = 0, *, qpn: int = QPN, port: int = ROCE_V2_PORT) -> Packet:
    return UDP(sport=49152, dport=port, chksum=0) / BTH(opcode=opcode, dqpn=qpn, psn=psn)


def data(psn: int = 0, size: int = 256, **fields: Any) -> Packet:
    return roce(Opcode.SEND_ONLY, psn, **fields) / Raw(bytes(size))


def ack(psn: int, syndrome: int = Syndrome.ACK, **fields: Any) -> Packet:
    return roce(Opcode.ACK, psn, **fields) / AETH(syndrome=syndrome, msn=1)


def cnp(**fields: Any) -> Packet:
    return roce(Opcode.CNP, **fields) / Raw(bytes(16))


def expected(frame: Packet, **more: int) -> dict[str, int]:
    return {"packets": 1, "bytes": len(frame), "passed": 1, **more}


# --- what each kind of packet does to counters and slot ------------------------------------------

KINDS: list[tuple[str, Packet, dict[str, int], dict[str, int]]] = [
    ("data", ip() / data(), {"data": 1}, {}),
    ("data with CE", ip(tos=CE) / data(), {"data": 1, "marked": 1}, {"marked": 1}),
    ("data with ECT", ip(tos=2) / data(), {"data": 1}, {}),
    ("a read request", ip() / roce(Opcode.READ_REQUEST) / Raw(bytes(16)), {"data": 1}, {}),
    ("a read response", ip() / roce(Opcode.READ_ONLY) / Raw(bytes(68)), {"data": 1}, {}),
    ("an ACK", ip() / ack(FIRST_PSN), {"acks": 1}, {"acks": 1}),
    ("an ACK with CE", ip(tos=CE) / ack(FIRST_PSN), {"acks": 1, "marked": 1},
     {"acks": 1, "marked": 1}),
    ("a sequence NAK", ip() / ack(0, Syndrome.SEQUENCE_ERROR), {"naks": 1}, {"naks": 1}),
    ("an access NAK", ip() / ack(0, Syndrome.REMOTE_ACCESS), {"naks": 1}, {"naks": 1}),
    ("not ready", ip() / ack(0, Syndrome.RNR + 14), {"naks": 1}, {"naks": 1}),
    ("a NAK with a bitmap", ip() / ack(0, Syndrome.SEQUENCE_ERROR) / Raw(bytes(20)), {"naks": 1},
     {"naks": 1}),
    ("a CNP", ip(tos=48 << 2) / cnp(), {"cnps": 1}, {"cnps": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("frame", "counters", "slot"), [row[1:] for row in KINDS],
                         ids=[row[0] for row in KINDS])  # fmt: skip
def test_kinds_of_packets(
    program: Program, frame: Packet, counters: dict[str, int], slot: dict[str, int]
) -> None:
    assert program.run(frame) is XdpAction.PASS
    assert program.counted() == expected(frame, **counters)
    found = program.slot()
    assert found.packets == 1
    assert found.bytes == len(frame) - 14 - 20
    for name in ("acks", "naks", "cnps", "marked"):
        assert getattr(found, name) == slot.get(name, 0), name
    assert found.last_at > 0
    assert found.sequence % 2 == 0
    assert found.dcqcn.limited == ("cnps" in slot)


# --- what is not for a queue pair of ours --------------------------------------------------------

STRANGERS = {
    "another queue pair": ip() / cnp(qpn=QPN + 1),
    "another host": ip(to=OTHER) / cnp(),
    "another sender": ip(source=OTHER) / cnp(),
}


@pytest.mark.parametrize("frame", STRANGERS.values(), ids=STRANGERS)
def test_cnps_for_no_queue_pair_of_ours_change_none(program: Program, frame: Packet) -> None:
    before = bytes(native().ffi.buffer(program.slot()))
    assert program.run(frame) is XdpAction.PASS
    assert program.counted() == expected(frame, cnps=1, unknown_qp=1)
    assert bytes(native().ffi.buffer(program.slot())) == before


def cut(frame: Packet, size: int) -> bytes:
    return bytes(frame)[:size]


TRANSPORT = 14 + 20 + 8
MALFORMED = {
    "no BTH": cut(ip() / cnp(), TRANSPORT),
    "half a BTH": cut(ip() / cnp(), TRANSPORT + 11),
    "an ACK without AETH": cut(ip() / ack(0), TRANSPORT + 12),
    "half an AETH": cut(ip() / ack(0), TRANSPORT + 15),
    "a CNP cut short": cut(ip() / cnp(), TRANSPORT + 20),
    "a CNP with 15 bytes": bytes(ip() / roce(Opcode.CNP) / Raw(bytes(15))),
    "a longer UDP length": bytes(ip() / UDP(dport=ROCE_V2_PORT, len=2000, chksum=0)
                                 / BTH(opcode=Opcode.CNP, dqpn=QPN)),
}  # fmt: skip


@pytest.mark.parametrize("frame", MALFORMED.values(), ids=MALFORMED)
def test_malformed_packets_are_passed_up_and_change_no_queue_pair(
    program: Program, frame: bytes
) -> None:
    assert program.run(frame) is XdpAction.PASS
    assert program.counted() == {
        "packets": 1, "bytes": len(frame), "malformed": 1, "passed": 1,
    }  # fmt: skip
    assert program.slot().packets == 0


def fragment(**fields: Any) -> Packet:
    return ip(**fields) / data()


OTHERS: dict[str, Packet | bytes] = {
    "ARP": Ether(dst="ff:ff:ff:ff:ff:ff") / ARP(),
    "IPv6": Ether(dst="02:00:00:00:00:01") / IPv6() / cnp(),
    "a VLAN": Ether(dst="02:00:00:00:00:01") / Dot1Q(vlan=5) / IP(src=PEER, dst=HERE) / cnp(),
    "TCP": ip() / TCP(dport=ROCE_V2_PORT),
    "another port": ip() / cnp(port=4792),
    "options in the IPv4 header": ip(options=[IPOption_NOP()] * 4) / cnp(),
    "a first fragment": fragment(flags="MF"),
    "a later fragment": fragment(frag=3),
    "a header length that cannot be": ip(ihl=4) / cnp(),
    "IPv4 that says it is IPv5": ip(version=5) / cnp(),
    "an Ethernet header alone": cut(Ether(type=0x0800), 14),
    "half an IPv4 header": cut(ip() / cnp(), 14 + 19),
    "half a UDP header": cut(ip() / cnp(), TRANSPORT - 1),
}


@pytest.mark.parametrize("frame", OTHERS.values(), ids=OTHERS)
def test_what_is_not_rocev2_passes_uncounted(program: Program, frame: Packet | bytes) -> None:
    assert program.run(frame) is XdpAction.PASS
    assert program.counted() == {}
    assert program.slot().packets == 0


def test_telemetry_is_passed_over(program: Program) -> None:
    """None of the algorithms that ship wants it: the packet counts as without."""
    for packet, kind, shim in (
        (data(), "data", Telemetry(hops=1, format=1, data=bytes(12))),
        (ack(FIRST_PSN), "acks", Telemetry(kind=1, hops=85, format=1, data=bytes(1020))),
        (ack(FIRST_PSN, Syndrome.SEQUENCE_ERROR), "naks", Telemetry(kind=1, data=bytes(8))),
    ):
        frame = with_shim(bytes(ip() / packet), shim)
        assert program.run(frame) is XdpAction.PASS
        assert program.counted() == {"packets": 1, "bytes": len(frame), "passed": 1, kind: 1}
    assert program.slot().packets == 3


def test_every_length_of_a_packet_is_safe(program: Program) -> None:
    for packet in (cnp(), ack(0), data()):
        frame = bytes(ip() / packet)
        for size in range(14, len(frame)):
            assert program.run(frame[:size]) is XdpAction.PASS
            assert program.slot().packets == 0
            assert program.counted().get("malformed", 0) == (size >= TRANSPORT)


# --- the queue pair's congestion control ---------------------------------------------------------


def by_header(name: str, slot: Any, now: int, **event: int) -> bytes:
    """Return an algorithm's state as its header makes it natively from a slot's."""
    alone = Alone(name, getattr(slot, name))
    alone.event(now, **event)
    return bytes(native().ffi.buffer(alone.state))


def test_cnps_and_acks_change_the_state_as_the_header_does(loaded: Program) -> None:
    cnp_event, acked = native().lib.CC_CNP, native().lib.CC_ACKED
    # Slow enough that what happens between the frames is a few periods.
    byte_counted = parameters("ns3-rdma", 40 * 10**9, 100)
    loaded.own = loaded.maps.add_queue_pair(
        number(HERE),
        QPN,
        number(PEER),
        FAR_QPN,
        mtu=4096,
        first_psn=0,
        congestion_control={"dcqcn": byte_counted.fields()},
    )
    try:
        psn = 0
        steps = [(cnp_event, 0), (acked, 7), (acked, 70_000), (cnp_event, 0), (acked, 1)] * 8
        for kind, packets in steps:
            before = loaded.slot()
            psn += packets
            loaded.run(ip() / (cnp() if kind == cnp_event else ack((psn - 1) & 0xFFFFFF)))
            after = loaded.slot()
            state = bytes(native().ffi.buffer(native().ffi.addressof(after, "dcqcn")))
            size = packets * 4096
            assert state == by_header("dcqcn", before, after.last_at, kind=kind, bytes=size)
            assert after.acked_psn == psn & 0xFFFFFF
        assert after.dcqcn.byte_steps > 0 or after.dcqcn.bytes > 0
        assert after.dcqcn.rate < byte_counted.line_rate_bps
    finally:
        loaded.maps.remove_queue_pair(number(HERE), QPN)


ACKNOWLEDGED: list[tuple[str, int, int, int]] = [
    # what, PSN, syndrome, PSN behind the last one acknowledged
    ("the first packet", FIRST_PSN, Syndrome.ACK, 0xFFFFFF),
    ("three packets, over the wrap", 0, Syndrome.ACK, 1),
    ("nothing new", FIRST_PSN - 1, Syndrome.ACK, FIRST_PSN),
    ("less than before", FIRST_PSN - 100, Syndrome.ACK, FIRST_PSN),
    ("all before the missing one", 3, Syndrome.SEQUENCE_ERROR, 3),
    ("all before the one that is not awaited", 2, Syndrome.RNR, 2),
    ("a NAK of the first one", FIRST_PSN, Syndrome.SEQUENCE_ERROR, FIRST_PSN),
]


@pytest.mark.parametrize(("psn", "syndrome", "behind"), [row[1:] for row in ACKNOWLEDGED],
                         ids=[row[0] for row in ACKNOWLEDGED])  # fmt: skip
def test_what_an_acknowledgement_acknowledges(
    program: Program, psn: int, syndrome: int, behind: int
) -> None:
    program.run(ip() / ack(psn, syndrome))
    assert program.slot().acked_psn == behind


def test_queue_pairs_do_not_touch_each_other(program: Program) -> None:
    """Of two hosts, with the same number; and one without congestion control."""
    add: Callable[..., int] = program.maps.add_queue_pair
    second = add(number(OTHER), QPN, number(PEER), 7, mtu=MTU, congestion_control=DCQCN)
    third = add(number(HERE), QPN + 1, number(PEER), 8, mtu=MTU)
    try:
        for _ in range(3):
            program.run(ip(to=OTHER) / cnp())
        program.run(ip() / cnp(qpn=QPN + 1))
        assert [program.slot(at).cnps for at in (program.own, second, third)] == [0, 3, 1]
        assert [program.slot(at).dcqcn.limited for at in (program.own, second, third)] == [0, 1, 0]
    finally:
        program.maps.remove_queue_pair(number(OTHER), QPN)
        program.maps.remove_queue_pair(number(HERE), QPN + 1)
    frame = ip(to=OTHER) / cnp()
    program.run(frame)
    assert program.counted() == expected(frame, cnps=1, unknown_qp=1)


def test_a_queue_pair_of_several_addresses_is_found_by_any_of_them(loaded: Program) -> None:
    second, peer_2 = "10.0.9.1", "10.0.9.2"
    ways = [(number(second), number(peer_2))]
    own = (number(HERE), QPN, number(PEER), FAR_QPN)
    loaded.own = loaded.maps.add_queue_pair(*own, mtu=MTU, congestion_control=DCQCN, more=ways)
    other = loaded.maps.add_queue_pair(number(second), QPN + 1, number(OTHER), 7, mtu=MTU)
    try:
        for source in (PEER, peer_2):
            for to in (HERE, second):
                loaded.run(ip(source, to) / cnp())
                assert "unknown_qp" not in loaded.counted()
        assert loaded.slot().cnps == 4
        for source, to, qpn in ((OTHER, second, QPN), (peer_2, second, QPN + 1)):
            loaded.run(ip(source, to) / cnp(qpn=qpn))  # neither's peer
            assert loaded.counted()["unknown_qp"] == 1
        assert (loaded.slot().cnps, loaded.slot(other).cnps) == (4, 0)
    finally:
        loaded.maps.remove_queue_pair(number(HERE), QPN, more=ways)
        loaded.maps.remove_queue_pair(number(second), QPN + 1)
    loaded.run(ip(peer_2, second) / cnp())
    assert loaded.counted()["unknown_qp"] == 1


# --- fast CNPs: for whom, and what they do -------------------------------------------------------

# slow: between two frames nothing is due
FAST = {"fast_cnp": fast_cnp_parameters(100 * 10**9, 10_000).fields()}
HALF = FAST["fast_cnp"]["rate_unit_q16"] * rate_units(rate_of(50 * 10**9 >> 16)) >> 16


@pytest.fixture
def fast(loaded: Program) -> Iterator[Program]:
    """HERE's QPN goes by fast CNPs and by DCQCN; QPN + 1, to PEER's next one, by DCQCN alone."""
    add = loaded.maps.add_queue_pair
    both = {**DCQCN, **FAST}
    loaded.own = add(number(HERE), QPN, number(PEER), FAR_QPN, mtu=MTU, congestion_control=both)
    add(number(HERE), QPN + 1, number(PEER), FAR_QPN + 1, mtu=MTU, congestion_control=DCQCN)
    yield loaded
    for qpn in (QPN, QPN + 1):
        loaded.maps.remove_queue_pair(number(HERE), qpn)


def told(
    source: str = PEER, to: str = HERE, qpn: int = 0, rate: int = 50 * 10**9, **fields: Any
) -> Packet:
    """Return a fast CNP as a switch makes it."""
    values = {"type": 1, "validity": 9, "destination": source, "destination_qp": FAR_QPN,
              "switch_id": 7, "port": 300, "sequence": 9, "queue": rate_of(rate >> 16)}  # fmt: skip
    said = Notification(**{**values, **fields})
    return ip(source, to, tos=48 << 2) / roce(Opcode.CNP, qpn=qpn) / Raw(bytes(said))


@pytest.mark.parametrize("bth_qpn", [0, QPN, QPN + 1, 0xFFFFFF])
def test_a_fast_cnp_is_for_the_queue_pair_that_has_that_peer(fast: Program, bth_qpn: int) -> None:
    frame = told(qpn=bth_qpn)
    assert fast.run(frame) is XdpAction.PASS
    assert fast.counted() == expected(frame, notified=1)
    slot = fast.slot()
    assert (slot.notified, slot.cnps, slot.packets) == (1, 0, 1)
    assert (slot.fast_cnp.rate, slot.dcqcn.limited) == (HALF, 0)
    assert slot.first_cut_at == slot.last_at > 0
    assert slot.sequence % 2 == 0
    assert fast.slot(fast.own + 1).packets == 0


def test_notifications_change_the_state_as_the_header_does(fast: Program) -> None:
    module = native()
    for gbps, port, validity in [(0, 1, 0), (40, 1, 3), (30, 1, 3), (6, 2, 15), (100, 3, 9)] * 3:
        before = fast.slot()
        fast.run(told(rate=gbps * 10**9, port=port, validity=validity))
        after = fast.slot()
        said = {"rate": rate_units(rate_of(gbps * 10**9 >> 16)), "number": 7 << 16 | port}
        event = {"kind": module.lib.CC_NOTIFIED, "validity": validity, **said}
        there = module.ffi.buffer(module.ffi.addressof(after, "fast_cnp"))
        assert bytes(there) == by_header("fast_cnp", before, after.last_at, **event)
    assert after.fast_cnp.rate < HALF
    assert after.notified == 15


def test_the_first_cut_stays_when_there_are_more(fast: Program) -> None:
    fast.run(told(rate=200 * 10**9))  # not below the line: no cut
    assert fast.slot().first_cut_at == 0
    fast.run(ip() / cnp())
    first = fast.slot().last_at
    fast.run(told())
    slot = fast.slot()
    assert slot.first_cut_at == first < slot.last_at
    assert (slot.cnps, slot.notified) == (1, 2)
    rate = native().lib.cc_rate_now(slot, slot.last_at)
    assert rate == min(slot.dcqcn.rate, slot.fast_cnp.rate)


PLAIN: dict[str, tuple[Packet, dict[str, int]]] = {
    # what it names in BTH is the queue pair QPN + 1, without fast CNPs
    "for a queue pair without": (told(destination_qp=FAR_QPN + 1, qpn=QPN + 1), {}),
    "for a peer's queue pair that nobody has": (
        told(destination_qp=FAR_QPN + 2, qpn=QPN + 1), {"notification_qp": 1},
    ),
    "of somebody else": (told(destination=OTHER, qpn=QPN + 1), {"notification_qp": 1}),
    "of a type between switches": (told(type=2, qpn=QPN + 1), {"notification_type": 1}),
    "of no type that there is": (told(type=15, qpn=QPN + 1), {"notification_type": 1}),
    "of type none": (told(type=0, qpn=QPN + 1), {}),
}  # fmt: skip


@pytest.mark.parametrize(("frame", "counters"), PLAIN.values(), ids=PLAIN)
def test_other_notifications_are_cnps(
    fast: Program, frame: Packet, counters: dict[str, int]
) -> None:
    assert fast.run(frame) is XdpAction.PASS
    assert fast.counted() == expected(frame, cnps=1, **counters)
    assert fast.slot().packets == 0
    slot = fast.slot(fast.own + 1)
    assert (slot.cnps, slot.notified, slot.dcqcn.limited) == (1, 0, 1)


def test_a_fast_cnp_for_nobody_changes_nothing(fast: Program) -> None:
    for frame in (told(source=OTHER), told(source=OTHER, destination=PEER), told(to=OTHER)):
        assert fast.run(frame) is XdpAction.PASS
        counted = {"cnps": 1, "notification_qp": 1, "unknown_qp": 1}
        assert fast.counted() == expected(frame, **counted)
    assert fast.slot().packets == fast.slot(fast.own + 1).packets == 0


def test_a_queue_pair_s_peer_is_forgotten_with_it(fast: Program) -> None:
    """A newer queue pair to the same one of the peer takes over, and only it gives that up."""
    fast.maps.add_queue_pair(
        number(HERE), 99, number(PEER), FAR_QPN, mtu=MTU, congestion_control=FAST
    )
    fast.maps.remove_queue_pair(number(HERE), QPN)
    fast.run(told())
    assert fast.counted()["notified"] == 1
    assert [each.notified for each in fast.maps.slots() if each.qpn == 99] == [1]
    fast.maps.remove_queue_pair(number(HERE), 99)
    fast.run(told())
    assert fast.counted()["notification_qp"] == 1


KEY = struct.pack("=I", 5)


@pytest.fixture
def endpoint(program: Program) -> Iterator[int]:
    """Open an endpoint of HERE, with room for a socket.

    Yield the descriptor of the map of sockets.
    """
    hosts, here = program.maps._fds["endpoints"], struct.pack("=I", number(HERE))
    bpf_syscall.map_update(hosts, here, KEY)
    yield program.maps.sockets_fd
    bpf_syscall.map_delete(hosts, here)


def test_without_a_socket_an_endpoint_s_packets_go_up_the_stack(
    program: Program, endpoint: int
) -> None:
    frame = ip() / data()
    assert program.run(frame) is XdpAction.PASS
    assert program.counted() == expected(frame, data=1)


def test_an_endpoint_s_socket_gets_its_packets_and_no_others(
    program: Program, endpoint: int
) -> None:
    with socket.socket(AF_XDP, socket.SOCK_RAW) as waiting:
        bpf_syscall.map_update(endpoint, KEY, struct.pack("=I", waiting.fileno()))
        for packet, kind in ((data(), "data"), (ack(FIRST_PSN), "acks"), (cnp(), "cnps")):
            frame = ip() / packet
            assert program.run(frame) is XdpAction.REDIRECT
            counted = {"packets": 1, "bytes": len(frame), "redirected": 1, kind: 1}
            assert program.counted() == counted
        others: dict[str, Packet | bytes] = {**STRANGERS, **MALFORMED, **OTHERS}
        for other in others.values():
            assert program.run(other) is XdpAction.PASS
            assert "redirected" not in program.counted()
        program.maps.remove_queue_pair(number(HERE), QPN)
        program.maps.add_queue_pair(
            number(HERE), QPN, number(PEER), FAR_QPN, mtu=MTU, congestion_control=FAST
        )
        assert program.run(told()) is XdpAction.REDIRECT
    # A closed socket leaves the map by itself.
    assert program.run(ip() / data()) is XdpAction.PASS
