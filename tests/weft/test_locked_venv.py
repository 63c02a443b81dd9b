"""Environments made of lock files on first use: made once, made anew when a lock changes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from weft import locked_venv
from weft.locked_venv import LockedVenv, VenvError


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(locked_venv, "ROOT", tmp_path)
    (tmp_path / "setup").mkdir()
    return tmp_path


def test_made_once_and_again_when_its_lock_changes(root: Path) -> None:
    lock = root / "setup" / "some.lock"
    lock.write_text("# nothing yet\n")
    finished: list[Path] = []
    venv = LockedVenv("some-venv", ("some.lock",), "some", "again", finish=finished.append)
    assert not venv.is_ready()
    assert venv.ensure() == root / "build" / "some-venv" / "bin" / "python"
    assert venv.python.exists()
    assert finished[0].name == "site-packages"
    assert finished[0].is_dir()
    assert venv.is_ready()
    venv.ensure()
    assert len(finished) == 1
    lock.write_text("# something else\n")
    assert not venv.is_ready()


def test_what_fails_is_told_with_its_last_lines() -> None:
    venv = LockedVenv("bad-venv", (), "the things", "make them")
    with pytest.raises(VenvError) as failed:
        venv._do([sys.executable, "-c", "print('no such package'); raise SystemExit(1)"])
    assert str(failed.value) == "the things can't be installed: no such package"
    assert "make them tries again" in failed.value.remedy
