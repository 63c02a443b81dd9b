"""Queue pairs that share their load over planes, in virtual time and exact: loss and return."""

from __future__ import annotations

import pytest

from hostagent.rnic.binding import PacketKind, QueuePairConfig
from hostagent.rnic.planes import PlaneConfig, PlaneLoss, PlaneState, PlaneUse
from tests.hostagent.virtual_links import GBPS, US, Link, Pair, tolerant

MS = 1000 * US
LONG = 64 << 20
PLANES = PlaneConfig(PlaneUse.SHARED, misses=3, silence_ps=30 * US, probe_ps=MS)
HEALTH = {
    "line_rate": 200 * GBPS,
    "min_rate": GBPS,
    "hold_ns": 10_000_000,
    "hold_most_ns": 10_000_000_000,
    "stable_ns": 2_000_000_000,
    "ramp_ns": 100_000,
    "answers": 5,
}


def over_planes(**changes: object) -> QueuePairConfig:
    values: dict[str, object] = {"planes": PLANES, "window_packets": 4096, "timeout_ps": 50 * MS}
    return tolerant(**{**values, **changes})  # type: ignore[arg-type]


def pair_of(n: int = 2, *, health: bool = True, **changes: object) -> Pair:
    pair = Pair([Link(rate_bps=200 * GBPS) for _ in range(n)])
    given = {"dual_plane": HEALTH} if health else {}
    pair.join(over_planes(interfaces=n, **changes), **given)
    return pair


def bytes_between(pair: Pair, first: int, last: int) -> int:
    """Payload that left `a` for the first time between two times."""
    return sum(
        row.packet.tail - 4
        for row in pair.sent
        if row.card is pair.a
        and first <= row.at < last
        and row.packet.kind is PacketKind.DATA
        and not row.packet.repeated
    )


def test_both_planes_are_full_and_nothing_is_repeated() -> None:
    pair = pair_of()
    pair.post(LONG)
    pair.run(until=20 * MS)
    stats = pair.a.queue_pair_stats(1)
    assert stats.acked_bytes == LONG
    assert (stats.repeated_packets, stats.timeouts, stats.naks_received) == (0, 0, 0)
    planes = [pair.a.plane_stats(1, i) for i in range(2)]
    assert abs(planes[0].sent_packets - planes[1].sent_packets) <= 1
    assert [plane.losses for plane in planes] == [0, 0]
    assert LONG * 8 * 10**12 / pair.done_at() >= 0.98 * 400 * GBPS * 4096 / (4096 + 60 + 24)


@pytest.mark.parametrize("knows", [True, False], ids=["link", "silence"])
def test_one_plane_lost(knows: bool) -> None:
    pair = pair_of()
    pair.post(LONG)
    if knows:
        pair.at(300 * US, lambda: pair.set_link(1, False))
    else:
        pair.lose = lambda sent: sent.link == 1 and sent.at >= 300 * US
    pair.run(until=5 * MS)
    stats, plane = pair.a.queue_pair_stats(1), pair.a.plane_stats(1, 1)
    assert stats.acked_bytes == LONG
    assert plane.state is PlaneState.LOST
    assert plane.why is (PlaneLoss.LINK if knows else PlaneLoss.SILENT)
    full = bytes_between(pair, 100 * US, 300 * US) / 200
    after = bytes_between(pair, 800 * US, 1300 * US) / 500
    assert after >= 0.48 * full


def test_found_again() -> None:
    pair = pair_of()
    for _ in range(20):
        pair.post(LONG)
    pair.at(300 * US, lambda: pair.set_link(1, False))
    pair.at(1300 * US, lambda: pair.set_link(1, True))
    pair.run(until=16 * MS)
    plane = pair.a.plane_stats(1, 1)
    assert plane.state is PlaneState.UP
    assert 10_300 * US <= plane.up_at <= 11_400 * US
    full = bytes_between(pair, 100 * US, 300 * US) / 200
    assert bytes_between(pair, 11_000 * US, 12_000 * US) / 1000 >= 0.98 * full
