"""Bolt's integers against its rule in floating point, and what the rule is to do with reports.

`Plain` below is the specification: algorithms 2 and 3 of the paper (as published: in whole
packets), and the exact steps that Weft takes by default. The header is run natively.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from mechanisms.bolt.parameters import MAX_RATE_BPS, BoltParameters, bolt_parameters
from protocols.grants import DRAINS_MOST_NS, FIRST, GRANTS_FORMAT, LAST, MORE, QUEUED
from tests.hostagent.native_replay import Alone

START = 10**12
LINE = 400 * 10**9
T = 13_000
PACKET = 4096
GIVEN = bolt_parameters(LINE).in_fabric(T, PACKET)
WHOLE = replace(GIVEN, whole_steps=True, ai=1.0)


class Plain:
    """One queue pair's window, in packets, by the rule."""

    def __init__(self, given: BoltParameters) -> None:
        self.given = given
        fields = given.fields()
        self.window = fields["first_q16"] / 65536
        self.most = fields["most_q16"] / 65536
        self.least = fields["least_q16"] / 65536
        self.rtt = self.base = given.base_rtt_ns
        self.grown = START
        self.decreased: int | None = None
        self.tie = False  # a comparison that the last bit decides

    def _take(self, window: float) -> None:
        self.window = min(max(window, self.least), self.most)
        self.tie |= abs(self.window - 1) < 1e-3

    def acked(self, size: int, rtt_ns: int, flags: int | None, now: int) -> None:
        given, window = self.given, self.window
        if rtt_ns:
            self.rtt = rtt_ns
        self.base = min(self.base, self.rtt)
        if not size:
            self._take(window)
            return
        if window < 1:
            window += given.ai * size / given.packet_bytes * (1 if given.whole_steps else window)
            self.grown = now
        elif now - self.grown >= self.rtt:
            window += given.ai
            self.grown = now
        if flags is not None and flags & MORE and not flags & QUEUED:
            window += 1
        self._take(window)

    def queued(self, drains_ns: int, rtt_src: int, now: int) -> None:
        given, window = self.given, self.window
        rtt_src = rtt_src or self.rtt
        drains = drains_ns * given.time_scale
        since = float("inf") if self.decreased is None else now - self.decreased
        if given.whole_steps:
            part = window * drains / self.rtt
            if window <= 1:
                step = window * given.max_mdf
            else:
                interval = rtt_src / part if part else float("inf")
                self.tie |= abs(since - interval) < 2 + 1e-3 * interval
                step = 1.0 if part and since >= interval else 0.0
        else:
            part = window * drains / max(self.rtt, rtt_src + drains)
            step = part * min(window, 1) * min(1, since / rtt_src)
        if step:
            self.decreased = now
            self._take(window - step)

    @property
    def rate(self) -> float:
        given = self.given
        trip = self.rtt if given.whole_steps else self.base
        paced = self.window * given.packet_bytes * 8e9 / trip
        rate = given.line_rate_bps if self.window >= 1 else paced
        return min(max(rate, given.min_rate_bps), given.line_rate_bps)


class Header:
    """The same queue pair by the header."""

    def __init__(self, given: BoltParameters) -> None:
        self.alone = Alone.begun("bolt", given.fields(), START)
        self.state: Any = self.alone.state

    def acked(self, size: int, rtt_ns: int, flags: int | None, now: int) -> None:
        word = None
        if flags is not None:
            word = {"bytes": 4, "format": GRANTS_FORMAT, "hops": 1, "data": [flags, 0, 0, 0]}
        self.alone.event(now, word, kind=self.alone.lib.CC_ACKED, bytes=size, rtt_ns=rtt_ns)

    def queued(self, drains_ns: int, rtt_src: int, now: int) -> None:
        kind = self.alone.lib.CC_QUEUED
        self.alone.event(now, kind=kind, drains_ns=drains_ns, rtt_ns=rtt_src)

    @property
    def window(self) -> float:
        return float(self.state.window_q16 / 65536)


def anything(choice: random.Random) -> BoltParameters:
    """Parameters as senders have them at some rate and time scale, or further off."""
    given = bolt_parameters(choice.choice([10, 25, 100, 400, 1600]) * 10**9)
    if choice.random() < 0.5:
        given = replace(given, ai=choice.choice([0.0, 0.5, 1.0, 4.0]), max_mdf=0.25)
    given = replace(given, whole_steps=choice.random() < 0.5)
    trip = choice.choice([4000, T, 10**6])
    given = given.in_fabric(trip, choice.choice([1024, PACKET]))
    return given.with_time_scale(choice.choice([1, 1, 100, 10_000]))


