"""Some of the random programs once more: core and pipelines built with ASan and UBSan."""

from __future__ import annotations

from pathlib import Path

from softswitch.core import build
from tests.sanitized import pass_sanitized

HERE = Path(__file__).resolve().parent


def test_random_programs_under_sanitizers() -> None:
    """In a process that starts with the sanitizers' libraries."""
    build.ensure(sanitize=True)
    tests = ["test_random_programs.py", "test_mutated_programs.py"]
    pass_sanitized(
        HERE,
        tests,
        "WEFT_CORE_SANITIZE",
        "-k",
        "random_programs[0] or make_packets[0] or loads_runs",
    )
