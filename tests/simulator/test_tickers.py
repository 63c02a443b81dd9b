"""Tickers of switches: tick k at start + k * period, to the picosecond, whatever else happens."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from simulator.core import EngineError, Stop, Ticker
from tests.simulator.test_engine import DELAY, RATE, US, script_frame, slot, tag_of

PORT = 509
MS = 1000 * US
WIRE = -(-8 * (64 + 24) * 10**12 // RATE) + DELAY
"""From a tick to the arrival of its 64 bytes at a host: the port's slot, and the link."""


def add(net: Any, node: int, period: int, *, start: int = 0, packet: bytes | None = None) -> int:
    frame = script_frame(77) if packet is None else packet  # nobody's address: dropped
    return int(net.engine.add_ticker(Ticker(node, PORT, start, period, frame)))


def ticks(net: Any, ticker: int) -> tuple[int, int]:
    return net.engine.ticker_stats(ticker)[:2]


def test_a_million_ticks_do_not_drift(net: Any) -> None:
    """A period that divides nothing: after each of many looks the count is that of the grid."""
    _, centre = net.star(1)
    start, period, last = 123_457, 10_007_003, 1_000_000
    ticker = add(net, centre, period, start=start)
    for k in (0, 1, 999, 31_415, 271_828, last - 1):
        due = start + k * period
        assert net.engine.run(due - 1) is Stop.UNTIL
        assert ticks(net, ticker) == (k, 0)
        net.engine.run(due)
        assert net.engine.ticker_stats(ticker) == (k + 1, 0, due + period)
        assert net.switches[centre].stats(PORT).rx_packets == k + 1
        assert net.engine.now == due


