"""Queue pairs over planes in the XDP program: answers to probes, and whose bytes are acknowledged.

    answer by plane i --> slot i: what the endpoint knows of its loss (cc_sent[slot i].lost_at)
    ACK by plane i    --> slot i: what it is the first to acknowledge and went by plane i
                                  (cc_sent[slot 0].paths); or, where it says what has come by each
                                  plane, that, and when it left (cc_sent[slot i].packets, .lost)

`listener` is an algorithm of the tests alone (algorithms_for_tests).
"""

from __future__ import annotations

import mmap
import struct
import time
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from scapy.packet import Packet, Raw

from hostagent import bpf_syscall
from hostagent.bpf_test_run import XdpAction, test_run
from hostagent.pinned_maps import SLOTS, Plane
from hostagent.rnic.native import native
from protocols.rocev2 import Syndrome
from protocols.telemetry import Telemetry, TelemetryKind, with_shim
from tests.hostagent.more_algorithms import LISTENER
from tests.hostagent.native_replay import Alone
from tests.hostagent.test_xdp_feedback import FIRST_PSN, MTU, Loaded, algorithms, loaded
from tests.hostagent.test_xdp_roce import FAR_QPN, HERE, OTHER, PEER, QPN, ack, ip, number, roce

pytestmark = pytest.mark.root
__all__ = ["algorithms", "loaded"]  # fixtures

WAYS = [(HERE, PEER), ("10.0.1.1", "10.0.1.2"), ("10.0.2.1", "10.0.2.2")]
PROBE, ANSWER = 0xC0, 0xC1
LOOKS = 64  # hostagent/bpf/roce_consts.h: PLANE_LOOKS
KEPT = 2048  # CC_SENT_PATHS
LINES = [200 * 10**9, 100 * 10**9, 50 * 10**9]


def failover(line: int, **fields: int) -> dict[str, int]:
    given = {
        "line_rate": line, "min_rate": line // 1000, "hold_ns": 0, "hold_most_ns": 10**10,
        "stable_ns": 10**9, "ramp_ns": 10**15, "answers": 3,
    }  # fmt: skip
    return given | fields


