"""The lab's runs: headers in the cards of five networks, and three mistakes beside them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from hostagent.own_algorithm import ApartError, Built, apart
from labs import Check, Context, Estimate, Figure, LabError, Measured, Table
from labs.drawing import bars, drawing, lines, where
from labs.grade import reference, starter_of

from . import headers, in_runs
from .cases import ALL, LEAVE, MANY, ROUNDS, SHARE, TWO_QUEUES, Seen, jain

STARTS, BY_HAND = "starter", "by-hand"
LAST_WORD, AT_ONCE, FOR_EVER = "last-word", "at-once", "for-ever"
DRAWN = (STARTS, BY_HAND, AT_ONCE)
"""The others' queues are like that of BY_HAND."""
QUEUE = "queue.json"
CASE_S = 300.0
"""A run takes some seconds; a header that is still busy then never ends."""
MISTAKES: Mapping[str, tuple[tuple[str, str], ...]] = {
    LAST_WORD: (
        ("        if (word->rate && word->queue == queue)\n", "        if (queue || !queue)\n"),
        ("word->queue == event->number", "word->rate"),
    ),
    AT_ONCE: (("    return doublings > 41 ||", "    return doublings <= 41 || doublings > 41 ||"),),
    FOR_EVER: (("        if (word->until > now) {\n", "        if (word->until) {\n"),),
}
"""What variants change in the reference: all words in one place; no doublings; until is not looked
at."""


def check_answer(path: Path) -> None:
    """Read what `--answer` names. Raises OwnAlgorithmError, OSError."""
    headers.built(path)


def built_of(context: Context) -> Built:
    """Return the variant's header: the starter, a mistake, or the reference or `--answer`'s."""
    if context.variant.name == STARTS:
        return headers.built(starter_of(context.folder))
    text = reference(context.folder)
    for right, wrong in MISTAKES.get(context.variant.name, ()):
        if text.count(right) != 1:
            raise LabError(f"the solution: {right.strip()!r} is there {text.count(right)} times")
        text = text.replace(right, wrong)
    if context.variant.name == BY_HAND and context.answer is not None:
        return headers.built(context.answer)
    return headers.built_from(text)


def measure_simulator(context: Context) -> dict[str, Measured]:
    """Run all cases in virtual time, each in a process of its own."""
    built = built_of(context)
    found: dict[str, Measured] = {}
    for number, case in enumerate(ALL, 1):
        try:
            seen = apart(partial(case.play, built, context.seed), seconds=CASE_S)
        except ApartError as error:
            raise LabError(f"{case.name}: {error}") from None
        found |= MEASURED[case.name](seen)
        if case is ROUNDS:
            rows = seen.line(context.settings["step_ms"])
            (context.out / QUEUE).write_text(json.dumps(rows))
        context.tell(number / len(ALL), case.name)
    return found


def _rate(value: float) -> Measured:
    return Measured(value, "Gb/s")


def _share(seen: Seen) -> dict[str, Measured]:
    rates = seen.gbps(SHARE.first, SHARE.last)
    return {
        "Jain, near and far": Measured(jain(rates)),
        "all, near and far": _rate(float(rates.sum())),
        "queue, near and far": Measured(seen.longest(SHARE.first, SHARE.last), "MB"),
    }


def _two_queues(seen: Seen) -> dict[str, Measured]:
    both, first, *_ = seen.gbps(TWO_QUEUES.first, TWO_QUEUES.last).tolist()
    return {"through both queues": _rate(both), "through the first": _rate(first)}


def _many(seen: Seen) -> dict[str, Measured]:
    rates = seen.gbps(MANY.first, MANY.last)
    return {
        "all of 64": _rate(float(rates.sum())),
        "queue of 64": Measured(seen.longest(MANY.first, MANY.last), "MB"),
    }


def _leave(seen: Seen) -> dict[str, Measured]:
    return {"the one that is left": Measured(in_runs.left_alone(seen), "Gb/s")}


def _rounds(seen: Seen) -> dict[str, Measured]:
    return {"queue after pauses": Measured(seen.longest(ROUNDS.first, ROUNDS.last), "MB")}


