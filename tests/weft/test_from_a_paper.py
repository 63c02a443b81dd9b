"""docs/from-a-paper.md: its files, run as the page says, give the numbers that it prints."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from experiments.statistics import Estimate
from weft.cli import main

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "from-a-paper.md").read_text()
ROWS = (
    "one path (ECMP)",
    "many paths, drawn at random",
    "many paths, marked ones avoided",
    "a slow link, paths drawn at random",
    "a slow link, marked paths avoided",
)


def files(folder: Path) -> None:
    """Write the blocks of the page that begin with a file's name."""
    for block in re.findall(r"(?:^    .*\n)+", PAGE, re.MULTILINE):
        lines = [line.removeprefix("    ") for line in block.splitlines()]
        if match := re.fullmatch(r"# (\w+\.(?:cm|yaml))", lines[0]):
            (folder / match.group(1)).write_text("\n".join(lines[1:]) + "\n")


def test_the_page_has_all_its_files_and_its_run_file_is_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files(tmp_path)
    assert {each.name for each in tmp_path.iterdir()} == {
        "perm16.cm",
        "perm16.yaml",
        "sweep16.yaml",
    }
    monkeypatch.chdir(tmp_path)
    assert main(["lint", "perm16.yaml", "--strict"]) == 0
    assert "nothing to complain about" in capsys.readouterr().out


@pytest.mark.long
def test_the_sweep_gives_the_numbers_of_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["sweep", "sweep16.yaml", "--out", "out"]) == 0
    points = json.loads((tmp_path / "out" / "results.json").read_text())["points"]
    assert len(points) == len(ROWS)
    for name, point in zip(ROWS, points, strict=True):
        found = Estimate.of([run["metrics"]["fct_max"] / 1e6 for run in point["runs"]], "us")
        assert found.n == 12
        [row] = [line for line in PAGE.splitlines() if line.startswith(f"| {name} |")]
        assert f" {found} " in row
