"""Algorithms with a window, round trips and telemetry over planes: each plane has its own.

    card A  == plane 0, 1: data, an empty shim ==>  card B
       ^------ how much came by each plane, and what switches wrote into the packets of one ------'

`windowed` and `listener` are algorithms of the tests alone (algorithms_for_tests). Time is virtual.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from scapy.layers.l2 import Ether

from hostagent.rnic.card_records import Access, CardError, EventKind, Operation, PacketKind
from hostagent.rnic.planes import PlaneConfig, PlaneState, PlaneUse
from mechanisms.encc.parameters import encc_parameters
from mechanisms.swift.parameters import swift_parameters
from protocols.rocev2 import Opcode, plane_echo
from protocols.telemetry import appended, has_telemetry, shim_of, without
from tests.hostagent import more_algorithms
from tests.hostagent.more_algorithms import LISTENER, windowed
from tests.hostagent.test_rnic_planes import HEALTH, MS, failures, over_planes, silent
from tests.hostagent.virtual_links import (
    GBPS,
    RKEY,
    SANITIZE,
    US,
    Link,
    Pair,
    Sent,
    address,
)

MTU = 4096
SIZE = 4 << 20
QUIET = PlaneConfig(PlaneUse.SHARED, misses=3, silence_ps=20 * MS, probe_ps=MS)
RECORD = 12


@pytest.fixture(autouse=True, scope="module")
def algorithms() -> Iterator[None]:
    with more_algorithms.built().card_in_place(sanitize=SANITIZE):
        yield


def pair_of(
    *rates: int, delays: tuple[int, ...] = (), planes: PlaneConfig | None = None, **given: Any
) -> Pair:
    """Return cards over planes of these rates in Gb/s; `given`: what A runs with."""
    times = delays or (US,) * len(rates)
    pair = Pair([Link(rate_bps=r * GBPS, delay_ps=d) for r, d in zip(rates, times, strict=True)])
    more = {"planes": planes} if planes else {}
    pair.join(over_planes(interfaces=len(rates), **more), **given)
    return pair


def swift(trip_ns: int = 4_000, line_bps: int = 400 * GBPS) -> Mapping[str, int]:
    return swift_parameters(line_bps).in_fabric(trip_ns, 1, MTU).fields()


def encc(trip_ns: int = 4_000, line_bps: int = 400 * GBPS) -> Mapping[str, int]:
    return encc_parameters(line_bps, trip_ns).fields()


def state(pair: Pair, plane: int) -> Any:
    """Return the slot of one of A's planes."""
    return pair.a.lib.rnic_plane_slot(pair.a.handle, 1, plane)


class Flights:
    """What is on the way by each plane, counted from the frames alone, beside what the card says.

    Nothing may be lost meanwhile, and all packets have the MTU's payload.
    """

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.sent = [0] * len(pair.links)
        self.most = [0] * len(pair.links)
        self.came = [0] * len(pair.links)
        self.full = 0
        pair.lose = self.look

    def look(self, sent: Sent) -> bool:
        """Take a frame that leaves."""
        frame = sent.packet.frame
        if sent.card is self.pair.b:
            if sent.packet.kind is PacketKind.ACK:
                bare = without(frame) if has_telemetry(frame) else frame
                echo = plane_echo(Ether(bare + bytes(sent.packet.tail)))
                assert echo is not None
                link = self.pair.links[sent.link]
                size = max(len(frame) + sent.packet.tail + 24, 84)
                takes = size * 8 * 10**12 // link.rate_bps + link.delay_ps
                self.pair.at(sent.at + takes, partial(self.hear, list(echo.come)))
        elif sent.packet.kind is PacketKind.DATA:
            i = sent.link
            before = self.sent[i] - self.came[i]
            self.sent[i] += MTU
            stats = self.pair.a.plane_stats(1, i)
            assert stats.flight_bytes == before + MTU
            assert before == 0 or before < stats.window_bytes
            self.most[i] = max(self.most[i], before + MTU)
            self.full += before + MTU >= stats.window_bytes
        return False

    def hear(self, come: list[int]) -> None:
        """Take what an acknowledgement says that arrives now, before the card does."""
        for i, count in enumerate(come):
            self.came[i] = max(self.came[i], count * MTU)