@pytest.mark.parametrize("seed", range(6))
def test_the_header_does_what_the_rule_says(seed: int) -> None:
    choice = random.Random(seed)
    below = grown = cut = compared = 0
    for _ in range(60):
        given = anything(choice)
        plain, header = Plain(given), Header(given)
        if choice.random() < 0.5:
            header.state.window_q16 = int(65536 * choice.uniform(0.02, 4))
            plain.window = header.window
            for each in (plain, header):
                each.acked(0, 0, None, START)  # within its bounds, and with its rate
        now, unit = START, given.base_rtt_ns
        for _ in range(60):
            now += int(unit * choice.choice([0.02, 0.3, 2]) * choice.random()) + 1
            before = plain.window
            if choice.random() < 0.5:
                rtt = choice.choice([0, int(unit * choice.uniform(0.9, 4))])
                size = given.packet_bytes * choice.choice([0, 1, 1, 1, 2, 8])
                flags = choice.choice([None, MORE, MORE | QUEUED, 0, LAST, FIRST])
                plain.acked(size, rtt, flags, now)
                header.acked(size, rtt, flags, now)
            else:
                drains = int(unit / given.time_scale * choice.choice([0, 0.05, 0.5, 3]))
                drains = min(drains, DRAINS_MOST_NS)
                src = choice.choice([0, int(unit * choice.uniform(0.3, 1))])
                plain.queued(drains, src, now)
                header.queued(drains, src, now)
            if plain.tie:
                break
            assert header.window == pytest.approx(plain.window, rel=1e-2, abs=2e-3)
            if header.window < 0.98 or header.window >= 1:
                assert header.state.rate == pytest.approx(plain.rate, rel=5e-2, abs=2)
            whole = int(header.window) * given.packet_bytes
            assert header.alone.window_at(now) == whole
            below += plain.window < 1
            grown += plain.window > before
            cut += plain.window < before
            compared += 1
    assert compared > 1000 and below > 50 and grown > 200 and cut > 200  # it was about something


