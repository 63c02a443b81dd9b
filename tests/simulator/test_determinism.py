"""The same run file and seed give the same bytes: twice here, and on every machine.

    python tests/simulator/test_determinism.py

prints the hashes that stand in runs/everything.sha256; write them there after a change that is
meant to change results.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from compiler import compile_p4
from controller.program import CompiledProgram
from simulator.runner import Simulation
from workloads.loader import load_run_file

RUNS = Path(__file__).with_name("runs")
GOLDEN = RUNS / "everything.sha256"
FABRIC = Path(__file__).parents[2] / "p4src" / "fabric.p4"


def results(out: Path, seed: int | None = None) -> dict[str, bytes]:
    """Run it; return all files of the result, but for the log of this machine."""
    compiled = compile_p4(FABRIC)
    program = CompiledProgram.of(compiled)
    Simulation(load_run_file(RUNS / "everything.yaml"), program, seed=seed).run(out)
    return {path.name: path.read_bytes() for path in sorted(out.iterdir())}


def hashes(files: dict[str, bytes]) -> str:
    """Return a line for each table, as summary.json's manifest has them."""
    manifest = json.loads(files["summary.json"])["files"]
    return "".join(f"{row['sha256']}  {name}\n" for name, row in sorted(manifest.items()))


def test_two_runs_give_the_same_files(tmp_path: Path) -> None:
    one, other = results(tmp_path / "one"), results(tmp_path / "other")
    assert one.keys() == other.keys()
    for name, data in one.items():
        assert data == other[name], name
    assert hashes(one) == GOLDEN.read_text()


def test_another_seed_gives_other_files(tmp_path: Path) -> None:
    assert hashes(results(tmp_path, seed=8)) != GOLDEN.read_text()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        sys.stdout.write(hashes(results(Path(scratch))))
