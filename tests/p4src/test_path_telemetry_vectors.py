"""Path telemetry on all switches: BMv2's recorded answers are ours, with both compilers.

tests/golden/path_telemetry.vectors.json is what BMv2 does with p4src/fabric.p4 by p4c; what each
case is about, and what has to become of it, stands in path_telemetry_scenario.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from scapy.layers.inet import IP
from scapy.layers.l2 import Ether

from compat.parity.cases import Answer
from compat.parity.targets import InProcess
from protocols.rocev2 import icrc_is_valid
from protocols.telemetry import has_telemetry, shim_of, without
from tests.p4src.path_telemetry_scenario import (
    PROGRAM,
    RECORDED,
    Case,
    recorded_round,
    scenario,
)
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


def test_our_switch_answers_as_bmv2_did(answer: Answer) -> None:
    assert_answers_as(RECORDED, answer)


def test_nothing_hangs_on_the_time_or_on_what_is_not_there(
    target: InProcess, answer: Answer
) -> None:
    assert_hangs_on_nothing(target, answer, recorded_round())


def test_what_is_written(answer: Answer) -> None:
    most = 0
    for case, seen in zip(scenario(), answer.seen, strict=True):
        (frames,) = seen.frames.values()
        (frame,) = frames
        most = max(most, written(case, frame))
    assert most == 0xFFFF, "the line's use saturates"


def written(case: Case, frame: bytes) -> int:
    """Check what left; return the use that it tells, if it tells one."""
    if case.words is None:
        assert frame[34:] == case.packet[34:], case.name
        return 0
    shim = shim_of(frame)
    assert (shim.hops, bytes(shim.data)) == (case.hops, case.words), case.name
    assert without(frame)[34:] == without(case.packet)[34:], case.name
    assert Ether(frame)[IP].len == len(frame) - 14, case.name
    assert has_telemetry(frame) and icrc_is_valid(without(frame)), case.name
    return int.from_bytes(case.words[2:4]) if len(case.words) == 4 else 0


@pytest.mark.root
@pytest.mark.reference
def test_all_four_pairings_are_equal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert_pairings_equal(PROGRAM, RECORDED, tmp_path, capsys)
