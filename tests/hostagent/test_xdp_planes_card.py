"""A card over planes whose slots the kernel keeps: what the card notes, and what the program makes.

    card A --(plane 0, 1)--> card B
    card A <-- XDP program <-- card B      what A receives, the program has seen first

A's slots are the kernel's: whether a plane that was lost returns is decided there. Time is real.
"""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable, Iterator, Mapping

import pytest

from hostagent.bpf_test_run import test_run
from hostagent.pinned_maps import SLOTS, Plane, Slot
from hostagent.rnic.binding import Card
from hostagent.rnic.card_records import (
    CardConfig,
    Interface,
    Operation,
    QueuePairConfig,
    Repeat,
    Work,
)
from hostagent.rnic.planes import PlaneConfig, PlaneLoss, PlaneState, PlaneUse
from mechanisms.swift.parameters import swift_parameters
from tests.hostagent.test_xdp_planes import KEPT, WAYS, failover
from tests.hostagent.test_xdp_roce import FAR_QPN, QPN, Program, loaded, number

pytestmark = pytest.mark.root
__all__ = ["loaded"]  # a fixture

MTU, FIRST_PSN = 1024, 0xFFFFF0
LINE = 10**9
US, MS = 10**6, 10**9
PATIENCE_S = 20
RAMP_NS = 2_000_000
PLANES = PlaneConfig(PlaneUse.SHARED, misses=200, silence_ps=50 * MS, probe_ps=100 * US)


