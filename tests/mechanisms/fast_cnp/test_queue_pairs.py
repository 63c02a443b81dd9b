"""Who sends to whom, from samples: right or silent, whatever the connections' numbers do.

h1 (stock) at s1:1 ---- s1 ---- s2 ---- s2:1 at h2
h3 (stock) at s1:2 -----'        `----- s2:2 at h4
"""

from __future__ import annotations

import cProfile
import random
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.fast_cnp.queue_pairs import (
    Ambiguous,
    Answer,
    Kind,
    QueuePairs,
    Sighting,
    SourceIs,
    Target,
)
from mechanisms.fast_cnp.sequence_windows import PSN_SPACE, SamplingTimes
from tests.call_count import total_calls

US = 1000
H1, H2, H3, H4 = 0x0A000101, 0x0A000201, 0x0A000102, 0x0A000202
PLACES = {H1: ("s1", 1), H2: ("s2", 1), H3: ("s1", 2), H4: ("s2", 2)}
TIMES = SamplingTimes(
    interval_ns=100 * US,
    later_ns=1000 * US,
    reports=20,
    jitter_ns=100 * US,
    age_ns=100_000 * US,
    window_packets=1000,
    packets_per_s=50_000_000,
)
TICK = 50 * US


@dataclass
class Connection:
    """`source` sends to `destination`; `rate` in packets a tick."""

    source_qp: int
    destination_qp: int
    first: int
    rate: float = 100
    source: int = H1
    destination: int = H2
    begins: int = 0
    ends: int = 1 << 62
    lag: int = 40  # packets on their way when an answer enters the fabric
    sent: float = 0

    @property
    def psn(self) -> int:
        return (self.first + int(self.sent)) % PSN_SPACE

    @property
    def target(self) -> Target:
        return Target(self.destination, self.destination_qp)

    @property
    def truth(self) -> SourceIs:
        return SourceIs(self.source, self.source_qp)

    def data(self, psn: int | None = None) -> Sighting:
        at = PLACES[self.source]
        number = self.psn if psn is None else psn % PSN_SPACE
        return Sighting(*at, self.source, self.destination, self.destination_qp, number, Kind.DATA)

    def answer(self, psn: int | None = None) -> Sighting:
        at = PLACES[self.destination]
        number = (self.psn - min(self.lag, int(self.sent))) if psn is None else psn
        kind = Kind.ACKNOWLEDGEMENT
        return Sighting(
            *at, self.destination, self.source, self.source_qp, number % PSN_SPACE, kind
        )


@dataclass
class World:
    """Connections that send, leaves that sample them, and what the logic makes of it."""

    logic: QueuePairs
    draw: random.Random = field(default_factory=lambda: random.Random(1))
    loss: float = 0.0  # of samples
    now: int = 0
    answers: dict[Target, Answer] = field(default_factory=dict)
    _reported: dict[tuple[int, int, Kind], tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, *stock: int, loss: float = 0.0) -> World:
        return cls(QueuePairs(TIMES, PLACES, frozenset(stock or (H1, H3))), loss=loss)

    def run(self, connections: Iterable[Connection], ticks: int) -> None:
        for _ in range(ticks):
            self.now += TICK
            for each in connections:
                if each.begins <= self.now < each.ends:
                    each.sent += each.rate
                    self.sample(each.data())
                    self.sample(each.answer())
            self.follow()

    def sample(self, sighting: Sighting) -> None:
        """As queue_pairs.p4: at once at first, then in intervals, in longer ones after a while."""
        key = (sighting.source, sighting.destination_qp, sighting.kind)
        last, row = self._reported.get(key, (-(1 << 60), 0))
        if self.now - last >= (TIMES.interval_ns if row < TIMES.reports else TIMES.later_ns):
            self._reported[key] = (self.now, row + 1)
            if self.draw.random() >= self.loss:
                self.hear(replace(sighting, reports=row + 1))

    def hear(self, *sightings: Sighting) -> None:
        for sighting in sightings:
            self.logic.saw(sighting, self.now)

    def follow(self) -> None:
        """Apply the changes as a switch would; what is announced has to be what is so."""
        self.logic.elapse(self.now)
        for target, answer in self.logic.take_changes().items():
            if answer is None:
                del self.answers[target]
            else:
                self.answers[target] = answer
        assert self.answers == self.logic.answers()

    def idle(self, ns: int) -> None:
        self.now += ns
        self.follow()


