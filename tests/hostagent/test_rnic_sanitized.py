"""The card's tests once more on the card built with ASan and UBSan, and by itself for leaks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hostagent.rnic import build
from softswitch.core import build as core_build

HERE = Path(__file__).resolve().parent
TESTS = (
    "test_rnic_delivery.py",
    "test_rnic_protocol.py",
    "test_rnic_sending.py",
    "test_rnic_failures.py",
)


def test_card_under_sanitizers() -> None:
    """The other files' tests, in a process that starts with the sanitizers' libraries."""
    if os.environ.get("WEFT_RNIC_SANITIZE") == "1":
        pytest.fail("this test starts the sanitized run and must not be part of it")
    build.ensure(sanitize=True)
    libraries = [
        subprocess.run(
            ["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for name in ("libasan.so", "libubsan.so")
    ]
    environment = {
        **os.environ,
        "WEFT_RNIC_SANITIZE": "1",
        "LD_PRELOAD": " ".join(libraries),
        "PYTHONMALLOC": "malloc",
        "ASAN_OPTIONS": "detect_leaks=0",  # the interpreter itself never frees everything
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-s",  # what the sanitizers say comes before the process ends
        "-k",
        "not repeats_only",  # long, and of no other code
        "-p",
        "no:cacheprovider",
        "--import-mode=importlib",
        *(str(HERE / name) for name in TESTS),
    ]
    done = subprocess.run(
        command, cwd=HERE.parents[1], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert " passed" in done.stdout


def test_card_frees_what_it_takes(tmp_path: Path) -> None:
    """The card linked into a program of its own, so that LeakSanitizer sees only it."""
    program = tmp_path / "leaks"
    include = [f"-I{path}" for path in (build.SHARED, build.CORE, core_build.HERE)]
    sources = [str(path) for path in build.sources()]
    command = ["gcc", *core_build.WARNINGS, *core_build.SANITIZE, "-O0", *include, *sources]
    subprocess.run([*command, str(HERE / "rnic_leaks.c"), "-o", str(program)], check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
