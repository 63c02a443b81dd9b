"""AllReduce on all switches: the recorded answers, and all four pairings where p4c and BMv2 are.

tests/golden/allreduce.vectors.json is what our switch does with p4src/fabric.p4; scenario.py says
what each case is about. BMv2 and p4c are compared with it by the reference test.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from compat.parity.cases import Answer
from compat.parity.targets import InProcess
from tests.mechanisms.allreduce.scenario import PROGRAM, RECORDED, recorded_round, scenario
from tests.p4src.recorded_vectors import (
    assert_answers_as,
    assert_hangs_on_nothing,
    assert_is_recorded,
    assert_pairings_equal,
    in_process,
)


@pytest.fixture(scope="module")
def target() -> InProcess:
    return in_process(PROGRAM)


@pytest.fixture(scope="module")
def answer(target: InProcess) -> Answer:
    return target.run(recorded_round())


def test_the_recorded_packets_are_the_scenario_s() -> None:
    assert_is_recorded(RECORDED, recorded_round(), (case.name for case in scenario()))


def test_our_switch_answers_as_recorded(answer: Answer) -> None:
    assert_answers_as(RECORDED, answer)


def test_copies_leave_by_the_ports_that_the_scenario_names(answer: Answer) -> None:
    for case, seen in zip(scenario(), answer.seen, strict=True):
        assert tuple(sorted(seen.frames)) == case.leaves, case.name


def test_nothing_hangs_on_the_time_or_on_what_is_not_there(
    target: InProcess, answer: Answer
) -> None:
    assert_hangs_on_nothing(target, answer, recorded_round())


@pytest.mark.root
@pytest.mark.reference
def test_all_four_pairings_are_equal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert_pairings_equal(PROGRAM, RECORDED, tmp_path, capsys)
