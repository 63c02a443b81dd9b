"""A step of the job: who is which rank by the seed, how long it took, what of that was hidden."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from labs import Context, LabError, Measured
from labs.fabric_program import program_of
from simulator.result_reader import ResultFolder
from simulator.runner import Outcome, Simulation
from topologies.document import Document
from topologies.model import Role, Topology
from workloads.loader import run_of
from workloads.model import RunFile, Traffic
from workloads.plan import plan
from workloads.randomness import Random

PS_PER_MS = 10**9
COPY = "copy"
COPIED = "200MB"
"""By each of the hosts that are not the job's; the far ones take it."""


def run_file(context: Context) -> RunFile:
    """Return the variant's run: ranks shuffled in each place by the seed, a copy where it has one.

    Leaves' last hosts are left over for the copy, from the first place to the second.
    """
    mapping = json.loads(json.dumps(context.mapping))
    job = mapping["job"]
    each = inside(job["phases"])
    hosts = places(_read(mapping, context).topology, each)
    random = Random(context.seed, "places")
    job["placement"] = [name for of_job, _ in hosts for name in random.shuffled(of_job)]
    if context.variant.labels["load"] == COPY:
        mapping["traffic"] = list(_copies(hosts[0][1], hosts[1][1], context))
    return _read(mapping, context)


def inside(phases: Sequence[dict[str, Any]]) -> int:
    """Return how many ranks are in each place."""
    found = {step["allreduce"]["inside"] for step in phases if "allreduce" in step}
    (each,) = found
    return int(each)


def places(topology: Topology, each: int) -> list[tuple[list[str], list[str]]]:
    """Return by data centre the job's hosts, `each` of them, and those left over at its leaves."""
    found: dict[str, tuple[list[str], list[str]]] = {}
    of_leaf: dict[str, int] = {}
    leaves = {leaf.name: leaf.group for leaf in topology.switches_with(Role.LEAF)}
    of_place = each * len(set(leaves.values())) // len(leaves)
    for host in topology.hosts:
        of_job, left = found.setdefault(leaves[host.switch], ([], []))
        of_leaf[host.switch] = of_leaf.get(host.switch, 0) + 1
        (of_job if of_leaf[host.switch] <= of_place else left).append(host.name)
    return list(found.values())


def _copies(near: Sequence[str], far: Sequence[str], context: Context) -> Iterator[dict[str, Any]]:
    random, own = Random(context.seed, COPY), context.settings
    first, within = own["copy_from_ms"] * 1000, own["copy_within_ms"] * 1000
    for source, target in zip(near, far, strict=True):
        start = f"{first + random.below(within)}us"
        message = {"from": source, "to": target, "bytes": COPIED, "start": start}
        yield {"message": message}


def _read(mapping: dict[str, Any], context: Context) -> RunFile:
    return run_of(Document("lab.yaml", mapping, {}), context.variant.name, context.folder)


def measure(context: Context) -> dict[str, Measured]:
    """Run one step of the job and return what it took."""
    run = run_file(context)
    try:
        traffic = plan(run, context.seed)
        program = program_of(context, run.topology)
        simulation = Simulation(run, program, seed=context.seed, traffic=traffic)
        outcome = simulation.run(context.out)
        found = dict(_step(context, traffic, outcome))
        found |= dict(_network(run.topology, ResultFolder(context.out), outcome))
        copies = [row for row in outcome.summary["jobs"] if row["kind"] == "traffic"]
        if copies:
            took = max(row["end_ps"] for row in copies) - min(row["start_ps"] for row in copies)
            found["copy"] = Measured(took / PS_PER_MS, "ms")
        return found
    finally:
        gc.collect()  # an engine is in a cycle, and holds more than Python knows of


def _step(context: Context, traffic: Traffic, outcome: Outcome) -> Iterator[tuple[str, Measured]]:
    rows = outcome.summary["jobs"]
    (job,) = [row for row in rows if row["kind"] == "job"]
    if job["duration_ps"] < 0:
        raise LabError(f"{context.variant.name}: the job did not end")
    phases = [row for row in rows if row["kind"] == "phase"]
    alone = sum(row["ideal_ps"] for row in phases)
    exposed = job["duration_ps"] - computed_ps(traffic, job["ranks"])
    yield "step", Measured(job["duration_ps"] / PS_PER_MS, "ms")
    yield "bound", Measured(job["ideal_ps"] / PS_PER_MS, "ms")
    yield "exposed", Measured(exposed / PS_PER_MS, "ms")
    yield "last bucket", Measured(phases[-1]["duration_ps"] / PS_PER_MS, "ms")
    yield "overlap, as the job has it", Measured(100 * overlap(context.mapping), "%")
    yield "hidden", Measured(100 * (1 - exposed / alone), "%")


def overlap(mapping: Mapping[str, Any]) -> float:
    """Return what share of the gradients' bytes has computing behind it in the same step."""
    phases = mapping["job"]["phases"]
    last = max(i for i, phase in enumerate(phases) if "compute" in phase)
    sizes = [(i, size_mb(phase)) for i, phase in enumerate(phases) if "allreduce" in phase]
    return sum(size for i, size in sizes if i < last) / sum(size for _, size in sizes)


def size_mb(phase: dict[str, Any]) -> float:
    """Return the size of a phase's buffer, which the lab writes in MB."""
    return float(phase["allreduce"]["bytes"].removesuffix("MB"))


def computed_ps(traffic: Traffic, ranks: int) -> int:
    """Return how long the rank computes that computes longest: its barriers' times together."""
    rows = traffic.messages.messages
    gaps = rows["gap_ps"][(rows["bytes"] == 0) & (rows["gap_ps"] > 0)].astype(np.int64)
    return int(gaps.reshape(-1, ranks).sum(axis=0).max())


def _network(
    topology: Topology, results: ResultFolder, outcome: Outcome
) -> Iterator[tuple[str, Measured]]:
    borders = {border.name for border in topology.switches_with(Role.BORDER)}
    queued = results.table("queues", ["node", "bytes"])
    at = [name in borders for name in queued["node"].to_pylist()]
    deep = queued["bytes"].to_numpy()[at]
    yield "longest queue at a border", Measured(int(deep.max(initial=0)) / 1e6, "MB")
    yield "pauses", Measured(outcome.summary["pauses"]["xoff_sent"])
    yield "sent again", Measured(outcome.summary["transport"]["repeated_packets"])
