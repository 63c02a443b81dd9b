"""A small network on the engine: hosts, and switches that run p4src/base.p4 with entries by hand.

With WEFT_CORE_SANITIZE=1 in the environment the engine is the sanitized build:
test_engine_sanitized.py runs the engine's tests once more that way, in a process of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler import compile_p4
from simulator.core import Engine, HostPort
from softswitch import Switch
from softswitch.core import CoreConfig, PortConfig

SANITIZE = os.environ.get("WEFT_CORE_SANITIZE") == "1"
BASE = Path(__file__).parents[2] / "p4src" / "base.p4"

RATE = 100_000_000_000
DELAY = 1_000_000  # 1 us


@pytest.fixture(scope="session")
def base_program() -> tuple[bytes, Any]:
    result = compile_p4(BASE)
    return result.json_text.encode(), result.p4info


class Net:
    """Host n has the address 10.0.0.n, n being its node's number; so has its route everywhere."""

    def __init__(self, program: tuple[bytes, Any], seed: int = 1) -> None:
        self.program = program
        self.engine = Engine(seed, sanitize=SANITIZE)
        self.switches: dict[int, Switch] = {}

    def port(self, node: int, interface: int, rate: int = RATE, delay: int = DELAY) -> HostPort:
        """Add an interface of a host; the first one has the host's address."""
        ip = 0x0A000000 + node + 256 * interface
        mac = 0x020000000000 + node
        return HostPort(rate, delay, mac=mac, gateway_mac=0x02FF00000000, ip=ip, mtu=4200)

    def host(self, *, rate: int = RATE, delay: int = DELAY, interfaces: int = 1) -> int:
        node = self._next
        ports = [self.port(node, i, rate, delay) for i in range(interfaces)]
        assert self.engine.add_host(ports) == node
        self._next += 1
        return node

    _next = 0

    def switch(
        self,
        ports: int,
        *,
        rate: int = RATE,
        delay: int = DELAY,
        queue_packets: int = 0,
        **config: int,
    ) -> int:
        """Add a switch with ports 1 to `ports`."""
        core = CoreConfig(cpu_port=255, tick_ps=1000, queue_packets=0, **config)
        switch = Switch.from_json(*self.program, config=core, module=self.engine.module)
        node = self.engine.add_switch(switch.core)
        assert node == self._next
        self._next += 1
        self.switches[node] = switch
        for port in range(1, ports + 1):
            switch.core.configure_port(
                port, PortConfig(rate_bps=rate, tx_delay_ps=delay, queue_packets=queue_packets)
            )
            switch.table_add(
                "next_hop",
                {"next_hop": port},
                "forward_to",
                {"port": port, "src_mac": 0x02FF00000000, "dst_mac": 0x02FF00000000},
            )
        return node

    def route(self, switch: int, host: int, port: int) -> None:
        self.switches[switch].table_add(
            "ipv4_route", {"dst": (0x0A000000 + host, 32)}, "route_to", {"next_hop": port}
        )

    def link(self, a: tuple[int, int] | int, b: tuple[int, int] | int) -> int:
        """Join two ends, (node, port) or a host's first interface."""
        ends = [end if isinstance(end, tuple) else (end, 0) for end in (a, b)]
        return self.engine.add_link(*ends[0], *ends[1])

    def flow(self, src: int, dst: int, **fields: int) -> int:
        row = np.zeros(1, dtype=self.engine.flow_dtype)
        row["src"], row["dst"], row["udp_port"] = src, dst, 0xC000
        for name, value in fields.items():
            row[name] = value
        return self.engine.add_flows(row)

    def stream(self, flow: int, *, payload: int, interval_ps: int, **fields: int) -> int:
        row = np.zeros(1, dtype=self.engine.stream_dtype)
        row["flow"], row["payload"], row["interval_ps"] = flow, payload, interval_ps
        row["stop_ps"] = (1 << 63) - 1
        for name, value in fields.items():
            row[name] = value
        return self.engine.add_streams(row)

    def messages(
        self, rows: list[dict[str, int]], edges: list[tuple[int, int]] | None = None
    ) -> int:
        """Messages; an edge (a, b): b waits for a."""
        array = np.zeros(len(rows), dtype=self.engine.message_dtype)
        following: list[list[int]] = [[] for _ in rows]
        for before, after in edges or []:
            following[before].append(after)
            array[after]["waits"] += 1
        for i, row in enumerate(rows):
            for name, value in row.items():
                array[i][name] = value
        first = np.cumsum([0, *(len(each) for each in following)])
        flat = np.array([each for group in following for each in group], dtype=np.uint32)
        return self.engine.add_messages(array, first, flat)

    def flow_stats(self, flow: int) -> dict[str, int]:
        row = self.engine.flow_stats(flow, 1)[0]
        return {name: int(row[name]) for name in row.dtype.names}

    def times(self, message: int) -> dict[str, int]:
        row = self.engine.message_times(message, 1)[0]
        return {name: int(row[name]) for name in row.dtype.names}

    def star(self, hosts: int, **switch: int) -> tuple[list[int], int]:
        """Hosts on ports 1, 2, ... of one switch, which is the last node."""
        nodes = [self.host() for _ in range(hosts)]
        centre = self.switch(hosts, **switch)
        for port, node in enumerate(nodes, start=1):
            self.link(node, (centre, port))
            self.route(centre, node, port)
        return nodes, centre


@pytest.fixture
def new_net(base_program: tuple[bytes, Any]) -> Iterator[Callable[..., Net]]:
    made: list[Net] = []

    def make(seed: int = 1) -> Net:
        made.append(Net(base_program, seed))
        return made[-1]

    yield make
    for each in made:
        each.engine.close()
        for switch in each.switches.values():
            switch.close()


@pytest.fixture
def net(new_net: Callable[..., Net]) -> Net:
    return new_net()
