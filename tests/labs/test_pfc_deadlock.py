"""The lab pfc-deadlock: its truth beside brute force, what mistakes cost, what lint foretells."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import pytest
import yaml

from experiments import grade, grade_worker
from experiments.api import Runtime
from experiments.grade import Graded
from experiments.loader import load
from tests.labs.answers_and_marks import assert_loses, lost, rewritten
from weft import cli
from workloads.lint_pauses import pause_faults

LAB = load("pfc-deadlock")
REFERENCE = grade.reference(LAB.folder)
IN_RUNS = {"real-pauses", "rings-move"}
SEED = 7


@cache
def part(name: str) -> Any:
    """Return a module beside the lab's grading.py."""
    grading: ModuleType = grade_worker.load(LAB.folder)
    return __import__(f"{grading.__package__}.{name}", fromlist=[name])


def judged(text: str, folder: Path, seed: int = SEED) -> Mapping[str, Graded]:
    """Return what a text earns, without the items that play runs."""
    grading, path = part("grading"), folder / "mine.py"
    path.write_text(text)
    bench = grading.bench(grade.Submission(path, "", "", seed, grading.read(path)))
    return {
        item.name: grade.judged(item, item.judge(bench))
        for item in grading.items()
        if item.name not in IN_RUNS
    }


# --- what is true -----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_stuck_queues_are_those_that_no_order_of_draining_opens(seed: int) -> None:
    waits = part("cases").paused(Random(seed), 10)
    open_now: set[str] = set()
    while True:
        more = {
            queue
            for queue, others in waits.items()
            if queue not in open_now
            and (not others or any(o in open_now or o not in waits for o in others))
        }
        if not more:
            break
        open_now |= more
    assert part("cases").stuck(waits) == set(waits) - open_now


def test_drawn_cases_have_both_kinds() -> None:
    cases = part("cases")
    stuck = [bool(cases.stuck(cases.paused(Random(seed), 10))) for seed in range(40)]
    assert 5 < sum(stuck) < 39
    for seed in range(10):
        assert cases.has_cycle(cases.waits_of(cases.detour(Random(seed))))
        assert not cases.has_cycle(cases.waits_of(cases.detour(Random(seed))[:-1]))
        assert not cases.has_cycle(cases.waits_of(cases.clos(Random(seed), 8, 4, 60)))


@pytest.mark.parametrize("seed", range(5))
def test_no_fewer_classes_than_brute_force_finds(seed: int) -> None:
    cases = part("cases")
    routes = cases.wandering(Random(seed), 6)

    def works(chosen: tuple[int, ...]) -> bool:
        return not any(
            cases.has_cycle(
                cases.waits_of(r for r, c in zip(routes, chosen, strict=True) if c == each)
            )
            for each in set(chosen)
        )

    least = min(len(set(c)) for c in itertools.product(range(3), repeat=6) if works(c))
    assert least <= cases.first_fit(routes) <= least + 1


def test_lint_names_the_cycle_of_those_variants_that_have_one() -> None:
    found = {}
    for each in LAB.variants(Runtime.SIMULATOR):
        remarks = list(pause_faults(each.run_file(LAB.folder)))
        found[each.variant.name] = remarks
    with_cycle = {name for name, remarks in found.items() if remarks}
    assert with_cycle == {"deadlock", "watchdog", "dcqcn-late", "dcqcn"}
    assert "s1:2 -> s2:2 -> s3:2 -> s4:2 -> s5:2 -> s1:2" in found["deadlock"][0].message


def test_the_run_file_beside_the_text_is_the_first_variant() -> None:
    data = yaml.safe_load((LAB.folder / "ring.yaml").read_text())
    data.pop("description")
    assert data == LAB.variants(Runtime.SIMULATOR)[0].mapping


# --- answers ----------------------------------------------------------------------------------


def test_the_reference_has_all_marks_and_the_starter_none(tmp_path: Path) -> None:
    assert not lost(judged(REFERENCE, tmp_path))
    starter = judged((LAB.folder / "starter.py").read_text(), tmp_path)
    assert all(item.earned == 0 for item in starter.values())