def wrong(world: World, connections: Iterable[Connection]) -> list[Target]:
    truth = {each.target: each.truth for each in connections}
    return [
        target
        for target, answer in world.answers.items()
        if isinstance(answer, SourceIs) and truth.get(target) != answer
    ]


def test_one_connection() -> None:
    world = World.of()
    connection = Connection(7, 9, first=123)
    world.run([connection], 20)
    assert world.answers == {Target(H2, 9): SourceIs(H1, 7)}
    assert world.logic.counts.resolved == 1


def test_one_answer_is_not_enough() -> None:
    world = World.of()
    connection = Connection(7, 9, first=123)
    for number in range(30):  # data goes on; two answers come, far apart
        world.now += TIMES.interval_ns
        connection.sent += 100
        world.hear(connection.data())
        if number in (5, 20):
            world.hear(connection.answer())
        world.follow()
        assert world.answers == ({} if number < 22 else {connection.target: connection.truth})


def test_whose_answers_are_not_seen_may_be_meant() -> None:
    """Queue pair 1's answers are inside both windows, and nobody else's are seen."""
    world = World.of()
    one, two = Connection(1, 11, first=500), Connection(2, 12, first=500)
    for _ in range(40):
        world.now += TIMES.interval_ns
        for each in (one, two):
            each.sent += each.rate
            world.hear(each.data())
        world.hear(one.answer())
        world.follow()
    assert world.answers == {each.target: Ambiguous(frozenset({H1})) for each in (one, two)}


def test_only_sources_with_stock_nics_are_of_interest() -> None:
    world = World.of(H3)
    world.run([Connection(7, 9, first=5)], 20)
    assert world.answers == {}


@pytest.mark.parametrize("first", [0, PSN_SPACE - 1, PSN_SPACE - 700, 1 << 23])
def test_numbers_wrap(first: int) -> None:
    world = World.of()
    ours = Connection(7, 9, first)
    other = Connection(8, 10, (first + (1 << 22)) % PSN_SPACE)
    for _ in range(200):
        world.run([ours, other], 1)
        assert wrong(world, [ours, other]) == []
    assert world.answers == {ours.target: ours.truth, other.target: other.truth}


def test_several_connections_with_numbers_far_apart() -> None:
    world = World.of()
    draw = random.Random(5)
    all_of_them = [
        Connection(100 + i, 200 + (i * 7) % 16, (i << 20) + draw.randrange(1 << 16), 50 + 10 * i)
        for i in range(16)
    ]
    world.run(all_of_them, 40)
    assert world.answers == {each.target: each.truth for each in all_of_them}
    assert world.logic.counts.contested == world.logic.counts.unfit == 0


def test_equal_numbers_are_ambiguous_until_they_part() -> None:
    world = World.of()
    one, two = Connection(1, 11, first=500), Connection(2, 12, first=500)
    world.run([one, two], 60)
    assert world.answers == {each.target: Ambiguous(frozenset({H1})) for each in (one, two)}
    two.rate = 400  # parts them by 300 a tick
    for _ in range(60):
        world.run([one, two], 1)
        assert wrong(world, [one, two]) == []
    assert world.answers == {one.target: one.truth, two.target: two.truth}