# --- windows --------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [1, MTU, 3 * MTU, 10 * MTU + 1])
def test_a_static_window_is_never_exceeded_on_any_plane(window: int) -> None:
    pair = pair_of(400, 200, windowed=windowed(window))
    flights = Flights(pair)
    pair.post(SIZE)
    pair.run(until=20 * MS)
    stats = pair.a.queue_pair_stats(1)
    assert (stats.acked_bytes, stats.repeated_packets, stats.timeouts) == (SIZE, 0, 0)
    most = -(-window // MTU) * MTU
    assert flights.most == [most, most]
    assert flights.full
    assert [pair.a.plane_stats(1, i).flight_bytes for i in (0, 1)] == [0, 0]


def test_equal_windows_share_by_round_trips() -> None:
    """A window a round trip: a plane that is twice as long carries half as much, exactly timed."""
    pair = pair_of(400, 400, delays=(5 * US, 10 * US), windowed=windowed(4 * MTU))
    for _ in range(2):
        pair.post(SIZE)
    pair.run(until=20 * MS)
    near, far = pair.shares()
    trips = [
        2 * delay * US + (MTU + 60 + 24 + 96) * 8 * 10**12 // (400 * GBPS) for delay in (5, 10)
    ]
    assert near / far == pytest.approx(trips[1] / trips[0], rel=0.02)


@pytest.mark.parametrize("given", [{"swift": swift()}, {"encc": encc()}], ids=["swift", "encc"])
def test_planes_of_400_and_200_gbps_are_filled_within_their_windows(given: Any) -> None:
    pair = pair_of(400, 200, **given)
    flights = Flights(pair)
    for _ in range(2):
        pair.post(SIZE)
    pair.run(until=20 * MS)
    stats = pair.a.queue_pair_stats(1)
    assert (stats.acked_bytes, stats.repeated_packets) == (2 * SIZE, 0)
    fast, slow = pair.shares()
    assert fast / slow == pytest.approx(2, rel=0.05)
    whole = (400 + 200) * GBPS * MTU / (MTU + 60 + 24)
    assert 2 * SIZE * 8 * 10**12 / pair.done_at() >= 0.93 * whole
    assert all(flights.most)


def test_a_window_that_widens_with_time_alone_opens_when_it_does() -> None:
    later_at = 400_000
    control = windowed(MTU, later_at=later_at, later=8 * MTU)
    pair = pair_of(100, 100, windowed=control)
    pair.lose = lambda sent: sent.card is pair.b and sent.at < 300 * US
    pair.join(over_planes(qpn=2, interfaces=2, planes=QUIET), windowed=control)
    pair.post(20 * MTU, qpn=2)
    pair.run(until=2 * MS)
    starts = [row.at for row in pair.sent if row.packet.kind is PacketKind.DATA]
    first = [at for at in starts if at < later_at * 1000]
    assert len(first) == 2
    opened = min(at for at in starts if at >= later_at * 1000)
    assert opened - later_at * 1000 <= US


# --- what acknowledgements say --------------------------------------------------------------------


class Switches:
    """One switch a plane, which writes a record: the plane, and the n-th packet by it."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.written = [0] * len(pair.links)
        pair._arrive = self._arrive  # type: ignore[method-assign]

    def _arrive(self, sent: Sent, to: Any, cut: int) -> None:
        if self.pair._cut[sent.link] != cut or not self.pair.links[sent.link].up:
            return
        frame = sent.packet.frame
        if sent.packet.kind is PacketKind.DATA and has_telemetry(frame):
            self.written[sent.link] += 1
            told = bytes([sent.link + 1]) + self.written[sent.link].to_bytes(RECORD - 1)
            frame = appended(frame, told)
        to.receive(frame, self.pair.now, sent.packet.tail, sent.link)


def told(slot: Any) -> tuple[int, int]:
    """Return the plane and the number that the listener heard last."""
    words = b"".join(int(word).to_bytes(8) for word in slot.listener.words)[:RECORD]
    return words[0], int.from_bytes(words[1:])


def test_telemetry_is_of_the_plane_that_collected_it() -> None:
    pair = pair_of(400, 200, listener=LISTENER)
    switches = Switches(pair)
    pair.post(SIZE)
    pair.run(until=5 * MS)
    assert pair.a.queue_pair_stats(1).acked_bytes == SIZE
    heard = [state(pair, i).listener for i in (0, 1)]
    assert sum(each.bytes for each in heard) == SIZE
    for i, shares in enumerate(pair.shares()):
        assert told(state(pair, i)) == (i + 1, switches.written[i])
        assert heard[i].bytes == shares * MTU
        # Acknowledgements go out one by one here but for those that coincide.
        assert heard[i].told >= shares // 8 > 0


def test_telemetry_that_comes_back_by_another_plane_is_no_other_planes() -> None:
    """B may send nothing by plane 0: it answers by plane 1 for both."""
    pair = pair_of(200, 200, planes=QUIET, listener=LISTENER)
    switches = Switches(pair)
    pair.b.set_pause(0xFF, 0)
    pair.post(SIZE)
    pair.run(until=5 * MS)
    assert pair.a.queue_pair_stats(1).acked_bytes == SIZE
    assert {row.link for row in pair.sent if row.card is pair.b} == {1}
    for i in (0, 1):
        slot = state(pair, i)
        assert told(slot)[0] == i + 1
        assert switches.written[i] - told(slot)[1] <= 8  # the last may have been passed over
        assert slot.listener.told >= pair.shares()[i] // 8 > 0


@pytest.mark.parametrize("n", [2, 3, 8])
def test_what_does_not_fit_beside_counts_and_bitmap_is_cut(n: int) -> None:
    """Five records of 12 bytes: so many whole ones come back as there is room for, 152 bytes."""
    pair = pair_of(*[100] * n, delays=tuple(US * (1 + 3 * i) for i in range(n)), listener=LISTENER)
    records = [bytes([16 * i + 1] * RECORD) for i in range(5)]

    def arrive(sent: Sent, to: Any, cut: int) -> None:
        frame = sent.packet.frame
        if sent.packet.kind is PacketKind.DATA:
            for record in records:
                frame = appended(frame, record)
        to.receive(frame, pair.now, sent.packet.tail, sent.link)

    pair._arrive = arrive  # type: ignore[method-assign]
    pair.post(SIZE // 4)
    pair.run(until=5 * MS)
    assert pair.a.queue_pair_stats(1).acked_bytes == SIZE // 4
    room = (152 - 54 - 4 - 20 - 4 - 4 - 4 * n) // 4 * 4
    slot = state(pair, n - 1).listener
    assert (slot.last_bytes, slot.last_hops) == (min(room, 60), 5)
    assert slot.cut == slot.told > 0
    for row in pair.sent:
        assert len(row.packet.frame) <= 152
    shims = [
        shim_of(row.packet.frame)
        for row in pair.sent
        if row.card is pair.b and has_telemetry(row.packet.frame)
    ]
    assert {(shim.words, shim.cut) for shim in shims} == {(room // 4, 1)}


def test_each_plane_times_its_own_packets() -> None:
    """Exactly, from when a packet left to when the first acknowledgement came that counts it."""
    pair = pair_of(400, 100, delays=(US, 30 * US), listener=LISTENER)
    left: list[list[int]] = [[], []]
    sums, came, timed, reported = [0, 0], [0, 0], [0, 0], [0, 0]

    def hear(come: list[int], label: int) -> None:
        for i, count in enumerate(come):
            collected = i + 1 == label and count >= reported[i]
            if count > came[i] or collected:
                came[i] = max(came[i], count)
                reported[i] = count if collected else reported[i]
                timed[i] += 1
                sums[i] += (pair.now - left[i][count - 1]) // 1000

    def look(sent: Sent) -> bool:
        if sent.card is pair.a and sent.packet.kind is PacketKind.DATA:
            left[sent.link].append(sent.at)
        if sent.card is pair.b and sent.packet.kind is PacketKind.ACK:
            frame = sent.packet.frame
            bare = without(frame) if has_telemetry(frame) else frame
            echo = plane_echo(Ether(bare + bytes(sent.packet.tail)))
            assert echo is not None
            link = pair.links[sent.link]
            size = max(len(frame) + sent.packet.tail + 24, 84)
            takes = size * 8 * 10**12 // link.rate_bps + link.delay_ps
            pair.at(sent.at + takes, partial(hear, list(echo.come), echo.collected))
        return False

    pair.lose = look
    pair.post(SIZE)
    pair.run(until=5 * MS)
    for i, least_ns in ((0, 2_000), (1, 31_000)):  # there by its own way, back by the shortest
        heard = state(pair, i).listener
        assert (heard.timed, heard.rtt_sum_ns) == (timed[i], sums[i])
        assert heard.rtt_sum_ns >= heard.timed * least_ns


def test_a_packet_sent_again_is_timed_by_its_own_copy() -> None:
    """Each tenth is lost: no round trip includes the wait for the repetition."""
    pair = pair_of(100, 100, listener=LISTENER)
    random = Random(5)
    pair.lose = lambda sent: (
        sent.card is pair.a and sent.packet.kind is PacketKind.DATA and random.random() < 0.1
    )
    pair.post(SIZE)
    pair.run(until=20 * MS)
    stats = pair.a.queue_pair_stats(1)
    assert (stats.acked_bytes, stats.timeouts) == (SIZE, 0)
    for i in (0, 1):
        heard = state(pair, i).listener
        assert 2_000 <= heard.rtt_sum_ns / heard.timed <= 5_000


# --- a full window of which nothing is heard ------------------------------------------------------


@pytest.mark.parametrize("packets", [1, 4])
def test_a_window_whose_acknowledgements_are_lost_opens_by_a_probe(packets: int) -> None:
    """After two round trips: silence would be noticed after 20 ms, a time-out after 50."""
    pair = pair_of(100, 100, planes=QUIET, windowed=windowed(packets * MTU), listener=LISTENER)
    lost = (300 * US, 310 * US)
    pair.lose = lambda sent: (
        sent.card is pair.b and sent.packet.kind is PacketKind.ACK and lost[0] <= sent.at < lost[1]
    )
    for _ in range(4):
        pair.post(SIZE)
    pair.run(until=MS)
    late = [r.at for r in pair.sent if r.card is pair.a and r.packet.kind is PacketKind.DATA]
    gap = max(b - a for a, b in pairwise(late))
    assert lost[1] - lost[0] <= gap <= lost[1] - lost[0] + 20 * US
    stats = pair.a.queue_pair_stats(1)
    assert stats.timeouts == 0
    assert (
        stats.repeated_packets <= 2
    )  # an answer whose acknowledgement was lost says nothing of PSNs
    assert all(0 < pair.a.plane_stats(1, i).probes_sent <= 6 for i in (0, 1))


def test_probes_of_a_window_that_stays_shut_become_rare() -> None:
    """Nothing comes for 2 ms: probes after 2, 4, 8, and each 16 round trips."""
    pair = pair_of(100, 100, planes=QUIET, windowed=windowed(MTU), listener=LISTENER)
    pair.lose = lambda sent: sent.card is pair.b and 300 * US <= sent.at < 2300 * US
    for _ in range(4):
        pair.post(SIZE)
    pair.run(until=2400 * US)
    trip_us = 2.3
    most = 3 + 2000 / (16 * trip_us) + 3
    for i in (0, 1):
        stats = pair.a.plane_stats(1, i)
        assert 3 < stats.probes_sent <= most
        assert stats.state is PlaneState.UP
    assert pair.a.queue_pair_stats(1).timeouts == 0
    assert max(r.at for r in pair.sent if r.card is pair.a) >= 2390 * US


# --- planes that are lost, and return -------------------------------------------------------------


@pytest.mark.parametrize("knows", [True, False], ids=["link", "silent"])
def test_a_lost_planes_flight_is_released_and_its_window_begins_anew(knows: bool) -> None:
    control = {"windowed": windowed(2 * MTU, each=64), "dual_plane": {**HEALTH, "ramp_ns": 0}}
    pair = pair_of(100, 100, listener=LISTENER, **control)
    for _ in range(40):
        pair.post(SIZE)
    pair.lose = silent((1, 300 * US, 400 * US)) if not knows else lambda sent: False
    if knows:
        pair.at(300 * US, lambda: pair.set_link(1, False))
        pair.at(400 * US, lambda: pair.set_link(1, True))
    pair.run(until=299 * US)
    grown = pair.a.plane_stats(1, 1).window_bytes
    assert grown > 3 * MTU
    pair.run(until=2 * MS)
    plane = pair.a.plane_stats(1, 1)
    assert (plane.state, plane.flight_bytes) == (PlaneState.LOST, 0)
    moved = plane.moved_packets
    assert 0 < moved <= grown // MTU + 1
    at_up: list[tuple[int, int]] = []

    def look() -> None:
        stats = pair.a.plane_stats(1, 1)
        if stats.state is PlaneState.UP and not at_up:
            at_up.append((stats.window_bytes, state(pair, 1).windowed.bytes))
        elif not at_up:
            pair.at(pair.now + US // 2, look)

    pair.at(9 * MS, look)
    pair.run(until=14 * MS)
    (window, came) = at_up[0]
    assert window <= 2 * MTU + 64 * came // MTU
    assert came <= 20 * MTU
    assert pair.a.plane_stats(1, 1).window_bytes > window
    assert failures(pair) == []
    assert pair.a.queue_pair_stats(1).timeouts == 0


def test_what_is_sent_again_by_another_plane_fits_its_window() -> None:
    """Plane 1 dies with packets on the way; plane 0's window of three is not exceeded by them."""
    control = windowed(3 * MTU)
    health = {**HEALTH, "line_rate": 100 * GBPS}
    pair = pair_of(100, 100, delays=(US, 40 * US), windowed=control, dual_plane=health)
    over: list[int] = []

    def look(sent: Sent) -> bool:
        if sent.card is pair.a and sent.packet.kind is PacketKind.DATA and sent.link == 0:
            over.append(pair.a.plane_stats(1, 0).flight_bytes)
        return sent.link == 1 and sent.at >= 300 * US

    pair.lose = look
    pair.at(300 * US, lambda: pair.a.set_link(1, False))
    for _ in range(3):
        pair.post(SIZE)
    pair.run(until=20 * MS)
    assert pair.a.queue_pair_stats(1).acked_bytes == 3 * SIZE
    assert pair.a.plane_stats(1, 1).moved_packets > 0
    assert max(over) == 3 * MTU


def test_all_planes_lost_and_back() -> None:
    pair = pair_of(100, 100, windowed=windowed(4 * MTU), dual_plane=HEALTH)
    for _ in range(4):
        pair.post(SIZE)
    for link in (0, 1):
        pair.at((300 + link) * US, partial(pair.set_link, link, False))
        pair.at((900 + link) * US, partial(pair.set_link, link, True))
    pair.run(until=80 * MS)
    stats = pair.a.queue_pair_stats(1)
    assert stats.acked_bytes == 4 * SIZE
    assert failures(pair) == []
    assert [pair.a.plane_stats(1, i).flight_bytes for i in (0, 1)] == [0, 0]


def test_a_drained_plane_takes_nothing_new_and_its_window_stays() -> None:
    pair = pair_of(100, 100, windowed=windowed(4 * MTU), dual_plane=HEALTH)
    pair.at(300 * US, lambda: pair.a.drain(1, True))
    pair.at(700 * US, lambda: pair.a.drain(1, False))
    for _ in range(4):
        pair.post(SIZE)
    pair.run(until=20 * MS)
    stats = pair.a.queue_pair_stats(1)
    assert (stats.acked_bytes, stats.repeated_packets, stats.timeouts) == (4 * SIZE, 0, 0)
    by = [r.at for r in pair.sent if r.link == 1 and r.packet.kind is PacketKind.DATA]
    assert not [at for at in by if 300 * US <= at < 700 * US]
    assert [at for at in by if at >= 700 * US]


# --- one plane congested --------------------------------------------------------------------------


def slower(pair: Pair, link: int, times: int, since: int) -> None:
    """From `since` on a plane's packets pass a queue, further on, of a line that much slower."""
    free = [0]
    rate = pair.links[link].rate_bps

    def queue(sent: Sent) -> int:
        size = len(sent.packet.frame) + sent.packet.tail + 24
        by = times if sent.at >= since else 1
        if sent.link != link or sent.card is not pair.a:
            return pair.links[sent.link].delay_ps
        free[0] = max(free[0], sent.at) + by * size * 8 * 10**12 // rate
        return free[0] + pair.links[link].delay_ps - sent.at

    def arrive(sent: Sent, to: Any, cut: int) -> None:
        pair.at(
            max(sent.at + queue(sent), pair.now),
            lambda: to.receive(sent.packet.frame, pair.now, sent.packet.tail, sent.link),
        )

    pair._arrive = arrive  # type: ignore[method-assign]


def test_swift_shortens_the_congested_planes_window_alone() -> None:
    pair = pair_of(100, 100, swift=swift(line_bps=100 * GBPS))
    slower(pair, 1, 10, 200 * US)
    for _ in range(8):
        pair.post(SIZE)
    pair.run(until=200 * US)
    before = [pair.a.plane_stats(1, i).window_bytes for i in (0, 1)]
    pair.run(until=1500 * US)
    free, congested = (pair.a.plane_stats(1, i) for i in (0, 1))
    assert congested.window_bytes <= before[1] // 3
    assert free.window_bytes >= before[0]
    first, last = 1000 * US, 1500 * US
    shares = [
        sum(r.packet.tail - 4 for r in pair.sent if first <= r.at < last and r.link == i
            and r.card is pair.a and r.packet.kind is PacketKind.DATA) * 8e12 / (last - first)
        for i in (0, 1)
    ]  # fmt: skip
    assert shares[0] >= 0.93 * 100 * GBPS * MTU / (MTU + 84)
    assert shares[1] == pytest.approx(10 * GBPS, rel=0.2)


# --- everything at once ---------------------------------------------------------------------------


def some_trouble(pair: Pair, random: Random, n: int) -> Callable[[Sent], bool]:
    """Losses of every kind of frame, planes that die and return, drained ones, pauses."""
    dead: set[int] = set()
    loss = random.choice([0, 0.01, 0.1])
    for _ in range(random.randrange(6)):
        at, link = random.randrange(2000) * US, random.randrange(n)
        kind = random.choice(["link", "wire", "drain", "pause"])
        if kind == "link":
            pair.at(at, partial(pair.set_link, link, False))
            pair.at(at + 300 * US, partial(pair.set_link, link, True))
        elif kind == "wire":
            pair.at(at, partial(dead.add, link))
            pair.at(at + 300 * US, partial(dead.discard, link))
        elif kind == "drain":
            pair.at(at, partial(pair.a.drain, link, True))
            pair.at(at + 300 * US, partial(pair.a.drain, link, False))
        else:
            card = random.choice([pair.a, pair.b])
            pair.at(at, partial(card.set_pause, 0xFF, link))
            pair.at(at + 200 * US, partial(card.set_pause, 0, link))
    return lambda sent: sent.link in dead or random.random() < loss


@pytest.mark.parametrize(
    "seed", [*range(6), *(pytest.param(s, marks=pytest.mark.long) for s in range(6, 40))]
)
def test_any_trouble_ends_with_all_bytes_and_no_flight(seed: int) -> None:
    random = Random(seed)
    n = random.choice([2, 2, 3])
    window = random.choice([1, MTU, 3 * MTU + 7, 20 * MTU, 1 << 30])
    control: dict[str, Any] = {
        "windowed": windowed(
            window,
            each=random.choice([0, 50]),
            shrinks_at=random.choice([0, SIZE // 2]),
            shrunk=MTU,
        ),
        "listener": LISTENER,
        "dual_plane": HEALTH,
    }
    control |= random.choice([{}, {"swift": swift()}, {"encc": encc()}])
    pair = Pair([Link(rate_bps=random.choice([50, 100]) * GBPS) for _ in range(n)])
    config = over_planes(
        interfaces=n, retries=100, timeout_ps=2 * MS, ack_every=random.choice([1, 8]),
        window_packets=random.choice([64, 1024]), first_psn=random.choice([0, 0xFFFFF0]),
    )  # fmt: skip
    pair.join(config, **control)
    pair.lose = some_trouble(pair, random, n)
    sizes = []
    for _ in range(random.randrange(1, 12)):
        operation = random.choice([Operation.WRITE, Operation.SEND, Operation.READ])
        sizes.append(random.choice([0, 1, 100, MTU, 300_000]))
        pair.post(sizes[-1], operation)
    pair.run(until=400 * MS)
    assert failures(pair) == []
    done = [e for e in pair.events[pair.a] if e.kind is EventKind.COMPLETED]
    assert len(done) == len(sizes)
    assert pair.a.queue_pair_stats(1).acked_bytes == sum(sizes)
    assert [pair.a.plane_stats(1, i).flight_bytes for i in range(n)] == [0] * n


# --- what is refused ------------------------------------------------------------------------------


def slots_of_the_kernel(pair: Pair, name: str, *, with_sent: bool = True) -> tuple[Any, Any]:
    """Let A's queue pair have slots that somebody else writes, as in a kernel."""
    ffi = pair.a.ffi
    slots, sent = ffi.new("struct cc_slot[2]"), ffi.new("struct cc_sent[2]")
    config = ffi.new("struct rnic_qp_config *", over_planes().fields())
    for i in (0, 1):
        slots[i].algorithms = 1 << getattr(pair.a.lib, f"CC_PLACE_{name}")
        config.plane_slots[i] = slots + i
        if with_sent:
            config.plane_sent[i] = sent + i
    pair.a._check(pair.a.lib.rnic_add_qp(pair.a.handle, config, ffi.NULL))
    return slots, sent


def test_slots_of_the_kernel_without_a_place_for_times_are_refused() -> None:
    pair = Pair([Link(), Link()])
    with pytest.raises(CardError, match="queue pair 1: over planes round trips need each plane's"):
        slots_of_the_kernel(pair, "listener", with_sent=False)


def test_nobody_asks_switches_for_more_over_planes() -> None:
    pair = Pair([Link(), Link()])
    with pytest.raises(CardError, match="over planes no congestion control can ask switches"):
        slots_of_the_kernel(pair, "bolt")


def test_the_kernel_is_told_when_packets_left_and_how_many_are_lost() -> None:
    pair = Pair([Link(), Link()])
    slots, sent = slots_of_the_kernel(pair, "listener")
    for card, peer in ((pair.a, 2), (pair.b, 1)):
        if card is pair.b:
            card.add_queue_pair(over_planes())
            card.receive_anything(1)
        ips = [address(peer, i) for i in (0, 1)]
        card.connect_ways(1, ips, peer_qpn=1, peer_psn=0)
        card.register(RKEY, 0, 1 << 40, Access.REMOTE_WRITE)
    random, times, lost = Random(1), [{}, {}], [0, 0]  # type: ignore[var-annotated]

    def look(frame: Sent) -> bool:
        if frame.card is not pair.a or frame.packet.kind is not PacketKind.DATA:
            return False
        i = frame.link
        order = len(times[i]) + 1
        times[i][order] = frame.at // 1000
        word = int(sent[i].packets[order % 256])
        assert (word >> 40, word & ((1 << 39) - 1)) == (order, times[i][order])
        assert word >> 39 & 1
        gone = random.random() < 0.05
        lost[i] += gone
        return gone

    pair.lose = look
    pair.post(SIZE)
    pair.run(until=20 * MS)
    assert pair.a.queue_pair_stats(1).acked_bytes == SIZE
    assert [slots[i].listener.events for i in (0, 1)] == [0, 0]  # that is the kernel's work
    for i in (0, 1):
        assert int(sent[i].lost) == pytest.approx(lost[i], abs=2)


def test_a_label_that_is_no_plane_and_a_count_that_is_wrong_are_ignored() -> None:
    pair = pair_of(100, 100, listener=LISTENER)
    Switches(pair)
    arrive = pair._arrive

    def spoiled(sent: Sent, to: Any, cut: int) -> None:
        frame = bytearray(sent.packet.frame)
        if sent.packet.kind is PacketKind.ACK:
            at = 42 + (4 + 4 * frame[43] if has_telemetry(bytes(frame)) else 0)
            assert frame[at] == Opcode.ACK
            frame[at + 12 + 4 + 1] = 0xFF
        packet = sent.packet.__class__(**{**sent.packet.__dict__, "frame": bytes(frame)})
        arrive(Sent(sent.at, sent.card, sent.link, packet), to, cut)

    pair._arrive = spoiled  # type: ignore[method-assign]
    pair.post(SIZE)
    pair.run(until=5 * MS)
    assert pair.a.queue_pair_stats(1).acked_bytes == SIZE
    assert [state(pair, i).listener.told for i in (0, 1)] == [0, 0]
    assert sum(state(pair, i).listener.bytes for i in (0, 1)) == SIZE
