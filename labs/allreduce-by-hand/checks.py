"""The lab's runs: workers around the reference, or what `--p4` names; every sum is checked."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from random import Random

from google.protobuf import text_format

from compiler import compile_p4
from labs import Check, Context, Measured, Table
from labs.grade import reference
from softswitch.p4runtime.pipeline import Pipeline, prepare
from softswitch.p4runtime.protos import p4i

from .network import Faults, Network, Plan
from .star import LANES, WORKERS, started

UNDISTURBED, LOSS, DUPLICATES, EVERYTHING = "undisturbed", "loss", "duplicates", "everything"
VARIANTS = (UNDISTURBED, LOSS, DUPLICATES, EVERYTHING)
REPORT = "wrong.txt"
US = 1000


def pipeline_of(context: Context) -> Pipeline:
    """Return the program, ready to run: the reference, or what `--p4` names."""
    if context.program.given:
        info = text_format.Parse(context.program.p4info_text, p4i.P4Info())
        return prepare(info, context.program.json_text.encode())
    with tempfile.TemporaryDirectory(prefix="weft-allreduce-") as scratch:
        path = Path(scratch, "reference.p4")
        path.write_text(reference(context.folder), encoding="utf-8")
        made = compile_p4(path)
    return prepare(made.p4info, made.json_text.encode())


def plan_of(context: Context, random: Random) -> Plan:
    """Return what is summed in a variant, and what happens to packets."""
    own = context.settings
    return Plan(
        chunks=own["chunks"],
        first=random.randrange(1 << 32),
        faults=_faults(own["faults"][context.variant.name]),
        gbps=own["gbps"],
        delay_ns=own["delay_ns"],
        time_out_ns=own["time_out_us"] * US,
        until_ns=own["until_ms"] * 1000 * US,
    )


def _faults(given: Mapping[str, float]) -> Faults:
    return Faults(
        loss=given.get("loss", 0),
        twice=given.get("twice", 0),
        jitter_ns=int(given.get("jitter_us", 0) * US),
        late_ns=int(given.get("late_us", 0) * US),
    )


def measure_simulator(context: Context) -> dict[str, Measured]:
    """Run workers and switch in virtual time."""
    random = Random(context.seed)
    plan = plan_of(context, random)
    with started(pipeline_of(context), random) as star:
        outcome = Network(star, plan, random).run()
    lines = [*outcome.wrong, *outcome.unreadable, *([outcome.flood] if outcome.flood else [])]
    if lines:
        (context.out / REPORT).write_text("\n".join(lines) + "\n", encoding="utf-8")
    took = outcome.ended_ns
    bits = 32 * LANES * plan.chunks
    return {
        "took": Measured(None if took is None else took / US, "us"),
        "goodput": Measured(None if took is None else bits / took, "Gb/s"),
        "repeated": Measured(100 * outcome.repeated / outcome.sent, "%"),
        "wrong results": Measured(float(len(outcome.wrong))),
        "missing results": Measured(float(WORKERS * plan.chunks - outcome.results)),
        "unusable packets": Measured(float(len(outcome.unreadable))),
    }


def checks(table: Table) -> Iterator[Check]:
    """Yield the checks of what a learner should see."""
    for variant in VARIANTS:
        for metric in ("wrong results", "missing results", "unusable packets"):
            found = partial(table.estimate, variant, metric)
            yield Check.at_most(f"{variant}: {metric}", found, 0)
    yield Check.at_most(
        f"{UNDISTURBED}: contributions repeated", lambda: table.estimate(UNDISTURBED, "repeated"),
        0, "%", note="a time-out here is a result that did not come",
    )  # fmt: skip
    yield Check.at_least(
        f"{LOSS}: contributions repeated", lambda: table.estimate(LOSS, "repeated"), 5, "%"
    )
    for variant in VARIANTS[1:]:
        yield Check.reported(
            f"{variant}: time, over {UNDISTURBED}",
            partial(table.paired, variant, UNDISTURBED, "took"),
        )
