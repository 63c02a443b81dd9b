"""The command line that builds a C module: what it says when it can't."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from softswitch.core import extension
from softswitch.core.extension import Extension

ROOT = Path(__file__).parents[2]


@pytest.fixture
def small(tmp_path: Path) -> Extension:
    """Return a module of two sources, each with a function."""
    for name in ("one", "two"):
        (tmp_path / f"{name}.c").write_text(
            f'#include "small.h"\nint {name}(void) {{ return 1; }}\n'
        )
    (tmp_path / "small.h").write_text("int one(void);\nint two(void);\n")
    return Extension(
        package="small",
        name="_small",
        folder=tmp_path,
        headers=("small.h",),
        sources=lambda: sorted(tmp_path.glob("[ot]*.c")),
        include=(tmp_path,),
        declarations=lambda: (tmp_path / "small.h").read_text(),
        builds=(),
    )


def test_a_module_is_built_once(small: Extension, capsys: pytest.CaptureFixture[str]) -> None:
    assert small.main(None, []) == 0
    target = Path(capsys.readouterr().out.strip())
    built = target.stat().st_mtime_ns
    assert small.main(None, []) == 0
    assert target.stat().st_mtime_ns == built


def test_of_several_broken_sources_the_first_is_told(
    small: Extension, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("one", "two"):
        (small.folder / f"{name}.c").write_text("int x = y;\n")
    assert small.main(None, []) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"error: C sources do not compile: {small.folder}/one.c:1:")
    assert said.count("\n") == 1


def test_a_folder_that_can_not_be_written_is_named(
    small: Extension, capsys: pytest.CaptureFixture[str]
) -> None:
    (small.folder / "_build").write_text("")
    assert small.main(None, []) == 1
    assert capsys.readouterr().err == f"error: {small.folder}/_build: File exists\n"


def test_ctrl_c_ends_it_without_a_trace(
    small: Extension, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(command: list[str]) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(extension, "run", interrupted)
    assert small.main(None, []) == 130
    assert capsys.readouterr().err == "interrupted\n"


@pytest.mark.parametrize("package", ["softswitch.core", "simulator.core", "hostagent.rnic"])
def test_the_command_is_not_loaded_twice(package: str) -> None:
    """Python would warn of that in every set-up."""
    command = [sys.executable, "-m", f"{package}.build", "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr == ""
