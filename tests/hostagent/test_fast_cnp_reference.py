"""Fast CNP's closed forms against the rules, a doubling at a time in plain integers.

`Plain` below is the specification: the rules at the head of hostagent/include/fast_cnp.h, with any
number of words and without anything closed. The header is run natively.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import pytest

from mechanisms.dcqcn.parameters import MAX_RATE_BPS
from mechanisms.fast_cnp.parameters import RATE_UNIT_BPS, FastCnpParameters, fast_cnp_parameters
from tests.hostagent.native_replay import Alone

START = 10**12
LINE = 400 * 10**9
UNITS = 1 << 27
WORDS = 8
GIVEN = fast_cnp_parameters(LINE)


@dataclass(frozen=True)
class Word:
    """What a queue has said."""

    rate: int
    stands: int
    until: int


class Plain:
    """One queue pair's rate by the rules."""

    def __init__(self, given: FastCnpParameters) -> None:
        self.given = given
        self.words: dict[int, Word] = {}

    def rate_at(self, now: int) -> int:
        standing = [word.rate for word in self.words.values() if word.until > now]
        if standing:
            return min(standing)
        if not self.words:
            return self.given.line_rate_bps
        last = min(self.words.values(), key=lambda word: (-word.until, word.rate))
        rate, at = last.rate, last.until + last.stands
        while at <= now and rate < self.given.line_rate_bps:
            rate, at = rate * 2, at + last.stands
        return min(rate, self.given.line_rate_bps)

    def notified(self, queue: int, units: int, validity: int, now: int) -> None:
        given = self.given
        if units == 0:
            return
        rate = units * given.rate_unit_q16 // 2**16
        rate = min(max(rate, given.min_rate_bps), given.line_rate_bps)
        stands = given.validity_unit_ns * 2**validity + 2**16 * 10**9 // rate
        self.words[queue] = Word(rate, stands, now + stands)


class Header:
    """The same queue pair by the header."""

    def __init__(self, given: FastCnpParameters) -> None:
        self.alone = Alone.begun("fast_cnp", given.fields(), START)
        self.state = self.alone.state

    def notified(self, queue: int, units: int, validity: int, now: int) -> None:
        kind = self.alone.lib.CC_NOTIFIED
        self.alone.event(now, kind=kind, number=queue, rate=units, validity=validity)

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
        validity_unit_ns=up_to(2**20),
        rate_unit_q16=up_to(2**32),
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
        queues = [choice.randrange(1 << 32) for _ in range(choice.randrange(1, WORDS + 1))]
        for _ in range(30):
            validity = choice.randrange(16)
            times = [now] + [
                word.until + word.stands * n
                for word in plain.words.values()
                for n in (0, 1, choice.randrange(45))
            ]
            now = max(now, choice.choice(times) + choice.randrange(-1, 2))
            now += choice.choice([0, choice.randrange(given.validity_unit_ns << validity)])
            before = plain.rate_at(now)
            assert header.rate_at(now) == before
            if choice.random() < 0.7:
                units = choice.choice([0, choice.randrange(UNITS), int(UNITS ** choice.random())])
                queue = choice.choice(queues)
                plain.notified(queue, units, validity, now)
                header.notified(queue, units, validity, now)
                after = plain.rate_at(now)
                cut += after < before
                grown += after > before
                assert header.rate_at(now) == after
                assert header.state.rate == after
            assert given.min_rate_bps <= before <= given.line_rate_bps
    assert cut > 300 and grown > 200  # it was about something


def gbps(rate: int) -> int:
    """In a notification's units."""
    return rate * 10**9 // RATE_UNIT_BPS


def rates(header: Header, *after: int) -> list[float]:
    """At so many ns after the start, in Gb/s, to a tenth."""
    return [round(header.rate_at(START + at) / 10**9, 1) for at in after]


