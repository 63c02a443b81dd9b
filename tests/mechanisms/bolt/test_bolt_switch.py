"""What a switch makes of packets that ask, against the paper's algorithm in Python."""

from __future__ import annotations

import pytest
from scapy.layers.inet import UDP
from scapy.layers.l2 import Ether

from protocols.grants import GRANTS_FORMAT, MORE, QueuedPacket, drains_ns
from protocols.notification import NOTIFICATION_PORT, Notification, NotificationType
from protocols.telemetry import (
    Telemetry,
    TelemetryKind,
    has_telemetry,
    shim_of,
    with_shim,
    without,
)
from tests.mechanisms.bolt.line import (
    ASKS,
    FROM,
    Model,
    Sent,
    counted,
    frame,
    passed,
    random_frames,
    switch,
    topology,
)

RATES = {"10Gbps": 10 * 10**9, "100Gbps": 100 * 10**9, "400Gbps": 400 * 10**9}


def notified(report: bytes) -> tuple[int, int]:
    """Return which packet a notification names, and how long its queue takes to drain."""
    packet = Ether(report)
    assert packet[UDP].dport == NOTIFICATION_PORT
    said = packet[Notification]
    assert said.type == NotificationType.QUEUE
    return QueuedPacket(bytes(said.payload)[:4]).sequence, drains_ns(said)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("rate", RATES)
def test_each_packet_is_answered_as_the_model_says(rate: str, seed: int) -> None:
    """Random frames of two classes: flags, notifications and counters, packet by packet."""
    fabric = topology(rate)
    frames = random_frames(seed, 400, 50_000, 2200 * 8 * 10**12 // RATES[rate])
    with switch(fabric) as made:
        there, back = passed(made, fabric, frames)
        outcomes = counted(made)
    model = Model(RATES[rate])
    for each in frames:
        model.come(each)
    flags = [shim_of(out).data[0] for out in there if has_telemetry(out)]
    asking = [each for each in frames if each.dscp == ASKS]
    assert flags == [model.answers[each.psn][0] for each in asking]
    assert outcomes == model.outcomes
    assert len(outcomes) == 7  # all kinds of it
    expected = [(psn, each[1]) for psn, each in model.answers.items() if each[1] is not None]
    assert [notified(report)[0] for report in back] == [psn for psn, _ in expected]
    for report, (_, drains) in zip(back, expected, strict=True):
        assert abs(notified(report)[1] - drains) <= 1


def test_a_packet_keeps_its_length_and_its_icrc_stays_that_without_the_shim() -> None:
    fabric = topology()
    frames = random_frames(7, 60, 50_000, 2200 * 80)
    with switch(fabric) as made:
        there, _ = passed(made, fabric, frames)
    sizes = sorted(len(out) for out in there)
    assert sizes == sorted(each.size for each in frames)
    assert all(shim_of(out).hops == 1 for out in there if has_telemetry(out))
    assert all(not has_telemetry(without(out)) for out in there if has_telemetry(out))


def test_a_threshold_that_the_class_says() -> None:
    """Twice the queue before anybody is notified, and so fewer who are."""
    fabric = topology(bolt="{threshold: 20KB}")
    frames = random_frames(3, 300, 50_000, 2200 * 80)
    with switch(fabric) as made:
        passed(made, fabric, frames)
        outcomes = counted(made)
    model, usual = Model(10**11, threshold=20_000), Model(10**11)
    for each in frames:
        model.come(each)
        usual.come(each)
    assert outcomes == model.outcomes
    assert 0 < outcomes["notified"] < usual.outcomes["notified"]


@pytest.mark.parametrize(
    "shim",
    [
        Telemetry(),
        Telemetry(format=1, hops=1, data=bytes(12)),
        Telemetry(format=2, hops=1, data=bytes(4)),
        Telemetry(kind=TelemetryKind.RETURNED, format=GRANTS_FORMAT, data=bytes([MORE, 0, 0, 0])),
        Telemetry(format=GRANTS_FORMAT, data=bytes([MORE, 0, 0, 0, 0, 0, 0, 0])),
        Telemetry(format=GRANTS_FORMAT),
    ],
    ids=["empty", "hops", "most used", "returned", "two words", "none"],
)
def test_what_does_not_ask_is_left_as_it_is(shim: Telemetry) -> None:
    fabric = topology()
    plain = without(frame(fabric, Sent(0, ASKS, 400)))
    with switch(fabric) as made:
        made.inject(FROM, with_shim(plain, shim), at_ns=1000)
        (output,) = made.run_until(1_000_000)
        assert not counted(made)
    assert bytes(shim_of(bytes(output.packet))) == bytes(shim)
