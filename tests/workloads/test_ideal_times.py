"""Ideal times against the engine: nothing is faster, and what meets nobody is exactly as fast.

Switches run the golden router `l3` with one way to each host, so that nothing depends on ECMP.
"""

from __future__ import annotations

from collections import deque
from pathlib import Path

import numpy as np
import pytest

from simulator.core.binding import Engine, HostPort, Stop
from softswitch.switch import Switch
from topologies.model import Topology
from workloads.loader import read_run
from workloads.model import Span, Traffic
from workloads.plan import plan

GOLDEN = Path(__file__).resolve().parents[1] / "golden"

SINGLE = """\
topology:
  generator: single
  hosts: 4
  link: {rate: 100Gbps, delay: 1us, queue: 64MB, mtu: 4200B}
"""
UNEVEN = """\
topology:
  generator: leaf_spine
  spines: 1
  leaves: 2
  hosts_per_leaf: 2
  link: {rate: 400Gbps, delay: 500ns, queue: 64MB, mtu: 4200B}
  host_link: {rate: 100Gbps, delay: 2us}
  overrides: [{between: [s2, h4], rate: 40Gbps}]
"""
# A ring needs no other way than the one that there is.
LINE = """\
topology:
  generator: leaf_spine
  spines: 1
  leaves: 4
  hosts_per_leaf: 1
  link: {rate: 400Gbps, delay: 500ns, queue: 64MB, mtu: 4200B}
"""


def _as_number(mac: str) -> int:
    return int(mac.replace(":", ""), 16)


class Network:
    """A topology on the engine, with a route to each host at each switch."""

    def __init__(self, topology: Topology) -> None:
        self.engine = Engine()
        self.topology = topology
        self.nodes: dict[str, int] = {}
        self.switches = {switch.name: self._switch(switch.name) for switch in topology.switches}
        for name, switch in self.switches.items():
            self.nodes[name] = self.engine.add_switch(switch.core)
        for host in topology.hosts:
            link = topology.link_at(host.name)
            port = HostPort(
                link.rate_bps,
                link.delay_ps,
                _as_number(host.mac),
                _as_number(topology.switch(host.switch).mac),
                int(host.address.ip),
                link.mtu_bytes,
            )
            self.nodes[host.name] = self.engine.add_host([port])
        for link in topology.links:
            ends = [(self.nodes[end.node], end.port) for end in (link.a, link.b)]
            self.engine.add_link(*ends[0], *ends[1])
        for host in topology.hosts:
            self._routes_to(host.name)

    def _switch(self, name: str) -> Switch:
        switch = Switch.from_json(
            GOLDEN / "l3.json", GOLDEN / "l3.p4info.txtpb", module=self.engine.module
        )
        for port in self.topology.ports_of(name):
            switch.configure_port(
                port.number,
                rate_bps=port.link.rate_bps,
                delay_ns=port.link.delay_ps // 1000,
                queue_packets=1 << 30,
            )
        return switch

    def _routes_to(self, name: str) -> None:
        """Lead to a host over a shortest path from every switch, breadth first."""
        host = self.topology.host(name)
        reached, todo = {name}, deque([name])
        while todo:
            here = todo.popleft()
            for port in self.topology.ports_of(here):
                there = port.peer.node
                if there in reached or there not in self.switches:
                    continue
                reached.add(there)
                todo.append(there)
                self.switches[there].table_add(
                    "I.route",
                    {"h.ip.dst": (str(host.address.ip), 32)},
                    "I.fwd",
                    {"mac": _as_number(host.mac), "port": port.peer.port},
                )

    def times(self, traffic: Traffic) -> np.ndarray:
        """Run to the end; return the messages' times."""
        flows = traffic.flows.copy()
        hosts = np.array([self.nodes[host.name] for host in self.topology.hosts])
        flows["src"], flows["dst"] = hosts[flows["src"]], hosts[flows["dst"]]
        for node in self.nodes.values():
            if node < len(self.switches):
                self.engine.touch(node)
        self.engine.add_flows(flows)
        arrays = traffic.messages
        self.engine.add_messages(arrays.messages, arrays.first, arrays.next)
        assert self.engine.run(10**13, to_the_end=True) is Stop.DONE
        return self.engine.message_times(0, len(arrays))


