"""Medians and 95 % intervals: against the published tables, and against what they promise."""

from __future__ import annotations

import math
import random

import pytest

from experiments.api import Check, Finished, Measured, Runtime, Table, Variant, Verdict
from experiments.errors import NotRunError
from experiments.statistics import NONE, RANKS, STUDENT, Estimate, median_rank

# Conover, table A3 and others: n, and the rank k of the lower end for 95 %.
RANK_TABLE = [
    (5, 0),
    (6, 1),
    (8, 1),
    (9, 2),
    (10, 2),
    (12, 3),
    (15, 4),
    (20, 6),
    (30, 10),
    (50, 18),
]


@pytest.mark.parametrize(("n", "rank"), RANK_TABLE)
def test_ranks_of_a_medians_interval(n: int, rank: int) -> None:
    assert median_rank(n) == rank


@pytest.mark.parametrize("n", range(6, 40))
def test_ranks_are_the_narrowest_that_cover_95_percent(n: int) -> None:
    def covered(k: int) -> float:
        return 1 - 2 * sum(math.comb(n, i) for i in range(k)) / 2**n

    k = median_rank(n)
    assert covered(k) >= 0.95
    assert covered(k + 1) < 0.95


def test_six_values_or_more_have_the_medians_own_interval() -> None:
    found = Estimate.of([9.0, 1.0, 5.0, 7.0, 3.0, 100.0, 4.0, 6.0, 8.0], "us")
    assert (found.median, found.low, found.high) == (6.0, 3.0, 9.0)
    assert (found.method, found.n, found.unit) == (RANKS, 9, "us")


# t(0.975) for 4 degrees of freedom is 2.776; the standard deviation of 1..5 is sqrt(2.5).
def test_fewer_values_have_students() -> None:
    found = Estimate.of([1.0, 2.0, 3.0, 4.0, 5.0])
    assert found.median == 3.0
    assert found.low is not None and found.high is not None
    assert found.high - 3.0 == pytest.approx(2.7764 * math.sqrt(2.5 / 5), rel=1e-6)
    assert found.low == pytest.approx(6.0 - found.high)
    assert found.method == STUDENT


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_students_interval_covers_what_it_says(n: int) -> None:
    draw = random.Random(n)
    hits = 0
    for _ in range(4000):
        found = Estimate.of([draw.gauss(10, 2) for _ in range(n)])
        assert found.low is not None and found.high is not None
        hits += found.low <= 10 <= found.high
    assert hits / 4000 == pytest.approx(0.95, abs=0.015)


def test_one_value_has_no_interval() -> None:
    found = Estimate.of([4.0])
    assert (found.median, found.low, found.high, found.method) == (4.0, None, None, NONE)


def test_what_did_not_happen_is_counted_and_not_averaged() -> None:
    found = Estimate.of([None, 2.0, None, 4.0])
    assert (found.median, found.n, found.missing) == (3.0, 2, 2)
    assert Estimate.of([None, None]).median is None


def test_intervals_are_apart_or_overlap() -> None:
    low, high, wide = Estimate.of([1.0] * 6), Estimate.of([2.0] * 6), Estimate.of([1.5, 2.5])
    assert low.is_apart_from(high) and high.is_apart_from(low)
    assert not wide.is_apart_from(high)
    assert not Estimate.of([0.0]).is_apart_from(high)  # it has no interval


# --- the table and checks ------------------------------------------------------------------------

FAST, SLOW, LATER = (Variant(name, labels={"kind": name}) for name in ("fast", "slow", "later"))


def table(*values: tuple[Variant, float | None], failed: Variant | None = None) -> Table:
    runs = [
        Finished(variant, seed, Runtime.SIMULATOR, 1, None, {"time": Measured(value, "us")})  # type: ignore[arg-type]
        for seed, (variant, value) in enumerate(values)
    ]
    if failed is not None:
        runs.append(Finished(failed, 9, Runtime.SIMULATOR, 1, None, failure="it burst"))  # type: ignore[arg-type]
    return Table(Runtime.SIMULATOR, 1, runs, [FAST, SLOW, LATER])


def test_a_table_is_looked_up_by_name_and_label() -> None:
    found = table((FAST, 1.0), (FAST, 3.0), (SLOW, 8.0))
    assert found.median("fast", "time") == 2.0
    assert found.ratio("slow", FAST, "time") == 4.0
    assert found.variants() == (FAST, SLOW)
    assert found.variants(kind="slow") == (SLOW,)
    assert found.variant(kind="fast") is FAST
    with pytest.raises(NotRunError):
        found.variant(kind="later")
    with pytest.raises(LookupError, match="no variant of kind none"):
        found.variant(kind="none")
    with pytest.raises(LookupError, match="has no metric 'tme': it has time"):
        found.median("fast", "tme")


def test_a_ratio_of_what_never_happened_is_none() -> None:
    assert table((FAST, None), (SLOW, 8.0)).ratio("fast", "slow", "time") is None
    assert table((FAST, 1.0), (SLOW, 0.0)).ratio("fast", "slow", "time") is None


@pytest.mark.parametrize(
    ("check", "verdict", "expected"),
    [
        (Check.at_most("r", 1.0, 1.0, "us"), Verdict.PASS, "at most 1 us"),
        (Check.at_most("r", 1.01, 1.0, "us"), Verdict.FAIL, "at most 1 us"),
        (Check.at_least("r", 1.3, 1.3), Verdict.PASS, "at least 1.3"),
        (Check.at_least("r", 1.29, 1.3), Verdict.FAIL, "at least 1.3"),
        (Check.within("r", 0.9, 0.9, 1.1), Verdict.PASS, "0.9 to 1.1"),
        (Check.within("r", 1.11, 0.9, 1.1), Verdict.FAIL, "0.9 to 1.1"),
        (Check.at_most("r", None, 1.0), Verdict.FAIL, "at most 1"),
        (Check.that("r", "apart", False), Verdict.FAIL, "apart"),
        (Check.that("r", "apart", lambda: True), Verdict.PASS, "apart"),
        (Check.reported("r", 5.0), Verdict.REPORTED, "reported"),
    ],
)
def test_checks_are_judged(check: Check, verdict: Verdict, expected: str) -> None:
    assert (check.verdict, check.expected) == (verdict, expected)


