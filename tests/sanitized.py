"""Tests once more, on the C code that they test built with ASan and UBSan."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
_SAID = 4000  # characters of what a failed run said


def pass_sanitized(folder: Path, tests: Sequence[str], variable: str, *options: str) -> None:
    """Run test files of a folder in a process that starts with the sanitizers' libraries.

    `variable` is what tells them in the environment to take the sanitized build, which the caller
    has made. `options` are more of pytest's. Fails the test that calls it where one of those does.
    """
    if os.environ.get(variable) == "1":
        pytest.fail("this test starts the sanitized run and must not be part of it")
    libraries = [
        subprocess.run(
            ["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for name in ("libasan.so", "libubsan.so")
    ]
    environment = {
        **os.environ,
        variable: "1",
        "LD_PRELOAD": " ".join(libraries),
        "PYTHONMALLOC": "malloc",
        "ASAN_OPTIONS": "detect_leaks=0",  # the interpreter itself never frees everything
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *options]
    command += ["--import-mode=importlib", *(str(folder / name) for name in tests)]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-_SAID:] + done.stderr[-_SAID:]
    assert " passed" in done.stdout
