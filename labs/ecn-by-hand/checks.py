"""The lab's runs: the learner's switch under random traffic and under DCQCN, in virtual time."""

from __future__ import annotations

import gc
import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from labs import Check, Context, Estimate, Figure, LabError, Measured, Table
from labs.drawing import drawing, where
from labs.grade import STARTER, reference
from labs.p4_switch import Hop
from labs.shares import queued, rates
from mechanisms.switch_programs import choose
from simulator.fabric import target_facts
from simulator.result_reader import ResultFolder
from simulator.runner import Outcome, Simulation
from topologies.document import Document
from topologies.own_program import ALL, OwnProgram
from workloads.loader import run_of
from workloads.model import RunFile

from . import theory
from .control_plane import Marking, Router, address, rows

LOADS = ("load-50", "load-70", "load-80", "load-90", "red-90")
UNMARKED, LOW, MIDDLE, HIGH = "unmarked", "low", "middle", "high"
RARE = ("load-50", "red-90")
"""Where so few packets are marked that chance in one run is more than 5 %."""
SENDERS = (UNMARKED, LOW, MIDDLE, HIGH)
RUN, QUEUE = "run.yaml", "queue.json"
PS_PER_MS = 1_000_000_000
PS_PER_S = 1_000_000_000_000
SLOT_BPS = 100_000_000_000
"""Of every link."""
GAP_BYTES = 24
"""Of preamble, checksum and gap, with each frame on the wire."""
POINTS = 400
"""Of a queue's course, in the figure."""


def marking_of(labels: Any) -> Marking:
    """Return the thresholds that a variant's labels name."""
    kmin, kmax = int(labels["kmin"]), int(labels["kmax"])
    return Marking.red(kmin, kmax, int(labels.get("most", 0)) / 100)


def measure_simulator(context: Context) -> dict[str, Measured]:
    """Run the variant in virtual time."""
    with tempfile.TemporaryDirectory(prefix="weft-ecn-") as scratch:
        try:
            run = with_program(run_of_variant(context), context, Path(scratch))
            programs = choose(run.topology, target_facts(run.topology)).programs
            simulation = Simulation(run, programs.program, seed=context.seed, programs=programs)
            outcome = simulation.run(context.out)
        finally:
            gc.collect()  # an engine is in a cycle, and holds more than Python knows of
    stats = outcome.end.flow_stats
    received = float(stats["received_packets"].sum())
    if not received:
        raise LabError(f"{context.variant.name}: no packet arrived")
    marked = float(stats["marked"].sum()) / received
    results = ResultFolder(context.out)
    if context.variant.name in SENDERS:
        return {"marked": Measured(100 * marked, "%"), **_senders(context, run, results)}
    return {
        "marked": Measured(100 * marked, "%"),
        **_load(context, outcome, run, results, marked),
    }


def run_of_variant(context: Context) -> RunFile:
    """Return run.yaml with the variant's traffic."""
    path = context.folder / RUN
    mapping = yaml.safe_load(path.read_text(encoding="utf-8"))
    own, name = context.settings, context.variant.name
    count = own["senders"] if name in SENDERS else own["links"]
    senders = [f"h{n}" for n in range(2, count + 2)]
    mapping["topology"]["hosts"] = count + 1
    if name in SENDERS:
        mapping["transport"] = {
            "congestion_control": "dcqcn", "parameters": "hpcc-dcqcn", "window": own["window"],
        }  # fmt: skip
        mapping["clocks"] = {"ppm": 50}
        mapping["traffic"] = [{"incast": {"to": "h1", "from": senders, "persistent": True}}]
    else:
        each = f"{SLOT_BPS * int(context.variant.labels['load']) // (100 * count) // 1000}kbps"
        mapping["traffic"] = [
            {"poisson": {"from": senders, "to": "h1", "rate": each, "payload": "1024B"}}
        ]
    return run_of(Document(str(path), mapping, {}), name, context.folder)


def with_program(run: RunFile, context: Context, folder: Path) -> RunFile:
    """Return the run with the variant's program and entries; both are written to `folder`."""
    topology = run.topology
    (switch,) = topology.switches
    program = folder / "program.p4"
    program.write_text(_source_of(context), encoding="utf-8")
    hosts = {
        address(str(host.address.ip)): Hop(host.port, int(host.mac.replace(":", ""), 16))
        for host in topology.hosts
    }
    marking = {topology.hosts[0].port: marking_of(context.variant.labels)}
    router = Router(int(switch.mac.replace(":", ""), 16), hosts, marking)
    entries = folder / "commands.txt"
    entries.write_text("".join(f"{row.command}\n" for row in rows(router)), encoding="utf-8")
    own = OwnProgram(
        programs=((ALL, str(program)),),
        entries=((switch.name, str(entries)),),
        controller="none",
        static_arp=True,
        bmv2_units=True,
    )
    return replace(run, topology=replace(topology, own=own))


def _source_of(context: Context) -> str:
    """Return the variant's program: the starter, the reference, or what `--p4` names."""
    if context.variant.name == UNMARKED:
        return (context.folder / STARTER).read_text(encoding="utf-8")
    if not context.program.given:
        return reference(context.folder)
    assert context.program.path is not None
    return context.program.path.read_text(encoding="utf-8")


