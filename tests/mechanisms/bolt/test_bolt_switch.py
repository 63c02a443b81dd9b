"""What a switch makes of packets that ask, against the paper's algorithm in Python."""

from __future__ import annotations

import pytest
from scapy.layers.inet import UDP
from scapy.layers.l2 import Ether

from protocols.grants import QueuedPacket, drains_ns
from protocols.notification import NOTIFICATION_PORT, Notification, NotificationType
from protocols.telemetry import has_telemetry, shim_of
from tests.mechanisms.bolt.line import (
    ASKS,
    Model,
    counted,
    passed,
    random_frames,
    switch,
    topology,
)

RATES = {"10Gbps": 10 * 10**9, "100Gbps": 100 * 10**9, "400Gbps": 400 * 10**9}


def notified(frame: bytes) -> tuple[int, int, Notification]:
    """Return which packet a notification names, how long its queue drains, and the rest."""
    packet = Ether(frame)
    assert packet[UDP].dport == NOTIFICATION_PORT
    said = packet[Notification]
    assert said.type == NotificationType.QUEUE
    return QueuedPacket(bytes(said.payload)[:4]).sequence, drains_ns(said), packet


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
    assert [notified(frame)[0] for frame in back] == [psn for psn, _ in expected]
    for frame, (_, drains) in zip(back, expected, strict=True):
        assert abs(notified(frame)[1] - drains) <= 1
