"""Windows, round trips and telemetry over the engine's links, by algorithms of the tests alone.

    a -- s1 -- s2 -- s3 -- b

Each switch writes 12 bytes into what a sends (tests/p4src/programs/hop_records.p4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from compiler import compile_p4
from hostagent.rnic.card_records import Operation, Repeat
from simulator.core import Stop
from simulator.core.binding import Transport
from simulator.core.own_algorithm import engine_in_place
from softswitch.core import PortImpair
from tests.hostagent import more_algorithms
from tests.hostagent.more_algorithms import LISTENER, windowed
from tests.p4src import hop_records
from tests.simulator.conftest import DELAY, RATE, SANITIZE, Net

US = 1_000_000
MTU = 4096
MOST = 64
SHIM, RECORD = 4, 12
TIMEOUT = 1000 * US
ALL = (1 << 32) - 1  # of frames: what PortImpair counts in


@pytest.fixture(scope="session")
def hop_program(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, Any]:
    source = hop_records.source(tmp_path_factory.mktemp("hops"))
    result = compile_p4(source, defines=hop_records.CORE)
    return result.json_text.encode(), result.p4info


@pytest.fixture(autouse=True, scope="module")
def algorithms() -> Iterator[None]:
    with engine_in_place(more_algorithms.built(), sanitize=SANITIZE):
        yield


@pytest.fixture
def new_net(hop_program: tuple[bytes, Any]) -> Iterator[Callable[[], Net]]:
    made: list[Net] = []

    def make() -> Net:
        made.append(Net(hop_program))
        return made[-1]

    yield make
    for each in made:
        each.engine.close()
        for switch in each.switches.values():
            switch.close()


def frame_time(extension: int, payload: int = MTU) -> int:
    """How long a data packet, or an acknowledgement of 0 bytes, takes on the wire."""
    size = 14 + 20 + 8 + 12 + extension + payload + 4 + 24
    return -(-8 * max(84, size) * 10**12 // RATE)


def chain(
    net: Net, hops: int, transport: Transport, *, delay: int = DELAY, **flow: int
) -> tuple[int, list[int]]:
    """Two hosts with so many switches between them, and a flow; the switches know their numbers."""
    a, b = net.host(delay=delay), net.host(delay=delay)
    switches = [net.switch(2, delay=delay) for _ in range(hops)]
    ends: list[Any] = [a, *((switch, port) for switch in switches for port in (1, 2)), b]
    for left, right in zip(ends[::2], ends[1::2], strict=True):
        net.link(left, right)
    for number, switch in enumerate(switches, start=1):
        net.route(switch, a, 1)
        net.route(switch, b, 2)
        net.switches[switch].table_default(
            "hop_record_mode", "write_record", {"switch_id": 100 + number}
        )
    first = net.engine.add_transports([transport])
    return net.flow(a, b, transport=first + 1, payload=MTU, **flow), switches


def heard(net: Net, flow: int) -> Any:
    return net.engine.lib.sim_flow_slot(net.engine.pointer, flow).listener


LISTENS = {"listener": LISTENER}
PLAIN = Transport(ack_every=1, timeout_ps=TIMEOUT, congestion_control=LISTENS)


def run(net: Net, flow: int, packets: int) -> None:
    net.messages([{"flow": flow, "bytes": packets * MTU}])
    assert net.engine.run(to_the_end=True) is Stop.DONE
    net.engine.run(until=net.engine.now + 100 * US)


# --- round trips ----------------------------------------------------------------------------------


def test_a_round_trip_over_a_cable_is_exact_to_the_nanosecond(new_net: Callable[[], Net]) -> None:
    net = new_net()
    flow, _ = chain(net, 0, PLAIN)
    run(net, flow, 50)
    # Packets leave one behind the other, and acknowledgements come back in the same distance.
    data, back = frame_time(SHIM), frame_time(SHIM + 4, 0)
    whole = data + DELAY + back + DELAY
    sent = [n * data for n in range(50)]
    state = heard(net, flow)
    assert (state.events, state.timed) == (50, 50)
    assert state.rtt_sum_ns == sum((at + whole) // 1000 - at // 1000 for at in sent)
    assert state.rtt_ns == (sent[-1] + whole) // 1000 - sent[-1] // 1000


@pytest.mark.parametrize("hops", [1, 3])
def test_a_round_trip_over_switches_is_exact(new_net: Callable[[], Net], hops: int) -> None:
    net = new_net()
    flow, _ = chain(net, hops, PLAIN)
    run(net, flow, 1)
    there = sum(frame_time(SHIM + hop * RECORD) for hop in range(hops + 1))
    back = (hops + 1) * frame_time(SHIM + hops * RECORD + 4, 0)
    state = heard(net, flow)
    assert (state.events, state.timed) == (1, 1)
    assert state.rtt_ns == (there + back + 2 * (hops + 1) * DELAY) // 1000


@pytest.mark.parametrize("repeat", list(Repeat))
def test_what_was_sent_again_is_not_timed(new_net: Callable[[], Net], repeat: Repeat) -> None:
    net = new_net()
    flow, _ = chain(net, 0, replace(PLAIN, repeat=repeat, timeout_ps=50 * US))
    net.engine.impair_host_port(0, 0, PortImpair(loss=ALL // 20, seed=3))
    run(net, flow, 400)
    stats = net.engine.transport_stats(flow, 1)[0]
    state = heard(net, flow)
    assert stats["repeated_packets"] > 10 and state.bytes == 400 * MTU
    assert 100 < state.timed < state.events
    # None of them has a time-out or a NAK's round trip in it.
    most = frame_time(SHIM) + 2 * DELAY + 2 * frame_time(SHIM + 4 + 20, 0)
    assert state.rtt_sum_ns <= state.timed * (most // 1000 + 1)


# --- windows --------------------------------------------------------------------------------------


@pytest.mark.parametrize("packets", [0.5, 1, 10, 25])
@pytest.mark.parametrize("hops", [0, 3])
def test_goodput_is_a_window_a_round_trip(
    new_net: Callable[[], Net], packets: float, hops: int
) -> None:
    """Within a packet; the round trip is longer than the window's packets take on the line."""
    net = new_net()
    limit = {**LISTENS, "windowed": windowed(int(packets * MTU))}
    transport = replace(PLAIN, congestion_control=limit, ack_every=16)
    flow, _ = chain(net, hops, transport, delay=10 * US)
    net.messages([{"flow": flow, "bytes": 10_000 * MTU}])
    one_way = sum(frame_time(SHIM + hop * RECORD) for hop in range(hops + 1)) + 10 * (hops + 1) * US
    net.engine.run(until=one_way - 1)
    assert net.flow_stats(flow)["received_packets"] == 0
    net.engine.run(until=10 * one_way)  # the first packets, one behind the other, have waited
    before, begun = net.flow_stats(flow)["received_packets"], net.engine.now
    trip = heard(net, flow).rtt_ns * 1000
    window, rounds = max(1, int(packets)), 20
    net.engine.run(until=begun + rounds * trip)
    received = net.flow_stats(flow)["received_packets"] - before
    assert abs(received - rounds * window) <= 1
    assert net.engine.transport_stats(flow, 1)[0]["timeouts"] == 0


