"""Recorded looks at a fabric, and the page served from them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

import topologies
from emulation.fabric_record import FabricRecord, NoRunError
from observe.flow_hops import HopsSeen
from observe.follow import Follower, Moment
from observe.loopback_http import LoopbackServer
from observe.samples import WIRE_OVERHEAD_BYTES, PortSample, SwitchSample, rates
from observe.web.broadcast import Broadcast
from observe.web.server import routes
from topologies import Topology

INTERVAL_S = 0.05
_NS_PER_S = 1_000_000_000
RATE_BPS = 40_000_000  # 400 Gb/s at time_scale 10000


def port(bps: int = 0, **more: object) -> PortSample:
    """Return a port that has sent so many bits in its first second, in packets of 976 B."""
    size = 976
    packets = bps // 8 // (size + WIRE_OVERHEAD_BYTES)
    given = {
        "marked_packets": 0, "queue_bytes": 0, "queue_packets": 0, "queue_packets_max": 3,
        "queue_limit_bytes": 1_000_000, "up": True, "drops": {"queue": 0, "down": 0}, **more,
    }  # fmt: skip
    return PortSample(0, 0, packets, packets * size, RATE_BPS, **given)  # type: ignore[arg-type]


class Recorded(Follower):
    """Looks at what a test says instead of at switches; `now` is the second of two looks."""

    def __init__(self, topology: Topology) -> None:
        super().__init__()
        addresses = {switch.name: "127.0.0.1:9559" for switch in topology.switches}
        self.record = FabricRecord("w0001", "softswitch", topology, addresses)
        self.now: dict[str, SwitchSample] = {
            switch.name: SwitchSample(
                _NS_PER_S, {each.number: port() for each in topology.ports_of(switch.name)}
            )
            for switch in topology.switches
        }
        self.marked: list[dict[str, Any]] = []
        self.hops = HopsSeen()
        self.is_up = True
        self.looks = 0

    def set_port(self, switch: str, number: int, sample: PortSample) -> None:
        """Say what a port has counted."""
        ports = {**self.now[switch].ports, number: sample}
        self.now[switch] = replace(self.now[switch], ports=ports)

    def marks(self) -> list[dict[str, Any]]:
        return self.marked

    def look(self, *, at_most_s: float = 0.0) -> Moment:
        self.looks += 1
        if not self.is_up:
            raise NoRunError("no run is up")
        before = {
            name: SwitchSample(
                0, dict.fromkeys(sample.ports, port()), dict.fromkeys(sample.drops, 0)
            )
            for name, sample in self.now.items()
        }
        changes = rates(before, self.now)
        return Moment(self.record, float(self.looks), self.now, changes, 0.01, self.hops)


@pytest.fixture
def recorded() -> Recorded:
    """Return a quiet default fabric: two spines, two leaves, four hosts."""
    return Recorded(topologies.load("leafspine"))


@pytest.fixture
def broadcast(recorded: Recorded) -> Iterator[Broadcast]:
    made = Broadcast(recorded, INTERVAL_S)
    yield made
    made.close()


@pytest.fixture
def server(recorded: Recorded, broadcast: Broadcast) -> Iterator[LoopbackServer]:
    """Yield the page's server on any free port."""
    with LoopbackServer(0, routes(recorded, broadcast)) as serving:
        threading.Thread(target=serving.serve_forever, args=(0.01,), daemon=True).start()
        yield serving
        serving.shutdown()


@pytest.fixture
def sends() -> type[PortSample]:
    """Return the class that makes port samples: see `port`."""
    return port  # type: ignore[return-value]
