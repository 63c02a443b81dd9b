"""The lab failover-by-hand as it runs: two cards in virtual time, and the header in the kernel."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from experiments import grade
from tests.hostagent.own_algorithm_cache import own_algorithm_cache
from weft import cli

__all__ = ["own_algorithm_cache"]

FOLDER = Path(__file__).parents[2] / "labs" / "failover-by-hand"
REFERENCE = grade.reference(FOLDER)


def ran(capsys: pytest.CaptureFixture[str], out: Path, *words: str) -> tuple[int, Any]:
    code = cli.main(["lab", "run", "failover-by-hand", "--out", str(out), "--json", *words])
    text = capsys.readouterr().out
    return code, json.loads(text) if text else {}


def verdicts(result: Any) -> dict[str, str]:
    return {check["row"]: check["verdict"] for check in result["checks"]}


@pytest.mark.long
def test_lab_passes_with_the_reference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, result = ran(capsys, tmp_path / "out", "--seeds", "1", "--workers", "2")
    assert code == 0, verdicts(result)
    assert (tmp_path / "out" / "time-line.png").is_file()


@pytest.mark.long
def test_answer_runs_in_the_place_of_the_reference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.h"
    path.write_text(REFERENCE.replace(" || now < s->lost_at + s->hold", ""))
    words = ("--answer", str(path), "--seeds", "1", "--variant", "by-hand")
    code, result = ran(capsys, tmp_path / "out", *words)
    assert code == 1
    failed = {row for row, verdict in verdicts(result).items() if verdict == "fail"}
    assert failed == {"by-hand: switches while it flaps"}


@pytest.mark.long
def test_header_that_crashes_fails_its_variant_with_a_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.h"
    crash = "    s->down = s->answered = 0;\n"
    assert REFERENCE.count(crash) == 1
    path.write_text(REFERENCE.replace(crash, "    *(volatile weft_u32 *)(s->lost_at & 8) = 1;\n"))
    words = ("--answer", str(path), "--seeds", "1", "--variant", "by-hand")
    code, result = ran(capsys, tmp_path / "out", *words)
    assert code == 1
    (variant,) = result["variants"]
    assert "cut: the header died: SIGSEGV" in variant["runs"][0]["failure"]


def test_answer_that_is_none_is_refused_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.h"
    path.write_text(REFERENCE.replace("s->losses++;", "s->losses += 1.5;"))
    assert cli.main(["lab", "run", "failover-by-hand", "--answer", str(path)]) == 2
    assert f"{path}:" in (said := capsys.readouterr().err) and "uses 1.5" in said
    assert cli.main(["lab", "run", "failover-by-hand", "--answer", str(tmp_path / "no.h")]) == 2
    assert "No such file" in capsys.readouterr().err


def test_lab_without_answers_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["lab", "run", "cnp-by-hand", "--answer", str(tmp_path / "x.h")]) == 2
    assert "cnp-by-hand takes no --answer" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.root
def test_header_decides_in_the_kernel_as_natively(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, result = ran(capsys, tmp_path / "out", "--runtime", "softswitch")
    assert code == 0, verdicts(result)
