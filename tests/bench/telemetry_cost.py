"""What recording telemetry costs: CPU time a hop with it over without, in turns.

python tests/bench/telemetry_cost.py [--rounds 9]

16 hosts of a fat tree send at their lines' rate, packets collect in all runs; in some, records of
each flow are kept every 10 us, or every 1 us. Printed are the median of the ratios and its 95 %
interval by ranks.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import command_line

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from compiler import compile_p4  # noqa: E402 - as a script it runs from any folder
from controller.program import CompiledProgram  # noqa: E402
from experiments.statistics import Estimate  # noqa: E402
from mechanisms.program import FABRIC  # noqa: E402
from mechanisms.registry import defines  # noqa: E402
from simulator.runner import Simulation  # noqa: E402
from workloads.loader import read_run  # noqa: E402

RUN = """
topology:
  generator: fat_tree
  k: 4
  link: {rate: 100Gbps, delay: 500ns, queue: 4MB, mtu: 4200B}
  classes:
    roce: {dscp: 26, queue: 3, path_telemetry: {format: hops, monitor: true}}
    rest: {queue: 0}
until: 2ms
RECORD
transport: {congestion_control: none}
traffic: [{permutation: {bytes: 1GB}}]
"""
CASES = {
    "without": "",
    "each 10 us": "record: {telemetry: {every: 10us}}",
    "each 1 us": "record: {telemetry: {every: 1us}}",
}


def cost(record: str, programs: dict[tuple[str, ...], CompiledProgram]) -> float:
    """Return the CPU time of a hop in ns."""
    run = read_run(RUN.replace("RECORD", record))
    key = defines(run.topology)
    if key not in programs:
        programs[key] = CompiledProgram.of(compile_p4(FABRIC, defines=key))
    simulation = Simulation(run, programs[key])
    started = time.process_time()
    simulation.run()
    took = time.process_time() - started
    hops = simulation.engine.totals().hops
    simulation.engine.close()
    return took * 1e9 / hops


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=command_line.count, default=9)
    rounds = parser.parse_args().rounds
    found: dict[str, list[float | None]] = {name: [] for name in CASES}
    programs: dict[tuple[str, ...], CompiledProgram] = {}
    for _ in range(rounds):
        for name, record in CASES.items():
            found[name].append(cost(record, programs))
    without = Estimate.of(found["without"], "ns")
    print(f"{'without':12} {without} a hop")
    for name in list(CASES)[1:]:
        print(f"{name:12} {Estimate.of(found[name]).over(without)} of that")


if __name__ == "__main__":
    main()
