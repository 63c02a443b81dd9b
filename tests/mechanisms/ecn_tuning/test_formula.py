"""The formula of thresholds: its three regions, and where they meet."""

from __future__ import annotations

import math

import pytest

from mechanisms.ecn_tuning.formula import (
    CELLS,
    PROBABILITY,
    RATIO,
    Measured,
    bytes_in,
    flows_of,
    thresholds,
)

RATE, TRIP, WAIT, ROOM = 100 * 10**9, 20_000_000, 40_000_000, 2_000_000
LOOP = 250_000  # 100 Gb/s for 20 us


def low(flows: int, rise: int, room: int = ROOM) -> int:
    found = thresholds(Measured(flows, rise), RATE, TRIP, WAIT, room)
    assert (found.max_bytes, found.probability) == (RATIO * found.min_bytes, PROBABILITY)
    return found.min_bytes


def test_what_a_line_carries() -> None:
    assert bytes_in(RATE, TRIP) == LOOP


@pytest.mark.parametrize("flows", [0, 1, 2, 64])
def test_with_room_to_spare_packets_wait_as_long_as_they_may(flows: int) -> None:
    assert low(flows, 0) == low(flows, ROOM - 2 * LOOP) == 2 * LOOP


def test_what_a_burst_needs_is_kept_free() -> None:
    assert low(64, ROOM - 300_000) == 300_000
    assert low(64, ROOM - 32_000) == 32_000


@pytest.mark.parametrize("flows", [1, 4, 16, 64, 1000])
def test_never_less_than_many_flows_need_to_fill_the_line(flows: int) -> None:
    """Appenzeller et al.: C T over the root of N; also where a burst doesn't fit at all."""
    assert low(flows, 10 * ROOM) == math.isqrt(LOOP**2 // flows)
    assert low(flows, ROOM - 1) == math.isqrt(LOOP**2 // flows)


def test_it_falls_with_each_of_both() -> None:
    for rise in (0, 1_700_000, 3_000_000):
        found = [low(flows, rise) for flows in (1, 2, 8, 64)]
        assert found == sorted(found, reverse=True)
    for flows in (1, 8, 64):
        found = [low(flows, rise) for rise in range(0, 3_000_000, 100_000)]
        assert found == sorted(found, reverse=True)


@pytest.mark.parametrize("flows", [1, 10, 66, 200, 500])
def test_flows_that_share_cells_are_told_apart_on_average(flows: int) -> None:
    """Cells that n flows take, drawn evenly: m (1 - (1 - 1/m)^n)."""
    cells = round(CELLS * (1 - (1 - 1 / CELLS) ** flows))
    assert flows_of(cells) == pytest.approx(flows, rel=0.03, abs=1)


def test_all_cells_taken_is_a_large_number_and_no_error() -> None:
    assert flows_of(0) == 0
    assert flows_of(CELLS) > 1000
