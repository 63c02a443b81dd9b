"""Communicators once more, their thread and its blocks built with ASan and UBSan."""

from __future__ import annotations

from pathlib import Path

from hostagent.collective import build
from tests.hostagent.test_communicator import VARIABLE
from tests.sanitized import pass_sanitized


def test_sanitized_build_passes_all_of_it() -> None:
    build.ensure(sanitize=True)
    pass_sanitized(Path(__file__).parent, ["test_communicator.py"], VARIABLE, "-s")
