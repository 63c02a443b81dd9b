"""Rate by hand: the reference gets all marks, and each mistake loses those it is about."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from experiments import grade, grade_worker
from experiments.grade import Graded, Submission, judged
from hostagent.own_algorithm import OwnAlgorithmError
from tests.hostagent.own_algorithm_cache import own_algorithm_cache
from tests.labs.answers_and_marks import assert_loses, lost, rewritten

__all__ = ["own_algorithm_cache"]

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "labs" / "rate-by-hand"
GRADING = grade_worker.load(FOLDER)
REFERENCE = grade.reference(FOLDER)
STARTER = grade.starter_of(FOLDER).read_text()
INSTALLED = (ROOT / "hostagent" / "include" / "fast_cnp.h").read_text()
ITEMS = {item.name: item for item in GRADING.items()}
IN_RUNS = ("share", "max-min", "many", "leave", "rounds")
ALONE = tuple(name for name in ITEMS if name not in IN_RUNS)


@pytest.fixture
def graded(tmp_path: Path) -> Any:
    def graded(text: str, names: tuple[str, ...] = ALONE, seed: int = 1) -> dict[str, Graded]:
        path = tmp_path / "my_rule.h"
        path.write_text(text)
        bench = GRADING.bench(Submission(path, "", "", seed, GRADING.read(path)))
        return {name: judged(ITEMS[name], ITEMS[name].judge(bench)) for name in names}

    return graded


changed = partial(rewritten, REFERENCE)


# ---------------------------------------------------------------- the lab's own files


@pytest.mark.parametrize(
    "seed", [1, 2, *(pytest.param(n, marks=pytest.mark.long) for n in range(3, 40))]
)
def test_reference_gets_all_marks_of_the_header_alone(graded: Any, seed: int) -> None:
    assert lost(graded(REFERENCE, seed=seed)) == set()


def test_installed_rule_is_an_answer(graded: Any) -> None:
    assert lost(graded(INSTALLED)) == set()


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_reference_gets_all_marks_in_networks(graded: Any, seed: int) -> None:
    assert lost(graded(REFERENCE, IN_RUNS, seed)) == set()


def test_there_are_twenty_marks() -> None:
    assert sum(item.marks for item in ITEMS.values()) == 20 == len(ITEMS)


def test_starter_hears_nothing(graded: Any) -> None:
    assert set(ALONE) - lost(graded(STARTER)) == {"untold"}


@pytest.mark.long
def test_starter_fills_every_queue(graded: Any) -> None:
    items = graded(STARTER, IN_RUNS)
    assert lost(items) == set(IN_RUNS)
    for item in items.values():
        rows = [row.what for row in item.finding.details if not row.right]
        assert any(what.startswith("the longest queue") for what in rows)


def test_every_todo_of_the_starter_has_marks() -> None:
    titles = " ".join(item.title for item in ITEMS.values())
    todos = {f"TODO {n}" for n in range(1, 5)}
    assert set(re.findall(r"TODO \d", STARTER)) == todos == set(re.findall(r"TODO \d", titles))


# ---------------------------------------------------------------- what learners get wrong

OWN_PLACE = "        if (word->rate && word->queue == queue)\n            return i;\n"
SAME = "word->queue == event->number"
STANDS = "        if (word->until > now) {\n"
SLOWER = "if (!least || word->rate < least)\n                least = word->rate;"
TWO_PACKETS = "    stands += FAST_CNP_TWO_PACKETS * FAST_CNP_SECOND_NS / rate;\n"
LOW = "    if (rate < p->min_rate)\n        rate = p->min_rate;\n"
HIGH = "    if (rate > p->line_rate)\n        rate = p->line_rate;\n"
LATEST = "word->until > last || (word->until == last && word->rate < from)"
COUNT = "    doublings = (now - last) / stood;\n"
BACK = "doublings > 41 || from > line >> doublings ? line : from << doublings"
FREE = "        if (!word->rate)\n            value"
OVER = "            value = CC_NO_LIMIT - 1 - word->until;\n"
FASTEST = "            value = word->rate; /* far below those of words that are over */\n"

TODO_4 = {"back", "back-from", "told-again", "asked", "schedule"}
ENDS = {"stands", "eight", "nine", "over"}
SEVERAL = {"replaces", "queues", "least", "asked", "schedule", *ENDS}

MISTAKES: dict[str, tuple[list[tuple[str, str]], set[str], tuple[str, str]]] = {
    "the last word counts": (
        [(OWN_PLACE, "        if (queue || !queue)\n            return 0;\n"),
         (SAME, "word->rate")],
        {*SEVERAL, "back-from"},
        ("least", "queues say 1/8, 1/3 of the line"),
    ),
    "the greatest of them": (
        [(SLOWER, SLOWER.replace("word->rate < least", "word->rate > least"))],
        SEVERAL,
        ("least", "queues say 1/8, 1/3 of the line"),
    ),
    "the sum of them": (
        [(SLOWER, "least += word->rate;")],
        SEVERAL,
        ("least", "queues say 1/8, 1/3 of the line"),
    ),
    "the mean of them": (
        [(SLOWER, "least = least ? (least + word->rate) / 2 : word->rate;")],
        SEVERAL,
        ("least", "queues say 1/8, 1/3 of the line"),
    ),
    "a word stands for ever": (
        [(STANDS, "        if (word->until) {\n")],
        {*TODO_4, *ENDS, "replaces"},
        ("over", "at the end of word 1"),
    ),
    "a word ends a nanosecond late": (
        [(STANDS, STANDS.replace("> now", ">= now"))],
        {"stands", "replaces", "eight", "nine", "over"},
        ("stands", "at its end: another word stands"),
    ),
    "validity is not looked at": (
        [(TWO_PACKETS, TWO_PACKETS.replace("+=", "="))],
        {*TODO_4, *ENDS, "obeyed", "replaces"},
        ("stands", "long, fast"),
    ),
    "two packets' time is forgotten": (
        [(TWO_PACKETS, "")],
        {*TODO_4, *ENDS},
        ("stands", "two packets take longer"),
    ),
    "two packets at the rate that was said, not at the one that counts": (
        [(LOW, ""), (TWO_PACKETS, TWO_PACKETS.replace("/ rate", "/ (rate ? rate : 1)") + LOW)],
        {"stands"},
        ("stands", "told half of min_rate"),
    ),
    "one word a switch": (
        [(OWN_PLACE, OWN_PLACE.replace("word->queue == queue", "word->queue >> 16 == queue >> 16")),
         (SAME, "word->queue >> 16 == event->number >> 16")],
        {"queues"},
        ("queues", "two ports of a switch"),
    ),
    "one word a port number": (
        [(OWN_PLACE, OWN_PLACE.replace("word->queue == queue", "!((word->queue ^ queue) & 65535)")),
         (SAME, "!((word->queue ^ event->number) & 65535)")],
        {"queues"},
        ("queues", "the same port of two switches"),
    ),
    "queue 0 is none": (
        [(OWN_PLACE, OWN_PLACE.replace("word->rate &&", "word->queue &&")),
         (FREE, FREE.replace("rate", "queue"))],
        {"queues"},
        ("queues", "queue 0, and another"),
    ),
    "a queue's word is never taken back": (
        [(OWN_PLACE, OWN_PLACE.replace("word->rate &&", "word->rate > FAST_CNP_RATE_MAX &&"))],
        {"replaces", "queues", "eight", "back-from", "schedule"},
        ("replaces", "1/3 of the line, more"),
    ),
    "a queue's word only ever goes down": (
        [(f"{SAME} || ", "")],
        {"replaces", "queues", "eight", "back-from", "schedule"},
        ("replaces", "1/3 of the line, more"),
    ),
    "room for four": (
        [("#define FAST_CNP_WORDS 8", "#define FAST_CNP_WORDS 4")],
        {"eight", "nine", "schedule"},
        ("eight", "8 queues"),
    ),
    "who is over keeps its place": (
        [(OVER, "            value = 0;\n")],
        {"nine"},
        ("nine", "4 more queues say something"),
    ),
    "whoever comes takes the fastest one's place": (
        [(" || rate < word->rate))", " || rate < CC_NO_LIMIT))")],
        {"nine"},
        ("nine", "the 8 least of"),
    ),
    "the slowest gives place": (
        [(FASTEST, "            value = FAST_CNP_RATE_MAX - word->rate;\n")],
        {"nine"},
        ("nine", "the 8 least of"),
    ),
    "no rate is a word": (
        [("event->rate && (", "(")],
        {"untold", "obeyed"},
        ("untold", "a notification without a rate"),
    ),
    "below min_rate": (
        [(LOW, "    if (!rate)\n        rate = 1;\n")],
        {"bounds", "stands", "schedule"},
        ("bounds", "told half of min_rate"),
    ),
    "above the line": ([(HIGH, "")], {"bounds"}, ("bounds", "told more than the line's rate")),
    "back at once": (
        [(BACK, "doublings <= 41 || doublings > 41 || from > line >> doublings ? line : 0")],
        TODO_4,
        ("back", "as the word ends"),
    ),
    "back by equal steps": (
        [(BACK, "doublings < line / from ? from * (doublings + 1) : line")],
        TODO_4,
        ("back", "2 x"),
    ),
    "doubled from when it came": (
        [(COUNT, "    doublings = (now - last) / stood + 1;\n")],
        TODO_4,
        ("back", "as the word ends"),
    ),
    "back from the least": (
        [(LATEST, "word->rate < from || (word->until > last && !from)")],
        {"back-from", "told-again", "asked", "schedule"},
        ("back-from", "a slower word ended before"),
    ),
    "back from the faster one of two": (
        [(LATEST, LATEST.replace("word->rate < from", "word->rate > from"))],
        {"back-from"},
        ("back-from", "two end at once"),
    ),
    "over the line": (
        [(BACK, "doublings > 41 ? line : from << doublings")],
        TODO_4,
        ("back", "x "),
    ),
    "64 doublings": (
        [(BACK, BACK.replace("doublings > 41 || ", ""))],
        {"told-again"},
        ("told-again", "64 times as long"),
    ),
    "doubled each time that it is asked": (
        [(BACK, "2 * s->rate < line || doublings == CC_NO_LIMIT ? 2 * s->rate : line")],
        TODO_4,
        ("asked", "brought up to date"),
    ),
}  # fmt: skip


OF_EACH_TODO = {
    "two packets' time is forgotten", "one word a switch", "the last word counts",
    "a word stands for ever", "back at once",
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


IN_RUN_MISTAKES = {
    "the last word counts": {"max-min"},
    "the greatest of them": {"max-min"},
    "a word stands for ever": {"leave"},
    "back at once": {"rounds"},
}


@pytest.mark.long
@pytest.mark.parametrize("name", IN_RUN_MISTAKES)
def test_a_mistake_shows_in_a_network(graded: Any, name: str) -> None:
    assert lost(graded(changed(*MISTAKES[name][0]), IN_RUNS)) == IN_RUN_MISTAKES[name]


# ---------------------------------------------------------------- what is no answer


def graded_as_a_file(tmp_path: Path, text: str, **options: Any) -> grade.Grade:
    path = tmp_path / "my_rule.h"
    path.write_text(text)
    return grade_worker.grade("rate-by-hand", FOLDER, path, **options)


def test_header_that_does_not_compile_is_refused_with_its_line(tmp_path: Path) -> None:
    found = graded_as_a_file(tmp_path, changed((COUNT, "    doublings = nonsense;\n")))
    at = REFERENCE[: REFERENCE.index(COUNT)].count("\n") + 1
    assert found.refused.startswith(f"{tmp_path}/my_rule.h:{at}: ")
    assert "nonsense" in found.refused and found.earned == 0


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (REFERENCE.replace("fast_cnp", "another"), "this lab's is fast_cnp"),
        (
            changed(("    weft_u64 rate_unit_q16;", "    weft_u64 more, rate_unit_q16;")),
            "struct fast_cnp_params has other fields than the starter's",
        ),
    ],
)
def test_header_that_nobody_could_call_is_refused(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "other.h"
    path.write_text(text)
    with pytest.raises(OwnAlgorithmError, match=why):
        GRADING.read(path)


@pytest.mark.long
def test_crash_costs_the_items_that_meet_it(tmp_path: Path) -> None:
    crash = "    if (doublings == 64)\n        *(volatile weft_u32 *)(last & 8) = 1;\n"
    found = graded_as_a_file(tmp_path, changed((COUNT, COUNT + crash)))
    died = {item.name for item in found.items if "died: SIGSEGV" in item.finding.reason}
    assert "told-again" in died
    assert found.earned == 20 - len(died) > 14


@pytest.mark.long
def test_endless_loop_is_stopped(tmp_path: Path) -> None:
    loop = "    while (doublings == 64)\n        doublings |= 0;\n"
    found = graded_as_a_file(tmp_path, changed((COUNT, COUNT + loop)), item_s=20.0)
    (reason,) = {item.finding.reason for item in found.items if item.name == "told-again"}
    assert "your file was still busy after 20 s: stopped" in reason
