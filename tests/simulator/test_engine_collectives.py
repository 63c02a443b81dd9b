"""The engine's collectives: places that are used again, mistakes, and what a lost packet stops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from simulator.core import EngineError, Stop
from simulator.core.binding import Pattern

RING, DIRECT = 0, 1


def ring_of(net: Any, ranks: int, steps: int, size: int = 8) -> list[int]:
    """Barriers of each rank in front and behind a ring, which has not begun; return the flows."""
    nodes, _ = net.star(ranks)
    flows = [net.flow(nodes[r], nodes[(r + 1) % ranks]) for r in range(ranks)]
    barriers = np.zeros(2 * ranks, dtype=net.engine.message_dtype)
    barriers["waits"][ranks:] = 1
    first = np.minimum(np.arange(2 * ranks + 1), ranks)
    net.engine.add_messages(barriers, first, ranks + np.arange(ranks), hold=True)
    shape = Pattern(RING, ranks, 1, steps, 1, 1, size * ranks)
    ideal = np.full((2, ranks), 1000, dtype=np.int64)
    assert net.engine.add_pattern(shape, np.array(flows), ideal) == 0
    heads = np.arange(ranks)
    assert net.engine.add_collective(0, heads, [ranks + heads]) == 0
    return flows


def test_a_place_is_used_again(net: Any) -> None:
    """100 000 messages go through as many places as there are ranks."""
    flows = ring_of(net, 4, 25_000)
    net.engine.start_messages()
    assert net.engine.run(to_the_end=True) is Stop.DONE
    (stats,) = net.engine.collective_stats(0, 1)
    assert (stats.messages, stats.done) == (100_000, 100_000)
    assert stats.completion_ps.total == 4 * stats.last_done  # every piece is always on its way
    assert net.engine.flow_messages(flows[0], 1)["done"][0] == 25_000
    assert net.engine.message_times(0, 8 + 4)["done"].min() >= 0
    with pytest.raises(EngineError):
        net.engine.message_times(0, 8 + 5)


def test_what_is_wrong_with_a_collective_is_said(net: Any) -> None:
    ring_of(net, 3, 2)
    engine, heads = net.engine, np.arange(3)
    with pytest.raises(EngineError, match="is not held or begins another"):
        engine.add_collective(0, heads, [])
    with pytest.raises(EngineError, match="there is no pattern 1"):
        engine.add_collective(1, heads, [])
    with pytest.raises(EngineError, match="message 0 can't wait for a collective"):
        engine.add_collective(0, heads + 3, [heads])
    with pytest.raises(EngineError, match="messages are added before collectives"):
        net.messages([{"flow": 0, "bytes": 1}])
    flows, ideal = np.arange(3), np.ones(6, dtype=np.int64)
    for wrong, why in (
        (Pattern(RING, 1, 1, 2, 1, 1, 9), "two ranks"),
        (Pattern(RING, 3, 1, 2, 1, 1, 2), "without bytes"),
        (Pattern(DIRECT, 3, 1, 2, 2, 1, 9), "to 2 of 3 ranks"),
        (Pattern(DIRECT, 3, 1, 2, 1, 3, 9), "3 at once"),
        (Pattern(RING, 3, 1 << 20, 1 << 20, 1, 1, 1 << 40), "4 294 967 295"),
    ):
        each = wrong.ranks * wrong.channels * (wrong.steps if wrong.kind else 1)
        many = (np.zeros(each), np.zeros(each * (1 if wrong.kind else 2), dtype=np.int64))
        with pytest.raises(EngineError, match=why):
            engine.add_pattern(wrong, *many)
    with pytest.raises(EngineError, match="there is no flow 5"):
        engine.add_pattern(Pattern(RING, 3, 1, 2, 1, 1, 9), flows + 5, ideal)
    with pytest.raises(EngineError, match="a pattern of 3 flows got 2"):
        engine.add_pattern(Pattern(RING, 3, 1, 2, 1, 1, 9), flows[:2], ideal)


def test_a_lost_packet_stops_its_piece_and_no_other(net: Any) -> None:
    """Open loop: its message is never done, and those behind it on the flow are."""
    ring_of(net, 3, 30)
    net.engine.start_messages()
    net.engine.run(10_000_000)
    net.engine.set_link(0, False)
    net.engine.run(10_100_000)
    net.engine.set_link(0, True)
    assert net.engine.run(to_the_end=True) is Stop.IDLE
    (stats,) = net.engine.collective_stats(0, 1)
    assert 30 <= stats.done < 90
    done = net.engine.flow_messages(0, 3)["done"]
    assert int(done.sum()) == stats.done
