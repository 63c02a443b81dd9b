"""Windows, round trips and telemetry in the kernel: the XDP program comes to the card's own state.

    card N (its own slot)      sends and is acknowledged at given times
    card K (a slot in BPF)     sends at the same times, which it notes in the map `cc_sent`
    the XDP program            gets the same acknowledgements: its slot is N's then

`windowed` and `listener` are algorithms of the tests alone (algorithms_for_tests).
"""

from __future__ import annotations

import mmap
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from scapy.packet import Packet

from hostagent import kernel_headers
from hostagent.agent import BPF_DIRECTORY, PROGRAM, SOURCE
from hostagent.bpf_test_run import XdpAction, test_run
from hostagent.pinned_maps import SLOTS, PinnedMaps
from hostagent.pins import MAPS
from hostagent.rnic.binding import Card
from hostagent.rnic.card_records import CardConfig, Operation, QueuePairConfig, Work
from protocols.rocev2 import Syndrome
from protocols.telemetry import Telemetry, TelemetryKind, with_shim
from tests.hostagent import more_algorithms
from tests.hostagent.more_algorithms import LISTENER, windowed
from tests.hostagent.test_xdp_roce import FAR_QPN, HERE, PEER, QPN, ack, cnp, data, ip, number

pytestmark = pytest.mark.root

MTU = 1024
FIRST_PSN = 0xFFFFF0  # so that numbers wrap
WANTED = {"listener": LISTENER, "windowed": windowed(8 * MTU, each=10)}


@pytest.fixture(scope="module")
def algorithms() -> Iterator[None]:
    with more_algorithms.built().card_in_place():
        yield


@dataclass
class Loaded:
    """The program, and its maps."""

    fd: int
    maps: PinnedMaps


@pytest.fixture(scope="module")
def loaded(algorithms: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loaded]:
    bcc = pytest.importorskip("bcc")
    kernel_headers.export()
    flags = [f"-I{BPF_DIRECTORY}", f"-I{more_algorithms.built().include}"]
    bpf = bcc.BPF(src_file=str(SOURCE).encode(), cflags=flags)
    function = bpf.load_func(PROGRAM.encode(), bcc.BPF.XDP)
    descriptors = {name: bcc.lib.bpf_table_fd(bpf.module, name.encode()) for name in MAPS}
    yield Loaded(function.fd, PinnedMaps(tmp_path_factory.mktemp("pins"), descriptors))
    bpf.cleanup()


