"""A plane drained for a millisecond under AllReduce: what is lost, and what the job keeps.

    .venv/bin/python tests/bench/plane_drained.py [--seeds 1 2 3 4 5 6] [--then "do: down"]

Seven hosts with 2 x 200 Gb/s, as in the lab dual-plane: plane B is drained at 500 us plus up to 100
by the seed, and used again 1 ms later. `--then`: what befalls the link of one host into that plane
10 us after it was drained, until 10 us before its end. By seed: packets lost in the fabric and
sent again, packets of data by B from 10 us after the drain to its end, and the goodput of all hosts
before, meanwhile and afterwards.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from controller.program import CompiledProgram
from experiments.statistics import Estimate
from mechanisms.program import job
from simulator.runner import Simulation
from softswitch import program_cache
from workloads.loader import read_run
from workloads.randomness import Random

RUN = """
topology:
  time_scale: 1
  generator: dual_plane
  spines: 2
  leaves: 2
  hosts_per_leaf: 4
  link: {{rate: 200Gbps, delay: 500ns, queue: 32MB, mtu: 4200B}}
  classes:
    cnp: {{dscp: 48, queue: 7}}
    roce: {{dscp: 26, queue: 3, lossless: true}}
    rest: {{queue: 0}}
  dpfr: true
events: [{{at: {at}ns, plane: B, do: drain, lasts: 1ms}}{then}]
until: 2500us
sample: 10us
seed: {seed}
controller: {{delay: 200us}}
buffer: {{shared: 64MB, alpha: 1/8, headroom: formula}}
clocks: {{ppm: 50}}
transport: {{congestion_control: none, retransmission: selective-repeat, interfaces: all,
            failover: true}}
job:
  ranks: 7
  placement: linear
  iterations: 100
  phases: [{{allreduce: {{bytes: 64MB, algorithm: ring}}}}]
"""
NS, US, MS = 1_000, 1_000_000, 1_000_000_000
PLANE_B = 1
HOST = "h3"
SETTLED_PS, END_PS = 10 * US, 2500 * US


@dataclass(frozen=True)
class Drained:
    """One run: packets lost, sent again, by B while it was drained; goodput in bits/s."""

    lost: int
    repeated: int
    timeouts: int
    by_b: int
    before: float
    meanwhile: float
    after: float


def play(seed: int, then: str) -> Drained:
    """Run it with what a seed draws."""
    at_ps = 500 * US + Random(seed, "drain").below(100_001) * NS
    text = RUN.format(at=at_ps // NS, seed=seed, then=_then(at_ps, then))
    file = read_run(text)
    program = CompiledProgram.of(program_cache.compile_program(job(file.topology)))
    run = Simulation(file, program)
    over_ps = at_ps + MS
    marks = (300 * US, at_ps, at_ps + SETTLED_PS, over_ps - NS, over_ps + SETTLED_PS, END_PS)
    received, by_b = zip(*(_look(run, mark) for mark in marks), strict=True)

    def rate(first: int, last: int) -> float:
        return float(8e12 * (received[last] - received[first]) / (marks[last] - marks[first]))

    outcome = run.run()
    totals = outcome.end.totals
    stats = run.engine.transport_stats(0, len(run.traffic.flows))
    return Drained(
        sum(count for name, count in totals.items() if name.startswith("lost_")),
        int(stats["repeated_packets"].sum()),
        int(stats["timeouts"].sum()),
        by_b[3] - by_b[2],
        rate(0, 1),
        rate(2, 3),
        rate(4, 5),
    )


def _then(at_ps: int, what: str) -> str:
    if not what:
        return ""
    from_ns, lasts_ns = (at_ps + SETTLED_PS) // NS, (MS - 2 * SETTLED_PS) // NS
    link = f'link: "{HOST}:1-s3", {what}'
    return f", {{at: {from_ns}ns, {link}, lasts: {lasts_ns}ns}}"


def _look(run: Simulation, at_ps: int) -> tuple[int, int]:
    """Return the bytes that all hosts have received by then, and the packets of data by plane B."""
    run.advance(at_ps)
    planes = run.engine.plane_rows()
    received = run.engine.flow_stats(0, len(run.traffic.flows))["received_bytes"].sum()
    return int(received), int(planes["sent_packets"][planes["interface"] == PLANE_B].sum())


def main() -> None:
    """Print a row for each seed, and medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", nargs="*", type=int, default=[1, 2, 3, 4, 5, 6])
    parser.add_argument("--then", default="", metavar="EVENT", help='such as "do: down"')
    given = parser.parse_args()
    found = []
    for seed in given.seeds:
        one = play(seed, given.then)
        found.append(one)
        print(
            f"seed {seed}: lost {one.lost}, sent again {one.repeated}, time-outs {one.timeouts}, "
            f"by B {one.by_b}; {one.before / 1e9:.0f}, {one.meanwhile / 1e9:.0f}, "
            f"{one.after / 1e9:.0f} Gb/s before, meanwhile, after",
            flush=True,
        )
    before = Estimate.of([each.before for each in found])
    for says, rates in (
        ("meanwhile", [each.meanwhile for each in found]),
        ("after", [each.after for each in found]),
    ):
        print(f"{says} over before: {Estimate.of(rates).over(before)}")


if __name__ == "__main__":
    main()
