"""The lab rate-by-hand as it runs: five networks in virtual time, and the header in the kernel."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments import grade, grade_worker
from tests.hostagent.own_algorithm_cache import own_algorithm_cache
from weft import cli
from workloads.loader import load_run_file

__all__ = ["own_algorithm_cache"]

FOLDER = Path(__file__).parents[2] / "labs" / "rate-by-hand"
REFERENCE = grade.reference(FOLDER)
GRADING = grade_worker.load(FOLDER)
CASES: Any = sys.modules[GRADING.__name__.rpartition(".")[0] + ".cases"]
IN_RUNS: Any = sys.modules[GRADING.__name__.rpartition(".")[0] + ".in_runs"]


RATES = ((0, 100), (1, 300))


def ran(capsys: pytest.CaptureFixture[str], out: Path, *words: str) -> tuple[int, Any]:
    code = cli.main(["lab", "run", "rate-by-hand", "--out", str(out), "--json", *words])
    text = capsys.readouterr().out
    return code, json.loads(text) if text else {}


def verdicts(result: Any) -> dict[str, str]:
    return {check["row"]: check["verdict"] for check in result["checks"]}


# ---------------------------------------------------------------- its arithmetic


@pytest.mark.parametrize("case", CASES.ALL, ids=lambda case: str(case.name))
def test_every_case_is_a_run_file_that_ends_behind_what_is_measured(case: Any) -> None:
    run = load_run_file(CASES.FOLDER / f"{case.name}.yaml")
    assert run.until_ps is not None and run.until_ps >= case.last * 10**9
    assert run.transport is not None and run.transport.congestion_control == "fast-cnp"


def seen(ms: float = 1.0) -> Any:
    """Two flows of 100 and 300 Gb/s for 4 ms, in rows of `ms`; a queue that grows by 1 MB a ms."""
    ends = np.round(np.arange(round(4 / ms)) * ms + ms, 6)
    arrived = [(at, flow, rate * ms * 125_000) for at in ends for flow, rate in RATES]
    waited = [(at, (at - ms) * 1e6) for at in ends]
    return CASES.Seen(2, np.array(arrived), np.array(waited), ())


def test_rates_and_queues_are_of_the_time_that_is_asked_for() -> None:
    assert seen().gbps(1, 3).tolist() == [100, 300]
    assert [seen().longest(0, ms) for ms in (1, 2, 4)] == [0, 1, 3]
    assert seen().line(2) == [(0, 1), (2, 3)]


@pytest.mark.parametrize(
    ("shares", "index"), [([100.0, 100.0], 1.0), ([0.0, 200.0], 0.5), ([0.0, 0.0], 0.0)]
)
def test_jain_s_index(shares: list[float], index: float) -> None:
    assert CASES.jain(np.array(shares)) == pytest.approx(index)


def test_who_is_left_is_measured_when_it_is_back() -> None:
    rows = IN_RUNS.leave(seen(ms=0.1))
    assert [row.right for row in rows] == [False, True]
    assert rows[0].came == "100 Gb/s"


# ---------------------------------------------------------------- the lab


@pytest.mark.long
def test_lab_passes_with_the_reference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, result = ran(capsys, tmp_path / "out", "--seeds", "1", "--workers", "2")
    assert code == 0, verdicts(result)
    for name in ("queue.png", "two-queues.png"):
        assert (tmp_path / "out" / name).is_file()


@pytest.mark.long
def test_answer_runs_in_the_place_of_the_reference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.h"
    right = "(!least || word->rate < least)"
    assert REFERENCE.count(right) == 1
    path.write_text(REFERENCE.replace(right, "(!least || word->rate > least)"))
    words = ("--answer", str(path), "--seeds", "1", "--variant", "by-hand")
    code, result = ran(capsys, tmp_path / "out", *words)
    assert code == 1
    failed = {row for row, verdict in verdicts(result).items() if verdict == "fail"}
    assert failed == {"by-hand: through the first"}


def test_answer_that_is_none_is_refused_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.h"
    right = "        least = word->rate;"
    assert REFERENCE.count(right) == 1
    path.write_text(REFERENCE.replace(right, "        least = word->rate * 0.5;"))
    assert cli.main(["lab", "run", "rate-by-hand", "--answer", str(path)]) == 2
    assert f"{path}:" in (said := capsys.readouterr().err) and "uses 0.5" in said


@pytest.mark.long
@pytest.mark.root
def test_header_decides_in_the_kernel_as_natively(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, result = ran(capsys, tmp_path / "out", "--runtime", "softswitch")
    assert code == 0, verdicts(result)
