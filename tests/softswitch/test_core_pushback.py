"""Interfaces that shape what the switch sends: what they do not take waits in the port's queues.

    far1 ===veth=== near1 [1 switch 2] near2 (htb or tbf) ===veth=== far2
                              [ 3 ] near3 ===veth=== far3

A shaper lets no frame go early, so what the tests say about waiting holds on a busy machine too.
While frames come it lets hardly any go: all of them are there before the first may leave.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from softswitch.core import InterfaceStats, PortConfig, PortState
from tests.softswitch.veth_rig import in_namespace, take, tc, until

pytestmark = pytest.mark.root

SIZE = 1032
RATE = 800_000  # what it lets go when they are there
HELD = 8_000  # a frame a second: far slower than the slowest sender
FRAME_US = SIZE * 8 * 1_000_000 // RATE
OUTSIDE = 10
"""Frames that may be beyond the queues: three with the device, the shaper's burst, rounded up."""


def htb(rate: int = HELD, change: bool = False) -> None:
    """As Mininet's TCLink(bw=...) sets it, with a smaller burst."""
    if not change:
        tc("qdisc add dev near2 root handle 5: htb default 1")
    verb = "change" if change else "add"
    tc(f"class {verb} dev near2 parent 5: classid 5:1 htb rate {rate} burst 3kb")


def tbf(rate: int = HELD, change: bool = False) -> None:
    verb = "change" if change else "add"
    tc(f"qdisc {verb} dev near2 root tbf rate {rate} burst 3kb limit 1mb")


@dataclass(frozen=True)
class Arrived:
    """A frame at the far end: its number, and what the toy wrote into it in egress."""

    number: int
    priority: int
    enq_qdepth: int
    deq_timedelta_us: int


def read(data: bytes) -> Arrived:
    return Arrived(
        int.from_bytes(data[4:8], "big"),
        data[12],
        int.from_bytes(data[22:24], "big"),
        int.from_bytes(data[26:30], "big"),
    )


def arrived(r: Any, port: int, count: int) -> list[Arrived]:
    """So many frames at a far end, and no more."""
    return [read(data) for data in take(r.taps[port], count)]


def arrived_until(r: Any, port: int, last: int) -> list[Arrived]:
    """Return the frames at a far end up to the one of this number."""
    found = [read(r.taps[port].recv(2000))]
    while found[-1].number != last:
        found.append(read(r.taps[port].recv(2000)))
    return found


def received(r: Any, count: int) -> None:
    """Wait until the switch has taken so many frames: each one waits, has left or was dropped."""
    until(lambda: r.loop.stats().rx == count, f"{count} frames in the switch")


def noticed(r: Any, text: str, port: int = 2) -> None:
    """Wait for a line of the loop's."""
    name = f"port {port} (near{port}): queueing discipline {text}"
    until(lambda: any(name in line for line in r.lines), f"{name!r} in {r.lines}")


Send = Callable[..., None]


@pytest.fixture
def send(frame: Callable[..., bytes]) -> Send:
    """Send numbered frames to port 1: send(rig, 0, 1, 2, out=2, priority=0)."""

    def make(r: Any, *numbers: int, **fields: int) -> None:
        for number in numbers:
            data = frame(**{"out": 2, **fields}, key32=number, payload=bytes(SIZE - 32))  # type: ignore[arg-type]
            r.taps[1].send(data)

    return make


@pytest.mark.parametrize("shape", [htb, tbf])
@in_namespace
def test_queues_build_to_their_limit_and_drops_are_counted(
    rig: Callable[..., Any], send: Send, shape: Callable[..., None]
) -> None:
    with rig() as r:
        shape()
        noticed(r, shape.__name__)
        send(r, *range(200))
        received(r, 200)
        with r.loop.locked() as core:
            stats = core.port_stats(2)
        shape(RATE, change=True)
        got = arrived(r, 2, 200 - stats.drop_queue)
        loop = r.loop.stats()
        assert [f.number for f in got] == sorted(f.number for f in got)
        assert (loop.rx, loop.tx_errors) == (200, 0)
        assert stats.drop_queue > 50
        assert stats.max_depth_packets == 64
        with r.loop.locked():
            sends, unshaped = r.loop.interface_stats(2), r.loop.interface_stats(1)
        assert (sends.discipline, sends.lost) == (shape.__name__, 0)
        assert sends.blocked > 10
        assert unshaped == InterfaceStats("noqueue", 0, 0)
        assert max(f.enq_qdepth for f in got) == 63
        assert sum(f.enq_qdepth == 0 for f in got) < OUTSIDE
        # A packet that found 63 before it waited for all of them but a burst.
        last = max(got, key=lambda f: (f.enq_qdepth, f.number))
        assert last.deq_timedelta_us > (63 - OUTSIDE) * FRAME_US
        until(lambda: r.state(2) is PortState.UP, "port 2 up")


@in_namespace
def test_below_the_limit_nothing_is_lost(rig: Callable[..., Any], send: Send) -> None:
    with rig() as r:
        htb()
        noticed(r, "htb")
        send(r, *range(64))
        received(r, 64)
        htb(RATE, change=True)
        got = arrived(r, 2, 64)
        assert [f.number for f in got] == list(range(64))
        assert max(f.enq_qdepth for f in got) > 32
        with r.loop.locked() as core:
            assert core.port_stats(2).drop_queue == 0


