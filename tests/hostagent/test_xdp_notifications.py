"""Notifications in datagrams in the XDP program, by BPF_PROG_TEST_RUN: verdicts, map, counters.

scapy --> roce_xdp --> dropped: it ends here (one of congestion goes on to the endpoint)
             |--> notifications      the latest of each (host, type, switch, port)
             |--> notified_counts    by type
             '--> cc_slots           of congestion: as in a CNP
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, UDP, IPOption_NOP
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Packet, Raw

from hostagent import bpf_syscall
from hostagent.bpf_test_run import XdpAction
from hostagent.bpf_test_run import test_run as send
from hostagent.notifications import Heard, HeardCounts
from hostagent.pinned_maps import NOTIFICATIONS, Slot
from hostagent.rnic.native import native
from mechanisms.bolt.parameters import bolt_parameters
from mechanisms.fast_cnp.parameters import fast_cnp_parameters
from protocols.notification import (
    NEIGHBOURS,
    NOTIFICATION_PORT,
    RATE_UNIT_BPS,
    SOURCE,
    Notification,
    NotificationType,
    as_cnp_padding,
    datagram,
    rate_of,
    rate_units,
)
from protocols.rocev2 import ROCE_V2_PORT, Opcode
from tests.hostagent.test_xdp_roce import (
    FAR_QPN,
    HERE,
    MTU,
    OTHER,
    PEER,
    QPN,
    Program,
    loaded,
    number,
)
from tests.hostagent.virtual_wire import make_card

pytestmark = pytest.mark.root
__all__ = ["loaded"]

FAST = {"fast_cnp": fast_cnp_parameters(100 * 10**9).fields()}
RATE = rate_of(50 * 10**9 // RATE_UNIT_BPS)
DOWN = NotificationType.LINK_DOWN
MEANINGLESS = (6, 7, *range(9, 16))
"""Types that hosts count and do not keep."""
SAID: dict[str, Any] = {
    "type": DOWN, "severity": 10, "hops": 3, "validity": 5, "switch_id": 0xA5A5, "port": 0x5A5,
    "sequence": 0xA5A, "destination": "165.90.165.91", "destination_qp": 0xA55AA5, "queue": 0x5AA5,
}  # fmt: skip


class Hearing:
    """The program with an empty map, and what its counters have moved by."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.fd = program.maps._fds["notifications"]
        for key in bpf_syscall.map_keys(self.fd, 12):
            bpf_syscall.map_delete(self.fd, key)
        self.before = program.maps.notification_counts()

    def run(self, frame: Packet | bytes) -> XdpAction:
        return self.program.run(frame)

    def heard(self) -> list[Heard]:
        return sorted(self.program.maps.notifications(), key=lambda row: row.at_ns)

    def counted(self) -> HeardCounts:
        now, before = self.program.maps.notification_counts(), self.before
        types = {k: n - before.types.get(k, 0) for k, n in now.types.items()}
        return HeardCounts(
            {kind: packets for kind, packets in types.items() if packets},
            now.malformed - before.malformed,
            now.no_queue_pair - before.no_queue_pair,
            now.lost - before.lost,
        )


@pytest.fixture
def hearing(loaded: Program) -> Iterator[Hearing]:
    """With one queue pair of HERE that hears fast CNPs."""
    loaded.own = loaded.maps.add_queue_pair(
        number(HERE), QPN, number(PEER), FAR_QPN, mtu=MTU, congestion_control=FAST
    )
    yield Hearing(loaded)
    loaded.maps.remove_queue_pair(number(HERE), QPN)


def frame(*, to: str = HERE, body: bytes = b"", **fields: Any) -> Packet:
    return Ether(dst="02:00:00:00:00:01") / datagram(
        Notification(**{**SAID, **fields}), to=to, body=body
    )


def counts(types: dict[int, int] | None = None, malformed: int = 0, **more: int) -> HeardCounts:
    return HeardCounts(types or {}, malformed, more.get("no_queue_pair", 0), more.get("lost", 0))


