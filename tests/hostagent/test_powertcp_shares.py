"""Flows under PowerTCP that share a line, as a fluid: how soon they are fair, and what waits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mechanisms.powertcp.parameters import powertcp_parameters
from tests.hostagent.fluid_line import LINE, T, jain, shares

GIVEN = powertcp_parameters(LINE, T)


def begins(share: float) -> dict[str, int]:
    rate = int(share * LINE)
    return {"rate": rate, "reference": rate, "older": rate}


def test_two_flows_from_10_and_90_percent_are_fair_after_155_round_trips_and_stay_so() -> None:
    found = shares("powertcp", GIVEN.fields(), [begins(0.095), begins(0.855)], 1400)
    assert jain(found[0]) < 0.65
    assert jain(found[100]) < 0.98
    assert all(jain(each) >= 0.98 for each in found[155:])
    assert all(sum(each) == pytest.approx(0.962, abs=0.01) for each in found[50:])


@pytest.mark.parametrize(("flows", "most_us"), [(2, 0), (16, 0.8), (60, 4.4)])
def test_what_waits_is_what_all_flows_add(flows: int, most_us: float) -> None:
    """Power 0.95 (1 + N increase / what they send): above a load of 1 it is a queue that stands."""
    waits: list[float] = []
    shares("powertcp", GIVEN.fields(), [begins(1.0)] * flows, 160, waits)
    assert all(each <= most_us for each in waits[130:])
    if flows == 60:
        assert all(each >= 3.6 for each in waits[130:])


def test_a_smaller_increase_makes_a_shorter_queue_and_is_fair_later() -> None:
    given = replace(GIVEN, rate_ai_bps=GIVEN.rate_ai_bps // 4)
    waits: list[float] = []
    shares("powertcp", given.fields(), [begins(1.0)] * 60, 160, waits)
    assert all(each < 0.7 for each in waits[130:])
    found = shares("powertcp", given.fields(), [begins(0.095), begins(0.855)], 700)
    assert jain(found[300]) < 0.98 < jain(found[-1])
