"""Local repair by hand: the lab's reference gets all marks, and each mistake loses its own."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from compiler import compile_p4
from experiments import grade, grade_worker
from experiments.grade import Graded, Submission, judged
from tests.labs.answers_and_marks import earned, rewritten

FOLDER = Path(__file__).parents[2] / "labs" / "dpfr"
GRADING = grade_worker.load(FOLDER)
REFERENCE = grade.reference(FOLDER)
STARTER = (FOLDER / grade.STARTER).read_text()
FULL = {item.name: item.marks for item in GRADING.items()}

USABLE = "ways_t usable = meta.candidates & ~dead & ~mask;"
KEPT = "if (usable & (8w1 << meta.way) == 0) {"


@pytest.fixture
def graded(tmp_path: Path) -> Any:
    def graded(text: str, seed: int = 1) -> dict[str, Graded]:
        path = tmp_path / "program.p4"
        path.write_text(text)
        result = compile_p4(path)
        submission = Submission(path, result.json_text, result.p4info_text, seed)
        bench = GRADING.bench(submission)
        return {item.name: judged(item, item.judge(bench)) for item in GRADING.items()}

    return graded


changed = partial(rewritten, REFERENCE)


def pick(code: str) -> str:
    """Return the reference with another body of PickWay."""
    before, _, rest = REFERENCE.partition("// How many there are in pairs of bits")
    _, _, after = rest.partition("way = way + 1;\n        }\n")
    return before + code + after


@pytest.mark.parametrize("seed", range(1, 3))
def test_the_reference_gets_all_marks_whatever_the_seed(graded: Any, seed: int) -> None:
    assert earned(graded(REFERENCE, seed)) == FULL


def test_the_starter_routes_and_no_more(graded: Any) -> None:
    assert earned(graded(STARTER)) == {**dict.fromkeys(FULL, 0), "routes": FULL["routes"]}


FIRST_SET = "".join(f"if (ways[{n}:{n}] == 1) {{ way = {n}; }}\n" for n in reversed(range(8)))


def turned(by: str) -> str:
    """Turn the set by a number, take the first way of it, and turn that back."""
    return (
        f"bit<8> by = 5w0 ++ {by};\n"
        "bit<16> twice = ways ++ ways;\n"
        "bit<16> here = twice >> by;\n"
        "bit<8> seen = here[7:0];\n"
        "way = 0;\n"
        + "".join(f"if (seen[{n}:{n}] == 1) {{ way = {n}; }}\n" for n in reversed(range(8)))
        + "way = (way + by) & 7;\n"
    )


@pytest.mark.parametrize("seed", range(1, 3))
def test_turning_the_set_gives_the_neighbour_the_whole_share(graded: Any, seed: int) -> None:
    """Right about what is dead, and wrong about how much the next one gets."""
    found = earned(graded(pick(turned("draw[2:0]")), seed))
    assert found["evenly"] < FULL["evenly"]
    assert {**found, "evenly": 0} == {**FULL, "evenly": 0}


def test_the_first_that_is_left_gets_no_mark_for_shares(graded: Any) -> None:
    found = graded(pick(f"way = 0;\n{FIRST_SET}"))
    assert earned(found) == {**FULL, "evenly": 0}
    assert "TODO 4" in found["evenly"].finding.hint


@pytest.mark.parametrize("seed", range(1, 3))
def test_who_ignores_the_masks_loses_what_is_about_them(graded: Any, seed: int) -> None:
    found = earned(graded(changed((USABLE, "ways_t usable = meta.candidates & ~dead;")), seed))
    assert found == {**FULL, "masks": 0, "nothing-left": found["nothing-left"]}
    assert found["nothing-left"] == 0


def test_masks_of_all_leaves_at_once_are_wrong(graded: Any) -> None:
    found = graded(changed(("masks.read(mask, meta.leaf);", "masks.read(mask, 0);")))
    assert earned(found)["masks"] == 0


def test_who_moves_every_flow_loses_what_is_about_staying(graded: Any) -> None:
    found = earned(graded(changed((KEPT, "if (dead | mask != 0) {"))))
    assert found["stays"] < FULL["stays"]
    assert found["dead"] == FULL["dead"] and found["masks"] == FULL["masks"]


def test_who_takes_ways_that_do_not_lead_there_loses_marks(graded: Any) -> None:
    found = earned(graded(changed((USABLE, "ways_t usable = ~dead & ~mask;"))))
    assert found["dead"] == 0


def test_who_does_not_count_is_told(graded: Any) -> None:
    found = graded(changed(("no_way.count(meta.leaf);", "mark_to_drop(std);")))
    assert 0 < earned(found)["nothing-left"] < FULL["nothing-left"]
    (wrong,) = [row for row in found["nothing-left"].finding.details if not row.right]
    assert wrong.what == "of these counted in no_way"
