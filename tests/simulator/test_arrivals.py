"""What arrives at many hosts within one window of time: each frame at its own instant."""

from __future__ import annotations

import random
from typing import Any

import pytest

US = 1_000_000
RATE = 100_000_000_000
DELAY = US
PAYLOAD = 64
SLOT = 8 * (14 + 20 + 8 + 12 + PAYLOAD + 4 + 24) * 10**12 // RATE
PAIRS = 80

DRAW = random.Random(5)
STARTS = {
    "at one instant": [0] * PAIRS,
    "evenly": [n * US // PAIRS for n in range(PAIRS)],
    "evenly, the last host first": [n * US // PAIRS for n in reversed(range(PAIRS))],
    "anyhow": [DRAW.randrange(US) for _ in range(PAIRS)],
    "two of each": [DRAW.randrange(PAIRS // 2) * 1000 for _ in range(PAIRS)],
    "close together, the last host first, and one much later": [
        *(n * 10 for n in reversed(range(PAIRS - 1))),
        US - 1,
    ],
}


@pytest.mark.parametrize("starts", STARTS.values(), ids=STARTS.keys())
def test_each_frame_arrives_at_its_instant(net: Any, starts: list[int]) -> None:
    flows = []
    for _ in starts:
        a, b = net.host(), net.host()
        net.link(a, b)
        flows.append(net.flow(a, b))
    net.messages(
        [
            {"flow": flow, "bytes": PAYLOAD, "start_ps": start}
            for flow, start in zip(flows, starts, strict=True)
        ]
    )
    net.engine.run(to_the_end=True)
    received = [net.flow_stats(flow)["first_received"] for flow in flows]
    assert received == [start + SLOT + DELAY for start in starts]


def test_frames_of_a_link_keep_their_order(net: Any) -> None:
    """Several of each of many links in a window, all in step."""
    packets = 8
    flows = []
    for _ in range(PAIRS):
        a, b = net.host(), net.host()
        net.link(a, b)
        flows.append(net.flow(a, b, payload=PAYLOAD))
    net.messages([{"flow": flow, "bytes": packets * PAYLOAD, "start_ps": 0} for flow in flows])
    net.engine.run(to_the_end=True)
    for flow in flows:
        stats = net.flow_stats(flow)
        assert (stats["received_packets"], stats["duplicates"]) == (packets, 0)
        assert stats["last_received"] == packets * SLOT + DELAY
