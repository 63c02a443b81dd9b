"""`weft dcqcn`: its table is the one that the documentation shows, and what wrong input gets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from weft import cli, dcqcn

PAGE = Path(__file__).parents[3] / "docs" / "congestion-control.md"


def test_the_page_shows_what_the_command_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["dcqcn", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["stable"] for row in rows] == [True] * 4 + [False] * 2 + [True] * 10 + [False, True]
    page = PAGE.read_text()
    for row in rows:
        del row["stable"]
        cells = dcqcn.Row(**row).cells()
        assert f"| `{cells[0]}` | {' | '.join(cells[1:])} |" in page
    assert cli.main(["dcqcn"]) == 0
    assert "phase margin" in capsys.readouterr().out


def test_a_solution_over_time_is_shown_where_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--set", "hpcc-dcqcn", "--rate", "400Gbps", "--flows", "2", "--solve"]
    assert cli.main(["dcqcn", *words, "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert not row["stable"]
    assert row["solution"]["most_bytes"] > row["kmin_bytes"] + row["above_kmin_bytes"]


def test_each_number_s_source_is_shown_where_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["dcqcn", "--sources", "--rate", "100Gbps", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    clamps = {row["set"]: row for row in rows if row["field"] == "clamp_target_rate"}
    assert [row["value"] for row in clamps.values()] == [True, False, False]
    assert clamps["hpcc-dcqcn"]["url"].endswith("/simulation/run.py#L22")
    assert cli.main(["dcqcn", "--sources", "--set", "hpcc-dcqcn"]) == 0
    assert "CLAMP_TARGET_RATE 0" in capsys.readouterr().out


def test_many_flows_rest_beyond_kmax(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--set", "hpcc-dcqcn", "--rate", "1Gbps", "--flows", "32"]
    assert cli.main(["dcqcn", *words]) == 0
    assert "beyond Kmax" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--set", "nothing"], "choose ns3-rdma, hpcc-dcqcn-paper, hpcc-dcqcn"),
        (["--flows", "2,0"], "--flows 0: a number from 1"),
        (["--rate", "100"], "100 has no unit"),
        (["--rate", "8Tbps"], "DCQCN's integers hold up to"),
        (["--delay", "0ns"], "--delay 0ns: at least 1ns"),
    ],
)
def test_wrong_input(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["dcqcn", *words]) == 2
    assert said in capsys.readouterr().err