def test_the_least_of_the_words_that_stand() -> None:
    header = Header(GIVEN)
    header.notified(1, gbps(100), 5, START)  # 8192 ns, and two packets: 655
    header.notified(2, gbps(50), 3, START)  # 2048 and 1310
    header.notified(3, gbps(200), 9, START)
    assert rates(header, 0, 3300, 3400, 8800, 8900) == [50, 50, 100, 100, 200]
    header.notified(3, gbps(300), 9, START + 9000)  # the same queue's word takes its place
    assert rates(header, 9000) == [300]


def test_a_word_says_how_fast_and_not_how_much_less() -> None:
    """Said a hundred times it is the same rate, and a greater one takes effect at once."""
    header = Header(GIVEN)
    for at in range(100):
        header.notified(1, gbps(30), 5, START + at)
    assert rates(header, 100) == [30]
    header.notified(1, gbps(45), 5, START + 100)
    assert rates(header, 100) == [45]


def test_after_the_last_word_a_rate_doubles_each_time_that_it_stood() -> None:
    header = Header(GIVEN)
    header.notified(1, gbps(50), 5, START)
    stands = (256 << 5) + 65536 * 10**9 // header.state.rate
    assert rates(header, stands, 2 * stands - 1, 2 * stands) == [50, 50, 100]
    assert rates(header, 3 * stands - 1, 3 * stands) == [100, 200]
    assert rates(header, 4 * stands, 10 * stands, 10**12) == [400, 400, 400]


def test_who_may_send_seldom_is_told_seldom() -> None:
    """A word stands for two packets of its rate at the least."""
    header = Header(GIVEN)
    header.notified(1, 2000, 0, START)  # 131 Mb/s: a packet of 4 kB takes 250 us
    assert header.rate_at(START + 499_000) == 2000 * RATE_UNIT_BPS


def test_the_rate_is_never_below_the_least_nor_above_the_line() -> None:
    header = Header(GIVEN)
    header.notified(1, 1, 0, START)
    assert header.rate_at(START) == GIVEN.min_rate_bps
    header.notified(1, UNITS - 1, 0, START)
    assert header.rate_at(START) == LINE


def test_a_notification_without_a_rate_changes_nothing() -> None:
    header = Header(GIVEN)
    header.notified(1, 0, 15, START)
    assert header.rate_at(START) == LINE
    header.notified(1, gbps(50), 9, START)
    header.notified(2, 0, 15, START)
    header.notified(1, 0, 0, START)
    assert rates(header, 0, 100_000) == [50, 50]


def test_of_more_words_than_there_is_room_for_the_least_are_kept() -> None:
    header = Header(GIVEN)
    for queue in range(20):
        header.notified(queue, gbps(100 + 10 * queue), 15, START)
    assert rates(header, 0) == [100]
    for queue in range(20):
        header.notified(100 + queue, gbps(90 - queue), 15, START + 1)
    kept = sorted(round(word.rate / 10**9) for word in header.state.words)
    assert kept == list(range(71, 71 + WORDS))
    # What is over makes room, though it was less.
    late = START + 10**9
    header.notified(7, gbps(300), 15, late)
    assert header.rate_at(late) == pytest.approx(300 * 10**9, rel=1e-4)


def test_in_slow_motion_all_is_the_same_but_for_rounding() -> None:
    header, slow = Header(GIVEN), Header(fast_cnp_parameters(LINE, 1000))
    for each, scale in ((header, 1), (slow, 1000)):
        each.notified(1, gbps(50), 5, START)
        each.notified(2, gbps(77), 7, START + 300 * scale)
    for at in (1000, 9000, 20_000, 40_000, 60_000, 100_000, 300_000):
        there = slow.rate_at(START + at * 1000) * 1000
        assert there == pytest.approx(header.rate_at(START + at), rel=1e-3)


def test_a_rate_grows_by_one_doubling_a_time_whatever_was_asked_between() -> None:
    given = replace(GIVEN, min_rate_bps=1)
    header, asked = Header(given), Header(given)
    for each in (header, asked):
        each.notified(1, 3, 4, START)
    for at in range(0, 10**9, 10**6):
        asked.rate_at(START + at)
    assert asked.rate_at(START + 10**9) == header.rate_at(START + 10**9)
