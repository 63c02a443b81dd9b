"""Sweeps on Dask's workers: the same bytes as from processes, and what goes wrong there.

The scheduler and two workers are processes on loopback, started as docs/sweep.md says.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.program import CompiledProgram
from experiments import sweep_dask, sweep_point
from experiments.api import Run
from experiments.sweep import DaskError, Progress, SweepSpec, run
from softswitch import program_cache
from weft import dask_setup

ROOT = Path(__file__).resolve().parents[2]
DASK = Path(sys.executable).parent / "dask"
FILES = ("results.json", "results.csv", "results.parquet", "best.yaml")
DEADLINE_S = 60.0
VERSION = "the same"
START = "traffic.1.message.start"
RUN: dict[str, Any] = {
    "topology": "leafspine",
    "until": "50us",
    "transport": {},
    "traffic": [
        {"message": {"from": "h1", "to": "h3", "bytes": "500kB"}},
        {"message": {"from": "h2", "to": "h3", "bytes": "500kB", "start": "0us"}},
    ],
}


@pytest.fixture(autouse=True)
def version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let workers and caller be of one version, whoever edits sources while tests run."""
    for module in (sweep_dask, sweep_point):
        monkeypatch.setattr(module, "fingerprint", lambda: VERSION)


@pytest.fixture(scope="module")
def program() -> CompiledProgram:
    compiled = program_cache.compile_program(program_cache.Job(ROOT / "p4src" / "fabric.p4"))
    return CompiledProgram.of(compiled, ROOT / "p4src" / "fabric.p4")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a scheduler and two workers; yield the scheduler's address."""
    folder = tmp_path_factory.mktemp("dask")
    about = folder / "scheduler.json"
    # A run that ends its worker is not given to the next one.
    environment = {**os.environ, "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0"}
    where = ["--host", "127.0.0.1", "--scheduler-file", str(about)]
    preload = folder / "version.py"
    preload.write_text(
        f"from experiments import sweep_point\nsweep_point.fingerprint = lambda: {VERSION!r}\n"
    )
    commands = [
        [str(DASK), "scheduler", *where, "--port", "0", "--no-dashboard"],
        [str(DASK), "worker", *where, "--nworkers", "2", "--nthreads", "1", "--no-dashboard",
         "--local-directory", str(folder), "--preload", str(preload)],
    ]  # fmt: skip
    processes = []
    try:
        with (folder / "log").open("w") as log:
            for command in commands:
                processes.append(
                    subprocess.Popen(
                        command, stdout=log, stderr=log, env=environment, start_new_session=True
                    )
                )
        deadline = time.monotonic() + DEADLINE_S
        while not about.is_file() or not about.read_text().endswith("}"):
            assert time.monotonic() < deadline, (folder / "log").read_text()
            time.sleep(0.05)
        yield json.loads(about.read_text())["address"]
    finally:
        for process in processes:  # with the workers that it started
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(DEADLINE_S)


def spec_of(**more: Any) -> SweepSpec:
    starts = {START: ["0us", "5us", "20us", "300us"]}
    goal = {"objective": {"minimise": "peak_queue"}, "subject_to": ["done >= 2"]}
    return SweepSpec.of({"run": RUN, "vary": starts, **goal, **more})


def mine(run: Run) -> dict[str, float]:
    return {"mine": sum(run.results.table("flows", ["received_bytes"]).column(0).to_pylist()) / 2}


def fatal(run: Run) -> dict[str, float]:
    if run.context.variant.labels[START] == "5us":
        os.kill(os.getpid(), signal.SIGKILL)
    return mine(run)


if dask_setup.is_ready():  # `make test` sees to it, where there is an index of packages

    def test_workers_give_the_same_bytes_as_processes(
        cluster: str, program: CompiledProgram, tmp_path: Path
    ) -> None:
        spec = spec_of(vary={START: ["0us", "5us", "soon", "300us"]})
        there = run(spec, scheduler=cluster, measure=mine, program=program)
        here = run(spec, workers=2, measure=mine, program=program)
        assert there.runs == here.runs
        assert [each.point for each in there.failures] == [2]
        best = there.best()
        assert best is not None
        assert best.parameters == {START: "5us"}
        assert best.medians["mine"] == 500_000
        for result, name in ((there, "there"), (here, "here")):
            result.write(tmp_path / name)
        for name in FILES:
            ours = (tmp_path / "here" / name).read_bytes()
            assert (tmp_path / "there" / name).read_bytes() == ours

    def test_a_worker_that_dies_takes_one_run_with_it(
        cluster: str, program: CompiledProgram
    ) -> None:
        result = run(spec_of(), scheduler=cluster, measure=fatal, program=program)
        failures = [(each.point, each.failure) for each in result.failures]
        assert failures == [(1, "the worker that ran it ended (out of memory?)")]
        assert [each.metrics["mine"] for each in result.runs if not each.failure] == [
            500_000, 500_000, 250_000,
        ]  # fmt: skip

    def test_ctrl_c_cancels_what_is_not_played(cluster: str, program: CompiledProgram) -> None:
        def tell(progress: Progress) -> None:
            if progress.played:
                raise KeyboardInterrupt

        result = run(spec_of(), scheduler=cluster, program=program, tell=tell)
        assert result.interrupted
        assert len(result.runs) == 1
        assert not run(spec_of(), scheduler=cluster, program=program).failures

    def test_workers_of_another_version_are_refused(
        cluster: str, program: CompiledProgram, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sweep_dask, "fingerprint", lambda: "another")
        with pytest.raises(DaskError, match="other sources than we") as caught:
            run(spec_of(), scheduler=cluster, program=program)
        assert "same commit" in caught.value.remedy

    def test_a_scheduler_that_is_not_there(
        program: CompiledProgram, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sweep_dask, "PATIENCE_S", 0.3)
        with pytest.raises(DaskError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:1"):
            run(spec_of(), scheduler="tcp://127.0.0.1:1", program=program)
        with pytest.raises(DaskError, match="no Dask scheduler answers at nonsense"):
            run(spec_of(), scheduler="nonsense://x", program=program)


def test_without_dask_the_remedy_is_told(
    program: CompiledProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep_dask, "is_installed", lambda: False)
    with pytest.raises(DaskError, match="Dask is not installed") as caught:
        run(spec_of(), scheduler="tcp://127.0.0.1:1", program=program)
    assert "make setup-dask" in caught.value.remedy


def test_the_lock_file_has_what_is_imported() -> None:
    assert {"distributed", "dask", "cloudpickle"} <= dask_setup.pins().keys()
