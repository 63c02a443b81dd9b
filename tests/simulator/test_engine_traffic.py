"""What hosts send and count: streams, messages, pauses, scripts, samples, taps."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from simulator.core import EngineError, ScriptFrame, Stop
from simulator.core.binding import exponential
from softswitch.core import PortImpair

US = 1_000_000
RATE = 100_000_000_000
DELAY = US
HEADERS = 14 + 20 + 8 + 12
QUANTUM_BITS = 512


def slot(payload: int, rate: int = RATE) -> int:
    bytes_ = max(84, HEADERS + payload + -payload % 4 + 4 + 24)
    return -(-8 * bytes_ * 10**12 // rate)


def pfc(quanta: dict[int, int]) -> bytes:
    """Return an 802.1Qbb pause frame."""
    times = struct.pack("!8H", *(quanta.get(c, 0) for c in range(8)))
    enabled = sum(1 << c for c in quanta)
    head = bytes.fromhex("0180c2000001020000000000") + struct.pack("!HHH", 0x8808, 0x0101, enabled)
    return (head + times).ljust(60, b"\0")


# --- streams --------------------------------------------------------------------------------------


def test_constant_rate_stream_sends_on_the_dot(net: Any) -> None:
    (a, b), _ = net.star(2)
    flow = net.flow(a, b)
    net.stream(flow, payload=500, interval_ps=3 * US, start_ps=2 * US, stop_ps=20 * US)
    net.engine.tap(a, 0)
    assert net.engine.run(to_the_end=True) is Stop.DONE
    sent = [frame.at - slot(500) for frame in net.engine.take_tapped()]
    assert sent == [n * US for n in (2, 5, 8, 11, 14, 17)]
    stats = net.flow_stats(flow)
    assert stats["received_bytes"] == 6 * 500
    assert (stats["first_sent"], stats["last_sent"]) == (2 * US, 17 * US)


def test_stream_sends_as_many_packets_as_it_may(net: Any) -> None:
    (a, b), _ = net.star(2)
    flow = net.flow(a, b)
    net.stream(flow, payload=64, interval_ps=US, packets=5)
    net.engine.run(to_the_end=True)
    assert net.flow_stats(flow)["received_packets"] == 5


def test_poisson_gaps_are_exponential(net: Any) -> None:
    (a, b), _ = net.star(2)
    flow = net.flow(a, b)
    n, mean = 20_000, 10 * US
    net.stream(flow, payload=1, interval_ps=mean, packets=n, kind=1, seed=7)
    net.engine.tap(a, 0, 2 * n)
    net.engine.run(to_the_end=True)
    times = np.array([frame.at - slot(1) for frame in net.engine.take_tapped()])
    gaps = np.diff(times)
    assert len(times) == n
    # Mean and deviation of an exponential are equal; 5 standard errors of each.
    assert gaps.mean() == pytest.approx(mean, rel=5 / math.sqrt(n))
    assert gaps.std() == pytest.approx(mean, rel=5 * math.sqrt(2) / math.sqrt(n))
    # Independent: neighbours don't correlate.
    correlation = np.corrcoef(gaps[:-1], gaps[1:])[0, 1]
    assert abs(correlation) < 5 / math.sqrt(n)
    for times_mean in (0.1, 1, 3):
        share = (gaps > times_mean * mean).mean()
        expected = math.exp(-times_mean)
        deviation = math.sqrt(expected * (1 - expected) / n)
        # A gap below a slot waits for the one before it: at most that share is shifted.
        assert abs(share - expected) < 5 * deviation + slot(1) / mean


@pytest.mark.parametrize("random", [0, 1, 2**63 - 1, 2**63, 2**64 - 2, 12345 << 40, 987654321])
def test_integer_logarithm_is_the_logarithm(random: int) -> None:
    mean = 10**15
    expected = -math.log((random + 1) / 2**64) * mean
    assert exponential(mean, random) == pytest.approx(expected, rel=1e-9, abs=mean * 1e-9)
    assert exponential(mean, 2**64 - 1) == 0


def test_flows_of_a_queue_take_turns_and_higher_queues_go_first(net: Any) -> None:
    (a, b, c, d), _ = net.star(4)
    low = [net.flow(a, dst, payload=1000, queue=0) for dst in (b, c)]
    high = net.flow(a, d, payload=1000, queue=5)
    net.messages([{"flow": flow, "bytes": 4000} for flow in (*low, high)])
    net.engine.tap(a, 0)
    net.engine.run(to_the_end=True)
    order = [Ether(frame.data)[IP].dst[-1] for frame in net.engine.take_tapped()]
    assert order == [*[str(d)] * 4, *[str(b), str(c)] * 4]


def test_a_flow_keeps_to_its_own_rate(net: Any) -> None:
    (a, b), _ = net.star(2)
    flow = net.flow(a, b, payload=1000, rate_bps=RATE // 10)
    net.messages([{"flow": flow, "bytes": 5000}])
    net.engine.run(to_the_end=True)
    assert net.times(0)["last_sent"] == 4 * slot(1000, RATE // 10)


def test_packets_are_as_the_standard_says(net: Any) -> None:
    (a, b), _ = net.star(2)
    flow = net.flow(a, b, payload=1024, dscp=26, udp_port=0xD000)
    net.messages([{"flow": flow, "bytes": 2050}, {"flow": flow, "bytes": 7}])
    net.engine.tap(a, 0)
    net.engine.run(to_the_end=True)
    frames = net.engine.take_tapped()
    assert [frame.data[42] for frame in frames] == [0, 1, 2, 4]  # SEND first, middle, last, only
    assert [int.from_bytes(frame.data[51:54], "big") for frame in frames] == [0, 1, 2, 3]
    assert [frame.data[43] >> 4 & 3 for frame in frames] == [0, 0, 2, 1]  # pad
    for frame, size in zip(frames, (1024, 1024, 4, 8), strict=True):
        packet = Ether(frame.data + bytes(frame.tail_length))
        ip = packet[IP]
        assert frame.tail_length == size + 4
        assert (ip.tos, ip.ttl, ip.id, ip.flags, ip.proto) == (26 << 2 | 2, 64, 0, "DF", 17)
        assert ip.len == 20 + 8 + 12 + size + 4
        assert (ip.src, ip.dst) == (f"10.0.0.{a}", f"10.0.0.{b}")
        assert (packet[UDP].sport, packet[UDP].dport, packet[UDP].chksum) == (0xD000, 4791, 0)
        assert packet[UDP].len == ip.len - 20
        checksum = ip.chksum
        del ip.chksum
        assert Ether(bytes(packet))[IP].chksum == checksum
        assert frame.data[44:46] == b"\xff\xff"
        assert int.from_bytes(frame.data[47:50], "big") == flow + 1


# --- messages -------------------------------------------------------------------------------------


def test_messages_wait_for_each_other(net: Any) -> None:
    """A diamond: 1 and 2 wait for 0, 3 (no bytes) for both, 4 for 3; each with a gap."""
    hosts, _ = net.star(4)
    flows = [net.flow(hosts[i], hosts[(i + 1) % 4], payload=1000) for i in range(4)]
    net.messages(
        [
            {"flow": flows[0], "bytes": 1000, "start_ps": US},
            {"flow": flows[1], "bytes": 1000, "gap_ps": 7},
            {"flow": flows[2], "bytes": 3000},
            {"flow": 0, "bytes": 0, "gap_ps": US},
            {"flow": flows[3], "bytes": 1000, "start_ps": 100 * US},
        ],
        [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4)],
    )
    assert net.engine.run(to_the_end=True) is Stop.DONE
    one = 2 * slot(1000) + 2 * DELAY
    times = [net.times(i) for i in range(5)]
    assert times[0]["done"] == US + one
    assert times[1]["ready"] == times[0]["done"] + 7
    assert times[2]["ready"] == times[0]["done"]
    assert times[2]["done"] == times[2]["ready"] + one + 2 * slot(1000)
    assert times[3]["ready"] == times[3]["done"] == times[2]["done"] + US
    assert times[4]["ready"] == times[4]["first_sent"] == 100 * US
    assert net.engine.totals().messages_done == 5


def test_messages_of_a_flow_go_in_the_order_of_becoming_ready(net: Any) -> None:
    (a, b), _ = net.star(2)
    flow = net.flow(a, b, payload=1000)
    net.messages([{"flow": flow, "bytes": 2000, "start_ps": 2 * US}, {"flow": flow, "bytes": 2000}])
    net.engine.run(to_the_end=True)
    assert net.times(1)["last_sent"] < net.times(0)["first_sent"] == 2 * US


def test_a_message_with_a_lost_packet_is_never_done(net: Any) -> None:
    (a, b), _ = net.star(2)
    flow = net.flow(a, b, payload=1000)
    net.engine.impair_host_port(a, 0, PortImpair(loss=1 << 31, seed=3))
    net.messages([{"flow": flow, "bytes": 1000} for _ in range(64)])
    assert net.engine.run(to_the_end=True) is Stop.IDLE
    done = [i for i in range(64) if net.times(i)["done"] >= 0]
    stats = net.flow_stats(flow)
    assert stats["sent_packets"] == 64
    assert 10 < len(done) == stats["received_packets"] < 54
    assert stats["out_of_order"] == 0


def test_overtaken_packets_are_seen(net: Any) -> None:
    (a, b), _ = net.star(2)
    flow = net.flow(a, b, payload=1000)
    net.engine.impair_host_port(a, 0, PortImpair(reorder=1 << 30, reorder_ps=US, duplicate=1 << 30))
    net.messages([{"flow": flow, "bytes": 1_000_000}])
    assert net.engine.run(to_the_end=True) is Stop.DONE
    net.engine.run()
    stats = net.flow_stats(flow)
    assert stats["received_packets"] == 1000
    assert stats["received_bytes"] == 1_000_000
    assert stats["out_of_order"] > 100
    assert stats["duplicates"] > 100


def test_packets_that_thousands_overtake_are_seen(net: Any) -> None:
    (a, b), _ = net.star(2)
    flow = net.flow(a, b, payload=1000)
    late = PortImpair(reorder=1 << 28, reorder_ps=500 * US, duplicate=1 << 28)
    net.engine.impair_host_port(a, 0, late)
    net.messages([{"flow": flow, "bytes": 20_000_000}])
    assert net.engine.run(to_the_end=True) is Stop.DONE
    net.engine.run()
    stats = net.flow_stats(flow)
    assert stats["received_packets"] == 20_000
    assert stats["out_of_order"] > 100
    assert stats["duplicates"] > 100


def test_a_long_chain_of_messages(net: Any) -> None:
    (a, b), _ = net.star(2)
    there, back = net.flow(a, b, payload=256), net.flow(b, a, payload=256)
    n = 5000
    net.messages(
        [{"flow": (there, back)[i % 2], "bytes": 256} for i in range(n)],
        [(i, i + 1) for i in range(n - 1)],
    )
    net.engine.run(to_the_end=True)
    assert net.times(n - 1)["done"] == n * (2 * slot(256) + 2 * DELAY)


# --- pauses ---------------------------------------------------------------------------------------


def test_pfc_frame_pauses_a_host_for_its_quanta(net: Any) -> None:
    """Two hosts on one cable: the second one's script stops class 3 of the first."""
    a, b = net.host(), net.host()
    net.link(a, b)
    stopped = net.flow(a, b, payload=1000, queue=3)
    other = net.flow(a, b, payload=1000, queue=1)
    quanta = 1000
    net.engine.add_script([(b, 0, 10 * US, pfc({3: quanta}))])
    net.stream(stopped, payload=1000, interval_ps=US)
    net.stream(other, payload=1000, interval_ps=US, start_ps=US // 2)
    net.engine.tap(a, 0)
    net.engine.run(30 * US)
    frame = -(-8 * 84 * 10**12 // RATE)
    begin = 10 * US + frame + DELAY
    pause = quanta * QUANTUM_BITS * 10**12 // RATE
    tapped = net.engine.take_tapped()
    (at,) = [f.at for f in tapped if not f.sent and f.data[12:14] == b"\x88\x08"]
    assert at == begin
    starts = {
        qp: [f.at - slot(1000) for f in tapped if f.sent and f.data[49] == qp + 1]
        for qp in (stopped, other)
    }
    assert [t for t in starts[stopped] if begin < t < begin + pause] == []
    # What piled up goes at once when the time is over.
    assert begin + pause in starts[stopped]
    assert starts[other][:16] == [US // 2 + n * US for n in range(16)]
    stats = net.engine.host_port_stats(a, 0)
    assert stats.pfc_received == 1
    assert stats.paused_ps[3] == pause
    assert sum(stats.paused_ps) == pause
    # Something was to be sent from the first tick after the frame came.
    assert net.flow_stats(stopped)["paused_ps"] == begin + pause - 12 * US
    assert net.flow_stats(other)["paused_ps"] == 0


def test_pfc_frame_of_no_quanta_ends_a_pause(net: Any) -> None:
    a, b = net.host(), net.host()
    net.link(a, b)
    flow = net.flow(a, b, payload=1000, queue=2)
    net.engine.add_script([(b, 0, 0, pfc({2: 0xFFFF})), (b, 0, 20 * US, pfc({2: 0, 5: 0}))])
    net.messages([{"flow": flow, "bytes": 1000, "start_ps": 5 * US}])
    net.engine.run(to_the_end=True)
    frame = -(-8 * 84 * 10**12 // RATE)
    assert net.times(0)["first_sent"] == 20 * US + frame + DELAY
    assert net.engine.host_port_stats(a, 0).paused_ps[2] == 20 * US


# --- scripts --------------------------------------------------------------------------------------


def test_script_packets_with_a_tail_count_whole(net: Any) -> None:
    a, b = net.host(), net.host()
    net.link(a, b)
    net.engine.add_script([ScriptFrame(a, 0, 0, bytes(60), 1000, 5)])
    net.engine.tap(b, 0)
    net.engine.run()
    (frame,) = net.engine.take_tapped()
    assert (frame.tail_length, frame.tail_seed, len(frame.data)) == (1000, 5, 60)
    assert frame.at == 8 * (1060 + 24) * 10**12 // RATE + DELAY
    totals = net.engine.totals()
    assert (totals.sent, totals.received, totals.received_other) == (1, 1, 1)


def test_long_script_frames_arrive_whole(net: Any) -> None:
    a, b = net.host(), net.host()
    net.link(a, b)
    data = bytes(range(256)) * 8
    net.engine.add_script([(a, 0, 0, data)])
    net.engine.tap(b, 0)
    net.engine.run()
    assert [frame.data for frame in net.engine.take_tapped()] == [data]


# --- samples and taps -----------------------------------------------------------------------------


def test_samples_add_up(net: Any) -> None:
    (a, b, c), centre = net.star(3)
    flows = [net.flow(node, c, payload=1000) for node in (a, b)]
    net.messages([{"flow": flow, "bytes": 100_000} for flow in flows])
    net.engine.sample(US, 0)
    net.engine.run(40 * US)
    links, moved = net.engine.take_link_samples(), net.engine.take_flow_samples()
    queues = net.engine.take_queue_samples()
    frame = HEADERS + 1000 + 4 + 24
    for link, direction, packets in ((0, 0, 100), (1, 0, 100), (2, 1, 200), (2, 0, 0)):
        mine = links[(links["link"] == link) & (links["direction"] == direction)]
        assert mine["packets"].sum() == packets
        assert mine["bytes"].sum() == packets * frame
        assert (mine["bytes"] <= RATE / 8 * 1e-6 + frame).all()
    for flow in flows:
        assert moved[moved["flow"] == flow]["bytes"].sum() == 100_000
    assert (moved["at"] % US == 0).all()
    assert set(zip(queues["node"], queues["port"], strict=True)) == {(centre, 3)}
    assert (np.diff(queues["at"]) == US).all()
    assert (queues["bytes"] == queues["packets"] * (frame - 24)).all()
    # Two come in while one leaves: half of 100 packets of each were waiting when the last came.
    assert 95 <= queues["packets"].max() <= 100
    assert len(net.engine.take_link_samples()) == 0
    net.engine.sample(0)
    with pytest.raises(EngineError):
        net.engine.sample(US, 5 * US)


def test_the_rest_of_a_run_is_sampled_at_its_end(net: Any) -> None:
    (a, b), _ = net.star(2)
    net.messages([{"flow": net.flow(a, b, payload=1000), "bytes": 100_000}])
    net.engine.sample(4 * US)
    net.engine.run(to_the_end=True)
    assert net.engine.take_flow_samples()["bytes"].sum() < 100_000
    net.engine.sample_rest()
    net.engine.sample_rest()
    (rest,) = net.engine.take_flow_samples()
    assert rest["at"] == net.engine.now == net.times(0)["done"]


def test_tap_sees_both_directions_and_says_what_it_missed(net: Any) -> None:
    (a, b), centre = net.star(2)
    flow = net.flow(a, b, payload=1000)
    net.messages([{"flow": flow, "bytes": 3000}])
    net.engine.tap(centre, 1, 2)
    net.engine.tap(centre, 2)
    net.engine.run(to_the_end=True)
    frames = net.engine.take_tapped()
    assert [(f.port, f.sent) for f in frames] == [(1, False)] * 2 + [(2, True)] * 3
    assert net.engine.tap_missed() == 1
    into, out = frames[0], frames[2]
    assert into.at == slot(1000) + DELAY
    assert out.at == into.at + slot(1000)
    assert out.data[:6] == bytes.fromhex("02ff00000000")
    assert out.data[22] == into.data[22] - 1  # TTL
    assert out.tail_seed == into.tail_seed


def test_two_runs_are_one(new_net: Callable[[int], Any]) -> None:
    def run(seed: int) -> bytes:
        net = new_net(seed)
        hosts, _ = net.star(6, queue_packets=30)
        flows = [net.flow(a, b, payload=1000) for a in hosts for b in hosts if a != b]
        for flow in flows:
            net.stream(
                flow, payload=700, interval_ps=US // 2, kind=1, seed=seed + flow, packets=300
            )
        net.messages([{"flow": flow, "bytes": 30_000} for flow in flows])
        net.engine.sample(3 * US)
        net.engine.impair_host_port(hosts[2], 0, PortImpair(jitter_ps=US, loss=1 << 20))
        net.engine.run()
        parts = [
            net.engine.flow_stats(0, len(flows)),
            net.engine.message_times(0, len(flows)),
            net.engine.take_queue_samples(),
            net.engine.take_link_samples(),
            net.engine.take_flow_samples(),
        ]
        return b"".join(part.tobytes() for part in parts) + repr(net.engine.totals()).encode()

    assert run(1) == run(1)
    assert run(1) != run(2)
