"""What a large run costs beside its hops: its set-up, each further run, and messages of a ring.

    python tests/bench/bench_large.py [--json] [--k 16] [--rounds 3]

A fat tree is set up once, as a sweep or a lab does it for the seeds of one run; runs on forked
copies of it carry a ring AllReduce over all hosts, 8 bytes a step, whose messages are made as they
are due. Seconds of CPU time; a further run's are those until it begins: its traffic is planned.
Medians of the rounds. The peak of memory is that of a run, with what it shares with the fabric that
it is a copy of.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import command_line

from compiler import compile_p4
from controller.program import CompiledProgram
from experiments.fabrics import Fabrics
from simulator.runner import Simulation
from softswitch.jobs import in_child
from workloads.loader import read_run
from workloads.plan import plan

FABRIC = Path(__file__).resolve().parents[2] / "p4src" / "fabric.p4"
RUN = """
topology:
  generator: fat_tree
  k: {k}
  link: {{rate: 400Gbps, delay: 500ns, queue: 4MB, mtu: 4200B}}
sample: 1ms
job: {{ranks: {ranks}, phases: [{{allreduce: {{bytes: {bytes}B}}}}]}}
"""
STEP_BYTES = 8


@dataclass(frozen=True)
class Large:
    """Of a fabric of `hosts`: CPU seconds, and of one message on its way."""

    hosts: int
    set_up_s: float
    further_s: float
    messages: int
    message_ns: float
    run_s: float
    peak_bytes: int


def measure(k: int, rounds: int) -> Large:
    """Set up a fat tree and run the ring on copies of it."""
    hosts = k**3 // 4
    run = read_run(RUN.format(k=k, ranks=hosts, bytes=STEP_BYTES * hosts))
    program = CompiledProgram.of(compile_p4(FABRIC), FABRIC)
    before = time.process_time()
    prepared = Fabrics().of(run, program)
    set_up_s = time.process_time() - before

    def once() -> tuple[float, float, int, int]:
        begun = time.process_time()
        traffic = plan(run, keep=0)
        simulation = Simulation(run, program, traffic=traffic, prepared=prepared)
        further_s = time.process_time() - begun
        outcome = simulation.run()
        peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return further_s, outcome.cpu_s, outcome.end.totals["messages_done"], peak_bytes

    found = [in_child(once) for _ in range(rounds)]
    messages = found[0][2]
    run_s = statistics.median(cpu_s for _, cpu_s, _, _ in found)
    return Large(
        hosts,
        set_up_s,
        statistics.median(further_s for further_s, _, _, _ in found),
        messages,
        run_s * 1e9 / messages,
        run_s,
        max(peak_bytes for _, _, _, peak_bytes in found),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--k", type=command_line.count, default=16, help="of the fat tree, even")
    parser.add_argument("--rounds", type=command_line.count, default=3)
    arguments = parser.parse_args()
    if arguments.k % 2:
        parser.error("argument --k: k must be even")
    found = measure(arguments.k, arguments.rounds)
    if arguments.json:
        print(json.dumps(asdict(found)))
        return
    print(f"{found.hosts} hosts: set up in {found.set_up_s:.2f} s, a further run in "
          f"{found.further_s:.2f} s; {found.messages} messages of a ring, "
          f"{found.message_ns:.0f} ns each, {found.run_s:.2f} s in all; "
          f"at most {found.peak_bytes / 1e9:.2f} GB")  # fmt: skip


if __name__ == "__main__":
    command_line.run(main)
