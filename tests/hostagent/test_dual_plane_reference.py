"""The failover of a plane against its rules, in plain integers and event by event.

`Plain` below is the specification: the rules at the head of hostagent/include/dual_plane.h, and
what the plane may carry at any time worked out from when it came up. The header is run natively.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, replace

import pytest

from hostagent.rnic.binding import Card
from hostagent.rnic.card_records import CardConfig, CardError, QueuePairConfig
from mechanisms.dual_plane.parameters import MAX_RATE_BPS, DualPlaneParameters
from tests.hostagent.native_replay import Alone

START = 10**12
LINE = 200 * 10**9
US, MS, S = 10**3, 10**6, 10**9
TIME_MOST = 1 << 56
GIVEN = DualPlaneParameters(
    line_rate_bps=LINE,
    min_rate_bps=LINE // 400,
    hold_ns=10 * MS,
    hold_most_ns=10 * S,
    stable_ns=2 * S,
    ramp_ns=100 * US,
    answers=5,
)
WRAP = 1 << 32


class Plain:
    """One plane by the rules."""

    def __init__(self, given: DualPlaneParameters) -> None:
        self.given = given
        self.up_since: int | None = START  # None: it is down
        self.returned = False  # whether it came up, or has never been away
        self.last_loss = 0
        self.losses = 0
        self.hold = 0
        self.numbers: list[int] = []  # of the answers since the loss
        self.seen: Counter[str] = Counter()

    def answered(self, now: int, number: int, lost_at: int) -> None:
        given = self.given
        if lost_at > self.last_loss:
            self._lost(lost_at)
        if self.up_since is not None:
            self.seen["answer while up"] += 1
            return
        if self.numbers and number != (self.numbers[-1] + 1) % WRAP:
            self.seen["gap"] += 1
            self.numbers = []
        self.seen["wrap"] += bool(self.numbers) and number == 0
        self.numbers.append(number)
        if len(self.numbers) < given.answers:
            return
        if now < self.last_loss + self.hold:
            self.seen["held"] += 1
            return
        self.seen["up again"] += 1
        self.up_since, self.returned = now, True

    def _lost(self, at: int) -> None:
        given = self.given
        if self.up_since is None:
            self.seen["lost while down"] += 1
        stood = 0 if self.up_since is None else max(0, at - self.up_since)
        if self.losses == 0:
            self.hold = given.hold_ns
        elif stood >= given.stable_ns and self.up_since is not None:
            self.seen["forgiven"] += 1
            self.hold = given.hold_ns
        else:
            self.seen["doubled"] += 1
            self.hold = min(2 * self.hold, given.hold_most_ns)
            self.seen["longest"] += self.hold == given.hold_most_ns
        if self.up_since is not None and self.returned and self.rate_at(at) < given.line_rate_bps:
            self.seen["lost while ramping"] += 1
        self.losses += 1
        self.last_loss, self.up_since, self.numbers = at, None, []

    def rate_at(self, now: int) -> int:
        given = self.given
        if self.up_since is None:
            return given.min_rate_bps
        steps = 2
        if self.returned and given.ramp_ns:
            steps = min(2, max(0, now - self.up_since) // given.ramp_ns)
        return max(given.line_rate_bps // (16, 4, 1)[steps], given.min_rate_bps)


@dataclass
class Header:
    """The same plane by the header."""

    given: DualPlaneParameters

    def __post_init__(self) -> None:
        self.alone = Alone.begun("dual_plane", self.given.fields(), START)
        self.state = self.alone.state

    def answered(self, now: int, number: int, lost_at: int) -> None:
        kind = self.alone.lib.CC_PROBED
        self.alone.event(now, kind=kind, number=number, lost_at=lost_at)

    def answers(self, now: int, count: int, lost_at: int, first: int = 1) -> None:
        """So many in a row at that time."""
        for number in range(first, first + count):
            self.answered(now, number, lost_at)

    def rate_at(self, now: int) -> int:
        return self.alone.rate_at(now)

    @property
    def is_down(self) -> bool:
        return bool(self.state.down)

    def loses(self, at: int, then: int) -> int:
        """Lose the plane, answer until it may be up, and return how long it was held."""
        self.answered(then, 1, at)
        assert self.is_down
        hold = int(self.state.hold)
        self.answers(at + hold - 1, 8, at, 10)
        assert self.is_down
        self.answers(at + hold, 1, at, 18)
        assert not self.is_down
        return hold


def anything(choice: random.Random) -> DualPlaneParameters:
    """Parameters anywhere in their ranges, each magnitude as likely as any other."""

    def up_to(most: int) -> int:
        return int(most ** choice.random())

    line, most = up_to(MAX_RATE_BPS), up_to(TIME_MOST)
    return DualPlaneParameters(
        line_rate_bps=line,
        min_rate_bps=min(up_to(MAX_RATE_BPS), line),
        hold_ns=choice.choice([0, most, min(up_to(TIME_MOST), most)]),
        hold_most_ns=most,
        stable_ns=choice.choice([0, up_to(TIME_MOST)]),
        ramp_ns=choice.choice([0, up_to(TIME_MOST)]),
        answers=choice.choice([1, 2, 3, up_to(WRAP - 1)]),
    )


@pytest.mark.parametrize("seed", range(6))
def test_the_header_does_what_the_rules_say(seed: int) -> None:
    choice = random.Random(seed)
    seen: Counter[str] = Counter()
    for _ in range(150):
        given = anything(choice) if choice.random() < 0.3 else GIVEN
        plain, header, now, lost_at = Plain(given), Header(given), START, 0
        number = choice.choice([1, WRAP - 3, choice.randrange(WRAP)])
        for _ in range(120):
            now += choice.choice([
                0, choice.randrange(MS), choice.randrange(max(1, plain.hold) + 2),
                choice.randrange(2 * given.ramp_ns + 2), choice.randrange(2 * given.stable_ns + 2),
            ] if choice.random() < 0.3 else [choice.randrange(2 * MS)])  # fmt: skip
            now = min(now, 1 << 60)
            number = (number + choice.choice([1] * 12 + [0, 2, -1 - number])) % WRAP
            ramps = plain.rate_at(now) < given.line_rate_bps and not header.is_down
            if choice.random() < (
                0.3 if ramps else 0.08
            ):  # lost before now, or (another clock) a little after it
                lost_at = max(lost_at, now - choice.choice([-5, 0, 1, choice.randrange(MS)]))
            plain.answered(now, number, lost_at)
            header.answered(now, number, lost_at)
            later = now + choice.choice([0, given.ramp_ns - 1, given.ramp_ns, 2 * given.ramp_ns])
            later = max(later, now)
            assert header.is_down == (plain.up_since is None)
            assert (header.state.hold, header.state.losses) == (plain.hold, plain.losses)
            assert header.state.rate == plain.rate_at(now)
            assert header.rate_at(later) == plain.rate_at(later)
        seen += plain.seen
    assert all(seen[what] > 20 for what in (
        "answer while up", "gap", "wrap", "held", "up again", "lost while down", "forgiven",
        "doubled", "longest", "lost while ramping",
    )), seen  # fmt: skip


# --- by hand --------------------------------------------------------------------------------------


def test_five_answers_in_a_row_after_the_hold_and_then_a_ramp() -> None:
    header, lost_at = Header(GIVEN), START + S
    header.answers(lost_at + MS, 20, lost_at)
    assert header.is_down and header.rate_at(lost_at + MS) == LINE // 400  # held for 10 ms
    header.answered(lost_at + 10 * MS - 1, 21, lost_at)
    assert header.is_down
    up = lost_at + 10 * MS
    header.answered(up, 22, lost_at)
    assert not header.is_down
    shares = [
        (0, 16), (100 * US - 1, 16), (100 * US, 4), (200 * US - 1, 4), (200 * US, 1), (S, 1),
    ]  # fmt: skip
    assert [header.rate_at(up + after) for after, _ in shares] == [LINE // by for _, by in shares]


def test_a_plane_that_was_away_for_long_is_up_with_the_fifth_answer() -> None:
    header, lost_at = Header(GIVEN), START + S
    now = lost_at + 3600 * S
    for number, down in ((7, 1), (8, 1), (9, 1), (10, 1), (11, 0)):
        header.answered(now, number, lost_at)
        assert header.is_down == bool(down)


@pytest.mark.parametrize("numbers", [(1, 2, 3, 4, 6, 7, 8, 9), (1, 2, 3, 4, 4), (5, 4, 3, 2, 1)])
def test_answers_with_a_gap_are_not_in_a_row(numbers: tuple[int, ...]) -> None:
    header, lost_at = Header(GIVEN), START + S
    for number in numbers:
        header.answered(lost_at + S, number, lost_at)
    assert header.is_down
    last = numbers[-1]
    header.answers(lost_at + S, 4, lost_at, last + 1)
    assert not header.is_down


def test_numbers_wrap() -> None:
    header, lost_at = Header(GIVEN), START + S
    for number in (WRAP - 3, WRAP - 2, WRAP - 1, 0, 1):
        assert not header.state.losses or header.is_down
        header.answered(lost_at + S, number, lost_at)
    assert not header.is_down


def test_each_loss_doubles_the_hold_until_the_longest() -> None:
    header, now, holds = Header(GIVEN), START + S, []
    for _ in range(13):
        holds.append(header.loses(now, now + US))
        now += holds[-1] + MS  # it stands for a moment
    assert holds == [10 * MS * 2**n for n in range(10)] + [10 * S] * 3


def test_who_has_stood_long_enough_is_forgiven_and_not_a_moment_sooner() -> None:
    header, now = Header(GIVEN), START + S
    for expected in (10, 20, 40):
        assert header.loses(now, now + US) == expected * MS
        now += expected * MS + MS
    up = header.state.up_at
    just = Header(GIVEN)
    just.alone.ffi.buffer(just.state)[:] = bytes(just.alone.ffi.buffer(header.state))
    assert just.loses(up + 2 * S - 1, up + 2 * S) == 80 * MS
    assert header.loses(up + 2 * S, up + 2 * S) == 10 * MS


def test_a_flap_at_10_hz_ends_on_the_longest_hold() -> None:
    """Down for 50 ms, up for 50 ms, probed each ms."""
    header, used = Header(GIVEN), []
    number = 0
    for cycle in range(40):
        lost_at = START + S + cycle * 100 * MS
        number += 50  # unanswered
        for ms in range(50, 100):
            number += 1
            header.answered(lost_at + ms * MS, number, lost_at)
            used.append(not header.is_down)
    assert header.state.hold == 10 * S
    assert header.is_down
    assert sum(used) == 3 * 46 + 20  # ms: held for 10, 20, 40 and 80, and never up after that
    assert not any(used[-1500:])
    header.answers(lost_at + 10 * S - 1, 8, lost_at, number + 1)
    assert header.is_down
    header.answered(lost_at + 10 * S, number + 9, lost_at)
    assert not header.is_down


def test_a_loss_is_new_once() -> None:
    header, lost_at = Header(GIVEN), START + S
    header.answers(lost_at + S, 9, lost_at)
    assert (header.state.losses, header.is_down) == (1, False)
    header.answers(lost_at + 2 * S, 9, lost_at)
    assert (header.state.losses, header.is_down) == (1, False)
    header.answered(lost_at + 2 * S, 99, lost_at - 1)  # older than what it knows
    assert (header.state.losses, header.is_down) == (1, False)


def test_a_loss_that_is_yet_to_come_does_not_end_its_own_hold() -> None:
    """Times near the end of 64 bits neither wrap nor open the plane."""
    header = Header(replace(GIVEN, answers=1))
    header.answered(START + S, 1, (1 << 64) - 1)
    assert header.is_down
    header.answers(START + 2 * S, 50, (1 << 64) - 1)
    assert header.is_down


def test_without_hold_or_ramp_an_answer_is_enough() -> None:
    header = Header(replace(GIVEN, hold_ns=0, hold_most_ns=0, ramp_ns=0, answers=1))
    header.answered(START + S, 1, START + S)
    assert not header.is_down
    assert header.rate_at(START + S) == LINE


def test_a_ramp_begins_with_the_least_rate_at_least() -> None:
    header, lost_at = Header(replace(GIVEN, min_rate_bps=LINE // 8)), START + S
    header.answers(lost_at + S, 5, lost_at)
    assert header.rate_at(lost_at + S) == LINE // 8
    assert header.rate_at(lost_at + S + 100 * US) == LINE // 4


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"min_rate_bps": 0}, "min_rate is from 1 to line_rate"),
        ({"min_rate_bps": LINE + 1}, "min_rate is from 1 to line_rate"),
        ({"hold_ns": 11 * S}, "hold_ns is at most hold_most_ns"),
        ({"hold_most_ns": TIME_MOST + 1}, r"and that 2\^56"),
        ({"stable_ns": TIME_MOST + 1}, r"at most 2\^56"),
        ({"ramp_ns": TIME_MOST + 1}, r"at most 2\^56"),
        ({"answers": 0}, "answers is at least 1"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(fields: dict[str, int], why: str) -> None:
    card = Card(CardConfig(mac=1, gateway_mac=2, ip=3))
    with pytest.raises(CardError, match=why):
        card.add_queue_pair(
            QueuePairConfig(qpn=1), {"dual_plane": replace(GIVEN, **fields).fields()}
        )
