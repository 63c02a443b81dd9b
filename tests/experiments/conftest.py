"""What runs in real time share: the program, and places of their own for what they leave."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler import compile_p4
from controller.program import CompiledProgram
from emulation import run_state
from mechanisms.program import FABRIC


@pytest.fixture(scope="session")
def whole_fabric() -> CompiledProgram:
    """fabric.p4 with everything."""
    return CompiledProgram.of(compile_p4(FABRIC))


@pytest.fixture
def roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep records and logs of this test's runs below its folder."""
    monkeypatch.setenv(run_state.RUN_ROOT_VARIABLE, str(tmp_path / "run"))
    monkeypatch.setenv(run_state.LOG_ROOT_VARIABLE, str(tmp_path / "log"))
