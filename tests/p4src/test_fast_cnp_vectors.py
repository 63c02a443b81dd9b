"""Fast CNPs on all switches: BMv2's recorded answers are ours, with both compilers and programs.

tests/golden/fast_cnp.vectors.json is what BMv2 does with p4src/fast_cnp.p4 by p4c; what each case
is about, and what has to become of it, stands in fast_cnp_scenario.py.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from scapy.contrib.roce import BTH, CNPPadding
from scapy.layers.inet import IP
from scapy.layers.l2 import Ether

from compat.parity.cases import Answer
from compat.parity.targets import InProcess
from protocols.notification import NotificationType, notification_of
from protocols.rocev2 import icrc_is_valid
from tests.p4src.fast_cnp_scenario import (
    CONGESTED,
    H4,
    RECORDED,
    ROOT,
    SWITCH_ID,
    TOLD,
    Case,
    Outcome,
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

CNP_BYTES = 74
SPOOFED = 11
FAR_PORT = 2
PROGRAMS = ("fast_cnp.p4", "fabric.p4")


@pytest.fixture(scope="module", params=PROGRAMS)
def target(request: pytest.FixtureRequest) -> InProcess:
    return in_process(ROOT / "p4src" / request.param)


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
    loose = assert_hangs_on_nothing(target, answer, recorded_round())
    assert not any(name.startswith("counter ") for name in loose.cells)


def cell(answer: Answer, counter: str, index: int) -> int:
    name = f".{counter}[{index}] packets"
    return sum(count for cell, count in answer.cells.items() if cell.endswith(name))


def test_every_outcome_and_every_drop_is_counted(answer: Answer) -> None:
    wanted = Counter(case.outcome for case in scenario() if case.outcome is not None)
    assert set(wanted) == set(Outcome)
    for outcome in Outcome:
        assert cell(answer, "fast_cnps", FAR_PORT * 8 + outcome) == wanted[outcome], outcome
    spoofed = sum(not case.leaves for case in scenario())
    assert spoofed > 1
    assert cell(answer, "dropped", SPOOFED) == spoofed


def test_what_becomes_of_each_packet(answer: Answer) -> None:
    for case, seen in zip(scenario(), answer.seen, strict=True):
        towards = case.packet[IP].dst
        goes_on = [
            f for frames in seen.frames.values() for f in frames if Ether(f)[IP].dst == towards
        ]
        others = [f for frames in seen.frames.values() for f in frames if f not in goes_on]
        assert len(goes_on) == case.leaves, case.name
        assert len(others) == (case.outcome is Outcome.SENT), case.name
        for frame in goes_on:
            check_packet(case, frame)
        for frame in others:
            assert seen.frames[case.port] == (frame,), case.name
            check_cnp(case, frame)


def check_packet(case: Case, frame: bytes) -> None:
    sent = bytes(case.packet)
    before, after = Ether(sent), Ether(frame)
    told = (Outcome.SENT, Outcome.INTERVAL, Outcome.ALREADY_TOLD)
    is_told = case.outcome in told or case.hears
    assert after[BTH].resv6 & TOLD == is_told, case.name
    if case.port != 3:
        assert after[BTH].resv6 & ~TOLD == 0, case.name  # a host's do not count
    marked = case.outcome in (Outcome.AMBIGUOUS_QP, Outcome.UNKNOWN_QP)
    assert after[IP].tos & 3 == (CONGESTED if marked else before[IP].tos & 3), case.name
    behind = 14 + 4 * before[IP].ihl + 8 + 5  # BTH's reserved bits are its fifth byte
    assert frame[behind:] == sent[behind:], case.name
    if before[IP].ihl == 5:
        assert icrc_is_valid(frame) == icrc_is_valid(sent), case.name


def check_cnp(case: Case, frame: bytes) -> None:
    cnp, packet = Ether(frame), Ether(bytes(case.packet))
    assert len(frame) == CNP_BYTES, case.name
    assert icrc_is_valid(frame), case.name
    assert (cnp[IP].src, cnp[IP].dst) == (packet[IP].dst, packet[IP].src), case.name
    assert cnp[BTH].dqpn == (0x1234 if packet[IP].src == H4 else 0), case.name
    signal = notification_of(cnp[CNPPadding])
    assert signal.type == NotificationType.CONGESTION
    assert (signal.switch_id, signal.port) == (SWITCH_ID, FAR_PORT)
    met = (packet[IP].dst, packet[BTH].dqpn)
    assert (signal.destination, signal.destination_qp) == met, case.name
    assert (signal.severity, signal.hops) == (0, 0), case.name
    if case.rate is not None:
        assert (signal.queue, signal.validity) == (case.rate, case.validity), case.name


@pytest.mark.root
@pytest.mark.reference
@pytest.mark.parametrize("program", PROGRAMS)
def test_all_four_pairings_are_equal(
    program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_pairings_equal(ROOT / "p4src" / program, RECORDED, tmp_path, capsys)
