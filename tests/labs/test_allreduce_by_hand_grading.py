"""AllReduce by hand: the reference gets all marks, and each mistake loses those it is about."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from compiler import compile_p4
from controller.program import CompiledProgram
from experiments import grade, grade_worker, loader
from experiments.api import Check, Context, Finished, Runtime, Table, Verdict
from experiments.grade import Graded, Submission, judged
from experiments.lab_code import Hooks
from tests.labs.answers_and_marks import earned, rewritten

FOLDER = Path(__file__).parents[2] / "labs" / "allreduce-by-hand"
GRADING = grade_worker.load(FOLDER)
REFERENCE = grade.reference(FOLDER)
STARTER = (FOLDER / grade.STARTER).read_text()
FULL = {item.name: item.marks for item in GRADING.items()}

BEGINS = "if (seen == 0 || ahead[31:31] == 1) {"
NOT_YET = "if (seen & meta.own == 0) {"
LEFT = "bit<32> left = (stored ^ sum) & (lane ^ sum);"

# As SwitchML published it: a contribution clears the worker's bit in the other version, and a
# version counts contributions; none: it is done. `chunks` holds the count.
SWITCHML = """        bit<32> count;
        workers_t seen;
        workers_t other;
        bit<1> overflow;
        chunks.read(count, meta.cell);
        bitmaps.read(seen, meta.cell);
        overflows.read(overflow, meta.cell);
        if (seen & meta.own == 0) {
            Use use = Use.ADD;
            if (count == 0) {
                use = Use.STORE;
                overflow = 0;
            }
            fold.apply(hdr.lanes, meta.cell, use, overflow);
            bitmaps.read(other, meta.cell ^ SLOTS);
            bitmaps.write(meta.cell ^ SLOTS, other & ~meta.own);
            bitmaps.write(meta.cell, seen | meta.own);
            overflows.write(meta.cell, overflow);
            hdr.allreduce.overflow = overflow;
            count = count + 1 & 3;
            chunks.write(meta.cell, count);
            if (count == 0) {
                send_to_all();
            }
        } else if (count == 0) {
            fold.apply(hdr.lanes, meta.cell, Use.READ, overflow);
            hdr.allreduce.overflow = overflow;
            answer();
        }
"""


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


def slots(code: str) -> str:
    """Return the reference with another body of the slot logic."""
    before, _, rest = REFERENCE.partition("        bit<32> chunk;\n")
    _, _, after = rest.partition("                answer();\n            }\n        }\n")
    assert before and after
    return before + code + after


def wrong(item: Graded) -> list[str]:
    return [row.what for row in item.finding.details if not row.right]


@pytest.mark.parametrize("seed", range(1, 3))
def test_reference_gets_all_marks_whatever_the_seed(graded: Any, seed: int) -> None:
    assert earned(graded(REFERENCE, seed)) == FULL
    assert sum(FULL.values()) == 20


def test_reference_compiles_without_warnings(tmp_path: Path) -> None:
    path = tmp_path / "reference.p4"
    path.write_text(REFERENCE)
    assert [str(each) for each in compile_p4(path, diagnostics=["Werror"]).warnings] == []


def test_starter_drops_strangers_and_no_more(graded: Any) -> None:
    found = graded(STARTER)
    assert earned(found) == {**dict.fromkeys(FULL, 0), "strangers": FULL["strangers"]}
    assert found["one-round"].finding.reason == GRADING.NO_RESULT


def test_versions_and_bitmaps_alone_let_late_duplicates_in(graded: Any) -> None:
    """SwitchML's rule: everything else is right, and sums are wrong."""
    found = graded(slots(SWITCHML))
    assert earned(found)["late"] == 0
    (trap, *_) = found["late"].finding.details
    assert not trap.right and "SwitchML" in trap.what
    schedules = earned(found)["schedules"]
    assert earned(found) == {**FULL, "late": 0, "schedules": schedules}
    assert "random schedule, lost, twice, and in any order" in wrong(found["schedules"])


def test_a_late_packet_that_begins_a_round_loses_marks(graded: Any) -> None:
    found = earned(graded(changed((BEGINS, "if (seen == 0 || ahead != 0) {"))))
    assert found["late"] == 1  # before the next round the chunk is the cell's own
    assert found == {**FULL, "late": 1, "schedules": found["schedules"]}


def test_chunks_compared_without_wrapping_lose_one_mark(graded: Any) -> None:
    found = earned(graded(changed((BEGINS, "if (seen == 0 || hdr.allreduce.chunk > chunk) {"))))
    assert {**found, "schedules": FULL["schedules"]} == {**FULL, "wrap": 0}


