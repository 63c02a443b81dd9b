"""Switches that are killed and return while the controller hears of it late: nothing stays broken.

h1, h2 -- s1 -- s3 -- s2 -- h3, h4      two spines, s3 and s4
            `--- s4 ---'
"""

from __future__ import annotations

import pytest

from simulator.result_ports import drop_rows
from tests.mechanisms.dpfr.test_carrier import Ran
from tests.mechanisms.dpfr.test_losses import flows


@pytest.mark.parametrize("dpfr", ["true", "{carrier: false, misses: 1, hold: 1}"])
@pytest.mark.parametrize("delay_us", [0, 10, 200])
@pytest.mark.parametrize(
    "kills",
    [
        [("s3", 300, 400)],
        [("s3", 300, 1), ("s3", 305, 1)],
        [("s3", 300, 100), ("s4", 350, 100)],
        [("s3", 300, 5), ("s2", 302, 50), ("s3", 320, 5), ("s1", 330, 100)],
    ],
    ids=["once", "twice", "overlapping", "all"],
)
def test_traffic_flows_once_all_are_back(
    kills: list[tuple[str, int, int]], delay_us: int, dpfr: str
) -> None:
    """A millisecond after the last return is longer than any hold, claim or delay here."""
    events = [f"{{at: {at}us, switch: {s}, do: kill, lasts: {n}us}}" for s, at, n in kills]
    late_us = max(at + lasts for _, at, lasts in kills) + delay_us + 1300
    before = flows("5Gbps", count=4, size="1MB")
    after = flows("5Gbps", count=4, size="50kB", at_us=late_us)
    found = Ran(
        events, f"{before}\n{after}", dpfr=dpfr, until_us=late_us + 200, controller=f"{delay_us}us"
    )
    assert found.lost[4:] == [0] * 4


def test_heartbeats_that_switches_take_are_not_lost_packets() -> None:
    """Not in an undisturbed run; nor with a switch that counts anew."""
    quiet = Ran([], flows(count=2, size="100kB"), until_us=400)
    assert quiet.end.switches["s1"].taken > 50
    assert drop_rows(quiet.end) == []
    kill = "{at: 200us, switch: s4, do: kill, lasts: 100us}"
    back = Ran([kill], flows(count=2, size="100kB"), until_us=900, controller="0us")
    assert back.end.switches["s4"].taken > 100
    ingress = [row for row in drop_rows(back.end) if row["reason"] == "ingress"]
    assert [row["node"] for row in ingress if row["node"] != "s4"] == []
