"""What a run gave each sender, and what waited in front of the receiver."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import numpy as np

from experiments.live_flows import with_jitter
from labs import Context, LabError, Measured
from labs.fabric_program import program_of
from labs.shares import jain, of_messages, queued, rates
from simulator.result_reader import ResultFolder
from simulator.runner import Simulation
from workloads.plan import plan

PS_PER_US = 10**6
PS_PER_MS = 10**9
GBPS = 10**9
SENDERS = {"16-to-1": 16, "16-to-1-at-100G": 16, "60-to-1": 60, "60-to-1-at-100G": 60}
CHAINS = {"2-bottlenecks": 2, "5-bottlenecks": 5}
TRIP_US = 5
"""A round trip at one switch and 100 Gb/s without queues; shorter at 400."""
JOINS_MS, FAIR_AFTER_US = 5, 350 * TRIP_US
SMALL = 30_000
"""Messages of web search up to so many bytes are small."""


def measure(context: Context) -> dict[str, Measured]:
    """Run a variant, whose senders start at times that the seed draws."""
    case = context.variant.labels["case"]
    run = context.run_file()
    try:
        traffic = plan(run, context.seed)
        if case != "websearch":  # whose times are drawn already
            traffic = with_jitter(traffic, context.seed, context.settings["jitter_us"] * PS_PER_US)
        program = program_of(context, run.topology)
        outcome = Simulation(run, program, seed=context.seed, traffic=traffic).run(context.out)
    finally:
        gc.collect()  # an engine is in a cycle, and holds more than Python knows of
    results = ResultFolder(context.out)
    line = min(link.rate_bps for link in run.topology.links) / GBPS
    found = dict(_measured(case, results, len(traffic.flows), line))
    found["sent again"] = Measured(outcome.summary["transport"]["repeated_packets"])
    return found


def _measured(
    case: str, results: ResultFolder, flows: int, line: float
) -> Iterator[tuple[str, Measured]]:
    end = results.now_ps
    if case in SENDERS:
        settled = 2 * SENDERS[case] * TRIP_US * PS_PER_US
        us = queued(results, "s1", 1, settled, end) * 8 / line / 1000
        yield "queue, median", Measured(float(np.percentile(us, 50)), "us")
        yield "queue, 99th percentile", Measured(float(np.percentile(us, 99)), "us")
        first = queued(results, "s1", 1, 0, settled)
        yield "longest queue", Measured(float(first.max()) / 1e6, "MB")
        yield from _shares(results, flows, settled, end, line)
    elif case == "near-and-far":
        late = end - 100 * PS_PER_MS
        yield from _shares(results, flows, late, end, line)
        yield "longest queue", Measured(float(queued(results, "l1", 1, 0, end).max()) / 1e6, "MB")
        waits = queued(results, "l1", 1, late, end)
        yield "longest queue at last", Measured(float(waits.max()) / 1e6, "MB")
    elif case == "near-end":
        late = end - 10 * PS_PER_MS
        yield from _shares(results, flows, late, end, line)
        yield "longest queue", Measured(float(queued(results, "b1", 2, 0, end).max()) / 1e6, "MB")
        waits = queued(results, "b1", 2, late, end)
        yield "longest queue at last", Measured(float(waits.max()) / 1e6, "MB")
    elif case in CHAINS:
        shares = rates(results, flows, end // 2, end)
        yield "long flow over its share", Measured(float(shares[0]) * 2 / (line * 0.979))
        yield "all over the lines", Measured(float(shares.sum()) / (CHAINS[case] + 1) * 2 / line)
    elif case == "join":
        indices = []
        for n in range(1, flows):
            came = n * JOINS_MS * PS_PER_MS
            shares = rates(
                results, n + 1, came + FAIR_AFTER_US * PS_PER_US, came + JOINS_MS * PS_PER_MS
            )
            indices.append(jain(shares))
        yield "Jain, the least", Measured(min(indices))
        yield "all over the line", Measured(float(rates(results, flows, 0, end).sum()) / line)
    elif case == "leave":
        yield "Jain, the least", Measured(_while_others_leave(results))
        last = float(results.table("messages", ["done_ps"])["done_ps"].to_numpy().max())
        yield "all done", Measured(last / PS_PER_MS, "ms")
    else:
        small = of_messages(results, "slowdown_ppm", most=SMALL) / 1e6
        yield "slowdown below 30 kB, 99th percentile", Measured(small)
        large = of_messages(results, "slowdown_ppm", least=1_000_000) / 1e6
        yield "slowdown from 1 MB on, 99th percentile", Measured(large)


def _while_others_leave(results: ResultFolder) -> float:
    """Return the least index of those that are left, from 350 round trips after each end on.

    Messages stand in the order of their sizes, so that those that are left are the first ones.
    Raises LabError where one is not done.
    """
    done = results.table("messages", ["done_ps"])["done_ps"].to_numpy().astype(np.int64)
    if done.min() <= 0:
        raise LabError("a message did not end")
    ends = np.sort(done)
    indices = []
    for gone in range(1, len(ends) - 1):
        first, last = int(ends[gone - 1]) + FAIR_AFTER_US * PS_PER_US, int(ends[gone])
        if last > first:  # of senders that were unequal several end at once
            indices.append(jain(rates(results, len(ends) - gone, first, last)))
    if not indices:
        raise LabError("all messages ended at about the same time")
    return min(indices)


def _shares(
    results: ResultFolder, flows: int, first_ps: int, last_ps: int, line: float
) -> Iterator[tuple[str, Measured]]:
    shares = rates(results, flows, first_ps, last_ps)
    yield "payload over the line", Measured(float(shares.sum()) / line)
    yield "Jain", Measured(jain(shares))
