"""DCQCN's integers and closed forms against the algorithm in exact fractions, step by step.

`Exact` below is the specification: docs/congestion-control.md's rules with fractions, one timer
period at a time. The header (hostagent/include/dcqcn.h) is run natively.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import pytest

from hostagent.rnic.native import native
from mechanisms.dcqcn.parameters import GAIN_ONE, MAX_RATE_BPS, SETS, DcqcnParameters, parameters
from tests.hostagent.native_replay import Alone

CNP, ACKED, TICK = 0, 1, 2
START = 10**12
ALPHA_ONE = 1 << 32

RATES = (1, 25, 100, 400, 1600, 4000)  # Gb/s
SCALES = (1, 100, 10_000, 1_000_000)


class Exact:
    """One queue pair's reaction point without rounding."""

    def __init__(self, given: DcqcnParameters) -> None:
        self.given = given
        self.rate = self.target = Fraction(given.line_rate_bps)
        self.alpha = Fraction(1)
        self.alpha_at = self.increase_at = self.cut_at = START
        self.bytes = self.timer_steps = self.byte_steps = 0
        self.marked = self.limited = self.pending = False

    def elapse(self, now: int) -> None:
        due = self.cut_at + self.given.cut_interval_ns
        if self.pending and now >= due:
            self.timers(due)
            self.cut(due)
        self.timers(now)

    def cut(self, now: int) -> None:
        if self.given.clamp_target_rate or self.timer_steps or self.byte_steps:
            self.target = self.rate
        self.rate = max(self.rate * (1 - self.alpha / 2), Fraction(self.given.min_rate_bps))
        self.cut_at = self.increase_at = now
        self.bytes = self.timer_steps = self.byte_steps = 0
        self.pending = False

    def timers(self, now: int) -> None:
        given = self.given
        gain = Fraction(given.gain_q16, GAIN_ONE)
        while self.limited and now >= self.alpha_at + given.alpha_timer_ns:
            self.alpha_at += given.alpha_timer_ns
            self.alpha = (1 - gain) * self.alpha + (gain if self.marked else 0)
            self.marked = False
        while self.limited and now >= self.increase_at + given.increase_timer_ns:
            self.increase_at += given.increase_timer_ns
            self.increase()
            self.timer_steps += 1

    def increase(self) -> None:
        given = self.given
        counts = [self.timer_steps] + ([self.byte_steps] if given.byte_counter else [])
        if max(counts) >= given.fast_recovery:
            hyper = min(counts) > given.fast_recovery
            self.target += given.rate_hai_bps if hyper else given.rate_ai_bps
            self.target = min(self.target, Fraction(given.line_rate_bps))
        self.rate = (self.rate + self.target) / 2

    def event(self, kind: int, count: int, now: int) -> None:
        given = self.given
        self.elapse(now)
        if kind == CNP:
            if not self.limited:
                self.limited, self.alpha_at = True, now
            elif now - self.cut_at < given.cut_interval_ns:
                self.marked = self.pending = True
                return
            self.marked = True
            self.cut(now)
        elif kind == ACKED and self.limited and given.byte_counter:
            self.bytes += count
            while self.bytes >= given.byte_counter:
                self.bytes -= given.byte_counter
                self.increase()
                self.byte_steps += 1


@dataclass
class Header:
    """The same queue pair by the header."""

    given: DcqcnParameters

    def __post_init__(self) -> None:
        self.alone = Alone.begun("dcqcn", self.given.fields(), START)
        self.state = self.alone.state

    def event(self, kind: int, count: int, now: int) -> None:
        self.alone.event(now, kind=kind, bytes=count)

    def rate_at(self, now: int) -> int:
        return self.alone.rate_at(now)

    def increases(self) -> tuple[int, ...]:
        """All that increases change."""
        s = self.state
        return (s.rate, s.target, s.increase_at, s.timer_steps, s.byte_steps, s.bytes, s.limited)


def published(choice: random.Random) -> DcqcnParameters:
    """Draw a shipped set at some rate and time scale."""
    rate, scale = choice.choice(RATES) * 10**9, choice.choice(SCALES)
    return parameters(choice.choice(SETS), rate, scale)


def anything(choice: random.Random) -> DcqcnParameters:
    """Parameters anywhere in their ranges, each magnitude as likely as any other."""

    def up_to(most: int) -> int:
        return int(most ** choice.random())

    line = up_to(MAX_RATE_BPS)
    return replace(
        parameters(SETS[0], line),
        min_rate_bps=min(up_to(MAX_RATE_BPS), line),
        rate_ai_bps=up_to(MAX_RATE_BPS),
        rate_hai_bps=up_to(MAX_RATE_BPS),
        alpha_timer_ns=up_to(10**9),
        increase_timer_ns=up_to(10**9),
        byte_counter=choice.choice((0, up_to(10**9))),
        cut_interval_ns=choice.choice((0, up_to(10**8))),
        fast_recovery=choice.choice((0, 1, 2, 5, 7, 60)),
        clamp_target_rate=choice.random() < 0.5,
        gain_q16=choice.choice((1, 256, 4096, GAIN_ONE, choice.randrange(1, GAIN_ONE))),
    )


