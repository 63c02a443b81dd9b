"""Units: exact, and refused when in doubt."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topologies.units import (
    format_duration,
    format_rate,
    format_size,
    parse_duration,
    parse_rate,
    parse_size,
)


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (parse_rate, "400Gbps", 400 * 10**9),
        (parse_rate, "1.6 Tbps", 1_600 * 10**9),
        (parse_rate, "40Mb/s", 40 * 10**6),
        (parse_duration, "500ns", 500_000),
        (parse_duration, "0.5 us", 500_000),
        (parse_duration, "1µs", 1_000_000),
        (parse_duration, "0ns", 0),
        (parse_size, "16MB", 16_000_000),
        (parse_size, "16MiB", 16 * 2**20),
        (parse_size, "1.5kB", 1500),
    ],
)
def test_a_quantity(parse: Callable[[object], int], text: str, value: int) -> None:
    assert parse(text) == value


@pytest.mark.parametrize("value", [400, 4.5, "400", True, None, "", "Gbps", "-1Gbps", "1e3Gbps"])
def test_no_unit_no_rate(value: object) -> None:
    with pytest.raises(ValueError, match=r"unit|not a rate"):
        parse_rate(value)


@settings(deadline=None)  # other tests share the processor
@given(st.integers(1, 10**15))
def test_formatting_is_exact(value: int) -> None:
    assert parse_rate(format_rate(value)) == value
    assert parse_duration(format_duration(value)) == value
    assert parse_size(format_size(value)) == value
