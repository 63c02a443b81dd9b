"""The lab's runs: the learner's leaves beside the fabric's own, in virtual time and over links."""

from __future__ import annotations

import gc
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import yaml
from google.protobuf import text_format
from numpy.typing import NDArray

from compiler import compile_p4
from controller.program import CompiledProgram
from labs import Check, Context, Estimate, Figure, LabError, Measured, Table
from labs.drawing import drawing, lines, where
from labs.grade import STARTER, reference
from mechanisms.program import FABRIC
from mechanisms.switch_programs import choose, compile_for
from simulator.fabric import target_facts
from simulator.runner import Outcome, Simulation
from softswitch.p4runtime.pipeline import Pipeline, prepare
from softswitch.p4runtime.protos import p4i
from topologies.document import Document
from workloads.loader import run_of
from workloads.model import RunFile

from .fabric import with_program

ECMP, SHIPPED, STARTS = "ecmp", "shipped", "starter"
BY_HAND, SHORT_GAP, NO_GAP = "by-hand", "short-gap", "no-gap"
OF_THE_FABRIC = (ECMP, SHIPPED)
RUN, FLOWS = "run.yaml", "flows.json"
BY_WAY = "by-way.json"
WAYS = 4
BURSTS = 16
"""Flows of run.yaml with pauses: a host each, before all others."""
ATTEMPTS = 3
"""A run in which the machine held packets up, or lost some, is played again, so often in all.

BMv2 loses some where it does not run for long. A program that loses packets loses them again.
"""
MOST_HELD_UP = 0.1
Numbers = NDArray[Any]
PS_PER_US = 1_000_000
NS_PER_US = 1000


def source_of(context: Context) -> str:
    """Return the variant's program: the starter, the reference, or what `--p4` names."""
    if context.variant.name == STARTS:
        return (context.folder / STARTER).read_text(encoding="utf-8")
    if not context.program.given:
        return reference(context.folder)
    assert context.program.path is not None
    return context.program.path.read_text(encoding="utf-8")


def measure_simulator(context: Context) -> dict[str, Measured]:
    """Run the variant in virtual time."""
    with tempfile.TemporaryDirectory(prefix="weft-flowlets-") as scratch:
        try:
            outcome, flows = _simulated(context, Path(scratch))
        finally:
            gc.collect()  # an engine is in a cycle, and holds more than Python knows of
    times = outcome.end.message_times
    done, ready = (times[name].astype(np.int64) for name in ("done", "ready"))
    if (done < 0).any():
        raise LabError(f"{context.variant.name}: {(done < 0).sum()} messages did not end")
    took = (done - ready) / PS_PER_US
    bursts = flows < BURSTS
    of_flow = np.bincount(flows[bursts], took[bursts])
    (context.out / FLOWS).write_text(json.dumps(sorted(of_flow.tolist())))
    stats = outcome.end.flow_stats
    return {
        "slowest flow": Measured(float(of_flow.max()), "us"),
        "mean flow": Measured(float(of_flow.mean()), "us"),
        "out of order": Measured(float(stats["out_of_order"].sum())),
        "of packets": Measured(float(stats["received_packets"].sum())),
    }


def run_of_variant(context: Context) -> RunFile:
    """Return run.yaml, with the fabric's own flowlets in the variant that is about them."""
    path = context.folder / RUN
    mapping = yaml.safe_load(path.read_text(encoding="utf-8"))
    if context.variant.name == SHIPPED:
        policy = {"policy": "flowlet", "gap": f"{context.settings['gap_us']}us"}
        mapping["topology"]["classes"]["roce"]["load_balancing"] = policy
    return run_of(Document(str(path), mapping, {}), context.variant.name, context.folder)


def _simulated(context: Context, scratch: Path) -> tuple[Outcome, Numbers]:
    """Run it; also return which flow each message is of."""
    run = run_of_variant(context)
    if context.variant.name in OF_THE_FABRIC:
        program = CompiledProgram.of(compile_for(run.topology)(FABRIC), FABRIC)
        simulation = Simulation(run, program, seed=context.seed)
    else:
        source = scratch / "program.p4"
        source.write_text(source_of(context), encoding="utf-8")
        run = with_program(run, source, _gap_us(context) * NS_PER_US, scratch)
        programs = choose(run.topology, target_facts(run.topology)).programs
        simulation = Simulation(run, programs.program, seed=context.seed, programs=programs)
    outcome = simulation.run(context.out)
    return outcome, simulation.traffic.messages.messages["flow"]


def _gap_us(context: Context) -> int:
    own = context.settings
    gaps = {SHORT_GAP: own["short_gap_us"], NO_GAP: 0}
    return int(gaps.get(context.variant.name, own["gap_us"]))


def pipeline_of(context: Context) -> Pipeline:
    """Return the variant's program, ready to run."""
    if context.variant.name != STARTS and context.program.given:
        info = text_format.Parse(context.program.p4info_text, p4i.P4Info())
        return prepare(info, context.program.json_text.encode())
    with tempfile.TemporaryDirectory(prefix="weft-flowlets-") as scratch:
        path = Path(scratch, "program.p4")
        path.write_text(source_of(context), encoding="utf-8")
        made = compile_p4(path)
    return prepare(made.p4info, made.json_text.encode())


