"""The lab load-balancing: every variant is a run, and its quick part holds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from experiments.api import Runtime
from experiments.loader import load
from workloads.bound import bound
from workloads.paths import wire_bytes
from workloads.plan import plan

ROOT = Path(__file__).parents[2]


def test_it_has_all_its_variants() -> None:  # test_lab_file.py reads each
    lab = load("load-balancing")
    assert len(lab.variants(Runtime.SIMULATOR)) == 9 * 9 - 2 - 10 + 2 + 10


@pytest.mark.long
def test_quick_run_passes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "weft.cli", "lab", "run", "load-balancing", "--quick"]
    done = subprocess.run(
        [*command, "--out", str(tmp_path / "out")],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def test_paced_hosts_send_what_the_best_split_could_carry() -> None:
    lab = load("load-balancing")
    planned = {each.variant.name: each for each in lab.variants(Runtime.SIMULATOR)}
    run = planned["packet-glb-unequal-paced"].run_file(lab.folder)
    traffic = plan(run, seed=1)
    flows, rows = traffic.flows, traffic.messages.messages
    wire = wire_bytes(rows["bytes"].astype(np.int64), flows["payload"].astype(np.int64))
    assert bound(run, traffic).lower_s == pytest.approx(float(wire.max()) * 8 / 75e9, rel=1e-6)
