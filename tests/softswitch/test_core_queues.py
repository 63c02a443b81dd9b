"""The traffic manager: when packets leave, in which order, and what a full queue drops.

inject --rx delay--> ingress --> queue (port, priority) --> egress --rate--tx delay--> output
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from softswitch.core import CLOSED_QUEUE, CoreError, PortConfig, PortState, QueueConfig

NS = 1_000
US = 1_000_000
SECOND = 1_000_000_000_000
HEADER = 32
SLOT_10G = 67_200  # 84 B at 10 Gb/s, ps


def wire_ps(length: int, rate_bps: int) -> int:
    """Time of a frame on the wire, rounded up."""
    return -(-max(length + 24, 84) * 8 * SECOND // rate_bps)


def times(outputs: list[Any]) -> list[int]:
    return [output.at_ps for output in outputs]


def test_a_rate_spaces_frames_and_delay_adds(toy: Any) -> None:
    toy.core.configure_port(1, PortConfig(rate_bps=10_000_000_000, tx_delay_ps=5 * NS))
    for _ in range(3):
        toy.send()
    assert toy.core.next_event() == SLOT_10G
    toy.core.advance(US)
    assert times(toy.take()) == [n * SLOT_10G + 5 * NS for n in (1, 2, 3)]
    toy.send(payload=bytes(1468), at=US)  # 1 500 B: 1 524 B on the wire
    assert times(toy.take()) == [US + 1_219_200 + 5 * NS]


@pytest.mark.parametrize("rate", [1, 7, 10**6, 3 * 10**9, 7 * 10**9, 400 * 10**9])
def test_wire_time_never_beats_the_rate(toy: Any, rate: int) -> None:
    toy.core.configure_port(1, PortConfig(rate_bps=rate))
    toy.send(payload=bytes(9000 - HEADER))
    assert times(toy.take()) == [wire_ps(9000, rate)]


def test_without_rate_packets_leave_at_once(toy: Any) -> None:
    toy.send(at=3, out=77)
    (seen,) = toy.take()
    assert (seen.port, seen.at_ps, seen.enq_qdepth, seen.deq_qdepth) == (77, 3, 0, 0)
    assert toy.core.next_event() is None


def test_outputs_wait_for_their_time(toy: Any) -> None:
    toy.core.configure_port(1, PortConfig(tx_delay_ps=500 * US))
    toy.send(out=1)
    toy.send(out=2)
    assert toy.core.next_event() == 0
    assert [o.port for o in toy.take(until=0)] == [2]
    assert toy.core.next_event() == 500 * US
    assert toy.take(until=500 * US - 1) == []
    assert [o.port for o in toy.take(until=500 * US)] == [1]


def test_depths_and_waiting_time_are_metadata(make_toy: Callable[..., Any]) -> None:
    toy = make_toy(tick_ps=NS)
    toy.core.configure_port(1, PortConfig(rate_bps=10_000_000_000))
    for _ in range(4):
        toy.send()
    toy.core.advance(US)
    outputs = toy.take()
    assert [o.enq_qdepth for o in outputs] == [0, 0, 1, 2]
    assert [o.deq_qdepth for o in outputs] == [0, 2, 1, 0]
    assert [o.deq_timedelta for o in outputs] == [0, 67, 134, 201]  # whole ticks
    assert toy.core.port_stats(1).max_depth_packets == 3


def test_depth_in_cells(make_toy: Callable[..., Any]) -> None:
    toy = make_toy(depth_cell_bytes=256)
    toy.core.set_port(1, PortState.BLOCKED)
    for size in (256, 257, 32):
        toy.send(payload=bytes(size - HEADER))
    toy.core.set_port(1, PortState.UP)
    outputs = toy.take()
    assert [o.enq_qdepth for o in outputs] == [0, 1, 3]
    assert [o.deq_qdepth for o in outputs] == [3, 1, 0]


@pytest.mark.parametrize(
    ("config", "kept"),
    [
        (PortConfig(), 64),
        (PortConfig(queue_packets=3), 3),
        (PortConfig(queue_packets=0, queue_bytes=1000), 10),
        (PortConfig(queue_packets=0), 80),
    ],
)
def test_tail_drop(toy: Any, config: PortConfig, kept: int) -> None:
    toy.core.configure_port(1, config)
    assert toy.core.port_config(1) == config
    toy.core.set_port(1, PortState.BLOCKED)
    for _ in range(80):
        toy.send(payload=bytes(68))
    stats = toy.core.port_stats(1)
    assert (stats.depth_packets, stats.depth_bytes, stats.drop_queue) == (
        kept,
        kept * 100,
        80 - kept,
    )
    toy.core.set_port(1, PortState.UP)
    assert len(toy.take()) == kept
    stats = toy.core.port_stats(1)
    assert (stats.depth_packets, stats.depth_bytes, stats.tx_packets) == (0, 0, kept)
    assert stats.tx_bytes == kept * 100


def test_higher_priorities_leave_first_and_have_their_own_queue(
    make_toy: Callable[..., Any],
) -> None:
    toy = make_toy(priorities=8)
    toy.core.configure_port(1, PortConfig(rate_bps=10_000_000_000, queue_packets=2))
    for priority in (0, 0, 0, 0, 7, 3, 7, 7):
        toy.send(priority=priority, key8=priority)
    toy.core.advance(US)
    assert [o.data[12] for o in toy.take()] == [0, 7, 7, 3, 0, 0]
    assert toy.core.port_stats(1).drop_queue == 2
    toy.send(priority=8)
    assert toy.core.stats().drop_bad_priority == 1


def test_priorities_beyond_the_configured_drop_as_in_bmv2(toy: Any) -> None:
    toy.send(priority=1)
    assert toy.take() == []
    assert toy.core.stats().drop_bad_priority == 1


def test_blocked_holds_and_up_releases(toy: Any) -> None:
    toy.core.set_port(1, PortState.BLOCKED)
    toy.send(at=10)
    toy.send(at=20, out=2)
    assert [o.port for o in toy.take()] == [2]
    assert toy.core.next_event() is None
    toy.core.set_port(1, PortState.UP, now_ps=3 * US)
    (seen,) = toy.take()
    assert (seen.at_ps, seen.deq_timedelta) == (3 * US, 3)


def test_blocked_while_a_frame_leaves(toy: Any) -> None:
    toy.core.configure_port(1, PortConfig(rate_bps=10_000_000_000))
    toy.send()
    toy.send()
    toy.core.set_port(1, PortState.BLOCKED, now_ps=10)
    toy.core.advance(US)
    assert times(toy.take()) == [SLOT_10G]
    toy.core.set_port(1, PortState.UP, now_ps=2 * US)
    assert times(toy.take()) == [2 * US + SLOT_10G]


def test_pause_holds_one_priority(make_toy: Callable[..., Any]) -> None:
    toy = make_toy(priorities=4)
    toy.core.set_port(1, PortState.UP, pause_mask=1 << 3)
    for priority in (3, 1, 3, 0):
        toy.send(priority=priority)
    assert [o.data[12] for o in toy.take()] == [1, 0]
    toy.core.set_port(1, PortState.UP, now_ps=US)
    assert times(toy.take()) == [US, US]


def test_down_drops_both_ways(toy: Any) -> None:
    toy.core.set_port(1, PortState.BLOCKED)
    toy.send()
    toy.core.set_port(1, PortState.DOWN)
    toy.send()
    toy.send(port=1, out=2)
    assert toy.take() == []
    stats = toy.core.port_stats(1)
    assert (stats.drop_down, stats.tx_packets, stats.rx_packets) == (3, 0, 0)
    assert toy.core.stats().egress == 2  # as in BMv2, the wire is behind egress
    toy.core.set_port(1, PortState.UP)
    toy.send()
    assert len(toy.take()) == 1


def test_rx_delay(toy: Any) -> None:
    toy.core.configure_port(6, PortConfig(rx_delay_ps=5 * US))
    toy.send(port=6, at=US)
    toy.send(port=7, at=US)
    assert toy.core.next_event() == US  # the second one is out
    toy.core.advance(10 * US)
    assert [(o.ingress_port, o.at_ps) for o in toy.take()] == [(7, US), (6, 6 * US)]


def test_departures_come_before_arrivals_of_the_same_instant(toy: Any) -> None:
    toy.core.configure_port(1, PortConfig(rate_bps=10_000_000_000, queue_packets=1))
    toy.core.configure_port(6, PortConfig(rx_delay_ps=SLOT_10G))
    toy.send(port=6)  # arrives when the second of these starts and leaves the queue
    toy.send()
    toy.send()
    toy.core.advance(US)
    assert len(toy.take()) == 3


def test_equal_times_go_by_port(toy: Any) -> None:
    for port in (2, 1):
        toy.core.configure_port(port, PortConfig(rate_bps=10_000_000_000))
        toy.send(out=port)
        toy.send(out=port)
    toy.core.advance(US)
    assert [o.port for o in toy.take()] == [2, 1, 1, 2]


def test_arrivals_of_a_batch_keep_their_times(toy: Any, frame: Callable[..., bytes]) -> None:
    packets = [(port, frame(out=5), at) for port, at in ((1, 50), (2, 70), (3, 900), (4, 0))]
    toy.core.inject_batch(packets, now_ps=100)
    assert [(o.ingress_port, o.at_ps) for o in toy.take()] == [(1, 50), (2, 70), (4, 100)]
    assert toy.core.next_event() == 900  # not yet there
    toy.core.advance(1000)
    assert times(toy.take()) == [900]


def test_time_does_not_run_backwards(toy: Any) -> None:
    toy.core.advance(US)
    toy.send(at=5)
    toy.core.advance(3)
    assert times(toy.take()) == [US]


def test_packet_rate_of_each_queue(make_toy: Callable[..., Any]) -> None:
    toy = make_toy(priorities=2)
    toy.core.configure_port(1, PortConfig(rate_pps=1000))
    for priority in (0, 0, 0, 1, 1):
        toy.send(priority=priority)
    toy.core.advance(10_000 * US)
    assert [(o.data[12], o.at_ps // US) for o in toy.take()] == [
        (0, 0),
        (1, 0),
        (1, 1000),
        (0, 1000),
        (0, 2000),
    ]


def test_late_advance_runs_events_at_their_time(toy: Any) -> None:
    toy.core.configure_port(1, PortConfig(rate_bps=10_000_000_000))
    toy.core.configure_port(2, PortConfig(rate_bps=1_000_000_000))
    for _ in range(3):
        toy.send(out=1)
        toy.send(out=2)
    toy.core.advance(SECOND)
    assert times(toy.take()) == sorted(
        [n * SLOT_10G for n in (1, 2, 3)] + [n * 10 * SLOT_10G for n in (1, 2, 3)]
    )


def test_each_queue_may_have_a_rate_of_its_own(make_toy: Callable[..., Any]) -> None:
    """As BMv2: packets of a queue leave a step apart, and lower ones pass those not yet due."""
    toy = make_toy(priorities=3)
    toy.core.configure_port(1, PortConfig(rate_pps=1000))
    toy.core.configure_queue(1, 2, QueueConfig(rate_pps=100))
    toy.core.configure_queue(1, 0, QueueConfig(rate_pps=0))
    for priority in (2, 1, 0, 2, 1, 0):
        toy.send(priority=priority)
    toy.core.advance(SECOND)
    outputs = toy.take()
    ms = 1000 * US
    assert [(o.at_ps, o.data[12]) for o in outputs] == [
        *((0, priority) for priority in (2, 1, 0, 0)),
        (ms, 1),
        (10 * ms, 2),
    ]
    assert toy.core.queue_config(1, 1) == QueueConfig(rate_pps=1000)
    assert toy.core.queue_config(1, 2) == QueueConfig(rate_pps=100)


def test_each_queue_may_have_a_depth_of_its_own(make_toy: Callable[..., Any]) -> None:
    toy = make_toy(priorities=3)
    toy.core.set_port(1, PortState.BLOCKED)
    toy.core.configure_queue(1, 2, QueueConfig(packets=3))
    toy.core.configure_queue(1, 0, QueueConfig(packets=0))
    for _ in range(100):
        for priority in range(3):
            toy.send(priority=priority)
    toy.core.set_port(1, PortState.UP)
    left = [o.data[12] for o in toy.take()]
    assert [left.count(priority) for priority in range(3)] == [100, 64, 3]
    assert toy.core.port_stats(1).drop_queue == 36 + 97
    toy.core.configure_port(1, PortConfig(queue_packets=5))  # of all of them
    assert [toy.core.queue_config(1, q).packets for q in range(3)] == [5, 5, 5]
    assert toy.core.queue_config(9, 1) == QueueConfig()


def test_a_closed_queue_takes_nothing(make_toy: Callable[..., Any]) -> None:
    toy = make_toy(priorities=2)
    toy.core.configure_port(1, PortConfig(queue_packets=CLOSED_QUEUE))
    for priority in (0, 1):
        toy.send(priority=priority)
    assert (toy.take(), toy.core.port_stats(1).drop_queue) == ([], 2)
    toy.core.configure_queue(1, 1, QueueConfig())  # the other one opens
    for priority in (0, 1, 1):
        toy.send(priority=priority)
    assert [o.data[12] for o in toy.take()] == [1, 1]
    assert toy.core.port_stats(1).drop_queue == 3
    toy.core.configure_port(1, PortConfig())
    toy.send(priority=0)
    assert len(toy.take()) == 1


def test_queues_out_of_range(make_toy: Callable[..., Any]) -> None:
    toy = make_toy(priorities=3)
    for port, queue in ((1, 3), (65536, 0)):
        with pytest.raises(CoreError, match=f"port {port}, queue {queue}"):
            toy.core.configure_queue(port, queue, QueueConfig())
        with pytest.raises(CoreError, match=f"port {port}, queue {queue}"):
            toy.core.queue_config(port, queue)


def test_ports_out_of_range(toy: Any) -> None:
    for call in (
        lambda: toy.core.set_port(65536, PortState.UP),
        lambda: toy.core.configure_port(65536, PortConfig()),
        lambda: toy.core.configure_port(1, PortConfig(tx_delay_ps=-1)),
        lambda: toy.core.configure_port(1, PortConfig(rx_delay_ps=(1 << 60) + 1)),
        lambda: toy.core.port_stats(65536),
        lambda: toy.core.port_config(65536),
    ):
        with pytest.raises(CoreError):
            call()
    toy.send(port=65536)
    assert toy.core.stats().drop_bad_port == 1
    assert toy.core.port_config(40000) == PortConfig()


class Link:
    """A port by the book: strict priority, a rate, tail drop; one event after the other."""

    def __init__(self, rate: int, delay: int, capacity: int) -> None:
        self.rate, self.delay, self.capacity = rate, delay, capacity
        self.queues: list[list[tuple[int, int]]] = [[], [], []]
        self.free_at = 0
        self.out: list[tuple[int, int]] = []

    def drain(self, until: int) -> None:
        while self.free_at <= until:
            waiting = [queue for queue in reversed(self.queues) if queue]
            if not waiting:
                return
            name, length = waiting[0].pop(0)
            self.free_at += wire_ps(length, self.rate)
            self.out.append((self.free_at + self.delay, name))

    def arrive(self, at: int, name: int, length: int, priority: int) -> None:
        self.drain(at)
        if self.free_at <= at and not any(self.queues):
            self.free_at = at
            self.queues[priority].append((name, length))
            self.drain(at)
        elif len(self.queues[priority]) < self.capacity:
            self.queues[priority].append((name, length))


arrivals = st.lists(
    st.tuples(st.integers(0, 400 * NS), st.integers(HEADER, 400), st.integers(0, 2)),
    max_size=40,
)


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    steps=arrivals,
    rate=st.sampled_from([10**9, 7 * 10**9, 25 * 10**9]),
    capacity=st.integers(1, 4),
)
def test_a_port_agrees_with_the_model(
    make_toy: Callable[..., Any],
    steps: list[tuple[int, int, int]],
    rate: int,
    capacity: int,
) -> None:
    toy = make_toy(priorities=3)
    delay = 13 * NS
    toy.core.configure_port(1, PortConfig(rate, delay, queue_packets=capacity))
    link = Link(rate, delay, capacity)
    now = 0
    for name, (gap, length, priority) in enumerate(steps):
        now += gap
        toy.send(at=now, key16=name, priority=priority, payload=bytes(length - HEADER))
        link.arrive(now, name, length, priority)
    link.drain(SECOND)
    toy.core.advance(SECOND)
    assert [(o.at_ps, int.from_bytes(o.data[8:10], "big")) for o in toy.take()] == link.out
