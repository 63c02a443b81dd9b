"""The lab iglb: every variant is a run, planned paths are what they are said to be."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from controller.program import CompiledProgram
from experiments import results
from experiments.api import Runtime
from experiments.loader import load
from mechanisms.program import FABRIC
from mechanisms.switch_programs import compile_for
from simulator.flow_paths import FlowPaths
from simulator.runner import Simulation

ROOT = Path(__file__).parents[2]
LAB = load("iglb")
RUN = (sys.executable, "-m", "weft.cli", "lab", "run", "iglb")


def test_it_has_all_its_variants() -> None:  # test_lab_file.py reads each
    simulated = len(LAB.variants(Runtime.SIMULATOR))
    assert simulated == 6 * 13 - 3 * 2 - 2 - 4 * 5 + 2 * 3 + 3 * 2
    assert len(LAB.variants(Runtime.SOFTSWITCH)) == 2


@pytest.mark.long
def test_quick_run_passes(tmp_path: Path) -> None:
    done = subprocess.run(
        [*RUN, "--quick", "--out", str(tmp_path / "out")],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def spines_of(policy: str) -> list[str]:
    """Return the spine that each of the real run's flows takes, by the program itself."""
    planned = {each.variant.name: each for each in LAB.variants(Runtime.SOFTSWITCH)}
    run = planned[f"{policy}-rdma"].run_file(LAB.folder)
    program = CompiledProgram.of(compile_for(run.topology)(FABRIC), FABRIC)
    simulation = Simulation(run, program, seed=1)
    model = simulation.control.model
    entries = {
        name: (*held, *model.learned.get(name, {}).values())
        for name, held in model.installed.items()
    }
    paths = FlowPaths(run.topology, program, entries)
    found = paths.of(simulation.traffic, range(4))
    paths.close()
    return [found[flow][1][0] for flow in range(4)]


def test_the_ports_of_the_real_run_collide_under_ecmp_and_not_as_planned() -> None:
    one, two, three, four = spines_of("ecmp")
    assert one == two != three == four
    assert len(set(spines_of("iglb"))) == 4


@pytest.mark.root
@pytest.mark.realtime
@pytest.mark.long
def test_real_rdma_is_faster_by_planned_paths(tmp_path: Path) -> None:
    done = subprocess.run(
        [*RUN, "--seeds", "1", "--runtime", "softswitch", "--out", str(tmp_path / "out")],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    verdicts = {each.row: each.verdict for each in results.read(tmp_path / "out").checks}
    assert verdicts["real time: slowest flow, ecmp over iglb"] == "pass"
