"""Flows with a transport: what the card of hostagent/rnic does on the engine's interfaces."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from hostagent.rnic.card_records import Failure, Operation, Repeat
from mechanisms.dcqcn.parameters import DcqcnParameters
from simulator.core import EngineError, ScriptFrame, Stop
from simulator.core.binding import Transport
from softswitch.core import PortImpair

US = 1_000_000
RATE = 100_000_000_000
DELAY = US
HEADERS = 14 + 20 + 8 + 12
RETH, AETH, ICRC = 16, 4, 4
GAP = 24
MTU = 1024
GIB = 1 << 30
TIMEOUT = 100 * US
DATA_OPCODES = range(0x0C)

PLAIN = Transport(timeout_ps=TIMEOUT)
SELECTIVE = replace(PLAIN, repeat=Repeat.SELECTIVE)
DCQCN = DcqcnParameters(
    name="test",
    source="a round number each",
    line_rate_bps=RATE,
    min_rate_bps=100_000_000,
    rate_ai_bps=1_000_000_000,
    rate_hai_bps=10_000_000_000,
    alpha_timer_ns=55_000,
    increase_timer_ns=50_000,
    byte_counter=0,
    cut_interval_ns=0,
    clamp_target_rate=True,
    fast_recovery=5,
    gain_q16=256,
    cnp_interval_ns=10_000,
)
CONTROLLED = {"congestion_control": {"dcqcn": DCQCN.fields()}, "cnp_interval_ns": 10_000}
OPERATIONS = [Operation.SEND, Operation.WRITE, Operation.READ]
REPEATS = [Repeat.GO_BACK_N, Repeat.SELECTIVE]


def slot(payload: int, extension: int = 0, rate: int = RATE) -> int:
    """How long a packet takes on the wire, ps."""
    frame = HEADERS + extension + payload + -payload % 4 + ICRC
    return -(-8 * max(84, frame + GAP) * 10**12 // rate)


def payloads(size: int) -> list[int]:
    return [min(MTU, size - at) for at in range(0, size, MTU)]


def sending(operation: Operation, size: int) -> int:
    """How long all packets of a message take, one behind the other, ps."""
    parts = payloads(size)
    if operation is Operation.READ:
        ends = {0, len(parts) - 1}
        return sum(slot(part, AETH if i in ends else 0) for i, part in enumerate(parts))
    reth = RETH if operation is Operation.WRITE else 0
    return sum(slot(part, 0 if i else reth) for i, part in enumerate(parts))


def connected(net: Any, src: int, dst: int, transport: Transport = PLAIN, **fields: int) -> int:
    """Return a flow with this transport."""
    number = net.engine.add_transports([transport])
    return int(net.flow(src, dst, transport=number + 1, **{"payload": MTU, **fields}))


def pair(net: Any, transport: Transport = PLAIN, **fields: int) -> tuple[int, int, int]:
    """Two hosts on one cable, and a flow from the first to the second."""
    a, b = net.host(), net.host()
    net.link(a, b)
    return a, b, connected(net, a, b, transport, **fields)


def transport_stats(net: Any, flow: int) -> dict[str, int]:
    row = net.engine.transport_stats(flow, 1)[0]
    return {name: int(row[name]) for name in row.dtype.names}


def opcode(frame: Any) -> int:
    return int(frame.data[42])


def psn(frame: Any) -> int:
    return int.from_bytes(frame.data[51:54], "big")


def queue_pair(frame: Any) -> int:
    return int.from_bytes(frame.data[47:50], "big")


def data_sent(frames: Sequence[Any]) -> list[Any]:
    """Return the SENDs and WRITEs that an interface sent."""
    return [
        f for f in frames if f.sent and f.data[12:14] == b"\x08\0" and opcode(f) in DATA_OPCODES
    ]


def starts(frames: Sequence[Any]) -> list[int]:
    """When each of these frames began to leave."""
    lengths = [max(84, len(f.data) + f.tail_length + GAP) for f in frames]
    return [f.at - -(-8 * n * 10**12 // RATE) for f, n in zip(frames, lengths, strict=True)]


def pfc(quanta: dict[int, int]) -> bytes:
    """Return an 802.1Qbb pause frame."""
    times = struct.pack("!8H", *(quanta.get(c, 0) for c in range(8)))
    enabled = sum(1 << c for c in quanta)
    head = bytes.fromhex("0180c2000001020000000000") + struct.pack("!HHH", 0x8808, 0x0101, enabled)
    return (head + times).ljust(60, b"\0")


# --- times to the picosecond ----------------------------------------------------------------------


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("size", [1, MTU, 10 * MTU + 5])
def test_a_message_takes_its_bits_and_the_delay(net: Any, operation: Operation, size: int) -> None:
    _a, _b, flow = pair(net, operation=int(operation))
    net.messages([{"flow": flow, "bytes": size, "start_ps": 3 * US}])
    assert net.engine.run(to_the_end=True) is Stop.DONE
    asked = slot(0, RETH) + DELAY if operation is Operation.READ else 0
    times = net.times(0)
    assert times["ready"] == times["first_sent"] == 3 * US
    assert times["done"] == net.engine.now == 3 * US + asked + sending(operation, size) + DELAY
    stats = net.flow_stats(flow)
    assert stats["sent_packets"] == stats["received_packets"] == len(payloads(size))
    assert stats["sent_bytes"] == stats["received_bytes"] == size
    assert stats["first_sent"] == 3 * US + asked
    assert stats["delay_max_ps"] <= slot(MTU, RETH) + DELAY


def test_messages_chain_there_and_back_over_a_switch(net: Any) -> None:
    (a, b), _ = net.star(2)
    there, back = connected(net, a, b), connected(net, b, a)
    n = 200
    net.messages(
        [{"flow": (there, back)[i % 2], "bytes": MTU} for i in range(n)],
        [(i, i + 1) for i in range(n - 1)],
    )
    assert net.engine.run(to_the_end=True) is Stop.DONE
    # The acknowledgement of one message leaves before the next one: they are ready at one instant.
    acknowledged = slot(0, AETH)
    assert net.times(0)["done"] == 2 * (slot(MTU) + DELAY)
    assert net.times(n - 1)["done"] == n * 2 * (slot(MTU) + DELAY) + (n - 1) * acknowledged
    assert net.engine.totals().messages_done == n


def test_acknowledgements_come_every_eighth_packet_and_for_the_last(net: Any) -> None:
    a, b, flow = pair(net)
    net.engine.tap(b, 0)
    net.messages([{"flow": flow, "bytes": 20 * MTU}])
    net.engine.run()
    frames = net.engine.take_tapped()
    first = next(psn(f) for f in frames if not f.sent)
    assert first != 0  # as of real cards: anywhere
    assert [(psn(f) - first) % (1 << 24) for f in frames if f.sent] == [7, 15, 19]
    stats = transport_stats(net, flow)
    assert (stats["acks"], stats["acked_bytes"], stats["naks"]) == (3, 20 * MTU, 0)
    assert net.engine.host_port_stats(a, 0).queue_packets == 0


def test_a_window_waits_for_acknowledgements(net: Any) -> None:
    a, _b, flow = pair(net, replace(PLAIN, window_packets=4, ack_every=1))
    net.engine.tap(a, 0)
    net.messages([{"flow": flow, "bytes": 6 * MTU}])
    net.engine.run(to_the_end=True)
    there = slot(MTU) + DELAY
    answered = there + slot(0, AETH) + DELAY  # of the first packet
    sent = starts(data_sent(net.engine.take_tapped()))
    assert sent == [0, slot(MTU), 2 * slot(MTU), 3 * slot(MTU), answered, answered + slot(MTU)]


@pytest.mark.parametrize("operation", [Operation.WRITE, Operation.READ])
def test_a_message_may_be_longer_than_a_work_request(net: Any, operation: Operation) -> None:
    a, b, flow = pair(net, operation=int(operation), payload=4096)
    size = GIB + 4096
    net.messages([{"flow": flow, "bytes": size}])
    assert net.engine.run(to_the_end=True) is Stop.DONE
    assert net.flow_stats(flow)["received_bytes"] == size
    assert net.times(0)["done"] > size * 8 * 10**12 // RATE
    for host in (a, b):
        stats = net.engine.host_port_stats(host, 0)
        assert (stats.queue_packets, stats.queue_bytes) == (0, 0)


def test_packets_take_turns_among_source_ports(net: Any) -> None:
    a, _b, flow = pair(net, replace(PLAIN, udp_ports=4))
    net.engine.tap(a, 0)
    net.messages([{"flow": flow, "bytes": 8 * MTU}])
    net.engine.run(to_the_end=True)
    sent = data_sent(net.engine.take_tapped())
    ports = [int.from_bytes(frame.data[34:36], "big") for frame in sent]
    turns = [0xC000 + (psn(sent[0]) + turn) % 4 for turn in range(8)]  # of the PSN
    assert ports == turns


# --- what is lost ---------------------------------------------------------------------------------


@pytest.mark.parametrize("repeat", REPEATS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_what_is_lost_either_way_is_sent_again(
    net: Any, repeat: Repeat, operation: Operation
) -> None:
    a, b, flow = pair(net, replace(PLAIN, repeat=repeat), operation=int(operation))
    for host in (a, b):
        net.engine.impair_host_port(host, 0, PortImpair(loss=1 << 26, seed=3))  # 1 in 64
    net.messages([{"flow": flow, "bytes": 100 * MTU} for _ in range(20)])
    assert net.engine.run(to_the_end=True) is Stop.DONE
    stats, repeated = net.flow_stats(flow), transport_stats(net, flow)["repeated_packets"]
    assert stats["received_bytes"] == 2000 * MTU
    assert stats["received_packets"] == 2000
    assert repeated >= 15
    if operation is not Operation.READ:  # which may be answered again in part, in another order
        assert stats["sent_packets"] == 2000 + repeated
    assert net.engine.totals().failed_flows == 0


def test_selective_repeat_sends_less_again(new_net: Callable[[int], Any]) -> None:
    def repeated(transport: Transport) -> int:
        net = new_net(1)
        a, _b, flow = pair(net, transport)
        net.engine.impair_host_port(a, 0, PortImpair(loss=1 << 26, seed=3))
        net.messages([{"flow": flow, "bytes": 4000 * MTU}])
        assert net.engine.run(to_the_end=True) is Stop.DONE
        return transport_stats(net, flow)["repeated_packets"]

    assert 5 * repeated(SELECTIVE) < repeated(PLAIN)


@pytest.mark.parametrize("repeat", REPEATS)
def test_overtaken_and_doubled_packets_arrive_once(net: Any, repeat: Repeat) -> None:
    a, _b, flow = pair(net, replace(PLAIN, repeat=repeat))
    net.engine.impair_host_port(
        a, 0, PortImpair(reorder=1 << 26, reorder_ps=US, duplicate=1 << 28, seed=5)
    )
    net.messages([{"flow": flow, "bytes": 1000 * MTU}])
    assert net.engine.run(to_the_end=True) is Stop.DONE
    net.engine.run()
    stats = net.flow_stats(flow)
    assert (stats["received_packets"], stats["received_bytes"]) == (1000, 1000 * MTU)
    assert stats["duplicates"] > 20
    assert stats["out_of_order"] > 5
    assert transport_stats(net, flow)["naks"] > 0


@pytest.mark.parametrize("repeat", REPEATS)
def test_a_last_packet_that_is_lost_waits_for_the_time_out(net: Any, repeat: Repeat) -> None:
    a, b = net.host(), net.host()
    link = net.link(a, b)
    flow = connected(net, a, b, replace(PLAIN, repeat=repeat))
    net.messages([{"flow": flow, "bytes": MTU}])
    net.engine.run(slot(MTU))
    net.engine.set_link(link, False)
    net.engine.run(2 * US)
    net.engine.set_link(link, True)
    assert net.engine.run(to_the_end=True) is Stop.DONE
    assert net.times(0)["done"] == TIMEOUT + slot(MTU) + DELAY
    assert net.times(0)["first_sent"] == 0
    stats = transport_stats(net, flow)
    assert (stats["timeouts"], stats["repeated_packets"]) == (1, 1)
    assert net.engine.totals().lost_link == 1


def test_damaged_packets_are_told_by_their_icrc(net: Any) -> None:
    a, b, flow = pair(net)
    net.engine.impair_host_port(a, 0, PortImpair(corrupt=1 << 26, seed=2))
    net.engine.tap(b, 0)
    net.messages([{"flow": flow, "bytes": 640 * MTU}])
    assert net.engine.run(to_the_end=True) is Stop.DONE
    received = [f for f in net.engine.take_tapped() if not f.sent]
    assert all(f.tail_length == 0 and len(f.data) == HEADERS + MTU + ICRC for f in received)
    assert net.engine.totals().received_other >= 5
    assert net.flow_stats(flow)["received_bytes"] == 640 * MTU
    assert transport_stats(net, flow)["repeated_packets"] > 0


@pytest.mark.parametrize("operation", [Operation.SEND, Operation.READ])
def test_a_queue_pair_fails_when_nobody_answers(net: Any, operation: Operation) -> None:
    (a, b, c), _ = net.star(3)
    lost = connected(net, a, b, replace(PLAIN, retries=2), operation=int(operation))
    other = connected(net, a, c)
    net.messages(
        [
            {"flow": lost, "bytes": MTU},
            {"flow": other, "bytes": MTU},
            {"flow": other, "bytes": MTU, "start_ps": US},
        ],
        [(0, 1)],
    )
    net.engine.set_node(b, False)
    assert net.engine.run(to_the_end=True) is Stop.IDLE
    totals = net.engine.totals()
    assert (totals.failed_flows, totals.messages_done) == (1, 1)
    assert net.times(1)["ready"] == -1
    assert net.times(2)["done"] > 0
    stats = transport_stats(net, lost)
    assert stats["failure"] == Failure.RETRY_EXCEEDED
    assert stats["timeouts"] == 3
    # What is posted after that is not done either, and nothing is sent.
    sent = totals.sent
    net.messages([{"flow": lost, "bytes": MTU}])
    assert net.engine.run(to_the_end=True) is Stop.IDLE
    assert net.engine.totals().sent == sent


# --- pauses and turns -----------------------------------------------------------------------------


def test_pfc_holds_a_queue_pair_for_its_quanta(net: Any) -> None:
    a, b = net.host(), net.host()
    net.link(a, b)
    stopped, other = connected(net, a, b, queue=3), connected(net, a, b, queue=1)
    net.engine.add_script([(b, 0, 10 * US, pfc({3: 1000}))])
    net.messages(
        [{"flow": stopped, "bytes": 400 * MTU}, {"flow": other, "bytes": 400 * MTU}],
    )
    net.engine.tap(a, 0)
    net.engine.run(to_the_end=True)
    frame = -(-8 * 84 * 10**12 // RATE)
    begin = 10 * US + frame + DELAY
    pause = 1000 * 512 * 10**12 // RATE
    frames = data_sent(net.engine.take_tapped())
    of = {
        flow: [t for t, f in zip(starts(frames), frames, strict=True) if queue_pair(f) == flow + 1]
        for flow in (stopped, other)
    }
    # Strict by queue: the higher one alone, until it is paused.
    assert of[other][0] >= begin
    assert not [t for t in of[stopped] if begin < t < begin + pause]
    resumed = min(t for t in of[stopped] if t > begin)
    assert begin + pause <= resumed < begin + pause + slot(MTU)
    assert not [t for t in of[other] if resumed < t < of[stopped][-1]]
    assert net.flow_stats(stopped)["paused_ps"] == pause
    assert net.flow_stats(other)["paused_ps"] == 0


def test_a_paused_reader_asks_later_and_a_paused_responder_answers_later(net: Any) -> None:
    a, b, flow = pair(net, operation=int(Operation.READ), queue=2)
    net.engine.add_script([(b, 0, 0, pfc({2: 0xFFFF})), (b, 0, 20 * US, pfc({2: 0}))])
    net.engine.add_script([(a, 0, 20 * US, pfc({2: 0xFFFF})), (a, 0, 50 * US, pfc({2: 0}))])
    net.messages([{"flow": flow, "bytes": 2 * MTU, "start_ps": 5 * US}])
    assert net.engine.run(to_the_end=True) is Stop.DONE
    frame = -(-8 * 84 * 10**12 // RATE)
    times, stats = net.times(0), net.flow_stats(flow)
    assert times["first_sent"] == 20 * US + frame + DELAY
    assert stats["first_sent"] == 50 * US + frame + DELAY
    assert times["done"] == stats["first_sent"] + sending(Operation.READ, 2 * MTU) + DELAY
    assert 0 < stats["paused_ps"] <= 50 * US


def test_open_loop_and_transport_take_turns_in_a_queue(net: Any) -> None:
    a, b, reliable = pair(net)
    open_loop = net.flow(a, b, payload=MTU)
    net.messages([{"flow": flow, "bytes": 50 * MTU} for flow in (reliable, open_loop)])
    net.engine.tap(a, 0)
    assert net.engine.run(to_the_end=True) is Stop.DONE
    order = [queue_pair(frame) for frame in data_sent(net.engine.take_tapped())]
    assert sorted(order[:2]) == [reliable + 1, open_loop + 1]
    assert order == 50 * order[:2]


@pytest.mark.parametrize(("reliable_queue", "open_queue"), [(5, 2), (2, 5)])
def test_the_higher_queue_goes_first_whatever_its_kind(
    net: Any, reliable_queue: int, open_queue: int
) -> None:
    a, b, reliable = pair(net, queue=reliable_queue)
    open_loop = net.flow(a, b, payload=MTU, queue=open_queue)
    net.messages([{"flow": flow, "bytes": 50 * MTU} for flow in (reliable, open_loop)])
    net.engine.run(to_the_end=True)
    first, second = (0, 1) if reliable_queue > open_queue else (1, 0)
    assert net.times(first)["last_sent"] < net.times(second)["last_sent"]
    assert net.times(second)["first_sent"] >= net.times(first)["last_sent"]


def test_a_flow_never_exceeds_its_own_rate(net: Any) -> None:
    a, _b, flow = pair(net, rate_bps=RATE // 4)
    net.engine.tap(a, 0)
    net.messages([{"flow": flow, "bytes": 20 * MTU}])
    net.engine.run(to_the_end=True)
    sent = starts(data_sent(net.engine.take_tapped()))
    assert sent == [n * slot(MTU, rate=RATE // 4) for n in range(20)]


# --- congestion control ---------------------------------------------------------------------------


def marked_packet(flow: int, src: int, dst: int) -> bytes:
    """Return a SEND_ONLY of this flow with CE, up to its BTH.

    Its PSN is the one before the first.
    """
    total = 20 + 8 + 12 + MTU + ICRC
    words = [0x4503, total, 0, 0x4000, 0x4011, 0, 0x0A00, src, 0x0A00, dst]
    words[5] = 0xFFFF - sum(words) % 0xFFFF
    udp = struct.pack("!HHHH", 0xC000, 4791, total - 20, 0)
    bth = struct.pack("!BBHII", 4, 0x40, 0xFFFF, flow + 1, 0xFFFFFF)
    ethernet = bytes.fromhex("02ff00000000") + bytes(6) + b"\x08\0"
    return ethernet + struct.pack("!10H", *words) + udp + bth


def mark(net: Any, src: int, dst: int, flow: int, at: int) -> None:
    """Have `src` send a packet that was here before, with CE: the receiver notices that alone."""
    frame = ScriptFrame(src, 0, at, marked_packet(flow, src, dst), MTU + ICRC)
    net.engine.add_script([frame])


def test_a_mark_halves_the_rate_and_time_brings_it_back(net: Any) -> None:
    a, b, flow = pair(net, replace(PLAIN, **CONTROLLED))
    net.messages([{"flow": flow, "bytes": 20_000 * MTU}])
    mark(net, a, b, flow, 100 * US)
    net.engine.tap(a, 0)
    net.engine.run(100 * US)
    assert transport_stats(net, flow)["rate_bps"] == 0  # not limited
    net.engine.run(110 * US)
    assert net.flow_stats(flow)["marked"] == 1
    stats = transport_stats(net, flow)
    assert (stats["cnps"], stats["rate_bps"]) == (1, RATE // 2)  # alpha is 1 at first
    net.engine.run(150 * US)
    frames = data_sent(net.engine.take_tapped())
    sent = [t for t in starts(frames) if 110 * US < t < 150 * US]
    gaps = {after - before for before, after in pairwise(sent)}
    assert gaps == {slot(MTU, rate=RATE // 2)}
    net.engine.run(170 * US)
    assert transport_stats(net, flow)["rate_bps"] == RATE * 3 // 4  # fast recovery: half way
    net.engine.run(220 * US)
    assert transport_stats(net, flow)["rate_bps"] == RATE * 7 // 8


def test_congestion_is_told_once_in_an_interval_and_none_is_forgotten(net: Any) -> None:
    a, b, flow = pair(net, replace(PLAIN, **CONTROLLED, cnp_queue=6, cnp_dscp=46))
    net.messages([{"flow": flow, "bytes": 2000 * MTU}])
    for at in (20, 22, 24, 50):
        mark(net, a, b, flow, at * US)
    net.engine.tap(b, 0)
    net.engine.run(60 * US)
    cnps = [f for f in net.engine.take_tapped() if f.sent and opcode(f) == 0x81]
    assert {f.data[15] >> 2 for f in cnps} == {46}
    first, second, third = (f.at for f in cnps)
    assert first < 22 * US
    # Of the marks in the interval one notice, when it is over, with the next packet.
    assert 0 < second - first - DCQCN.cnp_interval_ns * 1000 < 4 * slot(MTU)
    assert 50 * US < third < 52 * US
    assert transport_stats(net, flow)["cnps"] == 3
    assert net.flow_stats(flow)["marked"] == 4


def test_without_congestion_control_marks_are_counted_alone(net: Any) -> None:
    a, b, flow = pair(net)
    net.messages([{"flow": flow, "bytes": 2000 * MTU}])
    mark(net, a, b, flow, 20 * US)
    assert net.engine.run(to_the_end=True) is Stop.DONE
    stats = transport_stats(net, flow)
    assert (stats["cnps"], stats["rate_bps"]) == (0, 0)
    assert net.flow_stats(flow)["marked"] == 1


# --- what a caller may ask for, and the same again ------------------------------------------------


def test_what_a_transport_cannot_carry_is_refused(net: Any) -> None:
    (a, b), _ = net.star(2)
    flow = connected(net, a, b)
    with pytest.raises(EngineError, match="payload is 256, 512, 1024, 2048 or 4096 bytes"):
        connected(net, a, b, payload=1000)
    with pytest.raises(EngineError, match="time-out out of range"):
        connected(net, a, b, replace(PLAIN, timeout_ps=0))
    assert connected(net, a, b) == flow + 1  # nothing of them has stayed
    with pytest.raises(EngineError, match="no transport"):
        net.flow(a, b, transport=99)
    with pytest.raises(EngineError, match="SENDs, WRITEs or READs"):
        connected(net, a, b, operation=int(Operation.WRITE_IMM))
    with pytest.raises(EngineError, match="carries messages alone"):
        net.stream(flow, payload=64, interval_ps=US)
    with pytest.raises(EngineError, match="out of range"):
        net.engine.add_transports([replace(PLAIN, cnp_queue=8)])


def crowd(net: Any, sampled: bool, step: int | None) -> bytes:
    """Six hosts, all pairs, all operations, losses and marks: everything that is known after."""
    hosts, _ = net.star(6, queue_packets=30)
    pairs = [(a, b) for a in hosts for b in hosts if a != b]
    kinds = [replace(PLAIN, **CONTROLLED), replace(SELECTIVE, **CONTROLLED, udp_ports=2)]
    flows = [
        connected(net, a, b, kinds[i % 2], operation=int(OPERATIONS[i % 3]), queue=i % 4)
        for i, (a, b) in enumerate(pairs)
    ]
    net.engine.impair_host_port(
        hosts[2], 0, PortImpair(jitter_ps=US, loss=1 << 25, corrupt=1 << 24)
    )
    net.messages([{"flow": flow, "bytes": 200_000 + 977 * flow} for flow in flows])
    for i, (a, b) in enumerate(pairs):
        ends = (b, a) if OPERATIONS[i % 3] is Operation.READ else (a, b)
        for at in range(30, 300, 45):
            mark(net, *ends, flows[i], (at + i) * US)
    if sampled:
        net.engine.sample(7 * US, 0)
    end = 5_000 * US
    for until in range(step or end, end + 1, step or end):
        net.engine.run(until)
    parts = [
        net.engine.flow_stats(0, len(flows)),
        net.engine.transport_stats(0, len(flows)),
        net.engine.message_times(0, len(flows)),
    ]
    assert (parts[2]["done"] >= 0).all()
    assert parts[1]["repeated_packets"].sum() > 100
    assert parts[1]["cnps"].sum() > 100
    return b"".join(part.tobytes() for part in parts)


def test_two_runs_are_one_however_they_are_looked_at(new_net: Callable[[int], Any]) -> None:
    first = crowd(new_net(1), False, None)
    assert crowd(new_net(1), False, None) == first
    assert crowd(new_net(1), True, 1250 * US) == first
    assert crowd(new_net(2), False, None) != first


def test_samples_tell_what_arrived_and_the_rate(net: Any) -> None:
    a, b, flow = pair(net, replace(PLAIN, **CONTROLLED))
    net.messages([{"flow": flow, "bytes": 1000 * MTU}])
    mark(net, a, b, flow, 20 * US)
    net.engine.sample(5 * US, 0)
    net.engine.run(to_the_end=True)
    net.engine.sample_rest()
    rows = net.engine.take_flow_samples()
    assert rows["bytes"].sum() == 1000 * MTU
    assert set(rows[rows["at"] <= 20 * US]["rate_bps"]) == {0}
    assert set(rows[(rows["at"] > 25 * US) & (rows["at"] < 70 * US)]["rate_bps"]) == {RATE // 2}


# --- another source port --------------------------------------------------------------------------


@pytest.mark.parametrize("operation", OPERATIONS)
def test_data_has_another_source_port_from_an_instant_on(net: Any, operation: Operation) -> None:
    a, b, flow = pair(net, operation=int(operation))
    for host in (a, b):
        net.engine.tap(host, 0)
    net.messages([{"flow": flow, "bytes": 100 * MTU}])
    moves = 5 * US
    net.engine.run(until=moves)
    net.engine.set_source_port(flow, 0xD234)
    assert net.engine.run(to_the_end=True) is Stop.DONE
    frames = [f for f in net.engine.take_tapped() if f.sent and f.data[12:14] == b"\x08\0"]
    data = [f for f in frames if len(f.data) + f.tail_length > 900]
    sent = [
        (at, int.from_bytes(f.data[34:36], "big")) for at, f in zip(starts(data), data, strict=True)
    ]
    assert len(sent) == 100
    assert all(port == (0xC000 if at <= moves else 0xD234) for at, port in sent)
    assert len({port for _, port in sent}) == 2
    others = [f for f in frames if f not in data]
    assert {int.from_bytes(f.data[34:36], "big") for f in others} == {0xC000}
    asked = slot(0, RETH) + DELAY if operation is Operation.READ else 0
    assert net.times(0)["done"] == asked + sending(operation, 100 * MTU) + DELAY


def test_an_open_loop_flow_has_another_source_port_too(net: Any) -> None:
    a, b = net.host(), net.host()
    net.link(a, b)
    flow = net.flow(a, b, payload=MTU)
    net.engine.tap(a, 0)
    net.messages([{"flow": flow, "bytes": 20 * MTU}])
    net.engine.run(until=US)
    net.engine.set_source_port(flow, 0xD234)
    assert net.engine.run(to_the_end=True) is Stop.DONE
    ports = [int.from_bytes(f.data[34:36], "big") for f in net.engine.take_tapped()]
    assert ports == [0xC000] * 12 + [0xD234] * 8  # 88 ns each


def test_source_ports_that_are_none_are_refused(net: Any) -> None:
    _a, _b, flow = pair(net, replace(PLAIN, udp_ports=4))
    for number, port, why in (
        (flow, 0, "a source port is from 1 to 65535, not 0"),
        (flow, 65536, "a source port is from 1 to 65535"),
        (flow, 65533, "4 UDP ports from 65533 on do not fit 1 to 65535"),
        (flow + 1, 5, "there is no flow 1"),
    ):
        with pytest.raises(EngineError, match=why):
            net.engine.set_source_port(number, port)