class Both:
    """A queue pair in the card and one in the kernel, to which the same happens."""

    def __init__(self, loaded: Loaded, wanted: Any = WANTED) -> None:
        self.loaded = loaded
        self.base = time.monotonic_ns()
        self.config = QueuePairConfig(qpn=QPN, mtu=MTU, first_psn=FIRST_PSN)
        self.native, self.kernel = self._card(), self._card()
        self.native.add_queue_pair(self.config, wanted)
        self.slot_number = loaded.maps.add_queue_pair(
            number(HERE), QPN, number(PEER), FAR_QPN,
            mtu=MTU, first_psn=FIRST_PSN, congestion_control=wanted,
        )  # fmt: skip
        self._map()
        for card in (self.native, self.kernel):
            card.connect(QPN, number(PEER), peer_qpn=FAR_QPN, peer_psn=0)

    def _card(self) -> Card:
        config = CardConfig(mac=1, gateway_mac=2, ip=number(HERE), cc_base_ns=self.base)
        return Card(config)

    def _map(self) -> None:
        """As the endpoint does it."""
        ffi, lib, maps = self.kernel.ffi, self.kernel.lib, self.loaded.maps
        stride = (ffi.sizeof("struct cc_slot") + 7) // 8 * 8
        self._slots = mmap.mmap(maps.slots_fd, SLOTS * stride, prot=mmap.PROT_READ)
        self._sent = mmap.mmap(maps.sent_fd, SLOTS * ffi.sizeof("struct cc_sent"))
        config = ffi.new("struct rnic_qp_config *", self.config.fields())
        at = ffi.from_buffer("uint8_t[]", self._slots) + self.slot_number * stride
        config.slot = ffi.cast("struct cc_slot *", at)
        config.sent = ffi.from_buffer("struct cc_sent[]", self._sent) + self.slot_number
        assert lib.rnic_add_qp(self.kernel.handle, config, ffi.NULL) == 0

    def now(self) -> int:
        """Return the cards' time, ps."""
        return (time.monotonic_ns() - self.base) * 1000

    def post(self, packets: int) -> None:
        for card in (self.native, self.kernel):
            card.post(QPN, Work(1, Operation.SEND, bytes(packets * MTU)), self.now())

    def send(self) -> int:
        """Both cards send what they may, at the same time, and the same; return how much."""
        now, sent = self.now(), 0
        while (packet := self.native.transmit(now)) is not None:
            other = self.kernel.transmit(now)
            assert other is not None and other.frame == packet.frame
            sent += 1
        assert self.kernel.transmit(now) is None
        return sent

    def take(self, frame: Packet | bytes) -> Any:
        """Pass a frame to the program, then to both cards; return the kernel's slot."""
        given = bytes(frame)
        result = test_run(self.loaded.fd, given)
        assert (result.action, result.data) == (XdpAction.PASS, given)
        slot = self.slot()
        for card in (self.native, self.kernel):
            card.receive(given, (slot.last_at - self.base) * 1000)
        return slot

    def slot(self) -> Any:
        return self.kernel.lib.rnic_qp_slot(self.kernel.handle, QPN)

    def same(self) -> Any:
        """Compare the states of the kernel's listener and the card's; return the kernel's."""
        ffi = self.kernel.ffi
        own = self.native.lib.rnic_qp_slot(self.native.handle, QPN)
        for name in ("listener", "windowed"):
            there = ffi.buffer(ffi.addressof(self.slot(), name))
            assert bytes(there) == bytes(ffi.buffer(ffi.addressof(own, name))), name
        return self.slot().listener

    def close(self) -> None:
        self.loaded.maps.remove_queue_pair(number(HERE), QPN)
        for card in (self.native, self.kernel):
            card.close()


@pytest.fixture
def both(loaded: Loaded) -> Iterator[Both]:
    made = Both(loaded)
    yield made
    made.close()


def returned(psn: int, blob: bytes, syndrome: int = Syndrome.ACK, **shim: int) -> bytes:
    fields = {"kind": TelemetryKind.RETURNED, "hops": 3, "format": 7, **shim}
    return with_shim(bytes(ip() / ack(psn & 0xFFFFFF, syndrome)), Telemetry(data=blob, **fields))


def test_round_trips_windows_and_telemetry_are_the_card_s_own(both: Both) -> None:
    both.post(60)
    assert both.send() == 8
    psn = FIRST_PSN
    for n in range(50):
        blob = bytes((n + i) % 256 for i in range(4 * (n % 18)))
        psn += 1 + n % 3 if n % 7 else 0
        psn = min(psn, FIRST_PSN + 60)
        slot = both.take(returned(psn - 1, blob))
        state = both.same()
        assert slot.acked_psn == psn & 0xFFFFFF
        assert (state.last_bytes, state.cut > 0) == (min(64, len(blob)), n >= 17)
        both.send()
        if psn == FIRST_PSN + 60:
            break
    assert state.timed > 20 and state.rtt_sum_ns > state.timed * 1000
    assert state.rtt_sum_ns < state.timed * 10**9


def test_what_was_sent_again_is_not_timed(both: Both) -> None:
    both.post(8)
    assert both.send() == 8
    both.take(ip() / ack(FIRST_PSN))
    assert both.same().timed == 1
    both.take(ip() / ack(FIRST_PSN + 2, Syndrome.SEQUENCE_ERROR))
    assert both.same().timed == 1, "a NAK has no round trip"
    assert both.send() == 6
    both.take(ip() / ack(FIRST_PSN + 3))
    both.take(ip() / ack(FIRST_PSN + 3))
    both.take(ip() / ack(FIRST_PSN + 7))
    state = both.same()
    assert (state.timed, state.events, state.bytes) == (1, 5, 8 * MTU)


