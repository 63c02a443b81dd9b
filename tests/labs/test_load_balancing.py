"""The lab load-balancing: every variant is a run, and its quick part holds."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.api import Runtime
from experiments.loader import load
from workloads.loader import read_run
from workloads.plan import plan

ROOT = Path(__file__).parents[2]


def test_it_has_all_its_variants() -> None:  # test_lab_file.py reads each
    lab = load("load-balancing")
    assert len(lab.variants(Runtime.SIMULATOR)) == 7 * 7 + 8


@pytest.mark.long
def test_quick_run_passes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "weft.cli", "lab", "run", "load-balancing", "--quick"]
    done = subprocess.run(
        [*command, "--out", str(tmp_path / "out")],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def test_leaf_cut_is_what_must_cross_over_what_can() -> None:
    text = """
topology:
  time_scale: 1
  generator: leaf_spine
  leaves: 2
  spines: 2
  hosts_per_leaf: 2
  link: {rate: 100Gbps, delay: 1us, queue: 1MB, mtu: 4200B}
  overrides: [{between: [s1, s4], rate: 25Gbps}]
  classes: {roce: {dscp: 26, queue: 3}}
until: 1ms
traffic:
  - message: {from: h1, to: h3, bytes: 409600B, payload: 4096B, dscp: 26}
  - message: {from: h2, to: h4, bytes: 409600B, payload: 4096B, dscp: 26}
  - message: {from: h1, to: h2, bytes: 4MB, payload: 4096B, dscp: 26}
"""
    run = read_run(text)
    leaf_cut_us = runpy.run_path(str(ROOT / "labs" / "load-balancing" / "bound.py"))["leaf_cut_us"]
    cut = leaf_cut_us(plan(run, seed=1))
    assert cut == pytest.approx(200 * (4096 + 82) * 8 / 125e9 * 1e6)  # s1's 125 Gb/s, not s2's 200
