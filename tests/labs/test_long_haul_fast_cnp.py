"""The lab long-haul-fast-cnp: its quick variants hold, and its opponent is picked by its rule."""

from __future__ import annotations

import csv
import importlib.util
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import yaml

from experiments.api import Check, Finished, Measured, Runtime, Table, Variant, Verdict
from experiments.lab_code import Hooks
from experiments.loader import load
from mechanisms.dcqcn.parameters import parameters, thresholds
from mechanisms.dcqcn.settings import OverridesEntry, of_transport
from topologies.ecn import CERTAIN
from topologies.units import parse_rate, parse_size

LAB = Path(__file__).parents[2] / "labs" / "long-haul-fast-cnp"


@pytest.fixture(scope="module")
def best() -> ModuleType:
    spec = importlib.util.spec_from_file_location("long_haul_best", LAB / "best.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for it
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
    """Two results each: over 100 and 300 km, with two senders and with four alike."""
    sets = {
        "fills any buffer": ((390.0, 400.0), (390.0, 900.0)),
        "for 100 km": ((320.0, 52.0), (150.0, 150.0)),
        "for 300 km": ((150.0, 52.0), (320.0, 150.0)),
        "for both": ((290.0, 55.0), (280.0, 160.0)),
        "short of memory at 300 km": ((310.0, 52.0), (310.0, 166.0)),
        "not played at 300 km": ((310.0, 52.0),),
    }
    lengths = ("100km", "300km")
    results = {
        name: {
            (length, senders): result
            for length, result in zip(lengths, each, strict=False)
            for senders in (2, 4)
        }
        for name, each in sets.items()
    }
    assert best.best(results) == "for both"
    everywhere = set(sets) - {"fills any buffer"}
    assert best.asked_for(sets, results, ("100km", 2)) == set(sets)
    assert best.asked_for(sets, results, ("300km", 2)) == everywhere
    assert best.asked_for(sets, results, ("300km", 4)) == everywhere - {
        "short of memory at 300 km", "not played at 300 km",
    }  # fmt: skip


def test_the_table_is_what_the_rule_picks_from(best: ModuleType) -> None:
    """Each set of both rounds is played as far as it can be the best; lab.yaml has the best."""
    with (LAB / "sweep.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    results: dict[str, dict[tuple[str, int], tuple[float, float]]] = {}
    for row in rows:
        case = row["length"], int(row["senders"])
        results.setdefault(row["set"], {})[case] = float(row["goodput"]), float(row["peak"])
    sets = best.first_round()
    first = {name: results[name] for name in sets}
    sets |= best.second_round(sets[best.best(first)])
    assert set(results) == set(sets)
    assert not any(best.missing(sets, results, case) for case in best.CASES)
    picked = best.best(results)
    assert {row["set"] for row in rows if row["best"]} == {picked}
    written = {row["set"]: row for row in best.rows(sets, results, picked)}
    for row in rows:
        own = ("set", "length", "senders", "goodput", "peak", "best")
        for name in row.keys() - set(own):
            assert row[name] == str(written[row["set"]][name])
    own = yaml.safe_load((LAB / "lab.yaml").read_text())["axes"]["control"]["best"]
    overrides = {best.OVERRIDES + name: value
                 for name, value in own["transport.overrides"].items()}  # fmt: skip
    assert {**overrides, best.ECN: own[best.ECN]} == sets[picked]


def test_a_set_of_the_second_round_is_near_the_first_s_best(best: ModuleType) -> None:
    first = best.first_round()
    assert len(first) == 1024 + 3
    centre = first["best of 160"]
    near = best.second_round(centre)
    assert len(near) == 128
    for point in near.values():
        assert set(point) == set(centre)
        assert 0.0978 <= point["transport.overrides.gain"] <= 0.3912
        rate = parse_rate(point["transport.overrides.rate_ai"])
        assert 428 * 10**6 <= rate <= 1712 * 10**6
        assert parse_size(point[best.ECN]["max"]) == 4 * parse_size(point[best.ECN]["min"])
    assert {point[best.ECN]["probability"] for point in near.values()} == {"10%", "20%", "40%"}


def test_the_published_sets_are_among_those_played(best: ModuleType) -> None:
    own = best.first_round()
    for name in ("hpcc-dcqcn", "hpcc-dcqcn-paper"):
        given, marks = parameters(name, 400 * 10**9), thresholds(name, 400 * 10**9)
        written = {
            path.removeprefix(best.OVERRIDES): value
            for path, value in own[name].items()
            if path != best.ECN
        }
        entry = SimpleNamespace(
            parameters="hpcc-dcqcn-paper", overrides=OverridesEntry.model_validate(written)
        )
        played = of_transport(entry, 400 * 10**9)
        assert replace(played, name=given.name, source=given.source) == given
        assert parse_size(own[name][best.ECN]["min"]) == marks.min_bytes
        assert parse_size(own[name][best.ECN]["max"]) == marks.max_bytes
        assert own[name][best.ECN]["probability"] == f"{round(100 * marks.probability / CERTAIN)}%"


def test_a_sweep_goes_on_where_it_was_interrupted(
    best: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`weft sweep` is played here by a table: the second set's queue is too long with four senders.

    The first call ends after its first run, as after Ctrl-C; the run of the fourth set fails,
    until it works: the next call plays it again.
    """
    drawn = list(best.first_round().items())[:4]
    sets, names = dict(drawn), [name for name, _ in drawn]
    calls: list[tuple[str, int, list[str]]] = []
    works: list[str] = []

    def sweep(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        points = yaml.safe_load(Path(command[2]).read_text())["points"]
        out = Path(command[command.index("--out") + 1])
        out.mkdir(parents=True)
        asked, written = [], []
        for number, point in enumerate(points):
            length, traffic = point.pop(best.LENGTH), point.pop(best.TRAFFIC)
            senders = sum(len(entry["incast"]["from"]) for entry in traffic)
            name = next(name for name, each in sets.items() if each == point)
            asked.append(name)
            peak = 10**9 if name == names[1] and senders == 4 else 10**8
            failure = "no memory" if name == names[3] and name not in works else ""
            written.append([number, 3e11, "" if failure else peak, failure])
        calls.append((length, senders, sorted(asked)))
        interrupted = len(calls) == 1
        with (out / "results.csv").open("w", newline="") as file:
            lines = csv.writer(file)
            lines.writerow(["point", "goodput", "peak_queue", "failure"])
            lines.writerows(written[:1] if interrupted else written)
        return subprocess.CompletedProcess(command, 130 if interrupted else 1)

    monkeypatch.setattr(best.subprocess, "run", sweep)
    how = best.How(tmp_path, ("--workers", "1"))
    with pytest.raises(SystemExit, match="ended with 130: the same call goes on"):
        best.play(how, sets)
    (first,) = best.read(tmp_path, sets)
    monkeypatch.setattr(best, "first_round", lambda: sets)
    with pytest.raises(SystemExit, match="3 sets are still to be played with 2 senders over 100km"):
        best.main(how, tmp_path / "sweep.csv", plays=False)
    best.play(how, sets)
    assert best.read(tmp_path, sets)[names[3]] == {("100km", 2): (0.0, float("inf"))}
    works.append(names[3])
    best.play(how, sets)
    best.play(how, sets)
    assert calls == [
        ("100km", 2, sorted(names)),
        ("100km", 2, sorted(set(names) - {first})),
        ("100km", 4, sorted(names[:3])),
        ("300km", 2, sorted([names[0], names[2]])),
        ("300km", 4, sorted([names[0], names[2]])),
        *((*case, [names[3]]) for case in best.CASES),
    ]
    results = best.read(tmp_path, sets)
    assert set(results[names[3]]) == set(best.CASES)
    assert set(results[names[1]]) == {("100km", 2), ("100km", 4)}
    rows = list(best.rows(sets, results, names[0]))
    assert sum(row["best"] == "yes" for row in rows) == 4
    assert rows[0]["goodput"] == "300.00" and rows[0]["ecn_min"] == drawn[0][1][best.ECN]["min"]


def test_a_case_of_the_sweep_is_what_the_lab_s_senders_do(best: ModuleType) -> None:
    senders = yaml.safe_load((LAB / "lab.yaml").read_text())["axes"]["senders"]
    for _, number in best.CASES:
        assert best.traffic(number) == senders[str(number)]["traffic"]


def test_the_quick_variants_hold(tmp_path: Path) -> None:
    command = [
        str(Path(sys.executable).parent / "weft"), "lab", "run", "long-haul-fast-cnp", "--quick",
        "--seeds", "1", "--out", str(tmp_path / "out"), "--json",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    results: dict[str, Any] = json.loads((tmp_path / "out" / "results.json").read_text())
    verdicts = {check["row"]: check["verdict"] for check in results["checks"]}
    for row in (
        "near end, 100 km: queue crosses threshold -> first cut, 2 senders, fast CNP",
        "peak queue there, 2 senders, over hpcc-dcqcn",
        "goodput over 50 ms with recovery, 2 senders, over hpcc-dcqcn",
        "peak queue there, 2 senders: fast CNP's buffer",
    ):
        assert verdicts[row] == "pass", row
    assert (tmp_path / "out" / "report.html").stat().st_size > 10_000


LIVE = ("10km-near-4-fast-cnp", "10km-near-4-hpcc-dcqcn")


def judged(runtime: Runtime, values: dict[str, dict[str, list[float]]]) -> dict[str, Check]:
    """Return the lab's checks, by row, of a made-up table: metrics by variant, a value a seed."""
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


@pytest.mark.parametrize(("worst", "verdict"), [(303.0, Verdict.PASS), (297.0, Verdict.FAIL)])
def test_goodput_over_the_best_is_claimed_for_the_interval(worst: float, verdict: Verdict) -> None:
    goodput = {
        "100km-near-2-fast-cnp": [worst, 375.0, 376.0, 377.0, 378.0, 380.0],
        "100km-near-2-best": [300.0] * 6,
    }
    metrics = ("reaction", "peak", "peak after relief", "burst")
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