def test_a_nak_brings_telemetry(both: Both) -> None:
    both.post(8)
    both.send()
    both.take(returned(FIRST_PSN + 2, b"\1\2\3\4", Syndrome.SEQUENCE_ERROR, cut=1))
    state = both.same()
    assert (state.told, state.cut, state.rtt_ns, state.last_hops) == (1, 1, 0, 3)
    slot = both.loaded.maps.slot(both.slot_number)
    assert slot is not None and slot.states["listener"]["words[0]"] == 0x01020304 << 32


def test_a_window_of_the_kernel_s_holds_the_endpoint_back(loaded: Loaded) -> None:
    both = Both(loaded, {"listener": LISTENER, "windowed": windowed(2 * MTU, each=MTU)})
    try:
        both.post(40)
        assert both.send() == 2
        both.take(ip() / ack(FIRST_PSN))
        assert both.send() == 2
        both.take(ip() / ack(FIRST_PSN + 3))
        assert both.send() == 4
    finally:
        both.close()


def test_more_packets_than_the_kernel_remembers_have_no_round_trip(loaded: Loaded) -> None:
    both = Both(loaded, {"listener": LISTENER, "windowed": windowed(300 * MTU)})
    try:
        both.post(300)
        assert both.send() == 300
        times = []
        for n in (10, 43, 44, 299):
            both.take(ip() / ack((FIRST_PSN + n) & 0xFFFFFF))
            times.append(both.slot().listener.timed)
        assert times == [0, 0, 1, 2]
    finally:
        both.close()


def test_send_times_go_with_the_slot(loaded: Loaded) -> None:
    first = Both(loaded)
    first.post(4)
    first.send()
    first.close()
    second = Both(loaded)
    try:
        assert second.slot_number in (first.slot_number, first.slot_number + 1)
        second.loaded.maps._next_slot = first.slot_number
    finally:
        second.close()
    third = Both(loaded)
    try:
        assert third.slot_number == first.slot_number
        size = third.kernel.ffi.sizeof("struct cc_sent")
        assert bytes(third._sent[third.slot_number * size :][:size]) == bytes(size)
    finally:
        third.close()


# --- malformed, and what is not for the algorithm -------------------------------------------------


SEND = bytes(ip() / data(5))
WRONG = {
    "another version": with_shim(SEND, Telemetry(version=1)),
    "an unknown kind": with_shim(SEND, Telemetry(kind=2)),
    "returned with data": with_shim(SEND, Telemetry(kind=1)),
    "an acknowledgement that collects": with_shim(bytes(ip() / ack(5)), Telemetry()),
    "a CNP that collects": with_shim(bytes(ip() / cnp()), Telemetry()),
    "more words than bytes": with_shim(bytes(ip() / ack(5)), Telemetry(kind=1, words=99)),
    "no room for BTH": with_shim(bytes(ip() / ack(5)), Telemetry(kind=1, words=2)),
}


@pytest.mark.parametrize("what", list(WRONG))
def test_malformed_shims_are_counted_and_change_nothing(both: Both, what: str) -> None:
    before = both.loaded.maps.counters()
    both.take(WRONG[what])
    now = both.loaded.maps.counters()
    assert {name: now[name] - before[name] for name in now if now[name] > before[name]} == {
        "packets": 1, "bytes": len(WRONG[what]), "malformed": 1, "passed": 1,
    }  # fmt: skip
    assert both.slot().packets == 0
    assert both.native.stats().malformed == 1


def test_every_length_of_a_shimmed_packet_is_safe(both: Both) -> None:
    frame = returned(FIRST_PSN, bytes(60))
    for size in range(14, len(frame)):
        assert test_run(both.loaded.fd, frame[:size]).action is XdpAction.PASS
        assert both.slot().packets == 0


def test_data_that_collects_is_data(both: Both) -> None:
    before = both.loaded.maps.counters()
    frame = with_shim(SEND, Telemetry(hops=85, format=1, data=bytes(1020)))
    assert test_run(both.loaded.fd, frame).action is XdpAction.PASS
    now = both.loaded.maps.counters()
    assert (now["data"] - before["data"], now["malformed"]) == (1, before["malformed"])
    assert both.slot().packets == 1
