"""Failover by hand: the reference gets all marks, and each mistake loses those it is about."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from experiments import grade, grade_worker
from experiments.grade import Graded, Submission, judged
from hostagent.own_algorithm import OwnAlgorithmError, apart
from tests.hostagent.own_algorithm_cache import own_algorithm_cache
from tests.labs.answers_and_marks import assert_loses, lost, rewritten

__all__ = ["own_algorithm_cache"]

FOLDER = Path(__file__).parents[2] / "labs" / "failover-by-hand"
GRADING = grade_worker.load(FOLDER)
REFERENCE = grade.reference(FOLDER)
STARTER = grade.starter_of(FOLDER).read_text()
ITEMS = {item.name: item for item in GRADING.items()}
IN_CARDS = ("cut", "overshoot", "flapping", "one-way", "lossy")
ALONE = tuple(name for name in ITEMS if name not in IN_CARDS)


@pytest.fixture
def graded(tmp_path: Path) -> Any:
    def graded(text: str, names: tuple[str, ...] = ALONE, seed: int = 1) -> dict[str, Graded]:
        path = tmp_path / "my_choice.h"
        path.write_text(text)
        bench = GRADING.bench(Submission(path, "", "", seed, GRADING.read(path)))
        return {name: judged(ITEMS[name], ITEMS[name].judge(bench)) for name in names}

    return graded


changed = partial(rewritten, REFERENCE)


# ---------------------------------------------------------------- the lab's own files


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(n, marks=pytest.mark.long) for n in range(2, 30))]
)
def test_reference_gets_all_marks_of_the_header_alone(graded: Any, seed: int) -> None:
    assert lost(graded(REFERENCE, seed=seed)) == set()


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_reference_gets_all_marks_in_the_card(graded: Any, seed: int) -> None:
    assert lost(graded(REFERENCE, IN_CARDS, seed)) == set()


def test_there_are_twenty_marks() -> None:
    assert sum(item.marks for item in ITEMS.values()) == 20 == len(ITEMS)


def test_starter_never_says_no(graded: Any) -> None:
    assert set(ALONE) - lost(graded(STARTER)) == {"healthy"}


@pytest.mark.long
def test_starter_in_the_card_comes_back_too_soon(graded: Any) -> None:
    items = graded(STARTER, IN_CARDS)
    assert lost(items) == set(IN_CARDS) - {"cut"}
    assert "40; right would be: at most 12" in items["flapping"].finding.reason


def test_every_todo_of_the_starter_has_marks() -> None:
    titles = " ".join(item.title for item in ITEMS.values())
    todos = {f"TODO {n}" for n in range(1, 5)}
    assert set(re.findall(r"TODO \d", STARTER)) == todos == set(re.findall(r"TODO \d", titles))


# ---------------------------------------------------------------- what learners get wrong

DOUBLES = "        s->hold = twice < most ? twice : most;\n"
HELD = " || now < s->lost_at + s->hold"
STOOD = "stood < s->params.stable_ns"
ROW = "s->answered = s->answered && event->number == s->number + 1 ? s->answered + 1 : 1;"
SHUT = "    return s->down ? CC_SHUT : CC_NO_PATH;\n"
STEP = "    s->ramping = now < s->up_at + 2 * ramp;\n"
BACK = "    s->rate = s->ramping ? plane_choice_share(s, 4) : s->params.line_rate;\n"
BEGUN = "    s->ramping = s->answered = 0;\n"
RETURN = "    s->down = s->answered = 0;\n"

MISTAKES: dict[str, tuple[list[tuple[str, str]], set[str], tuple[str, str]]] = {
    "a plane that is down is not shut": (
        [(SHUT, "    return CC_NO_PATH;\n"),
         ("    (void)choice, (void)now;\n", "    (void)s, (void)choice, (void)now;\n")],
        {*ALONE} - {"healthy", "ramp", "bounds"},
        ("shut", "an answer tells of the loss: open; right would be: shut"),
    ),
    "time alone opens it": (
        [(SHUT, "    return s->down && now < s->lost_at + s->hold ? CC_SHUT : CC_NO_PATH;\n"),
         ("    (void)choice, (void)now;\n", "    (void)choice;\n")],
        {"shut", "apart", "row", "gaps", "row-and-loss", "schedule"},
        ("shut", "no more answers, however long: open"),
    ),
    "any answers count": (
        [(ROW, "s->answered++;")],
        {"gaps", "schedule"},
        ("gaps", "then one is missing: open"),
    ),
    "a late answer counts": (
        [(ROW, ROW.replace("event->number == s->number + 1", "event->number <= s->number + 1"))],
        {"gaps"},
        ("gaps", "then the last one comes twice: open"),
    ),
    "one answer too many": (
        [("s->answered < s->params.answers", "s->answered <= s->params.answers")],
        {"apart", "row", "gaps", "row-and-loss", "ramp", "ramp-again", "bounds", "schedule"},
        ("row", "1 of 1 answers in a row: shut"),
    ),
    "a loss goes on with the row": (
        [(BEGUN, "    s->ramping = 0;\n")],
        {"row-and-loss", "schedule"},
        ("row-and-loss", "then one that tells of a new loss: open"),
    ),
    "no hold-down": (
        [(HELD, "")],
        {"hold", "doubles", "most", "forgiven", "one-loss", "schedule"},
        ("hold", "lost for the first time: answered 1 ns before"),
    ),
    "exactly the hold-down is too short": (
        [(HELD, HELD.replace("<", "<="))],
        {"hold", "doubles", "most", "forgiven", "one-loss"},
        ("hold", "ns are over: shut"),
    ),
    "held from the news on": (
        [("    s->lost_at = lost_at;\n", "    s->lost_at = lost_at;\n    s->up_at = lost_at;\n"),
         (HELD, " || now < s->up_at + s->hold"),
         ("        plane_choice_lose(s, event->lost_at);\n",
          "        plane_choice_lose(s, event->lost_at), s->up_at = now;\n")],
        {*ALONE} - {"healthy", "shut", "apart", "row", "gaps", "row-and-loss"},
        ("hold", "and an answer when it is: it began with the loss: shut"),
    ),
    "it never doubles": (
        [(DOUBLES, "        s->hold = twice && most ? s->params.hold_ns : 0;\n")],
        {"doubles", "most", "forgiven", "one-loss", "schedule"},
        ("doubles", "loss 2, each soon after the last"),
    ),
    "it doubles without a bound": (
        [(DOUBLES, "        s->hold = most ? twice : 0;\n")],
        {"most"},
        ("most", "loss 4, at most"),
    ),
    "it is never forgiven": (
        [(STOOD, "stood < ~(weft_u64)0")],
        {"forgiven", "schedule"},
        ("forgiven", "ns after its return: answered when"),
    ),
    "exactly stable_ns is not long enough": (
        [(STOOD, STOOD.replace("<", "<="))],
        {"forgiven"},
        ("forgiven", "ns after its return: answered when"),
    ),
    "it is forgiven though it is down": (
        [("(s->down || stood", "(stood")],
        {"doubles", "schedule"},
        ("doubles", "and lost again meanwhile"),
    ),
    "the first loss is a second one": (
        [("s->losses && (", "(")],
        {"hold", "doubles", "most", "forgiven", "one-loss", "schedule"},
        ("hold", "lost for the first time"),
    ),
    "each answer tells of a loss": (
        [("event->lost_at > s->lost_at", "event->lost_at")],
        {*ALONE} - {"healthy", "shut"},
        ("one-loss", "tell of one loss"),
    ),
    "another loss_at is a new loss": (
        [("event->lost_at > s->lost_at", "event->lost_at != s->lost_at")],
        {"one-loss"},
        ("one-loss", "and of an older one: shut"),
    ),
    "no ramp": (
        [(BACK, "    s->rate = s->params.line_rate;\n    s->ramping = 0;\n")],
        {"ramp", "ramp-again", "bounds", "schedule"},
        ("ramp", "0 ns after its return"),
    ),
    "one step only": (
        [(STEP, "    s->ramping = 0;\n")],
        {"ramp", "ramp-again", "bounds", "schedule"},
        ("ramp", "bits/s"),
    ),
    "a ramp that nobody asks about is not over": (
        [(STEP, "    s->ramping = s->rate == plane_choice_share(s, 4);\n")],
        {"ramp", "ramp-again", "bounds", "schedule"},
        ("ramp", "bits/s"),
    ),
    "below min_rate": (
        [("    return rate < s->params.min_rate ? s->params.min_rate : rate;\n",
          "    return rate;\n")],
        {"bounds"},
        ("bounds", "min_rate is above 1/16 of the line"),
    ),
    "without a ramp there is still one": (
        [("    s->ramping = s->params.ramp_ns != 0;\n", "    s->ramping = 1;\n"),
         ("!s->ramping || now < s->up_at + ramp)", "!s->ramping || now <= s->up_at + ramp)")],
        {"ramp", "ramp-again", "bounds", "schedule"},
        ("bounds", "ramp_ns is 0: at once"),
    ),
}  # fmt: skip


OF_EACH_TODO = {
    "a plane that is down is not shut", "any answers count", "held from the news on",
    "it doubles without a bound", "one step only",
}  # fmt: skip
assert set(MISTAKES) > OF_EACH_TODO


@pytest.mark.parametrize(
    "name",
    [
        name if name in OF_EACH_TODO else pytest.param(name, marks=pytest.mark.long)
        for name in MISTAKES
    ],
)
def test_a_mistake_costs_the_marks_that_it_is_about(graded: Any, name: str) -> None:
    changes, loses, (item, words) = MISTAKES[name]
    assert_loses(graded(changed(*changes), seed=11), loses, item, words)


IN_CARD_MISTAKES = {
    "a plane that is down is not shut": {"flapping", "one-way", "lossy"},
    "any answers count": {"lossy"},
    "it never doubles": {"flapping"},
    "no ramp": {"overshoot"},
}


@pytest.mark.long
@pytest.mark.parametrize("name", IN_CARD_MISTAKES)
def test_a_mistake_shows_in_the_card(graded: Any, name: str) -> None:
    assert lost(graded(changed(*MISTAKES[name][0]), IN_CARDS)) == IN_CARD_MISTAKES[name]


# ---------------------------------------------------------------- what is no answer


def graded_as_a_file(tmp_path: Path, text: str, **options: Any) -> grade.Grade:
    path = tmp_path / "my_choice.h"
    path.write_text(text)
    return grade_worker.grade("failover-by-hand", FOLDER, path, **options)


def test_header_that_does_not_compile_is_refused_with_its_line(tmp_path: Path) -> None:
    found = graded_as_a_file(tmp_path, changed((ROW, "s->answered = nonsense;")))
    at = REFERENCE[: REFERENCE.index(ROW)].count("\n") + 1
    assert found.refused.startswith(f"{tmp_path}/my_choice.h:{at}: ")
    assert "nonsense" in found.refused and found.earned == 0


def test_another_algorithm_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.h"
    path.write_text(REFERENCE.replace("plane_choice", "another"))
    with pytest.raises(OwnAlgorithmError, match="this lab's is plane_choice"):
        GRADING.read(path)


@pytest.mark.long
def test_crash_costs_the_items_that_meet_it(tmp_path: Path) -> None:
    crash = "    if (s->losses == 2)\n        *(volatile weft_u32 *)(s->lost_at & 8) = 1;\n"
    found = graded_as_a_file(tmp_path, changed((RETURN, crash + RETURN)))
    assert any("your file died: SIGSEGV" in item.finding.reason for item in found.items)
    assert found.items[0].earned == 1


@pytest.mark.long
def test_endless_loop_is_stopped(tmp_path: Path) -> None:
    loop = "    while (s->losses >= 100)\n        s->answered++;\n"
    found = graded_as_a_file(tmp_path, changed((RETURN, loop + RETURN)), item_s=15.0)
    reasons = [item.finding.reason for item in found.items if not item.earned]
    assert any("your file was still busy after 15 s: stopped" in reason for reason in reasons)


def test_the_card_of_a_crashing_header_takes_nobody_along(tmp_path: Path) -> None:
    path = tmp_path / "my_choice.h"
    path.write_text(changed((RETURN, "    *(volatile weft_u32 *)(s->lost_at & 8) = 1;\n" + RETURN)))
    built = GRADING.read(path)
    bench = GRADING.bench(Submission(path, "", "", 1, built))
    with pytest.raises(Exception, match="the header died: SIGSEGV"):
        apart(lambda: ITEMS["row"].judge(bench), seconds=20)
