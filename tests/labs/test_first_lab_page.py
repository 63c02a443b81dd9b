"""docs/first-lab.md, replayed word by word: each command and each change, in the page's order."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from experiments import grade, results
from weft import cli

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "first-lab.md").read_text()
MOST_OWN_LINES = 40
STEP = re.compile(
    r"^    (\S[^\n]*)$|^`(my-labs/\S+?)`([^`\n]*):\n\n```(\w*)\n(.*?)```$", re.M | re.S
)


def steps() -> list[tuple[str, str, str, str]]:
    """Return the page's commands and files: (command, file, kind of block, text)."""
    found = [(m[1] or "", m[2] or "", m[4] or "", m[5] or "") for m in STEP.finditer(_no_code())]
    assert sum(bool(each[1]) for each in found) == PAGE.count("```") // 2, "a block has no file"
    return found


def _no_code() -> str:
    """Return the page with the lines in blocks kept from looking like commands."""
    return re.sub(r"```.*?```", lambda m: m[0].replace("\n    ", "\n\0   "), PAGE, flags=re.S)


def own_lines() -> int:
    """Return what a teacher writes: lines of new files, and those that a change adds."""
    count = 0
    for _, _, kind, text in steps():
        lines = text.splitlines()
        count += sum(line.startswith("+") for line in lines) if kind == "diff" else len(lines)
    return count


def test_a_teacher_writes_less_than_the_page_says() -> None:
    assert 20 < own_lines() <= MOST_OWN_LINES


def test_the_page_replays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("docs").symlink_to(DOCS)
    for command, file, kind, text in steps():
        if file:
            text = text.replace("\n\0   ", "\n    ")
            path = Path(file)
            if kind == "diff":
                text = grade.patched(path.read_text(), text, path)
            path.write_text(text)
            continue
        words = shlex.split(command)
        if words[0] == "cp":
            shutil.copyfile(words[1], words[2])
            continue
        assert words[0] == "weft", command
        if words[1:3] == ["lab", "run"]:
            words += ["--seeds", "1", "--workers", "1"]  # no seed changes anything: ±0
        assert cli.main(words[1:]) == 0, command
    shown = capsys.readouterr().out
    assert re.search(r"`(pass: 3 of 3 [^`]*)`", PAGE)[1] in shown  # type: ignore[index]
    found = results.read(tmp_path / "results" / "hub")
    for variant in found.variants:
        cells = [f"{metric.median:.4g}" for metric in variant.metrics.values()]
        assert f"| {variant.title} | " + " | ".join(f"{cell} ±0" for cell in cells) in PAGE
    assert Path("for-students/README.md").is_file()
