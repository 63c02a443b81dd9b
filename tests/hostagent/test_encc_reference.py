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
from protocols.path_telemetry import HOPS_MOST, QUEUE_BYTES
from tests.hostagent.hop_paths import LINES, Hop, Last, Walk, telemetry
from tests.hostagent.native_replay import Alone

START = 10**12
LINE = 400 * 10**9
T = 13_000
LOAD_MOST = 64.0
GIVEN = replace(encc_parameters(LINE, T), by_root=False)


def close(one: float, other: float) -> bool:
    """Say that a comparison of rates is decided by what integers round away."""
    return abs(one - other) < 5e-3 * other


class PlainHop:
    """What one hop would have the queue pair send."""

    def __init__(self, reference: float) -> None:
        self.reference, self.used = reference, 0.0
        self.added = reference  # before the cuts that what was sent before is held against


class Plain:
    """One queue pair's rate by the rule."""

    def __init__(self, given: EnccParameters) -> None:
        self.given = given
        self.rate = self.reference = float(given.line_rate_bps)
        self.stage, self.begun = 0, False
        self.tie = False  # a comparison that the last bit decides
        self.committed, self.sent, self.rtt = START, START, given.base_rtt_ns
        self.last = Last()
        self.base = self.least = given.base_rtt_ns
        self.hops = [PlainHop(self.rate) for _ in range(HOPS_MOST)]
        self.told = 0
        self.cut = 0.0
        self.eta = given.eta_q16 / 65536

    @property
    def used(self) -> float:
        return max(hop.used for hop in self.hops[: self.told])

    def acked(self, hops: list[Hop], rtt_ns: int, now: int) -> None:
        self.rtt = rtt_ns or self.rtt
        before, sent = self.sent, now - (rtt_ns or 4 * self.rtt)
        self.tie = False
        self._measure(hops, self.last.passed(now // self.given.time_scale))
        if rtt_ns >= self.given.time_scale:
            self.least = min(self.least, rtt_ns)
        if rtt_ns and rtt_ns < self.base // 2 and self.base // 2 >= self.given.time_scale:
            self.base //= 2
        if not self.begun:
            self.begun, self.committed = True, now
        elif sent < self.committed or before >= self.committed:
            self._react(sent < self.committed, now)
        self.sent = sent

    def _measure(self, hops: list[Hop], passed: float) -> None:
        self.told = len(hops)
        trip = self.base // self.given.time_scale
        average = 2 * (self.least // self.given.time_scale)
        for kept, each in zip(self.hops, self.last.take(hops, passed), strict=False):
            queue = max(each.queue - self.given.queue_free_bytes // QUEUE_BYTES, 0)
            waits = replace(each, queue=queue).queue_share(max(trip, each.ns))
            load = min(waits + (each.sent_share if each.ns else 0), LOAD_MOST)
            if each.is_new:
                self.base = self.least = self.given.base_rtt_ns
                kept.reference = kept.added = self.reference
                kept.used = max(load, self.eta)
            elif each.ns >= average:
                kept.used = load
            elif each.ns:
                kept.used += (load - kept.used) * each.ns / average
            self.tie |= kept.used != self.eta and abs(kept.used - self.eta) < 1e-6

    def _increase(self, reference: float) -> float:
        """Through AI, AI / 2, AI / 4, AI / 12, AI / 24 at the line, a 4th, 16th, 64th, 256th."""
        given = self.given
        if not given.by_root:
            return given.rate_ai_bps
        share, part, adds = reference / given.line_rate_bps, 1.0, [1, 1 / 2]
        adds += [1 / 4, *(1 / 12 / 2**n for n in range(5))]
        for upper, lower in pairwise(adds):
            if share >= part / 4:
                above = (share - part / 4) / (part * 3 / 4)
                return given.rate_ai_bps * (lower + (upper - lower) * above)
            part /= 4
        return given.rate_ai_bps * adds[-1]

    def _react(self, old: bool, now: int) -> None:
        given, cut = self.given, old and self.cut > 0
        rates, stage = [], self.stage + 1
        for hop in self.hops[: self.told]:
            reference = min(hop.reference * (self.cut if cut else 1), given.line_rate_bps)
            rate = reference
            if hop.used >= self.eta or self.stage >= given.max_stage:
                rate, stage = rate * self.eta / max(hop.used, 2**-20), 0
            rate += self._increase(hop.added if cut else hop.reference)
            rates.append(min(max(rate, given.min_rate_bps), given.line_rate_bps))
        least = min(rates)
        if cut:
            self.tie |= close(least, self.rate * 7 / 8)
            if least >= self.rate * 7 / 8:
                return
        elif old:
            self.tie |= close(least, self.reference / 2)
        self.rate = least
        if not old:
            self.stage, self.cut = stage, 0.0
        elif cut or least < self.reference / 2:
            self.cut = min((self.cut if cut else 1) * min(self.reference / least, 2048), 2048)
        else:
            return
        self.reference, self.committed = least, now
        for hop, rate in zip(self.hops, rates, strict=False):
            hop.added = hop.added if cut else hop.reference
            hop.reference = min(rate, 2 * least)


class Header:
    """The same queue pair by the header."""

    def __init__(self, given: EnccParameters) -> None:
        self.alone = Alone.begun("encc", given.fields(), START)
        self.state: Any = self.alone.state

    def acked(self, hops: list[Hop], rtt_ns: int, now: int) -> None:
        kind = self.alone.lib.CC_ACKED
        self.alone.event(now, telemetry(hops), kind=kind, bytes=4096, rtt_ns=rtt_ns)

    @property
    def used(self) -> float:
        """The largest U that it has of the path."""
        return int(self.state.used) / 2**26

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
            rtt = choice.choice(
                [0, int(given.base_rtt_ns * choice.choice([0.1, 1, 2]) * choice.uniform(1, 2))]
            )
            plain.acked(hops, rtt, walk.here)
            header.acked(hops, rtt, walk.here)
            if plain.tie:
                break
            assert header.used == pytest.approx(plain.used, rel=1e-5, abs=1e-5)
            assert header.state.rate == pytest.approx(plain.rate, rel=3e-3, abs=8)
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
        assert of_a_line(load).used == pytest.approx(load, rel=0.01)


def test_a_queue_counts_as_what_the_line_carries_in_a_round_trip() -> None:
    whole = int(LINE * T / 8e9 / 512)
    assert of_a_line(1.0, queue=whole + 16).used == pytest.approx(2.0, rel=0.01)
    assert of_a_line(1.0, queue=16).used == pytest.approx(1.0, rel=0.01)


def test_a_rate_is_in_force_with_the_load_that_it_makes() -> None:
    """Fewer than all flows react: the rate goes on until it is the least, or the line."""
    assert of_a_line(0.5).state.rate == LINE
    assert of_a_line(1.2, rtts=200).state.rate == pytest.approx(GIVEN.rate_ai_bps / 0.208, rel=0.02)


def test_each_acknowledgement_reacts_on_the_same_reference() -> None:
    header = Header(GIVEN)
    for n in range(10):
        header.told(0x2800, START + n, T)  # 1.25 of the line, ten times within a round trip
    expected = LINE * 0.95 / 1.25 + GIVEN.rate_ai_bps
    assert header.state.rate == pytest.approx(expected, rel=1e-3)
    assert header.state.reference == LINE
    for n in range(2):  # the second of what was sent after the reference was set
        header.told(0x2800, START + T + n, T)
        assert (header.state.reference == header.state.rate) is (n == 1)
    header.told(0x2800, START + T + 2, T)
    assert header.state.rate == pytest.approx(expected * 0.76 + GIVEN.rate_ai_bps, rel=1e-3)


def test_the_reference_waits_for_what_was_sent_after_it_was_set() -> None:
    """An acknowledgement of an older packet, which has waited in a queue, commits nothing."""
    header = Header(GIVEN)
    header.told(0x2800, START, T)
    for n in range(1, 7):
        header.told(0x2800, START + n * T, 6 * T)
        assert header.state.reference == LINE
    header.told(0x2800, START + 7 * T, 6 * T)
    assert header.state.reference < LINE


def test_a_queue_that_drains_does_not_bring_back_the_rate_that_filled_it() -> None:
    """What was sent before a deep cut answers for the rate that it was sent at."""
    header = Header(GIVEN)
    rates = []
    for n, used in enumerate((0x2000, 0x6000, 0xF000, 0xE000, 0x8000, 0x3000)):
        header.told(used, START + n * T, (n + 1) * T)  # all sent at the start
        rates.append(int(header.state.rate))
    assert rates[1] == pytest.approx(LINE * 0.95 / 3 + GIVEN.rate_ai_bps, rel=1e-2)
    assert rates[2] == pytest.approx(LINE * 0.95 / 7.5 + GIVEN.rate_ai_bps, rel=1e-2)
    assert rates[2:] == [rates[2]] * 4
    assert header.state.reference == rates[2]
    for n in range(6, 8):  # and what was sent since, for that
        header.told(0x1800, START + n * T, T)
    expected = rates[2] * 0.95 / 0.75 + GIVEN.rate_ai_bps
    assert header.state.rate == pytest.approx(expected, rel=1e-3)


def test_each_hop_has_a_rate_of_its_own_and_the_least_counts() -> None:
    """Two full links whose loads take turns in being the larger: no less than of one alone."""
    header = Header(GIVEN)
    sent = [0, 0]
    for n in range(400):
        loads = (1.1, 0.8) if n // 10 % 2 else (0.8, 1.1)
        sent = [
            each + int(load * LINE * T / 80e9 / 64) for each, load in zip(sent, loads, strict=True)
        ]
        at = START + n * T // 10
        header.acked([Hop(7 + i, GIVEN_RATE, at, each) for i, each in enumerate(sent)], T, at)
    alone = of_a_line(0.95, rtts=40)
    assert header.state.rate > 0.9 * alone.state.rate
    references = [int(header.state.each[i].reference) for i in range(2)]
    assert header.state.reference == min(references)
    assert max(references) <= 2 * min(references)


def test_a_path_that_is_shorter_has_a_window_of_its_own_round_trip() -> None:
    header = Header(GIVEN)
    for n in range(1, 5):
        header.acked([Hop(7, GIVEN_RATE, START + n * T, 0)], T // 3, START + n * T)
    assert header.alone.window_at(START) == LINE * (T // 2) // 8 // 10**9
    header.acked([Hop(8, GIVEN_RATE, START + 5 * T, 0)], T, START + 5 * T)
    assert header.alone.window_at(START) == LINE * T // 8 // 10**9
    for path, halved in ((1, False), (1, True), (2, False)):  # and where a word has its number
        header = Header(GIVEN) if path == 1 else header
        for n in range(3):
            header.told(0x1000, START + n * T, T // 3 if halved else T, path)
        assert header.alone.window_at(START) == LINE * (T // 2 if halved else T) // 8 // 10**9


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


def test_the_increase_grows_with_the_rate_but_less() -> None:
    given = replace(GIVEN, by_root=True, min_rate_bps=1)
    for part, root in (
        (1 / 0.95, 1 / 2 + 1 / 2 * (0.95 - 0.25) / 0.75),
        (4, 1 / 2),
        (16, 1 / 4),
        (64, 1 / 12),
        (256, 1 / 24),
        (10**6, 1 / 192),
    ):
        header = Header(given)
        header.state.each[0].reference = int(LINE / part / 0.95)
        header.state.each[0].increase = 0
        rates = []
        for n in range(5):
            header.told(0x2000, START + 2 * n * T, T)  # all of the line: the reference times 0.95
            rates.append(int(header.state.rate))
        assert rates[2] == pytest.approx(LINE / part, rel=1e-3)
        added = rates[4] - rates[2] * 0.95
        assert added == pytest.approx(given.rate_ai_bps * root, rel=0.01)


def test_the_window_is_the_rate_over_the_base_round_trip() -> None:
    for scale in (1, 10_000):
        header = Header(GIVEN.with_time_scale(scale))
        assert header.alone.window_at(START) == LINE * T // 8 // 10**9
        for n in range(2):
            header.told(0x2800, START + n, T * scale)  # reacts, and commits nothing
        share = 0.76 + GIVEN.rate_ai_bps / LINE
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
    used = header.used
    at = START + 20 * T - T // 10
    sent = int(LINE * 0.95 * (at - START) / 8e9 / 64)
    for _ in range(5):
        header.acked([Hop(7, GIVEN_RATE, at=at, sent=sent + 64)], T, at + 5)
    assert header.used == pytest.approx(used, rel=1e-6)
    header.acked([Hop(7, GIVEN_RATE, at=at + T, sent=sent + 64)], T, at + T)
    assert header.used < used  # the bytes count with the time that they took


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
            assert header.used <= 64