def test_no_more_than_the_window_is_ever_on_the_way(new_net: Callable[[], Net]) -> None:
    net = new_net()
    limit = {**LISTENS, "windowed": windowed(7 * MTU)}
    flow, _ = chain(net, 1, replace(PLAIN, congestion_control=limit))
    net.engine.tap(0, 0, 4096)
    run(net, flow, 100)
    out, most = 0, 0
    last = None
    for frame in net.engine.take_tapped():
        at = 42 + SHIM + 4 * frame.data[43]
        psn = int.from_bytes(frame.data[at + 9 : at + 12])
        if frame.sent:
            last = psn if last is None else last
            out += 1
        else:
            assert last is not None
            out -= (psn - last + 1) % (1 << 24)
            last = (psn + 1) % (1 << 24)
        most = max(most, out)
    assert most == 7 and out == 0


def test_a_window_that_time_alone_widens_wakes_the_sender(new_net: Callable[[], Net]) -> None:
    net = new_net()
    limit = {"windowed": windowed(MTU, later_at=7_777, later=3 * MTU)}
    flow, _ = chain(net, 0, replace(PLAIN, congestion_control=limit))
    net.engine.impair_host_port(1, 0, PortImpair(loss=ALL, seed=1))  # no acknowledgement arrives
    net.engine.tap(0, 0, 64)
    net.messages([{"flow": flow, "bytes": 20 * MTU}])
    net.engine.run(until=500 * US)
    sent = [frame.at for frame in net.engine.take_tapped() if frame.sent]
    data = frame_time(0)
    assert sent == [data, 7_777_000 + data, 7_777_000 + 2 * data]


