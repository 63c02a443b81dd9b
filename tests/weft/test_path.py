"""`weft path` in virtual time: a flow's way, links that lose, events of a run, wrong words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from weft import cli

TOPOLOGY = """
generator: leaf_spine
spines: 1
leaves: 2
hosts_per_leaf: 1
time_scale: 1
link: {rate: 100Gbps, delay: 500ns, queue: 1MB}
classes: {roce: {dscp: 26, queue: 3}, rest: {queue: 0}}
"""
DEAD = "events: [{at: 1ms, link: s3-s2, towards: s2, loss: 100%}]\n"


def path(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    code = cli.main(["path", *words, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_path_is_what_the_program_does_until_a_link_dies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "net.yaml"
    file.write_text(TOPOLOGY + DEAD)
    asked = ["h1", "h2", "--sim", str(file), "--count", "3"]
    code, found = path(capsys, *asked)
    assert (code, found["sent"], found["arrived"]) == (0, 3, 3)
    hops = [(hop["switch"], hop["port"], hop["left"][0]) for hop in found["hops"]]
    assert [(switch, port, left["towards"]) for switch, port, left in hops] == [
        ("s1", 1, "s3:1"), ("s3", 1, "s2:2"), ("s2", 2, "h2"),
    ]  # fmt: skip
    assert {left["queue"] for _, _, left in hops} == {3}
    code, found = path(capsys, *asked, "--at", "2ms", "--dscp", "0")
    assert (code, found["arrived"]) == (1, 0)
    assert found["vanished"] == [{"place": "s3:2 to s2:2", "packets": 3, "reason": ""}]
    assert found["hops"][0]["left"][0]["queue"] == 0


def test_the_table_says_where_probes_vanish(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "run.yaml"
    (tmp_path / "net.yaml").write_text(TOPOLOGY)
    run = "topology: net.yaml\ntraffic: [{cbr: {from: h1, to: h2, rate: 1Gbps}}]\nuntil: 3ms\n"
    file.write_text(run + DEAD)
    asked = ["path", "h1", "h2", "--sim", str(file), "--at", "2ms", "--count", "2"]
    assert cli.main(asked) == 1
    shown = capsys.readouterr().out
    assert "0 of 2 probes arrived at h2" in shown
    assert "2 vanished at s3:2 to s2:2" in shown


def test_a_file_that_is_not_there_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["path", "h1", "h2", "--sim", "nowhere"]) == 1
    assert "no such topology" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["h1", "h9", "--sim", "leafspine"], "leafspine has no host 'h9'"),
        (["h1", "h1", "--sim", "leafspine"], "a flow has two ends"),
        (["h1", "h2", "--sim", "leafspine", "--at", "2"], "--at 2: 2 has no unit"),
        (["h1", "h2", "--at", "2ms"], "--at is for --sim"),
        (["h1", "h2", "--sim", "leafspine", "--udp-port", "0"], "--udp-port 0: from 1 to 65535"),
        (["h1", "h2", "--sim", "leafspine", "--count", "5000"], "--count 5000: from 1 to 1000"),
    ],
)
def test_wrong_words_are_said_in_a_line(
    words: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["path", *words]) == 2
    assert why in capsys.readouterr().err
