"""What a run's messages took: all that are due after the warm-up, long and short ones."""

from __future__ import annotations

import gc

import numpy as np

from experiments.live_flows import with_jitter
from labs import Context, Measured
from labs.fabric_program import program_of
from simulator.runner import Simulation
from workloads.plan import plan

PS_PER_US = 10**6
PS_PER_MS = 10**9
LONG_BYTES = 1_000_000


def measure(context: Context) -> dict[str, Measured]:
    """Run a variant, whose messages are due at times that the seed moves.

    Where a message never ended there is no mean: such a threshold is no candidate.
    """
    own, run = context.settings, context.run_file()
    try:
        traffic = with_jitter(plan(run, context.seed), context.seed, own["jitter_us"] * PS_PER_US)
        program = program_of(context, run.topology)
        simulation = Simulation(run, program, seed=context.seed, traffic=traffic)
        outcome = simulation.run(context.out)
    finally:
        gc.collect()  # an engine is in a cycle, and holds more than Python knows of
    times = outcome.end.message_times
    ready, done = (times[name].astype(np.int64) for name in ("ready", "done"))
    long = traffic.messages.messages["bytes"] >= LONG_BYTES
    counts = (ready >= own["warm_up_ms"] * PS_PER_MS) | (done < 0)
    took = np.where(done < 0, np.nan, (done - ready) / PS_PER_US)

    def mean(chosen: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Measured:
        value = float(took[chosen].mean()) if chosen.any() else float("nan")
        return Measured(None if np.isnan(value) else value, "us")

    return {
        "mean time": mean(counts),
        "long ones": mean(counts & long),
        "short ones": mean(counts & ~long),
        "all, warm-up too": mean(np.ones(len(took), dtype=bool)),
        "sent again": Measured(outcome.summary["transport"]["repeated_packets"]),
        "never ended": Measured(int((done < 0).sum())),
    }
