"""Messages striped over queue pairs as they drain: exact times, shares, what is lost.

    flow 0  |#|#|   pieces of a message go to the queue pair that has sent what it had;
a   flow 1  |#|     who is slow carries less                                             b
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from hostagent.rnic.card_records import Operation, Repeat
from simulator.core import EngineError, Stop
from softswitch.core import PortImpair
from tests.simulator.test_engine_transport import (
    DELAY,
    MTU,
    OPERATIONS,
    PLAIN,
    RATE,
    REPEATS,
    US,
    data_sent,
    queue_pair,
    sending,
    transport_stats,
)

GBPS = 10**9


def group(
    net: Any,
    n: int,
    *,
    piece: int = 4 * MTU,
    outstanding: int = 2,
    transport: Any = PLAIN,
    rates: tuple[int, ...] = (),
    operation: Operation = Operation.WRITE,
) -> tuple[int, int, int]:
    """Two hosts on one cable, and `n` queue pairs that carry messages together."""
    a, b = net.host(), net.host()
    net.link(a, b)
    number = net.engine.add_transports([transport])
    rows = np.zeros(n, dtype=net.engine.flow_dtype)
    rows["src"], rows["dst"] = a, b
    rows["udp_port"] = 0xC000 + np.arange(n)
    rows["transport"], rows["payload"], rows["operation"] = number + 1, MTU, int(operation)
    rows["rate_bps"] = rates or 0
    first = net.engine.add_flows(rows)
    stripe(net, first, n, piece, outstanding)
    return a, b, first


def stripe(net: Any, flow: int, n: int, piece: int = 4 * MTU, outstanding: int = 2) -> None:
    row = np.zeros(1, dtype=net.engine.stripes_dtype)
    row["flow"], row["queue_pairs"] = flow, n
    row["piece_bytes"], row["outstanding"] = piece, outstanding
    net.engine.stripe_flows(row)


def pieces(size: int, n: int, piece: int) -> list[int]:
    """Return what a message is cut into: a 2n-th of what is left, an eighth of a piece at least."""
    found = []
    while size:
        share = max(size // (2 * n), piece // 8) if n > 1 else piece
        found.append(min(size, piece, -(-share // MTU) * MTU))
        size -= found[-1]
    return found


def carried(net: Any, first: int, n: int) -> list[int]:
    return [int(row["received_bytes"]) for row in net.engine.flow_stats(first, n)]


@pytest.mark.parametrize("operation", [Operation.SEND, Operation.WRITE])
def test_a_message_takes_the_bits_of_its_pieces_and_the_delay(
    net: Any, operation: Operation
) -> None:
    """Whole pieces last longer than a round trip; the small ones at the end may wait for it."""
    piece, size = 8 * MTU, 100 * MTU + 5
    _a, _b, first = group(net, 4, piece=piece, operation=operation)
    net.messages([{"flow": first, "bytes": size, "start_ps": 3 * US}])
    assert net.engine.run(to_the_end=True) is Stop.DONE
    took = sum(sending(operation, part) for part in pieces(size, 4, piece))
    times = net.times(0)
    assert times["ready"] == times["first_sent"] == 3 * US
    assert 0 <= times["done"] - (3 * US + took + DELAY) <= 2 * DELAY
    assert times["last_sent"] < times["done"] - DELAY
    assert sum(carried(net, first, 4)) == size
    assert net.engine.host_port_stats(0, 0).queue_packets == 0


def test_pieces_go_round_and_come_back_for_more(net: Any) -> None:
    a, _b, first = group(net, 3, piece=MTU, outstanding=1)
    net.engine.tap(a, 0)
    net.messages([{"flow": first, "bytes": 6 * MTU}])
    net.engine.run(to_the_end=True)
    sent = data_sent(net.engine.take_tapped())
    assert [queue_pair(frame) - 1 - first for frame in sent] == [0, 1, 2, 0, 1, 2]
    assert carried(net, first, 3) == [2 * MTU] * 3


@pytest.mark.parametrize("shares", [(1, 1), (3, 1), (5, 2), (9, 1)])
def test_shares_go_as_rates(net: Any, shares: tuple[int, int]) -> None:
    """Equal pieces would take as long as the slower one needs for a half."""
    piece, size = 16 * MTU, 4096 * MTU
    rates = tuple(each * 4 * GBPS for each in shares)
    _a, _b, first = group(net, 2, piece=piece, rates=rates)
    net.messages([{"flow": first, "bytes": size}])
    assert net.engine.run(to_the_end=True) is Stop.DONE
    ideal = [size * each // sum(shares) for each in shares]
    found = carried(net, first, 2)
    assert sum(found) == size
    assert all(abs(a - b) <= 2 * piece for a, b in zip(found, ideal, strict=True))
    # What leaves last goes at the line's rate.
    whole = sending(Operation.WRITE, piece) * (size // piece) * RATE // sum(rates)
    whole -= sending(Operation.WRITE, MTU) * RATE // min(rates)
    last = 2 * sending(Operation.WRITE, piece) * RATE // min(rates)  # what it had at the end
    assert whole <= net.times(0)["done"] <= whole + last + 4 * DELAY


def test_more_outstanding_waits_longer_for_the_slow_one(new_net: Any) -> None:
    done = []
    for outstanding in (2, 8, 64):
        net = new_net()
        _a, _b, first = group(
            net, 2, piece=16 * MTU, outstanding=outstanding, rates=(36 * GBPS, 4 * GBPS)
        )
        net.messages([{"flow": first, "bytes": 1024 * MTU}])
        net.engine.run(to_the_end=True)
        done.append(net.times(0)["done"])
    half = 512 * MTU * 8 * 10**12 // (4 * GBPS)
    assert done[0] < done[1] < half <= done[2]  # all at once is equal parts


@pytest.mark.parametrize("operation", OPERATIONS)
def test_one_queue_pair_with_one_piece_is_as_without(new_net: Any, operation: Operation) -> None:
    found = []
    for striped in (False, True):
        net = new_net()
        a, b = net.host(), net.host()
        net.link(a, b)
        number = net.engine.add_transports([PLAIN])
        flow = net.flow(a, b, transport=number + 1, payload=MTU, operation=int(operation))
        if striped:
            stripe(net, flow, 1, piece=1 << 20, outstanding=1024)
        net.messages([{"flow": flow, "bytes": 10_001 * (i + 1)} for i in range(5)], [(0, 2)])
        net.engine.tap(a, 0)
        assert net.engine.run(to_the_end=True) is Stop.DONE
        frames = [(f.at, f.sent, bytes(f.data), f.tail_length) for f in net.engine.take_tapped()]
        found.append((frames, [net.times(i) for i in range(5)], net.flow_stats(flow)))
    assert found[0] == found[1]


@pytest.mark.parametrize("repeat", REPEATS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_what_is_lost_comes_again_and_each_message_is_done_once(
    net: Any, repeat: Repeat, operation: Operation
) -> None:
    transport = replace(PLAIN, repeat=repeat, retries=100)
    a, b, first = group(net, 3, transport=transport, operation=operation)
    for host in (a, b):
        net.engine.impair_host_port(host, 0, PortImpair(loss=1 << 28, seed=3))
    sizes = [1, 50_001, 4 * MTU, 99_999, 3 * MTU, 40_000]
    net.messages([{"flow": first, "bytes": size} for size in sizes], [(0, 3)])
    assert net.engine.run(to_the_end=True) is Stop.DONE
    assert sum(carried(net, first, 3)) == sum(sizes)
    assert net.engine.totals().messages_done == len(sizes)
    assert sum(transport_stats(net, first + i)["repeated_packets"] for i in range(3)) > 0
    times = [net.times(i) for i in range(len(sizes))]
    assert all(0 <= t["ready"] <= t["first_sent"] <= t["last_sent"] < t["done"] for t in times)
    assert times[3]["ready"] == times[0]["done"]


def test_messages_are_dealt_in_order_and_overlap(net: Any) -> None:
    """The second one begins while the first one's last pieces are on the way."""
    _a, _b, first = group(net, 4, piece=8 * MTU)
    net.messages([{"flow": first, "bytes": 128 * MTU} for _ in range(3)])
    assert net.engine.run(to_the_end=True) is Stop.DONE
    times = [net.times(i) for i in range(3)]
    for earlier, later in pairwise(times):
        assert earlier["first_sent"] < later["first_sent"] < earlier["done"] < later["done"]
    took = 3 * sum(sending(Operation.WRITE, part) for part in pieces(128 * MTU, 4, 8 * MTU))
    assert 0 <= times[2]["done"] - took - DELAY <= 3 * 3 * DELAY


