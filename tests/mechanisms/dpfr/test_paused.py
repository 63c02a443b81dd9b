"""Full load, all data classes paused for 10 ms on every link, and other news in the way.

Heartbeats and news have a class of their own, which nobody pauses: no link is thought dead, and
what is really cut in the middle of it is found, told and gone round in the usual time.
"""

from __future__ import annotations

import pytest

from protocols.notification import NotificationType
from tests.mechanisms.dpfr.rig import Rig
from tests.softswitch.lanes import pfc_frame

US = 1_000_000
DATA = range(7)
FULL = "100Gbps"
CLASSES = "cnp: {dscp: 48, queue: 7}, roce: {dscp: 26, queue: 3, lossless: true, ecn: hpcc-dcqcn}"
BUFFER = "buffer: {shared: 8MB}"


def load() -> str:
    """Each host sends at full rate to one in another pod, and 5 % of that in the class of news."""
    lines = []
    for n in range(16):
        one, other = f"h{n + 1}", f"h{(n + 4) % 16 + 1}"
        lines.append(
            f"  - message: {{from: {one}, to: {other}, bytes: 500MB, payload: 4096B, rate: {FULL}}}"
        )
        lines.append(
            f"  - message: {{from: {one}, to: {other}, bytes: 50MB, payload: 256B, "
            "rate: 5Gbps, dscp: 48}"
        )
    return "\n".join(lines)


@pytest.fixture(scope="module")
def rig() -> Rig:
    """Under load for some time."""
    made = Rig(classes=CLASSES, more=BUFFER, traffic=load())
    made.run(200 * US)
    return made


def pause(rig: Rig) -> None:
    """Pause all data classes at every port of every switch, for as long as one frame can."""
    frame = pfc_frame(dict.fromkeys(DATA, 0xFFFF))
    for switch in rig.topology.switches:
        for port in rig.topology.ports_of(switch.name):
            rig.hand_over(switch.name, port.number, frame)


def arrived(rig: Rig) -> tuple[int, int]:
    """Return how many packets have come to hosts, of data and of the class of news."""
    came = rig.engine.flow_stats(0, 32)["received_packets"]
    return int(came[::2].sum()), int(came[1::2].sum())


def test_a_pause_of_10_ms_raises_no_alarm_and_holds_up_no_news(rig: Rig) -> None:
    setting, cut = rig.setting, rig.links()[0]
    assert arrived(rig)[0] > 1000
    pause(rig)
    rig.run(300 * US)
    data, others = arrived(rig)
    for _ in range(9):
        pause(rig)
        rig.run(300 * US)
    assert rig.counts()["went_down"] == 0
    rig.cut(cut)
    pause(rig)
    rig.run(rig.bound_ps() + setting.period_ps)
    assert rig.counts()["went_down"] == 2
    assert {switch for switch, _ in rig.masks()} >= set(rig.leaves[1:])
    copies = 2 * (len(rig.leaves) - 1) + 1
    rig.run(10 * setting.period_ps)
    assert rig.news(NotificationType.LINK_DOWN) == setting.copies * copies
    held = rig.masks()
    for _ in range(23):
        pause(rig)
        rig.run(300 * US)
        assert rig.masks() == held
    assert arrived(rig)[0] == data, "they were paused all the time"
    assert arrived(rig)[1] - others > 100_000
    assert rig.news(NotificationType.LINK_DOWN) % copies == 0
    assert rig.counts()["went_down"] == 2
    rig.heal(cut)
    rig.settle(rig.longest_hold())
    assert rig.counts()["came_up"] == 2
    assert arrived(rig)[0] > data
