"""The lab's runs: the learner's header at all senders of seven networks, and others beside it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from hostagent.own_algorithm import ApartError, Built, apart
from labs import Check, Context, Estimate, Figure, LabError, Measured, Table
from labs.drawing import bars, drawing, lines, where
from labs.grade import reference, starter_of

from . import controls, headers, in_runs
from .cases import ALL, INCAST, JOIN, LEAVE, LOSSY, MICE, NEAR_FAR, TWO_LINKS, Case, Seen, jain
from .controls import Control

STARTS, OWN = "starter", "own"
OTHERS: Mapping[str, Control] = {each.name: each for each in controls.OTHERS}
QUEUE = "queue.json"
CASE_S = 300.0
"""A run takes some seconds; a header that is still busy then never ends."""
QUEUES = (INCAST, JOIN, NEAR_FAR, TWO_LINKS, LOSSY)
SHARES = (INCAST, JOIN, NEAR_FAR, LOSSY)


def check_answer(path: Path) -> None:
    """Read what `--answer` names. Raises OwnAlgorithmError, OSError."""
    headers.built(path)


def built_of(context: Context) -> Built:
    """Return the variant's header: the starter, or the reference or what `--answer` names."""
    if context.variant.name == STARTS:
        return headers.built(starter_of(context.folder))
    if context.answer is not None:
        return headers.built(context.answer)
    return headers.built_from(reference(context.folder))


def measure_simulator(context: Context) -> dict[str, Measured]:
    """Run all cases in virtual time, each in a process of its own."""
    control = OTHERS.get(context.variant.name) or controls.yours(built_of(context))
    found: dict[str, Measured] = {}
    for number, case in enumerate(ALL, 1):
        try:
            seen = apart(partial(case.play, control, context.seed), seconds=CASE_S)
        except ApartError as error:
            raise LabError(f"{case.name}: {error}") from None
        found |= dict(_measured(case, seen))
        if case is JOIN:
            rows = seen.line(context.settings["step_ms"])
            (context.out / QUEUE).write_text(json.dumps(rows))
        context.tell(number / len(ALL), case.name)
    return found


def _measured(case: Case, seen: Seen) -> Iterator[tuple[str, Measured]]:
    rates = seen.gbps(case.first, case.last)
    if case in QUEUES:
        yield f"queue, {case.name}", Measured(seen.queue(case.first, case.last), "kB")
    if case in SHARES:
        yield f"together, {case.name}", Measured(float(rates.sum()), "Gb/s")
        yield f"Jain, {case.name}", Measured(jain(rates))
    if case is LEAVE:
        yield "the one that is left", Measured(float(rates[0]), "Gb/s")
    if case is TWO_LINKS:
        both, last, *first = rates.tolist()
        yield "through the first link", Measured(both + sum(first), "Gb/s")
        yield "through the last link", Measured(both + last, "Gb/s")
        yield "through both", Measured(both, "Gb/s")
    if case is MICE:
        slowest = in_runs.slowest(seen)
        yield "short messages, 99 %", Measured(None if slowest != slowest else slowest, "us")
        yield "two beside short messages", Measured(float(rates[:2].sum()), "Gb/s")


def measure_live(context: Context) -> dict[str, Measured]:
    """Take the header through random sequences in the kernel, and load the XDP program with it."""
    from .in_kernel import compared  # the simulator does without

    own = context.settings
    work = partial(compared, built_of(context), context.seed, own["sequences"], own["events"])
    try:
        seen = apart(work, seconds=CASE_S)
    except ApartError as error:
        raise LabError(str(error)) from None
    return {
        "sequences": Measured(float(seen.sequences)),
        "that differ": Measured(float(seen.different)),
        "that slow it down": Measured(float(seen.slowed)),
    }


def checks(table: Table) -> Iterator[Check]:
    """Yield the checks of a learner's header, and of the others on the same traffic."""
    if table.runtime.is_live:
        for variant in (STARTS, OWN):
            row = f"{variant}: kernel and native code"
            yield Check.at_least(f"{row}, sequences", _of(table, variant, "sequences"), 1)
            yield Check.at_most(f"{row}, that differ", _of(table, variant, "that differ"), 0)
        slowed = _of(table, OWN, "that slow it down")
        yield Check.at_least(f"{OWN}: sequences that slow it down", slowed, 1)
        return
    full = in_runs.FULL
    wanted: list[tuple[str, float, str]] = [
        *((f"together, {c.name}", in_runs.FULL_LOSSY if c is LOSSY else full, "Gb/s")
          for c in SHARES),
        *((f"Jain, {c.name}", in_runs.FAIR, "") for c in SHARES),
        ("the one that is left", full, "Gb/s"),
        ("through the first link", full, "Gb/s"),
        ("through the last link", full, "Gb/s"),
        ("through both", in_runs.THROUGH_BOTH, "Gb/s"),
        ("two beside short messages", in_runs.FULL_BESIDE, "Gb/s"),
    ]  # fmt: skip
    for metric, least, unit in wanted:
        yield Check.at_least(f"{OWN}: {metric}", _of(table, OWN, metric), least, unit)
    for case in QUEUES:
        metric, most = f"queue, {case.name}", in_runs.most_kb(case)
        yield Check.at_most(f"{OWN}: {metric}", _of(table, OWN, metric), most, "kB")
        yield Check.at_least(f"{STARTS}: {metric}", _of(table, STARTS, metric), most, "kB")
    took = "short messages, 99 %"
    yield Check.at_most(f"{OWN}: {took}", _of(table, OWN, took), in_runs.MESSAGE_US, "us")
    for variant in OTHERS:
        for metric, unit in (
            (f"queue, {INCAST.name}", "kB"), (f"together, {INCAST.name}", "Gb/s"),
            (f"Jain, {JOIN.name}", ""), ("the one that is left", "Gb/s"), (took, "us"),
        ):  # fmt: skip
            yield Check.reported(f"{variant}: {metric}", _of(table, variant, metric), unit)


def _of(table: Table, variant: str, metric: str) -> Callable[[], Estimate]:
    return lambda: table.estimate(variant, metric)


def figures(table: Table, out: Path) -> Iterator[Figure]:
    """Draw the queue as a fifth sender comes, and queue, flows and times in the other networks."""
    curves: dict[str, tuple[list[float], list[float]]] = {}
    for run in table:
        path = run.folder / QUEUE
        title = run.variant.title
        if path.is_file() and title not in curves and run.variant.name != STARTS:
            rows = json.loads(path.read_text())
            curves[title] = ([at for at, _ in rows], [max(size, 1.0) for _, size in rows])
    if not curves:
        return
    path = out / "queue.png"
    with drawing(path, where(table)) as figure:
        axes = figure.subplots()
        lines(axes, curves, steps=True)
        axes.set_yscale("log")
        axes.set_ylim(bottom=1)
        axes.set_ylabel("the longest queue [kB]")
        axes.set_xlabel("time [ms]; at 1 ms a fifth sender comes")
    yield Figure(path, "Five senders to one at 100 Gb/s: what waits for the receiver's link.")
    path = out / "beside.png"
    shown = [each for each in table.variants() if each.name != STARTS]
    with drawing(path, where(table)) as figure:
        left, middle, right = figure.subplots(1, 3, sharey=True)
        bars(left, table, shown, f"queue, {INCAST.name}", log=True)
        bars(middle, table, shown, f"Jain, {JOIN.name}")
        bars(right, table, shown, "short messages, 99 %")
    caption = "16 to one: what waits; a fifth comes: Jain's index 2 ms later; short messages: 99 %."
    yield Figure(path, caption)