def test_the_map_has_every_field_and_when_and_how_often(hearing: Hearing) -> None:
    before = time.monotonic_ns()
    assert hearing.run(frame(body=b"seven b")) is XdpAction.PASS
    (row,) = hearing.heard()
    assert before < row.at_ns < time.monotonic_ns()
    values = {**SAID, "destination": number(SAID["destination"])}
    assert {name: getattr(row, name) for name in values} == values
    assert (row.local, row.kind, row.body_bytes, row.times) == (HERE, DOWN, 7, 1)
    assert hearing.counted() == counts({DOWN: 1})
    assert hearing.program.counted() == {}  # nothing of it is RoCEv2


def test_the_latest_of_each_host_type_switch_and_port(hearing: Hearing) -> None:
    for n in range(3):
        hearing.run(frame(sequence=n, severity=n, body=bytes(n)))
    for fields in ({"to": OTHER}, {"type": 3}, {"switch_id": 1}, {"port": 1}, {"queue": 9}):
        hearing.run(frame(**fields))
    rows = hearing.heard()
    assert [row.times for row in rows] == [1, 1, 1, 1, 4]
    assert (rows[-1].queue, rows[-1].sequence, rows[-1].body_bytes) == (9, SAID["sequence"], 0)
    assert {row.local for row in rows} == {HERE, OTHER}
    assert hearing.counted() == counts({DOWN: 7, 3: 1})
    assert [row.local for row in hearing.program.maps.notifications(number(OTHER))] == [OTHER]


def test_types_without_a_meaning_are_counted_and_not_kept(hearing: Hearing) -> None:
    for kind in MEANINGLESS:
        assert hearing.run(frame(type=kind)) is XdpAction.PASS
    assert hearing.heard() == []
    assert hearing.counted() == counts(dict.fromkeys(MEANINGLESS, 1))


# --- of congestion -------------------------------------------------------------------------------


def congestion(**fields: Any) -> Notification:
    values = {"type": 1, "queue": RATE, "validity": 9, "switch_id": 3, "port": 2, "sequence": 1,
              "destination": PEER, "destination_qp": FAR_QPN}  # fmt: skip
    return Notification(**{**values, **fields})


def in_cnp(said: Notification, qpn: int = 0) -> Packet:
    return (
        Ether() / IP(src=PEER, dst=HERE) / UDP(dport=ROCE_V2_PORT, chksum=0)
        / BTH(opcode=int(Opcode.CNP), becn=1, dqpn=qpn) / as_cnp_padding(said)
    )  # fmt: skip


def lasting(slot: Slot) -> dict[str, int]:
    """Return the algorithm's state, without when it was."""
    return {name: slot.states["fast_cnp"][name] for name in ("rate", "words_said")}


def test_one_of_congestion_does_what_it_does_in_a_cnp(hearing: Hearing) -> None:
    """The same rate, the same counters of the queue pair; and the map has it."""
    add, maps = hearing.program.maps.add_queue_pair, hearing.program.maps
    second = add(number(HERE), QPN + 1, number(PEER), FAR_QPN + 1, mtu=MTU, congestion_control=FAST)
    try:
        hearing.run(in_cnp(congestion()))
        said = congestion(destination_qp=FAR_QPN + 1)
        # Up the stack, as the CNP: an endpoint that reads by AF_PACKET has to see it.
        assert hearing.run(Ether() / datagram(said, to=HERE)) is XdpAction.PASS
        assert hearing.program.counted() == {"notified": 1, "passed": 1}
        one, other = maps.slot(hearing.program.own), maps.slot(second)
        assert one is not None and other is not None
        assert lasting(one) == lasting(other)
        assert one.states["fast_cnp"]["words_said"] == 1
        assert one.states["fast_cnp"]["rate"] == RATE_UNIT_BPS * rate_units(RATE)
        assert (one.notified, one.cnps) == (other.notified, other.cnps) == (1, 0)
        assert (one.packets, other.packets) == (1, 1)
        assert [row.kind for row in hearing.heard()] == [NotificationType.CONGESTION]
        assert hearing.counted() == counts({1: 1})
    finally:
        maps.remove_queue_pair(number(HERE), QPN + 1)


