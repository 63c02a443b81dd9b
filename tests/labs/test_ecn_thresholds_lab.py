"""The lab ecn-thresholds: its variants are run files, and its rule tells what it should."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.api import Check, Finished, Measured, Runtime, Table, Variant, Verdict
from experiments.lab_code import Hooks
from experiments.loader import load

LAB = load("ecn-thresholds")
LOADS, SEEDS = ("4", "16", "64"), range(1, 7)
METRIC = "mean time"
BEST = {"4": "one", "16": "two", "64": "quarter"}


def checks_of(times: dict[tuple[str, str], float | None]) -> dict[str, Check]:
    """Return the lab's checks of mean times.

    A time not given is 300 us, and seeds differ by 1 %.
    """
    told = Hooks.of(LAB.folder).get("checks")
    assert told is not None
    variants = [each.variant for each in LAB.variants(Runtime.SIMULATOR)]
    runs = [
        Finished(each, seed, Runtime.SIMULATOR, 1, Path(), {METRIC: measured(each, seed, times)})
        for each in variants
        for seed in SEEDS
    ]
    return {each.row: each for each in told(Table(Runtime.SIMULATOR, 1, runs, variants))}


def measured(variant: Variant, seed: int, times: dict[tuple[str, str], float | None]) -> Measured:
    key = (variant.labels["senders"], variant.labels["threshold"])
    value = times.get(key, 300.0)
    return Measured(None if value is None else value * (1 + seed / 600), "us")


def usual(dynamic: float = 105.0) -> dict[tuple[str, str], float | None]:
    best: dict[tuple[str, str], float | None] = dict.fromkeys(BEST.items(), 100.0)
    return best | {(n, "dynamic"): dynamic for n in LOADS}


def test_every_variant_is_a_run_file() -> None:
    LAB.check()
    assert len(LAB.variants(Runtime.SIMULATOR)) == 3 * (7 + 2)


@pytest.mark.parametrize(("dynamic", "verdict"), [(105.0, Verdict.PASS), (111.0, Verdict.FAIL)])
def test_dynamic_is_held_against_the_best_fixed_of_each_load(
    dynamic: float, verdict: Verdict
) -> None:
    found = checks_of(usual(dynamic))
    for senders in LOADS:
        check = found[f"{senders} senders: dynamic over the best fixed"]
        assert check.verdict is verdict and check.value == pytest.approx(dynamic / 100)


def test_a_fixed_threshold_that_has_all_loads_is_seen() -> None:
    row = "one: over the best fixed, at its worst load"
    assert checks_of(usual())[row].verdict is Verdict.PASS
    all_of_them = usual() | {(n, "one"): 109.0 for n in LOADS}
    assert checks_of(all_of_them)[row].verdict is Verdict.FAIL


def test_a_threshold_with_a_message_that_never_arrived_fails_and_is_not_the_best() -> None:
    found = checks_of(usual() | {("64", "one"): None, ("4", "four"): None})
    assert found["one: over the best fixed, at its worst load"].verdict is Verdict.PASS
    assert found["four: over the best fixed, at its worst load"].verdict is Verdict.PASS
    assert found["4 senders: the best fixed"].value == pytest.approx(100, rel=0.01)
