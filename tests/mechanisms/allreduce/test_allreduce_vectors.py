"""AllReduce on all switches: the recorded answers, and all four pairings where p4c and BMv2 are.

tests/golden/allreduce.vectors.json is what our switch does with p4src/fabric.p4; scenario.py says
what each case is about. BMv2 and p4c are compared with it by the reference test.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from compat.parity import cases
from compat.parity.cases import Answer
from compat.parity.compare import Loose
from compat.parity.targets import Environment, InProcess, prepare
from compiler import compile_p4
from tests.mechanisms.allreduce.scenario import PROGRAM, RECORDED, recorded_round, scenario
from weft.cli import main


@pytest.fixture(scope="module")
def target() -> InProcess:
    result = compile_p4(PROGRAM)
    return InProcess(prepare(result.json_text, result.p4info_text))


@pytest.fixture(scope="module")
def answer(target: InProcess) -> Answer:
    return target.run(recorded_round())


def test_the_recorded_packets_are_the_scenario_s() -> None:
    round_, recorded = cases.read_vectors(RECORDED)
    assert round_ == recorded_round()
    assert [case["name"] for case in recorded] == [case.name for case in scenario()]


def test_our_switch_answers_as_recorded(answer: Answer) -> None:
    assert list(filter(None, answer.refused)) == []
    _, recorded = cases.read_vectors(RECORDED)
    for case, seen in zip(recorded, answer.seen, strict=True):
        assert cases.seen_as_json(seen)["out"] == case["out"], case["name"]


def test_copies_leave_by_the_ports_that_the_scenario_names(answer: Answer) -> None:
    for case, seen in zip(scenario(), answer.seen, strict=True):
        assert tuple(sorted(seen.frames)) == case.leaves, case.name


def test_nothing_hangs_on_the_time_or_on_what_is_not_there(
    target: InProcess, answer: Answer
) -> None:
    """So nothing is left out when switches are compared on it."""
    loose = Loose()
    for number in range(4):
        loose.learn(answer, target.run_in(Environment.varied(number), recorded_round()))
    assert (loose.shape, loose.bits, loose.updates) == (set(), {}, set())


@pytest.mark.root
@pytest.mark.reference
def test_all_four_pairings_are_equal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["parity", str(PROGRAM), "--replay", str(RECORDED), "-o", str(tmp_path), "--json"]
    assert main(words) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["equal"], report["compared"], report["partly_compared"]) == (True, True, 0)
    rows = [row for row in report["pairings"] if not row["missing"]]
    count = len(recorded_round().packets)
    assert [(row["cases"], row["undefined"], row["other"]) for row in rows] == [(count, 0, [])] * 4
    assert [row["equal"] for row in rows if row["against"]] == [count] * 3