def measure_live(context: Context) -> dict[str, Measured]:
    """Run one leaf in real time, slowed down by the time scale."""
    from .live_leaf import LiveLeaf, Plan  # the simulator does without

    own = context.settings
    gap_ns = own["gap_us"] * NS_PER_US * context.time_scale
    plan = Plan(own["flows"], own["flowlets"], own["packets"], gap_ns)
    pipeline = pipeline_of(context)
    for _ in range(ATTEMPTS):
        leaf = LiveLeaf(context.runtime, pipeline, plan, Random(context.seed))
        try:
            seen = leaf.play(lambda share: context.tell(share, ""))
        finally:
            leaf.close()
        if not seen.lost and seen.held_up <= seen.flowlets * MOST_HELD_UP:
            break
    (context.out / BY_WAY).write_text(json.dumps([seen.by_way[n] for n in range(WAYS)]))
    return {
        "flowlets": Measured(float(seen.flowlets)),
        "torn": Measured(float(seen.torn)),
        "held up": Measured(float(seen.held_up)),
        "moved after a pause": Measured(100 * seen.moved / max(1, seen.pauses), "%"),
        "packets": Measured(float(seen.sent)),
        "lost": Measured(float(seen.lost + seen.elsewhere)),
        "by a way that is down": Measured(float(seen.by_dead_way)),
        "busiest way": Measured(100 * max(seen.by_way.values(), default=0) / seen.sent, "%"),
        "answers lost": Measured(float(seen.answers - seen.returned)),
    }


def checks(table: Table) -> Iterator[Check]:
    """Yield the checks of what a learner should see."""
    if table.runtime.is_live:
        yield from _live_checks(table)
        return
    row = "packets out of order"
    for variant in (BY_HAND, STARTS, ECMP, SHIPPED):
        yield Check.at_most(f"{row}, {variant}", _of(table, variant, "out of order"), 0)
    for variant in (SHORT_GAP, NO_GAP):
        yield Check.at_least(f"{row}, {variant}", _of(table, variant, "out of order"), 1)
    row = "slowest flow"
    for variant in (ECMP, STARTS):
        yield Check.at_most(f"{row}, {BY_HAND} over {variant}", _ratio(table, BY_HAND, variant), 1)
    for below, above in ((SHIPPED, BY_HAND), (BY_HAND, NO_GAP)):
        yield Check.reported(f"{row}, {above} over {below}", _ratio(table, above, below))


def _live_checks(table: Table) -> Iterator[Check]:
    moved = "moved after a pause"
    yield Check.at_most(f"{STARTS}: {moved}", _of(table, STARTS, moved), 0, "%")
    yield Check.at_least(f"{BY_HAND}: {moved}", _of(table, BY_HAND, moved), 50, "%")
    for metric in ("torn", "lost", "by a way that is down", "answers lost"):
        yield Check.at_most(f"{BY_HAND}: {metric}", _of(table, BY_HAND, metric), 0)
    yield Check.at_most(
        f"{BY_HAND}: busiest way", _of(table, BY_HAND, "busiest way"), 40, "%",
        note="25 % would be even; one of four is down for the last flowlets",
    )  # fmt: skip
    yield Check.reported(f"{STARTS}: busiest way", _of(table, STARTS, "busiest way"), "%")


def _of(table: Table, variant: str, metric: str) -> Callable[[], Estimate]:
    return lambda: table.estimate(variant, metric)


def _ratio(table: Table, above: str, below: str) -> Callable[[], Estimate]:
    return lambda: table.paired(above, below, "slowest flow")


def figures(table: Table, out: Path) -> Iterator[Figure]:
    """How flows fare by variant, or which way packets took."""
    if table.runtime.is_live:
        yield from _live_figure(table, out)
        return
    times: dict[str, list[float]] = {}
    for run in table:
        path = run.folder / FLOWS
        if path.is_file():
            times.setdefault(run.variant.title, []).extend(json.loads(path.read_text()))
    if not times:
        return
    path = out / "flows.png"
    with drawing(path, where(table)) as figure:
        axes = figure.subplots()
        curves = {
            name: (sorted(took), [100 * (n + 1) / len(took) for n in range(len(took))])
            for name, took in times.items()
        }
        lines(axes, curves, steps=True)
        axes.set_xlabel("what a flow's 20 messages took together [us]")
        axes.set_ylabel("flows [%]")
    yield Figure(path, "How many of the flows with pauses took so long or less, all seeds.")


def _live_figure(table: Table, out: Path) -> Iterator[Figure]:
    counts: dict[str, list[int]] = {}
    for run in table:
        path = run.folder / BY_WAY
        if path.is_file():
            counts[run.variant.title] = json.loads(path.read_text())
    if not counts:
        return
    path = out / "ways.png"
    with drawing(path, where(table)) as figure:
        axes = figure.subplots()
        width = 0.8 / len(counts)
        for n, (name, by_way) in enumerate(counts.items()):
            axes.bar([way + n * width for way in range(WAYS)], by_way, width, label=name)
        axes.set_xticks(
            [way + 0.4 - width / 2 for way in range(WAYS)], [f"way {w}" for w in range(WAYS)]
        )
        axes.set_ylabel("packets")
        axes.legend()
    yield Figure(path, "By which way packets left; way 2 is down for the last fifth.")