def test_a_grant_is_a_packet_and_a_round_trip_adds_an_eighth() -> None:
    header = Header(GIVEN)
    before = header.window
    assert before == pytest.approx(LINE * T / 8e9 / PACKET, rel=1e-3)
    for n in range(4):
        header.acked(PACKET, T, MORE, START + n)
    assert header.window == before + 4
    for flags in (None, 0, MORE | QUEUED, LAST, FIRST):
        header.acked(PACKET, T, flags, START + 5)
    assert header.window == before + 4
    for n in range(100):
        header.acked(PACKET, T, 0, START + n * T // 20)
    assert header.window == before + 4 + 4 / 8


def test_a_grant_is_no_more_than_that_of_its_own_format() -> None:
    header = Header(GIVEN)
    before = header.window
    kind = header.alone.lib.CC_ACKED
    for word in (
        {"bytes": 4, "format": 1, "data": [MORE, 0, 0, 0]},
        {"bytes": 0, "format": GRANTS_FORMAT, "data": [MORE, 0, 0, 0]},
    ):
        header.alone.event(START, word, kind=kind, bytes=PACKET, rtt_ns=T)
    assert header.window == before


def test_its_part_of_a_queue_goes_away_in_the_time_from_the_packet_to_the_report() -> None:
    """A queue of half a round trip: half of the window, at once or in ten steps."""
    once, steps = Header(GIVEN), Header(GIVEN)
    before = once.window
    for header in (once, steps):
        header.acked(PACKET, T, None, START)
        header.queued(1, T // 2, START)  # it is notified for the first time
    once.queued(T // 2, T // 2, START + T // 2)
    assert once.window == pytest.approx(before / 2, rel=1e-3)
    for n in range(1, 11):
        steps.queued(T // 2, T // 2, START + n * T // 20)
    assert steps.window == pytest.approx(before * 0.95**10, rel=1e-2)


def test_as_published_it_is_a_packet_each_part_of_that_time() -> None:
    header = Header(WHOLE)
    before = header.window
    header.acked(PACKET, T, None, START)
    header.queued(T // 10, T // 2, START)
    assert header.window == before - 1
    part = header.window / 10
    interval = T / 2 / part
    header.queued(T // 10, T // 2, START + int(interval) - 20)
    assert header.window == before - 1
    header.queued(T // 10, T // 2, START + int(interval) + 20)
    assert header.window == before - 2
    header.state.window_q16 = 65536
    header.queued(T // 10, T // 2, START + int(interval) + 20)
    assert header.window == 0.5


def test_a_window_below_a_packet_is_a_packet_each_so_many_round_trips() -> None:
    header = Header(GIVEN)
    header.state.window_q16 = 65536 // 4
    header.acked(0, T, None, START)
    header.acked(PACKET, T, None, START)
    assert header.window == pytest.approx(0.25 * 1.125, rel=1e-3)
    paced = header.window * PACKET * 8e9 / T
    assert header.state.rate == pytest.approx(paced, rel=1e-3)
    header.acked(0, 5 * T, None, START)
    header.acked(PACKET, 5 * T, None, START)  # by the shortest one, whatever waits
    assert header.state.rate == pytest.approx(paced * 1.125, rel=1e-3)
    assert header.alone.window_at(START) == 0  # and one packet always may


def test_a_report_whose_packet_is_not_known_counts_as_a_round_trip_old() -> None:
    known, unknown = Header(GIVEN), Header(GIVEN)
    for header, src in ((known, T), (unknown, 0)):
        header.acked(PACKET, T, None, START)
        header.queued(1000, src, START)
        header.queued(1000, src, START + T // 3)
    assert known.window == unknown.window


def test_reports_of_nothing_change_nothing() -> None:
    header = Header(GIVEN)
    before = header.window
    for n in range(10):
        header.queued(0, T, START + n * T)
    assert (header.window, header.state.has_decreased) == (before, 0)


@pytest.mark.parametrize("whole", [False, True])
def test_slow_motion_changes_rates_and_times_and_no_window(whole: bool) -> None:
    given = replace(GIVEN, whole_steps=whole)
    fast, slow = Header(given), Header(given.with_time_scale(1000))
    for n in range(60):
        rtt = T * (1 + n % 7)
        if n % 3:
            fast.acked(PACKET, rtt, MORE if n % 2 else None, START + n * T)
            slow.acked(PACKET, rtt * 1000, MORE if n % 2 else None, START + n * T * 1000)
        else:
            fast.queued(900, T // 2, START + n * T)
            slow.queued(900, T // 2 * 1000, START + n * T * 1000)
        assert slow.window == pytest.approx(fast.window, rel=1e-3)
        assert slow.state.rate == pytest.approx(fast.state.rate / 1000, rel=1e-3)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("rate", [10**6, 1600 * 10**9, MAX_RATE_BPS])
def test_nothing_overflows_at_the_ends_of_its_numbers(rate: int, whole: bool) -> None:
    given = replace(
        bolt_parameters(rate).in_fabric(1 << 30, 8192), ai=16.0, whole_steps=whole, window_most=1000
    )
    header = Header(given)
    fields = given.fields()
    ends = (0, 1, T, 1 << 40, 1 << 63, (1 << 64) - 1)
    for n, (size, rtt) in enumerate([(size, rtt) for size in ends for rtt in ends] * 3):
        now = START + n * 10**11
        header.acked(size, rtt, MORE, now)
        header.queued((DRAINS_MOST_NS, 1, 1 << 63)[n % 3], rtt, now + n % 2)
        assert given.min_rate_bps <= header.state.rate <= rate
        assert fields["least_q16"] <= header.state.window_q16 <= fields["most_q16"]


def test_a_clock_that_stands_still_divides_by_nothing() -> None:
    header = Header(GIVEN)
    for _ in range(5):
        header.acked(PACKET, 1, MORE, START)
        header.queued(DRAINS_MOST_NS, 1, START)
    assert header.window >= GIVEN.window_min - 1e-4


WRONG = {
    "line_rate": ([0, MAX_RATE_BPS + 1], "line_rate is from 1 to 2^42"),
    "min_rate": ([0, LINE + 1], "min_rate is from 1 to line_rate"),
    "base_rtt_ns": ([0, 1 << 40], "base_rtt_ns is from 1 to 2^40 - 1"),
    "most_q16": ([(1 << 34) + 1], "most_q16 is at most 2^34"),
    "first_q16": ([1], "least_q16 is at least 1"),
    "packet_bytes": ([0, 8193], "packet_bytes is from 1 to 8192"),
    "ai_q16": ([(1 << 20) + 1], "ai_q16 is at most 2^20"),
    "max_mdf_q16": ([65536], "max_mdf_q16 is below 65536"),
    "time_scale": ([0, (1 << 20) + 1], "time_scale is from 1 to 2^20"),
    "whole_steps": ([2], "whole_steps is 0 or 1"),
}


@pytest.mark.parametrize("name", WRONG)
def test_parameters_out_of_range_are_refused_with_the_range(name: str) -> None:
    from hostagent.rnic.card_records import CardError, QueuePairConfig  # after the native build
    from tests.hostagent.virtual_wire import make_card

    values, why = WRONG[name]
    for value in values:
        with pytest.raises(CardError, match=why.replace("^", r"\^")):
            control = {"bolt": {**GIVEN.fields(), name: value}}
            make_card(1).add_queue_pair(QueuePairConfig(qpn=5, mtu=1024), control)
