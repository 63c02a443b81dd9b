"""Hops a second of CPU time: fat trees of 16, 128 and 1024 hosts in virtual time, with fabric.p4.

    python tests/bench/bench_engine.py [--json] [--k 4 8 16] [--rounds 3] [--hops 2000000]
                                        [--mechanisms NAME ...] [--dpfr]

A hop is one packet through one switch's ingress and egress; making and taking the packets at hosts
is part of its cost. Each host sends to eight others, all pods away, at 8 x 8 % of its 400 Gb/s
in packets of 4 KB. `--mechanisms` builds the program with these alone, without a name with none;
else it holds everything. `--dpfr`: switches use it, heartbeats included. The medians of equally
long rounds are told, after one that is not counted.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import command_line
import numpy as np

import topologies
from compiler import compile_p4
from controller.program import CompiledProgram
from mechanisms.registry import NAMES
from simulator.controller_link import ControlPlane
from simulator.core import Stop
from simulator.fabric import Fabric
from simulator.tickers import apply_tickers

FABRIC = Path(__file__).resolve().parents[2] / "p4src" / "fabric.p4"
TREE = """
generator: fat_tree
time_scale: 1
k: {k}
link: {{rate: 400Gbps, delay: 500ns, queue: 4MB, mtu: 4200B}}
"""
RATE = 400_000_000_000
PEERS = 8
SHARE = 0.08  # of the host's rate, each
PAYLOAD = 4096
SETTLE_PS = 30_000_000
HOPS_A_PACKET = 5
GOAL = 500_000  # hops a second with 1024 hosts
GOAL_GROWTH = 2.0  # of the cost of a hop, from 16 hosts to 1024


@dataclass(frozen=True)
class Result:
    """One fabric: medians over the rounds."""

    hosts: int
    switches: int
    hops_per_s: float
    events_per_hop: float
    setup_s: float


def measure(
    k: int,
    *,
    rounds: int = 3,
    hops: int = 2_000_000,
    share: float = SHARE,
    mechanisms: Sequence[str] | None = None,
    dpfr: bool = False,
) -> Result:
    """Hops a second of CPU time in a fat tree of k-port switches; a round has about `hops`.

    `share` of its rate is what each host sends to each of its peers. `mechanisms`: those that the
    program holds, None for all; `dpfr`: they use it.
    """
    started = time.process_time()
    held = () if mechanisms is None else (f"WITH_{name.upper()}" for name in mechanisms)
    profile = () if mechanisms is None else ("PROFILE", "WITH_FABRIC")
    program = CompiledProgram.of(compile_p4(FABRIC, defines=(*profile, *held)))
    uses = "dpfr: true\n" if dpfr else ""
    fabric = Fabric(topologies.loads(TREE.format(k=k) + uses), program)
    ControlPlane(fabric, program).bring_up()
    apply_tickers(fabric, seed=1)
    offer(fabric, share)
    engine = fabric.engine
    setup = time.process_time() - started
    engine.run(SETTLE_PS)
    hosts = len(fabric.topology.hosts)
    packets_per_ps = hosts * PEERS * share * RATE / 8e12 / (PAYLOAD + 82)
    step = int(hops / HOPS_A_PACKET / packets_per_ps)
    rates, events = [], []
    for _ in range(rounds + 1):
        before, begun = engine.totals(), time.process_time()
        if engine.run(engine.now + step) is not Stop.UNTIL:
            raise SystemExit("error: the traffic ended")
        taken, after = time.process_time() - begun, engine.totals()
        rates.append((after.hops - before.hops) / taken)
        events.append((after.events - before.events) / (after.hops - before.hops))
    engine.close()
    return Result(
        hosts=hosts,
        switches=len(fabric.switches),
        hops_per_s=statistics.median(rates[1:]),
        events_per_hop=statistics.median(events[1:]),
        setup_s=setup,
    )


def offer(fabric: Fabric, share: float) -> None:
    """Each host's flows to hosts in other pods, and messages on them that do not end."""
    hosts = [fabric.nodes[host.name] for host in fabric.topology.hosts]
    n = len(hosts)
    flows = np.zeros(n * PEERS, dtype=fabric.engine.flow_dtype)
    number = np.arange(n * PEERS)
    source, peer = number // PEERS, number % PEERS
    distance = n // 4 + peer * (n // 2) // PEERS + 1
    flows["src"] = np.array(hosts)[source]
    flows["dst"] = np.array(hosts)[(source + distance) % n]
    flows["udp_port"] = 0xC000 + (number * 40503) % 0x4000
    flows["payload"] = PAYLOAD
    flows["rate_bps"] = int(RATE * share)
    fabric.engine.add_flows(flows)
    messages = np.zeros(len(flows), dtype=fabric.engine.message_dtype)
    messages["flow"] = number
    messages["bytes"] = 1 << 40
    # Not all at the same instant: their packets would stay in step.
    slot = (PAYLOAD + 82) * 8 * 10**12 / (RATE * share)
    messages["start_ps"] = (number * 0.6180339887 % 1 * slot).astype(np.int64)
    fabric.engine.add_messages(
        messages, np.zeros(len(flows) + 1, np.uint64), np.zeros(0, np.uint32)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--k", type=command_line.count, nargs="+", default=[4, 8, 16])
    parser.add_argument("--rounds", type=command_line.count, default=3)
    parser.add_argument("--hops", type=command_line.count, default=2_000_000)
    parser.add_argument("--mechanisms", nargs="*", choices=NAMES, metavar="NAME")
    parser.add_argument("--dpfr", action="store_true")
    arguments = parser.parse_args()
    try:
        found = [
            measure(
                k,
                rounds=arguments.rounds,
                hops=arguments.hops,
                mechanisms=arguments.mechanisms,
                dpfr=arguments.dpfr,
            )
            for k in arguments.k
        ]
    except topologies.TopologyError as error:
        parser.error(str(error))
    growth = found[0].hops_per_s / found[-1].hops_per_s
    if arguments.json:
        fabrics = [vars(result) for result in found]
        goals = {"goal": GOAL, "growth_goal": GOAL_GROWTH}
        print(json.dumps({"fabrics": fabrics, "growth": growth, **goals}))
        return
    for result in found:
        print(
            f"{result.hosts:5} hosts, {result.switches:3} switches: "
            f"{result.hops_per_s / 1e3:6.0f} khops/s, {1e9 / result.hops_per_s:5.0f} ns a hop, "
            f"{result.events_per_hop:.2f} events a hop, set up in {result.setup_s:.1f} s"
        )
    print(f"the last one's hops cost {growth:.2f} times the first one's")


if __name__ == "__main__":
    command_line.run(main)