def test_who_was_told_apart_once_stays_so_when_windows_meet_again() -> None:
    world = World.of()
    slow = Connection(1, 11, first=100_000, rate=10)
    fast = Connection(2, 12, first=0, rate=900)
    for _ in range(250):  # the fast one passes the slow one on its way
        world.run([slow, fast], 1)
        assert wrong(world, [slow, fast]) == []
    assert fast.sent > slow.sent + 100_000
    assert world.answers == {slow.target: slow.truth, fast.target: fast.truth}


def test_samples_that_are_lost() -> None:
    world = World.of(loss=0.4)
    draw = random.Random(2)
    all_of_them = [Connection(i, 50 + i, draw.randrange(PSN_SPACE), 80) for i in range(8)]
    for _ in range(200):
        world.run(all_of_them, 1)
        assert wrong(world, all_of_them) == []
    assert len(world.answers) == 8


def test_packets_that_are_lost_and_come_again() -> None:
    """Go-back-N: the sender falls back, the receiver repeats itself and skips nothing."""
    world = World.of()
    ours, other = Connection(7, 9, first=0), Connection(8, 10, first=1 << 22)
    for number in range(300):
        world.run([ours, other], 1)
        if number % 9 == 8:
            ours.sent -= 350  # of which some had been sampled
            world.hear(ours.answer(ours.psn))  # NAK: what is expected next
        if number % 5 == 4:
            world.hear(ours.answer(ours.psn - 200))  # a duplicate's acknowledgement
        assert wrong(world, [ours, other]) == []
    assert world.answers[ours.target] == ours.truth
    assert world.logic.counts.unfit == 0


def test_reports_that_are_late() -> None:
    """One leaf's reports come later than the other's, by less than the jitter."""
    world = World.of()
    ours, other = Connection(7, 9, first=0, rate=700), Connection(8, 10, first=5000, rate=700)
    late: list[tuple[int, Sighting]] = []
    for number in range(400):
        world.now += TICK
        for each in (ours, other):
            each.sent += each.rate
            if number % 2 == 0:
                late.append((world.now + 90 * US, each.data()))
                world.hear(each.answer())
        for at, sighting in [pair for pair in late if pair[0] <= world.now]:
            world.logic.saw(sighting, at)
        late = [pair for pair in late if pair[0] > world.now]
        world.follow()
        assert wrong(world, [ours, other]) == []
    assert world.logic.counts.unfit == 0
    assert world.answers[ours.target] == ours.truth


