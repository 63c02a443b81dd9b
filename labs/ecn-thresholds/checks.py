"""The best fixed threshold of each load, dynamic ones beside it, and that no fixed one has all."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from labs import Check, Estimate, Figure, NotRunError, Table
from labs.drawing import COLOURS, drawing, where

from . import runs

measure_simulator = runs.measure

METRIC = "mean time"
LOADS = ("4", "16", "64")
FIXED = ("sixteenth", "eighth", "quarter", "half", "one", "two", "four")
DYNAMIC, FAR = "dynamic", "far-controller"
COMPROMISE = "half"
"""Of the fixed ones that of which the worst load is least bad."""

MOST = 1.1
PARTS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4)


def checks(table: Table) -> Iterator[Check]:
    """Dynamic over the best fixed one, and of each fixed one its worst load."""
    for load in LOADS:
        row = f"{load} senders: dynamic over the best fixed"
        yield Check.at_most(row, partial(_over_best, table, load, DYNAMIC), MOST)
    for fixed in FIXED:
        row = f"{fixed}: over the best fixed, at its worst load"
        yield Check.that(row, f"above {MOST}", partial(_fails, table, fixed))
    for load in LOADS:
        yield Check.reported(
            f"{load} senders: the best fixed", partial(_best_time, table, load), "us"
        )
        row = f"{load} senders: dynamic, the controller 1 ms away, over the best fixed"
        yield Check.reported(row, partial(_over_best, table, load, FAR))
        row = f"{load} senders: dynamic over {COMPROMISE}"
        yield Check.reported(row, partial(_over, table, load, DYNAMIC, COMPROMISE))


def _variant(table: Table, load: str, threshold: str) -> str:
    return table.variant(senders=load, threshold=threshold).name


def _best(table: Table, load: str) -> str:
    """Return the fixed threshold with the least median; where a message never ended there is none.

    Raises NotRunError where one did not run: the best of some is not the best.
    """
    found: dict[str, float] = {}
    for fixed in FIXED:
        estimate = table.estimate(_variant(table, load, fixed), METRIC)
        if estimate.median is not None and None not in estimate.values:
            found[fixed] = estimate.median
    return min(found, key=lambda fixed: found[fixed])


def _over_best(table: Table, load: str, threshold: str) -> Estimate:
    return _over(table, load, threshold, _best(table, load))


def _over(table: Table, load: str, threshold: str, other: str) -> Estimate:
    return table.paired(_variant(table, load, threshold), _variant(table, load, other), METRIC)


def _best_time(table: Table, load: str) -> Estimate:
    return table.estimate(_variant(table, load, _best(table, load)), METRIC)


def _fails(table: Table, fixed: str) -> bool:
    """Say whether a fixed threshold is above MOST at some load, in its whole interval.

    One with a message that never ended fails, too.
    """
    for load in LOADS:
        over = _over_best(table, load, fixed)
        if None in over.values or (over.low is not None and over.low > MOST):
            return True
    return False


def figures(table: Table, out: Path) -> Iterator[Figure]:
    """Every threshold over the best of its load."""
    path = out / "thresholds.png"
    curves: dict[str, tuple[list[float], float]] = {}
    for load in LOADS:
        curve = _curve(table, load)
        if curve is None:
            return
        curves[load] = curve
    with drawing(path, where(table)) as figure:
        axes = figure.subplots()
        for load, colour in zip(LOADS, COLOURS, strict=False):
            fixed, dynamic = curves[load]
            axes.plot(PARTS, fixed, "o-", color=colour, label=f"{load} senders")
            axes.axhline(dynamic, color=colour, linestyle=":")
        axes.axhline(MOST, color="grey", linewidth=0.8)
        axes.set_xscale("log", base=2)
        axes.set_ylim(0.9, 2.5)
        axes.set_xlabel("threshold, over what is on the way in a round trip")
        axes.set_ylabel("mean completion time over the best fixed")
        axes.legend()
    yield Figure(path, "Fixed thresholds by load, and the dynamic ones dotted. Grey: 1.1.")


def _curve(table: Table, load: str) -> tuple[list[float], float] | None:
    try:
        fixed = [_over_best(table, load, each).median for each in FIXED]
        dynamic = _over_best(table, load, DYNAMIC).median
    except (LookupError, NotRunError):
        return None
    return [float("nan") if each is None else each for each in fixed], dynamic or float("nan")
