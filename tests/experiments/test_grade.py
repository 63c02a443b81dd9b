"""Grading as such: what becomes of programs that don't compile, get stuck or kill the switch.

The labs here are made for the purpose: their grading.py does to its own process what a learner's
program might do to the switch.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from compiler import compile_p4
from experiments import grade, grade_worker
from experiments.errors import HookError
from experiments.grade import Detail, Finding, GradeError, Item, Submission, judged
from weft import cli

PROGRAM = """
#include <core.p4>
#include <v1model.p4>
struct empty_t { }
parser P(packet_in p, out empty_t h, inout empty_t m, inout standard_metadata_t s) {
    state start { transition accept; }
}
control V(inout empty_t h, inout empty_t m) { apply { } }
control I(inout empty_t h, inout empty_t m, inout standard_metadata_t s) { apply { } }
control E(inout empty_t h, inout empty_t m, inout standard_metadata_t s) { apply { } }
control D(packet_out p, in empty_t h) { apply { } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
"""

GRADING = """
import os, signal, time
from experiments.grade import Detail, Finding, Item
from . import words

def right(bench): return Finding.of([Detail.of("seed", bench, bench)])
def half(bench): return Finding.of([Detail.of("a", 1, 1), Detail.of("b", 2, 3)], words.HINT)
def stuck(bench):
    while True:
        time.sleep(1)
def dies(bench): os.kill(os.getpid(), signal.SIGSEGV)
def asks(bench):
    from softswitch.p4runtime.names import UnknownName
    raise UnknownName("no table 'route'")

def bench(submission): return submission.seed
def items(): return [Item(f.__name__, f.__name__, 4, "as it should be", f) for f in TRIED]
"""


@pytest.fixture
def lab(tmp_path: Path) -> Any:
    """Return a lab whose items are these functions of GRADING, and a program that compiles."""

    def lab(*tried: str) -> tuple[Path, Path]:
        folder = tmp_path / "made-up"
        folder.mkdir()
        (folder / "grading.py").write_text(f"{GRADING}\nTRIED = [{', '.join(tried)}]\n")
        (folder / "words.py").write_text("HINT = 'look again'\n")
        (folder / "lab.yaml").write_text(
            "title: made up\nruntimes: [simulator]\nprogram: p4src/base.p4\nvariants: {one: {}}\n"
        )
        program = tmp_path / "mine.p4"
        program.write_text(PROGRAM)
        return folder, program

    return lab


def test_marks_are_whole_and_full_only_when_everything_is_right() -> None:
    item = Item("i", "i", 3, "", lambda bench: Finding(0))
    for wrong, marks in ((0, 3), (1, 2), (5, 1), (9, 0)):
        rows = [Detail.of(str(n), 0, int(n < wrong)) for n in range(9)]
        assert judged(item, Finding.of(rows, "hint")).earned == marks
    assert Finding.of([Detail.of("n", 1, 1)], "hint").hint == ""


def test_an_item_that_is_stuck_or_kills_the_switch_costs_its_own_marks_only(lab: Any) -> None:
    folder, program = lab("right", "stuck", "half", "dies", "asks", "right")
    heard: list[str] = []
    found = grade_worker.grade(
        "made-up", folder, program, seed=7, item_s=10.0, tell=lambda item: heard.append(item.name)
    )
    assert [(item.name, item.earned) for item in found.items] == [
        ("right", 4), ("stuck", 0), ("half", 2), ("dies", 0), ("asks", 0), ("right", 4),
    ]  # fmt: skip
    assert heard == [item.name for item in found.items]
    reasons = [item.finding.reason for item in found.items]
    assert reasons[1] == "the switch was still busy after 10 s: stopped"
    assert reasons[2] == "1 of 2 are wrong: b"
    assert reasons[3] == "the switch died: SIGSEGV"
    assert "no table 'route'" in reasons[4]
    assert found.items[2].finding.hint == "look again"
    assert found.items[0].finding.details == (Detail("seed", "7", "7", True),)
    assert (found.earned, found.marks, found.is_full) == (10, 24, False)


def test_a_switch_that_dies_again_and_again_is_not_started_for_ever(lab: Any) -> None:
    folder, program = lab("dies", "dies", "dies", "right")
    found = grade_worker.grade("made-up", folder, program)
    assert found.earned == 0
    assert found.items[3].finding.reason.startswith("not judged")


def test_a_program_that_does_not_compile_gets_no_marks_and_the_compilers_words(
    lab: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, program = lab("right")
    program.write_text(PROGRAM.replace("transition accept", "transition acept"))
    arguments = ["grade", "made-up", "--p4", str(program), "--labs", str(folder.parent)]
    assert cli.main(arguments) == 1
    shown = capsys.readouterr().out
    assert f"{program}:6" in shown and '"acept"' in shown
    assert "0 of 4 marks" in shown
    assert cli.main([*arguments, "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert "acept" in report["refused"]
    assert report["items"][0]["reason"] == "the program does not compile"


def test_json_says_what_was_expected_and_what_came(
    lab: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, program = lab("right", "half")
    arguments = ["grade", "made-up", "--p4", str(program), "--labs", str(folder.parent)]
    assert cli.main([*arguments, "--seed", "3", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["earned"], report["marks"], report["seed"]) == (6, 8, 3)
    assert report["items"][1]["details"] == [
        {"what": "a", "expected": "1", "came": "1", "right": True},
        {"what": "b", "expected": "2", "came": "3", "right": False},
    ]
    (folder / "grading.py").write_text(f"{GRADING}\nTRIED = [right]\n")
    assert cli.main(arguments) == 0
    assert "4 of 4 marks" in capsys.readouterr().out


def test_what_is_not_there_is_said_in_a_line(lab: Any, capsys: pytest.CaptureFixture[str]) -> None:
    folder, program = lab("right")
    labs = ["--labs", str(folder.parent)]
    assert cli.main(["grade", "made-up", "--p4", "nowhere.p4", *labs]) == 2
    assert "nowhere.p4: no such file" in capsys.readouterr().err
    assert cli.main(["grade", "mad-up", "--p4", str(program), *labs]) == 2
    assert "made-up" in capsys.readouterr().err
    assert cli.main(["grade", "made-up", "--reference", *labs]) == 2
    assert "starter.p4: no such file" in capsys.readouterr().err
    (folder / "grading.py").unlink()
    assert cli.main(["grade", "made-up", "--p4", str(program), *labs]) == 2
    assert "nothing to grade" in capsys.readouterr().err


def test_a_lab_may_read_what_is_no_p4_program(lab: Any, capsys: pytest.CaptureFixture[str]) -> None:
    folder, program = lab("right")
    (folder / "grading.py").write_text(
        f"""{GRADING}
def read(path):
    text = path.read_text()
    if "1" not in text:
        raise ValueError(f"{{path}}:1: no 1 in it")
    return text
def bench(submission): return submission.content
def is_one(bench): return Finding.of([Detail.of("text", "1", bench)])
TRIED = [is_one, stuck]
ITEM_S = 2.0
"""
    )
    answer = folder.parent / "mine.txt"
    answer.write_text("1")
    asked = ["grade", "made-up", "--labs", str(folder.parent), "--json"]
    assert cli.main([*asked, "--answer", str(answer)]) == 1
    report = json.loads(capsys.readouterr().out)
    assert [item["earned"] for item in report["items"]] == [4, 0]
    assert report["items"][1]["reason"] == "your file was still busy after 2 s: stopped"
    answer.write_text("2")
    assert cli.main([*asked, "--answer", str(answer)]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["refused"] == f"{answer}:1: no 1 in it"
    assert report["items"][0]["reason"] == "it can't be read"
    assert cli.main([*asked, "--p4", str(program)]) == 2
    assert "not answered with a P4 program: --answer FILE" in capsys.readouterr().err


def test_p4_is_asked_for_where_a_lab_reads_nothing(
    lab: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, program = lab("right")
    asked = ["grade", "made-up", "--labs", str(folder.parent), "--answer", str(program)]
    assert cli.main(asked) == 2
    assert "answered with a P4 program: --p4 FILE" in capsys.readouterr().err


def test_a_mistake_in_grading_is_the_labs_and_not_the_learners(lab: Any) -> None:
    folder, program = lab("right")
    (folder / "grading.py").write_text(f"{GRADING}\ndef wrong(bench): 1 / 0\nTRIED = [wrong]\n")
    with pytest.raises(HookError, match="ZeroDivisionError"):
        grade_worker.grade("made-up", folder, program)


@pytest.mark.parametrize(
    "diff, wanted",
    [
        ("@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n", "a\nB\nc\nd\n"),
        ("@@ -4 +4,2 @@\n d\n+e\n", "a\nb\nc\nd\ne\n"),
        ("@@ -1,2 +1 @@\n-a\n b\n@@ -3,2 +2,2 @@\n c\n-d\n+D\n", "b\nc\nD\n"),
    ],
)
def test_a_diff_is_applied(diff: str, wanted: str) -> None:
    assert grade.patched("a\nb\nc\nd\n", diff, Path("x.diff")) == wanted


@pytest.mark.parametrize(
    "diff, why",
    [
        ("@@ -1,2 +1 @@\n-a\n c\n", "x.diff:3: does not fit the starter's line 2"),
        ("@@ -4,2 +4 @@\n d\n-e\n", "x.diff:3: does not fit the starter's line 5"),
        ("@@ what @@\n", "x.diff:1: is no unified diff"),
        ("junk\n", "x.diff:1: does not fit"),
    ],
)
def test_a_diff_that_does_not_fit_is_refused(diff: str, why: str) -> None:
    with pytest.raises(GradeError, match=why):
        grade.patched("a\nb\nc\nd\n", diff, Path("x.diff"))


def test_the_example_of_the_page_grades(lab: Any) -> None:
    page = Path(__file__).parents[2] / "docs" / "labs.md"
    text = page.read_text().partition("## Grading what learners write")[2]
    folder, program = lab("right")
    (folder / "grading.py").write_text(re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0])
    grading = grade_worker.load(folder)
    ingress = "control I(inout empty_t h, inout empty_t m, inout standard_metadata_t s) { apply { "
    for port, earned in ((1, 2), (511, 0)):  # 511: dropped
        program.write_text(PROGRAM.replace(ingress, f"{ingress}s.egress_spec = {port}; "))
        result = compile_p4(program)
        bench = grading.bench(Submission(program, result.json_text, result.p4info_text, 1))
        (item,) = grading.items()
        assert judged(item, item.judge(bench)).earned == earned
