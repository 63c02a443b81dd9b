"""Flows under Swift that share a line, as a fluid: how soon they are fair, and what waits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mechanisms.swift.parameters import SwiftParameters, swift_parameters
from tests.hostagent.fluid_line import CARRIES, LINE, T, jain, shares

GIVEN = swift_parameters(LINE).in_fabric(T, 1, 4096)
TRIP_PACKETS = CARRIES / 4096


def begins(share: float) -> dict[str, int]:
    return {"window_q16": int(share * TRIP_PACKETS * 65536)}


def fair_after(given: SwiftParameters, trips: int) -> int:
    found = shares("swift", given.fields(), [begins(0.1), begins(0.9)], trips)
    assert jain(found[0]) < 0.65
    return 1 + max(n for n, each in enumerate(found) if jain(each) < 0.98)


def test_two_flows_from_10_and_90_percent_are_fair_after_80_round_trips_and_stay_so() -> None:
    after = fair_after(GIVEN, 1000)
    assert 40 <= after <= 80


def test_without_flow_scaling_only_decreases_make_them_fair_and_that_takes_longer() -> None:
    assert fair_after(replace(GIVEN, fs_range_ns=0), 1000) > 250


@pytest.mark.parametrize(
    ("flows", "least_us", "most_us"), [(2, 0.5, 1.5), (16, 3, 5.5), (60, 6.5, 9)]
)
def test_what_waits_grows_with_the_number_of_flows(
    flows: int, least_us: float, most_us: float
) -> None:
    """Flow scaling: smaller windows aim at longer delays, so that many flows stay apart."""
    waits: list[float] = []
    found = shares("swift", GIVEN.fields(), [begins(1.0)] * flows, 160, waits)
    late = waits[130:]
    assert all(least_us <= each <= most_us for each in late)
    assert all(jain(each) > 0.98 for each in found[130:])
