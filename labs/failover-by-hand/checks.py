"""The lab's runs: headers in a card while a plane is cut, flaps, is deaf or loses packets."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from hostagent.own_algorithm import ApartError, Built, apart
from labs import Check, Context, Estimate, Figure, LabError, Measured, Table
from labs.drawing import drawing, lines, where
from labs.grade import reference, starter_of

from . import headers, runs
from .network import MS, US, Story

STARTS, BY_HAND, NO_HOLD, NO_RAMP = "starter", "by-hand", "no-hold", "no-ramp"
TIME_LINE = "time-line.json"
TALE_S = 120.0
"""A story takes some seconds; a header that is still busy then never ends."""
CHANGED: Mapping[str, Mapping[str, int]] = {
    NO_HOLD: {"hold_ns": 0, "hold_most_ns": 0},
    NO_RAMP: {"ramp_ns": 0},
}
"""Parameters of variants that run with others."""
GIGA = 1e9


def check_answer(path: Path) -> None:
    """Read what `--answer` names. Raises OwnAlgorithmError, OSError."""
    headers.built(path)


def built_of(context: Context) -> Built:
    """Return the variant's header: the starter, the reference, or what `--answer` names."""
    if context.variant.name == STARTS:
        return headers.built(starter_of(context.folder))
    if context.answer is not None:
        return headers.built(context.answer)
    return headers.built_from(reference(context.folder))


def measure_simulator(context: Context) -> dict[str, Measured]:
    """Run all stories in virtual time, each in a process of its own."""
    built = built_of(context)
    built.card()  # compiled here, once
    own = CHANGED.get(context.variant.name, {})
    found: dict[str, Measured] = {}
    failed = 0
    for number, each in enumerate(runs.ALL, 1):
        tale = each.drawn(context.seed)
        try:
            story = apart(partial(tale.play, built, seed=context.seed, own=own), seconds=TALE_S)
        except ApartError as error:
            raise LabError(f"{tale.name}: {error}") from None
        found |= _measured(tale, story)
        failed += story.failed
        if each is runs.CUT:
            rows = _time_line(story, tale, context.settings["bin_us"] * US)
            (context.out / TIME_LINE).write_text(json.dumps(rows))
        context.tell(number / len(runs.ALL), tale.name)
    return {**found, "failed": Measured(float(failed))}


def _measured(tale: runs.Tale, story: Story) -> dict[str, Measured]:
    full = story.gbps(runs.FULL_FROM, tale.first)

    def percent(first: int, last: int) -> Measured:
        return Measured(100 * story.gbps(first, last) / full, "%")

    if tale.name == runs.CUT.name:
        end = tale.last + runs.BACK_MS * MS
        back = story.returned(tale.first)
        first_ms = None if back is None else 8e12 * story.sent(back, back + MS) / MS / tale.rate_bps
        return {
            "healthy": Measured(full, "Gb/s"),
            "after the cut": percent(*(tale.first + after for after in runs.AFTER_CUT)),
            "20 ms on": percent(end - MS, end),
            "used again": Measured(None if back is None else (back - tale.last) / MS, "ms"),
            "first ms": Measured(None if first_ms is None else 100 * first_ms, "%"),
        }
    if tale.name == runs.FLAPPING.name:
        return {
            "switches": Measured(float(len(story.changes))),
            "flapping": percent(tale.first, tale.last),
        }
    found = {tale.name: percent(tale.first + 2 * MS, tale.last)}
    if tale.name == runs.LOSSY.name:
        found["by the lossy plane"] = Measured(story.sent(tale.first + MS, tale.last) / 1000, "KB")
    return found


def _time_line(story: Story, tale: runs.Tale, step: int) -> list[tuple[float, float, float]]:
    """Rows of (ms, Gb/s by plane 0, Gb/s by plane 1)."""
    return [
        (
            at / MS,
            story.bytes(at, at + step, 0) * 8000 / step,
            story.bytes(at, at + step, 1) * 8000 / step,
        )
        for at in range(0, tale.until - step, step)
    ]


