"""ENCC's integers against its rule in floating point, and what the rule is to do with a path.

`Plain` below is the specification: HPCC's rule as its authors' program has it, with what
hostagent/include/encc.h says of hops that nothing is known of. The header is run natively.
"""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from mechanisms.encc.parameters import MAX_RATE_BPS, EnccParameters, encc_parameters
from protocols.path_telemetry import QUEUE_BYTES
from tests.hostagent.hop_paths import LINES, Hop, Last, Walk, telemetry
from tests.hostagent.native_replay import Alone

START = 10**12
LINE = 400 * 10**9
T = 13_000
LOAD_MOST = 64.0
GIVEN = replace(encc_parameters(LINE, T), by_root=False)


class Plain:
    """One queue pair's rate by the rule."""

    def __init__(self, given: EnccParameters) -> None:
        self.given = given
        self.rate = self.reference = float(given.line_rate_bps)
        self.used, self.stage, self.begun = 0.0, 0, False
        self.tie = False  # a comparison that the last bit decides
        self.committed, self.sent, self.rtt = START, START, given.base_rtt_ns
        self.last = Last()
        self.round_trip = given.base_rtt_ns // given.time_scale

    def acked(self, hops: list[Hop], rtt_ns: int, now: int) -> None:
        self.rtt = rtt_ns or self.rtt
        before, sent = self.sent, now - self.rtt
        passed = self.last.passed(now // self.given.time_scale)
        most, over, known, tie = 0.0, passed, False, False
        for each in self.last.take(hops, passed):
            queue = max(each.queue - self.given.queue_free_bytes // QUEUE_BYTES, 0)
            waits = replace(each, queue=queue).queue_share(max(self.round_trip, each.ns))
            load = min(waits, LOAD_MOST)
            if each.ns:
                load += each.sent_share
                known = True
            tie = (tie and load < most + 1e-6) or (most > 0 and abs(load - most) < 1e-6)
            if load > most:
                most, over = load, each.ns or passed
        most = min(most, LOAD_MOST)
        eta = self.given.eta_q16 / 65536
        most = most if known else max(most, eta)
        weight = min(over / self.round_trip, 1)
        self.used = most if weight == 1 else self.used + (most - self.used) * weight
        self.tie = tie or (self.used != eta and abs(self.used - eta) < 1e-6)
        if not self.begun:
            self.begun, self.committed = True, now
        elif sent < self.committed or before >= self.committed:
            self._react(before, now)
        self.sent = sent

    def _increase(self) -> float:
        """Through (line, AI), (line / 4, AI / 2), (line / 16, AI / 4) and so on."""
        given = self.given
        if not given.by_root:
            return given.rate_ai_bps
        share, part = self.reference / given.line_rate_bps, 1.0
        while share < part / 4 and part > 4.0**-6:
            part /= 4
        above = max((share - part / 4) / (part * 3 / 4), 0)
        return given.rate_ai_bps * part**0.5 * (1 + above) / 2

    def _react(self, before: int, now: int) -> None:
        given = self.given
        eta = given.eta_q16 / 65536
        rate, stage = self.reference, 0
        if self.used >= eta or self.stage >= given.max_stage:
            rate = rate * eta / max(self.used, 2**-20)
        else:
            stage = self.stage + 1
        rate += self._increase()
        self.rate = min(max(rate, given.min_rate_bps), given.line_rate_bps)
        if before >= self.committed:
            self.reference, self.stage, self.committed = self.rate, stage, now


class Header:
    """The same queue pair by the header."""

    def __init__(self, given: EnccParameters) -> None:
        self.alone = Alone.begun("encc", given.fields(), START)
        self.state: Any = self.alone.state

    def acked(self, hops: list[Hop], rtt_ns: int, now: int) -> None:
        kind = self.alone.lib.CC_ACKED
        self.alone.event(now, telemetry(hops), kind=kind, bytes=4096, rtt_ns=rtt_ns)

    def told(self, used: int, now: int, rtt_ns: int = 0, path: int = 1) -> None:
        """Switches have said the largest U of the path themselves."""
        data = (path << 16 | used).to_bytes(4, "big").ljust(64, b"\0")
        said = {"bytes": 4, "format": 2, "hops": 3, "data": data}
        self.alone.event(now, said, kind=self.alone.lib.CC_ACKED, bytes=4096, rtt_ns=rtt_ns)


def anything(choice: random.Random) -> EnccParameters:
    """Parameters as senders have them at some rate and time scale, or further off."""
    scale = choice.choice([1, 1, 100, 10_000])
    lines = LINES if scale == 1 else LINES[-5:]  # slower ones have few bits left
    given = encc_parameters(choice.choice(lines) * 10**9, choice.choice([4000, T, 10**6]))
    if choice.random() < 0.5:
        eta = choice.choice([0.5, 0.99, 1.5])
        given = replace(given, eta_q16=int(eta * 65536), max_stage=choice.randrange(6))
        given = replace(given, by_root=choice.random() < 0.5, queue_free_bytes=0)
    return given.with_time_scale(scale)


@pytest.mark.parametrize("seed", range(6))
def test_the_header_does_what_the_rule_says(seed: int) -> None:
    choice = random.Random(seed)
    between, near, changes = 0, 0, 0
    for _ in range(50):
        given = anything(choice)
        plain, header = Plain(given), Header(given)
        walk = Walk(choice, given.line_rate_bps * given.time_scale, given.time_scale)
        before = plain.rate
        for _ in range(60):
            hops = walk.step()
            rtt = choice.choice([0, int(given.base_rtt_ns * choice.uniform(1, 3))])
            plain.acked(hops, rtt, walk.here)
            header.acked(hops, rtt, walk.here)
            if plain.tie:
                break
            assert header.state.used / 2**26 == pytest.approx(plain.used, rel=1e-5, abs=1e-5)
            assert header.state.rate == pytest.approx(plain.rate, rel=2e-3, abs=2)
            assert given.min_rate_bps <= header.state.rate <= given.line_rate_bps
            between += given.min_rate_bps < plain.rate < given.line_rate_bps
            near += 0.5 < plain.used < 1.5
            changes += plain.rate != before
            before = plain.rate
    assert between > 300 and near > 200 and changes > 500  # it was about something


def of_a_line(load: float, *, queue: int = 0, rtts: int = 20) -> Header:
    """One hop of 400 Gb/s with that load for so many round trips, ten acknowledgements in each."""
    header = Header(GIVEN)
    hop = Hop(7, GIVEN_RATE, at=START, queue=queue)
    for n in range(10 * rtts):
        passed = n * T // 10
        sent = int(LINE * load * passed / 8e9 / 64)
        header.acked([replace(hop, at=START + passed, sent=sent)], T, START + passed)
    return header


GIVEN_RATE = (LINE >> 16) >> 11 | 11 << 12  # 400 Gb/s as a 16-bit float
EXACT = ((GIVEN_RATE & 0xFFF) << 11) * 65536


def test_the_load_of_the_path_is_what_is_sent_over_the_line_within_a_percent() -> None:
    for load in (0.2, 0.5, 0.95, 1.0):
        assert of_a_line(load).state.used / 2**26 == pytest.approx(load, rel=0.01)


def test_a_queue_counts_as_what_the_line_carries_in_a_round_trip() -> None:
    whole = int(LINE * T / 8e9 / 512)
    assert of_a_line(1.0, queue=whole + 16).state.used / 2**26 == pytest.approx(2.0, rel=0.01)
    assert of_a_line(1.0, queue=16).state.used / 2**26 == pytest.approx(1.0, rel=0.01)


def test_a_rate_is_in_force_with_the_load_that_it_makes() -> None:
    """Fewer than all flows react: the rate goes on until it is the least, or the line."""
    assert of_a_line(0.5).state.rate == LINE
    assert of_a_line(1.2, rtts=200).state.rate == pytest.approx(GIVEN.rate_ai_bps / 0.208, rel=0.02)


def test_each_acknowledgement_reacts_on_the_same_reference() -> None:
    header = Header(GIVEN)
    for n in range(10):
        header.told(0x4000, START + n, T)  # twice the line, ten times within a round trip
    expected = LINE * 0.95 / 2 + GIVEN.rate_ai_bps
    assert header.state.rate == pytest.approx(expected, rel=1e-3)
    assert header.state.reference == LINE
    for n in range(2):  # the second of what was sent after the reference was set
        header.told(0x4000, START + T + n, T)
        assert (header.state.reference == header.state.rate) is (n == 1)
    header.told(0x4000, START + T + 2, T)
    assert header.state.rate == pytest.approx(expected * 0.475 + GIVEN.rate_ai_bps, rel=1e-3)


def test_the_reference_waits_for_what_was_sent_after_it_was_set() -> None:
    """An acknowledgement of an older packet, which has waited in a queue, commits nothing."""
    header = Header(GIVEN)
    header.told(0x4000, START, T)
    for n in range(1, 7):
        header.told(0x4000, START + n * T, 6 * T)
        assert header.state.reference == LINE
    header.told(0x4000, START + 7 * T, 6 * T)
    assert header.state.reference < LINE


def test_what_measures_both_sides_of_a_commit_changes_no_rate() -> None:
    """One packet in flight: each second acknowledgement answers, or all would be answered twice."""
    header = Header(GIVEN)
    rates = []
    for n in range(7):
        header.told(0x4000, START + n * 2 * T, T)
        rates.append(int(header.state.rate))
    assert rates[0] == rates[1] == LINE
    assert rates[2] == rates[3] > rates[4] == rates[5] > rates[6]


def test_stages_add_only_as_long_as_there_is_room() -> None:
    header = Header(replace(GIVEN, max_stage=5, min_rate_bps=1))
    for n in range(3):
        header.told(0x4000, START + 2 * n * T, T)  # half
    rates = [int(header.state.rate)]
    for n in range(2, 8):
        for half in range(2):
            header.told(0x1000, START + (4 * n + 2 * half) * T, T)  # now at half of the load
        rates.append(int(header.state.rate))
    steps = [after - before for before, after in pairwise(rates)]
    assert steps[:5] == [GIVEN.rate_ai_bps] * 5
    assert rates[6] == pytest.approx(min(1.9 * rates[5] + GIVEN.rate_ai_bps, LINE), rel=1e-3)


def test_the_increase_grows_with_the_root_of_the_rate() -> None:
    given = replace(GIVEN, by_root=True, min_rate_bps=1)
    for part, root in ((1, 1), (4, 0.5), (16, 0.25), (1024, 1 / 32), (10**6, 1 / 128)):
        header = Header(given)
        header.state.reference = LINE // part
        for n in range(3):
            header.told(0x2000, START + 2 * n * T, T)
        added = header.state.rate - LINE // part * 0.95
        assert added == pytest.approx(given.rate_ai_bps * root, rel=0.01)


def test_the_window_is_the_rate_over_the_base_round_trip() -> None:
    for scale in (1, 10_000):
        header = Header(GIVEN.with_time_scale(scale))
        assert header.alone.window_at(START) == LINE * T // 8 // 10**9
        for n in range(2):
            header.told(0x4000, START + n, T)  # reacts, and commits nothing
        share = 0.475 + GIVEN.rate_ai_bps / LINE
        assert header.alone.window_at(START) == pytest.approx(share * LINE * T / 8e9, rel=1e-3)


def test_another_path_is_no_burst_of_the_old_one() -> None:
    """Byte counts of another port say nothing: without their number it would be an absurd rate."""
    header = of_a_line(0.9)
    before = int(header.state.rate)
    far = Hop(8, GIVEN_RATE, at=START + 20 * T, sent=10**6)
    header.acked([far], T, START + 20 * T)
    assert header.state.rate == before
    longer = replace(far, queue=3 * int(LINE * T / 8e9 / 512))  # others, with long queues
    for n in range(3):
        header.acked([replace(longer, number=9 + n)], T, START + (21 + n) * T)
    assert header.state.rate < before / 2


def test_a_flow_that_was_idle_for_20_ms_goes_on_as_it_was() -> None:
    """24 bits of time have wrapped, and the first record after it says nothing."""
    header = of_a_line(1.1)
    before = int(header.state.rate)
    late = START + 20 * 10**6
    hop = Hop(7, GIVEN_RATE, at=late, sent=5 * 10**6)
    header.acked([hop], T, late)
    assert before <= header.state.rate <= before + GIVEN.rate_ai_bps
    for n in range(1, 30):
        at = late + n * T // 10
        sent = hop.sent + int(LINE * 1.1 * n * T / 10 / 8e9 / 64)
        header.acked([replace(hop, at=at, sent=sent)], T, at)
    assert GIVEN.min_rate_bps <= header.state.rate <= before + 3 * GIVEN.rate_ai_bps


def test_two_records_of_one_nanosecond_divide_nothing_by_nothing() -> None:
    header = of_a_line(0.95)
    used = int(header.state.used)
    at = START + 20 * T - T // 10
    sent = int(LINE * 0.95 * (at - START) / 8e9 / 64)
    for _ in range(5):
        header.acked([Hop(7, GIVEN_RATE, at=at, sent=sent + 64)], T, at + 5)
    assert header.state.used == pytest.approx(used, rel=1e-6)
    header.acked([Hop(7, GIVEN_RATE, at=at + T, sent=sent + 64)], T, at + T)
    assert header.state.used < used  # the bytes count with the time that they took


def test_without_telemetry_it_is_the_line_and_its_window() -> None:
    header = Header(GIVEN)
    for n in range(20):
        header.alone.event(START + n * T, kind=header.alone.lib.CC_ACKED, bytes=4096, rtt_ns=T)
        header.acked([], T, START + n * T)  # no switch spoke
    assert header.state.rate == LINE


@pytest.mark.parametrize("rate", [10**9, 1600 * 10**9, MAX_RATE_BPS])
def test_nothing_overflows_at_the_ends_of_its_numbers(rate: int) -> None:
    given = replace(encc_parameters(rate, 10**6), eta_q16=131072)
    header = Header(given)
    top = 0xFFF | 15 << 12
    for n, (at, sent, queue) in enumerate(
        [(0, 0, 0), (1, 2**24 - 1, 65535), (2**24 - 1, 2**24 - 2, 65535), (2**22, 5, 0)]
    ):
        now = START + n * 10**6
        for line in (1, 0x100, top):
            header.acked([Hop(7, line, at, sent, queue)] * 5, T, now)
            assert given.min_rate_bps <= header.state.rate <= rate
            assert header.state.used <= 64 << 26
