"""The lab write-your-own-congestion-control as it runs: its arithmetic, networks, the kernel."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from experiments import grade_worker
from tests.hostagent.own_algorithm_cache import own_algorithm_cache
from tests.labs.answers_and_marks import rewritten
from tests.labs.own_controls import ADDED, FOLDER, REFERENCE
from weft import cli
from workloads.loader import load_run_file, read_run

__all__ = ["own_algorithm_cache"]

GRADING = grade_worker.load(FOLDER)
LAB = GRADING.__name__.rpartition(".")[0]
CASES: Any = sys.modules[f"{LAB}.cases"]
CONTROLS: Any = sys.modules[f"{LAB}.controls"]
IN_RUNS: Any = sys.modules[f"{LAB}.in_runs"]


def ran(capsys: pytest.CaptureFixture[str], out: Path, *words: str) -> tuple[int, Any]:
    name = "write-your-own-congestion-control"
    code = cli.main(["lab", "run", name, "--out", str(out), "--json", *words])
    text = capsys.readouterr().out
    return code, json.loads(text) if text else {}


def verdicts(result: Any) -> dict[str, str]:
    return {check["row"]: check["verdict"] for check in result["checks"]}


# ---------------------------------------------------------------- its arithmetic


@pytest.mark.parametrize("case", CASES.ALL, ids=lambda case: str(case.name))
def test_every_case_is_a_run_file_that_ends_behind_what_is_measured(case: Any) -> None:
    run = load_run_file(CASES.FOLDER / f"{case.name}.yaml")
    assert run.until_ps is not None and run.until_ps >= case.last * 10**9


@pytest.mark.parametrize("control", CONTROLS.OTHERS, ids=lambda control: str(control.name))
def test_controls_have_what_they_hear_and_nothing_else(control: Any) -> None:
    document = yaml.safe_load((CASES.FOLDER / "incast.yaml").read_text())
    run = read_run(yaml.safe_dump(control.applied(document)))
    assert run.transport is not None
    assert run.transport.congestion_control == control.transport["congestion_control"]
    (roce,) = (each for each in run.topology.classes if each.name == "roce")
    hears_records = roce.setting("path_telemetry") is not None
    assert hears_records == ("path_telemetry" in control.tells)


def seen(waits: list[tuple[float, int, float]], took: list[float]) -> Any:
    """Two flows; queues as rows of (ms, port, bytes), messages as how long each took."""
    arrived = np.array([(ms, flow, (1 + flow) * 125_000) for ms in (1, 2) for flow in range(2)])
    rows = np.array(waits, dtype=float).reshape(-1, 3)
    return CASES.Seen(2, arrived, rows, np.array(took), np.full(len(took), 16_000.0), 0)


def test_queue_is_a_percentile_over_time_of_the_fullest_port() -> None:
    """A microsecond without a sample is one in which nothing waited."""
    full = [(1 + us / 1000, 0, 8000.0) for us in range(1, 501)]
    other = [(1 + us / 1000, 1, 9000.0) for us in range(1, 11)]
    found = seen(full + other, [])
    assert found.queue(1, 2, 99) == 8
    assert found.queue(1, 2, 40) == 0
    assert found.queue(1, 1.5, 1) == 8
    assert found.queue(1, 2, 100) == 9
    assert found.gbps(1, 2).tolist() == [1, 2]


def test_two_classes_of_a_port_wait_together() -> None:
    assert seen([(1.001, 0, 8000.0), (1.001, 0, 1000.0)], []).queue(1, 1.001, 50) == 9


def test_messages_that_are_not_done_are_the_slowest() -> None:
    done = [10.0] * 999
    assert IN_RUNS.slowest(seen([], [*done, np.nan])) == 10
    assert np.isnan(IN_RUNS.slowest(seen([], [*done[:900], *[np.nan] * 99])))


# ---------------------------------------------------------------- the lab


def test_answer_that_is_none_is_refused_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.h"
    path.write_text(rewritten(REFERENCE, (ADDED, " * 0.5")))
    words = ["lab", "run", "write-your-own-congestion-control", "--answer", str(path)]
    assert cli.main(words) == 2
    assert f"{path}:" in (said := capsys.readouterr().err) and "uses 0.5" in said


@pytest.mark.long
def test_answer_runs_beside_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.h"
    path.write_text(rewritten(REFERENCE, (ADDED, "")).replace("own_cc", "never_adds"))
    words = ("--answer", str(path), "--seeds", "1", "--variant", "own", "--variant", "encc")
    code, result = ran(capsys, tmp_path / "out", *words)
    assert code == 1
    failed = {row for row, verdict in verdicts(result).items() if verdict == "fail"}
    assert failed == {"own: Jain, incast", "own: Jain, join", "own: through both"}
    for name in ("queue.png", "beside.png"):
        assert (tmp_path / "out" / name).is_file()


@pytest.mark.long
@pytest.mark.root
def test_header_decides_in_the_kernel_as_natively(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, result = ran(capsys, tmp_path / "out", "--runtime", "softswitch")
    assert code == 0, verdicts(result)