@in_namespace
def test_a_queue_is_as_deep_as_it_is_told(rig: Callable[..., Any], send: Send) -> None:
    with rig() as r:
        with r.loop.locked() as core:
            core.configure_port(2, PortConfig(queue_packets=20))
        htb()
        noticed(r, "htb")
        send(r, *range(100))
        received(r, 100)
        with r.loop.locked() as core:
            dropped = core.port_stats(2).drop_queue
        htb(RATE, change=True)
        got = arrived(r, 2, 100 - dropped)
        assert 20 < len(got) < 20 + 2 * OUTSIDE
        assert max(f.enq_qdepth for f in got) == 19


@in_namespace
def test_higher_priorities_pass_what_waits(rig: Callable[..., Any], send: Send) -> None:
    with rig(priorities=8) as r:
        htb()
        noticed(r, "htb")
        send(r, *range(50), priority=0)
        received(r, 50)
        send(r, *range(100, 110), priority=3)
        send(r, *range(200, 210), priority=7)
        received(r, 70)
        htb(RATE, change=True)
        got = arrived(r, 2, 70)
        for priority, number in ((0, 0), (3, 100), (7, 200)):
            of_one = [f.number for f in got if f.priority == priority]
            assert of_one == list(range(number, number + len(of_one)))
        order = [f.priority for f in got]
        low_after_high = [p for p in order[order.index(7) :] if p == 0]
        assert len(low_after_high) > 20  # they passed what had come before them
        last_high = len(order) - 1 - order[::-1].index(7)
        assert order.count(3) - order[:last_high].count(3) > 10 - OUTSIDE
        assert 0 not in order[order.index(7) : last_high]


@in_namespace
def test_other_ports_do_not_wait(rig: Callable[..., Any], send: Send) -> None:
    with rig(ports=3) as r:
        htb()
        noticed(r, "htb")
        send(r, *range(80))
        until(lambda: r.state(2) is PortState.BLOCKED, "port 2 blocked")
        send(r, *range(500), out=3)
        got = arrived(r, 3, 500)
        with r.loop.locked() as core:
            waiting, others = core.port_stats(2), core.port_stats(3)
        assert [f.number for f in got] == list(range(500))
        assert max(f.enq_qdepth for f in got) == 0
        assert waiting.depth_packets > 40
        assert (others.drop_queue, others.max_depth_packets) == (0, 0)


@in_namespace
def test_a_blocked_port_costs_no_turns(rig: Callable[..., Any], send: Send) -> None:
    with rig() as r:
        htb()
        noticed(r, "htb")
        send(r, *range(60))
        received(r, 60)
        before = r.loop.stats().wakeups
        time.sleep(0.3)  # a frame's time at most: a loop that spins turns thousands of times
        assert r.loop.stats().wakeups - before < 30


@in_namespace
def test_a_discipline_is_noticed_while_the_switch_runs(rig: Callable[..., Any], send: Send) -> None:
    with rig() as r:
        send(r, *range(100))
        assert max(f.enq_qdepth for f in arrived(r, 2, 100)) == 0
        htb()
        noticed(r, "htb, which shapes")
        send(r, *range(60))
        received(r, 160)
        assert r.state(2) is PortState.BLOCKED
        with r.loop.locked() as core:
            assert core.port_stats(2).depth_packets > 60 - OUTSIDE
        tc("qdisc del dev near2 root")  # loses what it held; what waits in the switch leaves
        noticed(r, "noqueue")
        got = arrived_until(r, 2, 59)
        assert len(got) > 60 - OUTSIDE
        until(lambda: r.state(2) is PortState.UP, "port 2 up")
        tc("qdisc add dev near2 root pfifo limit 100")
        noticed(r, "pfifo, which may hold frames")
        send(r, *range(100))
        assert [f.number for f in arrived(r, 2, 100)] == list(range(100))


@in_namespace
def test_what_a_discipline_drops_is_counted(rig: Callable[..., Any], send: Send) -> None:
    with rig() as r:
        tc("qdisc add dev near2 root bfifo limit 500")  # less than one frame
        noticed(r, "bfifo")
        send(r, *range(10))
        until(lambda: r.loop.stats().tx_errors == 10, "ten lost frames")
        with r.loop.locked():
            assert r.loop.interface_stats(2) == InterfaceStats("bfifo", 0, 10)
            assert r.loop.interface_stats(9) is None
        assert arrived(r, 2, 0) == []
        assert r.state(2) is PortState.UP


@in_namespace
def test_a_shaped_interface_that_goes_down_and_comes_back(
    rig: Callable[..., Any], send: Send
) -> None:
    with rig() as r:
        htb()
        noticed(r, "htb")
        send(r, *range(60))
        received(r, 60)
        assert r.state(2) is PortState.BLOCKED
        r.link("far2", up=False)
        until(lambda: r.state(2) is PortState.DOWN, "port 2 down")
        r.link("far2", up=True)
        until(lambda: r.state(2) is not PortState.DOWN, "port 2 up")
        r.taps[2].getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)  # that the link was down
        send(r, 1000)
        got = [f.number for f in arrived_until(r, 2, 1000)]
        assert len(got) < OUTSIDE  # what waited in the queues is gone
