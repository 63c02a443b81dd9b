"""docs/labs.md: its first lab runs as it stands there, and what it names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import labs
from experiments import results
from experiments.schema import LabEntry
from experiments.statistics import median_rank
from weft import cli

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "labs.md").read_text()


def test_the_first_lab_runs_as_it_stands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "labs" / "two-share"
    folder.mkdir(parents=True)
    written = re.findall(r"`labs/two-share/(\S+)`:\n\n```\w+\n(.*?)```", PAGE, flags=re.DOTALL)
    assert [name for name, _ in written] == ["lab.yaml", "checks.py"]
    for name, text in written:
        (folder / name).write_text(text)
    where = ["--labs", str(tmp_path / "labs"), "--out", str(tmp_path / "out")]
    assert cli.main(["lab", "run", "two-share", "--seeds", "1", "--workers", "1", *where]) == 0
    found = results.read(tmp_path / "out")
    assert [check.verdict for check in found.checks] == ["pass", "pass", "reported"]
    assert "_" not in "".join(figure.file for figure in found.figures)


def test_every_key_of_lab_yaml_is_told() -> None:
    table = PAGE.partition("## lab.yaml")[2].partition("## checks.py")[0]
    missing = [key for key in LabEntry.model_fields if f"`{key}`" not in table]
    assert not missing


def test_every_member_of_results_json_is_told() -> None:
    text = PAGE.partition("## Numbers")[2]
    models = (
        results.LabResult, results.VariantResult, results.MetricResult, results.RunResult,
        results.CheckResult, results.FigureResult,
    )  # fmt: skip
    told = set(re.findall(r"`(\w+)(?:\[\])?`", text))
    for model in models:
        assert not set(model.model_fields) - told - {"format"}, model.__name__


def test_ranks_in_the_text_are_those_in_use() -> None:
    assert "(n = 6 to 8: k = 1; 9 to 11: 2; 20: 6)" in PAGE
    assert [median_rank(n) for n in (6, 8, 9, 11, 20)] == [1, 1, 2, 2, 6]


def test_what_checks_py_takes_is_in_the_package() -> None:
    for name in re.findall(r"from labs import (.*)", PAGE)[0].split(", "):
        assert hasattr(labs, name)