MEASURED: Mapping[str, Callable[[Seen], dict[str, Measured]]] = {
    SHARE.name: _share,
    TWO_QUEUES.name: _two_queues,
    MANY.name: _many,
    LEAVE.name: _leave,
    ROUNDS.name: _rounds,
}


def measure_live(context: Context) -> dict[str, Measured]:
    """Take the header through random sequences in the kernel, and load the XDP program with it."""
    from .kernel import in_the_kernel  # the simulator does without

    own = context.settings
    work = partial(in_the_kernel, built_of(context), context.seed, own["sequences"], own["events"])
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
    """Yield the checks of what a learner should see."""
    if table.runtime.is_live:
        for variant in (STARTS, BY_HAND):
            row = f"{variant}: kernel and native code"
            yield Check.at_least(f"{row}, sequences", _of(table, variant, "sequences"), 1)
            yield Check.at_most(f"{row}, that differ", _of(table, variant, "that differ"), 0)
        slowed = _of(table, BY_HAND, "that slow it down")
        yield Check.at_least(f"{BY_HAND}: sequences that slow it down", slowed, 1)
        return
    quarter = in_runs.PAYLOAD / 4
    for metric, least, unit in (
        ("Jain, near and far", in_runs.FAIR, ""),
        ("all, near and far", in_runs.FULL * 400, "Gb/s"),
        ("through both queues", in_runs.OF_SHARE * quarter, "Gb/s"),
        ("through the first", in_runs.OF_SHARE * (in_runs.PAYLOAD - quarter), "Gb/s"),
        ("all of 64", in_runs.FULL * 100, "Gb/s"),
        ("the one that is left", in_runs.FULL * 400, "Gb/s"),
    ):
        yield Check.at_least(f"{BY_HAND}: {metric}", _of(table, BY_HAND, metric), least, unit)
    for metric, most in (
        ("queue, near and far", in_runs.MOST_SHARE),
        ("queue of 64", in_runs.MOST_MANY),
        ("queue after pauses", in_runs.MOST_ROUNDS),
    ):
        yield Check.at_most(f"{BY_HAND}: {metric}", _of(table, BY_HAND, metric), most, "MB")
        yield Check.at_least(f"{STARTS}: {metric}", _of(table, STARTS, metric), most, "MB")
    wrong = _of(table, LAST_WORD, "through the first")
    yield Check.at_most(f"{LAST_WORD}: through the first", wrong, 250, "Gb/s")
    flood = _of(table, AT_ONCE, "queue after pauses")
    yield Check.at_least(f"{AT_ONCE}: queue after pauses", flood, 24, "MB")
    left = _of(table, FOR_EVER, "the one that is left")
    yield Check.at_most(f"{FOR_EVER}: the one that is left", left, 250, "Gb/s")


def _of(table: Table, variant: str, metric: str) -> Callable[[], Estimate]:
    return lambda: table.estimate(variant, metric)


def figures(table: Table, out: Path) -> Iterator[Figure]:
    """Draw the queue while eight return from pauses, and the goodput of flows through two
    queues.
    """
    curves: dict[str, tuple[list[float], list[float]]] = {}
    for run in table:
        path = run.folder / QUEUE
        title = run.variant.title
        if run.variant.name in DRAWN and path.is_file() and title not in curves:
            rows = json.loads(path.read_text())
            curves[title] = ([at for at, _ in rows], [size for _, size in rows])
    if not curves:
        return
    path = out / "queue.png"
    with drawing(path, where(table)) as figure:
        axes = figure.subplots()
        lines(axes, curves, steps=True)
        axes.set_ylabel("the longest queue [MB]")
        axes.set_xlabel("time [ms]")
        axes.set_ylim(bottom=0)
    yield Figure(path, "Eight senders at 10 km, 7 MB each every 1.6 ms: what waits for 400 Gb/s.")
    path = out / "two-queues.png"
    with drawing(path, where(table)) as figure:
        left, right = figure.subplots(1, 2, sharey=True)
        bars(left, table, table.variants(), "through both queues")
        bars(right, table, table.variants(), "through the first")
    caption = "Through both queues (max-min: 98 Gb/s) and through the first alone (294 Gb/s)."
    yield Figure(path, caption)
