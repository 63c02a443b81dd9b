"""Two cards over planes in cases that nobody chose for them: distances, numbers, rates, losses.

    .venv/bin/python tests/bench/planes_adversity.py [--seeds 1 2 3]

In virtual time, in this process: 8 or 32 MB by WRITE over planes of 20 Gb/s, 1 us long, if nothing
else is said. By case and seed: goodput, packets lost on the way and sent again, time-outs, planes
lost, probes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # for what the cards' tests have: links in virtual time

from hostagent.rnic.card_records import PacketKind  # noqa: E402
from hostagent.rnic.planes import PlaneConfig, PlaneUse  # noqa: E402
from tests.hostagent.test_rnic_planes import HEALTH, LONG, RATE, over_planes  # noqa: E402
from tests.hostagent.virtual_links import US, Link, Pair, Sent  # noqa: E402

MS = 1000 * US
FAR = PlaneConfig(PlaneUse.SHARED, misses=3, silence_ps=3 * MS, probe_ps=MS)


@dataclass(frozen=True)
class Case:
    """Links by (delay, rate), what a queue pair has otherwise, and the share lost on some links."""

    name: str
    links: tuple[tuple[int, int], ...] = ((US, RATE), (US, RATE))
    keys: dict[str, Any] = field(default_factory=dict)
    messages: int = 4
    loss: float = 0.0
    on: tuple[int, ...] = ()


def cases() -> Iterator[Case]:
    far, near = (500 * US, RATE), (US, RATE)
    long_haul = {"planes": FAR, "window_packets": 8192}
    yield Case("two planes of 100 km", (far, far), long_haul)
    yield Case("one near, one of 100 km", (near, far), long_haul)
    yield Case("8 planes", (near,) * 8)
    yield Case("20 and 5 Gb/s", (near, (US, RATE // 4)))
    yield Case("20 and 1 Gb/s", (near, (US, RATE // 20)))
    yield Case("an acknowledgement for 64", keys={"ack_every": 64})
    yield Case("4 UDP ports", keys={"udp_ports": 4})
    yield Case("1 % lost on both", loss=0.01, on=(0, 1))
    yield Case("10 % lost on both", loss=0.1, on=(0, 1))
    yield Case("30 % lost on one", loss=0.3, on=(1,))
    yield Case("100 km, 1 % lost on both", (far, far), long_haul, loss=0.01, on=(0, 1))
    small = {"mtu": 256}
    yield Case("8 planes, 256 B, 5 % lost", (near,) * 8, small, 1, 0.05, tuple(range(8)))


def play(case: Case, seed: int) -> str:
    """Play a case and say what came of it. Raises ValueError if not all of it came."""
    pair = Pair([Link(rate_bps=rate, delay_ps=delay) for delay, rate in case.links])
    pair.join(over_planes(interfaces=len(case.links), **case.keys), dual_plane=HEALTH)
    for _ in range(case.messages):
        pair.post(LONG)
    random, lost = Random(seed), [0]

    def lose(sent: Sent) -> bool:
        if sent.card is not pair.a or sent.link not in case.on or random.random() >= case.loss:
            return False
        lost[0] += sent.packet.kind is PacketKind.DATA
        return True

    pair.lose = lose
    pair.run(until=200 * MS)
    stats, size = pair.a.queue_pair_stats(1), case.messages * LONG
    if stats.acked_bytes != size:
        raise ValueError(f"{case.name}: {stats.acked_bytes} of {size} bytes came")
    planes = [pair.a.plane_stats(1, i) for i in range(len(case.links))]
    return (
        f"{case.name:<26} seed {seed}: {size * 8e3 / pair.done_at():6.1f} Gb/s, "
        f"{lost[0]} lost, {stats.repeated_packets} sent again, {stats.timeouts} time-outs, "
        f"{sum(each.losses for each in planes)} planes lost, "
        f"{sum(each.probes_sent for each in planes)} probes"
    )


def main() -> None:
    """Print all cases."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    asked = parser.parse_args()
    for case in cases():
        for seed in asked.seeds if case.loss else asked.seeds[:1]:
            print(play(case, seed), flush=True)


if __name__ == "__main__":
    main()
