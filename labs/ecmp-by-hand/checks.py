"""The lab's runs: the learner's routers in a fat tree, in virtual time."""

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

from controller.program import CompiledProgram
from labs import Check, Context, Estimate, Figure, LabError, Measured, Table
from labs.drawing import drawing, where
from labs.grade import STARTER, reference
from mechanisms.program import FABRIC
from mechanisms.switch_programs import choose, compile_for
from simulator.fabric import target_facts
from simulator.runner import Outcome, Simulation
from topologies.document import Document
from workloads.loader import run_of
from workloads.model import RunFile

from .fabric import second_tier, seeds_of, with_program

STARTS, ONE_SEED, OWN_SEEDS, SHIPPED = "starter", "one-seed", "own-seeds", "shipped"
FIVE_FIELDS, QUEUE_PAIRS, FEW_LARGE = "five-fields", "queue-pairs", "few-large"
RUN, SHARES = "run.yaml", "shares.json"
HOSTS, POD = 16, 4
ONE_PORT = 50_000
"""The UDP source port of all flows where ports tell none apart."""
PS_PER_US = 1_000_000
SLOW = 1.5
"""A flow that takes so many times the shortest of its run is called slow."""


def measure_simulator(context: Context) -> dict[str, Measured]:
    """Run the variant in virtual time."""
    with tempfile.TemporaryDirectory(prefix="weft-ecmp-") as scratch:
        try:
            outcome, run = _simulated(context, Path(scratch))
        finally:
            gc.collect()  # an engine is in a cycle, and holds more than Python knows of
    times = outcome.end.message_times
    done, ready = (times[name].astype(np.int64) for name in ("done", "ready"))
    if (done < 0).any():
        raise LabError(f"{context.variant.name}: {(done < 0).sum()} messages did not end")
    took = (done - ready) / PS_PER_US
    switches = outcome.end.switches
    ports = second_tier(run.topology)
    sent = np.array([float(switches[name].ports[port]["tx_bytes"]) for name, port in ports])
    shares = sent / sent.mean()
    (context.out / SHARES).write_text(json.dumps(sorted(shares.tolist(), reverse=True)))
    return {
        "links used": Measured(100 * float((sent > sent.mean() / 100).mean()), "%"),
        "busiest link": Measured(float(shares.max()), "x"),
        "all flows took": Measured(float(took.max()), "us"),
        "slow flows": Measured(100 * float((took >= SLOW * took.min()).mean()), "%"),
        "slowest flow": Measured(float(took.max() / took.min()), "x"),
    }


def run_of_variant(context: Context) -> RunFile:
    """Return run.yaml with the variant's traffic, drawn by the seed."""
    path = context.folder / RUN
    mapping = yaml.safe_load(path.read_text(encoding="utf-8"))
    mapping["traffic"] = list(_traffic(context))
    return run_of(Document(str(path), mapping, {}), context.variant.name, context.folder)


def _traffic(context: Context) -> Iterator[dict[str, Any]]:
    """Yield flows to hosts of other pods: a permutation if each host has one, else at random."""
    random = Random(f"ECMP traffic {context.seed}")
    own, name = context.settings, context.variant.name
    if name in (FEW_LARGE, FIVE_FIELDS, QUEUE_PAIRS):
        large = name == FEW_LARGE
        for host, to in enumerate(_permutation(random)):
            port = random.randrange(1 << 15, 1 << 16) if large else ONE_PORT
            for _ in range(1 if large else own["flows"]):
                yield _message(host, to, own["few_bytes" if large else "bytes"], port)
        return
    for host in range(HOSTS):
        for _ in range(own["flows"]):
            to = (host + POD - host % POD + random.randrange(HOSTS - POD)) % HOSTS
            yield _message(host, to, own["bytes"], random.randrange(1 << 15, 1 << 16))


