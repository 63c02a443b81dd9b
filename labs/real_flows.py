"""RDMA WRITEs of a run file between namespaces, and the same in virtual time as slowly.

What labs measure of messages that are played in both runtimes; a lab's checks.py takes
`measure_live` and `measure_beside` from here. Its setting `jitter_us`: flows start within so much
of each other, by the seed.
"""

from __future__ import annotations

from labs import Context, LabError, Measured, live, live_beside
from labs.fabric_program import program_of
from labs.live_model import LiveRun, LiveSettings

PS_PER_US = 1_000_000


def measure_live(context: Context) -> dict[str, Measured]:
    """Play it over namespaces. Needs root."""
    run = context.run_file()
    seen = live.play(run, program_of(context, run.topology), _settings(context), context.tell)
    return _measured(seen)


def measure_beside(context: Context) -> dict[str, Measured]:
    """Play it in virtual time, slowed down as much."""
    run = context.run_file()
    program = program_of(context, run.topology)
    return _measured(live_beside.simulate(run, program, _settings(context), alike=True))


def _settings(context: Context) -> LiveSettings:
    jitter_ps = int(context.settings["jitter_us"] * PS_PER_US)
    return LiveSettings(context.time_scale, seed=context.seed, jitter_ps=jitter_ps)


def _measured(seen: LiveRun) -> dict[str, Measured]:
    """Measure the flows; one that did not end counts as long as the run.

    Raises LabError on failure.
    """
    for flow in seen.flows:
        if flow.failure:
            raise LabError(f"{seen.name}: {flow.name} failed: {flow.failure}")
    ends = [seen.until_ps if flow.done_ps is None else flow.done_ps for flow in seen.flows]
    took = [end - flow.start_ps for end, flow in zip(ends, seen.flows, strict=True)]
    return {
        "slowest flow": Measured(max(took) / PS_PER_US, "us"),
        "mean flow": Measured(sum(took) / len(took) / PS_PER_US, "us"),
        "not done": Measured(sum(flow.done_ps is None for flow in seen.flows)),
        "stalled": Measured(100 * seen.stalled_ps / seen.until_ps, "%"),
    }
