"""The lab load-balancing: every variant is a run, and its quick part holds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from controller.program import CompiledProgram
from experiments import results
from experiments.api import Context, Runtime
from experiments.lab_code import Hooks
from experiments.loader import load
from mechanisms.program import FABRIC
from mechanisms.switch_programs import compile_for
from workloads.bound import bound
from workloads.paths import wire_bytes
from workloads.plan import plan

ROOT = Path(__file__).parents[2]
LAB = load("load-balancing")


def context(variant: str, out: Path, seed: int = 1) -> Context:
    """Return the context of the lab's hooks in real time, and in virtual time beside it."""
    planned = {each.variant.name: each for each in LAB.variants(Runtime.SOFTSWITCH)}[variant]
    return Context(
        lab=LAB.name,
        folder=LAB.folder,
        variant=planned.variant,
        mapping=cast("dict[str, object]", planned.document.data),
        seed=seed,
        runtime=Runtime.SIMULATOR,
        time_scale=LAB.time_scale(Runtime.SOFTSWITCH),
        out=out,
        program=CompiledProgram.of(compile_for(planned.run_file(LAB.folder).topology)(FABRIC)),
        settings=LAB.entry.settings,
    )


def test_it_has_all_its_variants() -> None:  # test_lab_file.py reads each
    assert (
        len(LAB.variants(Runtime.SIMULATOR))
        == 9 * 9 - 2 - 10 + 2 + 2 + 10 + 5 * 2 + 4 * 2 + 4 * 3 + 5 + 4
    )
    assert len(LAB.variants(Runtime.SOFTSWITCH)) == 2 + 5


@pytest.mark.long
def test_quick_run_passes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "weft.cli", "lab", "run", "load-balancing", "--quick"]
    done = subprocess.run(
        [*command, "--out", str(tmp_path / "out")],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def test_paced_hosts_send_what_the_best_split_could_carry() -> None:
    planned = {each.variant.name: each for each in LAB.variants(Runtime.SIMULATOR)}
    run = planned["packet-glb-unequal-paced"].run_file(LAB.folder)
    traffic = plan(run, seed=1)
    flows, rows = traffic.flows, traffic.messages.messages
    wire = wire_bytes(rows["bytes"].astype(np.int64), flows["payload"].astype(np.int64))
    assert bound(run, traffic).lower_s == pytest.approx(float(wire.max()) * 8 / 75e9, rel=1e-6)


@pytest.mark.root
@pytest.mark.realtime
@pytest.mark.long
def test_real_rdma_is_faster_by_reports(tmp_path: Path) -> None:
    """One of four spines has a quarter of the rate on the way down, of which GLB hears."""
    command = [sys.executable, "-m", "weft.cli", "lab", "run", "load-balancing", "--seeds", "1"]
    command += ["--runtime", "softswitch", "--out", str(tmp_path / "out")]
    for policy in ("packet-dlb", "packet-glb"):
        command += ["--variant", f"{policy}-rdma-behind"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    verdicts = {each.row: each.verdict for each in results.read(tmp_path / "out").checks}
    assert verdicts["real time, rdma-behind: slowest flow, packet-glb over packet-dlb"] == "pass"
    assert verdicts["real time, rdma-behind, packet-glb: flows that did not end"] == "pass"


@pytest.mark.parametrize(
    ("load", "faster", "slower"),
    [("rdma", "flowlet-dlb", "ecmp"), ("rdma-behind", "packet-glb", "packet-dlb")],
)
def test_as_slowly_in_virtual_time_the_order_is_the_same(
    load: str, faster: str, slower: str, tmp_path: Path
) -> None:
    took = []
    for policy in (faster, slower):
        metrics = Hooks.of(LAB.folder).call("measure_beside", context(f"{policy}-{load}", tmp_path))
        assert metrics["not done"].value == 0
        took.append(metrics["slowest flow"].value)
    assert took[0] < 0.95 * took[1]
