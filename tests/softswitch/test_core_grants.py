"""A port whose driver grants packets: what a wire that pushes back does to queues, in process.

driver: grant 2      port 1: sends 2 -> blocked, the rest waits in its queues -> next grant
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from softswitch.core import CoreError, Direction, PortConfig, PortState
from softswitch.impairments import impair

US = 1_000_000
MS = 1000 * US


def names(toy: Any) -> list[int]:
    """Return the key16 of all that came out."""
    return [int.from_bytes(o.data[8:10], "big") for o in toy.take()]


def send(toy: Any, *keys: int, **fields: int) -> None:
    for key in keys:
        toy.send(key16=key, **fields)


def test_as_many_leave_as_are_granted(toy: Any) -> None:
    toy.core.grant_port(1, 2)
    assert toy.core.port_state(1)[0] is PortState.UP
    send(toy, 1, 2, 3, 4)
    assert names(toy) == [1, 2]
    assert toy.core.port_state(1)[0] is PortState.BLOCKED
    assert toy.core.next_event() is None  # nothing changes by time alone
    toy.core.grant_port(1, 1)
    assert names(toy) == [3]
    toy.core.grant_port(1, 5)
    assert names(toy) == [4]
    assert toy.core.port_state(1)[0] is PortState.UP
    send(toy, 5, 6, 7, 8, 9)
    assert names(toy) == [5, 6, 7, 8]  # four of the five were left


def test_a_grant_takes_the_place_of_the_older_one_and_none_ends_it(toy: Any) -> None:
    toy.core.grant_port(1, 3)
    toy.core.grant_port(1, 1)
    send(toy, 1, 2, 3)
    assert names(toy) == [1]
    toy.core.grant_port(1, 0)
    assert names(toy) == []
    toy.core.grant_port(1, None)
    assert names(toy) == [2, 3]
    send(toy, *range(100))
    assert names(toy) == list(range(100))


def test_what_waits_is_seen_as_depth_and_time(toy: Any) -> None:
    toy.core.grant_port(1, 1)
    for n in range(4):
        toy.send(at=n * US)
    for n in range(4):
        toy.core.grant_port(1, 1, now_ps=(10 + n) * US)
    outputs = toy.take()
    assert [o.enq_qdepth for o in outputs] == [0, 0, 1, 2]
    assert [o.deq_qdepth for o in outputs] == [0, 2, 1, 0]
    assert [o.deq_timedelta for o in outputs] == [0, 9, 9, 9]
    assert toy.core.port_stats(1).max_depth_packets == 3


def test_over_the_queues_limit_packets_are_dropped_and_counted(toy: Any) -> None:
    toy.core.grant_port(1, 2)
    send(toy, *range(100))
    stats = toy.core.port_stats(1)
    assert (stats.tx_packets, stats.depth_packets, stats.drop_queue) == (2, 64, 34)
    toy.core.grant_port(1, None)
    assert names(toy) == list(range(66))


def test_other_ports_go_on(toy: Any) -> None:
    toy.core.grant_port(1, 0)
    for n in range(3):
        toy.send(out=1, key16=n)
        toy.send(out=2, key16=10 + n)
    assert names(toy) == [10, 11, 12]


def test_each_grant_goes_to_the_highest_priority_that_waits(make_toy: Callable[..., Any]) -> None:
    toy = make_toy(priorities=8)
    toy.core.grant_port(1, 0)
    for key, priority in enumerate((0, 3, 0, 7)):
        toy.send(key16=key, priority=priority)
    toy.core.grant_port(1, 1)
    assert names(toy) == [3]
    toy.core.grant_port(1, 1)
    assert names(toy) == [1]
    toy.send(key16=4, priority=5)  # came late, and still before the lowest
    for _ in range(3):
        toy.core.grant_port(1, 1)
    assert names(toy) == [4, 0, 2]


def test_up_down_and_blocked_are_asked_for_apart_from_grants(toy: Any) -> None:
    toy.core.grant_port(1, 1)
    toy.core.set_port(1, PortState.BLOCKED)
    send(toy, 1, 2)
    toy.core.grant_port(1, 1)
    assert names(toy) == []
    toy.core.set_port(1, PortState.UP)
    assert names(toy) == [1]
    toy.core.set_port(1, PortState.UP)  # says nothing about what the wire takes
    assert (names(toy), toy.core.port_state(1)[0]) == ([], PortState.BLOCKED)
    toy.core.set_port(1, PortState.DOWN)
    assert toy.core.port_stats(1).drop_down == 1
    toy.core.grant_port(1, 1)
    assert toy.core.port_state(1)[0] is PortState.DOWN
    toy.core.set_port(1, PortState.UP)
    send(toy, 3, 4)
    assert names(toy) == [3]


def test_paused_queues_use_no_grant(make_toy: Callable[..., Any]) -> None:
    toy = make_toy(priorities=4)
    toy.core.grant_port(1, 1)
    toy.core.set_port(1, PortState.UP, pause_mask=1 << 3)
    toy.send(key16=1, priority=3)
    toy.send(key16=2, priority=0)
    assert names(toy) == [2]
    toy.core.grant_port(1, 1)
    toy.core.set_port(1, PortState.UP)
    assert names(toy) == [1]


def test_a_packet_that_egress_drops_uses_no_grant(toy: Any) -> None:
    toy.core.grant_port(1, 1)
    toy.send(key16=1, flags=32)  # the toy drops it in egress
    send(toy, 2, 3)
    assert names(toy) == [2]


def test_a_packet_that_the_wire_loses_uses_no_grant(toy: Any) -> None:
    toy.core.impair_port(1, Direction.SEND, impair(loss=1))
    toy.core.grant_port(1, 1)
    send(toy, 1, 2, 3)
    toy.core.impair_port(1, Direction.SEND, impair())
    send(toy, 4, 5)
    assert names(toy) == [4]
    assert toy.core.port_stats(1).depth_packets == 1


def test_what_a_new_program_forgets_uses_no_grant(toy: Any, toy_so: Path) -> None:
    for port, delay in ((1, MS), (2, 2 * MS)):
        toy.core.configure_port(port, PortConfig(tx_delay_ps=delay))
        toy.core.grant_port(port, 2)
    for port in (2, 1, 2, 1):  # out of order, so some wait in the heap
        send(toy, 1, out=port)
    send(toy, 2)
    assert toy.core.port_state(1)[0] is PortState.BLOCKED
    toy.core.load(toy_so)  # what was on the way to the driver is gone
    assert toy.core.port_state(1)[0] is PortState.UP
    for port in (1, 2):
        send(toy, 3, 4, 5, out=port)
    toy.core.advance(5 * MS)
    assert names(toy) == [3, 4, 3, 4]
    assert toy.core.port_stats(1).depth_packets == 1


def test_a_duplicate_that_a_new_program_forgets_gives_no_grant_back(toy: Any, toy_so: Path) -> None:
    toy.core.configure_port(1, PortConfig(tx_delay_ps=MS))
    toy.core.impair_port(1, Direction.SEND, impair(duplicate=1))
    toy.core.grant_port(1, 1)
    send(toy, 1)  # twice on the way, for one grant
    toy.core.load(toy_so)
    toy.core.impair_port(1, Direction.SEND, impair())
    send(toy, 2, 3)
    toy.core.advance(5 * MS)
    assert names(toy) == [2]


def test_ports_out_of_range(toy: Any) -> None:
    with pytest.raises(CoreError, match="port 65536"):
        toy.core.grant_port(65536, 1)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(0, 2)),
        st.tuples(st.just("grant"), st.integers(0, 4)),
    ),
    max_size=60,
)


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=steps, capacity=st.integers(1, 4))
def test_a_granted_port_agrees_with_the_model(
    make_toy: Callable[..., Any], steps: list[tuple[str, int]], capacity: int
) -> None:
    """Strict priority, tail drop, and never more than was granted."""
    toy = make_toy(priorities=3)
    toy.core.configure_port(1, PortConfig(queue_packets=capacity))
    toy.core.grant_port(1, 0)
    queues: list[list[int]] = [[], [], []]
    credit = dropped = 0
    expected: list[int] = []
    for name, (what, value) in enumerate(steps):
        if what == "grant":
            toy.core.grant_port(1, value)
            credit = value
        else:
            toy.send(key16=name, priority=value)
            if credit or len(queues[value]) < capacity:
                queues[value].append(name)
            else:
                dropped += 1
        while credit and any(queues):
            expected.append(next(queue for queue in reversed(queues) if queue).pop(0))
            credit -= 1
    assert names(toy) == expected
    stats = toy.core.port_stats(1)
    assert (stats.drop_queue, stats.depth_packets) == (dropped, sum(map(len, queues)))