def test_a_check_of_what_did_not_run_or_failed_says_so() -> None:
    found = table((FAST, 1.0), failed=SLOW)
    missing = Check.at_most("r", lambda: found.median("later", "time"), 1)
    assert (missing.verdict, missing.note) == (Verdict.NOT_RUN, "later did not run")
    burst = Check.at_most("r", lambda: found.median("slow", "time"), 1, note="as in the issue")
    assert (burst.verdict, burst.note) == (Verdict.FAIL, "slow, seed 9 failed; as in the issue")
    condition = Check.that("r", "less", lambda: found.median("later", "time") == 1)
    assert condition.verdict is Verdict.NOT_RUN


# --- claims about intervals ----------------------------------------------------------------------


def paired(fast: list[float | None], slow: list[float | None]) -> Table:
    """Return a table in which two variants ran with the same seeds."""
    runs = [
        Finished(variant, seed, Runtime.SIMULATOR, 1, None, {"time": Measured(value, "us")})  # type: ignore[arg-type]
        for variant, values in ((FAST, fast), (SLOW, slow))
        for seed, value in enumerate(values)
    ]
    return Table(Runtime.SIMULATOR, 1, runs, [FAST, SLOW, LATER])


def test_a_threshold_is_met_by_the_interval_and_not_by_the_median() -> None:
    found = paired([10.0, 12.0, 13.0, 13.0, 13.0, 14.0], [10.0] * 6)
    assert found.ratio("fast", "slow", "time") == 1.3
    check = Check.at_least("r", lambda: found.paired("fast", "slow", "time"), 1.2)
    assert (check.verdict, check.value, check.low, check.high) == (Verdict.FAIL, 1.3, 1.0, 1.4)
    assert check.note == "the median meets it, its 95 % interval does not"
    assert Check.at_least("r", found.paired("fast", "slow", "time"), 1.0).verdict is Verdict.PASS
    fast = found.estimate("fast", "time")
    assert Check.at_most("r", fast, 13.5).verdict is Verdict.FAIL
    assert Check.at_most("r", fast, 14).verdict is Verdict.PASS
    assert Check.within("r", fast, 11, 15).verdict is Verdict.FAIL
    assert Check.within("r", fast, 10, 14).verdict is Verdict.PASS
    assert Check.at_least("r", fast, 13.5).note == ""  # the median does not meet it either


def test_pairs_cancel_what_a_seed_does_to_both() -> None:
    found = paired([2.0, 4.0, 8.0, 16.0, 32.0, 64.0], [1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
    ratio = found.paired("fast", "slow", "time")
    assert (ratio.median, ratio.low, ratio.high, ratio.unit) == (2.0, 2.0, 2.0, "")


def test_only_runs_with_the_same_seeds_make_pairs() -> None:
    with pytest.raises(LookupError, match=r"seeds \[0\], the other \[1, 2\]"):
        table((FAST, 1.0), (SLOW, 1.0), (SLOW, 2.0)).paired("fast", "slow", "time")


def test_a_run_in_which_it_did_not_happen_meets_no_threshold() -> None:
    found = paired([1.0, 1.0, 1.0, 1.0, 1.0, None], [1.0] * 6)
    for value in (found.estimate("fast", "time"), found.paired("fast", "slow", "time")):
        check = Check.at_most("r", value, 2)
        assert (check.verdict, check.note) == (Verdict.FAIL, "it did not happen in 1 of 6 runs")
        assert Check.reported("r", value).note == "it did not happen in 1 of 6 runs"


def test_a_single_run_is_judged_by_its_value() -> None:
    found = paired([1.0], [2.0])
    check = Check.at_most("r", lambda: found.paired("fast", "slow", "time"), 0.5)
    assert (check.verdict, check.value, check.low) == (Verdict.PASS, 0.5, None)


@pytest.mark.parametrize(
    ("fast", "slow", "verdict"),
    [
        ([1.0, 1.0, 1.0, 1.0, 1.0, 2.0], [3.0] * 6, Verdict.PASS),
        ([1.0, 1.0, 1.0, 1.0, 1.0, 3.0], [3.0] * 6, Verdict.FAIL),  # medians are in order
        ([4.0] * 6, [3.0] * 6, Verdict.FAIL),
        ([1.0, None], [3.0, 3.0], Verdict.FAIL),
        ([1.0], [3.0], Verdict.NOT_RUN),
    ],
)
def test_one_is_below_another_if_intervals_are_disjoint(
    fast: list[float | None], slow: list[float | None], verdict: Verdict
) -> None:
    found = paired(fast, slow)
    check = Check.below(
        "r", lambda: found.estimate("fast", "time"), lambda: found.estimate("slow", "time")
    )
    assert check.verdict is verdict
    if verdict is Verdict.PASS:
        assert check.note == "1 [1, 2] us below 3 [3, 3] us"


def test_disjoint_intervals_of_what_did_not_run() -> None:
    found = table((FAST, 1.0))
    check = Check.below(
        "r", lambda: found.estimate("fast", "time"), lambda: found.estimate("later", "time")
    )
    assert (check.verdict, check.note) == (Verdict.NOT_RUN, "later did not run")
