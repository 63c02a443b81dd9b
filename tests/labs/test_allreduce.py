"""The lab allreduce: every variant is a run, and its quick part holds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from experiments.api import Runtime
from experiments.loader import load

ROOT = Path(__file__).parents[2]


def test_every_variant_is_a_run_file() -> None:
    lab = load("allreduce")
    lab.check()
    assert len(lab.variants(Runtime.SIMULATOR)) == 3 * 3 * 2 + 5 + 5 + 8 + 8


@pytest.mark.long
def test_quick_run_passes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "weft.cli", "lab", "run", "allreduce", "--quick"]
    done = subprocess.run(
        [*command, "--seeds", "1,2", "--out", str(tmp_path / "out")],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
