"""Write your own congestion control: several rules get all marks, and each mistake loses its own.

Headers are built together, so that one compilation serves them all.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from experiments import grade, grade_worker
from experiments.grade import Graded, judged
from hostagent.own_algorithm import Alone, Built, OwnAlgorithmError
from tests.hostagent.own_algorithm_cache import own_algorithm_cache
from tests.labs import own_controls
from tests.labs.answers_and_marks import lost, rewritten
from tests.labs.own_controls import ALONE, ANSWERS, DESIGNS, FOLDER, IN_RUNS, REFERENCE, together

__all__ = ["own_algorithm_cache"]

GRADING = grade_worker.load(FOLDER)
LAB = GRADING.__name__.rpartition(".")[0]
BENCH: Any = sys.modules[f"{LAB}.bench"]
CONTROLS: Any = sys.modules[f"{LAB}.controls"]
STARTER = grade.starter_of(FOLDER).read_text()
ITEMS = {item.name: item for item in GRADING.items()}
NETWORKS = ("incast", "join", "leave", "near-far", "two-links", "lossy", "mice")
BY_ITSELF = tuple(name for name in ITEMS if name not in (*NETWORKS, "kernel"))
SEED = 11


@dataclass
class OneOfMany(BENCH.Bench):  # type: ignore[misc] # loaded at run time
    """The bench of one of several headers that were built together."""

    name: str = ""

    @property
    def alone(self) -> Alone:
        return Alone(self.built, self.name)

    def run(self, case: Any) -> Any:
        if case.name not in self.seen:
            which = [each.name for each in self.built.own].index(self.name)
            self.seen[case.name] = case.play(CONTROLS.yours(self.built, which), self.seed)
        return self.seen[case.name]


@cache
def built_together(in_runs: bool) -> Built:
    """Build the headers that are tried alone, or in networks: one list has room for 32."""
    texts = {"reference": REFERENCE, "starter": STARTER, **ANSWERS}
    texts |= {name: text for name, (text, _) in DESIGNS.items()}
    mistakes = {name: change for name, (change, *_) in (IN_RUNS if in_runs else ALONE).items()}
    texts |= {name: rewritten(REFERENCE, *changes) for name, changes in mistakes.items()}
    return together(texts)


def graded(name: str, items: tuple[str, ...], seed: int = SEED) -> dict[str, Graded]:
    bench = OneOfMany(built_together(in_runs=items[0] in NETWORKS), seed, name=name)
    return {each: judged(ITEMS[each], ITEMS[each].judge(bench)) for each in items}


def wrong_rows(item: Graded) -> list[str]:
    return [row.what for row in item.finding.details if not row.right]


# ---------------------------------------------------------------- the lab's own files


def test_there_are_twenty_marks() -> None:
    assert sum(item.marks for item in ITEMS.values() if not item.bonus) == 20


def test_every_todo_of_the_starter_has_marks() -> None:
    titles = " ".join(f"{item.title} {item.name}" for item in ITEMS.values())
    hints = (FOLDER / "in_runs.py").read_text() + (FOLDER / "header_alone.py").read_text()
    todos = {f"TODO {n}" for n in range(1, 5)}
    assert set(re.findall(r"TODO \d", STARTER)) == todos
    assert all(todo in hints for todo in todos) and "TODO 1" in titles


@pytest.mark.parametrize("name", ["reference", *ANSWERS])
@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(n, marks=pytest.mark.long) for n in range(2, 4))]
)
def test_rules_that_hear_their_path_get_all_marks_alone(name: str, seed: int) -> None:
    assert lost(graded(name, BY_ITSELF, seed)) == set()


@pytest.mark.parametrize("name", ANSWERS)
def test_other_rules_are_headers_as_a_learner_s_has_to_be(tmp_path: Path, name: str) -> None:
    path = tmp_path / "mine.h"
    path.write_text(ANSWERS[name])
    assert GRADING.read(path).own[-1].name == "own_cc"


@pytest.mark.long
@pytest.mark.parametrize("name", ["reference", *ANSWERS])
def test_rules_that_hear_their_path_get_all_marks_in_networks(name: str) -> None:
    assert lost(graded(name, NETWORKS)) == set()


def test_starter_hears_nothing() -> None:
    kept = set(BY_ITSELF) - lost(graded("starter", BY_ITSELF))
    assert kept == {"parameters", "bounds", "looked-at", "back"}


@pytest.mark.long
def test_starter_fills_a_queue() -> None:
    items = graded("starter", ("incast", "mice"))
    assert lost(items) == {"incast", "mice"}
    assert wrong_rows(items["incast"])[0].startswith("the fullest queue")


# ---------------------------------------------------------------- what learners get wrong


@pytest.mark.parametrize("name", ALONE)
def test_a_mistake_costs_the_mark_that_it_is_about(name: str) -> None:
    _, item, words = ALONE[name]
    usual = "parameters" if item != "parameters" else "looked-at"
    items = graded(name, (item, usual))
    assert lost(items) == {item}
    assert items[item].finding.hint
    assert any(words in what for what in wrong_rows(items[item]))


@pytest.mark.long
@pytest.mark.parametrize("name", IN_RUNS)
def test_a_mistake_shows_in_a_network(name: str) -> None:
    assert_loses(name, IN_RUNS[name][1])


@pytest.mark.long
@pytest.mark.parametrize("name", DESIGNS)
def test_a_rule_that_is_no_answer_loses_in_networks(name: str) -> None:
    assert_loses(name, DESIGNS[name][1])


def assert_loses(name: str, networks: dict[str, str]) -> None:
    items = graded(name, tuple(networks))
    assert lost(items) == set(networks)
    for network, words in networks.items():
        assert any(words in what for what in wrong_rows(items[network])), network


def test_one_rate_for_all_paths_is_not_hearing() -> None:
    items = graded("fixed", ("wraps", "back"))
    assert lost(items) == {"wraps", "back"}
    assert "others take half, or a tenth" in items["wraps"].finding.reason


# ---------------------------------------------------------------- what is no answer


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (REFERENCE.replace("own_cc", "encc"), "encc is an installed algorithm"),
        (
            REFERENCE.replace('#include "path_telemetry.h"', '#include "encc.h"'),
            "includes encc.h, an algorithm",
        ),
        (
            rewritten(REFERENCE, ("    weft_u64 time_scale; ", "    weft_u64 more, time_scale; ")),
            "struct own_cc_params has other fields than the starter's",
        ),
        (rewritten(REFERENCE, (own_controls.ADDED, " * 0.5")), "uses 0.5"),
    ],
)
def test_header_that_is_none_is_refused_with_its_line(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "mine.h"
    path.write_text(text)
    with pytest.raises(OwnAlgorithmError, match=why) as refused:
        GRADING.read(path)
    assert str(refused.value).startswith(f"{path}:")


def test_header_has_any_name_but_an_installed_one(tmp_path: Path) -> None:
    path = tmp_path / "mine.h"
    path.write_text(REFERENCE.replace("own_cc", "my_first_control"))
    assert GRADING.read(path).own[-1].name == "my_first_control"