def test_a_queue_pair_that_dies_takes_its_pieces_with_it_and_others_go_on(net: Any) -> None:
    """Nothing of the second one arrives: what it had is lost, and it gets nothing more."""
    transport = replace(PLAIN, retries=1)
    a, _b, first = group(net, 2, piece=MTU, transport=transport, rates=(GBPS, GBPS))
    net.engine.impair_host_port(
        a, 0, PortImpair(flow_loss=0xFFFFFFFF, flow_protocol=17, flow_sport=0xC001)
    )
    net.messages([{"flow": first, "bytes": 64 * MTU}, {"flow": first, "bytes": 64 * MTU}])
    net.engine.run(until=10_000 * US)
    assert net.engine.totals().failed_flows == 1
    assert [transport_stats(net, first + i)["failure"] > 0 for i in range(2)] == [False, True]
    assert net.times(0)["done"] == -1
    assert net.times(1)["done"] > 0
    assert carried(net, first, 2) == [126 * MTU, 0]  # the other had two pieces
    assert net.engine.totals().messages_done == 1


def test_two_runs_are_one(new_net: Any) -> None:
    found = []
    for _ in range(2):
        net = new_net(7)
        a, _b, first = group(net, 5, rates=(9 * GBPS, GBPS, 3 * GBPS, 0, 2 * GBPS))
        net.engine.impair_host_port(a, 0, PortImpair(loss=1 << 26, seed=3))
        net.messages([{"flow": first, "bytes": 333_333} for _ in range(4)])
        net.engine.run(to_the_end=True)
        found.append(([net.times(i) for i in range(4)], carried(net, first, 5)))
    assert found[0] == found[1]


def test_what_can_not_be_striped_is_refused(net: Any) -> None:
    a, b, first = group(net, 2)
    other = net.flow(a, b)
    for flow, n, piece, outstanding, why in (
        (first, 2, MTU, 1, "flow 0 is striped already"),
        (other, 1, MTU, 1, "needs a transport"),
        (first, 4, MTU, 1, "there are no 4 flows from 0 on"),
        (other, 0, MTU, 1, "there are no 0 flows"),
        (first, 2, 0, 1, "pieces have 1 to 1073741824 bytes"),
        (first, 2, MTU, 0, "1 to 1024 are outstanding"),
    ):
        with pytest.raises(EngineError, match=why):
            stripe(net, flow, n, piece, outstanding)
    with pytest.raises(EngineError, match="flow 1 is not the first of those"):
        net.messages([{"flow": first + 1, "bytes": 1}])
    net.messages([{"flow": first, "bytes": 1}])
    with pytest.raises(EngineError, match="before messages are added"):
        stripe(net, other, 1)
