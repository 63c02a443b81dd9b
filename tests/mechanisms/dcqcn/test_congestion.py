"""The published parameter sets: their numbers, and how they follow rate and time scale."""

from __future__ import annotations

from pathlib import Path

import pytest

from mechanisms.dcqcn.parameters import (
    BANDWIDTH_SCALED,
    MAX_RATE_BPS,
    SETS,
    MarkingOfSet,
    parameters,
    thresholds,
)
from topologies.ecn import CERTAIN, EcnThresholds, step
from workloads.slow_motion import ParameterError

GBPS, MBPS, KB, US = 10**9, 10**6, 1000, 1000

# As published, at the rate that the source is written for: (minimum, AI, HAI in Mb/s; alpha timer,
# increase timer, cut interval, CNP interval in us; byte counter; F; whether every cut sets the
# target).
PUBLISHED = [
    ("ns3-rdma", 40, (100, 40, 200, 55, 60, 0, 50, 300_000_000, 5, True)),
    ("hpcc-dcqcn-paper", 25, (250, 5, 50, 50, 55, 50, 25, 0, 1, False)),
    ("hpcc-dcqcn-paper", 100, (1000, 20, 200, 50, 55, 50, 25, 0, 1, False)),
    ("hpcc-dcqcn", 25, (250, 5, 50, 1, 300, 4, 0.5, 0, 1, False)),
    ("hpcc-dcqcn", 400, (1000, 80, 800, 1, 300, 4, 0.5, 0, 1, False)),
]


@pytest.mark.parametrize(("name", "rate", "expected"), PUBLISHED)
def test_sets_are_the_published_ones(name: str, rate: int, expected: tuple[float, ...]) -> None:
    found = parameters(name, rate * GBPS)
    assert found.name == name
    assert found.line_rate_bps == rate * GBPS
    assert found.gain_q16 == 256  # 1/256
    assert (
        found.min_rate_bps / MBPS,
        found.rate_ai_bps / MBPS,
        found.rate_hai_bps / MBPS,
        found.alpha_timer_ns / US,
        found.increase_timer_ns / US,
        found.cut_interval_ns / US,
        found.cnp_interval_ns / US,
        found.byte_counter,
        found.fast_recovery,
        found.clamp_target_rate,
    ) == expected


@pytest.mark.parametrize(
    ("name", "rate", "least", "most", "probability"),
    [
        ("ns3-rdma", 40, 40, 1000, 1.0),
        ("ns3-rdma", 400, 40, 1000, 1.0),
        ("hpcc-dcqcn", 25, 100, 400, 0.2),
        ("hpcc-dcqcn", 100, 400, 1600, 0.2),
        ("hpcc-dcqcn-paper", 400, 1600, 6400, 0.2),
    ],
)
def test_thresholds(name: str, rate: int, least: int, most: int, probability: float) -> None:
    found = thresholds(name, rate * GBPS)
    assert (found.min_bytes, found.max_bytes) == (least * KB, most * KB)
    assert found.probability / CERTAIN == pytest.approx(probability, abs=1e-9)
    assert MarkingOfSet(name).at(rate * GBPS) == found
    assert step(9000).at(rate * GBPS) == EcnThresholds(9000, 9000, CERTAIN)


PAGE = Path(__file__).parents[3] / "docs" / "congestion-control.md"


@pytest.mark.parametrize("name", SETS)
def test_the_page_on_congestion_control_has_the_numbers(name: str) -> None:
    found, marks = parameters(name, 100 * GBPS), thresholds(name, 100 * GBPS)
    rates = [found.min_rate_bps, found.rate_ai_bps, found.rate_hai_bps]
    timers = [found.alpha_timer_ns, found.increase_timer_ns]
    intervals = [found.cut_interval_ns, found.cnp_interval_ns]
    cells = [
        f"`{name}`",
        *(f"{rate / MBPS:g}" for rate in rates),
        str(found.fast_recovery),
        *(f"{time / US:g}" for time in timers),
        f"{found.byte_counter // MBPS} MB" if found.byte_counter else "none",
        *(f"{time / US:g}" for time in intervals),
        f"1/{65536 // found.gain_q16}",
        "yes" if found.clamp_target_rate else "no",
    ]
    text = PAGE.read_text()
    assert f"| {' | '.join(cells)} |\n" in text
    share = f"{100 * marks.probability / CERTAIN:.0f} %"
    sizes = f"{marks.min_bytes // KB} kB | {marks.max_bytes // KB} kB"
    assert f"| `{name}` | {sizes} | {share} |" in text


@pytest.mark.parametrize("name", SETS)
def test_a_slower_run_has_slower_rates_and_longer_times(name: str) -> None:
    real, slow = parameters(name, 100 * GBPS), parameters(name, 100 * GBPS, 10_000)
    for field in ("line_rate_bps", "min_rate_bps", "rate_ai_bps", "rate_hai_bps"):
        assert getattr(slow, field) * 10_000 == getattr(real, field)
    for field in ("alpha_timer_ns", "increase_timer_ns", "cut_interval_ns", "cnp_interval_ns"):
        assert getattr(slow, field) == getattr(real, field) * 10_000
    for field in (
        "name",
        "source",
        "byte_counter",
        "fast_recovery",
        "gain_q16",
        "clamp_target_rate",
    ):
        assert getattr(slow, field) == getattr(real, field)


def test_a_very_slow_run_rounds_to_the_nearest_and_never_to_nothing() -> None:
    found = parameters("hpcc-dcqcn", 13 * GBPS, 1_000_000)
    assert found.rate_ai_bps == 3  # 2.6
    assert parameters("hpcc-dcqcn", GBPS, 1_000_000).rate_ai_bps == 1


def test_what_is_not_possible_is_told() -> None:
    for ask in (parameters, thresholds):
        with pytest.raises(ParameterError, match=r"set .dcqcn.: choose ns3-rdma, .*hpcc"):
            ask("dcqcn", GBPS)
    for rate in (0, -1, MAX_RATE_BPS + 1):
        with pytest.raises(ParameterError, match="line of"):
            parameters(BANDWIDTH_SCALED, rate)
    with pytest.raises(ParameterError, match="time scale of 0"):
        parameters(BANDWIDTH_SCALED, GBPS, 0)
