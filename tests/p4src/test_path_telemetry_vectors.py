"""Path telemetry on all switches: BMv2's recorded answers are ours, with both compilers.

tests/golden/path_telemetry.vectors.json is what BMv2 does with p4src/fabric.p4 by p4c; what each
case is about, and what has to become of it, stands in path_telemetry_scenario.py.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scapy.layers.inet import IP
from scapy.layers.l2 import Ether

from compat.parity import cases
from compat.parity.cases import Answer
from compat.parity.compare import Loose
from compat.parity.targets import Environment, InProcess, prepare
from compiler import compile_p4
from protocols.rocev2 import icrc_is_valid
from protocols.telemetry import has_telemetry, shim_of, without
from tests.p4src.path_telemetry_scenario import (
    PROGRAM,
    RECORDED,
    Case,
    recorded_round,
    scenario,
)
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


def test_our_switch_answers_as_bmv2_did(answer: Answer) -> None:
    assert list(filter(None, answer.refused)) == []
    _, recorded = cases.read_vectors(RECORDED)
    for case, seen in zip(recorded, answer.seen, strict=True):
        assert cases.seen_as_json(seen)["out"] == case["out"], case["name"]


def test_nothing_hangs_on_the_time_or_on_what_is_not_there(
    target: InProcess, answer: Answer
) -> None:
    """So nothing is left out when switches are compared on it."""
    loose = Loose()
    for number in range(4):
        loose.learn(answer, target.run_in(Environment.varied(number), recorded_round()))
    assert (loose.shape, loose.bits, loose.updates) == (set(), {}, set())


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
    words = ["parity", str(PROGRAM), "--replay", str(RECORDED), "-o", str(tmp_path), "--json"]
    assert main(words) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["equal"], report["compared"], report["partly_compared"]) == (True, True, 0)
    rows = [row for row in report["pairings"] if not row["missing"]]
    count = len(recorded_round().packets)
    assert [(row["cases"], row["undefined"], row["other"]) for row in rows] == [(count, 0, [])] * 4
    assert [row["equal"] for row in rows if row["against"]] == [count] * 3