def events(choice: random.Random, given: DcqcnParameters, n: int) -> list[tuple[int, int, int]]:
    """Random events, from many in a timer's period to some tens of periods apart."""
    now, found = START, []
    period = min(given.alpha_timer_ns, given.increase_timer_ns)
    for _ in range(n):
        now += int(period * 10 ** choice.uniform(-3, 1.5))
        count = int((given.byte_counter or 10**6) * choice.uniform(0, 3))
        found.append((choice.choice((CNP, CNP, ACKED, ACKED, TICK)), count, now))
    return found


@pytest.mark.parametrize("make", [published, anything])
def test_rates_are_the_exact_ones_but_for_rounding(make: Any) -> None:
    choice = random.Random(5)
    for _ in range(400):
        given = make(choice)
        exact, header = Exact(given), Header(given)
        for number, (kind, count, now) in enumerate(events(choice, given, 25), start=1):
            exact.event(kind, count, now)
            header.event(kind, count, now)
            # An event rounds by a bit/s; alpha by 2^-31 a period.
            periods = number + (now - START) // given.alpha_timer_ns
            most = number + given.line_rate_bps * periods * 2.0**-31
            assert abs(header.state.rate - exact.rate) <= most, given
            assert abs(header.state.target - exact.target) <= most, given
            assert abs(Fraction(header.state.alpha, ALPHA_ONE) - exact.alpha) < periods * 2.0**-31
            assert header.state.marked == exact.marked
            assert (header.state.timer_steps, header.state.byte_steps) == (
                exact.timer_steps,
                exact.byte_steps,
            )
            assert header.rate_at(now) == header.state.rate


