"""What distance costs a step, beside the part of it that is latency, and who adds to that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from labs import Check, Estimate, Figure, NotRunError, Table
from labs.drawing import COLOURS, drawing, where

from . import runs

measure_simulator = runs.measure

Lookup = Callable[[], Estimate]

CONTROLS = ("none", "hpcc-dcqcn", "hpcc-dcqcn-paper", "best", "fast-cnp")
FAST = "fast-cnp"
ONE = {"100km": "one", "200km": "one", "300km": "one"}
ONE_OF_THREE = {"three-100km": "three-in-one", "three-300km": "three-in-one"}
"""What of places that are apart is compared with: the same fabric at zero length."""
MOST = 1.02
LOADS = ("alone", "copy", "one-bucket")


def checks(table: Table) -> Iterator[Check]:
    """Yield the rows of the lab's table."""
    for load, control in (("alone", FAST), ("one-bucket", FAST)):
        found = _of(table, load, "one", control, "overlap, as the job has it")
        yield Check.reported(f"{load}: gradients with computing behind them", found, "%")
    for places, one in (ONE | ONE_OF_THREE).items():
        row = f"alone, {places}: step over that of one place"
        bound = _over(table, "alone", (places, FAST), (one, FAST), "bound")
        yield Check.reported(f"{row}, bound: latency alone", bound)
        for control in CONTROLS:
            yield _held(
                f"{row}, {control}",
                _over(table, "alone", (places, control), (one, control)),
                control,
            )
        hidden = _of(table, "alone", places, FAST, "hidden")
        yield Check.reported(f"alone, {places}: communication hidden, {FAST}", hidden, "%")
        shortest = _shortest(table, "alone", (places, FAST), (one, FAST))
        yield Check.reported(f"alone, {places}: shortest step for 1.02, {FAST}", shortest, "ms")
    yield from _beside_a_copy(table)
    yield from _one_bucket(table)


def _held(row: str, ratio: Lookup, control: str) -> Check:
    """Hold fast CNP to the documents' number; the others stand beside it."""
    return Check.at_most(row, ratio, MOST) if control == FAST else Check.reported(row, ratio)


def _beside_a_copy(table: Table) -> Iterator[Check]:
    """Yield the checks of a copy that needs twice the long link's rate as the last bucket goes."""
    for places in ("one", *ONE):
        for control in CONTROLS:
            row = f"copy, {places}: step over that of one place alone, {control}"
            ratio = _beside_alone(table, places, control)
            yield _held(row, ratio, control)
    late = _against(table, "none", "last bucket")
    yield Check.at_least("copy, 300km: the job's last bucket, PFC alone over fast-cnp", late, 1.5)
    slow = _against(table, "best", "copy")
    yield Check.at_least("copy, 300km: how long it takes, best over fast-cnp", slow, 1.1)
    for places in ("one", *ONE):
        for control in CONTROLS:
            took = _of(table, "copy", places, control, "copy")
            yield Check.reported(f"copy, {places}: how long it takes, {control}", took, "ms")
            last = _of(table, "copy", places, control, "last bucket")
            yield Check.reported(f"copy, {places}: the job's last bucket, {control}", last, "ms")
            pauses = _of(table, "copy", places, control, "pauses")
            yield Check.reported(f"copy, {places}: pauses, {control}", pauses)


def _one_bucket(table: Table) -> Iterator[Check]:
    """Nothing is hidden: how long a step must be for the same loss to be 2 %."""
    for places in ("100km", "300km"):
        for control in ("none", "hpcc-dcqcn", "best", FAST):
            ends = (places, control), ("one", control)
            row = f"one-bucket, {places}: step over that of one place, {control}"
            yield Check.reported(row, _over(table, "one-bucket", *ends))
        row = f"one-bucket, {places}: shortest step for 1.02, {FAST}"
        shortest = _shortest(table, "one-bucket", (places, FAST), ("one", FAST))
        yield Check.reported(row, shortest, "ms")


Ends = tuple[str, str]
"""Places and control."""


def _variant(table: Table, load: str, ends: Ends) -> Any:
    places, control = ends
    return table.variant(load=load, places=places, control=control)


