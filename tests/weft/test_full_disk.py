"""A full disk ends every command with one line that says so, and never as a bug of ours.

/dev/full takes every open and refuses every write, as a full disk does, and needs no root.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from weft import cli, full_disk

BASE = Path(cli.__file__).resolve().parent.parent / "p4src" / "base.p4"


def one_error(capsys: pytest.CaptureFixture[str]) -> str:
    said = capsys.readouterr().err
    lines = [line for line in said.splitlines() if line.startswith(("error:", "remedy:"))]
    assert [line.partition(":")[0] for line in lines] == ["error", "remedy"], said
    assert "bug" not in said
    return lines[0]


def test_compile_names_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "base.json").symlink_to("/dev/full")
    assert cli.main(["compile", str(BASE), "-o", str(tmp_path)]) == 1
    assert one_error(capsys) == f"error: {tmp_path}/base.json: No space left on device"


def test_a_picture_names_its_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.png").symlink_to("/dev/full")
    assert cli.main(["topo", "show", "single", "--png", str(tmp_path / "a.png")]) == 1
    assert one_error(capsys) == f"error: {tmp_path}/a.png: No space left on device"


def test_what_is_printed_goes_nowhere() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "weft.cli", "topo", "list", "--json"],
            env={**os.environ, "PYTHONUNBUFFERED": ""},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    first, remedy = done.stderr.splitlines()
    assert first == "error: the output can't be written: no space left where it goes"
    assert remedy.startswith("remedy: ")


def test_the_error_below_another_one_counts() -> None:
    try:
        try:
            raise OSError(errno.EDQUOT, "over quota", "/home/me/x")
        except OSError as error:
            raise RuntimeError("the figure is lost") from error
    except RuntimeError as error:
        said = full_disk.said_of(error)
    assert said is not None
    assert said[0].startswith(f"/home/me/x: {os.strerror(errno.EDQUOT)}")
    assert "quota" in said[1]


def test_no_room_for_temporary_files() -> None:
    error = FileNotFoundError(errno.ENOENT, f"No usable temporary directory found in {['/tmp']}")
    said = full_disk.said_of(error)
    assert said is not None and "no room for temporary files" in said[0]


@pytest.mark.parametrize(
    "error", [FileNotFoundError(errno.ENOENT, "gone"), ValueError("x"), OSError("no number")]
)
def test_other_errors_are_none_of_its(error: Exception) -> None:
    assert full_disk.said_of(error) is None


def test_the_place_without_room_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    room = os.statvfs_result((4096, 4096, 1000, 3, 3, 9, 9, 9, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda place: room)
    monkeypatch.setattr(sys, "argv", ["weft", "sim", f"--out={tmp_path}/new"])
    said = full_disk.said_of(OSError(errno.ENOSPC, "full"))
    assert said is not None and f"({tmp_path} has 12 kB free)" in said[0]
