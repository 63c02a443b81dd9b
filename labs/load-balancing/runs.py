"""A variant's run: its slow links, if it has them, and how long its flows or its job took."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from labs import Context, LabError, Measured
from simulator.runner import Outcome, Simulation
from topologies.document import Document
from topologies.model import Role, Topology
from workloads.bound import bound
from workloads.loader import run_of
from workloads.model import RunFile

from .programs import program_of

PS_PER_US = 1_000_000
PPM = 1_000_000
SLOWDOWN = 1.5
"""A flow that takes so many times its time alone is one that collisions have hurt."""

SLOW_LINKS = "slow-links"
BOUNDED = (SLOW_LINKS, "permutation", "unequal-spines", "unequal-paced", "dead-links")
"""Loads whose messages all start at once: what no way to split them can beat is known."""


def run_file(context: Context) -> RunFile:
    """Return the variant's run, with slow links where it has them."""
    mapping = json.loads(json.dumps(context.mapping))
    if context.variant.labels.get("load") == SLOW_LINKS:
        plain = _read(mapping, context)
        mapping["events"] = list(_slow(plain.topology, context.settings["slow"]))
    return _read(mapping, context)


def _read(mapping: dict[str, Any], context: Context) -> RunFile:
    return run_of(Document("lab.yaml", mapping, {}), context.variant.name, context.folder)


def _slow(topology: Topology, share: str) -> Iterator[dict[str, Any]]:
    """Yield that each core's link into the first spine is slow, in this direction alone."""
    spine = next(each.name for each in topology.switches if each.role is Role.SPINE)
    for port in topology.ports_of(spine):
        if topology.is_switch(port.peer.node) and _is_core(topology, port.peer.node):
            link = f"{port.link.a}-{port.link.b}"
            yield {"at": "0us", "link": link, "degraded": share, "towards": spine}


def _is_core(topology: Topology, name: str) -> bool:
    return topology.switch(name).role is Role.CORE


def measure(context: Context) -> dict[str, Measured]:
    """Run it and return what it took."""
    run = run_file(context)
    try:
        simulation = Simulation(run, program_of(context, run.topology), seed=context.seed)
        outcome = simulation.run(context.out)
        if run.jobs:
            return _job(context, outcome)
        found = _flows(context, outcome)
        labels = context.variant.labels
        if labels.get("load") in BOUNDED or "spines" in labels:
            slowest = found["slowest flow"].value
            assert slowest is not None
            least = bound(run, simulation.traffic).lower_ps / PS_PER_US
            found["bound"] = Measured(least, "us")
            found["bound over slowest"] = Measured(least / slowest)
        return found
    finally:
        gc.collect()  # an engine is in a cycle, and holds more than Python knows of


def _job(context: Context, outcome: Outcome) -> dict[str, Measured]:
    took = [row["duration_ps"] for row in outcome.summary["jobs"] if row["kind"] == "job"]
    if min(took) < 0:
        raise LabError(f"{context.variant.name}: the job did not end")
    return {"job": Measured(max(took) / PS_PER_US, "us"), **_order(outcome)}


def _flows(context: Context, outcome: Outcome) -> dict[str, Measured]:
    times = outcome.end.message_times
    done = times["done"].astype(np.int64)
    if (done < 0).any():
        raise LabError(f"{context.variant.name}: {(done < 0).sum()} flows did not end")
    took = (done - times["ready"].astype(np.int64)) / PS_PER_US
    alone = took.min()
    slowdown = outcome.summary["messages"]["slowdown_ppm"]
    return {
        "slowest flow": Measured(float(took.max()), "us"),
        "median flow": Measured(float(np.median(took)), "us"),
        "fastest flow": Measured(float(alone), "us"),
        "flows of 1.5 x": Measured(100 * float((took >= SLOWDOWN * alone).mean()), "%"),
        "mean slowdown": Measured(slowdown["mean"] / PPM),
        "p99 slowdown": Measured(slowdown["p99"] / PPM),
        **_order(outcome),
    }


def _order(outcome: Outcome) -> dict[str, Measured]:
    flows = outcome.end.flow_stats
    received = int(flows["received_packets"].sum())
    reordered = 100 * int(flows["out_of_order"].sum()) / received
    return {"out of order": Measured(reordered, "%")}