def _load(
    context: Context, outcome: Outcome, run: RunFile, results: ResultFolder, marked: float
) -> dict[str, Measured]:
    """Compare queue and marks of random traffic with theory, at the load that really came."""
    host = run.topology.hosts[0]
    assert run.until_ps is not None
    port = outcome.end.switches[host.switch].ports[host.port]
    sent = port["tx_bytes"] + GAP_BYTES * port["tx_packets"]
    load = sent * 8 * PS_PER_S / run.until_ps / SLOT_BPS
    table = results.table("queues", ["node", "port", "packets"])
    here = (np.array(table["node"].to_pylist()) == host.switch) & (
        table["port"].to_numpy() == host.port
    )
    mean = float(table["packets"].to_numpy()[here].sum()) / (run.until_ps / results.sample_ps)
    expected = theory.mean_queue(load, context.settings["links"])
    share = theory.marked_share(load, marking_of(context.variant.labels))
    return {
        "mean queue": Measured(mean, "packets"),
        "mean queue over theory": Measured(mean / expected, "x"),
        "marked over theory": Measured(marked / share, "x"),
    }


def _senders(context: Context, run: RunFile, results: ResultFolder) -> dict[str, Measured]:
    """Measure queue and goodput of DCQCN once it has settled."""
    host = run.topology.hosts[0]
    assert run.until_ps is not None
    first = context.settings["warm_up_ms"] * PS_PER_MS
    waits = queued(results, host.switch, host.port, first, run.until_ps)
    course = queued(results, host.switch, host.port, 0, run.until_ps)
    every = max(1, len(course) // POINTS)
    (context.out / QUEUE).write_text(json.dumps((course[::every] / 1000).tolist()))
    goodput = rates(results, context.settings["senders"], first, run.until_ps).sum()
    return {
        "goodput": Measured(float(goodput), "Gb/s"),
        "mean wait": Measured(float(waits.mean()) * 8 / SLOT_BPS * 1e6, "us"),
        "99th percentile wait": Measured(
            float(np.percentile(waits, 99)) * 8 / SLOT_BPS * 1e6, "us"
        ),
    }


def checks(table: Table) -> Iterator[Check]:
    """Yield what a learner should see."""
    for variant in LOADS:
        for metric in ("mean queue over theory", "marked over theory"):
            estimate = _of(table, variant, metric)
            if metric.startswith("marked") and variant in RARE:
                yield Check.reported(f"{metric}, {variant}", estimate, "x")
            else:
                yield Check.within(f"{metric}, {variant}", estimate, 0.95, 1.05, "x")
    goodput, wait = "goodput", "mean wait"
    yield Check.at_most(f"{goodput}, {LOW}", _of(table, LOW, goodput), 90, "Gb/s")
    for variant in (MIDDLE, HIGH, UNMARKED):
        yield Check.at_least(f"{goodput}, {variant}", _of(table, variant, goodput), 95, "Gb/s")
    yield Check.within(f"{wait}, {MIDDLE}", _of(table, MIDDLE, wait), 30, 130, "us")
    yield Check.at_least(f"{wait}, {HIGH}", _of(table, HIGH, wait), 200, "us")
    yield Check.at_least(f"{wait}, {UNMARKED}", _of(table, UNMARKED, wait), 1000, "us")


def _of(table: Table, variant: str, metric: str) -> Callable[[], Estimate]:
    return lambda: table.estimate(variant, metric)


def figures(table: Table, out: Path) -> Iterator[Figure]:
    """Queue and marks by load beside theory, and the queue under three pairs of thresholds."""
    yield from _load_figure(table, out)
    yield from _queue_figure(table, out)


def _load_figure(table: Table, out: Path) -> Iterator[Figure]:
    ran = [each for each in table.variants() if each.name in LOADS and "most" not in each.labels]
    if not ran:
        return
    runs = [run for each in ran for run in table.runs(each)]
    links = 40
    loads = np.linspace(0.3, 0.93, 64)
    path = out / "load.png"
    with drawing(path, where(table)) as figure:
        left, right = figure.subplots(1, 2)
        for axes, metric, curve in (
            (left, "mean queue", [theory.mean_queue(x, links) for x in loads]),
            (right, "marked", [100 * theory.marked_share(x, Marking(2, 2)) for x in loads]),
        ):
            axes.plot(100 * loads, curve, color="0.6", linewidth=3, label="theory")
            at = [int(run.variant.labels["load"]) for run in runs]
            axes.plot(at, [run.metrics[metric].value for run in runs], "o", label="runs, each seed")
            axes.set_xlabel("load [%]")
            axes.set_ylabel("packets that wait" if axes is left else "packets marked [%]")
        left.legend()
    yield Figure(path, "Mean queue, and packets that leave more than 2 behind, beside theory.")


def _queue_figure(table: Table, out: Path) -> Iterator[Figure]:
    ran = [each for each in table.variants() if each.name in (LOW, MIDDLE, HIGH)]
    if not ran:
        return
    path = out / "queue.png"
    with drawing(path, where(table)) as figure:
        axes = figure.subplots()
        for each in ran:
            run = table.runs(each)[0]
            course = json.loads((run.folder / QUEUE).read_text())
            axes.plot(np.linspace(0, 40, len(course)), course, label=each.title)
        axes.set_yscale("symlog", linthresh=10)
        axes.set_xlabel("virtual time [ms]")
        axes.set_ylabel("queue [kB]")
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncol=3, frameon=False)
    yield Figure(path, "The queue in front of the receiver, 8 DCQCN senders, the first seed.")
