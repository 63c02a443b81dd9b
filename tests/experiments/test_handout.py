"""What learners get of a lab: no answer, no teachers' section, links that hold; and new labs."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from experiments import loader, results
from experiments.lab_text import for_learners, relinked
from experiments.report import rendered
from weft import cli

ROOT = loader.ROOT


def test_sections_for_teachers_end_at_the_next_heading_as_high() -> None:
    text = "# A\n\n## For teachers\n\nx\n### more\ny\n\n```\n## no heading\n```\n## Limits\nz\n"
    assert for_learners(text) == "# A\n\n## Limits\nz\n"
    assert for_learners("# A\n```\n## For teachers\n```\nb\n") == (
        "# A\n```\n## For teachers\n```\nb\n"
    )
    assert for_learners("## for Teachers ##\nx\n") == ""


def test_links_hold_or_become_words(tmp_path: Path) -> None:
    text = "[a](../../docs/labs.md#x) [docs/labs.md](../../docs/labs.md) [b](own.py) [c](#here)\n"
    text += "![p](p.png) [d](https://example.org/) `[e](f.md)`\n\n```\n[g](h.md)\n```\n"

    def place(path: Path, shown: bool) -> str | None:
        return f"pictures/{path.name}" if shown else None

    folder = ROOT / "labs" / "cnp-by-hand"
    assert relinked(text, folder, ROOT, place).splitlines()[:2] == [
        "a (`docs/labs.md` in Weft) docs/labs.md b (`labs/cnp-by-hand/own.py` in Weft) [c](#here)",
        "![p](pictures/p.png) [d](https://example.org/) `[e](f.md)`",
    ]
    assert "[g](h.md)" in relinked(text, folder, ROOT, place)


@pytest.mark.parametrize("name", loader.available())
def test_a_handout_has_no_answer_and_only_links_that_hold(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert cli.main(["lab", "handout", name, str(out)]) == 0
    text = (out / "README.md").read_text()
    files = {path.name for path in out.rglob("*")}
    assert not files & {"grading.py", "reference.diff", "checks.py", "lab.yaml"}
    assert (
        len([file for file in files if file.startswith("starter.")])
        == (loader.DIRECTORY / name / "grading.py").is_file()
    )
    assert "For teachers" not in text and "solutions/" not in text
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if not target.startswith(("http", "#")):
            assert (out / target).is_file(), target
    page = rendered(for_learners((loader.DIRECTORY / name / "README.md").read_text()),
                    loader.DIRECTORY / name)  # fmt: skip
    assert not re.findall(r'href="(?!http|#)[^"]*"', page)
    assert str(ROOT) not in page


def test_a_handout_goes_into_an_empty_place_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    taken = tmp_path / "taken"
    taken.mkdir()
    assert cli.main(["lab", "handout", "cnp-by-hand", str(taken)]) == 0  # empty: fine
    assert cli.main(["lab", "handout", "cnp-by-hand", str(taken)]) == 2
    assert "taken: is not an empty folder" in capsys.readouterr().err
    assert cli.main(["lab", "handout", "cnp-by-hnd", str(tmp_path / "x")]) == 2
    assert "did you mean 'cnp-by-hand'" in capsys.readouterr().err
    assert cli.main(["lab", "handout", "cnp-by-hand", str(tmp_path / "z"), "--zip"]) == 0
    with zipfile.ZipFile(tmp_path / "z.zip") as packed:
        names = {name for name in packed.namelist() if not name.endswith("/")}
    assert names == {"z/README.md", "z/starter.p4"}
    assert cli.main(["lab", "handout", "cnp-by-hand", str(tmp_path / "z"), "--zip"]) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["taken", "z.zip"]


def new(tmp_path: Path, *arguments: str) -> int:
    """`weft lab new`, in a folder of labs of its own."""
    return cli.main(["lab", "new", *arguments, "--labs", str(tmp_path / "labs")])


@pytest.mark.long
def test_a_new_lab_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a program of one's own; docs/first-lab.md's test runs one with it."""
    assert new(tmp_path, "two-ways") == 0
    where = ["--labs", str(tmp_path / "labs"), "--out", str(tmp_path / "out")]
    assert cli.main(["lab", "run", "two-ways", "--seeds", "1", "--workers", "1", *where]) == 0
    assert "pass: " in capsys.readouterr().out
    assert len(results.read(tmp_path / "out").variants) == 2


def test_a_new_lab_is_in_the_houses_form(tmp_path: Path) -> None:
    program = str(ROOT / "docs" / "my-own-p4" / "forward.p4")
    assert new(tmp_path, "two-ways") == 0
    assert new(tmp_path, "with-mine", "--p4", program) == 0
    config = ["--config", str(ROOT / "pyproject.toml"), str(tmp_path / "labs")]
    for command in (["check", "--no-cache"], ["format", "--check", "--no-cache"]):
        subprocess.run([sys.executable, "-m", "ruff", *command, *config], check=True)
    entries = (tmp_path / "labs" / "with-mine" / "s1-commands.txt").read_text()
    assert (
        "# table_add MyIngress.route MyIngress.forward <hdr.ipv4.destination>/<bits> => "
        "<destination> <port>\n"
    ) in entries


def test_a_new_lab_overwrites_nothing_and_a_mistake_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert new(tmp_path, "mine") == 0
    before = (tmp_path / "labs" / "mine" / "lab.yaml").read_bytes()
    assert new(tmp_path, "mine") == 2
    assert "mine: exists already" in capsys.readouterr().err
    assert (tmp_path / "labs" / "mine" / "lab.yaml").read_bytes() == before
    assert new(tmp_path, "../out") == 2
    assert new(tmp_path, "other", "--p4", "nowhere.p4") == 2
    broken = tmp_path / "broken.p4"
    broken.write_text("control C() { apply { } \n")
    assert new(tmp_path, "other", "--p4", str(broken)) == 1
    outside = tmp_path / "p" / "outside.p4"
    outside.parent.mkdir()
    text = (ROOT / "docs" / "my-own-p4" / "forward.p4").read_text()
    outside.write_text(f'#include "../beside.p4"\n{text}')
    (tmp_path / "beside.p4").write_text("// nothing\n")
    assert new(tmp_path, "other", "--p4", str(outside)) == 2
    assert "includes ../beside.p4, which is not beside it" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "labs").iterdir()] == ["mine"]