def _permutation(random: Random) -> list[int]:
    """Draw who sends to whom: each receives from one host of another pod."""
    shift = POD * random.randrange(1, HOSTS // POD)
    order = random.sample(range(POD), POD)
    return [(host // POD * POD + order[host % POD] + shift) % HOSTS for host in range(HOSTS)]


def _message(host: int, to: int, size: str, port: int) -> dict[str, Any]:
    hosts = {"from": f"h{host + 1}", "to": f"h{to + 1}"}
    return {"message": {**hosts, "bytes": size, "udp_port": port}}


def _simulated(context: Context, scratch: Path) -> tuple[Outcome, RunFile]:
    run = run_of_variant(context)
    name = context.variant.name
    if name == SHIPPED:
        program = CompiledProgram.of(compile_for(run.topology)(FABRIC), FABRIC)
        simulation = Simulation(run, program, seed=context.seed)
    else:
        source = scratch / "program.p4"
        source.write_text(_source_of(context), encoding="utf-8")
        seeds = seeds_of(run.topology, context.seed, alike=name == ONE_SEED)
        run = with_program(run, source, scratch, seeds, queue_pairs=name != FIVE_FIELDS)
        programs = choose(run.topology, target_facts(run.topology)).programs
        simulation = Simulation(run, programs.program, seed=context.seed, programs=programs)
    return simulation.run(context.out), run


def _source_of(context: Context) -> str:
    """Return the variant's program: the starter, the reference, or what `--p4` names."""
    if context.variant.name == STARTS:
        return (context.folder / STARTER).read_text(encoding="utf-8")
    if not context.program.given:
        return reference(context.folder)
    assert context.program.path is not None
    return context.program.path.read_text(encoding="utf-8")


def checks(table: Table) -> Iterator[Check]:
    """Yield what a learner should see."""
    used = "links used"
    yield Check.at_most(f"{used}, {STARTS}", _of(table, STARTS, used), 25, "%")
    yield Check.at_most(f"{used}, {ONE_SEED}", _of(table, ONE_SEED, used), 50, "%")
    yield Check.at_least(f"{used}, {OWN_SEEDS}", _of(table, OWN_SEEDS, used), 100, "%")
    yield Check.reported(f"{used}, {SHIPPED}", _of(table, SHIPPED, used), "%")
    took = "all flows took"
    for below, above in ((OWN_SEEDS, ONE_SEED), (QUEUE_PAIRS, FIVE_FIELDS)):
        yield Check.at_most(f"{took}, {below} over {above}", _ratio(table, below, above), 1)
    for metric, unit in (("slow flows", "%"), ("slowest flow", "x")):
        yield Check.reported(f"{metric}, {FEW_LARGE}", _of(table, FEW_LARGE, metric), unit)


def _of(table: Table, variant: str, metric: str) -> Callable[[], Estimate]:
    return lambda: table.estimate(variant, metric)


def _ratio(table: Table, above: str, below: str) -> Callable[[], Estimate]:
    return lambda: table.paired(above, below, "all flows took")


def figures(table: Table, out: Path) -> Iterator[Figure]:
    """Draw what each link of the second tier carries."""
    chosen = [
        variant for variant in table.variants() if variant.name in (STARTS, ONE_SEED, OWN_SEEDS)
    ]
    shares = {
        variant.title: [
            json.loads((run.folder / SHARES).read_text()) for run in table.runs(variant)
        ]
        for variant in chosen
    }
    shares = {title: rows for title, rows in shares.items() if rows}
    if not shares:
        return
    path = out / "links.png"
    with drawing(path, where(table)) as figure:
        plots = figure.subplots(1, len(shares), sharey=True, squeeze=False)[0]
        for axes, (title, rows) in zip(plots, shares.items(), strict=True):
            axes.bar(range(1, len(rows[0]) + 1), np.median(rows, axis=0))
            axes.axhline(1, linestyle=":", color="0.4", linewidth=1)
            axes.set_title(title, fontsize=9)
            axes.set_xticks(range(1, len(rows[0]) + 1, 3))
            axes.set_xlabel("links from spines to cores, busiest first")
        plots[0].set_ylabel("bytes sent, relative to an even share")
    yield Figure(
        path,
        "What each link of the second tier carries, medians over seeds; dotted: an even share.",
    )
