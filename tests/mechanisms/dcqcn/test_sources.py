"""Each number of each parameter set: whose it is, and that it is theirs.

`CITED` is a second writing down, made from the cited files and not from the code: by set and field
the file and line, and the value for a line of 100 and of 400 Gb/s in the fields' own units.
"""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

import pytest

from mechanisms.dcqcn.parameters import SETS, DcqcnParameters, parameters, thresholds
from mechanisms.dcqcn.sources import HPCC, NS3_RDMA, sources
from topologies.ecn import CERTAIN, EcnThresholds
from workloads.slow_motion import ParameterError

GBPS = 10**9
NOT_A_NUMBER_OF_THE_SET = {"name", "source", "line_rate_bps"}

Cited = tuple[str, Any, Any]

SHARED_BY_BOTH: dict[str, Cited] = {
    "min_rate_bps": ("run.py:28", 1_000_000_000, 1_000_000_000),
    "rate_ai_bps": ("run.py:100", 20_000_000, 80_000_000),
    "rate_hai_bps": ("run.py:101", 200_000_000, 800_000_000),
    "byte_counter": ("rdma-hw.cc:684", 0, 0),
    "clamp_target_rate": ("run.py:22", False, False),
    "fast_recovery": ("run.py:25", 1, 1),
    "min_bytes": ("run.py:97", 400_000, 1_600_000),
    "max_bytes": ("run.py:96", 1_600_000, 6_400_000),
    "probability": ("run.py:98", 0.2, 0.2),
}
CITED: dict[str, dict[str, Cited]] = {
    "ns3-rdma": {
        "min_rate_bps": ("qbb-net-device.cc:119", 100_000_000, 100_000_000),
        "rate_ai_bps": ("config.txt:32", 40_000_000, 40_000_000),
        "rate_hai_bps": ("config.txt:33", 200_000_000, 200_000_000),
        "alpha_timer_ns": ("config.txt:21", 55_000, 55_000),
        "increase_timer_ns": ("config.txt:25", 60_000, 60_000),
        "byte_counter": ("config.txt:26", 300_000_000, 300_000_000),
        "cut_interval_ns": ("qbb-net-device.cc:1407", 0, 0),
        "clamp_target_rate": ("config.txt:23", True, True),
        "fast_recovery": ("config.txt:31", 5, 5),
        "gain_q16": ("config.txt:27", 0.00390625, 0.00390625),
        "cnp_interval_ns": ("config.txt:20", 50_000, 50_000),
        "min_bytes": ("config.txt:29", 40_000, 40_000),
        "max_bytes": ("config.txt:28", 1_000_000, 1_000_000),
        "probability": ("config.txt:30", 1.0, 1.0),
    },
    "hpcc-dcqcn-paper": {
        **SHARED_BY_BOTH,
        "alpha_timer_ns": ("run.py:106", 50_000, 50_000),
        "increase_timer_ns": ("run.py:106", 55_000, 55_000),
        "cut_interval_ns": ("run.py:106", 50_000, 50_000),
        "gain_q16": ("run.py:106", 0.00390625, 0.00390625),
        "cnp_interval_ns": ("rdma-hw.cc:322", 25_000, 25_000),
    },
    "hpcc-dcqcn": {
        **SHARED_BY_BOTH,
        "alpha_timer_ns": ("run.py:104", 1000, 1000),
        "increase_timer_ns": ("run.py:104", 300_000, 300_000),
        "cut_interval_ns": ("run.py:104", 4000, 4000),
        "gain_q16": ("run.py:104", 0.00390625, 0.00390625),
        "cnp_interval_ns": ("rdma-hw.cc:322", 500, 500),
    },
}

OURS = {
    "ns3-rdma": {"alpha_timer_ns", "min_bytes", "max_bytes"},
    "hpcc-dcqcn-paper": {"min_rate_bps", "cut_interval_ns", "cnp_interval_ns"},
    "hpcc-dcqcn": {"min_rate_bps", "cut_interval_ns", "cnp_interval_ns"},
}
"""Fields of which something is not as it stands there; docs/congestion-control.md says why."""


def numbers_of(name: str, gbps: int) -> dict[str, Any]:
    """All fields of a set and of its thresholds; shares as shares."""
    found, marks = parameters(name, gbps * GBPS), thresholds(name, gbps * GBPS)
    numbers = {each.name: getattr(found, each.name) for each in fields(DcqcnParameters)}
    numbers |= {each.name: getattr(marks, each.name) for each in fields(EcnThresholds)}
    numbers["gain_q16"] /= 65536
    numbers["probability"] /= CERTAIN
    return {key: value for key, value in numbers.items() if key not in NOT_A_NUMBER_OF_THE_SET}


@pytest.mark.parametrize("name", SETS)
def test_each_field_of_each_set_has_a_source_of_its_own(name: str) -> None:
    assert set(sources(name)) == set(numbers_of(name, 100)) == set(CITED[name])
    for field, source in sources(name).items():
        repository = NS3_RDMA if name == "ns3-rdma" else HPCC
        assert source.repository == repository, field
        assert re.fullmatch(r"[0-9a-f]{40}", source.repository.commit)
        assert source.url.endswith(f"/{source.path}#L{source.line}"), field
        assert source.says, field


@pytest.mark.parametrize("name", SETS)
def test_values_and_places_are_the_cited_ones(name: str) -> None:
    at_100, at_400 = numbers_of(name, 100), numbers_of(name, 400)
    for field, (place, first, second) in CITED[name].items():
        assert sources(name)[field].place == place, field
        assert at_100[field] == pytest.approx(first, abs=1e-9), field
        assert at_400[field] == pytest.approx(second, abs=1e-9), field


@pytest.mark.parametrize("name", SETS)
def test_a_number_that_a_source_says_is_the_value(name: str) -> None:
    """Of sources that say `NAME 55`, `t_alpha=50` or `40Mb/s`: the number in the field's unit."""
    units = {"_ns": 1000, "_bps": 10**6}
    kilobytes = {"min_bytes", "max_bytes"}
    seen = 0
    for field, source in sources(name).items():
        said = re.fullmatch(r"\w+[ =]([0-9.]+)(Mb/s)?", source.says)
        if said is None:
            continue
        unit = next((units[end] for end in units if field.endswith(end)), 1)
        unit = 1000 if field in kilobytes else unit
        assert numbers_of(name, 100)[field] == pytest.approx(float(said[1]) * unit), field
        seen += 1
    assert seen >= 5


@pytest.mark.parametrize("name", SETS)
def test_what_is_ours_says_so(name: str) -> None:
    assert {field for field, source in sources(name).items() if source.ours} == OURS[name]


def test_a_set_that_is_not_there_is_told() -> None:
    with pytest.raises(ParameterError, match=r"set 'dcqcn': choose ns3-rdma, hpcc-dcqcn-paper"):
        sources("dcqcn")
