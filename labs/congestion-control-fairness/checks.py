"""What each case's senders should get, by whom it is said, and what they do get."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from labs import Check, Estimate, Figure, NotRunError, Table
from labs.drawing import COLOURS, drawing, where

from . import runs

measure_simulator = runs.measure

Lookup = Callable[[], Estimate]

FAST, BEST, NONE = "fast-cnp", "best", "none"
DCQCN = ("hpcc-dcqcn", "hpcc-dcqcn-paper", BEST)
CONTROLS = (*DCQCN, FAST)
LATE = {
    "mice": ("99th percentile",),
    "on-off": ("99th percentile",),
    "websearch": (
        "slowdown below 30 kB, 99th percentile",
        "slowdown from 1 MB on, 99th percentile",
    ),
}
"""Where late messages count, and how late they are."""
DISTANCES = ("2-near-2-far", "2-at-2km", "2-at-1km", "2-at-100m", "leaf-and-pod")
CHAINS = {"2-bottlenecks": 2, "3-bottlenecks": 3, "5-bottlenecks": 5}
HUNDREDS = ("2-at-100G", "4-at-100G", "8-at-100G")
PAYLOAD = 392
"""Gb/s of payload that 400 Gb/s carry, in packets of 4 KB."""


def checks(table: Table) -> Iterator[Check]:
    """Yield the lab's checks: what fast CNP has to reach, and what the best DCQCN reaches."""
    for case in ("1-near-1-far", *DISTANCES):
        far = case in ("1-near-1-far", "2-near-2-far")
        yield from _at_least(table, case, "Jain", 0.95 if far else 0.97)
        yield from _at_least(table, case, "all", 370 if far else 380, "Gb/s")
    yield from _at_least(table, "1-local-4-remote", "least", 50, "Gb/s")
    for case, stock in (("1-stock-3-own", "h2"), ("3-stock-1-own", "least")):
        yield from _at_least(table, case, stock, PAYLOAD / 8, "Gb/s")
    for case in CHAINS:
        yield from _at_least(table, case, "a0", 0.9 * PAYLOAD / 2, "Gb/s")
    for case in HUNDREDS:
        yield from _at_least(table, case, "all", 95, "Gb/s")
    for case in runs.TAILS:
        row, metric = f"{case}: slowest message", "slowest message"
        ours, theirs = (_over(table, case, each, NONE, metric) for each in (FAST, BEST))
        yield Check.at_most(f"{row}, fast CNP over PFC alone", ours, 1.1)
        yield Check.reported(f"{row}, {BEST} over PFC alone", theirs)
    for case in runs.HITS:
        yield from _at_least(table, case, "the flow that was hit", 370, "Gb/s")
    for case, most in zip(runs.CROWDS, (16, 32, 64), strict=True):
        row, (ours, theirs) = f"{case}: longest queue", _both(table, case, "longest queue")
        yield Check.at_most(f"{row}, fast CNP", ours, most, "MB")
        yield Check.reported(f"{row}, {BEST}", theirs, "MB")
        yield from _at_least(table, case, "all, from 3 ms on", 350, "Gb/s")

    for case in ("10-percent-lost", "50-percent-lost"):
        yield from _at_least(table, case, "all", 380, "Gb/s")
        yield from _at_least(table, case, "Jain", 0.97)
    for case, metrics in LATE.items():
        for metric in metrics:
            for control in (*DCQCN, NONE) if case == "websearch" else DCQCN:
                row = f"{case}: {metric}, fast CNP over {control}"
                ratio = _over(table, case, FAST, control, metric)
                if control == BEST and case != "on-off":
                    yield Check.at_most(row, ratio, 1)
                else:
                    yield Check.reported(row, ratio)


def _at_least(
    table: Table, case: str, metric: str, least: float, unit: str = ""
) -> Iterator[Check]:
    ours, theirs = _both(table, case, metric)
    yield Check.at_least(f"{case}: {metric}, fast CNP", ours, least, unit)
    yield Check.reported(f"{case}: {metric}, {BEST}", theirs, unit)


def _both(table: Table, case: str, metric: str) -> tuple[Lookup, Lookup]:
    return _of(table, case, FAST, metric), _of(table, case, BEST, metric)


def _of(table: Table, case: str, control: str, metric: str) -> Lookup:
    return lambda: table.estimate(table.variant(case=case, control=control), metric)


def _over(table: Table, case: str, above: str, below: str, metric: str) -> Lookup:
    """Look up a metric over another control's, seed by seed."""

    def ratio() -> Estimate:
        ours, theirs = (table.variant(case=case, control=each) for each in (above, below))
        return table.paired(ours, theirs, metric)

    return ratio


def figures(table: Table, out: Path) -> Iterator[Figure]:
    """Jain's index of the cases in which senders differ by distance alone."""
    found = {control: _fairness(table, control) for control in CONTROLS}
    if not any(found.values()):
        return
    path = out / "fairness.png"
    cases = ("1-near-1-far", *DISTANCES, "1-local-4-remote")
    with drawing(path, where(table)) as figure:
        axes = figure.subplots()
        wide = 0.8 / len(CONTROLS)
        for i, (control, colour) in enumerate(zip(CONTROLS, COLOURS, strict=False)):
            heights = [found[control].get(case, 0.0) for case in cases]
            places = [n + (i - (len(CONTROLS) - 1) / 2) * wide for n in range(len(cases))]
            axes.bar(places, heights, wide, color=colour, label=control)
        axes.set_xticks(range(len(cases)), cases, rotation=20, ha="right")
        axes.set_ylabel("Jain's index")
        axes.set_ylim(0, 1.05)
        axes.legend(loc="lower right")
    yield Figure(path, "How evenly senders at different distances share 400 Gb/s: 1 is fair.")


def _fairness(table: Table, control: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for case in ("1-near-1-far", *DISTANCES, "1-local-4-remote"):
        try:
            index = table.estimate(table.variant(case=case, control=control), "Jain").median
        except (LookupError, NotRunError):
            continue
        if index is not None:
            found[case] = index
    return found
