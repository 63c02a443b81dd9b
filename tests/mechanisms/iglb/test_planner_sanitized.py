"""The planner's C, built with ASan and UBSan, under the tests that use it."""

from __future__ import annotations

from pathlib import Path

from mechanisms.iglb import build
from mechanisms.iglb.native import SANITIZED
from tests.sanitized import pass_sanitized

TESTS = ("test_colouring.py", "test_planner.py", "test_proof.py", "test_even.py")


def test_planner_passes_sanitizers() -> None:
    build.ensure(sanitize=True)
    pass_sanitized(Path(__file__).parent, TESTS, SANITIZED)
