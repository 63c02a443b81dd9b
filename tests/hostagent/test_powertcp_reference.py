"""PowerTCP's integers against its rule in floating point, and what the rule is to do with a path.

`Plain` below is the specification: algorithm 1 of the paper, with what hostagent/include/powertcp.h
says of hops that nothing is known of and of the least current. The header is run natively.
"""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from mechanisms.powertcp.parameters import MAX_RATE_BPS, PowerTcpParameters, powertcp_parameters
from protocols.path_telemetry import QUEUE_BYTES
from tests.hostagent.hop_paths import LINES, Between, Hop, Last, Walk, telemetry
from tests.hostagent.native_replay import Alone

START = 10**12
LINE = 400 * 10**9
T = 13_000
MOST = 64.0
GIVEN = powertcp_parameters(LINE, T)
FIXED = (0.0, 0.5)
"""Powers that several hops may have to the last bit."""


class Plain:
    """One queue pair's rate by the rule."""

    def __init__(self, given: PowerTcpParameters) -> None:
        self.given = given
        self.rate = self.reference = self.older = float(given.line_rate_bps)
        self.power, self.begun = 0.0, False
        self.tie = False  # a comparison that the last bit decides
        self.committed, self.rtt = START, given.base_rtt_ns
        self.last = Last()
        self.round_trip = given.base_rtt_ns // given.time_scale

    def _of_hop(self, each: Between, before: Hop | None) -> float:
        """Return current times voltage; what is not known sends its line if something waits."""
        waits = replace(each, queue=each.hop.queue)
        voltage = 1 + min(waits.queue_share(max(self.round_trip, each.ns)), MOST)
        if not each.ns:
            return voltage if each.hop.queue else 0.0
        assert before is not None
        grown = replace(each, queue=each.hop.queue - before.queue).queue_share(each.ns)
        return min(max(each.sent_share + grown, 0.5), MOST) * voltage

    def acked(self, hops: list[Hop], rtt_ns: int, now: int) -> None:
        self.rtt = rtt_ns or self.rtt
        passed = self.last.passed(now // self.given.time_scale)
        before = list(self.last.hops)
        most, over, known, self.tie = 0.0, passed, False, False
        for last, each in zip(before, self.last.take(hops, passed), strict=False):
            power = self._of_hop(each, last)
            known |= each.ns > 0
            near = abs(power - most) < 1e-4 and not (power == most and power in FIXED)
            self.tie = (self.tie and power < most + 1e-4) or (most > 0 and near)
            if power > most:
                most, over = power, each.ns or passed
        eta = self.given.eta_q16 / 65536
        most = min(most, MOST) if known else min(max(most, eta), MOST)
        weight = min(over / self.round_trip, 1)
        self.power = most if weight == 1 else self.power + (most - self.power) * weight
        if self.begun:
            self._react(now - self.rtt, now)
        else:
            self.begun, self.committed = True, now

    def _react(self, sent: int, now: int) -> None:
        given = self.given
        of_then = self.reference if sent >= self.committed else self.older
        aims = of_then * given.eta_q16 / 65536 / max(self.power, 2**-20)
        aims = min(aims, 16.0 * given.line_rate_bps) + given.rate_ai_bps
        gamma = given.gamma_q16 / 65536
        rate = gamma * aims + (1 - gamma) * self.rate
        self.rate = min(max(rate, given.min_rate_bps), given.line_rate_bps)
        if sent >= self.committed:
            self.older, self.reference, self.committed = self.reference, self.rate, now


class Header:
    """The same queue pair by the header."""

    def __init__(self, given: PowerTcpParameters) -> None:
        self.alone = Alone.begun("powertcp", given.fields(), START)
        self.state: Any = self.alone.state

    def acked(self, hops: list[Hop], rtt_ns: int, now: int) -> None:
        kind = self.alone.lib.CC_ACKED
        self.alone.event(now, telemetry(hops), kind=kind, bytes=4096, rtt_ns=rtt_ns)


def anything(choice: random.Random) -> PowerTcpParameters:
    """Parameters as senders have them at some rate and time scale, or further off."""
    scale = choice.choice([1, 1, 100, 10_000])
    lines = LINES if scale == 1 else LINES[-5:]  # slower ones have few bits left
    given = powertcp_parameters(choice.choice(lines) * 10**9, choice.choice([4000, T, 10**6]))
    if choice.random() < 0.5:
        eta, gamma = choice.choice([0.5, 1.0, 1.5]), choice.choice([0.1, 0.5, 1.0])
        given = replace(given, eta_q16=int(eta * 65536), gamma_q16=int(gamma * 65536))
        given = replace(given, rate_ai_bps=given.line_rate_bps // choice.choice([10, 10_000]))
    return given.with_time_scale(scale)


@pytest.mark.parametrize("seed", range(6))
def test_the_header_does_what_the_rule_says(seed: int) -> None:
    choice = random.Random(seed)
    between, near, changes = 0, 0, 0
    for _ in range(60):
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
            assert header.state.power / 2**26 == pytest.approx(plain.power, rel=1e-4, abs=1e-5)
            assert header.state.rate == pytest.approx(plain.rate, rel=2e-3, abs=2)
            assert given.min_rate_bps <= header.state.rate <= given.line_rate_bps
            between += given.min_rate_bps < plain.rate < given.line_rate_bps
            near += 0.5 < plain.power < 1.5
            changes += plain.rate != before
            before = plain.rate
    assert between > 300 and near > 200 and changes > 500  # it was about something


RATE = (LINE >> 16) >> 11 | 11 << 12  # 400 Gb/s as a 16-bit float


def of_a_line(
    load: float,
    *,
    queue: int = 0,
    grows: int = 0,
    rtts: int = 20,
    given: PowerTcpParameters = GIVEN,
) -> Header:
    """One hop of 400 Gb/s with that load for so many round trips, ten acknowledgements in each.

    `queue` waits there at the end, `grows` of it more each round trip (units of the wire).
    """
    header = Header(given)
    hop = Hop(7, RATE, at=START)
    for n in range(10 * rtts + 1):
        passed = n * T // 10
        waits = queue - grows * (10 * rtts - n) // 10
        sent = int(LINE * load * passed / 8e9 / 64)
        hop = replace(hop, at=START + passed, sent=sent, queue=waits)
        header.acked([hop], T, START + passed)
    return header


def power(header: Header) -> float:
    return float(header.state.power / 2**26)


WHOLE = int(LINE * T / 8e9 / QUEUE_BYTES)
"""What a line carries in a round trip."""


def test_without_a_queue_the_power_is_the_load_but_at_least_a_half() -> None:
    for load in (0.2, 0.5, 0.95, 1.0):
        assert power(of_a_line(load)) == pytest.approx(max(load, 0.5), rel=0.01)


def test_a_queue_that_stands_adds_what_it_is_of_a_round_trip() -> None:
    assert power(of_a_line(1.0, queue=WHOLE)) == pytest.approx(2.0, rel=0.01)
    assert power(of_a_line(1.0, queue=WHOLE // 4)) == pytest.approx(1.25, rel=0.01)


def test_a_queue_that_grows_counts_twice_and_one_that_shrinks_less() -> None:
    """At the same length: in a round trip a quarter more, or less, than the line came."""
    grown = power(of_a_line(1.0, queue=WHOLE, grows=WHOLE // 4, rtts=4))
    shrunk = power(of_a_line(1.0, queue=WHOLE, grows=-WHOLE // 4, rtts=8))
    # The average lags by about a round trip, in which the voltage was 1.8 or 2.2.
    assert grown == pytest.approx(1.25 * 1.8, rel=0.06)
    assert shrunk == pytest.approx(0.75 * 2.2, rel=0.06)


def test_a_queue_that_drains_with_nobody_sending_is_no_call_to_send_at_once() -> None:
    """The published rule divides by the current, which is nothing then."""
    header = of_a_line(1.0, queue=2 * WHOLE, grows=-WHOLE, rtts=10)
    assert power(header) > 1
    assert header.state.rate < 0.2 * LINE


def test_a_rate_grows_to_twice_itself_in_a_round_trip_at_most() -> None:
    header = of_a_line(1.0, queue=4 * WHOLE, rtts=10)
    rates = [int(header.state.rate)]
    for n in range(1, 41):
        at = START + (10 + n) * T
        header.acked([Hop(7, RATE, at=at, sent=10**6)], T, at)
        rates.append(int(header.state.rate))
    most = 2 * GIVEN.eta_q16 / 65536
    for before, after in pairwise(rates):
        assert after <= most * max(before, header.state.older) + GIVEN.rate_ai_bps + 2
    assert rates[-1] == LINE


def commits(header: Header, times: int, *, every: int, rtt: int) -> list[tuple[int, int]]:
    """Acknowledge with a line that has four round trips waiting; return rates and references."""
    found = []
    for n in range(times):
        at = START + n * every
        sent = int(LINE * n * every / 8e9 / 64)
        header.acked([Hop(7, RATE, at=at, sent=sent, queue=4 * WHOLE)], rtt, at)
        found.append((int(header.state.rate), int(header.state.reference)))
    return found


def test_what_was_sent_before_the_last_commit_reacts_on_the_rate_before_it() -> None:
    """Ten acknowledgements in a round trip come to one rate, not to one cut upon the other."""
    given = replace(GIVEN, gamma_q16=1 << 16, rate_ai_bps=0, min_rate_bps=1)
    found = commits(Header(given), 41, every=T // 10, rtt=T)
    rates, references = zip(*found, strict=True)
    places = [n for n in range(1, 41) if references[n] != references[n - 1]]
    assert places == [10, 20, 30, 40]  # once a round trip
    smoothed = LINE * 0.95 / rates[19]  # of what was sent at the line's rate, before the first
    assert smoothed == pytest.approx(5, rel=0.15)
    for n, of_then in ((29, 10), (39, 20)):
        assert rates[n] == pytest.approx(rates[of_then] * 0.95 / 5, rel=0.06)


def test_the_reference_waits_for_what_was_sent_after_it_was_set() -> None:
    header = Header(GIVEN)
    found = commits(header, 7, every=T, rtt=6 * T)
    assert [reference for _, reference in found[:6]] == [LINE] * 6
    assert found[6][1] < LINE


def test_gamma_is_the_new_rates_part() -> None:
    for gamma in (0.1, 0.5, 1.0):
        given = replace(GIVEN, gamma_q16=round(gamma * 65536), rate_ai_bps=0)
        header = Header(given)
        commits(header, 2, every=T, rtt=T)  # the first primes; the line's load, and four of queue
        expected = gamma * 0.95 / 5 + 1 - gamma
        assert header.state.rate / LINE == pytest.approx(expected, rel=0.01)


def test_the_window_is_the_rate_over_the_base_round_trip() -> None:
    for scale in (1, 10_000):
        header = Header(GIVEN.with_time_scale(scale))
        assert header.alone.window_at(START) == LINE * T // 8 // 10**9


def test_another_path_is_no_burst_of_the_old_one() -> None:
    """Byte counts of another port say nothing: without their number it would be an absurd rate."""
    header = of_a_line(0.97, queue=8, rtts=200)
    before = int(header.state.rate)
    far = Hop(8, RATE, at=START + 200 * T, sent=10**6)
    header.acked([far], T, START + 200 * T + T // 10)
    assert header.state.rate <= before + GIVEN.rate_ai_bps
    for n in range(6):
        now = START + (201 + n) * T
        header.acked([replace(far, number=9 + n, queue=3 * WHOLE)], T, now)
    assert header.state.rate < before / 2


def test_a_flow_that_was_idle_for_20_ms_goes_on_as_it_was() -> None:
    """24 bits of time have wrapped, and the first record after it says nothing."""
    header = of_a_line(1.0, queue=8, rtts=200)
    before = int(header.state.rate)
    late = START + 220 * T + 20 * 10**6
    hop = Hop(7, RATE, at=late, sent=5 * 10**6)
    header.acked([hop], T, late)
    assert header.state.rate <= before + GIVEN.rate_ai_bps


def test_two_records_of_one_nanosecond_divide_nothing_by_nothing() -> None:
    header = of_a_line(1.0)
    before = power(header)
    at = START + 20 * T
    sent = int(LINE * (at - START) / 8e9 / 64)
    for _ in range(5):
        header.acked([Hop(7, RATE, at=at, sent=sent + 64)], T, at + 5)
    assert power(header) == pytest.approx(before, rel=0.06)
    header.acked([Hop(7, RATE, at=at + 2 * T, sent=sent + 64)], T, at + 2 * T)
    assert power(header) == 0.5  # the bytes count with the time that they took


def test_without_telemetry_it_is_the_line_and_its_window() -> None:
    header = Header(GIVEN)
    word = {"bytes": 4, "format": 2, "hops": 3, "data": bytes.fromhex("00014000").ljust(64, b"\0")}
    for n in range(20):
        event = {"kind": header.alone.lib.CC_ACKED, "bytes": 4096, "rtt_ns": T}
        header.alone.event(START + n * T, **event)
        header.alone.event(START + n * T, word, **event)  # does not say how fast a queue grows
        header.acked([], T, START + n * T)  # no switch spoke
    assert header.state.rate == LINE


@pytest.mark.parametrize("rate", [10**9, 1600 * 10**9, MAX_RATE_BPS])
@pytest.mark.parametrize("gamma", [1, 1 << 16])
def test_nothing_overflows_at_the_ends_of_its_numbers(rate: int, gamma: int) -> None:
    given = replace(
        powertcp_parameters(rate, 10**6), eta_q16=131072, gamma_q16=gamma, rate_ai_bps=MAX_RATE_BPS
    )
    header = Header(given)
    top = 0xFFF | 15 << 12
    for n, (at, sent, queue) in enumerate(
        [(0, 0, 0), (1, 2**24 - 1, 65535), (2**24 - 1, 2**24 - 2, 65535), (2**22, 5, 0)]
    ):
        now = START + n * 10**6
        for line in (1, 0x100, top):
            header.acked([Hop(7, line, at, sent, queue)] * 5, T, now)
            assert given.min_rate_bps <= header.state.rate <= rate
            assert header.state.power <= 64 << 26
