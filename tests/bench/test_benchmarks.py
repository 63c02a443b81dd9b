"""Each benchmark as it is called, at its smallest size: what it prints is what `make bench` shows.

Numbers mean nothing here. Those that can't be made small (a topology in real time, ns-3) only say
what their options are; mypy sees the rest of them (`make lint`).
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).resolve().parent
PATIENCE_S = 120.0
SMALLEST = {
    "bench_pipeline.py": ("pipeline_lines", "--rounds 1 --seconds 0.01"),
    "bench_allreduce.py": ("allreduce_lines", "--rounds 1 --lanes 2"),
    "bench_engine.py": ("engine_lines", "--rounds 1 --k 4 --hops 20000"),
    "bench_controller.py": ("controller_lines", "--k 2 --links 1 --install"),
    "bench_large.py": ("large_lines", "--rounds 1 --k 4"),
    "bench_worker.py": ("worker_lines", "--rounds 1"),
    "bench_iglb.py": ("planner_lines", "--rounds 1 --seeds 1 --small"),
    "bench_hash_ports.py": ("ports_lines", "--small"),
    "bench_rnic.py": ("card_lines", "--rounds 1"),
    "bench_endpoint.py": ("endpoint_lines", "--rounds 1 --messages 10"),
    "bench_algorithms.py": ("algorithm_lines", "--rounds 1"),
    "bench_ticker.py": ("ticker_lines", "--seconds 0.5"),
    "bench_daemon.py": ("daemon_lines", "--rounds 1 --seconds 0.1 --pps 1000"),
    "bench_idle.py": ("idle_lines", "--switches 1 --seconds 0.1"),
}
"""What makes lines of it in run.py, and its options."""
NEEDS_ROOT = {"bench_daemon.py", "bench_idle.py"}
NEVER_SMALL = [
    "bench_iglb_live.py",
    "bench_moves.py",
    "bench_ns3.py",
    "bench_runtimes.py",
    "run.py",
]


@pytest.fixture(scope="module")
def table() -> ModuleType:
    """run.py, which makes lines of what the others print."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(HERE))  # as for a script
        spec = importlib.util.spec_from_file_location("bench_run", HERE / "run.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        patch.setitem(sys.modules, spec.name, module)  # its dataclasses look for it
        spec.loader.exec_module(module)
        return module


def call(script: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(script), *arguments],
        env={**os.environ, "PYTHONPATH": str(HERE.parents[1])}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip


@pytest.mark.parametrize(
    "script",
    [pytest.param(s, marks=[pytest.mark.root] if s in NEEDS_ROOT else []) for s in SMALLEST],
)
def test_it_measures(script: str, table: ModuleType) -> None:
    lines, options = SMALLEST[script]
    done = call(HERE / script, "--json", *options.split())
    assert done.returncode == 0, done.stderr
    shown = getattr(table, lines)(json.loads(done.stdout))
    assert shown
    for line in shown:  # a number, or why there is none on this machine
        assert line.what
        assert re.search(r"\d", line.value) or (line.value == "not measured" and line.goal), line


@pytest.mark.parametrize("script", NEVER_SMALL)
def test_it_has_all_that_it_imports(script: str) -> None:
    done = call(HERE / script, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "--json" in done.stdout


def test_each_is_in_the_table_of_make_bench() -> None:
    benchmarks = {path.name for path in HERE.glob("bench_*.py")}
    assert benchmarks == {*SMALLEST, *NEVER_SMALL} - {"run.py"}
    text = (HERE / "run.py").read_text()
    assert all(f'script("{name}"' in text for name in benchmarks)


@pytest.mark.parametrize(
    ("script", "options", "says"),
    [
        ("bench_pipeline.py", "--rounds 0", "argument --rounds: 0 is less than 1"),
        ("bench_idle.py", "--seconds -1", "argument --seconds: -1 is not a time to measure for"),
        ("bench_engine.py", "--k 3", "k must be even"),
        ("bench_controller.py", "--k 3", "k must be even"),
        ("bench_large.py", "--k 5", "k must be even"),
        (
            "incast_live.py",
            "--controls timely",
            "timely: choose of encc, encc-word, fast-cnp, encc+fast-cnp, dcqcn",
        ),
        ("incast_live.py", "--skip 1000", "--skip 1000: nothing is left of --until 1000"),
        (
            "encc_adversity.py",
            "--only acks,cuts",
            "--only cuts: choose of pause, acks, ends, mute, paths",
        ),
        ("htsim_rows.py", "--only rail", "--only rail: choose a part of one of: one flow"),
        ("in_turn.py", ". no-such-folder", "no-such-folder has no tests/bench/bench_engine.py"),
    ],
)
def test_wrong_arguments(script: str, options: str, says: str) -> None:
    done = call(HERE / script, *options.split())
    assert done.returncode == 2
    assert says in done.stderr and "Traceback" not in done.stderr


def test_a_row_of_htsims_list_beside_what_is_recorded() -> None:
    """489 packets of 4,178 B and five more links' store and forward: 171.5 us."""
    done = call(HERE / "htsim_rows.py", "--seeds", "1", "--only", "one flow")
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()[1:]
    name, limit, recorded, ours = re.split(r"  +", line.strip())
    assert (name, limit, recorded) == ("one flow", "190", "176.2")
    assert ours.startswith("171.")


def test_checkouts_in_turn(tmp_path: Path) -> None:
    """Two folders that stand for checkouts: this benchmark, on a Python that makes it small."""
    for name in ("before", "now"):
        bench = tmp_path / name / "tests" / "bench"
        bench.mkdir(parents=True)
        (bench / "bench_engine.py").symlink_to(HERE / "bench_engine.py")
        python = tmp_path / name / ".venv" / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@" --rounds 1 --hops 20000\n')
        python.chmod(0o755)
    checkouts = [str(tmp_path / name) for name in ("before", "now")]
    done = call(HERE / "in_turn.py", *checkouts, "--rounds", "1", "--k", "4", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    first, second = json.loads(done.stdout)["checkouts"]
    assert (first["checkout"], second["checkout"]) == tuple(checkouts)
    assert first["to_first"] == {"16": 1.0} and first["growth"] == 1.0
    assert second["to_first"]["16"] == pytest.approx(second["ns"]["16"] / first["ns"]["16"])


def test_a_checkout_that_is_not_set_up(tmp_path: Path) -> None:
    (tmp_path / "tests" / "bench").mkdir(parents=True)
    (tmp_path / "tests" / "bench" / "bench_engine.py").touch()
    done = call(HERE / "in_turn.py", str(tmp_path))
    assert done.returncode == 1
    assert done.stderr == f"error: {tmp_path} is not set up; run: make -C {tmp_path} setup\n"
