"""Windows of sent PSNs: never too small for what a queue pair has really sent."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.fast_cnp.sequence_windows import (
    PSN_SPACE,
    Continuity,
    SamplingTimes,
    SentWindow,
    distance,
)

US = 1000
TIMES = SamplingTimes(
    interval_ns=100 * US,
    later_ns=2000 * US,
    reports=20,
    jitter_ns=100 * US,
    age_ns=1_000_000 * US,
    window_packets=500,
    packets_per_s=20_000_000,
)


@pytest.mark.parametrize(
    ("later", "earlier", "ahead"),
    [
        (5, 3, 2),
        (3, 5, -2),
        (1, PSN_SPACE - 1, 2),
        (PSN_SPACE - 1, 1, -2),
        (1 << 23, 0, -(1 << 23)),
    ],
)
def test_distance_is_the_shorter_way_round(later: int, earlier: int, ahead: int) -> None:
    assert distance(later, earlier) == ahead


@pytest.mark.parametrize("first", [0, 77, PSN_SPACE - 300, PSN_SPACE - 1])
def test_a_window_lies_around_the_samples(first: int) -> None:
    window = SentWindow(TIMES, 0, first, 0, 30)
    for number in range(1, 10):
        psn = (first + 100 * number) % PSN_SPACE
        assert window.add(number * 100 * US, psn, 0, 30) is Continuity.CONTINUES
    # At 450 us, samples between 300 us and 600 us count: 300 .. 600 and 500 around.
    inside = [(psn + first) % PSN_SPACE for psn in (-200, 0, 300, 600, 1100)]
    outside = [(psn + first) % PSN_SPACE for psn in (-201, 1101, 5000, 1 << 23)]
    assert [window.may_have_sent(psn, 450 * US) for psn in inside] == [True] * 5
    assert [window.may_have_sent(psn, 450 * US) for psn in outside] == [False] * 4


def test_before_the_first_sample_nothing_is_known() -> None:
    window = SentWindow(TIMES, 1000 * US, 5, 0, 1)
    assert window.may_have_sent(5, 900 * US) is None
    assert window.may_have_sent(5, 1050 * US) is None  # a report may be late by the jitter
    assert window.may_have_sent(5, 1100 * US) is True


@pytest.mark.parametrize(("reports", "quiet_us"), [(1, 900), (19, 900), (20, 2100), (255, 2100)])
def test_who_went_quiet_may_have_sent_a_little_more(reports: int, quiet_us: int) -> None:
    """The next report would have come in eight intervals at first, later in `later`."""
    window = SentWindow(TIMES, 0, 0, 0, reports)
    reach = TIMES.reach(quiet_us * US) + TIMES.window_packets
    at = 50_000 * US
    assert window.may_have_sent(reach, at) is True
    assert window.may_have_sent(reach + 1, at) is False


@pytest.mark.parametrize(("reports", "settled_us"), [(19, 1000), (20, 2200)])
def test_when_samples_are_enough(reports: int, settled_us: int) -> None:
    window = SentWindow(TIMES, 0, 0, 0, reports)
    at = 100 * US
    assert window.settled_at(at) == settled_us * US  # it may be sampled so late, and heard later
    window.add(200 * US, 9, 0, reports)
    assert window.settled_at(at) == 200 * US
    assert (
        window.settled_at(10_000 * US) == 10_200 * US
    )  # quiet for long: only reports on their way


@pytest.mark.parametrize(
    ("psn", "continuity"),
    [
        (0, Continuity.CONTINUES),
        (4500, Continuity.CONTINUES),  # 200 us at 20 packets/us, and 500
        (4502, Continuity.BREAKS),
        (PSN_SPACE - 500, Continuity.CONTINUES),  # sent again
        (PSN_SPACE - 501, Continuity.BREAKS),
        (1 << 23, Continuity.BREAKS),
    ],
)
def test_a_number_that_cannot_be_reached_is_a_new_connection(
    psn: int, continuity: Continuity
) -> None:
    assert SentWindow(TIMES, 0, 0, 0, 1).add(100 * US, psn, 0, 2) is continuity


def test_after_a_long_pause_any_number_may_be_right() -> None:
    window = SentWindow(TIMES, 0, 0, 0, 1)
    assert window.add(10**9, 1 << 23, 0, 2) is Continuity.GAP
    assert window.may_have_sent(1 << 23, 10**9 - 1000 * US) is None
    assert window.may_have_sent(1 << 23, 10**9 + 200 * US) is True


def test_a_reads_answers_take_the_numbers_that_it_asked_for() -> None:
    window = SentWindow(TIMES, 0, 1000, 8000, 1)
    assert window.may_have_sent(9000, 200 * US) is True
    assert window.add(300 * US, 9001, 8000, 2) is Continuity.CONTINUES
    assert window.may_have_sent(1000, 400 * US) is True  # its answer may still be on the way
    assert window.may_have_sent(30_000, 400 * US) is False


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    first=st.integers(0, PSN_SPACE - 1),
    share=st.floats(0.01, 1.0),
    loss=st.floats(0.0, 0.2),
)
def test_what_was_sent_is_never_ruled_out(seed: int, first: int, share: float, loss: float) -> None:
    """A sender at any rate, with pauses and go-back-N, sampled as the switch samples it."""
    draw = random.Random(seed)
    step = 20 * US
    position = highest = first
    now, reported_at, sent_at = 0, 0, [(0, first)]
    window = SentWindow(TIMES, 0, first, 0, 1)
    paused_until = 0
    reports: list[tuple[int, int, int]] = []
    row = 1
    for _ in range(1500):
        now += step
        if draw.random() < 0.005:
            paused_until = now + draw.randrange(10_000) * US
        if now < paused_until:
            sent_at.append((now, position))
            continue
        if draw.random() < loss:
            # Again from what was not acknowledged: at most a window back from the highest ever.
            position = max(first, highest - draw.randrange(TIMES.window_packets))
        position += int(draw.random() * share * TIMES.packets_per_s * step / 1e9)
        highest = max(highest, position)
        sent_at.append((now, position))
        if now - reported_at >= (TIMES.interval_ns if row < TIMES.reports else TIMES.later_ns):
            reported_at = now
            row = 1 if draw.random() < 0.02 else row + 1  # another flow had its cell
            reports.append((now + draw.randrange(TIMES.jitter_ns), position, row))
    heard = iter([*reports, (now + 10**9, position, row)])
    following = next(heard)
    for at, sent in sent_at[::7]:
        # Judged when no sample of that moment can come any more.
        while following[0] <= window.settled_at(at):
            assert (
                window.add(following[0], following[1] % PSN_SPACE, 0, following[2])
                is not Continuity.BREAKS
            )
            following = next(heard, (1 << 62, 0, 0))
        assert window.may_have_sent(sent % PSN_SPACE, at) is not False, (at, sent)