@pytest.mark.parametrize("kind", range(2, 16))
def test_in_a_cnp_another_type_is_kept_as_well_and_the_cnp_is_one(
    hearing: Hearing, kind: int
) -> None:
    said = Notification(**{**SAID, "type": kind})
    hearing.run(in_cnp(said, QPN))
    assert hearing.program.counted()["cnps"] == 1
    assert hearing.program.counted()["notification_type"] == 1
    values = {**SAID, "type": kind, "destination": number(SAID["destination"])}
    found = [{name: getattr(row, name) for name in values} for row in hearing.heard()]
    assert found == [values] * (kind not in MEANINGLESS)
    assert hearing.counted() == counts()


STRANGE = {
    "another queue pair": {"destination_qp": FAR_QPN ^ 1},
    "another destination": {"destination": OTHER},
}


@pytest.mark.parametrize("fields", STRANGE.values(), ids=STRANGE)
def test_for_no_queue_pair_of_ours_it_changes_none(
    hearing: Hearing, fields: dict[str, Any]
) -> None:
    before = bytes(native().ffi.buffer(hearing.program.slot()))
    assert hearing.run(Ether() / datagram(congestion(**fields), to=HERE)) is XdpAction.PASS
    assert bytes(native().ffi.buffer(hearing.program.slot())) == before
    assert hearing.counted() == counts({1: 1}, no_queue_pair=1)


@pytest.mark.parametrize("kind", [0, *range(2, 16)])
def test_no_other_type_reaches_a_queue_pair(hearing: Hearing, kind: int) -> None:
    before = bytes(native().ffi.buffer(hearing.program.slot()))
    hearing.run(Ether() / datagram(congestion(type=kind), to=HERE))
    assert bytes(native().ffi.buffer(hearing.program.slot())) == before


def test_one_of_a_queue_takes_from_the_window_of_the_queue_pair_that_hears_it(
    hearing: Hearing,
) -> None:
    """With a body and without, and of a packet that the ring of send times does not have."""
    maps, fields = (
        hearing.program.maps,
        bolt_parameters(100 * 10**9).in_fabric(10_000, MTU).fields(),
    )
    slot = maps.add_queue_pair(
        number(HERE),
        QPN + 1,
        number(PEER),
        FAR_QPN + 1,
        mtu=MTU,
        congestion_control={"bolt": fields},
    )
    try:
        window = fields["first_q16"]
        for times, body in enumerate((b"", b"\0\0\7\0", b"\0\0\7"), 1):
            said = congestion(type=8, destination_qp=FAR_QPN + 1, severity=0, queue=5_000)
            assert hearing.run(Ether() / datagram(said, to=HERE, body=body)) is XdpAction.PASS
            found = maps.slot(slot)
            assert found is not None and (found.notified, found.cnps) == (times, 0)
            assert found.states["bolt"]["window_q16"] < window
            window = found.states["bolt"]["window_q16"]
        assert [(row.kind, row.body_bytes) for row in hearing.heard()] == [(8, 3)]
        assert hearing.counted() == counts({8: 3})
    finally:
        maps.remove_queue_pair(number(HERE), QPN + 1)


def test_a_queue_pair_whose_algorithms_do_not_hear_it_is_left_alone(hearing: Hearing) -> None:
    maps = hearing.program.maps
    deaf = maps.add_queue_pair(number(HERE), QPN + 1, number(PEER), FAR_QPN + 1, mtu=MTU)
    try:
        hearing.run(Ether() / datagram(congestion(destination_qp=FAR_QPN + 1), to=HERE))
        slot = maps.slot(deaf)
        assert slot is not None and (slot.packets, slot.notified, slot.cnps) == (0, 0, 0)
        assert hearing.counted() == counts({1: 1})
    finally:
        maps.remove_queue_pair(number(HERE), QPN + 1)


# --- what is not as it has to be -----------------------------------------------------------------


def changed(body: bytes = b"", **fields: Any) -> Packet:
    packet = frame(body=body)
    for name, value in fields.items():
        setattr(packet[IP], name, value)
    return packet


def with_udp_length(length: int, body: bytes = bytes(8)) -> Packet:
    packet = frame(body=body)
    packet[UDP].len = length
    return packet


