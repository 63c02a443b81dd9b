"""docs/labs.md: its first lab runs as it stands there, and what it names is there."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import labs
from emulation import run_state
from experiments import results
from experiments.schema import LabEntry
from experiments.statistics import median_rank
from weft import cli

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "labs.md").read_text()


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


def write_by_hand(labs_folder: Path) -> None:
    """Write the lab with a program of its own into a folder of labs."""
    folder = labs_folder / "by-hand"
    folder.mkdir(parents=True)
    written = re.findall(r"`labs/by-hand/(\S+?)`[^\n]*:\n\n```\w*\n(.*?)```", PAGE, flags=re.DOTALL)
    assert [name for name, _ in written] == [
        "lab.yaml", "s1-commands.txt", "s2-commands.txt", "checks.py"
    ]  # fmt: skip
    for name, text in written:
        (folder / name).write_text(text)
    shutil.copy(DOCS / "my-own-p4" / "forward.p4", folder)


def test_a_variant_with_a_program_of_its_own_runs_as_it_stands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_by_hand(tmp_path / "labs")
    where = ["--labs", str(tmp_path / "labs"), "--out", str(tmp_path / "out")]
    assert cli.main(["lab", "run", "by-hand", "--workers", "2", *where]) == 0
    assert "by-hand: controller: none for all switches, with forward.p4" in capsys.readouterr().err
    found = results.read(tmp_path / "out")
    hashed, by_hand = (variant.metrics["slower"].values for variant in found.variants)
    assert all(each is not None and 60 < each < 80 for each in by_hand)
    # 2200 B frames of two flows on one link, or on two: that the seed decides.
    assert {round(each, -1) for each in hashed if each is not None} == {70, 140}
    parameters = found.variants[1].parameters
    assert parameters["program"] == "forward.p4"
    assert "program" not in found.variants[0].parameters


@pytest.mark.long
@pytest.mark.root
def test_a_variant_with_a_program_of_its_own_runs_in_real_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(run_state.RUN_ROOT_VARIABLE, str(tmp_path / "run"))
    monkeypatch.setenv(run_state.LOG_ROOT_VARIABLE, str(tmp_path / "log"))
    write_by_hand(tmp_path / "labs")
    where = ["--labs", str(tmp_path / "labs"), "--out", str(tmp_path / "out")]
    chosen = ["--runtime", "softswitch", "--variant", "by-hand"]
    cli.main(["lab", "run", "by-hand", *chosen, *where])
    (variant,) = results.read(tmp_path / "out").variants
    assert [run.failure for run in variant.runs] == [""]
    (late,) = variant.metrics["slower"].values
    assert late is not None and late > 60  # the machine may be slow, the fabric never faster


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
