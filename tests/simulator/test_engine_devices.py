"""Flows over several interfaces: one card a host, of which the interfaces are the lines."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hostagent.rnic.card_records import Failure, Operation, Repeat
from mechanisms.dcqcn.parameters import parameters
from simulator.core import EngineError, ScriptFrame, Stop
from simulator.core.binding import Clock, Transport
from softswitch.core import PortImpair

US = 1_000_000
MS = 1000 * US
RATE = 100_000_000_000
MTU = 4096
HEADERS, GAP, ICRC = 54, 24, 4
LONG = 4096 * MTU
OPERATIONS = [Operation.SEND, Operation.WRITE, Operation.READ]

TOLERANT = Transport(
    repeat=Repeat.SELECTIVE, window_packets=1024, timeout_ps=200 * US, reorder_ps=20 * US
)


def joined(net: Any, *delays: int, rates: tuple[int, ...] = ()) -> tuple[int, int]:
    """Two hosts on as many cables as there are delays, those of the first host's ends."""
    a, b = net.host(interfaces=len(delays)), net.host(interfaces=len(delays))
    for i, delay in enumerate(delays):
        net.link((a, i), (b, i))
        for node in (a, b):
            port = net.port(node, i, rates[i] if rates else RATE, delay)
            net.engine.configure_host_port(node, i, port)
    return a, b


def flow_over(
    net: Any, a: int, b: int, n: int, transport: Transport = TOLERANT, **more: int
) -> int:
    number = net.engine.add_transports([transport])
    fields = {"payload": MTU, "interfaces": n, "transport": number + 1, **more}
    return int(net.flow(a, b, **fields))


def carried(net: Any, node: int, n: int) -> list[int]:
    return [net.engine.host_port_stats(node, i).tx_packets for i in range(n)]


def stats_of(net: Any, flow: int) -> dict[str, int]:
    row = net.engine.transport_stats(flow, 1)[0]
    return {name: int(row[name]) for name in row.dtype.names}