# --- telemetry ------------------------------------------------------------------------------------


def record_of(switch: int, port: int) -> tuple[int, int]:
    return 100 + switch, port


@pytest.mark.parametrize("hops", [1, 3, 5, 6, 8])
@pytest.mark.parametrize("operation", [Operation.SEND, Operation.WRITE])
def test_the_sender_sees_exactly_what_the_switches_wrote(
    new_net: Callable[[], Net], hops: int, operation: Operation
) -> None:
    net = new_net()
    flow, _ = chain(net, hops, PLAIN, operation=int(operation))
    net.engine.tap(1, 0, 4096)  # what arrives at b
    run(net, flow, 10)
    arrived = [f for f in net.engine.take_tapped() if not f.sent]
    assert len(arrived) == 10
    blob = arrived[-1].data[42 + SHIM :][: hops * RECORD]
    state = heard(net, flow)
    assert (state.told, state.events) == (10, 10)
    assert (state.last_hops, state.last_format) == (hops, 1)
    assert state.last_bytes == min(MOST, len(blob)) and state.cut == (10 if hops > 5 else 0)
    told = b"".join(int(word).to_bytes(8) for word in state.words)
    assert told == blob[:MOST].ljust(MOST, b"\0")
    # The nearest switch is first; each left later than the one before.
    rows = [hop_records.RECORD.unpack_from(blob, RECORD * n) for n in range(hops)]
    assert [row[:2] for row in rows] == [record_of(n, 2) for n in range(hops, 0, -1)]
    left = [row[3] for row in rows]
    assert left == sorted(left, reverse=True) and len(set(left)) == hops


def test_a_packet_that_is_written_out_keeps_its_icrc(new_net: Callable[[], Net]) -> None:
    """The card at the end refuses others: here all bits cross the wire, one in a hundred wrong."""
    net = new_net()
    flow, _ = chain(net, 3, replace(PLAIN, timeout_ps=200 * US))
    net.engine.impair_host_port(0, 0, PortImpair(corrupt=ALL // 100, seed=5))
    run(net, flow, 300)
    state = heard(net, flow)
    assert state.bytes == 300 * MTU
    stats = net.engine.transport_stats(flow, 1)[0]
    assert 0 < stats["repeated_packets"] < 100 and stats["failure"] == 0


def test_who_does_not_listen_sends_no_shim(new_net: Callable[[], Net]) -> None:
    net = new_net()
    limit = {"windowed": windowed(4 * MTU)}
    flow, _ = chain(net, 2, replace(PLAIN, congestion_control=limit))
    net.engine.tap(1, 0, 64)
    run(net, flow, 5)
    assert {bytes(f.data[36:38]) for f in net.engine.take_tapped()} == {(4791).to_bytes(2)}


def test_round_and_window_are_the_same_on_every_run(new_net: Callable[[], Net]) -> None:
    seen = []
    for _ in range(2):
        net = new_net()
        limit = {**LISTENS, "windowed": windowed(5 * MTU, each=100)}
        flow, _ = chain(net, 8, replace(PLAIN, congestion_control=limit))
        run(net, flow, 200)
        state = heard(net, flow)
        seen.append((state.rtt_sum_ns, net.times(0)["done"], net.engine.now))
    assert seen[0] == seen[1]
