"""How fast a queue says that one may send: the rule in plain integers, packet by packet."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from scapy.layers.l2 import Ether

import topologies
from controller.entries import (
    Exact,
    Range,
    TableEntry,
    call,
    match,
)
from tests.p4src.conftest import Bench, Program
from tests.p4src.fast_cnp_bench import (
    MS,
    PACKET_BYTES,
    PAYLOAD,
    SLOW_BPS,
    THREE_HOSTS,
    US,
    asked,
    data,
    leaf_of,
    source,
    told,
)
from tests.p4src.fast_cnp_rule import Queue
from topologies import Topology


@pytest.fixture
def topology() -> Topology:
    return topologies.loads(THREE_HOSTS, name="three")


@pytest.fixture
def leaf(fabric_program: Program, topology: Topology, policy: Any) -> Iterator[Bench]:
    yield from leaf_of(fabric_program, topology, policy)


CUTS = {128: 100, 200: 60, 400: 20, 3000: 2}
DEPTH_UNIT = 1082


def rule(leaf: Bench, random: Random, *, far: bool) -> Queue:
    """Return a queue of port 2 with numbers around the right ones, and the rule's for the same."""

    def about(value: float) -> int:
        return int(value * 2 ** random.uniform(-1.5, 1.5))

    window_loop, unit = random.randrange(6), random.choice([100, 256, 1000]) * 256
    window = (unit << window_loop) >> 8  # in microseconds
    drained = window * SLOW_BPS / 8e6
    numbers = {
        "wanted_depth": random.randrange(1, 6) * 1082,
        "burst_depth": random.randrange(1, 9) * 1082, "drain": about(SLOW_BPS * 65536 / 8e6),
        "window": window, "window_loop": window_loop, "unit": unit,
        "share": about(256 * 65536 / drained),
        "packets": about(4 * 1082), "line": about(SLOW_BPS / 65536), "speed": about(8e6 / 65536),
        "most": random.choice([1, 2, 10]) * SLOW_BPS, "least": random.choice([70_000, 500_000]),
    }  # fmt: skip
    for (first, part), last in zip(CUTS.items(), [*list(CUTS)[1:], 1 << 16], strict=True):
        key = match(excess=Range(first, last - 1))
        cut = call("cut_to_part", part=part)
        leaf.install(TableEntry("fast_cnp_cut", key, cut, priority=1))
    if far:
        key = match(port=Exact(2), destination=Exact(int(leaf.host("h2").address.ip)))
        action = call("watch_far_queue", index=600, **numbers)
        leaf.install(TableEntry("fast_cnp_far", key, action))
        ask = call("ask_far_queue", index=600, **asked(numbers, burst=10**9))
        leaf.install(TableEntry("fast_cnp_far_claims", key, ask))
    else:
        key = match(**{"port": Exact(2), "class": Exact(0)})
        action = call("watch_queue", depth_unit=DEPTH_UNIT, **numbers)
        leaf.install(TableEntry("fast_cnp_queue", key, action))
        ask = call("ask_queue", **asked(numbers, burst=10**9))
        leaf.install(TableEntry("fast_cnp_claims", key, ask))
    return Queue(numbers, CUTS, far=far)


@pytest.mark.parametrize("seed", range(8))
def test_a_far_queue_s_rate_is_by_the_rule(leaf: Bench, seed: int) -> None:
    """Packets of any length at any time: what is told, and that nothing is where nothing should."""
    random = Random(seed)
    leaf.switch.configure_port(2, rate_bps=10**12)
    queue = rule(leaf, random, far=True)
    source(leaf, every=0)
    told_of = 0
    for psn in range(250):
        pause = random.choice([0, 0, 0, 1, 7, 200, 900]) if psn % 80 else 60_000
        leaf.settle(pause * US)
        frame = bytes(data(leaf, psn=psn, size=random.randrange(0, PAYLOAD, 4)))
        now = leaf.switch.now_ns // US
        rate = queue.asked(now, 5)
        queue.packet(now, len(frame))
        leaf.switch.inject(1, frame)
        leaf.settle(US)
        told_of += matches(leaf, rate)
    assert told_of > 20


def matches(leaf: Bench, rate: int | None) -> bool:
    """Whether somebody was told, which has to be as the rule says."""
    signals = [told(Ether(each)) for each in leaf.take(1)]
    words = [(signal.queue, signal.validity) for signal in signals]
    assert words == ([] if rate is None else [(rate, 5)])
    return rate is not None


@pytest.mark.parametrize("seed", range(8))
def test_a_port_s_own_queue_is_what_waits_and_what_comes_is_what_has_left_besides(
    leaf: Bench, seed: int
) -> None:
    """Packets of nobody known fill it, and between them come those that are told."""
    random = Random(seed)
    queue = rule(leaf, random, far=False)
    source(leaf, every=0)
    told_of = 0
    for _ in range(8):
        waiting = random.randrange(1, 40) - 1  # the first one finds nobody there
        for psn in range(waiting + 1):
            leaf.switch.inject(3, bytes(data(leaf, psn=psn, src="h3")))
        queue.packet(leaf.switch.now_ns // US, PACKET_BYTES, 0)
        probes = random.randrange(40)
        while waiting:
            leaf.settle(MS // 2)
            if probes:
                rate = queue.asked(leaf.switch.now_ns // US, 5)
                leaf.switch.inject(1, bytes(data(leaf)))
                probes, waiting = probes - 1, waiting + 1
            else:
                rate = None
            leaf.settle(MS // 2)
            told_of += matches(leaf, rate)
            waiting -= 1
            queue.packet(leaf.switch.now_ns // US, PACKET_BYTES, waiting * DEPTH_UNIT)
        leaf.settle(MS + random.randrange(3) * 20 * MS)
    assert told_of > 20
