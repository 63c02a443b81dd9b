"""`weft` on PATH: whose it is, whom it leaves alone, and what it says when its clone is gone."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from weft import doctor, on_machine

REPOSITORY = Path(doctor.__file__).resolve().parent.parent


@pytest.fixture
def clone(tmp_path: Path) -> Callable[[str], Path]:
    """Return a function that makes a clone that is set up, as far as the launcher goes.

    Its weft prints where it is.
    """

    def make(name: str) -> Path:
        tree = tmp_path / name
        shutil.copytree(REPOSITORY / "setup", tree / "setup")
        program = tree / ".venv/bin/weft"
        program.parent.mkdir(parents=True)
        program.write_text('#!/bin/sh\necho "$0: $*"\nexit 3\n')
        program.chmod(0o755)
        return tree

    return make


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the launcher goes; it is the only place that is looked at."""
    folder = tmp_path / "bin"
    monkeypatch.setenv("WEFT_BIN_DIR", str(folder))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    monkeypatch.setattr(on_machine, "ROOTS_PROGRAMS", tmp_path / "no-such-folder")
    monkeypatch.setattr(on_machine, "homes", list)
    return folder


def put(tree: Path) -> tuple[int, str]:
    """Put the launcher of a clone; return the exit code and what it said."""
    script = 'source setup/setup.sh; remember clones "$PWD"; put_launcher || c=$?; echo "$SAID"'
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", f"{script}; exit ${{c-0}}"],
        cwd=tree, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    return done.returncode, done.stdout.strip()


def call(file: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(file), *words], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", ["one", "it's $HOME `x` \"y\" \\'z"])
def test_it_starts_its_clone_with_every_argument_and_its_exit_code(
    clone: Callable[[str], Path], programs: Path, name: str
) -> None:
    tree, file = clone(name), programs / "weft"
    assert put(tree) == (0, str(file))
    assert put(tree) == (0, "")  # as it stood
    done = call(file, "sim", "a b", "")
    assert (done.stdout, done.returncode) == (f"{tree}/.venv/bin/weft: sim a b \n", 3)
    assert on_machine.launched_clone(file) == tree
    assert on_machine.launchers() == [file]


def test_of_two_clones_the_last_has_it_and_says_so(
    clone: Callable[[str], Path], programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two, file = clone("one"), clone("two"), programs / "weft"
    put(one)
    assert put(two) == (0, f"{file} starts this clone now, not {one}")
    assert call(file).stdout.startswith(f"{two}/")
    assert put(one) == (0, f"{file} starts this clone now, not {two}")
    monkeypatch.setattr(on_machine, "ROOT", one)
    assert on_machine.other_clones() == [two]
    shutil.rmtree(two)
    assert on_machine.other_clones() == []


def test_a_clone_that_is_gone_is_one_clear_error(
    clone: Callable[[str], Path], programs: Path
) -> None:
    one, two, file = clone("one"), clone("two"), programs / "weft"
    put(one)
    shutil.rmtree(one)
    done = call(file, "doctor")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        f"error: {file} starts Weft from {one}, where no Weft is set up (any more)",
        f"remedy: make setup in a clone of Weft; if you want none, remove {file}",
    ]
    assert put(two)[0] == 0 and call(file).returncode == 3


@pytest.mark.parametrize("kind", ["file", "link", "folder"])
def test_nobody_elses_weft_is_touched(
    clone: Callable[[str], Path], programs: Path, kind: str
) -> None:
    tree, file = clone("one"), programs / "weft"
    programs.mkdir()
    if kind == "file":
        file.write_text("#!/bin/sh\n# Weft's launcher, but somebody else's\n")
    elif kind == "link":
        file.symlink_to("/nowhere")
    else:
        file.mkdir()
    code, said = put(tree)
    assert code == 1 and "is somebody else's, and stays; .venv/bin/weft works" in said
    assert on_machine.launchers() == []
    assert [each.name for each in programs.iterdir()] == ["weft"]
    assert file.is_symlink() is (kind == "link") and file.is_dir() is (kind == "folder")


def test_no_folder_for_programs_is_said(clone: Callable[[str], Path], programs: Path) -> None:
    programs.write_text("a file")
    code, said = put(clone("one"))
    assert (code, said) == (1, f"none: {programs} can't be written; .venv/bin/weft works")


def test_doctor_says_whose_it_is(
    clone: Callable[[str], Path], programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = clone("one"), clone("two")
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setattr(doctor, "ROOT", one)
    monkeypatch.setattr(doctor, "VENV", one / ".venv")

    def found() -> tuple[str, str, str]:
        (check,) = doctor.check_launcher()
        return check.state, check.detail, check.remedy

    assert found() == ("missing", "no weft on PATH", "make setup")
    put(one)
    assert found() == ("ok", str(programs / "weft"), "")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert found()[:2] == ("degraded", f"{programs} is not on PATH")
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    put(two)
    assert found()[0] == "degraded" and f"starts {two}" in found()[1]
    (programs / "weft").write_text("#!/bin/sh\n")
    assert found()[0] == "degraded" and "another program" in found()[1]
    monkeypatch.setenv("PATH", f"{one}/.venv/bin:{os.environ['PATH']}")
    assert found()[0] == "ok"
