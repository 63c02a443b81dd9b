"""Random work both ways under random windows, over wires that spoil it: all of it arrives.

Both ends have `windowed` and `listener` (algorithms_for_tests); switches write into what collects.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from random import Random
from typing import Any

import pytest

from hostagent.rnic.binding import Card
from hostagent.rnic.card_records import Access, EventKind, Operation, QueuePairConfig, Repeat, Work
from tests.hostagent import more_algorithms
from tests.hostagent.more_algorithms import LISTENER, windowed
from tests.hostagent.test_rnic_feedback import Switches
from tests.hostagent.virtual_wire import SANITIZE, US, Faults, make_card

pytestmark = pytest.mark.long

MTU = 256
MEMORY = 40_000
Check = tuple[bytearray, int, bytes]
"""Memory, from where on it holds these bytes in the end."""


@pytest.fixture(autouse=True, scope="module")
def algorithms() -> Iterator[None]:
    with more_algorithms.built().card_in_place(sanitize=SANITIZE):
        yield


def some_config(random: Random) -> QueuePairConfig:
    repeat = random.choice(list(Repeat))
    return QueuePairConfig(
        qpn=1,
        mtu=MTU,
        repeat=repeat,
        timeout_ps=60 * US,
        ack_every=random.choice([1, 4, 16]),
        window_packets=random.choice([0, 0, 3, 50]),
        reorder_ps=random.choice([0, 3 * US]) if repeat is Repeat.SELECTIVE else 0,
        first_psn=random.choice([0, 0xFFFFF0, 77]),
        max_reads=random.choice([1, 4]),
    )


def some_window(random: Random) -> dict[str, Any]:
    fields = {
        "each": random.choice([0, 50]),
        "later_at": random.choice([0, 40_000]),
        "later": random.choice([0, 10 * MTU]),
        "shrinks_at": random.choice([0, 20 * MTU]),
        "shrunk": random.choice([0, 2 * MTU]),
    }
    window = random.choice([0, 1, MTU, 3 * MTU + 7, 20 * MTU, 1 << 30])
    return {"listener": LISTENER, "windowed": windowed(window, **fields)}


def some_work(
    random: Random, source: Card, target: Card, late: list[tuple[Card, int, bytearray]] | None
) -> Iterator[Check]:
    """Post what `source` has to do, and yield what comes of it. `late`: keeps receives."""
    kept, into = random.randbytes(MEMORY), bytearray(MEMORY)
    target.register(1, 0, into, Access.REMOTE_WRITE)
    target.register(2, 0, bytearray(kept), Access.REMOTE_READ)
    end = 0
    for id in range(random.randrange(1, 15)):
        operation = random.choice([Operation.SEND, Operation.WRITE, Operation.READ])
        data = random.randbytes(random.choice([0, 1, 255, 256, 257, 1000, 2500]))
        buffer = bytearray(len(data))
        if operation is Operation.WRITE:
            source.post(1, Work(id, operation, data, remote_address=end, rkey=1))
            yield into, end, data
            end += len(data)
        elif operation is Operation.READ:
            at = random.randrange(MEMORY - len(data) + 1)
            source.post(1, Work(id, operation, buffer, remote_address=at, rkey=2))
            yield buffer, 0, kept[at : at + len(data)]
        else:
            if late is None:
                target.post_receive(1, id, buffer)
            else:
                late.append((target, id, buffer))
            source.post(1, Work(id, operation, data))
            yield buffer, 0, data


@pytest.mark.parametrize("seed", range(100))
def test_all_work_is_done_and_no_window_waits_for_a_time_out(seed: int) -> None:
    random = Random(seed)
    cards = make_card(1), make_card(2)
    config, control = some_config(random), some_window(random)
    for card in cards:
        card.add_queue_pair(config, control)
    for here, there in (cards, cards[::-1]):
        here.connect(1, there.config.ip, peer_qpn=1, peer_psn=config.first_psn)
    faults = Faults(
        loss=random.choice([0, 0, 0.02, 0.1]),
        duplication=random.choice([0, 0.05]),
        reordering=random.choice([0, 0.05]),
        corruption=random.choice([0, 0.02]),
    )
    late: list[tuple[Card, int, bytearray]] = []
    waits = late if seed % 4 == 3 else None
    checks = [check for a, b in (cards, cards[::-1]) for check in some_work(random, a, b, waits)]
    wire = Switches(*cards, faults=faults, seed=seed)
    for number, (target, id, buffer) in enumerate(late, start=1):  # until then it is not ready
        wire.at(number * 40 * US, partial(target.post_receive, 1, id, buffer))
    wire.hops = random.choice([0, 2, 5, 8])
    wire.run()
    for memory, at, data in checks:
        assert memory[at : at + len(data)] == data
    kinds = {event.kind for card in cards for event in wire.events[card]}
    assert not kinds & {EventKind.FAILED, EventKind.QP_FAILED}
    for card in cards:
        stats = card.queue_pair_stats(1, wire.now)
        assert stats.outstanding == 0
        if faults == Faults() and not late:
            assert stats.timeouts == stats.repeated_packets == 0
