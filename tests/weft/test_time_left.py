"""How much time a bar says is left, where speed is uneven."""

from __future__ import annotations

import pytest

from weft.console import TimeLeft, show_seconds


def test_at_an_even_speed_it_is_what_is_left() -> None:
    left = TimeLeft()
    found = [left.after(float(second), second / 100) for second in range(1, 100)]
    assert found[0] == pytest.approx(99)
    assert found[49] == pytest.approx(50)
    assert found[98] == pytest.approx(1)


def test_it_follows_a_phase_that_is_slower() -> None:
    left = TimeLeft()
    for second in range(1, 11):
        left.after(float(second), second * 0.05)  # half of it in 10 s
    for second in range(11, 31):
        found = left.after(float(second), 0.5 + (second - 10) * 0.005)  # then ten times slower
    assert found == pytest.approx((0.4) / 0.005)


def test_too_early_or_without_a_step_there_is_no_estimate() -> None:
    left = TimeLeft()
    assert left.after(0.2, 0.1) is None
    assert TimeLeft().after(5.0, 0.0) is None


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (99.4, "99 s"), (600, "10 min"), (8100, "2 h 15 min")]
)
def test_it_is_said_in_a_readable_unit(seconds: float, text: str) -> None:
    assert show_seconds(seconds) == text
