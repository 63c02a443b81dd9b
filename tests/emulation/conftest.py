"""What the tests of the emulation share: records and logs of their own, apart from real runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from emulation import run_state, teardown
from emulation.run_state import Run


@pytest.fixture
def roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep records and logs of runs below the test's own directory, which is returned."""
    monkeypatch.setenv(run_state.RUN_ROOT_VARIABLE, str(tmp_path / "run"))
    monkeypatch.setenv(run_state.LOG_ROOT_VARIABLE, str(tmp_path / "log"))
    return tmp_path


@pytest.fixture
def run(roots: Path) -> Iterator[Run]:
    """Yield a run of this process, taken down afterwards."""
    lock, _ = teardown.claim()
    started = Run.start(lock, "test")
    yield started
    teardown.remove(started.record)
    started.finish()
