"""A fabric with DPFR under traffic of every pair of leaves, and what a failure costs it.

Flows are packets at even intervals, from every leaf to every other, with several UDP ports, so that
a flow's lost packets times the interval are how long it was cut off. Nothing sends them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from compiler import compile_p4
from controller.program import CompiledProgram
from mechanisms import registry
from mechanisms.program import FABRIC
from simulator.runner import Simulation
from topologies.model import Topology
from workloads.loader import read_run

FAT_TREE = "generator: fat_tree\n  k: 4"
LINK = "{rate: 100Gbps, delay: 500ns, queue: 1MB, mtu: 4200B}"
RATE = "800Mbps"
GAP_PS = 3_380_000
CUT_PS = 300_000_000
TTL_EXPIRED = 8
RUN = """\
topology:
  {shape}
  link: {link}
  classes: {{roce: {{dscp: 26, queue: 3}}}}
  dpfr: {dpfr}
until: {until}us
events: {events}
traffic:
{traffic}
"""


@dataclass(frozen=True)
class Cost:
    """What a run showed. `lost[i]`: packets of `flows[i]`, a pair of leaves, that never arrived."""

    topology: Topology
    flows: tuple[tuple[str, str], ...]
    lost: tuple[int, ...]
    counts: dict[str, int]
    expired: int

    def blackout_us(self, pairs: Iterable[tuple[str, str]] | None = None) -> float:
        """Return the longest time for which a flow between such leaves was cut off."""
        wanted = set(self.flows if pairs is None else pairs)
        lost = [n for n, flow in zip(self.lost, self.flows, strict=True) if flow in wanted]
        return max(lost, default=0) * GAP_PS / 1e6


@cache
def program(defines: tuple[str, ...]) -> CompiledProgram:
    return CompiledProgram.of(compile_p4(FABRIC, defines=defines))


@cache
def flows_of(shape: str, ports: int) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return the traffic of a fabric as text, and the leaves that each flow joins."""
    bare = RUN.format(
        shape=shape, link=LINK, dpfr="true", until=1, events="[]",
        traffic="  - message: {from: h1, to: h2, bytes: 1kB}",
    )  # fmt: skip
    topology = read_run(bare).topology
    hosts: dict[str, list[str]] = {}
    for host in topology.hosts:
        hosts.setdefault(host.interfaces[0].switch, []).append(host.name)
    lines, pairs = [], []
    for a, near in hosts.items():
        for b, far in hosts.items():
            if a == b:
                continue
            for port in range(ports):
                one, other = near[port % len(near)], far[port // 2 % len(far)]
                lines.append(
                    f"  - message: {{from: {one}, to: {other}, bytes: 1MB, payload: 256B, "
                    f"rate: {RATE}, udp_port: {49152 + 7 * port}}}"
                )
                pairs.append((a, b))
    return "\n".join(lines), tuple(pairs)


def cost(
    events: Sequence[str],
    *,
    shape: str = FAT_TREE,
    dpfr: str = "true",
    until_us: int = 1500,
    ports: int = 4,
    seed: int = 1,
) -> Cost:
    """Run it with these events, which are times and links or switches as run files have them."""
    traffic, flows = flows_of(shape, ports)
    text = RUN.format(
        shape=shape, link=LINK, dpfr=dpfr, until=until_us, traffic=traffic,
        events="[" + ", ".join(events) + "]",
    )  # fmt: skip
    run = read_run(text)
    made = Simulation(run, program(registry.defines(run.topology)), seed=seed)
    end: Any = made.run().end
    sent = end.flow_stats["sent_packets"].astype(np.int64)
    lost = sent - end.flow_stats["received_packets"].astype(np.int64)
    on_the_way = 3  # of a flow at the end
    missing = tuple(int(max(0, n - on_the_way)) for n in lost)
    return Cost(run.topology, flows, missing, dict(end.counters["dpfr"]), 0)
