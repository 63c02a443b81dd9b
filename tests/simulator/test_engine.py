"""The engine's time and order: to the picosecond, by hand."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest

from simulator.core import EngineError, Stop

US = 1_000_000
RATE = 100_000_000_000
DELAY = US
HEADERS = 14 + 20 + 8 + 12
ICRC = 4


def slot(payload: int, rate: int = RATE) -> int:
    """Time on the wire of a RoCEv2 packet, preamble, FCS and gap included, rounded up."""
    bytes_ = max(84, HEADERS + payload + -payload % 4 + ICRC + 24)
    return -(-8 * bytes_ * 10**12 // rate)


def script_frame(dst: int, tag: int = 0, length: int = 64) -> bytes:
    """Return a plain UDP datagram to a host; `tag` is its source port."""
    udp = struct.pack("!HHHH", tag, 9, length - 34, 0)
    head = struct.pack(
        "!BBHHHBBHII", 0x45, 0, length - 14, 0, 0, 64, 17, 0, 0x0A0000FE, 0x0A000000 + dst
    )
    total = sum(struct.unpack("!10H", head))
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    head = head[:10] + struct.pack("!H", ~total & 0xFFFF) + head[12:]
    frame = bytes.fromhex("02ff00000000020000000000") + b"\x08\x00" + head + udp
    return frame + bytes(length - len(frame))


def tag_of(data: bytes) -> int:
    return int.from_bytes(data[34:36], "big")


@pytest.mark.parametrize("payload", [1, 1000, 1024, 4096])
def test_one_hop_takes_two_slots_and_two_delays(net: Any, payload: int) -> None:
    (a, b), _ = net.star(2)
    flow = net.flow(a, b, payload=payload)
    net.messages([{"flow": flow, "bytes": payload, "start_ps": 5 * US}])
    assert net.engine.run(to_the_end=True) is Stop.DONE
    done = 5 * US + 2 * slot(payload) + 2 * DELAY
    assert net.times(0) == {
        "ready": 5 * US,
        "first_sent": 5 * US,
        "last_sent": 5 * US,
        "done": done,
    }
    stats = net.flow_stats(flow)
    assert (stats["received_packets"], stats["received_bytes"]) == (1, payload)
    assert stats["delay_max_ps"] == stats["delay_sum_ps"] == done - 5 * US
    assert net.engine.totals().hops == 1


def test_two_hops_of_unequal_rates(net: Any) -> None:
    a, b = net.host(rate=2 * RATE, delay=100), net.host()
    first, second = net.switch(2, rate=RATE // 2, delay=7), net.switch(2, rate=RATE, delay=US // 2)
    net.link(a, (first, 1))
    net.link((first, 2), (second, 1))
    net.link((second, 2), b)
    net.route(first, b, 2)
    net.route(second, b, 2)
    flow = net.flow(a, b, payload=1000)
    net.messages([{"flow": flow, "bytes": 3000}])
    net.engine.run(to_the_end=True)
    # The middle link is the slowest: the three packets leave it back to back.
    fill = slot(1000, 2 * RATE) + 100 + 3 * slot(1000, RATE // 2) + 7
    assert net.times(0)["done"] == fill + slot(1000) + US // 2
    assert net.times(0)["last_sent"] == 2 * slot(1000, 2 * RATE)
    assert net.engine.totals().hops == 6


def test_packets_of_a_link_arrive_in_order(net: Any) -> None:
    (a, b), _ = net.star(2)
    net.engine.tap(b, 0)
    net.engine.add_script([(a, 0, 0, script_frame(b, n, 64 + 10 * (n % 7))) for n in range(50)])
    net.engine.run()
    frames = net.engine.take_tapped()
    assert [tag_of(frame.data) for frame in frames] == list(range(50))
    assert [frame.at for frame in frames] == sorted({frame.at for frame in frames})


def test_equal_times_are_ordered_by_node_and_port(net: Any) -> None:
    """Whoever sends: what arrives at one picosecond is taken by the port at which it arrives."""
    target, *senders = (net.host() for _ in range(5))
    centre = net.switch(5)
    net.link(target, (centre, 1))
    net.route(centre, target, 1)
    for port, node in zip((4, 2, 5, 3), senders, strict=True):  # node 1 at port 4, and so on
        net.link(node, (centre, port))
    net.engine.tap(target, 0)
    script = [(node, 0, 0, script_frame(target, node)) for node in reversed(senders)]
    net.engine.add_script(script)
    net.engine.run()
    assert [tag_of(frame.data) for frame in net.engine.take_tapped()] == [2, 4, 1, 3]


def test_equal_times_at_two_switches_are_handled_in_node_order(net: Any) -> None:
    """Punts of the same picosecond come in the order of the nodes, not of the traffic."""
    a, b = net.host(), net.host()
    first, second = net.switch(1), net.switch(1)
    net.link(b, (second, 1))
    net.link(a, (first, 1))
    for node in (first, second):
        net.switches[node].table_add(
            "next_hop", {"next_hop": 9}, "forward_to", {"port": 255, "src_mac": 1, "dst_mac": 1}
        )
        net.route(node, 77, 9)
    net.engine.add_script([(b, 0, 0, script_frame(77)), (a, 0, 0, script_frame(77))])
    assert net.engine.run() is Stop.PUNT
    punts = net.engine.take_punts()
    assert [punt.node for punt in punts] == [first, second]
    assert len({punt.output.at_ps for punt in punts}) == 1


def test_queue_drains_in_order_and_counts(net: Any) -> None:
    (a, b, c), centre = net.star(3, queue_packets=4)
    flows = [net.flow(node, c, payload=1000) for node in (a, b)]
    net.messages([{"flow": flow, "bytes": 20_000} for flow in flows])
    net.engine.run(10_000 * US)
    sent = [net.flow_stats(flow)["sent_packets"] for flow in flows]
    received = [net.flow_stats(flow)["received_packets"] for flow in flows]
    dropped = net.switches[centre].stats(3).drop_queue
    assert sent == [20, 20]
    assert dropped > 0
    assert sum(received) == 40 - dropped
    assert net.engine.totals().messages_done == received.count(20) < 2  # nobody sends again


# --- links and nodes that fail ------------------------------------------------------------------


def test_link_down_loses_what_is_on_the_way(net: Any) -> None:
    (a, b), centre = net.star(2)
    flow = net.flow(a, b, payload=1000)
    net.stream(flow, payload=1000, interval_ps=US // 4)
    assert net.engine.run(10 * US) is Stop.UNTIL
    before = net.engine.totals()
    # Sent at 0, 250 ns, ... 10 us. One is on a wire for slot + delay; four are on each.
    on_wires = before.in_flight
    assert on_wires == 9
    net.engine.set_link(0, False)
    assert net.engine.totals().lost_link == 5
    net.engine.run(20 * US)
    middle = net.flow_stats(flow)
    assert middle["sent_packets"] == before.sent  # the card waits for its link
    assert middle["received_packets"] == before.sent - 5
    net.engine.set_link(0, True)
    net.engine.run(40 * US)
    after = net.flow_stats(flow)
    assert after["received_packets"] > middle["received_packets"]
    assert net.engine.totals().lost_link == 5
    assert after["sent_packets"] == after["received_packets"] + 5 + net.engine.totals().in_flight
    assert net.switches[centre].stats(1).drop_down == 0


def test_a_link_down_between_switches_is_a_port_down(net: Any) -> None:
    a, b = net.host(), net.host()
    first, second = net.switch(2), net.switch(2)
    net.link(a, (first, 1))
    middle = net.link((first, 2), (second, 1))
    net.link((second, 2), b)
    for node in (first, second):
        net.route(node, b, 2)
    flow = net.flow(a, b, payload=1000)
    net.stream(flow, payload=1000, interval_ps=US, packets=20)
    net.engine.run(6 * US + US // 2)
    net.engine.set_link(middle, False)
    net.engine.run(10 * US + US // 2)
    net.engine.set_link(middle, True)
    net.engine.run()
    stats = net.flow_stats(flow)
    lost = net.engine.totals().lost_link
    dropped = net.switches[first].stats(2).drop_down
    assert (lost, dropped) == (1, 4)
    assert stats["received_packets"] == 20 - lost - dropped


def test_dead_switch_takes_and_sends_nothing(net: Any) -> None:
    (a, b), centre = net.star(2)
    flow = net.flow(a, b, payload=1000)
    net.stream(flow, payload=1000, interval_ps=US, packets=100)
    net.engine.run(10 * US)
    net.engine.set_node(centre, False)
    at_death = net.flow_stats(flow)["received_packets"]
    assert net.engine.totals().in_flight == 0
    net.engine.run(30 * US)
    assert net.flow_stats(flow)["received_packets"] == at_death
    net.engine.set_node(centre, True)
    assert net.engine.run() is Stop.IDLE
    stats, totals = net.flow_stats(flow), net.engine.totals()
    assert stats["sent_packets"] == 100
    assert stats["received_packets"] == 100 - totals.lost_link > at_death


def test_a_host_without_link_keeps_its_packets(net: Any) -> None:
    (a, b), _ = net.star(2)
    lonely = net.host()
    flow = net.flow(lonely, b, payload=1000)
    net.messages([{"flow": flow, "bytes": 1000}])
    assert net.engine.run(US) in (Stop.IDLE, Stop.UNTIL)
    assert net.engine.host_port_stats(lonely, 0).queue_packets == 1
    assert net.engine.host_port_stats(a, 0).queue_packets == 0


# --- stopping -----------------------------------------------------------------------------------


def test_a_run_in_pieces_is_the_same_run(new_net: Callable[[], Any]) -> None:
    def build() -> tuple[Any, list[int]]:
        net = new_net()
        hosts, _ = net.star(4)
        flows = [net.flow(a, b, payload=1000) for a in hosts for b in hosts if a != b]
        for number, flow in enumerate(flows):
            net.stream(flow, payload=500, interval_ps=US // 3, kind=1, seed=number, packets=200)
        net.engine.tap(hosts[0], 0)
        return net, flows

    whole, flows = build()
    assert whole.engine.run() is Stop.IDLE
    pieces, _ = build()
    stops = set()
    for until in range(0, 50 * US, 777_777):
        stops.add(pieces.engine.run(until))
        assert pieces.engine.now == until
    assert stops == {Stop.UNTIL}
    while (stop := pieces.engine.run(budget=100)) is Stop.BUDGET:
        pass
    assert stop is Stop.IDLE
    assert pieces.engine.now == whole.engine.now
    assert pieces.engine.totals() == whole.engine.totals()
    first = whole.engine.flow_stats(0, len(flows)).tobytes()
    assert pieces.engine.flow_stats(0, len(flows)).tobytes() == first
    assert pieces.engine.take_tapped() == whole.engine.take_tapped()


def test_a_punt_stops_the_run_soon(net: Any) -> None:
    (a, _), centre = net.star(2)
    net.switches[centre].table_add(
        "next_hop", {"next_hop": 9}, "forward_to", {"port": 255, "src_mac": 1, "dst_mac": 1}
    )
    net.route(centre, 77, 9)
    net.engine.add_script([(a, 0, n * 50 * US, script_frame(77, n)) for n in range(3)])
    arrivals = []
    while net.engine.run(1000 * US) is Stop.PUNT:
        (punt,) = net.engine.take_punts()
        arrivals.append(punt.output.at_ps)
        # Within the smallest delay of a link behind it, and everything until now has happened.
        assert punt.output.at_ps <= net.engine.now <= punt.output.at_ps + DELAY + slot(0)
        assert punt.node == centre
    wire = -(-8 * 88 * 10**12 // RATE)
    assert arrivals == [n * 50 * US + wire + DELAY for n in range(3)]
    assert net.engine.now == 1000 * US


@pytest.mark.parametrize("delays", [(0, 0, 0), (1, US, 17), (300_000, 500_000, 20 * US)])
def test_windows_do_not_show(new_net: Callable[[], Any], delays: tuple[int, int, int]) -> None:
    """However virtual time is cut, everything happens at the same time and in the same order."""

    def build() -> tuple[Any, list[int]]:
        net = new_net()
        hosts = [net.host(delay=delays[0]) for _ in range(6)]
        chain = [net.switch(4, delay=delays[n], queue_packets=20) for n in range(3)]
        for n, node in enumerate(hosts):
            net.link(node, (chain[n // 2], 1 + n % 2))
            for m, switch in enumerate(chain):
                port = 1 + n % 2 if m == n // 2 else 3 if m > n // 2 else 4
                net.route(switch, node, port)
        net.link((chain[0], 4), (chain[1], 3))
        net.link((chain[1], 4), (chain[2], 3))
        flows = [net.flow(a, b, payload=1000) for a in hosts for b in hosts if a != b]
        for flow in flows:
            net.stream(flow, payload=900, interval_ps=US // 2, kind=flow % 2, seed=flow, packets=40)
        edges = [(n, n + 1) for n in range(len(flows) - 1) if n % 5]
        net.messages([{"flow": flow, "bytes": 5000} for flow in flows], edges)
        net.engine.tap(hosts[0], 0)
        net.engine.tap(chain[1], 3)
        return net, flows

    whole, flows = build()
    assert whole.engine.run() is Stop.IDLE
    totals = whole.engine.totals()
    assert (
        0
        < totals.received
        < totals.sent
        == totals.received
        + sum(
            switch.stats(port).drop_queue
            for switch in whole.switches.values()
            for port in range(1, 5)
        )
    )
    for step in (7_919, 104_729, 1_299_709):
        pieces, _ = build()
        while pieces.engine.run(pieces.engine.now + step) is Stop.UNTIL:
            pass
        assert pieces.engine.totals() == totals
        for read in ("flow_stats", "message_times"):
            ours, theirs = (getattr(net.engine, read)(0, len(flows)) for net in (pieces, whole))
            assert ours.tobytes() == theirs.tobytes()
    ours, theirs = (sorted(net.engine.take_tapped()) for net in (pieces, whole))
    assert ours == theirs


def test_without_delay_or_rate_all_is_one_instant(net: Any) -> None:
    a, b = net.host(delay=0), net.host(delay=0)
    first, second = net.switch(2, rate=0, delay=0), net.switch(2, rate=0, delay=0)
    net.link(a, (second, 1))
    net.link((second, 2), (first, 1))
    net.link((first, 2), b)
    for node in (first, second):
        net.route(node, b, 2)
    net.messages([{"flow": net.flow(a, b, payload=1000), "bytes": 3000}])
    assert net.engine.run(to_the_end=True) is Stop.DONE
    assert net.times(0)["done"] == net.engine.now == 3 * slot(1000)


# --- what is refused ----------------------------------------------------------------------------


def test_wrong_networks_are_refused(net: Any) -> None:
    (a, b), centre = net.star(2)
    refused = [
        lambda: net.host(rate=0),
        lambda: net.link(a, (centre, 9)),
        lambda: net.link((99, 0), (centre, 9)),
        lambda: net.link((a, 4), (centre, 9)),
        lambda: net.flow(a, 99),
        lambda: net.flow(a, a),
        lambda: net.flow(centre, b),
        lambda: net.flow(a, b, queue=8),
        lambda: net.stream(7, payload=100, interval_ps=1),
        lambda: net.messages([{"flow": 7, "bytes": 1}]),
        lambda: net.engine.add_script([(a, 0, 0, b"short")]),
        lambda: net.engine.add_script([(a, 3, 0, script_frame(b))]),
        lambda: net.engine.set_link(99, False),
        lambda: net.engine.set_node(99, False),
        lambda: net.engine.tap(a, 7),
        lambda: net.engine.touch(a),
    ]
    for call in refused:
        with pytest.raises(EngineError):
            call()
    flow = net.flow(a, b)
    with pytest.raises(EngineError, match="interval"):
        net.stream(flow, payload=100, interval_ps=0)
    with pytest.raises(EngineError, match="waits"):
        net.messages([{"flow": flow, "bytes": 1, "waits": 1}])
    net.engine.run(US)
    with pytest.raises(EngineError, match="grow"):
        net.link(a, b)
