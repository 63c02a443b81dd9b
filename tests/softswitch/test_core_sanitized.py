"""The core's tests once more on the core and the toy built with ASan and UBSan."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from softswitch.core import build

HERE = Path(__file__).resolve().parent
TESTS = (
    "test_core_tables.py",
    "test_core_queues.py",
    "test_core_schedulers.py",
    "test_core_wires.py",
    "test_buffer.py",
    "test_pfc.py",
    "test_core_switch.py",
    "test_core_adopt.py",
    "test_core_loading.py",
    "test_core_trace.py",
    "test_core_loop.py",
)


def test_core_under_sanitizers() -> None:
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
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
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


def test_core_frees_what_it_takes(
    toy_so: Path, compile_c: Callable[..., Path], tmp_path: Path
) -> None:
    """The passive core linked into a program of its own, so that LeakSanitizer sees only it."""
    refused = compile_c(HERE / "pipelines" / "refused.c", tmp_path / "refused.so")
    core = HERE.parents[1] / "softswitch" / "core"
    sources = [str(path) for path in core.glob("*.c")]
    program = tmp_path / "leaks"
    command = ["gcc", *build.WARNINGS, *build.SANITIZE, "-O0", f"-I{core}", *sources]
    command += [str(HERE / "pipelines" / "core_leaks.c"), "-o", str(program), "-lpthread", "-ldl"]
    subprocess.run(command, check=True)
    command = [str(program), str(toy_so), str(refused)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