def measure_live(context: Context) -> dict[str, Measured]:
    """Take the header through random sequences in the kernel, and load the XDP program with it."""
    from .kernel import in_the_kernel  # the simulator does without

    own = context.settings
    work = partial(in_the_kernel, built_of(context), context.seed, own["sequences"], own["events"])
    try:
        seen = apart(work, seconds=TALE_S)
    except ApartError as error:
        raise LabError(str(error)) from None
    return {
        "sequences": Measured(float(seen.sequences)),
        "that differ": Measured(float(seen.different)),
        "in which a plane is lost": Measured(float(seen.lost)),
        **{
            f"held, loss {number}": Measured(held, "ms")
            for number, held in enumerate(seen.held_ms, 1)
        },
    }


def checks(table: Table) -> Iterator[Check]:
    """Yield the checks of what a learner should see."""
    if table.runtime.is_live:
        for variant in (STARTS, BY_HAND):
            row = f"{variant}: kernel and native code"
            yield Check.at_least(f"{row}, sequences", _of(table, variant, "sequences"), 1)
            yield Check.at_most(f"{row}, that differ", _of(table, variant, "that differ"), 0)
        for number, least in enumerate((10, 20, 40), 1):
            held = f"held, loss {number}"
            row = f"{BY_HAND}: plane 1 is shut after loss {number}, decided in the kernel"
            yield Check.at_least(row, _of(table, BY_HAND, held), least, "ms")
            yield Check.reported(f"{STARTS}: {held}", _of(table, STARTS, held), "ms")
        return
    for variant in (BY_HAND, STARTS):
        after = _of(table, variant, "after the cut")
        yield Check.at_least(f"{variant}: 0.5 to 1 ms after the cut", after, 48, "%")
    back = _of(table, BY_HAND, "20 ms on")
    yield Check.at_least(f"{BY_HAND}: 20 ms after the plane is mended", back, 98, "%")
    first = "its first millisecond"
    yield Check.at_most(
        f"{BY_HAND}: {first}", _of(table, BY_HAND, "first ms"), 7, "%",
        note="of the line; 1/16 is 6.25 %",
    )  # fmt: skip
    yield Check.reported(f"{NO_RAMP}: {first}", _of(table, NO_RAMP, "first ms"), "%")
    row = "switches while it flaps"
    yield Check.at_most(f"{BY_HAND}: {row}", _of(table, BY_HAND, "switches"), 12)
    yield Check.at_least(f"{STARTS}: {row}", _of(table, STARTS, "switches"), 40)
    yield Check.reported(f"{NO_HOLD}: {row}", _of(table, NO_HOLD, "switches"))
    for name in (runs.ONE_WAY.name, runs.LOSSY.name):
        yield Check.at_least(f"{BY_HAND}: goodput, {name}", _of(table, BY_HAND, name), 48, "%")
    lossy = _of(table, BY_HAND, "by the lossy plane")
    yield Check.at_most(f"{BY_HAND}: sent by the lossy plane", lossy, 0, "KB")
    yield Check.at_most(f"{BY_HAND}: work requests failed", _of(table, BY_HAND, "failed"), 0)


def _of(table: Table, variant: str, metric: str) -> Callable[[], Estimate]:
    return lambda: table.estimate(variant, metric)


def figures(table: Table, out: Path) -> Iterator[Figure]:
    """Goodput over time, by plane, as one is cut and comes back: of each variant's first seed."""
    curves: dict[str, list[tuple[float, float, float]]] = {}
    cut = runs.CUT
    for run in table:
        path = run.folder / TIME_LINE
        if path.is_file() and run.variant.title not in curves:
            curves[run.variant.title] = json.loads(path.read_text())
            cut = cut if len(curves) > 1 else runs.CUT.drawn(run.seed)
    if not curves:
        return
    path = out / "time-line.png"
    with drawing(path, where(table)) as figure:
        panels = figure.subplots(2, 1, sharex=True)
        times = {name: [row[0] for row in rows] for name, rows in curves.items()}
        both = {name: (times[name], [a + b for _, a, b in rows]) for name, rows in curves.items()}
        one = {name: (times[name], [b for _, _, b in rows]) for name, rows in curves.items()}
        for panel, shown, label in zip(
            panels, (both, one), ("both planes", "plane 1"), strict=True
        ):
            panel.axvspan(cut.first / MS, cut.last / MS, color="0.9")
            lines(panel, shown, steps=True)
            panel.set_ylabel(f"{label} [Gb/s]")
            panel.set_ylim(bottom=0)
        panels[1].get_legend().remove()
        panels[1].set_xlabel("time [ms]; grey: plane 1 is cut")
    yield Figure(path, "Goodput while plane 1 is cut and after it is mended.")