def test_packets_leave_at_the_times_of_the_grid(net: Any) -> None:
    """At a host behind one link; a flow beside them changes none of these times."""
    (a, b, c), centre = net.star(3)
    net.stream(net.flow(a, c, payload=1000), payload=1000, interval_ps=US // 3)
    packet = script_frame(b, 5)
    start, period = 7, 3 * US + 1
    add(net, centre, period, start=start, packet=packet)
    net.engine.tap(b, 0)
    net.engine.run(1500 * period)
    frames = net.engine.take_tapped()
    arrivals = [start + k * period + WIRE for k in range(1500)]
    assert [frame.at for frame in frames] == [at for at in arrivals if at <= 1500 * period]
    assert {frame.data[14:30] == packet[14:30] for frame in frames} == {False}  # its TTL
    assert {(len(frame.data), tag_of(frame.data)) for frame in frames} == {(64, 5)}


def test_two_tickers_of_a_switch_take_turns_by_time_then_by_number(net: Any) -> None:
    (host,), centre = net.star(1)
    for tag, (start, period) in enumerate([(0, 6 * US), (0, 4 * US), (2 * US, 6 * US)]):
        add(net, centre, period, start=start, packet=script_frame(host, tag))
    net.engine.tap(host, 0)
    net.engine.run(12 * US + 8 * WIRE)
    due = sorted(
        (start + k * period, tag)
        for tag, (start, period) in enumerate([(0, 6 * US), (0, 4 * US), (2 * US, 6 * US)])
        for k in range(10)
        if start + k * period <= 12 * US
    )
    assert [tag_of(frame.data) for frame in net.engine.take_tapped()][: len(due)] == [
        tag for _, tag in due
    ]


def test_a_tick_comes_behind_what_arrives_at_that_instant(net: Any) -> None:
    (a, b), centre = net.star(2)
    ticker = [add(net, centre, MS, start=at, packet=script_frame(b, 1)) for at in (WIRE, WIRE - 1)]
    net.engine.add_script([(a, 0, 0, script_frame(b, 2))])  # at the switch at WIRE
    net.engine.tap(b, 0)
    net.engine.run(MS // 2)
    assert [tag_of(frame.data) for frame in net.engine.take_tapped()] == [1, 2, 1]
    assert [ticks(net, number) for number in ticker] == [(1, 0), (1, 0)]


def test_ticks_at_two_switches_meet_at_the_times_of_their_phases(net: Any) -> None:
    """Each ticks into the other; who is run first in a window makes no difference."""
    a, b = net.host(), net.host()
    left, right = net.switch(2), net.switch(2)
    for switch, host in ((left, a), (right, b)):
        net.link(host, (switch, 1))
        net.route(switch, host, 1)
    net.link((left, 2), (right, 2))
    net.route(left, b, 2)
    net.route(right, a, 2)
    add(net, right, US, start=300, packet=script_frame(a))
    add(net, left, US, start=100, packet=script_frame(b))
    for host in (a, b):
        net.engine.tap(host, 0)
    net.engine.run(100 * US)
    frames = net.engine.take_tapped()
    for host, start in ((a, 300), (b, 100)):
        found = [frame.at for frame in frames if frame.node == host]
        assert found == [start + k * US + 2 * WIRE for k in range(len(found))]
        assert len(found) == (100 * US - start - 2 * WIRE) // US + 1


def test_a_dead_switch_does_not_tick_and_goes_on_at_the_grid(net: Any) -> None:
    (_host,), centre = net.star(1)
    other = net.switch(1)
    tickers = [add(net, node, 10 * US, start=3 * US) for node in (centre, other)]
    net.engine.run(25 * US)  # 3, 13, 23
    net.engine.set_node(centre, False)
    net.engine.run(55 * US)  # 33, 43, 53: missed
    net.engine.set_node(centre, True)
    net.engine.run(62 * US)
    assert net.engine.ticker_stats(tickers[0]) == (3, 3, 63 * US)
    net.engine.run(63 * US)
    assert net.engine.ticker_stats(tickers[0]) == (4, 3, 73 * US)
    assert ticks(net, tickers[1]) == (7, 0)
    assert net.switches[centre].stats(PORT).rx_packets == 4


def test_a_ticker_that_is_added_later_begins_at_its_grid(net: Any) -> None:
    (_host,), centre = net.star(1)
    net.engine.run(25 * US)
    ticker = add(net, centre, 10 * US, start=3 * US)
    assert net.engine.ticker_stats(ticker) == (0, 0, 33 * US)
    net.engine.run(25 * US)
    assert add(net, centre, 5 * US) == 1  # now is a time of its grid
    net.engine.run(25 * US)
    assert ticks(net, 1) == (1, 0)


def test_samples_are_those_of_a_run_without_tickers(new_net: Callable[..., Any]) -> None:
    """Ticks that nobody forwards: the same links, at the same times."""
    rows = []
    for ticking in (False, True):
        net = new_net()
        (a, b), centre = net.star(2)
        net.stream(net.flow(a, b, payload=1000), payload=1000, interval_ps=40 * US)
        if ticking:
            add(net, centre, 777_777)
        net.engine.sample(10 * US)
        net.engine.run(MS)
        net.engine.sample_rest()
        rows.append([tuple(row) for row in net.engine.take_link_samples()])
    assert rows[0] and rows[0] == rows[1]


# --- the end of a run to the end ---------------------------------------------------------------


def busy(net: Any, period: int) -> tuple[list[int], int, int]:
    """Return a switch whose ticks go to a host, so often that something is always on its way."""
    hosts, centre = net.star(3)
    return hosts, centre, add(net, centre, period, packet=script_frame(hosts[2]))


def test_messages_end_a_run_at_the_time_at_which_they_do_without_tickers(
    new_net: Callable[..., Any],
) -> None:
    done = []
    for ticking in (False, True):
        net = new_net()
        hosts, centre = net.star(2)
        flow = net.flow(*hosts, payload=1000)
        net.messages([{"flow": flow, "bytes": 5000}, {"flow": flow, "bytes": 1}], [(0, 1)])
        if ticking:
            add(net, centre, US // 10)
        assert net.engine.run(to_the_end=True) is Stop.DONE
        done.append([net.times(0), net.times(1)])
    assert done[0] == done[1]


@pytest.mark.parametrize("period", [100 * US, US // 4])
def test_a_stream_ends_a_run_and_all_of_it_arrives(net: Any, period: int) -> None:
    hosts, _, ticker = busy(net, period)
    flow = net.flow(hosts[0], hosts[1], payload=1000)
    net.stream(flow, payload=1000, interval_ps=10 * US, packets=20)
    assert net.engine.run(to_the_end=True) is Stop.DONE
    assert net.flow_stats(flow)["received_packets"] == 20
    last_sent, window = 190 * US, DELAY + slot(1)
    extra = ticks(net, ticker)[0] - last_sent // period - 1
    assert 0 <= extra <= window // period  # once all has been sent a window is finished, no more
    assert net.engine.totals().in_flight == 0
    # A run that goes on has its ticks again, at the grid.
    before, now = ticks(net, ticker)[0], net.engine.now
    net.engine.run(now + 10 * period)
    stats = net.engine.ticker_stats(ticker)
    assert stats.ticks - before == 10 + (now % period == 0)
    assert stats.next_ps == (stats.ticks + stats.missed) * period
    assert stats.missed == (now - 1) // period + 1 - before


@pytest.mark.parametrize("period", [100 * US, US])
def test_what_never_arrives_ends_a_run_all_the_same(net: Any, period: int) -> None:
    hosts, _, ticker = busy(net, period)
    flow = net.flow(hosts[0], hosts[1], payload=1000)
    net.messages([{"flow": flow, "bytes": 1000}])
    net.engine.set_link(1, False)
    began = time.process_time()
    assert net.engine.run(to_the_end=True) is Stop.IDLE
    assert time.process_time() - began < 10
    # A tenth of a second, or the delays of 200 hops, after the host has sent its last packet.
    last = slot(1000)
    assert 0 <= net.engine.now - last - 100 * MS <= 2 * period + 10 * US
    assert ticks(net, ticker)[0] == pytest.approx(100 * MS / period, abs=3)
    assert net.engine.totals().in_flight == 0


def test_a_time_limit_keeps_ticks_going_although_hosts_are_done(net: Any) -> None:
    """An event still to come may change everything: until then switches tick."""
    hosts, _, ticker = busy(net, 100 * US)
    net.messages([{"flow": net.flow(hosts[0], hosts[1], payload=1000), "bytes": 1000}])
    net.engine.set_link(1, False)
    assert net.engine.run(400 * MS, to_the_end=True) is Stop.UNTIL
    assert ticks(net, ticker) == (4001, 0)


def test_a_budget_ends_a_run_that_does_nothing_but_tick(net: Any) -> None:
    """Of a switch without a link: nothing else bounds a window."""
    centre = net.switch(1)
    ticker = add(net, centre, 10 * US)
    assert net.engine.run(budget=1000) is Stop.BUDGET
    assert 1000 <= ticks(net, ticker)[0] <= 1200


# --- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"node": 9}, "a ticker needs a switch: node 9 is none"),
        ({"node": 0}, "a ticker needs a switch: node 0 is none"),
        ({"port": 1}, "port 1 of node 1 has a link"),
        ({"port": 65536}, "port 65536 of node 1 has a link, or is above 65535"),
        ({"period_ps": 1}, "period is at least 1000 ps, not 1"),
        ({"period_ps": 0}, "period is at least 1000 ps, not 0"),
        ({"period_ps": 1 << 62}, "period is at least 1000 ps"),
        ({"start_ps": -1}, "start is not negative"),
        ({"period_ps": 10**21}, "times are less than 2\\^63 ps"),
        ({"packet": bytes(13)}, "packet has 14 to 1514 bytes, not 13"),
        ({"packet": bytes(1515)}, "packet has 14 to 1514 bytes, not 1515"),
    ],
)
def test_wrong_tickers_are_refused(net: Any, change: dict[str, Any], message: str) -> None:
    net.star(1)
    good = {"node": 1, "port": PORT, "start_ps": 0, "period_ps": US, "packet": bytes(60)}
    with pytest.raises(EngineError, match=message):
        net.engine.add_ticker(Ticker(**{**good, **change}))
    with pytest.raises(EngineError, match="there is no ticker 0"):
        net.engine.ticker_stats(0)
    assert net.engine.run(to_the_end=True) is Stop.DONE


def test_the_longest_period_ticks_once(net: Any) -> None:
    centre = net.switch(1)
    ticker = add(net, centre, 1 << 60, start=1 << 60)
    net.engine.run((1 << 62) + 1)
    assert ticks(net, ticker) == (4, 0)
