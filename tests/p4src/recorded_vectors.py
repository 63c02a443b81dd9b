"""What tests of recorded packets have in common: our switch on them, and all four pairings."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from compat.parity import cases
from compat.parity.cases import Answer, Round
from compat.parity.compare import Loose
from compat.parity.targets import Environment, InProcess, prepare
from compiler import compile_p4
from weft.cli import main

VARIED = 4
"""Times and surroundings in which a round is run again."""


def in_process(program: Path) -> InProcess:
    """Return our switch with a program by our compiler."""
    result = compile_p4(program)
    return InProcess(prepare(result.json_text, result.p4info_text))


def assert_is_recorded(recorded: Path, round_: Round, names: Iterable[str]) -> None:
    """Check that the file has these packets and updates, under these names."""
    there, rows = cases.read_vectors(recorded)
    assert there == round_
    assert [row["name"] for row in rows] == list(names)


def assert_answers_as(recorded: Path, answer: Answer) -> None:
    """Nothing was refused, and what came out is what the file has, case by case."""
    assert list(filter(None, answer.refused)) == []
    _, rows = cases.read_vectors(recorded)
    for row, seen in zip(rows, answer.seen, strict=True):
        assert cases.seen_as_json(seen)["out"] == row["out"], row["name"]


def assert_hangs_on_nothing(target: InProcess, answer: Answer, round_: Round) -> Loose:
    """Time and surroundings change no answer, so that nothing is left out of a comparison."""
    loose = Loose()
    for number in range(VARIED):
        loose.learn(answer, target.run_in(Environment.varied(number), round_))
    assert (loose.shape, loose.bits, loose.updates) == (set(), {}, set())
    return loose


def assert_pairings_equal(
    program: Path, recorded: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both compilers on both switches answer alike, in all cases."""
    words = ["parity", str(program), "--replay", str(recorded), "-o", str(folder), "--json"]
    assert main(words) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["equal"], report["compared"], report["partly_compared"]) == (True, True, 0)
    rows = [row for row in report["pairings"] if not row["missing"]]
    count = len(cases.read_vectors(recorded)[0].packets)
    assert [(row["cases"], row["undefined"], row["other"]) for row in rows] == [(count, 0, [])] * 4
    assert [row["equal"] for row in rows if row["against"]] == [count] * 3
