"""What a run gave each sender: shares, the slowest message, the longest queue."""

from __future__ import annotations

import gc
from collections.abc import Iterator

from experiments.live_flows import with_jitter
from labs import Context, Measured
from labs.fabric_program import program_of
from labs.shares import jain, of_messages, rates
from simulator.result_reader import ResultFolder
from simulator.runner import Simulation
from workloads.model import Traffic
from workloads.plan import plan

PS_PER_US = 10**6
PS_PER_MS = 10**9
TAILS = ("15-to-1", "15-to-1-at-100G")
HITS = ("hit-by-16", "hit-by-24")
CROWDS = ("16-senders", "64-senders", "128-senders")
SMALL, LARGE = 30_000, 1_000_000
"""Messages of web search that are told apart, in bytes."""
FAR = ("1-near-1-far", "2-near-2-far", "1-local-4-remote")
AFTER_MS = 3
"""From then on what comes out of a crowd's queue is measured."""


def measure(context: Context) -> dict[str, Measured]:
    """Run a variant, whose senders start at times that the seed draws."""
    case, own = context.variant.labels["case"], context.settings
    kind = "far_jitter_us" if case in FAR else "hit_jitter_us" if case in HITS else "jitter_us"
    run = context.run_file()
    try:
        traffic = with_jitter(plan(run, context.seed), context.seed, own[kind] * PS_PER_US)
        program = program_of(context, run.topology)
        simulation = Simulation(run, program, seed=context.seed, traffic=traffic)
        outcome = simulation.run(context.out)
    finally:
        gc.collect()  # an engine is in a cycle, and holds more than Python knows of
    results = ResultFolder(context.out)
    found = dict(_measured(case, results, traffic, own["last_ms"] * PS_PER_MS))
    found["sent again"] = Measured(outcome.summary["transport"]["repeated_packets"])
    return found


def _measured(
    case: str, results: ResultFolder, traffic: Traffic, last_ps: int
) -> Iterator[tuple[str, Measured]]:
    hosts = traffic.topology.hosts
    names = [hosts[i].name for i in traffic.flows["src"].tolist()]
    end = results.now_ps
    if case in ("mice", "on-off"):
        took = of_messages(results, "completion_ps", most=2_000_000)
        yield "99th percentile", Measured(took / PS_PER_US, "us")
    elif case == "websearch":
        small = of_messages(results, "slowdown_ppm", most=SMALL)
        large = of_messages(results, "slowdown_ppm", least=LARGE)
        yield "slowdown below 30 kB, 99th percentile", Measured(small / 1e6)
        yield "slowdown from 1 MB on, 99th percentile", Measured(large / 1e6)
    elif case in TAILS:
        done = results.table("messages", ["done_ps"])["done_ps"].to_pylist()
        last = None if None in done else max(done)
        yield "slowest message", Measured(last and last / PS_PER_US, "us")
    elif case in HITS:
        hit = 5 * PS_PER_MS
        (rate,) = rates(results, 1, hit, hit + 50 * PS_PER_MS)
        yield "the flow that was hit", Measured(rate, "Gb/s")
    elif case in CROWDS:
        queued = results.table("queues", ["bytes"])["bytes"].to_numpy()
        every = rates(results, len(names), AFTER_MS * PS_PER_MS, end)
        yield "longest queue", Measured(int(queued.max(initial=0)) / 1e6, "MB")
        yield "all, from 3 ms on", Measured(float(every.sum()), "Gb/s")
        yield "Jain", Measured(jain(every))
    else:
        shares = rates(results, len(names), end - last_ps, end)
        by_name = dict(zip(names, shares, strict=True))
        yield "all", Measured(float(shares.sum()), "Gb/s")
        yield "least", Measured(float(shares.min()), "Gb/s")
        yield "Jain", Measured(jain(shares))
        for name in ("n1", "f1", "a0", "h2", "h5"):
            if name in by_name:
                yield name, Measured(float(by_name[name]), "Gb/s")
