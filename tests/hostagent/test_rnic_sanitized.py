"""The card's tests once more on the card built with ASan and UBSan, and by itself for leaks."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hostagent.rnic import build
from softswitch.core import build as core_build
from tests.hostagent import more_algorithms
from tests.sanitized import pass_sanitized

HERE = Path(__file__).resolve().parent
TESTS = (
    "test_rnic_delivery.py",
    "test_rnic_protocol.py",
    "test_rnic_sending.py",
    "test_rnic_failures.py",
    "test_rnic_fast_cnp.py",
    "test_rnic_window.py",
    "test_rnic_feedback.py",
    "test_rnic_notifications.py",
    "test_rnic_several_interfaces.py",
    "test_rnic_source_port.py",
    "test_rnic_collect.py",
    "test_path_choice.py",
    "test_rnic_path_choice.py",
)
PLANES = (
    "test_rnic_plane_windows.py",
    "test_rnic_planes.py",
    "test_rnic_planes_exhaustive.py",
    "test_rnic_migration.py",
)


def test_card_under_sanitizers() -> None:
    """The other files' tests, in a process that starts with the sanitizers' libraries."""
    build.ensure(sanitize=True)
    # -s: what the sanitizers say comes before the process ends; repeats_only is long, and of no
    # other code.
    options = ("-s", "-k", "not repeats_only")
    pass_sanitized(HERE, TESTS, "WEFT_RNIC_SANITIZE", *options)


@pytest.mark.long
def test_planes_under_sanitizers() -> None:
    """The same of queue pairs over planes."""
    build.ensure(sanitize=True)
    pass_sanitized(HERE, PLANES, "WEFT_RNIC_SANITIZE", "-s", "-m", "not long")


def test_card_frees_what_it_takes(tmp_path: Path) -> None:
    """The card linked into a program of its own, so that LeakSanitizer sees only it."""
    program = tmp_path / "leaks"
    folders = (more_algorithms.built().include, build.CORE, core_build.HERE)
    include = [f"-I{path}" for path in folders]
    sources = [str(path) for path in build.sources()]
    command = ["gcc", *core_build.WARNINGS, *core_build.SANITIZE, "-O0", *include, *sources]
    subprocess.run([*command, str(HERE / "rnic_leaks.c"), "-o", str(program)], check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
