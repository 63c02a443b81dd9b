"""docs/my-own-p4.md: its six commands do what it says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from emulation import run_state, teardown
from tests.weft.prompt_lab import REPOSITORY

PAGE = REPOSITORY / "docs" / "my-own-p4.md"
PATIENCE_S = 120


def commands() -> list[str]:
    """Return the lines of the page's first block."""
    block = re.search(r"\n\n((?:    .+\n)+)", PAGE.read_text())
    assert block is not None
    return [line.strip() for line in block[1].splitlines()]


def test_there_are_six_and_the_program_has_sixty_lines() -> None:
    assert len(commands()) == 6
    assert len((REPOSITORY / "docs/my-own-p4/forward.p4").read_text().splitlines()) <= 61


@pytest.mark.root
def test_the_page_can_be_replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clone, copy, run, *typed = commands()
    assert clone.startswith("git clone")  # this is one
    assert copy == "cp -r docs/my-own-p4 mine"
    mine = tmp_path / "mine"
    shutil.copytree(REPOSITORY / "docs/my-own-p4", mine)
    monkeypatch.setenv(run_state.RUN_ROOT_VARIABLE, str(tmp_path / "run"))
    monkeypatch.setenv(run_state.LOG_ROOT_VARIABLE, str(tmp_path / "log"))
    lines = [line.removeprefix("weft> ").replace("mine/", f"{mine}/") for line in typed]
    try:
        done = subprocess.run(
            run.replace("mine/", f"{mine}/").split(),
            input="\n".join([*lines, "exit", ""]),
            cwd=REPOSITORY, env=dict(os.environ), text=True, capture_output=True,
            check=False, timeout=PATIENCE_S,
        )  # fmt: skip
    finally:
        teardown.stop()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "MyIngress.route" in done.stdout
    assert "port=3" in done.stdout or "port 3" in done.stdout
    assert (mine / "s1.pcap").stat().st_size > 24 + 16 + 98  # a header and a ping at least
