"""Swift's integers against its rule in floating point, and what the rule is to do with delays.

`Plain` below is the specification: algorithm 1 of the paper without its reaction to losses and
without a host's own window. The header is run natively.
"""

from __future__ import annotations

import random
from dataclasses import replace
from math import sqrt
from typing import Any

import pytest

from mechanisms.swift.parameters import MAX_RATE_BPS, SwiftParameters, swift_parameters
from tests.hostagent.native_replay import Alone

START = 10**12
LINE = 400 * 10**9
T = 13_000
PACKET = 4096
GIVEN = swift_parameters(LINE).in_fabric(T, 5, PACKET)
HOPS_NS = 5 * 164
"""Two packets of 4096 bytes last 164 ns at 400 Gb/s."""


class Plain:
    """One queue pair's window, in packets, by the rule."""

    def __init__(self, given: SwiftParameters) -> None:
        self.given = given
        fields = given.fields()
        self.window = fields["first_q16"] / 65536
        self.most = fields["most_q16"] / 65536
        self.decreased: int | None = None
        self.base = given.base_rtt_ns
        self.rate = float(given.line_rate_bps)
        self.tie = False  # a comparison that the last bit decides

    def target(self) -> float:
        given = self.given
        most = given.fs_range_ns or 0
        alpha = most / (1 / sqrt(given.fs_min) - 1 / sqrt(given.fs_max))
        scaling = alpha / sqrt(self.window) - alpha / sqrt(given.fs_max)
        part = self.base / given.base_rtt_ns
        return self.base + given.hops_ns + part * max(0, min(scaling, most))

    def acked(self, size: int, rtt_ns: int, now: int) -> None:
        given = self.given
        if not rtt_ns:
            return
        if given.own_base:
            self.base = min(self.base, rtt_ns)
        target = self.target()
        self.tie = abs(target - rtt_ns) < 1 + 1e-4 * target
        if rtt_ns < target:
            acked = size / given.packet_bytes
            self.window += given.ai * acked / self.window if self.window >= 1 else given.ai * acked
        elif self.decreased is None or now - self.decreased >= rtt_ns:
            part = given.beta * (rtt_ns - target) / rtt_ns
            self.window *= max(1 - part, 1 - given.max_mdf)
            self.decreased = now
        self.window = min(max(self.window, given.window_min), self.most)
        paced = self.window * given.packet_bytes * 8e9 / rtt_ns
        rate = given.line_rate_bps if self.window >= 1 else paced
        self.rate = min(max(rate, given.min_rate_bps), given.line_rate_bps)
        self.tie |= abs(self.window - 1) < 1e-3


class Header:
    """The same queue pair by the header."""

    def __init__(self, given: SwiftParameters) -> None:
        self.alone = Alone.begun("swift", given.fields(), START)
        self.state: Any = self.alone.state

    def acked(self, size: int, rtt_ns: int, now: int) -> None:
        kind = self.alone.lib.CC_ACKED
        self.alone.event(now, kind=kind, bytes=size, rtt_ns=rtt_ns)

    @property
    def window(self) -> float:
        return float(self.state.window_q16 / 65536)


def anything(choice: random.Random) -> SwiftParameters:
    """Parameters as senders have them at some rate and time scale, or further off."""
    line = choice.choice([10, 25, 100, 400, 1600]) * 10**9
    given = swift_parameters(line)
    if choice.random() < 0.5:
        given = replace(
            given, fs_min=choice.choice([0.1, 0.5]), fs_max=choice.choice([16.0, 100.0])
        )
        given = replace(given, ai=choice.choice([0.25, 2.0]), beta=0.4, max_mdf=0.25)
        given = replace(given, fs_range_ns=choice.choice([0, 20_000]))
        given = replace(given, own_base=choice.random() < 0.5)
    trip = choice.choice([4000, T, 10**6])
    given = given.in_fabric(trip, choice.randrange(1, 6), choice.choice([1024, PACKET]))
    return given.with_time_scale(choice.choice([1, 1, 100, 10_000]))


@pytest.mark.parametrize("seed", range(6))
def test_the_header_does_what_the_rule_says(seed: int) -> None:
    choice = random.Random(seed)
    below, grown, cut, compared = 0, 0, 0, 0
    for _ in range(50):
        given = anything(choice)
        plain, header = Plain(given), Header(given)
        if choice.random() < 0.5:
            header.state.window_q16 = int(65536 * choice.uniform(0.02, 2))
            plain.window = header.window
        now = START
        near = choice.choice([0.9, 1.2, 3.0])
        for _ in range(60):
            now += int(given.base_rtt_ns * choice.choice([0.02, 0.3, 2]) * choice.random()) + 1
            rtt = int((given.base_rtt_ns + given.hops_ns) * near * choice.uniform(0.8, 1.6))
            rtt = choice.choice([rtt, rtt, rtt, rtt * 3, 0])
            size = given.packet_bytes * choice.choice([0, 1, 1, 1, 2, 8])
            before = plain.window
            plain.acked(size, rtt, now)
            header.acked(size, rtt, now)
            if plain.tie:
                break
            assert header.window == pytest.approx(plain.window, rel=5e-3, abs=1e-3)
            assert header.state.rate == pytest.approx(plain.rate, rel=1e-1, abs=2)
            assert header.alone.window_at(now) == int(header.window * given.packet_bytes)
            below += plain.window < 1
            grown += plain.window > before
            cut += plain.window < before
            compared += 1
    assert compared > 1000 and below > 100 and grown > 200 and cut > 100  # it was about something


