"""The engine's tests once more on the engine and the core built with ASan and UBSan."""

from __future__ import annotations

from pathlib import Path

from simulator.core import build
from tests.sanitized import pass_sanitized

HERE = Path(__file__).resolve().parent
TESTS = (
    "test_arrivals.py",
    "test_engine_collectives.py",
    "test_engine.py",
    "test_engine_feedback.py",
    "test_engine_hops.py",
    "test_engine_devices.py",
    "test_engine_paths.py",
    "test_engine_stripes.py",
    "test_engine_traffic.py",
    "test_engine_transport.py",
    "test_tickers.py",
    "test_programs.py",
    "test_notifications.py",
)


def test_engine_under_sanitizers() -> None:
    """The other files' tests, in a process that starts with the sanitizers' libraries."""
    build.ensure(sanitize=True)
    pass_sanitized(HERE, TESTS, "WEFT_CORE_SANITIZE")
