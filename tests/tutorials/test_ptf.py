"""The ptf tests that p4lang/tutorials has for some exercises, by its own runptf.sh."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.tutorials.exercise import copy_of, isolated

PATIENCE_S = 240


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.promise(name, "its ptf tests pass (make test)"))
        for name in ("basic", "basic_tunnel")
    ],
)
def test_ptf(name: str, checkout: Path, variables: dict[str, str], tmp_path: Path) -> None:
    folder = copy_of(checkout, name, tmp_path)
    assert shutil.which("pkill"), "runptf.sh needs pkill (apt install procps)"
    done = subprocess.run(
        isolated(["make", "test"]),
        cwd=folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-4000:]
    assert "ATTENTION: SOME TESTS DID NOT PASS" not in said, said[-4000:]
    assert "\nOK" in said, said[-4000:]
