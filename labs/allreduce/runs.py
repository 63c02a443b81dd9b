"""A variant's run: its jobs, its trouble as the seed draws it, and what came of both."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

from controller.program import CompiledProgram
from labs import Context, LabError, Measured
from mechanisms.allreduce.trees import JobPlan, plan_of
from mechanisms.program import FABRIC
from mechanisms.switch_programs import compile_for
from simulator.runner import Outcome, Simulation
from topologies.document import Document
from topologies.model import Topology
from workloads.loader import run_of
from workloads.model import RunFile

PS_PER_US = 1_000_000
PS_PER_NS = 1000
NS_PER_US = 1000
BYTES_PER_MB = 1_000_000


def run_file(context: Context) -> RunFile:
    """Return the variant's run with its trouble."""
    mapping = json.loads(json.dumps(context.mapping))
    labels = context.variant.labels
    if "trouble" in labels:
        plain = _read(mapping, context)
        mapping["events"] = list(_events(plain.topology, labels["trouble"], context))
    return _read(mapping, context)


def _read(mapping: dict[str, Any], context: Context) -> RunFile:
    return run_of(Document("lab.yaml", mapping, {}), context.variant.name, context.folder)


def _events(topology: Topology, trouble: str, context: Context) -> Iterator[dict[str, Any]]:
    if trouble == "loss":
        for link in topology.links:
            yield {"at": "0us", "link": f"{link.a}-{link.b}", "loss": context.settings["loss"]}
        return
    at = f"{context.settings['fault_us'] + context.seed}us"
    tree = _job(topology).trees[0]
    if trouble == "root":
        yield {"at": at, "switch": tree.root, "do": "kill"}
    else:
        links = sorted(f"{link.a}-{link.b}" for link in tree.links)
        yield {"at": at, "link": Random(context.seed).choice(links), "do": "down"}


def _job(topology: Topology) -> JobPlan:
    return next(iter(plan_of(topology).jobs.values()))


def measure(context: Context) -> dict[str, Measured]:
    """Run it and return what it took."""
    run = run_file(context)
    try:
        simulation = Simulation(run, _program(context, run.topology), seed=context.seed)
        return _measured(context, run, simulation.run(context.out))
    finally:
        gc.collect()  # an engine is in a cycle, and holds more than Python knows of


def _program(context: Context, topology: Topology) -> CompiledProgram:
    """Return the lab's program, with slots and lanes as the run needs them, or the user's own."""
    if context.program.path not in (None, FABRIC):
        return context.program
    return CompiledProgram.of(compile_for(topology)(FABRIC), FABRIC)


def _measured(context: Context, run: RunFile, outcome: Outcome) -> dict[str, Measured]:
    jobs = [row for row in outcome.summary["jobs"] if row["kind"] == "job"]
    took = [row["duration_ps"] for row in jobs]
    if min(took) < 0:
        raise LabError(f"{context.variant.name}: an AllReduce did not end")
    if "spread" in context.variant.labels:
        ports = outcome.end.host_ports.values()
        moved = sum(_count(each, "tx_bytes") + _count(each, "rx_bytes") for each in ports)
        return {
            "took": Measured(max(took) / PS_PER_US, "us"),
            "on hosts' links": Measured(moved / BYTES_PER_MB, "MB"),
        }
    metrics = {
        "AllReduce": Measured(max(took) / PS_PER_US, "us"),
        "of the bound": Measured(
            min(100 * row["ideal_ps"] / row["duration_ps"] for row in jobs), "%"
        ),
    }
    workers = _counters(outcome, "allreduce")
    if workers:
        metrics |= {
            "stall": Measured(max(each["longest gap, ns"] for each in workers) / NS_PER_US, "us"),
            "repeated": Measured(sum(each["repeated"] + each["sent again"] for each in workers)),
            "moves": Measured(sum(each["moves"] for each in workers)),
            "wrong sums": Measured(sum(each["wrong"] for each in workers)),
        }
    if "shared" in context.variant.labels:
        rates = [8 * _buffer(run) / each * PS_PER_NS for each in took]
        metrics["a job's throughput"] = Measured(sum(rates) / len(rates), "Gb/s")
    servers = _counters(outcome, "allreduce_server")
    if servers:
        whole, all_of = (sum(each[name] for each in servers) for name in ("whole", "results"))
        metrics["summed by the switch alone"] = Measured(100 * whole / all_of, "%")
    return metrics


def _buffer(run: RunFile) -> int:
    """Return the bytes that each job of a run sums; they are the same."""
    step = run.jobs[0].phases[0].allreduce
    assert step is not None
    return step.bytes


def _counters(outcome: Outcome, program: str) -> list[Any]:
    return [each["counters"] for each in outcome.end.programs if each["program"] == program]


def _count(port: Mapping[str, int | Sequence[int]], name: str) -> int:
    found = port[name]
    assert isinstance(found, int)
    return found
