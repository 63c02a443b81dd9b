"""A variant's run: where its ranks are, how long its job or flows took, what bounds that."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from labs import Context, LabError, Measured
from labs.fabric_program import program_of
from simulator.runner import Outcome, Simulation
from topologies.document import Document
from topologies.model import Topology
from workloads.bound import bound
from workloads.loader import run_of
from workloads.model import RunFile
from workloads.randomness import Random

PS_PER_US = 1_000_000
FRAGMENTED = "ring-fragmented"
BEST = 0.95
"""What of the bound a flow should reach."""


def run_file(context: Context) -> RunFile:
    """Return the variant's run, with a fragmented placement where it has one."""
    mapping = json.loads(json.dumps(context.mapping))
    if context.variant.labels.get("load") == FRAGMENTED:
        share = int(str(context.settings["fragmented"]).rstrip("%"))
        mapping["job"]["placement"] = _fragmented(mapping["job"]["ranks"], share, context.seed)
    down = int(context.variant.labels.get("dead", 0))
    if down:
        mapping["events"] = list(_down(_read(mapping, context).topology, down, context.seed))
    return _read(mapping, context)


def _down(topology: Topology, count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield that so many links between switches, drawn by the seed, are down from the start."""
    between = [
        link
        for link in topology.links
        if topology.is_switch(link.a.node) and topology.is_switch(link.b.node)
    ]
    random = Random(seed, "down")
    for number in sorted(random.derangement(len(between))[:count]):
        link = between[number]
        yield {"at": "0us", "link": f"{link.a}-{link.b}", "do": "down"}


def _read(mapping: dict[str, Any], context: Context) -> RunFile:
    return run_of(Document("lab.yaml", mapping, {}), context.variant.name, context.folder)


def _fragmented(ranks: int, percent: int, seed: int) -> list[str]:
    """Return hosts in order, of which so many percent have changed places with each other."""
    random = Random(seed, "fragmented")
    moved = sorted(random.derangement(ranks)[: ranks * percent // 100])
    turned = random.derangement(len(moved))
    hosts = list(range(ranks))
    for place, other in zip(moved, turned, strict=True):
        hosts[place] = moved[other]
    return [f"h{host + 1}" for host in hosts]


def measure(context: Context) -> dict[str, Measured]:
    """Run it and return what it took."""
    run = run_file(context)
    try:
        simulation = Simulation(run, program_of(context, run.topology), seed=context.seed)
        outcome = simulation.run(context.out)
        found = _job(context, outcome) if run.jobs else _flows(context, run, simulation, outcome)
        return {**found, **_order(outcome)}
    finally:
        gc.collect()  # an engine is in a cycle, and holds more than Python knows of


def _job(context: Context, outcome: Outcome) -> dict[str, Measured]:
    rows = [row for row in outcome.summary["jobs"] if row["kind"] == "job"]
    if any(row["duration_ps"] < 0 for row in rows):
        raise LabError(f"{context.variant.name}: the job did not end")
    slowest = max(rows, key=lambda row: int(row["duration_ps"]))
    took, least = slowest["duration_ps"], slowest["ideal_ps"]
    return {
        "job": Measured(took / PS_PER_US, "us"),
        "bound": Measured(least / PS_PER_US, "us"),
        "bound over time": Measured(least / took),
    }


def _flows(
    context: Context, run: RunFile, simulation: Simulation, outcome: Outcome
) -> dict[str, Measured]:
    times = outcome.end.message_times
    done = times["done"].astype(np.int64)
    if (done < 0).any():
        raise LabError(f"{context.variant.name}: {(done < 0).sum()} flows did not end")
    took = (done - times["ready"].astype(np.int64)) / PS_PER_US
    least = bound(run, simulation.traffic).lower_ps / PS_PER_US
    return {
        "slowest flow": Measured(float(took.max()), "us"),
        "median flow": Measured(float(np.median(took)), "us"),
        "bound": Measured(least, "us"),
        "bound over time": Measured(least / float(took.max())),
        "flows below 0.95": Measured(int((least / took < BEST).sum())),
    }


def _order(outcome: Outcome) -> dict[str, Measured]:
    flows = outcome.end.flow_stats
    received = max(1, int(flows["received_packets"].sum()))
    lost = int(flows["lost"].sum()) if "lost" in (flows.dtype.names or ()) else 0
    return {
        "out of order": Measured(100 * int(flows["out_of_order"].sum()) / received, "%"),
        "lost": Measured(lost),
    }