def test_the_target_is_the_round_trip_some_packets_a_hop_and_more_for_small_windows() -> None:
    plain, header = Plain(GIVEN), Header(GIVEN)
    assert GIVEN.hops_ns == HOPS_NS
    for window in (0.01, 0.1, 0.5, 1, 4, 60, 256, 2000):
        plain.window = window
        header.state.window_q16 = int(window * 65536)
        header.acked(0, 10**9, START)
        assert header.state.target_ns == pytest.approx(plain.target(), rel=1e-4)
    header.state.window_q16 = 256 << 16
    header.acked(0, T, START)
    assert header.state.target_ns == pytest.approx(T + HOPS_NS, abs=2)
    header.state.window_q16 = 65536 // 20
    header.acked(0, T, START)
    assert header.state.target_ns == 5 * T + HOPS_NS  # four of them for flow scaling, at most


def test_a_window_of_acknowledgements_adds_a_packet() -> None:
    header = Header(GIVEN)
    before = header.window
    assert before == pytest.approx(LINE * T / 8e9 / PACKET, rel=1e-3)
    for n in range(int(before)):
        header.acked(PACKET, T, START + n * T // int(before))
    assert header.window == pytest.approx(before + 1, abs=0.05)


def test_below_a_packet_each_acknowledgement_adds_one() -> None:
    header = Header(GIVEN)
    header.state.window_q16 = 65536 // 4
    header.acked(PACKET, T, START)
    assert header.window == 1.25


def test_one_congestion_is_answered_once_a_round_trip_however_many_acknowledgements_tell_it() -> (
    None
):
    header = Header(GIVEN)
    header.state.window_q16 = 256 << 16
    target = T + HOPS_NS
    windows = []
    for n in range(21):
        header.acked(PACKET, 2 * target, START + n * target // 5)
        windows.append(header.window)
    assert len(set(windows)) == 3  # at 0, 2 and 4 targets: of a round trip of two
    assert windows[0] == pytest.approx(256 * (1 - 0.8 / 2), rel=1e-3)


def test_a_decrease_is_never_more_than_a_half() -> None:
    header = Header(GIVEN)
    before = header.window
    header.acked(PACKET, 100 * T, START)
    assert header.window == pytest.approx(before / 2, rel=1e-3)


def test_a_window_below_a_packet_is_a_packet_each_so_many_round_trips() -> None:
    header = Header(GIVEN)
    assert header.state.rate == LINE
    rtt = 200 * T
    for n in range(40):
        header.acked(PACKET, rtt, START + n * rtt)
    assert header.window == pytest.approx(GIVEN.window_min, rel=0.01)
    assert header.state.rate == GIVEN.min_rate_bps  # the least that senders may be held to
    header.state.window_q16 = 65536 // 2
    header.acked(PACKET, 6 * T, START + 60 * rtt)
    paced = header.window * PACKET * 8e9 / (6 * T)
    assert header.window < 0.5 and header.state.rate == pytest.approx(paced, rel=1e-3)


def test_a_round_trip_that_is_not_known_changes_nothing() -> None:
    header = Header(GIVEN)
    before = header.window
    for n in range(20):
        header.acked(PACKET, 0, START + n * T)
    assert (header.window, int(header.state.rate)) == (before, LINE)


def test_slow_motion_changes_rates_and_times_and_no_window() -> None:
    fast, slow = Header(GIVEN), Header(GIVEN.with_time_scale(1000))
    for n in range(50):
        rtt = T * (1 + n % 7)
        fast.acked(PACKET, rtt, START + n * T)
        slow.acked(PACKET, rtt * 1000, START + n * T * 1000)
        assert slow.window == pytest.approx(fast.window, rel=1e-3)
        assert slow.state.rate == pytest.approx(fast.state.rate / 1000, rel=1e-3)


@pytest.mark.parametrize("rate", [10**6, 1600 * 10**9, MAX_RATE_BPS])
def test_nothing_overflows_at_the_ends_of_its_numbers(rate: int) -> None:
    given = swift_parameters(rate).in_fabric(1 << 30, 255, 4096)
    given = replace(given, fs_range_ns=1 << 39, ai=16.0)
    header = Header(given)
    most = given.fields()["most_q16"]
    for n, (size, rtt) in enumerate(
        [(1 << 62, 1), (0, 1 << 63), (1 << 40, 1 << 40), (1 << 62, 1), (1, 1 << 41)] * 20
    ):
        header.acked(size, rtt, START + n * 10**12)
        assert given.min_rate_bps <= header.state.rate <= rate
        assert given.fields()["least_q16"] <= header.state.window_q16 <= most
