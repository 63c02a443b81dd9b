"""Fast CNP's integers and closed forms against the rules, one timer at a time in plain integers.

`Plain` below is the specification: the rules at the head of hostagent/include/fast_cnp.h, without
anything lazy. The header is run natively.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from mechanisms.dcqcn.parameters import MAX_RATE_BPS
from mechanisms.fast_cnp.parameters import FastCnpParameters, fast_cnp_parameters
from tests.hostagent.native_replay import Alone

START = 10**12
LINE = 400 * 10**9
GIVEN = FastCnpParameters(
    line_rate_bps=LINE,
    min_rate_bps=LINE // 1000,
    rate_ai_bps=10**9,
    rate_hai_bps=10 * 10**9,
    increase_timer_ns=1000,
    validity_unit_ns=256,
    quiet=3,
)


class Plain:
    """One queue pair's rate by the rules."""

    def __init__(self, given: FastCnpParameters) -> None:
        self.given = given
        self.rate = self.base = given.line_rate_bps
        self.loop_ends = 0
        self.severity = 0
        self.told = False
        self.held_until = 0  # then, or when the last step was over
        self.step = given.increase_timer_ns
        self.increases = 0  # since the last notification

    def elapse(self, now: int) -> None:
        given = self.given
        while self.told and now >= self.held_until + self.step:
            hyper = self.increases >= given.quiet
            self.rate += given.rate_hai_bps if hyper else given.rate_ai_bps
            self.rate = min(self.rate, given.line_rate_bps)
            self.increases += 1
            self.held_until += self.step

    def notified(self, severity: int, validity: int, now: int) -> None:
        given = self.given
        self.elapse(now)
        stands_until = now + given.validity_unit_ns * 2**validity
        if not self.told or now >= self.loop_ends:
            self.loop_ends, self.base, self.severity = stands_until, self.rate, 0
        if severity > self.severity:
            self.severity = severity
            cut = max(self.base // 16 * (16 - severity), given.min_rate_bps)
            self.rate = min(self.rate, cut)
        if now >= self.held_until:
            self.step = given.increase_timer_ns
        self.step = max(self.step, stands_until - now)
        self.held_until = max(self.held_until, stands_until)
        self.increases = 0
        self.told = True


@dataclass
class Header:
    """The same queue pair by the header."""

    given: FastCnpParameters

    def __post_init__(self) -> None:
        self.alone = Alone.begun("fast_cnp", self.given.fields(), START)
        self.state = self.alone.state

    def notified(self, severity: int, validity: int, now: int) -> None:
        kind = self.alone.lib.CC_NOTIFIED
        self.alone.event(now, kind=kind, severity=severity, validity=validity)

    def rate_at(self, now: int) -> int:
        return self.alone.rate_at(now)


def anything(choice: random.Random) -> FastCnpParameters:
    """Parameters anywhere in their ranges, each magnitude as likely as any other."""

    def up_to(most: int) -> int:
        return int(most ** choice.random())

    line = up_to(MAX_RATE_BPS)
    return FastCnpParameters(
        line_rate_bps=line,
        min_rate_bps=min(up_to(MAX_RATE_BPS), line),
        rate_ai_bps=choice.choice([0, up_to(line)]),
        rate_hai_bps=choice.choice([0, up_to(line)]),
        increase_timer_ns=up_to(10**6),
        validity_unit_ns=up_to(2**20),
        quiet=choice.choice([0, 1, 5, up_to(200)]),
    )


@pytest.mark.parametrize("seed", range(8))
def test_the_header_does_what_the_rules_say(seed: int) -> None:
    choice = random.Random(seed)
    cut = grown = 0
    for _ in range(250):
        if choice.random() < 0.5:
            given = anything(choice)
        else:
            rate = choice.choice([1, 25, 100, 400, 1600]) * 10**9
            given = fast_cnp_parameters(rate, choice.choice([1, 100, 10_000]))
        plain, header, now = Plain(given), Header(given), START
        for _ in range(30):
            validity = choice.randrange(16)
            stands = given.validity_unit_ns << choice.randrange(16)
            # within a loop, around its end, or some increases later; never more than the rules,
            # an increase at a time, can do
            now += choice.choice([
                choice.randrange(stands + 2),
                stands + choice.randrange(-1, 2),
                stands + given.increase_timer_ns * choice.randrange(6) + choice.randrange(-1, 2),
            ])  # fmt: skip
            now = min(now, plain.held_until + 300 * plain.step)
            if plain.told:
                before = plain.rate
                plain.elapse(now)
                grown += plain.rate > before
            else:
                now = max(now, START)
            assert header.rate_at(now) == plain.rate
            if choice.random() < 0.7:
                severity, before = choice.randrange(16), plain.rate
                plain.notified(severity, validity, now)
                header.notified(severity, validity, now)
                cut += plain.rate < before
                assert header.rate_at(now) == plain.rate
                assert header.state.rate == plain.rate
        assert min(given.min_rate_bps, given.line_rate_bps) <= plain.rate <= given.line_rate_bps
    assert cut > 500 and grown > 500  # it was about something


def rates(header: Header, after: Sequence[int]) -> list[int]:
    """At so many ns after the start, in 1/16 of the line's rate."""
    return [header.rate_at(START + at) * 16 // LINE for at in after]


def test_notifications_of_one_loop_cut_once_unless_they_say_more() -> None:
    header = Header(replace(GIVEN, rate_ai_bps=0, rate_hai_bps=0))
    for at, severity in ((0, 4), (100, 4), (200, 2), (300, 8), (400, 8)):
        header.notified(severity, 2, START + at)  # validity 2: 1024 ns
        header.rate_at(START + at)
    assert rates(header, [0]) == [8]  # nothing of it in 3 cuts of 4/16, 8/16 and 8/16
    header.notified(8, 2, START + 1023)
    assert rates(header, [1023]) == [8]
    header.notified(8, 2, START + 1024)  # the next loop
    assert rates(header, [1024]) == [4]


def test_severity_nothing_holds_the_rate_and_does_not_cut() -> None:
    held, let_go = Header(GIVEN), Header(GIVEN)
    for header in (held, let_go):
        header.notified(8, 0, START)  # 256 ns
    for at in range(200, 20_000, 200):
        held.notified(0, 0, START + at)
    assert held.rate_at(START + 20_000) == LINE // 2
    assert let_go.rate_at(START + 20_000) > LINE // 2
    fresh = Header(GIVEN)
    fresh.notified(0, 15, START)
    assert fresh.rate_at(START) == fresh.rate_at(START + 10**9) == LINE


def test_a_rate_grows_slowly_first_and_never_beyond_the_line() -> None:
    header = Header(GIVEN)
    header.notified(8, 0, START)
    half, giga = LINE // 2, 10**9
    due = 256 + 1000
    assert header.rate_at(START + due - 1) == half
    grown = [header.rate_at(START + due + 1000 * n) - half for n in range(5)]
    assert grown == [giga, 2 * giga, 3 * giga, 13 * giga, 23 * giga]
    assert header.rate_at(START + 10**9) == LINE


def test_the_rate_never_falls_below_the_least() -> None:
    header = Header(GIVEN)
    for n in range(20):
        header.notified(15, 0, START + 256 * n)
    assert header.rate_at(START + 256 * 20) == GIVEN.min_rate_bps


def test_a_shorter_notification_does_not_end_a_longer_one_s_time() -> None:
    header = Header(GIVEN)
    header.notified(8, 10, START)  # 262 us
    header.notified(8, 0, START + 100)
    stands = 256 << 10
    assert header.rate_at(START + 2 * stands - 1) == LINE // 2
    assert header.rate_at(START + 2 * stands) == LINE // 2 + 10**9  # nor the length of its steps