MISTAKES = {
    "dependencies both ways": (
        ("return {pair for route in routes for pair in itertools.pairwise(route)}",
         "return {p for r in routes for x, y in itertools.pairwise(r) for p in ((x, y), (y, x))}"),
        {"dependencies", "classes"}, "dependencies", "too much",
    ),
    "the first hop forgotten": (
        ("itertools.pairwise(route)", "itertools.pairwise(route[1:])"),
        {"dependencies", "classes"}, "dependencies", "missing",
    ),
    "only queues that wait for nothing are left out once": (
        ("if kept == left:", "if True:"),
        {"cycle", "many-ways", "classes"}, "cycle", "KeyError",
    ),
    "the way to the cycle is returned with it": (
        ("return way[way.index(onwards[way[-1]]) :]", "return ['x', *way]"),
        {"cycle", "many-ways"}, "cycle", "['x'",
    ),
    "all paused queues are a deadlock": (
        ("    stuck = set(waits)\n", "    stuck = set(waits)\n    return stuck\n"),
        {"deadlocked"}, "deadlocked", "too much",
    ),
    "a way out for one is none": (
        ("not stuck.issuperset(waits[queue])", "stuck.isdisjoint(waits[queue])"),
        {"deadlocked"}, "deadlocked", "too much",
    ),
    "a host never takes anything": (
        ("not waits[queue] or not", "bool(waits[queue]) and not"),
        {"deadlocked"}, "deadlocked", "too much",
    ),
    "a list in the place of a set": (
        ("            return stuck\n", "            return sorted(stuck)\n"),
        {"deadlocked"}, "deadlocked", "no set",
    ),
    "a class for each route": (
        ("number = next(fits, len(taken))", "number = len(taken)"),
        {"classes"}, "classes", "classes",
    ),
    "a route is checked by itself": (
        ("[*others, route]", "[route]"),
        {"classes"}, "classes", "has a cycle",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_loses_what_it_is_about(name: str, tmp_path: Path) -> None:
    change, loses, item, words = MISTAKES[name]
    found = judged(rewritten(REFERENCE, change), tmp_path)
    if words == "KeyError":
        assert lost(found) == loses
        assert words in found[item].finding.reason
    else:
        assert_loses(found, loses, item, words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1\n", "there is no function dependencies"),
        ("def dependencies(routes)\n", "mine.py:1: "),
        ("x = 1 / 0\n", "mine.py:1: ZeroDivisionError"),
        ("import sys\nsys.exit(3)\n", "mine.py:2: SystemExit"),
    ],
)
def test_a_file_that_can_not_be_read_is_refused(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=words):
        judged(text, tmp_path)


@pytest.mark.parametrize("value", ["5", "[[1]]", "{frozenset(): 1}", "[True] * 9", "object()"])
def test_answers_of_a_wrong_form_earn_nothing(value: str, tmp_path: Path) -> None:
    names = ("dependencies", "cycle", "deadlocked", "classes")
    text = "".join(f"def {name}(seen):\n    return {value}\n\n" for name in names)
    assert not any(item.earned for item in judged(text, tmp_path).values())


def graded(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    code = cli.main(["grade", "pfc-deadlock", *words, "--json", "--seed", str(SEED)])
    return code, json.loads(capsys.readouterr().out)


def test_runs_stand_still_in_one_class_and_move_in_those_of_the_reference(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, report = graded(capsys, "--reference")
    assert (code, report["earned"], report["marks"]) == (0, 20, 20)
    fabric = part("fabric")
    still = fabric.played(5, [0] * 5, SEED)
    assert set(still.received) == {0}
    assert still.stuck == {f"s{n}:2/2" for n in range(1, 6)} <= set(still.waits)


@pytest.mark.long
def test_an_endless_loop_costs_its_item(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        rewritten(
            REFERENCE,
            (
                "    stuck = set(waits)\n",
                "    stuck = set(waits)\n    while len(stuck) == 3:\n        pass\n",
            ),
        )
    )
    code, report = graded(capsys, "--answer", str(path))
    earned = {item["name"]: item["earned"] for item in report["items"]}
    assert (code, report["earned"]) == (1, 16)
    assert (earned["deadlocked"], earned["real-pauses"]) == (0, 2)
    assert "10 s" in next(i["reason"] for i in report["items"] if i["name"] == "deadlocked")
