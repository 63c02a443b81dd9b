"""The lab long-haul-fast-cnp: its quick variants hold, and its opponent is picked by its rule."""

from __future__ import annotations

import csv
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from experiments.api import Check, Finished, Measured, Runtime, Table, Variant, Verdict
from experiments.lab_code import Hooks
from experiments.loader import load
from experiments.sweep_space import Draw, Span, draw

LAB = Path(__file__).parents[2] / "labs" / "long-haul-fast-cnp"


@pytest.fixture(scope="module")
def best() -> ModuleType:
    spec = importlib.util.spec_from_file_location("long_haul_best", LAB / "best.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_variant_is_a_run_file() -> None:
    lab = load("long-haul-fast-cnp")
    lab.check()
    assert len(lab.variants(Runtime.SIMULATOR)) == 2 * 3 * 5 + 2 * 3 * 6 + 3 * 5
    assert [each.variant.name for each in lab.variants(Runtime.SOFTSWITCH)] == [
        "10km-near-4-hpcc-dcqcn",
        "10km-near-4-fast-cnp",
    ]


def test_the_rule_takes_one_set_that_is_good_everywhere(best: ModuleType) -> None:
    near, far = ("100km", 2), ("300km", 2)
    sets = {
        "fills any buffer": {near: (390.0, 400.0), far: (390.0, 900.0)},
        "for 100 km": {near: (320.0, 52.0), far: (150.0, 150.0)},
        "for 300 km": {near: (150.0, 52.0), far: (320.0, 150.0)},
        "for both": {near: (290.0, 55.0), far: (280.0, 160.0)},
        "short of memory at 300 km": {near: (310.0, 52.0), far: (310.0, 166.0)},
        "not played at 300 km": {near: (310.0, 52.0)},
    }
    assert best.best(sets) == "for both"


def test_the_swept_best_is_what_lab_yaml_runs(best: ModuleType) -> None:
    """sweep.csv has the best set once a case; the lab's variant is one of those that are drawn."""
    with (LAB / "sweep.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    picked = [row for row in rows if row["best"]]
    assert sorted((row["length"], row["senders"]) for row in picked) == [
        ("100km", "2"), ("100km", "4"), ("300km", "2"), ("300km", "4"),
    ]  # fmt: skip
    sweep = yaml.safe_load((LAB / "sweep.yaml").read_text())
    vary = {
        path: Span.of(given) if isinstance(given, dict) else given
        for path, given in sweep["vary"].items()
    }
    how = Draw(sweep["draw"]["points"], sweep["draw"]["seed"], stratified=True)
    assert len(rows) == len(best.CASES) * how.points
    own = yaml.safe_load((LAB / "lab.yaml").read_text())["axes"]["control"]["best"]
    ecn = "topology.classes.roce.ecn"
    wanted = {f"transport.overrides.{name}": own["transport.overrides"][name]
              for name in own["transport.overrides"]} | {ecn: own[ecn]}  # fmt: skip
    drawn = draw(vary, how)
    assert {*wanted, best.LENGTH, best.TRAFFIC} == set(vary)
    assert any(all(point[path] == wanted[path] for path in wanted) for point in drawn)


def test_a_case_of_the_sweep_is_what_the_lab_s_senders_do(best: ModuleType) -> None:
    senders = yaml.safe_load((LAB / "lab.yaml").read_text())["axes"]["senders"]
    for _, number in best.CASES:
        assert json.loads(best.traffic(number)) == senders[str(number)]["traffic"]
        assert best.senders_of(best.traffic(number)) == number


def test_the_quick_variants_hold(tmp_path: Path) -> None:
    command = [
        str(Path(sys.executable).parent / "weft"), "lab", "run", "long-haul-fast-cnp", "--quick",
        "--seeds", "1", "--out", str(tmp_path / "out"), "--json",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    results: dict[str, Any] = json.loads((tmp_path / "out" / "results.json").read_text())
    verdicts = {check["row"]: check["verdict"] for check in results["checks"]}
    reaction = "near end, 100 km: queue crosses threshold -> source's first cut, 2 senders"
    for row in (
        f"{reaction}, over hpcc-dcqcn",
        "peak queue there, 2 senders, over hpcc-dcqcn",
        "goodput over 50 ms with recovery, 2 senders, over hpcc-dcqcn",
        "peak queue there, 2 senders: fast CNP's buffer",
    ):
        assert verdicts[row] == "pass", row
    assert (tmp_path / "out" / "report.html").stat().st_size > 10_000


LIVE = ("10km-near-4-fast-cnp", "10km-near-4-hpcc-dcqcn")


def judged(runtime: Runtime, values: dict[str, dict[str, list[float]]]) -> dict[str, Check]:
    """The lab's checks, by row, of a made-up table: metrics by variant, a value a seed."""
    known = {variant.name: variant for variant in load("long-haul-fast-cnp").names()}

    def runs(variant: Variant, where: Runtime) -> list[Finished]:
        metrics = values[variant.name]
        return [
            Finished(variant, seed, where, 1, LAB, {name: Measured(metrics[name][seed])
                     for name in metrics})
            for seed in range(len(next(iter(metrics.values()))))
        ]  # fmt: skip

    places = {runtime, Runtime.SIMULATOR}
    made = [run for name in values for where in places for run in runs(known[name], where)]
    found = Hooks.of(LAB).call("checks", Table(runtime, 1, made, list(known.values())))
    return {check.row: check for check in found}


@pytest.mark.parametrize(("worst", "verdict"), [(363.0, Verdict.PASS), (330.0, Verdict.FAIL)])
def test_goodput_over_the_best_is_claimed_for_the_interval(worst: float, verdict: Verdict) -> None:
    goodput = {
        "100km-near-2-fast-cnp": [worst, 375.0, 376.0, 377.0, 378.0, 380.0],
        "100km-near-2-best": [300.0] * 6,
    }
    metrics = ("reaction", "peak", "peak after relief", "high threshold")
    same = dict.fromkeys(metrics, [1.0] * 6)
    found = judged(
        Runtime.SIMULATOR, {name: {"goodput": each, **same} for name, each in goodput.items()}
    )
    check = found["goodput over 50 ms with recovery, 2 senders, over best"]
    assert check.value == pytest.approx(376.5 / 300)
    assert (check.verdict, check.low) == (verdict, worst / 300)


@pytest.mark.parametrize(("worst", "verdict"), [(20.0, Verdict.PASS), (104.0, Verdict.FAIL)])
def test_an_ordering_in_real_time_needs_disjoint_intervals(worst: float, verdict: Verdict) -> None:
    fast, slow = [2.0, 2.1, 2.2, 2.3, 2.4, worst], [103.0, 104.0, 105.0, 105.0, 106.0, 107.0]
    reaction = dict(zip(LIVE, (fast, slow), strict=True))
    same = {"peak": [1.0] * 6, "goodput": [1.0] * 6}
    found = judged(
        Runtime.SOFTSWITCH, {name: {"reaction": each, **same} for name, each in reaction.items()}
    )
    row = "Mininet, scaled, 10 km, real eBPF"
    assert found[f"{row}: reaction, fast CNP's is lower"].verdict is verdict
    assert found[f"{row}: peak, fast CNP's is lower"].verdict is Verdict.FAIL
    assert found[f"{row}: peak of fast-cnp, real over simulated"].value == 1.0
