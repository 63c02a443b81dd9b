"""The core's tests once more on the core and the toy built with ASan and UBSan."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from softswitch.core import build
from tests.sanitized import pass_sanitized

HERE = Path(__file__).resolve().parent
TESTS = (
    "test_core_tables.py",
    "test_core_queues.py",
    "test_core_grants.py",
    "test_core_schedulers.py",
    "test_core_wires.py",
    "test_buffer.py",
    "test_pfc.py",
    "test_core_switch.py",
    "test_core_adopt.py",
    "test_core_loading.py",
    "test_core_trace.py",
    "test_core_loop.py",
    "test_core_pushback.py",
    "test_tickers.py",
)


def test_core_under_sanitizers() -> None:
    """The other files' tests, in a process that starts with the sanitizers' libraries."""
    build.ensure(sanitize=True)
    pass_sanitized(HERE, TESTS, "WEFT_CORE_SANITIZE")


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