def test_what_nobody_sees_is_forgotten() -> None:
    world = World.of()
    ours = Connection(7, 9, first=3)
    world.run([ours], 20)
    assert world.answers
    world.idle(TIMES.age_ns // 2)
    assert world.answers
    world.idle(TIMES.age_ns)
    assert world.answers == {}
    assert world.logic.queue_pairs == 0
    assert world.logic.counts.aged == 2


def test_a_number_comes_back_with_another_queue_pair_of_the_same_host() -> None:
    world = World.of()
    old = Connection(7, 9, first=1000)
    new = Connection(70, 9, first=5_000_000)
    world.run([old], 30)
    assert world.answers == {old.target: old.truth}
    world.run([new], 1)
    assert wrong(world, [new]) == []  # at once, when its numbers break off
    world.run([new], 40)
    assert world.answers == {new.target: new.truth}
    assert world.logic.counts.restarted >= 1


def test_a_number_comes_back_with_numbers_that_follow() -> None:
    """The new connection's first PSN is where the old one ended: nothing breaks off."""
    world = World.of()
    old = Connection(7, 9, first=1000)
    world.run([old], 30)
    new = Connection(70, 9, first=old.psn)
    world.run([new], 10)
    assert wrong(world, [new]) == []  # two fit, so none is told
    world.run([new], 200)
    assert world.answers == {new.target: new.truth}


def test_a_number_comes_back_with_another_host() -> None:
    world = World.of()
    old = Connection(7, 9, first=1000)
    new = Connection(7, 9, first=40_000, source=H3)
    world.run([old], 30)
    world.run([new], 200)
    assert world.answers == {new.target: SourceIs(H3, 7)}


def test_who_acknowledges_other_numbers_is_parted_at_once() -> None:
    world = World.of()
    ours = Connection(7, 9, first=1000)
    world.run([ours], 30)
    for _ in range(2):
        world.now += TIMES.later_ns
        ours.sent += 100
        world.hear(ours.data(), ours.answer(9_000_000))
        world.follow()
    world.idle(2 * TIMES.later_ns)
    assert world.answers == {}
    assert world.logic.counts.unfit == 1


@pytest.mark.parametrize("port", [("s2", 2), ("s1", 1), ("s2", 7)])
def test_what_comes_from_another_port_proves_nothing(port: tuple[str, int]) -> None:
    """Another host acknowledges in h2's name, to queue pair 66."""
    world = World.of()
    ours = Connection(7, 9, first=0)
    for _ in range(40):
        forged = ours.answer()
        world.hear(Sighting(*port, forged.source, forged.destination, 66, forged.psn, forged.kind))
        world.run([ours], 1)
    assert world.answers == {ours.target: ours.truth}
    assert world.logic.counts.foreign == 40


def test_a_host_that_sends_to_others_queue_pairs_poisons_nothing() -> None:
    """h3 sends data to h2's queue pair 9, which is h1's; h2 doesn't answer it."""
    world = World.of()
    ours = Connection(7, 9, first=0)
    for _ in range(40):
        world.hear(
            Sighting(*PLACES[H3], H3, H2, 9, ours.psn, Kind.DATA),
            Sighting(*PLACES[H3], H3, H2, 9, ours.psn, Kind.ACKNOWLEDGEMENT),
        )
        world.run([ours], 1)
    assert world.answers[ours.target] == ours.truth


def test_both_directions_of_a_connection_agree() -> None:
    world = World.of(H1, H2)
    there = Connection(7, 9, first=100)
    back = Connection(9, 7, first=9_000_000, source=H2, destination=H1)
    world.run([there, back], 40)
    assert world.answers == {Target(H2, 9): SourceIs(H1, 7), Target(H1, 7): SourceIs(H2, 9)}


def test_a_reads_data_comes_from_who_answers() -> None:
    """h2 asks h1 for data: h1's responses are what a switch sees in its queue."""
    world = World.of(H1)
    ours = Connection(source_qp=9, destination_qp=7, first=50, source=H2, destination=H1)
    for number in range(60):
        world.now += TIMES.interval_ns
        ours.sent += 64
        if number % 2 == 0:
            request = Sighting(
                *PLACES[H2], H2, H1, 7, ours.psn, Kind.READ_REQUEST, length=128 * 1024
            )
            world.hear(request)
        world.hear(Sighting(*PLACES[H1], H1, H2, 9, ours.psn + 60, Kind.READ_RESPONSE))
        world.follow()
    assert world.answers == {Target(H2, 9): SourceIs(H1, 7)}


def test_a_report_wins_until_it_is_withdrawn() -> None:
    world = World.of()
    one, two = Connection(1, 11, first=500), Connection(2, 12, first=500)
    world.run([one, two], 30)
    world.logic.report(H1, H2, 11, 1)
    world.follow()
    assert world.answers == {one.target: one.truth, two.target: Ambiguous(frozenset({H1}))}
    world.idle(2 * TIMES.age_ns)
    assert world.answers == {one.target: one.truth}  # the agent knows of idle connections too
    world.logic.withdraw(H3, H2, 11)  # not its own
    world.follow()
    assert world.answers == {one.target: one.truth}
    world.logic.withdraw(H1, H2, 11)
    world.follow()
    assert world.answers == {}


def test_a_report_wins_over_what_samples_say() -> None:
    world = World.of()
    ours = Connection(7, 9, first=5)
    world.run([ours], 30)
    world.logic.report(H1, H2, 9, 77)
    world.follow()
    assert world.answers == {ours.target: SourceIs(H1, 77)}
    world.run([ours], 30)
    assert world.answers == {ours.target: SourceIs(H1, 77)}
    world.logic.withdraw(H1, H2, 9)
    world.follow()
    assert world.answers == {ours.target: ours.truth}


def test_thousands_of_queue_pairs() -> None:
    """64 hosts, 2048 connections with random numbers: all resolved or ambiguous, none wrong."""
    draw = random.Random(3)
    hosts = [0x0A010000 + i for i in range(64)]
    places = {host: ("s1", number) for number, host in enumerate(hosts)}
    logic = QueuePairs(TIMES, places, frozenset(hosts))
    connections = []
    for number in range(2048):
        source, destination = draw.sample(hosts, 2)
        first = draw.randrange(PSN_SPACE)
        connections.append((source, destination, 2 * number, 2 * number + 1, first))
    profile = cProfile.Profile()
    profile.enable()
    for step in range(8):
        now = step * TIMES.interval_ns
        for source, destination, source_qp, qp, first in connections:
            psn = (first + 500 * step) % PSN_SPACE
            there, back = (*places[source], source), (*places[destination], destination)
            logic.saw(Sighting(*there, destination, qp, psn, Kind.DATA), now)
            logic.saw(Sighting(*back, source, source_qp, psn, Kind.ACKNOWLEDGEMENT), now)
    profile.disable()
    truth = {}
    for source, destination, source_qp, qp, _ in connections:
        truth[Target(destination, qp)] = SourceIs(source, source_qp)
        truth[Target(source, source_qp)] = SourceIs(destination, qp)  # it may send as well
    resolved = {k: v for k, v in logic.answers().items() if isinstance(v, SourceIs)}
    assert [target for target, answer in resolved.items() if truth[target] != answer] == []
    assert len(resolved) > 0.99 * len(truth)
    assert total_calls(profile) / (2 * 8 * len(connections)) < 150  # function calls a sample


@st.composite
def connections_apart(draw: st.DrawFn) -> list[Connection]:
    """Draw connections between the same two hosts whose windows never meet."""
    number = draw(st.integers(1, 6))
    slots = draw(st.permutations(range(24)))[:number]
    found = []
    for i, slot in enumerate(slots):
        first = slot * (PSN_SPACE // 24) + draw(st.integers(0, 1000)) + PSN_SPACE - 5000
        found.append(
            Connection(
                source_qp=1 + i,
                destination_qp=draw(st.sampled_from((1, 2))) * 100 + i,
                first=first % PSN_SPACE,
                rate=draw(st.integers(0, 500)),
                lag=draw(st.integers(0, 900)),
                begins=draw(st.integers(0, 60)) * TICK,
                ends=draw(st.integers(40, 200)) * TICK,
            )
        )
    return found


@settings(max_examples=30, deadline=None)
@given(connections=connections_apart(), seed=st.integers(0, 1000), loss=st.floats(0, 0.6))
def test_no_wrong_answer_where_windows_are_disjoint(
    connections: list[Connection], seed: int, loss: float
) -> None:
    world = World.of(loss=loss)
    world.draw = random.Random(seed)
    for _ in range(150):
        world.run(connections, 1)
        assert wrong(world, connections) == []
        assert not any(isinstance(each, Ambiguous) for each in world.answers.values())


@settings(max_examples=40, deadline=None)
@given(
    firsts=st.lists(st.integers(0, 3000), min_size=2, max_size=5),
    rates=st.lists(st.integers(1, 400), min_size=5, max_size=5),
)
def test_no_wrong_answer_where_windows_overlap_and_all_are_seen(
    firsts: list[int], rates: list[int]
) -> None:
    connections = [
        Connection(1 + i, 100 - i, first, rate)
        for i, (first, rate) in enumerate(zip(firsts, rates, strict=False))
    ]
    world = World.of()
    for _ in range(150):
        world.run(connections, 1)
        assert wrong(world, connections) == []