def took(span: Span, times: np.ndarray) -> int:
    rows = times[span.first : span.stop]
    begun = rows["ready"].min() if span.start_ps is None else span.start_ps
    return int(rows["done"].max() - begun)


def run(text: str) -> tuple[Traffic, np.ndarray]:
    loaded = read_run(text)
    traffic = plan(loaded)
    return traffic, Network(loaded.topology).times(traffic)


@pytest.mark.parametrize("size", ["1B", "1kB", "4096B", "4097B", "100kB", "1MB"])
@pytest.mark.parametrize("base", [SINGLE, UNEVEN])
def test_a_message_alone_takes_exactly_its_ideal_time(base: str, size: str) -> None:
    for source, target in (("h1", "h2"), ("h1", "h4"), ("h4", "h1")):
        entry = f"{{from: {source}, to: {target}, bytes: {size}}}"
        traffic, times = run(base + f"traffic: [{{message: {entry}}}]\n")
        assert int(times["done"][0] - times["ready"][0]) == int(traffic.ideal_ps[0])
        assert took(traffic.spans[0], times) == traffic.spans[0].ideal_ps


EXACT = [
    (SINGLE, "{incast: {to: h1, senders: 3, bytes: 40960B}}"),
    (SINGLE, "{incast: {to: h1, senders: 3, bytes: 5kB, rounds: 3}}"),
    (UNEVEN, "{message: {from: h1, to: h3, bytes: 50kB, count: 3, gap: 7us, start: 2us}}"),
    (UNEVEN, "{message: {from: h1, to: h3, bytes: 50kB, rate: 10Gbps, payload: 999B}}"),
]


@pytest.mark.parametrize(("base", "entry"), EXACT)
def test_what_is_bound_by_one_interface_or_one_chain_is_exact(base: str, entry: str) -> None:
    traffic, times = run(f"{base}traffic: [{entry}]\n")
    for span in traffic.spans:
        assert took(span, times) == span.ideal_ps, span.name


JOBS = [
    # (fabric, phases, how much slower than ideal at most: 1 is exact)
    (LINE, "[{compute: 3us}, {allreduce: {bytes: 65536B}}]", 1.0),
    (LINE, "[{allgather: {bytes: 65536B}}, {reducescatter: {bytes: 65536B}}]", 1.0),
    (SINGLE, "[{allreduce: {bytes: 1MB, algorithm: tree, chunk: 64kB}}]", 1.5),
    (SINGLE, "[{alltoall: {bytes: 3MB}}, {compute: 5us}, {alltoall: {bytes: 300kB}}]", 1.1),
    (SINGLE, "[{alltoall: {bytes: 3MB, fraction: 1/2, window: 1}}]", 1.2),
    (LINE, "[{incast: {bytes: 1MB, root: 2, repeat: 2, compute: 4us}}]", 1.1),
    (SINGLE, "[{parallel: [{allreduce: {bytes: 1MB}}, {compute: 1ms}]}]", 1.0),
    (SINGLE, "[{allreduce: {bytes: 1MB}, background: true}, {alltoall: {bytes: 1MB}}]", 2.5),
    (LINE, "[{alltoall: {bytes: 999999B, channels: 3}}]", 1.5),
]
PIPELINE = "{bytes: 100kB, microbatches: 6, forward: 10us, backward: 20us, schedule: %s, over: all}"


@pytest.mark.parametrize(
    ("base", "phases", "most"),
    [*JOBS, *((LINE, f"[{{pipeline: {PIPELINE % s}}}]", 1.01) for s in ("1f1b", "gpipe"))],
)
def test_jobs_are_never_faster_and_hardly_slower(base: str, phases: str, most: float) -> None:
    traffic, times = run(f"{base}job: {{ranks: 4, iterations: 2, start: 1us, phases: {phases}}}\n")
    for span in traffic.spans:
        slowdown = took(span, times) / span.ideal_ps
        assert slowdown >= 1.0, span.name
        # A later phase counts from its first rank, and the stages of a pipeline are not in step.
        assert slowdown <= most or ("pipeline" in phases and span.first), span.name
    assert (times["done"] >= times["ready"]).all()
    carrying = traffic.ideal_ps > 0
    alone = times["done"] - times["ready"] - traffic.ideal_ps
    assert (alone[carrying] >= 0).all()
    assert (alone[~carrying] == 0).all()
