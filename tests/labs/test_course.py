"""labs/README.md: every lab has its row, and a row says what the lab's folder says."""

from __future__ import annotations

import re

import pytest

from experiments import grade, loader
from experiments.api import Runtime
from experiments.lab_text import for_learners

PAGE = (loader.DIRECTORY / "README.md").read_text()
ROW = re.compile(
    r"^\| \[([\w-]+)\]\(([\w-]+)/README\.md\) \| ([\d.]+) \| ([\w ]+) \| (\w+) \| ", re.M
)
ROWS = {found[1]: found for found in ROW.finditer(PAGE)}
WRITES = {".p4": "P4", ".h": "C", ".py": "Python"}


@pytest.mark.parametrize("name", loader.available())
def test_a_lab_has_a_row_that_is_true(name: str) -> None:
    lab = loader.load(name)
    live = any(runtime.is_live for runtime in lab.entry.runtimes)
    real = ("yes" if Runtime.SIMULATOR in lab.entry.runtimes else "only") if live else "no"
    graded = (lab.folder / grade.GRADING).is_file()
    writes = WRITES[grade.starter_of(lab.folder).suffix] if graded else "nothing"
    wanted = f"| [{name}]({name}/README.md) | HOURS | {writes} | {real} | TEACHES | BELONGS TO |"
    assert name in ROWS, f"labs/README.md has no row for the lab {name}; add {wanted}"
    assert ROWS[name].group(2, 4, 5) == (name, writes, real), f"labs/README.md should say {wanted}"


def test_every_row_is_a_lab() -> None:
    assert set(ROWS) <= set(loader.available())
    assert len(ROWS) == PAGE.count("/README.md) | ")


@pytest.mark.parametrize("name", loader.available())
def test_no_answer_lies_in_a_learners_folder(name: str) -> None:
    """Neither the lab's folder nor its text for learners has the solution or its place."""
    folder = loader.DIRECTORY / name
    kept = folder / grade.REFERENCE
    assert not kept.exists(), f"git mv labs/{name}/{grade.REFERENCE} labs/solutions/{name}.diff"
    text = for_learners((folder / "README.md").read_text())
    for word in ("labs/solutions", grade.REFERENCE, "patch -o"):
        assert word not in text, f"labs/{name}/README.md, outside of 'For teachers': {word}"


def test_every_solution_is_a_labs() -> None:
    solutions = {path.stem for path in (loader.DIRECTORY / grade.SOLUTIONS).glob("*.diff")}
    graded = {n for n in loader.available() if (loader.DIRECTORY / n / grade.GRADING).is_file()}
    assert solutions == graded
