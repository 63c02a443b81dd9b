"""How checks find what ran, and what repairs are called."""

from __future__ import annotations

from collections.abc import Callable

from labs import Estimate, Table, Variant

from .faults import BFD, CONTROLLER, DPFR, LOCAL, NOTHING, WATCH

USUAL, SHORT = "usual", "short"
CALLED = {
    NOTHING: "nobody",
    CONTROLLER: "controller",
    BFD: "BFD, controller",
    WATCH: "watch ports",
    LOCAL: "DPFR, local only",
    DPFR: "DPFR",
}
Lookup = Callable[[], float | Estimate | None]


def one(table: Table, repair: str, fault: str, timeout: str = USUAL) -> Callable[[], Variant]:
    return lambda: table.variant(repair=repair, fault=fault, **{"time-out": timeout})


def seen(table: Table, find: Callable[[], Variant], metric: str) -> list[float | None]:
    variant = find()
    table.estimate(variant, metric)  # raises for a run that failed
    return [run.metrics[metric].value for run in table.runs(variant)]


def worst(table: Table, find: Callable[[], Variant], metric: str) -> Lookup:
    """Look up the largest of all seeds; None if it did not end in one of them."""

    def largest() -> float | None:
        values = seen(table, find, metric)
        return None if None in values else max(value for value in values if value is not None)

    return largest


def least(table: Table, find: Callable[[], Variant], metric: str) -> Lookup:
    def smallest() -> float | None:
        return min((n for n in seen(table, find, metric) if n is not None), default=None)

    return smallest
