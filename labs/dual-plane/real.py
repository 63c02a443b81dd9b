"""The same in real time: a WRITE between two hosts' namespaces while a link fails, and may return.

Beside it the simulator plays the same run at the same time scale.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from labs import Check, Context, Estimate, LabError, Measured, Table, live, live_beside
from labs.fabric_program import program_of
from labs.live_model import FlowSeries, LiveRun, LiveSettings
from topologies.document import Document
from workloads.loader import run_of
from workloads.model import RunFile
from workloads.randomness import Random

from . import ring

PS_PER_US = 1_000_000
LEAVES = (("s1", "s2"), ("s3", "s4"))
"""Of each plane, the one of h1 and the one of h2."""


ALLREDUCE = "allreduce"
FAILURES = ("none", "link", "silent", "restored", ALLREDUCE)


def failures(context: Context) -> Iterator[dict[str, Any]]:
    """Yield what fails in a variant by the seed, as the topology file's events."""
    random, own = Random(context.seed, "real"), context.settings
    plane, host = random.below(2), random.below(2)
    late_ns = random.below(1 + 1000 * own["live_jitter_us"])
    at_ns = 1000 * own["live_cut_us"] + late_ns
    failure = context.variant.labels["real"]
    link = f"h{host + 1}:{plane}-{LEAVES[plane][host]}:1"
    if failure == ALLREDUCE:  # its ranks begin and end by TCP, in the first plane
        link = f"h{host + 1}:1-s2:{host + 1}"
    if failure in ("link", "restored", ALLREDUCE):
        yield {"at": f"{at_ns}ns", "link": link, "do": "down"}
    if failure in ("restored", ALLREDUCE):
        yield {"at": f"{at_ns + 1000 * own['live_back_us']}ns", "link": link, "do": "up"}
    if failure == "silent":
        yield {"at": f"{at_ns}ns", "link": link, "loss": "100%"}


def run_file(context: Context) -> RunFile:
    """Return the variant's run with its failure."""
    mapping = json.loads(json.dumps(context.mapping))
    mapping["events"] = list(failures(context))
    return run_of(Document("lab.yaml", mapping, {}), context.variant.name, context.folder)


def measure_live(context: Context) -> dict[str, Measured]:
    """Play it over namespaces. Needs root."""
    run = run_file(context)
    if run.jobs:
        return ring.measure_live(context, run)
    seen = live.play(run, program_of(context, run.topology), _settings(context), context.tell)
    wrong = seen.flows[0].wrong_bytes
    if wrong is None:
        raise LabError(f"{seen.name}: the message did not arrive: {seen.flows[0].failure}")
    by_xdp = sum(mode == "af_xdp" for mode in seen.modes.values())
    return {
        **_measured(seen),
        "wrong": Measured(wrong, "B"),
        "by XDP": Measured(by_xdp),
        "stalled": Measured(100 * seen.stalled_ps / seen.until_ps, "%"),
    }


def measure_beside(context: Context) -> dict[str, Measured]:
    """Play it in virtual time, slowed down as much."""
    run = run_file(context)
    if run.jobs:
        return ring.measure_beside(context, run)
    return _measured(
        live_beside.simulate(run, program_of(context, run.topology), _settings(context))
    )


def _settings(context: Context) -> LiveSettings:
    return LiveSettings(context.time_scale, seed=context.seed, compared=True)


def _measured(seen: LiveRun) -> dict[str, Measured]:
    """Return the measurements of the message. Raises LabError if the run ended before it did."""
    (flow,) = seen.flows
    if flow.done_ps is None:
        raise LabError(f"{seen.name}: the message was not over at the end: {flow.failure}")
    return {
        "message": Measured((flow.done_ps - flow.start_ps) / PS_PER_US, "us"),
        "failed": Measured(int(bool(flow.failure))),
        "repeated": Measured(flow.source_counts.get("repeated_packets", 0)),
        "losses": Measured(sum(plane.losses for plane in flow.planes)),
        **_noticed(flow),
    }


def _noticed(flow: FlowSeries) -> dict[str, Measured]:
    """When its source lost the plane, and had it back, since the run's start."""
    for plane in flow.planes:
        if plane.lost_ps is not None:
            found = {"lost at": Measured(plane.lost_ps / PS_PER_US, "us")}
            if plane.up_ps is not None:
                found["used again at"] = Measured(plane.up_ps / PS_PER_US, "us")
            return found
    return {}


def checks(table: Table) -> Iterator[Check]:
    """Yield the rows of the lab's table in real time."""
    for failure in FAILURES:
        row, whole = f"real time, {failure}", "time" if failure == ALLREDUCE else "message"
        yield from _like_simulated(table, failure, "message", f"{row}: {whole}")
        if failure != ALLREDUCE:  # where a failed one ends the run
            failed = _of(table, failure, "failed")
            yield Check.at_most(f"{row}: work requests that failed", failed, 0)
        yield Check.at_most(f"{row}: bytes that are wrong", _of(table, failure, "wrong"), 0, "B")
        yield Check.at_least(f"{row}: hosts by XDP", _of(table, failure, "by XDP"), 2)
        if failure != "none":
            yield Check.at_least(f"{row}: planes lost", _of(table, failure, "losses"), 1)
            for metric in _TIMES.get(failure, ()):
                yield from _like_simulated(table, failure, metric, f"{row}: {metric}")
        yield Check.reported(f"{row}: {whole}", _of(table, failure, "message"), "us")
        yield Check.reported(f"{row}: packets sent again", _of(table, failure, "repeated"))


_TIMES = {
    "link": ("lost at",),
    "silent": ("lost at",),
    "restored": ("lost at", "used again at"),
}


def _of(table: Table, failure: str, metric: str) -> Callable[[], Estimate]:
    return lambda: table.estimate(table.variant(real=failure), metric)


def _like_simulated(table: Table, failure: str, metric: str, row: str) -> Iterator[Check]:
    """Check the median over the seeds, and report its interval, which a busy machine widens."""

    def ratio() -> Estimate:
        variant = table.variant(real=failure)
        return table.paired(variant, variant, metric, below_beside=True)

    says = f"{row}, real over simulated"
    yield Check.within(f"{says}, median", lambda: ratio().median, 0.8, 1.2)
    yield Check.reported(says, ratio)
