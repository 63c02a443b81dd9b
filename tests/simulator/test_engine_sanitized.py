"""The engine's tests once more on the engine and the core built with ASan and UBSan."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from simulator.core import build

HERE = Path(__file__).resolve().parent
TESTS = ("test_engine.py", "test_engine_traffic.py", "test_engine_transport.py")


def test_engine_under_sanitizers() -> None:
    """The other files' tests, in a process that starts with the sanitizers' libraries."""
    if os.environ.get("WEFT_CORE_SANITIZE") == "1":
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
        "WEFT_CORE_SANITIZE": "1",
        "LD_PRELOAD": " ".join(libraries),
        "PYTHONMALLOC": "malloc",
        "ASAN_OPTIONS": "detect_leaks=0",  # the interpreter itself never frees everything
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    command += ["--import-mode=importlib", *(str(HERE / name) for name in TESTS)]
    done = subprocess.run(
        command, cwd=HERE.parents[1], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