def share(net: Any, size: int, *rates: int) -> float:
    """Return what a message got of its lines, in frames as they count on a wire."""
    packets = -(-size // MTU)
    bits = 8 * (size + packets * (HEADERS + GAP + ICRC))
    times = net.times(0)
    return bits * 10**12 / (times["done"] - times["ready"]) / sum(rates)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("n", [2, 3, 8])
@pytest.mark.parametrize("longer", [0, 4_500_000])
def test_a_message_fills_all_lines(net: Any, operation: Operation, n: int, longer: int) -> None:
    a, b = joined(net, *[US] * (n - 1), US + longer)
    flow = flow_over(net, a, b, n, operation=int(operation))
    net.messages([{"flow": flow, "bytes": 4 * LONG}])
    assert net.engine.run(to_the_end=True) is Stop.DONE
    assert share(net, 4 * LONG, *[RATE] * n) >= 0.96
    stats = stats_of(net, flow)
    assert (stats["repeated_packets"], stats["timeouts"], stats["naks"]) == (0, 0, 0)
    of = net.flow_stats(flow)
    assert of["received_bytes"] == 4 * LONG
    assert of["sent_packets"] == 4 * 4096
    if operation is Operation.SEND:
        shares = carried(net, a, n)
        assert sum(shares) == 4 * 4096
        assert max(shares) - min(shares) <= 1
    for node in (a, b):
        left = [net.engine.host_port_stats(node, i) for i in range(n)]
        assert [(each.queue_packets, each.queue_bytes) for each in left] == [(0, 0)] * n


def test_unequal_lines_carry_what_they_can(net: Any) -> None:
    a, b = joined(net, US, US, rates=(RATE, RATE // 4))
    flow = flow_over(net, a, b, 2, operation=int(Operation.SEND))
    net.messages([{"flow": flow, "bytes": LONG}])
    net.engine.run(to_the_end=True)
    fast, slow = carried(net, a, 2)
    assert fast == pytest.approx(4 * slow, abs=4)
    assert share(net, LONG, RATE, RATE // 4) >= 0.98


def test_clocks_that_differ_hold_no_line_up(net: Any) -> None:
    a, b = joined(net, US, US)
    net.engine.set_clock(a, 0, Clock(ppb=1_000_000, phase_ps=0, jitter_ps=0, seed=1))
    net.engine.set_clock(a, 1, Clock(ppb=-1_000_000, phase_ps=300_000, jitter_ps=300_000, seed=2))
    flow = flow_over(net, a, b, 2)
    net.messages([{"flow": flow, "bytes": LONG}])
    net.engine.run(to_the_end=True)
    assert share(net, LONG, RATE, RATE) >= 0.98
    assert stats_of(net, flow)["repeated_packets"] == 0


def test_congestion_control_limits_all_lines_together(net: Any) -> None:
    a, b = joined(net, US, US)
    dcqcn = parameters("hpcc-dcqcn", 2 * RATE).fields()
    transport = replace(TOLERANT, congestion_control={"dcqcn": {**dcqcn, "line_rate": 50 * 10**9}})
    flow = flow_over(net, a, b, 2, transport, operation=int(Operation.SEND))
    net.messages([{"flow": flow, "bytes": LONG // 4}])
    net.engine.run(to_the_end=True)
    assert share(net, LONG // 4, RATE, RATE) == pytest.approx(0.25, abs=0.005)
    assert carried(net, a, 2) == [512, 512]  # in turn, though both lines are always free


# --- beside other flows --------------------------------------------------------------------------


def test_flows_of_one_interface_share_the_card(net: Any) -> None:
    a, b = joined(net, US, US)
    both = flow_over(net, a, b, 2)
    one = flow_over(net, a, b, 0, src_port=1, dst_port=1)
    net.messages([{"flow": both, "bytes": 3 * LONG}, {"flow": one, "bytes": LONG}])
    assert net.engine.run(to_the_end=True) is Stop.DONE
    done = [net.times(i)["done"] for i in range(2)]
    wire = 8 * (LONG + 4096 * (HEADERS + GAP + ICRC))
    # The one of one has half of its line; the other one that half, and all of the other line.
    assert done[1] == pytest.approx(2 * wire * 10**12 // RATE, rel=0.02)
    assert done[0] == pytest.approx(done[1], rel=0.02)


def test_open_loop_frames_on_one_line_leave_the_other_one_full(net: Any) -> None:
    """Frames in a higher queue take all of interface 1."""
    a, b = joined(net, US, US)
    both = flow_over(net, a, b, 2)
    loud = net.flow(a, b, src_port=1, dst_port=1, queue=7, payload=MTU)
    slot = -(-8 * (MTU + HEADERS + GAP + ICRC) * 10**12 // RATE)
    net.stream(loud, payload=MTU, interval_ps=slot, stop_ps=MS)
    net.messages([{"flow": both, "bytes": 2 * LONG}])
    net.engine.run(until=MS)
    sent = net.flow_stats(both)["sent_packets"]
    assert sent == pytest.approx(MS / slot, rel=0.02)
    assert net.flow_stats(loud)["sent_packets"] == pytest.approx(MS / slot, rel=0.001)


@pytest.mark.parametrize("paused", [0, 1])
def test_a_pause_of_one_interface_stops_that_line_alone(net: Any, paused: int) -> None:
    a, b = joined(net, US, US)
    flow = flow_over(net, a, b, 2, queue=3)
    quanta = 0xFFFF
    pause = bytes.fromhex("0180c2000001020000000000") + bytes.fromhex("880801010008")
    pause += b"".join((quanta if c == 3 else 0).to_bytes(2) for c in range(8))
    net.engine.add_script([ScriptFrame(b, paused, 0, pause.ljust(60, b"\0"))])
    net.messages([{"flow": flow, "bytes": 4 * LONG}])
    length = 0xFFFF * 512 * 10**12 // RATE  # 335 us
    net.engine.run(until=length)
    before = carried(net, a, 2)
    assert before[paused] <= 4  # until the pause came
    assert before[1 - paused] >= 0.98 * length / (8 * 4178 * 10**12 // RATE)
    assert net.engine.run(to_the_end=True) is Stop.DONE
    assert stats_of(net, flow)["repeated_packets"] == 0
    assert net.flow_stats(flow)["paused_ps"] == pytest.approx(length, rel=0.01)


# --- links ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_links_go_and_come_back_in_the_middle_of_a_message(
    net: Any, order: tuple[int, int], operation: Operation
) -> None:
    a, b = joined(net, US, US)
    flow = flow_over(net, a, b, 2, operation=int(operation))
    net.messages([{"flow": flow, "bytes": 2 * LONG}])
    for i, link in enumerate(order):
        net.engine.run(until=(100 + 200 * i) * US)
        net.engine.set_link(link, False)
        before = carried(net, a, 2)[link], carried(net, b, 2)[link]
        net.engine.run(until=(200 + 200 * i) * US)
        assert (carried(net, a, 2)[link], carried(net, b, 2)[link]) == before
        net.engine.set_link(link, True)
    assert net.engine.run(to_the_end=True) is Stop.DONE
    stats = stats_of(net, flow)
    assert stats["failure"] == 0
    assert 0 < stats["repeated_packets"] < 300
    assert net.flow_stats(flow)["received_bytes"] == 2 * LONG
    assert net.engine.totals().failed_flows == 0


def test_both_links_down_are_survived_within_the_time_out(net: Any) -> None:
    a, b = joined(net, US, US)
    flow = flow_over(net, a, b, 2)
    net.messages([{"flow": flow, "bytes": LONG}])
    for at, link, up in ((50, 0, False), (60, 1, False), (700, 1, True), (800, 0, True)):
        net.engine.run(until=at * US)
        net.engine.set_link(link, up)
    assert net.engine.run(to_the_end=True) is Stop.DONE
    assert net.flow_stats(flow)["received_bytes"] == LONG


def test_both_links_down_for_ever_fail_the_flow_once(net: Any) -> None:
    a, b = joined(net, US, US)
    flow = flow_over(net, a, b, 2, replace(TOLERANT, retries=2))
    net.messages([{"flow": flow, "bytes": LONG}])
    net.engine.run(until=50 * US)
    for link in (0, 1):
        net.engine.set_link(link, False)
    assert net.engine.run() is Stop.IDLE
    assert stats_of(net, flow)["failure"] == Failure.RETRY_EXCEEDED
    assert net.engine.totals().failed_flows == 1


def test_a_link_that_was_down_before_flows_came_is_not_used(net: Any) -> None:
    a, b = joined(net, US, US)
    net.engine.set_link(1, False)
    flow = flow_over(net, a, b, 2)
    net.messages([{"flow": flow, "bytes": LONG}])
    assert net.engine.run(to_the_end=True) is Stop.DONE
    assert carried(net, a, 2)[1] == 0
    assert stats_of(net, flow)["repeated_packets"] == 0


@pytest.mark.parametrize("operation", OPERATIONS)
def test_losses_on_one_line_are_made_good(net: Any, operation: Operation) -> None:
    a, b = joined(net, US, 3 * US)
    for node in (a, b):
        net.engine.impair_host_port(node, 1, PortImpair(loss=1 << 26))  # of 2^32: 1.6 %
    flow = flow_over(net, a, b, 2, operation=int(operation))
    net.messages([{"flow": flow, "bytes": LONG}])
    assert net.engine.run(to_the_end=True) is Stop.DONE
    assert net.flow_stats(flow)["received_bytes"] == LONG


def test_a_run_is_the_same_again(new_net: Any) -> None:
    def once() -> tuple[Any, ...]:
        net = new_net()
        a, b = joined(net, US, 5 * US)
        net.engine.impair_host_port(a, 0, PortImpair(loss=1 << 27))
        flow = flow_over(net, a, b, 2)
        net.messages([{"flow": flow, "bytes": LONG}])
        net.engine.run(to_the_end=True)
        return net.engine.now, net.engine.totals(), stats_of(net, flow), carried(net, a, 2)

    assert once() == once()


# --- what is refused -----------------------------------------------------------------------------


def test_flows_that_can_not_be_are_refused(net: Any) -> None:
    a, b = joined(net, US, US)
    c = net.host(interfaces=3)
    number = net.engine.add_transports([TOLERANT]) + 1
    wrong: list[dict[str, int]] = [
        {"interfaces": 3, "transport": number},
        {"interfaces": 2},
        {"interfaces": 2, "transport": number, "src_port": 1},
        {"interfaces": 9, "transport": number},
    ]
    for fields in wrong:
        with pytest.raises(EngineError, match="interfaces need a transport, two hosts that have"):
            net.flow(a, b, payload=MTU, **fields)
    with pytest.raises(EngineError, match="from an interface to itself"):
        net.flow(a, a, payload=MTU, interfaces=2, transport=number)
    flow_over(net, a, b, 0)
    with pytest.raises(EngineError, match="node 0 has cards of single interfaces already"):
        flow_over(net, a, c, 2)


def test_two_ends_on_one_card_are_refused(net: Any) -> None:
    a, b = joined(net, US, US)
    flow_over(net, a, b, 2)
    with pytest.raises(EngineError, match="node 0 has one card for both ends"):
        flow_over(net, a, a, 0, src_port=0, dst_port=1)