class OverPlanes:
    """A queue pair of HERE with a slot for each plane, and what its endpoint would write."""

    def __init__(self, loaded: Loaded, planes: int) -> None:
        self.loaded, self.ffi = loaded, native().ffi
        self.ways = WAYS[:planes]
        ways = [
            Plane(
                number(here),
                number(there),
                {"dual_plane": failover(line), "listener": LISTENER},
            )
            for (here, there), line in zip(self.ways, LINES, strict=False)
        ]
        self.numbers = loaded.maps.add_planes(QPN, FAR_QPN, ways, mtu=MTU, first_psn=FIRST_PSN)
        size = SLOTS * int(self.ffi.sizeof("struct cc_sent"))
        self._memory = mmap.mmap(loaded.maps.sent_fd, size)
        self._sent = self.ffi.from_buffer("struct cc_sent[]", self._memory)

    def close(self) -> None:
        self.loaded.maps.remove_queue_pair(number(HERE), QPN)

    def sent(self, plane: int) -> Any:
        return self._sent[self.numbers[plane]]

    def slot(self, plane: int) -> Any:
        maps = self.loaded.maps
        key = struct.pack("=I", self.numbers[plane])
        data = bpf_syscall.map_lookup(maps.slots_fd, key, maps.slot_bytes)
        assert data is not None
        copy = self.ffi.new("struct cc_slot *")
        self.ffi.buffer(copy)[:] = data
        return copy

    def run(self, frame: Packet | bytes) -> dict[str, int]:
        """Pass a frame to the program; return what it counted beside packets and their bytes."""
        before = self.loaded.maps.counters()
        result = test_run(self.loaded.fd, bytes(frame))
        assert (result.action, result.data) == (XdpAction.PASS, bytes(frame))
        now = self.loaded.maps.counters()
        assert now["packets"] - before["packets"] == 1
        moved = {name: now[name] - before[name] for name in now if now[name] > before[name]}
        return {name: moved[name] for name in moved if name not in ("packets", "bytes", "passed")}

    def answer(self, plane: int, psn: int, sent_at: int | None = None, **fields: Any) -> Any:
        """Answer the probe of that number by a plane; return its slot then."""
        at = time.monotonic_ns() if sent_at is None else sent_at
        here, there = self.ways[plane]
        assert self.run(ip(there, here) / probe(ANSWER, at, psn)) == {"probe_answers": 1}
        return self.slot(plane)

    def note(self, first: int, paths: list[int]) -> None:
        """Note that the endpoint has sent packets from that one on, by these paths."""
        packets = self.sent(0)
        for packet, path in enumerate(paths, first):
            psn = (FIRST_PSN + packet) & 0xFFFFFF
            packets.paths[psn % KEPT] = (psn // KEPT & 0xFF) << 8 | path
            word = psn << 40 | 1 << 39 | (time.monotonic_ns() & ((1 << 39) - 1))
            packets.packets[psn % 256] = word

    def hear(self, plane: int, packets: int, syndrome: int = Syndrome.ACK) -> Any:
        """Acknowledge the first so many packets by a plane; return its listener."""
        psn = (FIRST_PSN + packets - (syndrome == Syndrome.ACK)) & 0xFFFFFF
        here, there = self.ways[plane]
        self.run(ip(there, here) / ack(psn, syndrome))
        return self.slot(plane).listener


def probe(opcode: int, sent_at: int, of: int, *, size: int = 16, qpn: int = QPN) -> Packet:
    body = (struct.pack(">QII", sent_at, of, 0) + bytes(16))[:size]
    return roce(opcode, qpn=qpn) / Raw(body)


@pytest.fixture
def two(loaded: Loaded) -> Iterator[OverPlanes]:
    pair = OverPlanes(loaded, 2)
    yield pair
    pair.close()


# --- probes and answers ---------------------------------------------------------------------------


def test_an_answer_is_for_the_plane_by_which_it_came(two: OverPlanes) -> None:
    two.sent(0).lost_at = 77  # the other one's
    before = time.monotonic_ns()
    slot = two.answer(1, 41, before)
    heard = slot.listener
    assert (slot.probes, slot.lost_at, slot.packets) == (1, 0, 1)
    assert (heard.probed, heard.probe_number, heard.probe_lost_at) == (1, 41, 0)
    assert heard.probe_trip == slot.last_at - before
    assert (slot.dual_plane.down, slot.dual_plane.losses) == (0, 0)
    assert (slot.dual_plane.rate, slot.first_cut_at) == (LINES[1], 0)
    assert (two.slot(0).packets, two.slot(0).probes) == (0, 0)


def test_a_loss_that_the_endpoint_tells_closes_the_plane_until_enough_answers(
    two: OverPlanes,
) -> None:
    alone = Alone("dual_plane", two.slot(1).dual_plane)
    lost_at = two.sent(1).lost_at = time.monotonic_ns()
    for of, down, rate in (
        (7, 1, LINES[1] // 1000), (8, 1, LINES[1] // 1000), (10, 1, LINES[1] // 1000),
        (11, 1, LINES[1] // 1000), (12, 0, LINES[1] // 16), (13, 0, LINES[1] // 16),
    ):  # fmt: skip
        slot = two.answer(1, of)
        alone.event(slot.last_at, kind=alone.lib.CC_PROBED, number=of, lost_at=lost_at)
        assert bytes(two.ffi.buffer(two.ffi.addressof(slot, "dual_plane"))) == bytes(
            two.ffi.buffer(alone.state)
        )
        assert (slot.dual_plane.down, slot.dual_plane.rate) == (down, rate)
        assert (slot.lost_at, slot.first_cut_at) == (lost_at, 0)
    assert slot.probes == 6
    assert two.slot(0).dual_plane.losses == 0
    found = {each.plane: each for each in two.loaded.maps.slots()}
    assert (found[1].lost_at, found[1].probes, found[1].rate_bps) == (lost_at, 6, LINES[1] // 16)


@pytest.mark.parametrize("sent_at", [0, 1 << 63, (1 << 64) - 1, 1])
def test_a_send_time_that_cannot_be_is_no_round_trip(two: OverPlanes, sent_at: int) -> None:
    if sent_at == 1:  # longer ago than any probe's answer may take
        assert time.monotonic_ns() > 0
        sent_at = (time.monotonic_ns() - (1 << 39) - 10**9) % (1 << 64)
    heard = two.answer(0, 1, sent_at).listener
    assert (heard.probed, heard.probe_trip) == (1, 0)


def test_a_probe_is_counted_and_changes_nothing_else(two: OverPlanes) -> None:
    two.sent(1).lost_at = time.monotonic_ns()
    here, there = two.ways[1]
    assert two.run(ip(there, here) / probe(PROBE, 1, 1)) == {"probes": 1}
    slot = two.slot(1)
    assert (slot.packets, slot.probes, slot.lost_at, slot.dual_plane.losses) == (1, 0, 0, 0)


@pytest.mark.parametrize("opcode", [PROBE, ANSWER])
@pytest.mark.parametrize("size", [0, 4, 12, 20, 32])
def test_of_another_length_it_is_malformed(two: OverPlanes, opcode: int, size: int) -> None:
    assert two.run(ip() / probe(opcode, 1, 1, size=size)) == {"malformed": 1}
    assert two.slot(0).packets == 0


@pytest.mark.parametrize("cut", [1, 4, 5, 20])
def test_what_is_cut_short_is_malformed(two: OverPlanes, cut: int) -> None:
    assert two.run(bytes(ip() / probe(ANSWER, 1, 1))[:-cut]) == {"malformed": 1}
    assert two.slot(0).packets == 0


def test_of_nobody_s_queue_pair_or_another_peer_it_is_unknown(two: OverPlanes) -> None:
    unknown = {"probe_answers": 1, "unknown_qp": 1}
    assert two.run(ip() / probe(ANSWER, 1, 1, qpn=QPN + 1)) == unknown
    assert two.run(ip(OTHER) / probe(ANSWER, 1, 1)) == unknown
    assert two.run(ip(WAYS[1][1]) / probe(ANSWER, 1, 1)) == unknown  # plane 1's peer, by plane 0
    assert [two.slot(plane).packets for plane in range(2)] == [0, 0]


@pytest.mark.parametrize("opcode", [PROBE, ANSWER])
def test_without_planes_they_are_the_endpoints_alone(loaded: Loaded, opcode: int) -> None:
    """Path migration has them, and no algorithm of a slot has anything to do with it."""
    pair = OverPlanes(loaded, 2)
    maps = loaded.maps
    try:
        ways = [(number(here), number(there)) for here, there in WAYS[1:]]
        other = maps.add_queue_pair(
            number(HERE), QPN + 1, number(PEER), FAR_QPN, mtu=MTU, more=ways,
            congestion_control={"listener": LISTENER},
        )  # fmt: skip
        for here, there in WAYS:
            kind = "probes" if opcode == PROBE else "probe_answers"
            assert pair.run(ip(there, here) / probe(opcode, 1, 1, qpn=QPN + 1)) == {kind: 1}
        found = maps.slot(other)
        assert found is not None and (found.packets, found.planes) == (0, 0)
        assert found.shared == other
    finally:
        maps.remove_queue_pair(number(HERE), QPN + 1, more=ways)
        pair.close()


# --- acknowledgements -----------------------------------------------------------------------------


MORE = ((2, 1, 1), (2, 4, 2), (3, 1, 3))


@pytest.mark.parametrize(
    ("planes", "ports", "seed"),
    [(3, 5, 4), *(pytest.param(*each, marks=pytest.mark.long) for each in MORE)],
)
def test_each_byte_counts_once_for_the_plane_that_it_took(
    loaded: Loaded, planes: int, ports: int, seed: int
) -> None:
    """Acknowledgements by random planes, of few packets and of many, some of them NAKs."""
    random, total = Random(seed), 900
    pair = OverPlanes(loaded, planes)
    try:
        paths = [random.randrange(planes * ports) for _ in range(total)]
        pair.note(0, paths)
        acked, packets = [0] * planes, 0
        while packets < total:
            packets = min(total, packets + random.randint(1, 10))
            way = random.randrange(planes)
            if packets - min(acked) > LOOKS - 10 * planes:  # all of them are looked at
                way = acked.index(min(acked))
            refused = random.random() < 0.2
            pair.hear(way, packets, Syndrome.SEQUENCE_ERROR if refused else Syndrome.ACK)
            acked[way] = packets
            for plane in range(planes):
                own = sum(path % planes == plane for path in paths[: acked[plane]])
                assert pair.slot(plane).listener.bytes == own * MTU
        for plane in range(planes):
            pair.hear(plane, total)
        carried = [pair.slot(plane).listener.bytes // MTU for plane in range(planes)]
        assert carried == [sum(p % planes == plane for p in paths) for plane in range(planes)]
        assert sum(carried) == total
        before = pair.slot(0).listener.bytes
        assert pair.hear(0, total - 5).bytes == pair.hear(0, total).bytes == before  # nothing new
    finally:
        pair.close()


def test_of_many_packets_the_last_ones_speak_for_all(two: OverPlanes) -> None:
    paths = [0] * 600 + [0, 1, 1, 1] * 16  # the last 64: a quarter of them by plane 0
    two.note(0, paths)
    assert two.hear(0, len(paths)).bytes == len(paths) // 4 * MTU
    assert two.hear(1, len(paths)).bytes == len(paths) // 4 * 3 * MTU


def test_where_no_path_is_known_planes_share_alike(two: OverPlanes) -> None:
    two.note(0, [0] * 40)
    two.note(KEPT, [1] * 40)  # in their places
    assert two.hear(0, 40).bytes == two.hear(1, 40).bytes == 20 * MTU
    two.note(40, [1] * 4)
    two.note(KEPT + 40, [0] * 2)
    assert two.hear(1, 44).bytes == 24 * MTU  # the two that are known speak for four
    assert two.hear(0, 44).bytes == 20 * MTU


def test_round_trips_are_those_of_the_plane(two: OverPlanes) -> None:
    two.note(0, [0, 1, 0, 1])
    assert two.hear(1, 1).timed == 0  # packet 0 went by plane 0
    heard = two.hear(1, 2)
    assert heard.timed == 1
    assert 0 < heard.rtt_ns < 10**10
    assert two.hear(0, 2).timed == 0
    assert two.hear(0, 3).timed == 1
    assert two.hear(1, 4, Syndrome.SEQUENCE_ERROR).timed == 1  # a NAK has none


def test_acknowledgements_of_one_plane_leave_the_others_alone(two: OverPlanes) -> None:
    two.note(0, [0, 1] * 10)
    two.hear(0, 20)
    other = two.slot(1)
    assert (other.packets, other.acked_psn, other.listener.events) == (0, FIRST_PSN, 0)
    own = two.slot(0)
    assert (own.acks, own.acked_psn) == (1, (FIRST_PSN + 20) & 0xFFFFFF)


# --- acknowledgements that say what has come by each plane ----------------------------------------


def counts(two: OverPlanes, plane: int, *come: int, label: int = 0, blob: bytes = b"") -> Any:
    """Acknowledge by a plane, with what has come by each; return its slot."""
    echo = struct.pack(">BBH", 0x40 | len(come), label, 0) + struct.pack(f">{len(come)}I", *come)
    here, there = two.ways[plane]
    frame = bytes(ip(there, here) / ack(FIRST_PSN) / Raw(echo))
    if blob:
        shim = Telemetry(kind=TelemetryKind.RETURNED, format=1, hops=1, data=blob)
        frame = with_shim(frame, shim)
    two.run(frame)
    return two.slot(plane)


def left(two: OverPlanes, plane: int, order: int) -> int:
    """Note when the `order`-th packet of a plane left, as its card does: now."""
    now = time.monotonic_ns()
    two.sent(plane).packets[order % 256] = order << 40 | 1 << 39 | now & ((1 << 39) - 1)
    return now


def test_what_has_come_counts_for_its_plane(two: OverPlanes) -> None:
    for plane in (0, 1):
        for order in range(1, 9):
            left(two, plane, order)
    heard = counts(two, 1, 3, 5).listener
    assert (heard.events, heard.bytes, heard.timed) == (1, 5 * MTU, 1)
    assert two.slot(0).listener.events == 0  # it hears by its own way
    heard = counts(two, 1, 3, 4).listener  # overtaken
    assert (heard.events, heard.bytes, heard.timed, heard.rtt_ns) == (2, 5 * MTU, 1, 0)
    heard = counts(two, 1, 8, 8).listener
    assert (heard.bytes, heard.timed) == (8 * MTU, 2)
    assert counts(two, 0, 8, 8).listener.bytes == 8 * MTU


def test_the_packet_that_has_come_is_timed_past_those_that_are_lost(two: OverPlanes) -> None:
    left(two, 0, 4)
    assert counts(two, 0, 2, 0).listener.timed == 0  # the second one: nothing is known of it
    two.sent(0).lost = 1
    slot = counts(two, 0, 3, 0)  # the third to come was sent as the fourth
    assert slot.listener.timed == 1
    assert 0 < slot.listener.rtt_ns < 10**10


def test_counts_wrap(two: OverPlanes) -> None:
    two.sent(0).lost = 2
    most = (1 << 31) - 1
    assert counts(two, 0, most, 0).listener.bytes == most * MTU
    assert counts(two, 0, 2 * most, 0).listener.bytes == 2 * most * MTU
    left(two, 0, 5)
    heard = counts(two, 0, 3, 0).listener
    assert (heard.bytes, heard.timed) == (((1 << 32) + 3) * MTU, 1)


def test_telemetry_is_of_the_plane_that_the_label_names(two: OverPlanes) -> None:
    blob = bytes(range(12))
    for label in (0, 1, 3, 255):
        assert counts(two, 1, 1, 1, label=label, blob=blob).listener.told == 0
    heard = counts(two, 1, 1, 1, label=2, blob=blob).listener
    assert (heard.told, heard.last_bytes) == (1, 12)
    assert int(heard.words[0]).to_bytes(8) == blob[:8]
    assert counts(two, 1, 1, 0, label=2, blob=blob).listener.told == 1  # overtaken
    assert two.slot(0).listener.told == 0


@pytest.mark.parametrize("echo", [b"", b"\x40\0\0\0", b"\x43\0\0\0" + bytes(12), b"\x42\2\0\0"])
def test_counts_that_are_no_counts_of_its_planes_leave_it_to_psns(
    two: OverPlanes, echo: bytes
) -> None:
    two.note(0, [1] * 4)
    here, there = two.ways[1]
    two.run(ip(there, here) / ack((FIRST_PSN + 3) & 0xFFFFFF) / Raw(echo))
    slot = two.slot(1)
    assert (slot.come, slot.listener.bytes) == (0, 4 * MTU)


def test_the_first_answer_after_a_loss_lets_algorithms_begin_again(two: OverPlanes) -> None:
    two.sent(1).lost_at = lost_at = time.monotonic_ns()
    before = two.slot(1).listener.params.line_rate
    slot = two.answer(1, 1)
    assert (slot.lost_at, slot.dual_plane.losses) == (lost_at, 1)
    assert slot.listener.rate == before  # with the parameters that it has
    assert two.answer(1, 2).dual_plane.losses == 1
