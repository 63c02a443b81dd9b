"""What the job came to in each variant: the weights of all ranks, and how their sums were made."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import topologies
from emulation.switch_node import Target
from experiments.api import Finished, Runtime
from experiments.training.fabric import brought_up
from experiments.training.faults import fault
from experiments.training.job import Training, Transport
from experiments.training.run import Request, Seen, train
from labs import Check, Context, Figure, LabError, Measured, NotRunError, Table
from labs.drawing import drawing, where

SEEN = "job.json"
FIRST = "undisturbed"
EXACT = (
    "losses", "spine-dies", "blackout", "ring", "ring-spine-dies", "rdma", "rdma-spine-dies",
)  # fmt: skip
"""Variants whose weights have to be those of the first, bit for bit."""

BMV2, EMBEDDED, BY_RING = "one-level", "one-level-embedded", "one-level-ring"
"""What runs on BMv2: one leaf that adds, the same leaf in our switch, the ring."""


def measure_live(context: Context) -> dict[str, Measured]:
    """Train as the variant says. Raises LabError where the job failed."""
    own, labels = context.settings, context.variant.labels
    steps, name = own["steps"], own["leaf" if "switch" in labels else "topology"]
    topology = topologies.load(name).with_time_scale(context.time_scale)
    texts = {"none": [], "kill": [own["kill"]], "blackout": own["blackout"]}[labels["fault"]]
    request = Request(
        Transport(labels["adds"]),
        Training(steps=steps, seed=context.seed),
        loss=own["loss"] if labels["loss"] == "some" else None,
        faults=tuple(fault(text, topology) for text in texts),
        give_up_s=own["give_up_s"],
    )
    program = context.program if context.program.given else None

    def step(what: str) -> None:
        context.tell(0.0, what)

    def tell(done: int, loss: float) -> None:
        context.tell((done + 1) / steps, f"loss {loss:.2f}")

    target = Target(labels.get("switch", context.runtime.value))
    with brought_up(topology, target, step, lambda text: None, program) as fabric:
        seen = train(request, fabric, tell)
    (context.out / SEEN).write_text(json.dumps(asdict(seen), indent=1))
    if seen.failures:
        raise LabError(f"{context.variant.name}: {seen.failures[0]}")
    return _metrics(seen, steps)


def _metrics(seen: Seen, steps: int) -> dict[str, Measured]:
    calls = [each.calls for each in seen.ranks if each.calls is not None]
    return {
        "steps missing": Measured(steps - len(seen.steps)),
        "weights that differ between ranks": Measured(
            sum(each.sha256 != seen.ranks[0].sha256 for each in seen.ranks)
        ),
        "digits known": Measured(100 * seen.ranks[0].accuracy, "%"),
        "step": Measured(statistics.median(each.ns for each in seen.steps) / 1e6, "ms (real)"),
        "longest step": Measured(max(each.ns for each in seen.steps) / 1e6, "ms (real)"),
        "collectives by switches": Measured(min((c["by_tree"] for c in calls), default=0)),
        "collectives by the ring": Measured(max((c["by_ring"] for c in calls), default=0)),
        "packets repeated": Measured(sum(_repeated(c) for c in calls)),
    }


def _repeated(calls: dict[str, Any]) -> int:
    """Return what a rank's worker sent again, or its card."""
    return int(calls["tree"].get("repeated", 0) + calls["ring"].get("repeated_packets", 0))


def checks(table: Table) -> Iterator[Check]:
    """Yield the checks: the same weights everywhere, and sums made as the variant says."""
    for variant in table.variants():
        for metric in ("weights that differ between ranks", "steps missing"):
            row = f"{variant.name}: {metric}"
            yield Check.at_most(row, partial(table.estimate, variant.name, metric), 0)
    yield from (_one_level if table.runtime is Runtime.BMV2 else _two_levels)(table)


def _one_level(table: Table) -> Iterator[Check]:
    """BMv2 adds, and it comes to what our switch and the ring come to."""
    for name in (EMBEDDED, BY_RING):
        row, expected = f"{name}: weights as {BMV2}", "the same SHA-256"
        yield Check.that(row, expected, partial(_same, table, name, BMV2))
    for name in (BMV2, EMBEDDED):
        row = f"{name}: collectives by the ring"
        yield Check.at_most(row, partial(table.estimate, name, "collectives by the ring"), 0)
        row = f"{name}: collectives by switches"
        yield Check.at_least(row, partial(table.estimate, name, "collectives by switches"), 1)
    for name in (BMV2, EMBEDDED, BY_RING):
        yield Check.reported(f"{name}: step", partial(table.estimate, name, "step"), "ms (real)")


def _two_levels(table: Table) -> Iterator[Check]:
    for name in EXACT:
        row, expected = f"{name}: weights as undisturbed", "the same SHA-256"
        yield Check.that(row, expected, partial(_same, table, name, FIRST))
    for name in (FIRST, "losses", "spine-dies"):
        row = f"{name}: collectives by the ring"
        yield Check.at_most(row, partial(table.estimate, name, "collectives by the ring"), 0)
    for name in ("losses", "spine-dies"):
        row = f"{name}: packets repeated"
        yield Check.at_least(row, partial(table.estimate, name, "packets repeated"), 1)
    row = "blackout: collectives by the ring"
    yield Check.at_least(row, partial(table.estimate, "blackout", "collectives by the ring"), 1)
    row = "undisturbed: digits known"
    yield Check.at_least(row, partial(table.estimate, FIRST, "digits known"), 50, "%")
    for name in (FIRST, *(name for name in EXACT if name != "blackout"), "gloo"):
        yield Check.reported(f"{name}: step", partial(table.estimate, name, "step"), "ms (real)")


def _same(table: Table, variant: str, other: str) -> bool:
    return _weights(table, variant) == _weights(table, other)


def _seen(run: Finished) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run.folder / SEEN).read_text())
    return found


def _weights(table: Table, variant: str) -> dict[int, str]:
    """Return the hash of the weights by seed. Raises NotRunError."""
    runs = table.runs(variant)
    if any(run.failure for run in runs):
        raise NotRunError(variant, failed=True)
    return {run.seed: _seen(run)["ranks"][0]["sha256"] for run in runs}


def figures(table: Table, out: Path) -> Iterator[Figure]:
    """One figure: the loss over steps, and how long each step took."""
    with drawing(out / "training.png", where(table)) as figure:
        above, below = figure.subplots(2, 1, sharex=True)
        for variant in table.variants():
            for run in [each for each in table.runs(variant) if not each.failure][:1]:
                steps = _seen(run)["steps"]
                numbers = [each["step"] for each in steps]
                above.plot(numbers, [each["loss"] for each in steps], label=variant.name)
                below.plot(numbers, [each["ns"] / 1e6 for each in steps], label=variant.name)
        above.set_ylabel("loss")
        below.set_ylabel("step, ms of real time")
        below.set_yscale("log")
        below.set_xlabel("step")
        above.legend(fontsize="small")
    yield Figure(
        out / "training.png",
        "Above, curves of variants with the same weights lie on one another: that is the point. "
        "Below, what faults cost.",
    )