def _of(table: Table, load: str, places: str, control: str, metric: str) -> Lookup:
    return lambda: table.estimate(_variant(table, load, (places, control)), metric)


def _over(table: Table, load: str, apart: Ends, one: Ends, metric: str = "step") -> Lookup:
    return lambda: table.paired(_variant(table, load, apart), _variant(table, load, one), metric)


def _against(table: Table, control: str, metric: str) -> Lookup:
    """Look up what a control's metric is over fast CNP's, beside a copy over 300 km."""

    def ratio() -> Estimate:
        theirs, ours = (_variant(table, "copy", ("300km", each)) for each in (control, FAST))
        return table.paired(theirs, ours, metric)

    return ratio


def _beside_alone(table: Table, places: str, control: str) -> Lookup:
    def ratio() -> Estimate:
        beside = _variant(table, "copy", (places, control))
        return table.paired(beside, _variant(table, "alone", ("one", control)), "step")

    return ratio


def _shortest(table: Table, load: str, apart: Ends, one: Ends) -> Lookup:
    """Look up how long a step of one place must be for what distance adds to be 2 % of it."""

    def found() -> Estimate:
        both = (table.estimate(_variant(table, load, ends), "step") for ends in (apart, one))
        pairs = zip(*(each.values for each in both), strict=True)
        more = [None if a is None or b is None else (a - b) / (MOST - 1) for a, b in pairs]
        return Estimate.of(more, "ms")

    return found


def figures(table: Table, out: Path) -> Iterator[Figure]:
    """Draw what distance adds to a step, by control, alone and beside a copy."""
    drawn = {load: found for load in ("alone", "copy") if (found := _added(table, load))}
    if not drawn:
        return
    path = out / "step.png"
    with drawing(path, where(table)) as figure:
        panels = figure.subplots(len(drawn), 1, squeeze=False)
        for axes, (load, found) in zip(panels[:, 0], drawn.items(), strict=True):
            _draw(axes, load, found)
    yield Figure(
        path,
        "What a step of the job takes longer than in one place alone, alone and beside a copy "
        "between the places; the lines are latency that nothing hides, and 2 %.",
    )


def _draw(axes: Any, load: str, found: dict[tuple[str, str], Estimate]) -> None:
    wide = 0.8 / len(CONTROLS)
    shown = ONE if load == "alone" else ("one", *ONE)
    names = [name for name in shown if (name, "bound") in found]
    labelled: set[str] = set()
    for place, name in enumerate(names):
        for i, (control, colour) in enumerate(zip(CONTROLS, COLOURS, strict=False)):
            each = found.get((name, control))
            if each is None or each.median is None:
                continue
            low, high = each.low or each.median, each.high or each.median
            axes.bar(
                place + (i - (len(CONTROLS) - 1) / 2) * wide,
                100 * (each.median - 1),
                wide * 0.92,
                color=colour,
                yerr=[[100 * (each.median - low)], [100 * (high - each.median)]],
                capsize=2,
                label=None if control in labelled else control,
            )
            labelled.add(control)
        bound = found[name, "bound"]
        if bound.median is not None:
            axes.plot([place - 0.45, place + 0.45], [100 * (bound.median - 1)] * 2, color="black")
    axes.axhline(100 * (MOST - 1), color="grey", linestyle="--", linewidth=1)
    axes.set_xlim(-0.6, len(names) - 0.4)
    axes.set_ylim(bottom=0)
    axes.set_xticks(range(len(names)), names)
    axes.set_ylabel(f"{load}: longer by [%]")
    axes.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _added(table: Table, load: str) -> dict[tuple[str, str], Estimate]:
    """Return by places and control, and as bound, a step over that of one place alone."""
    found: dict[tuple[str, str], Estimate] = {}
    for places in ("one", *ONE):
        for control in CONTROLS:
            try:
                apart = _variant(table, load, (places, control))
                one = _variant(table, "alone", ("one", control))
                found[places, control] = table.paired(apart, one, "step")
                found[places, "bound"] = table.paired(apart, one, "bound")
            except NotRunError:
                continue
    return {} if all(places == "one" for places, _ in found) else found
