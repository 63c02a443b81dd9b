"""A variant in virtual time: an AllReduce and probes on a fabric of which a part dies."""

from __future__ import annotations

import gc
import json
from dataclasses import replace
from typing import Any

import numpy as np

from labs import Context, LabError, Measured
from simulator.flow_paths import FlowPaths
from simulator.prepared import PreparedFabric
from simulator.result_reader import ResultFolder
from simulator.runner import Outcome, Simulation
from topologies.document import Document
from topologies.model import Link
from workloads.loader import run_of
from workloads.model import RunFile
from workloads.plan import plan

from .faults import Fault, events, fault
from .gaps import Gaps

COURSE, FLOWS = "course.json", "flows.json"
PS_PER_US = 1_000_000


def run_file(context: Context, among: frozenset[Link] | None = None) -> tuple[RunFile, Fault]:
    """Return the variant's run with its fault, as the seed draws it, of links from `among`."""
    own, labels = dict(context.settings), context.variant.labels
    bare = context.run_file()
    repair = labels.get("repair") or labels["who"]  # the latter in the large fabric
    if "who" in labels:
        own["cut_us"] = own["large_cut_us"]
    kind = labels.get("fault") or labels["dies"]
    found = fault(bare.topology, kind, context.seed, among)
    mapping = json.loads(json.dumps(context.mapping))
    if context.time_scale > 1:  # in real time, or beside it
        own["cut_us"] = own["live_cut_us"]
        mapping["until"] = f"{own['live_until_us']}us"
    mapping["events"] = list(events(found, repair, own))
    for each in mapping.get("programs", ()):
        each["settings"] |= {"seed": context.seed, "after_ns": 1000 * own["cut_us"]}
    run = run_of(Document("lab.yaml", mapping, {}), context.variant.name, context.folder)
    return run, found


def probe_every_ns(run: RunFile) -> int:
    """Return the time between two datagrams of a probe's flow."""
    return int(run.programs[0].settings["every_ns"])


def measure(context: Context) -> dict[str, Measured]:
    """Run it and return what it cost."""
    prepared, used = _prepared(context)
    run, found = run_file(context, used)
    try:
        scale = context.time_scale
        until_ps = None if run.until_ps is None else run.until_ps * scale
        simulation = Simulation(
            replace(run, sample_ps=run.sample_ps * scale),
            context.program,
            seed=context.seed,
            until_ps=until_ps,
            time_scale=scale,
            prepared=prepared,
        )
        outcome = simulation.run(context.out)
        return _measured(context, run, found, outcome)
    finally:
        gc.collect()  # an engine is in a cycle, and holds more than Python knows of


def _prepared(context: Context) -> tuple[PreparedFabric | None, frozenset[Link] | None]:
    """Return the large fabric, set up, and the links that its job uses.

    A ring uses few of them, and a cut of another one would cost nothing. Any fabric else: None.
    """
    if "who" not in context.variant.labels:
        return None, None
    run = context.run_file()
    prepared = PreparedFabric(run, context.program, seed=context.seed)
    topology = prepared.set_up.topology
    traffic = plan(run, context.seed)
    paths = FlowPaths(topology, context.program, prepared.control.model.installed)
    try:
        found = paths.of(traffic, range(len(traffic.flows)))
    finally:
        paths.close()
    ends = {end for path in found.values() for end in path}
    used = (link for link in run.topology.links for end in (link.a, link.b)
            if (end.node, end.port) in ends)  # fmt: skip
    return prepared, frozenset(used)


def _measured(
    context: Context, run: RunFile, found: Fault, outcome: Outcome
) -> dict[str, Measured]:
    summary, scale = outcome.summary, context.time_scale
    metrics = _of_probes(context, run, found, outcome) if run.programs else {}
    metrics |= _of_job(run, outcome, scale)
    counts = summary.get("dpfr", {})
    if counts:
        metrics["found dead"] = Measured(counts["went_down"])
        metrics["notifications made"] = Measured(counts["notified"])
        metrics["rerouted packets"] = Measured(counts["rerouted"])
    _keep_course(context, scale)
    return metrics


def _of_probes(
    context: Context, run: RunFile, found: Fault, outcome: Outcome
) -> dict[str, Measured]:
    """Return for how long flows were cut off."""
    gaps = Gaps.of(outcome.end.programs, probe_every_ns(run))
    if not gaps.longest_ns:
        raise LabError(f"{context.variant.name}: no probe arrived")
    (context.out / FLOWS).write_text(json.dumps([found.says, dict(gaps.longest_ns)]))
    return {
        "blackout": Measured(gaps.blackout_us, "us"),
        "cut off for good": Measured(gaps.for_good),
        "lost probes": Measured(gaps.missing),
    }


def _of_job(run: RunFile, outcome: Outcome, scale: int) -> dict[str, Measured]:
    """Return what the AllReduce did, where there is one."""
    jobs = [row for row in outcome.summary["jobs"] if row["kind"] == "job"]
    if not jobs:
        return {}
    took = jobs[0]["duration_ps"]
    stats = outcome.end.transport_stats
    assert stats is not None, "the job has a transport"
    done = took is not None and took >= 0
    return {
        "AllReduce": Measured(took / scale / PS_PER_US if done else None, "us"),
        "failed queue pairs": Measured(int(np.count_nonzero(stats["failure"]))),
        "time-outs": Measured(int(stats["timeouts"].sum())),
        "repeated packets": Measured(int(stats["repeated_packets"].sum())),
    }


def _keep_course(context: Context, scale: int) -> None:
    """Keep what arrived over time, for the figure: bytes of the AllReduce in each sample."""
    table: Any = ResultFolder(context.out).table("flow_rates", ["at_ps", "bytes"])
    at_ps = table["at_ps"].to_numpy().astype(np.int64) // scale
    times, index = np.unique(at_ps, return_inverse=True)
    received: Any = np.bincount(index, weights=table["bytes"].to_numpy()) if len(times) else []
    course = [times.tolist(), [int(n) for n in received]]
    (context.out / COURSE).write_text(json.dumps(course))
