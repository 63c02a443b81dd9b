"""What tickers are for: heartbeats by every port of every switch, and who hears them when.

a --- b      a ticks every 10 us, b every 10 us and a bit, c every 7 us
 \\   /
   c
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from simulator.core import Engine, Stop, Ticker
from softswitch import Switch
from softswitch.core import CoreConfig, PortConfig, Replica
from topologies.tickers import TICKER_PORT

PROGRAM = Path(__file__).with_name("heartbeat.p4")
NS, US = 1000, 1_000_000
RATE, DELAY = 400_000_000_000, 500 * NS
WIRE = -(-8 * 84 * 10**12 // RATE) + DELAY
TICKERS = {"a": (0, 10 * US), "b": (3 * US, 10 * US + 3 * NS), "c": (1 * US, 7 * US)}
LINKS = (("a", 1, "b", 1), ("b", 2, "c", 1), ("c", 2, "a", 2))


class Triangle:
    """Three switches that beat, and nothing else."""

    def __init__(self) -> None:
        self.engine = Engine()
        self.switches: dict[str, Switch] = {}
        self.nodes: dict[str, int] = {}
        for name, (start, period) in TICKERS.items():
            config = CoreConfig(tick_ps=NS, queue_packets=0)
            switch = Switch.from_p4(PROGRAM, config=config, module=self.engine.module)
            self.switches[name] = switch
            self.nodes[name] = self.engine.add_switch(switch.core)
            for port in (1, 2):
                switch.core.configure_port(port, PortConfig(RATE, DELAY, queue_packets=0))
            switch.core.multicast_set(1, [Replica(1, 1), Replica(2, 1)])
            packet = bytes(60)
            self.engine.add_ticker(Ticker(self.nodes[name], TICKER_PORT, start, period, packet))
        self.links = [
            self.engine.add_link(self.nodes[a], at, self.nodes[b], bt) for a, at, b, bt in LINKS
        ]

    def heard(self, name: str, port: int) -> tuple[int, int, int]:
        """How many beats came by a port, when the last one came, and when it was sent; ns."""
        switch = self.switches[name]
        return (
            switch.counter_read("beats", port)[0],
            switch.register_read("heard_at", port),
            switch.register_read("said_at", port),
        )


@pytest.fixture
def triangle() -> Iterator[Triangle]:
    made = Triangle()
    yield made
    made.engine.close()
    for switch in made.switches.values():
        switch.close()


def expected(sender: str, until: int) -> tuple[int, int, int]:
    start, period = TICKERS[sender]
    last = (until - WIRE - start) // period
    at = start + last * period
    return last + 1, (at + WIRE) // NS, at // NS


def test_every_neighbour_hears_every_beat_in_its_time(triangle: Triangle) -> None:
    until = 5000 * US
    assert triangle.engine.run(until) is Stop.UNTIL
    for a, at, b, bt in LINKS:
        assert triangle.heard(a, at) == expected(b, until)
        assert triangle.heard(b, bt) == expected(a, until)


def test_a_dead_link_is_silent_from_that_moment(triangle: Triangle) -> None:
    cut, until = 1003 * US, 2000 * US
    triangle.engine.run(cut)
    triangle.engine.set_link(triangle.links[0], False)
    triangle.engine.run(until)
    assert triangle.heard("a", 1) == expected("b", cut)
    assert triangle.heard("b", 1) == expected("a", cut)
    assert triangle.heard("c", 1) == expected("b", until)
    # What a port that is down should have sent does not come when it is up again.
    triangle.engine.set_link(triangle.links[0], True)
    count = triangle.heard("b", 1)[0]
    triangle.engine.run(until + 100 * US)
    assert triangle.heard("b", 1)[0] == count + 9  # at 2010, 2020, ... 2090 us