@pytest.mark.parametrize("make", [published, anything])
def test_many_periods_at_once_are_as_one_by_one(make: Any) -> None:
    choice = random.Random(6)
    for _ in range(1000):
        given = make(choice)
        once, often = Header(given), Header(given)
        now = START
        for kind, count, at in events(choice, given, 6):
            now = at
            once.event(kind, count, now)
            often.event(kind, count, now)
        after = now + given.increase_timer_ns * choice.choice((1, 7, 60, 400))
        while (due := often.state.increase_at + given.increase_timer_ns) <= after:
            if not often.state.limited:
                break
            often.event(TICK, 0, due)
        often.event(TICK, 0, after)
        assert once.rate_at(after) == often.state.rate, given
        once.event(TICK, 0, after)
        assert once.increases() == often.increases(), given
        periods = min((after - START) // given.alpha_timer_ns, 1 << 20)
        assert abs(once.state.alpha - often.state.alpha) <= 500 + 2 * periods, given


@pytest.mark.parametrize("make", [published, anything])
def test_many_bytes_at_once_are_as_one_counter_s_after_the_other(make: Any) -> None:
    choice = random.Random(7)
    for _ in range(1000):
        given = replace(make(choice), byte_counter=1000)
        once, often = Header(given), Header(given)
        now = START
        for kind, count, at in events(choice, given, 6):
            now = at
            once.event(kind, count, now)
            often.event(kind, count, now)
        counters = choice.choice((1, 9, 300))
        once.event(ACKED, 1000 * counters, now)
        for _ in range(counters):
            often.event(ACKED, 1000, now)
        assert once.increases() == often.increases(), given


@pytest.mark.parametrize("name", SETS)
def test_a_slowed_down_queue_pair_goes_through_the_same_rates(name: str) -> None:
    """Rounding to bits/s does not pull a slow run's rates away from the fabric's."""
    scale = 10_000
    choice = random.Random(8)
    real = Header(parameters(name, 100 * 10**9))
    slow = Header(parameters(name, 100 * 10**9, scale))
    now, sums = 0, [0.0, 0.0]
    for _ in range(4000):
        now += int(choice.expovariate(2 / real.given.increase_timer_ns))
        real.event(CNP, 0, START + now)
        slow.event(CNP, 0, START + now * scale)
        sums[0] += real.state.rate
        sums[1] += slow.state.rate * scale
    assert sums[1] == pytest.approx(sums[0], rel=2e-3)
    assert sums[0] / 4000 < 0.95 * real.given.line_rate_bps


def test_a_queue_pair_without_cnps_is_not_limited() -> None:
    header = Header(parameters(SETS[0], 100 * 10**9))
    for at in range(100):
        header.event(ACKED, 10**9, START + at * 10**6)
    assert header.state.limited == 0
    assert header.rate_at(START + 10**12) == 100 * 10**9


def test_the_first_cnp_halves_and_recovery_ends_at_the_line_s_rate() -> None:
    given = parameters("hpcc-dcqcn", 100 * 10**9)
    header = Header(given)
    header.event(CNP, 0, START)
    assert (header.state.rate, header.state.target) == (50 * 10**9, 100 * 10**9)
    assert header.rate_at(START + given.increase_timer_ns - 1) == 50 * 10**9
    assert header.rate_at(START + given.increase_timer_ns) == 75 * 10**9
    assert header.rate_at(START + 40 * given.increase_timer_ns) == 100 * 10**9
    assert header.rate_at(START + 10**15) == 100 * 10**9


def test_cuts_end_at_the_least_rate() -> None:
    given = parameters("ns3-rdma", 40 * 10**9)
    header = Header(given)
    for at in range(64):
        header.event(CNP, 0, START + at)
    assert header.state.rate == given.min_rate_bps


def test_a_least_rate_above_the_line_s_never_makes_a_queue_pair_faster() -> None:
    header = Header(replace(parameters("ns3-rdma", 40 * 10**9), min_rate_bps=50 * 10**9))
    for at in range(8):
        header.event(CNP, 0, START + at)
        assert header.rate_at(START + at + 10**6) == 40 * 10**9


@pytest.mark.parametrize("clamps", [True, False])
def test_cuts_in_a_row_keep_the_target_unless_they_clamp(clamps: bool) -> None:
    given = replace(parameters("hpcc-dcqcn", 100 * 10**9), clamp_target_rate=clamps)
    header = Header(given)
    for at in (0, 10_000, 20_000):
        header.event(CNP, 0, START + at)
    rate, target = header.state.rate, header.state.target
    assert rate < 15 * 10**9
    assert target < 27 * 10**9 if clamps else target == 100 * 10**9
    after = START + 20_000 + given.increase_timer_ns
    assert header.rate_at(after) == (rate + target + 1) // 2
    header.event(CNP, 0, after)  # an increase came before it: both set the target
    assert header.state.target == (rate + target + 1) // 2


def test_an_increase_by_bytes_counts_as_one_by_time() -> None:
    given = replace(parameters("hpcc-dcqcn", 100 * 10**9), byte_counter=1000, cut_interval_ns=0)
    header = Header(given)
    header.event(CNP, 0, START)
    header.event(ACKED, 1000, START + 1)
    rate = header.state.rate
    assert rate == 75 * 10**9
    header.event(CNP, 0, START + 2)
    assert header.state.target == rate


def test_cnps_soon_after_a_cut_cut_once_when_the_interval_ends() -> None:
    header = Header(parameters("hpcc-dcqcn", 100 * 10**9))
    for at in (0, 1500, 3999):
        header.event(CNP, 0, START + at)
    assert header.state.rate == 50 * 10**9
    assert header.state.marked == 1
    assert header.rate_at(START + 3999) == 50 * 10**9
    assert header.rate_at(START + 4000) < 26 * 10**9
    header.event(TICK, 0, START + 7999)
    assert (header.state.cut_at, header.state.pending) == (START + 4000, 0)
    assert header.rate_at(START + 8000) == header.state.rate


def test_a_gigabit_and_four_terabits_at_all_scales_stay_in_their_bounds() -> None:
    choice = random.Random(9)
    for name in SETS:
        for rate in (10**9, MAX_RATE_BPS):
            for scale in SCALES:
                given = parameters(name, rate, scale)
                header = Header(given)
                for kind, count, now in events(choice, given, 60):
                    header.event(kind, count, now)
                    state = header.state
                    assert given.min_rate_bps <= state.rate <= state.target
                    assert state.target <= given.line_rate_bps
                    assert state.alpha <= ALPHA_ONE


# --- the notification point ----------------------------------------------------------------------

# Packets as (time, with CE), of an interval of 100, and when CNPs are due.
NOTIFIED: list[tuple[str, list[tuple[int, bool]], list[int]]] = [
    ("nothing is marked", [(0, False), (50, False), (500, False)], []),
    ("the first mark, at once", [(7, False), (8, True)], [8]),
    ("one an interval", [(at, True) for at in range(0, 400, 10)], [0, 100, 200, 300]),
    ("a mark within is told by the next packet", [(0, True), (60, True), (130, False)], [0, 130]),
    ("once", [(0, True), (60, True), (70, True), (130, False), (400, False)], [0, 130]),
    ("no mark within, none at its end", [(0, True), (60, False), (130, False), (190, True)],
     [0, 190]),
]  # fmt: skip


@pytest.mark.parametrize(("packets", "told"), [row[1:] for row in NOTIFIED],
                         ids=[row[0] for row in NOTIFIED])  # fmt: skip
def test_when_a_receiver_tells(packets: list[tuple[int, bool]], told: list[int]) -> None:
    module = native()
    point = module.ffi.new("struct cnp_interval *", {"interval_ns": 100})
    due = [at for at, ce in packets if module.lib.cc_cnp_due(point, ce, START + at)]
    assert due == told