class Cards:
    """Both cards, and the program in front of the first."""

    def __init__(self, loaded: Program, **more: Mapping[str, int]) -> None:
        self.loaded, self.base = loaded, time.monotonic_ns()
        self.ways = [(number(here), number(there)) for here, there in WAYS[:2]]
        self.a = self._card([here for here, _ in self.ways])
        self.b = self._card([there for _, there in self.ways])
        self.by: dict[int, int] = {}  # by which plane A has sent a PSN last
        self.cut: set[int] = set()  # planes that lose everything
        self.drop: Callable[[int], bool] = lambda n: False  # of what A sends
        self.dropped = 0
        self.leaves: Callable[[int], None] = lambda plane: None  # a packet of data of A's
        params = failover(LINE, ramp_ns=RAMP_NS, answers=3, hold_ns=3_000_000)
        control = {"dual_plane": params, **more}
        self.numbers = loaded.maps.add_planes(
            QPN, FAR_QPN, [Plane(*way, control) for way in self.ways],
            mtu=MTU, first_psn=FIRST_PSN,
        )  # fmt: skip
        self._add_to_a()
        self.b.add_queue_pair(self._config(FAR_QPN))
        peers = [[there for _, there in self.ways], [here for here, _ in self.ways]]
        self.a.connect_ways(QPN, peers[0], peer_qpn=FAR_QPN, peer_psn=7)
        self.b.connect_ways(FAR_QPN, peers[1], peer_qpn=QPN, peer_psn=FIRST_PSN)

    def _card(self, addresses: list[int]) -> Card:
        first, *more = (
            {"mac": n + 1, "gateway_mac": n + 9, "ip": ip} for n, ip in enumerate(addresses)
        )
        config = CardConfig(**first, cc_base_ns=self.base, line_rate_bps=LINE)
        return Card(config, *(Interface(**each, line_rate_bps=LINE) for each in more))

    def _config(self, qpn: int) -> QueuePairConfig:
        return QueuePairConfig(
            qpn=qpn, mtu=MTU, first_psn=FIRST_PSN if qpn == QPN else 7, interfaces=2,
            repeat=Repeat.SELECTIVE, window_packets=4096, timeout_ps=10**13, planes=PLANES,
        )  # fmt: skip

    def _add_to_a(self) -> None:
        """As the endpoint does it."""
        ffi, maps = self.a.ffi, self.loaded.maps
        stride = (ffi.sizeof("struct cc_slot") + 7) // 8 * 8
        self._slots = mmap.mmap(maps.slots_fd, SLOTS * stride, prot=mmap.PROT_READ)
        memory = mmap.mmap(maps.sent_fd, SLOTS * ffi.sizeof("struct cc_sent"))
        self._sent = ffi.from_buffer("struct cc_sent[]", memory)
        config = ffi.new("struct rnic_qp_config *", self._config(QPN).fields())
        for plane, slot in enumerate(self.numbers):
            at = ffi.from_buffer("uint8_t[]", self._slots) + slot * stride
            config.plane_slots[plane] = ffi.cast("struct cc_slot *", at)
            config.plane_sent[plane] = self._sent + slot
        assert self.a.lib.rnic_add_qp(self.a.handle, config, ffi.NULL) == 0

    def now(self) -> int:
        """Return the cards' time, ps."""
        return (time.monotonic_ns() - self.base) * 1000

    def step(self) -> None:
        """Each card sends what it may by each plane, and the other one has it at once."""
        for sender, receiver in ((self.a, self.b), (self.b, self.a)):
            sender.advance(self.now())
            for plane in range(2):
                packet = sender.transmit(self.now(), plane)
                if packet is None:
                    continue
                frame = bytes(packet.frame)
                if sender is self.a and frame[42] < 0x11:  # a request: BTH begins at 42
                    self.by[int.from_bytes(frame[51:54], "big")] = plane
                    self.leaves(plane)
                self.dropped += sender is self.a
                if sender is self.a and frame[42] < 0x11 and self.drop(self.dropped):
                    continue
                if plane in self.cut:
                    continue
                if receiver is self.a:
                    test_run(self.loaded.fd, frame)
                receiver.receive(frame, self.now(), interface=plane)

    def until(self, what: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not what():
            assert time.monotonic() < deadline, self.slots()
            self.step()

    def send(self, packets: int) -> None:
        """So many packets are sent, and acknowledged."""
        target = self.a.queue_pair_stats(QPN).acked_bytes + packets * MTU
        self.b.post_receive(FAR_QPN, 1, bytearray(packets * MTU))
        self.a.post(QPN, Work(1, Operation.SEND, bytes(packets * MTU)), self.now())
        self.until(lambda: self.a.queue_pair_stats(QPN).acked_bytes >= target)

    def slots(self) -> list[Slot]:
        found = [self.loaded.maps.slot(each) for each in self.numbers]
        return [each for each in found if each is not None]

    def state(self, plane: int) -> PlaneState:
        return self.a.plane_stats(QPN, plane).state

    def noted(self) -> dict[int, int]:
        """By which plane the packets went that A has sent, as the kernel is told."""
        paths = self._sent[self.numbers[0]].paths
        words = {psn: paths[psn % KEPT] for psn in self.by}
        assert all(word >> 8 == psn // KEPT & 0xFF for psn, word in words.items())
        return {psn: (word & 0xFF) % 2 for psn, word in words.items()}

    def told_lost(self) -> list[int]:
        return [self._sent[each].lost_at for each in self.numbers]


@pytest.fixture
def cards(loaded: Program) -> Iterator[Cards]:
    made = Cards(loaded)
    yield made
    loaded.maps.remove_queue_pair(made.ways[0][0], QPN)
    made.a.close()
    made.b.close()


def test_the_card_notes_by_which_plane_each_packet_went(cards: Cards) -> None:
    cards.send(300)
    assert cards.noted() == cards.by
    assert sorted(set(cards.by.values())) == [0, 1]
    # By which plane acknowledgements come is the peer's to say.
    assert sum(each.acks for each in cards.slots()) >= 300 // 2
    assert cards.told_lost() == [0, 0]


def test_a_lost_plane_returns_when_the_kernel_says_so(cards: Cards) -> None:
    cards.send(50)
    cards.cut = {1}
    cards.a.set_link(1, False)
    lost_at = cards.told_lost()[1]
    assert 0 < lost_at <= time.monotonic_ns() and cards.told_lost()[0] == 0
    cards.send(50)
    assert cards.state(1) is PlaneState.LOST
    assert cards.a.plane_stats(QPN, 1).why is PlaneLoss.LINK
    assert cards.slots()[1].lost_at == 0  # nothing has answered yet
    cards.cut = set()
    cards.a.set_link(1, True)
    cards.until(lambda: cards.slots()[1].probes > 0)
    heard = cards.slots()[1]
    assert heard.lost_at == lost_at
    assert heard.states["dual_plane"]["losses"] == 1
    cards.until(lambda: cards.state(1) is PlaneState.UP)
    back = cards.slots()[1]
    assert back.states["dual_plane"]["down"] == 0
    assert back.probes >= 3
    assert back.states["dual_plane"]["up_at"] >= lost_at + 3_000_000
    cards.by.clear()
    cards.send(300)
    assert cards.noted() == cards.by
    assert set(cards.by.values()) == {0, 1}
    cards.until(lambda: cards.slots()[1].rate_bps == LINE)


def test_a_plane_that_is_lost_again_is_held_for_longer(cards: Cards) -> None:
    holds = []
    for _ in range(3):
        cards.send(20)
        cards.a.set_link(1, False)
        cards.a.set_link(1, True)
        cards.until(lambda: cards.state(1) is PlaneState.UP)
        holds.append(cards.slots()[1].states["dual_plane"]["hold"])
    assert holds == [3_000_000, 6_000_000, 12_000_000]


# --- windows: Swift, whose state the kernel keeps and by which the card sends ---------------------

SWIFT = swift_parameters(LINE).in_fabric(60_000, 1, MTU).fields()  # a first window of 7 packets


@pytest.fixture
def windows(loaded: Program) -> Iterator[Cards]:
    made = Cards(loaded, swift=SWIFT)
    yield made
    loaded.maps.remove_queue_pair(made.ways[0][0], QPN)
    made.a.close()
    made.b.close()


def test_each_planes_window_in_the_kernel_holds_its_packets_back(windows: Cards) -> None:
    most = [0, 0]

    def look(plane: int) -> None:
        stats = windows.a.plane_stats(QPN, plane)
        before = stats.flight_bytes - MTU
        assert before == 0 or before < stats.window_bytes
        most[plane] = max(most[plane], stats.flight_bytes)

    windows.leaves = look
    windows.send(400)
    assert all(most)
    for plane, slot in enumerate(windows.slots()):
        state = slot.states["swift"]
        assert state["target_ns"] > 0  # round trips were heard
        assert state["window_q16"] != SWIFT["first_q16"]
        assert windows.a.plane_stats(QPN, plane).window_bytes == state["window_q16"] * MTU >> 16
        assert windows.a.plane_stats(QPN, plane).flight_bytes == 0


def test_a_plane_that_answers_again_has_the_kernel_begin_its_window_anew(windows: Cards) -> None:
    windows.send(200)
    assert windows.slots()[1].states["swift"]["window_q16"] != SWIFT["first_q16"]
    windows.cut = {1}
    windows.a.set_link(1, False)
    windows.send(50)
    other = windows.slots()[0].states["swift"]["window_q16"]
    assert other != SWIFT["first_q16"]
    windows.cut = set()
    windows.a.set_link(1, True)
    windows.until(lambda: windows.slots()[1].probes > 0)
    assert windows.slots()[1].states["swift"]["window_q16"] == SWIFT["first_q16"]
    assert windows.slots()[0].states["swift"]["window_q16"] == other
    windows.until(lambda: windows.state(1) is PlaneState.UP)
    windows.by.clear()
    windows.send(200)
    assert set(windows.by.values()) == {0, 1}


def test_packets_that_are_lost_change_no_round_trip_into_one_of_a_repetition(
    windows: Cards,
) -> None:
    """Every tenth packet of A's is lost: the kernel is told how many, and counts on from there."""
    windows.drop = lambda n: n % 10 == 0
    windows.send(300)
    for slot in windows.slots():
        assert slot.states["swift"]["target_ns"] > 0
    lost = [int(windows._sent[each].lost) for each in windows.numbers]
    assert sum(lost) >= 300 // 10
    assert windows.a.queue_pair_stats(QPN).acked_bytes == 300 * MTU
