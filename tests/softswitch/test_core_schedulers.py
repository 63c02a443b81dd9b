"""Which queue is served next: strict ones first, the others by deficit round robin.

          7 strict --------------.
ingress   6 strict --------------+--> rate -> output
          3 weight 3 .-----------'
          0 weight 1 '  what they leave
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from softswitch.core import CoreError, PortConfig, PortState, Scheduler

SECOND = 1_000_000_000_000
HEADER = 32
RATE = 10_000_000_000


def wire_bytes(length: int) -> int:
    return max(length + 24, 84)


def fill(toy: Any, queue: int, packets: int, length: int = 104) -> None:
    for _ in range(packets):
        toy.send(priority=queue, payload=bytes(length - HEADER))


def served(toy: Any, until: int = SECOND) -> list[int]:
    """Return the queue of each packet in the order in which they left."""
    toy.core.advance(until)
    return [output.data[12] for output in toy.take()]


def backlogged(make_toy: Callable[..., Any], quanta: Scheduler) -> Any:
    """Return a switch whose port 1 holds everything until `release`."""
    toy = make_toy(priorities=8)
    toy.core.configure_port(1, PortConfig(rate_bps=RATE, queue_packets=0))
    toy.core.schedule_port(1, quanta)
    toy.core.set_port(1, PortState.BLOCKED)
    return toy


def release(toy: Any, until: int = SECOND) -> list[int]:
    toy.core.set_port(1, PortState.UP)
    return served(toy, until)


@pytest.mark.parametrize(
    ("weights", "quanta"),
    [
        ({}, (0,) * 8),
        ({0: 1}, (2048, 0, 0, 0, 0, 0, 0, 0)),
        ({0: 1, 3: 4}, (2048, 0, 0, 8192, 0, 0, 0, 0)),
        ({0: 20, 3: 80}, (2048, 0, 0, 8192, 0, 0, 0, 0)),
        ({1: 33, 2: 67}, (0, 2079, 4221, 0, 0, 0, 0, 0)),
    ],
)
def test_quanta_have_the_weights_proportion(
    weights: dict[int, int], quanta: tuple[int, ...]
) -> None:
    assert Scheduler.of_weights(weights).quanta == quanta


@pytest.mark.parametrize("weights", [{8: 1}, {-1: 1}, {0: 0}])
def test_weights_out_of_range(weights: dict[int, int]) -> None:
    with pytest.raises(ValueError, match="queue"):
        Scheduler.of_weights(weights)


def test_equal_frames_share_exactly_by_weight(make_toy: Callable[..., Any]) -> None:
    toy = backlogged(make_toy, Scheduler.of_weights({0: 1, 1: 3, 5: 4}))
    for queue in (0, 1, 5):
        fill(toy, queue, 200)
    order = release(toy)
    # 104 B are 128 B on the wire: a round is 16 + 48 + 64 frames, and 3 rounds are backlogged.
    for start in (0, 128, 256):
        assert Counter(order[start : start + 128]) == {0: 16, 1: 48, 5: 64}
    assert order[:64] == [0] * 16 + [1] * 48
    assert Counter(order) == {0: 200, 1: 200, 5: 200}


def test_shares_are_of_bytes_not_of_frames(make_toy: Callable[..., Any]) -> None:
    toy = backlogged(make_toy, Scheduler.of_weights({0: 1, 1: 1}))
    fill(toy, 0, 300, length=40)  # 84 B on the wire, the least that a frame takes
    fill(toy, 1, 15, length=1656)  # 1 680 B: 20 of the others
    order = release(toy)
    last = len(order) - 1 - order[::-1].index(1)
    small, large = Counter(order[: last + 1])[0], 15
    # Deficit round robin is off by less than a quantum and a frame.
    assert abs(small * 84 - large * 1680) <= 2048 + 1680


def test_strict_queues_go_before_weighted_ones(make_toy: Callable[..., Any]) -> None:
    toy = backlogged(make_toy, Scheduler.of_weights({7: 1, 3: 1}))
    for queue in (7, 3, 0, 5):
        fill(toy, queue, 40)
    order = release(toy)
    assert order[:80] == [5] * 40 + [0] * 40  # whatever their number
    assert Counter(order[80:112]) == {7: 16, 3: 16}


def test_a_strict_packet_interrupts_a_round(make_toy: Callable[..., Any]) -> None:
    toy = backlogged(make_toy, Scheduler.of_weights({0: 1, 1: 1}))
    fill(toy, 0, 32)
    fill(toy, 1, 32)
    slot = 128 * 8 * SECOND // RATE
    toy.core.set_port(1, PortState.UP)
    toy.send(priority=6, at=5 * slot + 1, payload=bytes(72))
    order = served(toy)
    assert order[:7] == [0] * 6 + [6]
    assert Counter(order[:33]) == {0: 16, 1: 16, 6: 1}  # the round goes on where it was


def test_an_empty_queue_saves_nothing_up(make_toy: Callable[..., Any]) -> None:
    toy = backlogged(make_toy, Scheduler.of_weights({0: 1, 1: 1}))
    fill(toy, 0, 64)
    assert release(toy) == [0] * 64  # alone it has the whole link
    toy.core.set_port(1, PortState.BLOCKED)
    fill(toy, 0, 64)
    fill(toy, 1, 64)
    order = release(toy, 2 * SECOND)
    assert len(order) == 128
    assert Counter(order[:32]) == {0: 16, 1: 16}


def test_a_paused_queue_gets_nothing_and_saves_nothing_up(make_toy: Callable[..., Any]) -> None:
    toy = backlogged(make_toy, Scheduler.of_weights({0: 1, 1: 1}))
    fill(toy, 0, 64)
    fill(toy, 1, 64)
    toy.core.set_port(1, PortState.UP, pause_mask=1 << 1)
    assert served(toy) == [0] * 64
    toy.core.set_port(1, PortState.BLOCKED)
    fill(toy, 0, 64)
    order = release(toy, 2 * SECOND)
    assert len(order) == 128
    assert Counter(order[:32]) == {0: 16, 1: 16}


def test_packet_rates_hold_back_weighted_queues_too(make_toy: Callable[..., Any]) -> None:
    toy = make_toy(priorities=2)
    toy.core.configure_port(1, PortConfig(rate_pps=1000))
    toy.core.schedule_port(1, Scheduler.of_weights({0: 1, 1: 1}))
    for queue in (0, 0, 1):
        toy.send(priority=queue)
    toy.core.advance(SECOND)
    assert [(o.data[12], o.at_ps) for o in toy.take()] == [(0, 0), (1, 0), (0, SECOND // 1000)]


def test_scheduler_is_read_back_and_checked(toy: Any) -> None:
    assert toy.core.port_scheduler(1) == Scheduler()
    wanted = Scheduler.of_weights({0: 1, 3: 4})
    toy.core.schedule_port(1, wanted)
    assert toy.core.port_scheduler(1) == wanted
    for quantum in (83, (1 << 24) + 1):
        with pytest.raises(CoreError):
            toy.core.schedule_port(1, Scheduler((quantum, *(0,) * 7)))
    assert toy.core.port_scheduler(1) == wanted


@pytest.mark.parametrize(
    ("cell_config", "sizes", "kept"),
    [
        (0, [256] * 6, 4),  # 256 B cells, the default
        (0, [257] * 6, 2),
        (0, [32] * 6, 4),
        (64, [256] * 6, 1),
        (64, [64] * 6, 4),
    ],
)
def test_queue_capacity_in_cells(
    make_toy: Callable[..., Any], cell_config: int, sizes: list[int], kept: int
) -> None:
    toy = make_toy(depth_cell_bytes=cell_config)
    config = PortConfig(queue_packets=0, queue_cells=4)
    toy.core.configure_port(1, config)
    assert toy.core.port_config(1) == config
    toy.core.set_port(1, PortState.BLOCKED)
    for size in sizes:
        toy.send(payload=bytes(size - HEADER))
    stats = toy.core.port_stats(1)
    assert (stats.depth_packets, stats.drop_queue) == (kept, len(sizes) - kept)
    toy.core.set_port(1, PortState.UP)
    assert len(toy.take()) == kept


def drr(queues: dict[int, list[int]], quanta: tuple[int, ...]) -> list[int]:
    """Deficit round robin by the book (Shreedhar and Varghese), all queues filled beforehand."""
    waiting = {queue: list(lengths) for queue, lengths in queues.items()}
    deficit = dict.fromkeys(waiting, 0)
    order: list[int] = []
    for queue in sorted((q for q in waiting if not quanta[q]), reverse=True):
        order += [queue] * len(waiting.pop(queue))
    while any(waiting.values()):
        for queue in sorted(waiting):
            if not waiting[queue]:
                continue
            deficit[queue] += quanta[queue]
            while waiting[queue] and wire_bytes(waiting[queue][0]) <= deficit[queue]:
                deficit[queue] -= wire_bytes(waiting[queue].pop(0))
                order.append(queue)
            if not waiting[queue]:
                deficit[queue] = 0
    return order


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    queues=st.dictionaries(
        st.integers(0, 7), st.lists(st.integers(HEADER, 900), max_size=12), max_size=8
    ),
    quanta=st.tuples(*[st.one_of(st.just(0), st.integers(84, 4000))] * 8),
)
def test_the_order_is_the_books(
    make_toy: Callable[..., Any], queues: dict[int, list[int]], quanta: tuple[int, ...]
) -> None:
    toy = backlogged(make_toy, Scheduler(quanta))
    for queue, lengths in queues.items():
        for length in lengths:
            toy.send(priority=queue, payload=bytes(length - HEADER))
    assert release(toy) == drr(queues, quanta)
