"""Where tests keep what is built with algorithms of one's own: in the repository's build."""

from __future__ import annotations

from pathlib import Path

import pytest

CACHE = Path(__file__).resolve().parents[2] / "build" / "own-algorithms"


@pytest.fixture(autouse=True)
def own_algorithm_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """For each test of a module that imports it."""
    monkeypatch.setenv("WEFT_CACHE_DIR", str(CACHE))
