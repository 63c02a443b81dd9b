"""The lab congestion-control-fairness: its cases, its arithmetic, and that it sees who starves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from experiments.api import Runtime
from experiments.lab_code import Hooks
from experiments.loader import load

LAB = load("congestion-control-fairness")
CASES, CONTROLS, OVER_PFC = 20 + 2 + 5, 4, 3
RUN = (sys.executable, "-m", "weft.cli", "lab", "run", "congestion-control-fairness")


def runs_of_lab() -> object:
    measure = Hooks.of(LAB.folder).get("measure_simulator")
    assert measure is not None
    return sys.modules[measure.__module__]


def test_every_variant_is_a_run_file() -> None:
    LAB.check()
    assert len(LAB.variants(Runtime.SIMULATOR)) == CASES * CONTROLS + OVER_PFC


@pytest.mark.parametrize(
    ("shares", "index"), [([100.0, 100.0], 1.0), ([0.0, 200.0], 0.5), ([1.0, 1.0, 2.0], 16 / 18)]
)
def test_jain_s_index(shares: list[float], index: float) -> None:
    assert runs_of_lab().jain(np.array(shares)) == pytest.approx(index)  # type: ignore[attr-defined]


@pytest.mark.long
def test_who_starves_is_seen(tmp_path: Path) -> None:
    """One seed of the case in which distance decides, beside DCQCN, where it does not."""
    variants = [f"--variant=1-near-1-far-{control}" for control in ("best", "fast-cnp")]
    out = tmp_path / "results"
    command = [*RUN, *variants, "--seeds=1", "--out", str(out), "--json"]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    rates = runs_of_lab().rates  # type: ignore[attr-defined]
    reader = sys.modules[rates.__module__].ResultFolder
    shares = {}
    for control in ("best", "fast-cnp"):
        folder = reader(out / "runs" / f"1-near-1-far-{control}" / "seed-1")
        shares[control] = rates(folder, 2, 30 * 10**9, 50 * 10**9)
    assert shares["best"].min() >= 100
    assert 360 <= shares["fast-cnp"].sum() <= 393
