"""`weft grade --all`: a class in one table; an answer that hangs or crashes costs its own marks."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from observe.errors import UsageError
from weft import cli, grade_all

GRADING = """
import os, signal, time
from experiments.grade import Detail, Finding, Item

def read(path):
    return path.read_text().strip()
def bench(submission):
    return submission.content
def works(bench):
    if bench == "hangs":
        time.sleep(1000)
    if bench == "dies":
        os.kill(os.getpid(), signal.SIGSEGV)
    if bench == "ends the grader":
        os.kill(os.getppid(), signal.SIGKILL)
    return Finding.of([Detail.of("word", "right", bench)], "say it")
def items():
    return [Item("works", "TODO 1", 4, "it says right", works)]
"""
ANSWERS = {
    "ann.txt": "right",
    "bob.txt": "wrong",
    "cy.txt": "dies",
    "dee.txt": "ends the grader",
    "eve.txt": "hangs",
    "fay/starter.txt": "wrong",
    "fay/mine.txt": "right",
    "gus/notes.md": "none",
    ".hidden.txt": "right",
}


@pytest.fixture
def labs(tmp_path: Path) -> Path:
    folder = tmp_path / "labs" / "made-up"
    folder.mkdir(parents=True)
    (folder / "grading.py").write_text(GRADING)
    (folder / "starter.txt").write_text("wrong")
    (folder / "lab.yaml").write_text("title: t\nruntimes: [simulator]\nvariants: {one: {}}\n")
    for name, text in ANSWERS.items():
        path = tmp_path / "answers" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "labs"


@pytest.mark.long
def test_each_answer_costs_its_own_marks(
    labs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "marks.csv"
    where = ["--labs", str(labs), "--all", str(tmp_path / "answers"), "-o", str(out)]
    assert cli.main(["grade", "made-up", *where, "--seed", "5", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    rows = {row["student"]: row for row in report["answers"]}
    assert report["seed"] == 5
    assert list(rows) == ["ann", "bob", "cy", "dee", "eve", "fay", "gus"]
    assert {name: row["earned"] for name, row in rows.items()} == {
        "ann": 4, "bob": 0, "cy": 0, "dee": 0, "eve": 0, "fay": 4, "gus": 0,
    }  # fmt: skip
    assert rows["ann"]["missing"] == "" and rows["bob"]["missing"].startswith("TODO 1: 1 of 1")
    assert rows["cy"]["missing"] == "TODO 1: your file died: SIGSEGV" and not rows["cy"]["problem"]
    assert "the grader ended with" in rows["dee"]["problem"]
    assert rows["eve"]["missing"] == "TODO 1: your file was still busy after 20 s: stopped"
    assert rows["gus"]["problem"] == "no file *.txt in the folder"
    with out.open(newline="") as file:
        assert [row["student"] for row in csv.DictReader(file)] == list(rows)


@pytest.mark.long
def test_an_answer_is_ended_after_the_limit(
    labs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (labs / "made-up" / "grading.py").write_text(f"{GRADING}\nITEM_S = 1e4\n")
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "eve.txt").write_text("hangs")
    where = ["--labs", str(labs), "--all", str(tmp_path / "one"), "--limit", "5", "--json"]
    assert cli.main(["grade", "made-up", *where]) == 1
    (row,) = json.loads(capsys.readouterr().out)["answers"]
    assert row["problem"] == "not done after 5 s"


def test_what_cannot_be_is_said_before_anything_is_graded(
    labs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    taken = tmp_path / "taken.csv"
    taken.write_text("mine")
    (tmp_path / "empty").mkdir()
    asked = ["grade", "made-up", "--labs", str(labs)]
    every = [*asked, "--all", str(tmp_path / "answers")]
    for words, said in (
        ([*asked, "--all", str(tmp_path / "none")], "none: no such folder"),
        ([*asked, "--all", str(labs.parent / "empty")], "no file NAME.txt"),
        ([*every, "-o", str(taken)], "taken.csv: exists already"),
        ([*every, "--reference"], "give one of --p4 FILE"),
        ([*every, "--limit", "0"], "--limit 0: give seconds"),
        ([*asked, "--reference", "-o", "x.csv"], "-o goes with --all"),
    ):
        assert cli.main(words) == 2, words
        assert said in capsys.readouterr().err
    assert taken.read_text() == "mine"


def test_a_folder_with_two_answers_is_named(tmp_path: Path) -> None:
    for name in ("ann/a.p4", "ann/b.p4", "bob/deep/x.p4"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    ann, bob = grade_all.answers(tmp_path, ".p4")
    assert ann.problem == "2 files *.p4 (a.p4, b.p4): keep one"
    assert bob.file == tmp_path / "bob" / "deep" / "x.p4"
    with pytest.raises(UsageError, match=r"no file NAME\.h"):
        (tmp_path / "empty").mkdir()
        grade_all.answers(tmp_path / "empty", ".h")


def test_no_cell_of_the_csv_is_a_formula() -> None:
    text = grade_all._as_csv([grade_all.Marks("=cmd()", "f", missing="-1", problem="ok")])
    assert text.splitlines()[1] == "'=cmd(),f,0,0,0,'-1,ok"