MALFORMED: dict[str, Packet] = {
    "of no type": frame(type=0),
    "from a host's address": changed(src=PEER),
    "to the neighbours": frame(to=NEIGHBOURS),
    "a UDP length of none": with_udp_length(0),
    "a UDP length without it": with_udp_length(23),
    "a UDP length short of IPv4's": with_udp_length(24),
    "a UDP length beyond IPv4's": with_udp_length(40),
    "a body longer than the packet": with_udp_length(1000),
    "an IPv4 length beyond UDP's": changed(len=1000),
    "half of it": Ether() / IP(src=SOURCE, dst=HERE) / UDP(dport=NOTIFICATION_PORT, len=16)
    / Raw(bytes(8)),
}  # fmt: skip


@pytest.mark.parametrize("bad", MALFORMED.values(), ids=MALFORMED)
def test_one_that_is_wrong_is_counted_and_dropped(hearing: Hearing, bad: Packet) -> None:
    assert hearing.run(bad) is XdpAction.DROP
    assert hearing.heard() == []
    assert hearing.counted() == counts(malformed=1)


STACK = {
    "another port": frame().copy(),
    "options": changed(options=[IPOption_NOP()] * 4),
    "a first fragment": changed(flags="MF"),
    "a later fragment": changed(frag=2),
    "another IPv4": changed(version=5),
    "a VLAN": Ether() / Dot1Q(vlan=3) / datagram(Notification(**SAID), to=HERE),
}
STACK["another port"][UDP].dport = NOTIFICATION_PORT + 1


@pytest.mark.parametrize("other", STACK.values(), ids=STACK)
def test_what_cannot_be_one_is_the_stack_s(hearing: Hearing, other: Packet) -> None:
    assert hearing.run(other) is XdpAction.PASS
    assert (hearing.heard(), hearing.counted()) == ([], counts())


def test_cut_short_anywhere_it_is_safe(hearing: Hearing) -> None:
    whole = bytes(frame(body=b"body"))
    for size in range(14, len(whole)):
        hearing.run(whole[:size])
    assert hearing.heard() == []
    assert hearing.counted() == counts(malformed=len(whole) - 42)


def test_a_flood_of_keys_forgets_old_ones_and_no_more(hearing: Hearing) -> None:
    """100 000 switches and ports: the map stays as large as it is, and has the last ones."""
    raw = bytearray(bytes(frame()))
    at = 14 + 20 + 8 + 2
    flood = 100_000
    for n in range(flood):
        raw[at : at + 4] = (n << 4).to_bytes(4, "big")
        send(hearing.program.fd, bytes(raw))
    rows = hearing.heard()
    assert NOTIFICATIONS // 2 <= len(rows) <= NOTIFICATIONS
    kept = {row.switch_id << 12 | row.port for row in rows}
    assert set(range(flood - NOTIFICATIONS // 4, flood)) <= kept
    assert {row.times for row in rows} == {1}
    assert hearing.counted().types == {DOWN: flood}
    hearing.run(frame())
    assert hearing.heard()[-1].port == SAID["port"]


# --- as in the card ------------------------------------------------------------------------------


def test_the_card_makes_the_same_of_whatever_comes(hearing: Hearing) -> None:
    """Frames with a few bytes changed, cut or made longer, everywhere but in who they are for."""
    random = Random(14)
    card = make_card(1, ip=number(HERE))
    whole = bytes(frame(body=bytes(12)))
    header = [*range(12, 30), *range(34, 58)]  # Ethernet's type to IPv4's source, UDP on
    for _ in range(3000):
        given = bytearray(whole)
        for at in random.sample(header, random.choice((0, 1, 1, 2, 3))):
            given[at] = random.choice((0, 1, given[at] ^ 1 << random.randrange(8), 0xFF))
        length = random.choice((len(given), len(given), random.randrange(42, 90)))
        given = (given + bytes(90))[:length]
        send(hearing.program.fd, bytes(given))
        card.receive(bytes(given), now=0)
    assert hearing.counted() == card.notification_counts()
    rows, same = hearing.heard(), card.notifications()
    assert timeless(rows) == timeless(same)
    assert len(rows) > 30
    assert hearing.counted().malformed > 500


def timeless(rows: list[Heard]) -> list[Heard]:
    """Rows in one order, without when they were heard."""
    ordered = sorted(rows, key=lambda row: (row.type, row.switch_id, row.port))
    return [replace(row, at_ns=0) for row in ordered]
