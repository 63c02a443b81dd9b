"""Messages over 8 queue pairs beside dead links: the slowest one against the bound.

    .venv/bin/python tests/bench/striping.py [--down s1-s9 ...] [--seeds 1 2 3] [--bytes 32MB]
        [--only "as drained, window 16"]

128 hosts, 8 leaves, 16 spines, 100 Gb/s, PFC. Links are down before the messages start; the
controller's routes leave them out, the planner plans the flows anew, and queue pairs get the source
ports that the fabric's hash sends along their paths, while they are there. Of each row, by seed:
the bound (`weft bound`) over the time of the slowest message, and how long queues were paused.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import dataclass

import numpy as np

from compiler import compile_p4
from controller.leaf_routes import Routes
from controller.program import CompiledProgram
from mechanisms.iglb.ecmp_hash import EcmpHash
from mechanisms.iglb.hash_ports import choose_ports
from mechanisms.iglb.planner import Planner
from mechanisms.program import FABRIC
from simulator.runner import Simulation
from topologies.model import Link
from workloads.bound import bound
from workloads.declared import declared_jobs
from workloads.loader import read_run
from workloads.plan import plan

RUN = """
topology:
  generator: leaf_spine
  leaves: 8
  spines: 16
  hosts_per_leaf: 16
  link: {{rate: 100Gbps, delay: 500ns, queue: 32MB, mtu: 4200B}}
  classes:
    control: {{dscp: 48, queue: 6}}
    roce: {{dscp: 26, queue: 3, lossless: true, ecn: hpcc-dcqcn}}
    rest: {{queue: 0}}
events: [{events}]
until: 200ms
sample: 10ms
seed: {seed}
buffer: {{shared: {shared}, alpha: 1/8, headroom: formula}}
clocks: {{ppm: 50}}
transport: {{retransmission: go-back-n, ack_class: control, queue_pairs: 8, {transport}}}
traffic: [{{permutation: {{start: 5ms, bytes: {size}, payload: 4096B, dscp: 26{shift}}}}}]
"""
PLANNED_AT = 4_000_000_000  # when the controller knows of the links, and nothing is sent yet
DRAINED = "striping: as-drained"
TRANSPORTS = {
    "equal parts, PFC alone": "congestion_control: none",
    "equal parts, DCQCN": "congestion_control: dcqcn",
    "equal parts, window 16": "congestion_control: none, window: 16",
    "as drained, PFC alone": f"congestion_control: none, {DRAINED}",
    "as drained, DCQCN": f"congestion_control: dcqcn, {DRAINED}",
    "as drained, window 16": f"congestion_control: none, {DRAINED}, window: 16",
    "as drained, 2 pieces of 32 KiB": f"congestion_control: none, {DRAINED}, piece: 32KiB",
}


@dataclass(frozen=True)
class Found:
    """Of one run: bound over the slowest message's time, and a queue pair's mean pause."""

    share: float
    paused_us: float


def play(program: CompiledProgram, text: str, down: list[str], seed: int) -> Found:
    """Play it with all queue pairs where the planner wants them."""
    run = read_run(text)
    traffic = plan(run, seed)
    simulation = Simulation(run, program, seed=seed, traffic=traffic)
    simulation.advance(PLANNED_AT)
    _pin(simulation, down)
    end = simulation.run().end
    times = end.message_times
    assert (times["done"] >= 0).all(), "a message was not done"
    took = times["done"].max() - times["ready"].min()
    paused = end.flow_stats["paused_ps"].mean() / 1e6
    return Found(bound(run, traffic).lower_ps / int(took), float(paused))


def _pin(simulation: Simulation, names: list[str]) -> None:
    topology, traffic = simulation.fabric.topology, simulation.traffic
    down = frozenset(_link(topology.links, name) for name in names)
    (job,) = declared_jobs(simulation.file, traffic)
    arcs = Planner(topology, down).plan([job]).arcs
    hashes = EcmpHash(topology, Routes.of(topology, down))
    found = choose_ports(hashes, job.source, job.target, arcs, job.udp_port)
    assert not len(found.missing), f"{len(found.missing)} flows have no port"
    for flow, port in enumerate(found.udp_port.tolist()):
        simulation.engine.set_source_port(flow, port)


def _link(links: tuple[Link, ...], name: str) -> Link:
    ends = set(name.split("-"))
    return next(each for each in links if {each.a.node, each.b.node} == ends)


def main() -> None:
    """Print a row for each transport."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--down", nargs="*", default=["s1-s9"], metavar="LINK")
    parser.add_argument("--seeds", nargs="*", type=int, default=[1, 2, 3])
    parser.add_argument("--bytes", default="32MB")
    parser.add_argument("--shared", default="16MB", help="a switch's buffer")
    parser.add_argument("--random", action="store_true", help="who sends to whom, by the seed")
    parser.add_argument("--only", choices=TRANSPORTS, help="one row (default: all)")
    given = parser.parse_args()
    program = CompiledProgram.of(compile_p4(FABRIC))
    events = ", ".join(f'{{at: 0us, link: "{each}", do: down}}' for each in given.down)
    shift = "" if given.random else ", shift: 16"
    for name in [given.only] if given.only else TRANSPORTS:
        began, found = time.process_time(), []
        for seed in given.seeds:
            text = RUN.format(
                events=events, seed=seed, shared=given.shared, transport=TRANSPORTS[name],
                size=given.bytes, shift=shift,
            )  # fmt: skip
            found.append(play(program, text, given.down, seed))
        shares = [each.share for each in found]
        print(
            f"{name:32} {statistics.median(shares):.3f} [{min(shares):.3f}, {max(shares):.3f}]"
            f"  paused {np.median([each.paused_us for each in found]):.0f} us a queue pair"
            f"  ({time.process_time() - began:.0f} s)",
            flush=True,
        )


if __name__ == "__main__":
    main()
