"""Objectives and constraints: what they read, and when they hold."""

from __future__ import annotations

import re

import pytest

from experiments.sweep_goal import Constraint, Objective, median


@pytest.mark.parametrize(
    ("text", "unit", "holds", "fails"),
    [
        ("peak_queue <= 16MB", "B", 16_000_000, 16_000_001),
        ("peak_queue<16MiB", "B", 16_777_215, 16_777_216),
        ("goodput >= 100 Gbps", "b/s", 10**11, 10**11 - 1),
        ("fct_p99 < 1.5ms", "ps", 1_499_999_999, 1_500_000_000),
        ("jain >= 95%", "", 0.95, 0.949),
        ("jain > 0.95", "", 0.951, 0.95),
        ("losses == 0", "", 0, 1),
        ("peak_queue[s1:3] <= 1e6", "", 1_000_000, 1_000_001),
    ],
)
def test_a_constraint_counts_as_its_metric_does(
    text: str, unit: str, holds: float, fails: float
) -> None:
    constraint = Constraint.parse(text)
    assert constraint.unit() == unit
    assert constraint.holds(holds)
    assert not constraint.holds(fails)
    assert not constraint.holds(None)
    assert Constraint.parse(str(constraint)) == constraint


@pytest.mark.parametrize(
    ("text", "value", "unit", "holds"),
    [
        ("cut <= 5us", 5.0, "us", True),
        ("cut <= 5us", 5.1, "us", False),
        ("cut <= 5us", 0.005, "ms", True),
        ("cut <= 5", 5.0, "us", True),  # a bound without a unit is as the metric counts
        ("cut <= 5us", 5_000_000, "", True),  # a metric without one counts in picoseconds
        ("cut <= 5us", 1, "MB", False),
        ("rate >= 100Gbps", 100.0, "Gb/s", True),
        ("peak < 16MB", 15.9, "MB", True),
        ("peak < 16MB", 16, "MiB", False),
    ],
)
def test_a_callers_metric_has_its_own_unit(text: str, value: float, unit: str, holds: bool) -> None:
    assert Constraint.parse(text).holds(value, unit) is holds


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("peak_queue", "is not a constraint"),
        ("peak_queue = 16MB", "is not a constraint"),
        ("peak_queue <= ", "is not a constraint"),
        ("<= 16MB", "is not a constraint"),
        ("peak_queue <= much", "is not a bound"),
        ("peak_queue <= 1/0", "is not a bound"),
    ],
)
def test_what_is_no_constraint(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        Constraint.parse(text)


def test_more_or_less_is_better() -> None:
    assert Objective("goodput", maximise=True).better(2, 1)
    assert not Objective("goodput", maximise=True).better(1, 1)
    assert Objective("fct_p99", maximise=False).better(1, 2)


@pytest.mark.parametrize(
    ("values", "expected"),
    [([3, 1, 2], 2), ([1, 2], 1.5), ([1, 3], 2), ([0.5], 0.5), ([], None), ([1, None, 2], None)],
)
def test_a_median_needs_every_seed(values: list[float | None], expected: float | None) -> None:
    found = median(values)
    assert found == expected
    assert type(found) is type(expected)