def test_adding_duplicates_loses_what_is_about_them(graded: Any) -> None:
    found = graded(changed((NOT_YET, "if (seen != meta.all) {")))
    assert earned(found)["duplicates"] == 0
    assert earned(found)["one-round"] == FULL["one-round"]
    row = next(row for row in found["duplicates"].finding.details if not row.right)
    assert "worker" in row.what and row.expected.startswith("result of chunk")


def test_results_that_are_not_stored_lose_marks(graded: Any) -> None:
    found = graded(changed(("                answer();\n", "")))
    assert earned(found)["repeats"] == 0 and earned(found)["duplicates"] == FULL["duplicates"]
    assert any("has no result of chunk" in row.came for row in found["schedules"].finding.details)


def test_answers_to_all_lose_marks(graded: Any) -> None:
    found = earned(graded(changed(("                answer();\n", "send_to_all();\n"))))
    assert found["repeats"] == 0 and found["schedules"] == FULL["schedules"]


def test_sums_that_are_never_overwritten_lose_what_is_about_rounds(graded: Any) -> None:
    found = earned(graded(changed(("use = Use.STORE;\n", "use = Use.ADD;\n"))))
    assert found["rounds"] == 0 and found["one-round"] == FULL["one-round"]


@pytest.mark.parametrize("new", ["bit<32> left = 0;", "bit<32> left = ~(stored ^ lane);"])
def test_wrong_overflow_flags_lose_marks(graded: Any, new: str) -> None:
    found = earned(graded(changed((LEFT, new))))
    assert found["overflow"] < FULL["overflow"] and found["strangers"] == FULL["strangers"]


def test_flag_that_is_not_cleared_loses_marks(graded: Any) -> None:
    found = earned(graded(changed(("            overflow = 0;\n", ""))))
    assert found == {**FULL, "overflow": found["overflow"]}
    assert found["overflow"] < FULL["overflow"]


def test_lanes_that_trade_places_lose_marks(graded: Any) -> None:
    swapped = ("fold_6.apply(lanes.lane_6,", "fold_6.apply(lanes.lane_5,")
    found = graded(changed(swapped))
    assert earned(found)["one-round"] == 2
    assert wrong(found["one-round"]) == ["their sums"]


def test_programs_that_check_nothing_lose_strangers(graded: Any) -> None:
    check = "hdr.allreduce.kind == Kind.CONTRIBUTION"
    found = earned(graded(changed((check, "hdr.allreduce.kind != Kind.RESULT"))))
    assert found == {**FULL, "strangers": 1}


# ---------------------------------------------------------------- the lab's runs


def ran(tmp_path: Path, variant: str, text: str = "") -> tuple[Path, dict[str, Check]]:
    """Run a variant with the reference, or a program of these lines; return folder and checks."""
    lab, hooks = loader.load("allreduce-by-hand"), Hooks.of(FOLDER)
    planned = {each.variant.name: each.variant for each in lab.variants(Runtime.SIMULATOR)}
    path = tmp_path / "program.p4"
    path.write_text(text or STARTER)
    context = Context(
        lab=lab.name,
        folder=FOLDER,
        variant=planned[variant],
        mapping={},
        seed=1,
        runtime=Runtime.SIMULATOR,
        time_scale=1,
        out=tmp_path,
        program=CompiledProgram.of(compile_p4(path), path, given=bool(text)),
        settings=lab.entry.settings,
    )
    metrics = hooks.call("measure_simulator", context)
    run = Finished(context.variant, 1, Runtime.SIMULATOR, 1, tmp_path, metrics)
    table = Table(Runtime.SIMULATOR, 1, [run], list(planned.values()))
    return tmp_path, {check.row: check for check in hooks.call("checks", table)}


def failed(checks: Mapping[str, Check]) -> set[str]:
    return {row for row, check in checks.items() if check.verdict is Verdict.FAIL}


@pytest.mark.parametrize("variant", ["undisturbed", "everything"])
def test_lab_passes_with_the_reference(tmp_path: Path, variant: str) -> None:
    _, checks = ran(tmp_path, variant)
    assert failed(checks) == set()
    assert checks[f"{variant}: missing results"].verdict is Verdict.PASS


def test_lab_finds_the_wrong_sums_of_the_program_that_is_given(tmp_path: Path) -> None:
    folder, checks = ran(tmp_path, "duplicates", slots(SWITCHML))
    assert failed(checks) == {"duplicates: wrong results"}
    assert " instead of " in (folder / "wrong.txt").read_text()


def test_lab_fails_with_the_starter(tmp_path: Path) -> None:
    _, checks = ran(tmp_path, "undisturbed", STARTER)
    missing = {"undisturbed: missing results", "undisturbed: contributions repeated"}
    assert failed(checks) == missing
