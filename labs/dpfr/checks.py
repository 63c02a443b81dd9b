"""What has to come out: who heals what, how fast, and what the AllReduce pays for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from labs import Check, Context, Estimate, Measured, Runtime, Table, Variant

from . import many
from .faults import (
    BFD,
    CONTROLLER,
    CORE_LINK,
    DPFR,
    FAULTS,
    LEAF_LINK,
    LOCAL,
    NONE,
    NOTHING,
    ONE_WAY,
    SPINE,
    WATCH,
)
from .figures import figures as figures
from .large import large_job, many_cuts
from .lookups import CALLED, SHORT, USUAL, Lookup, least, one, worst
from .simulated import measure

MOST_US = 60
"""Three missed rounds of 8.4 us, two of waiting, and what notifications and probes take."""

MOST_PENALTY = 1.1
"""60 us of the 850 us that the AllReduce takes, and half as much for what was lost."""


def measure_simulator(context: Context) -> dict[str, Measured]:
    """In virtual time."""
    if "cuts" in context.variant.labels:
        return many.measure(context)
    return measure(context)


def measure_beside(context: Context) -> dict[str, Measured]:
    """In virtual time, slowed down like the run in real time: probes, and no AllReduce."""
    return measure(context)


def measure_live(context: Context) -> dict[str, Measured]:
    """Over namespaces, under RDMA WRITEs."""
    from .real import measure as in_real_time  # the simulator does without

    return in_real_time(context)


# ---------------------------------------------------------------- what has to come out


def checks(table: Table) -> Iterator[Check]:
    """Yield the rows of the lab's table."""
    if table.runtime is not Runtime.SIMULATOR:
        yield from _live_checks(table)
        return
    for fault in FAULTS:
        found = one(table, DPFR, fault)
        yield Check.at_most(f"DPFR, {fault}: longest blackout", worst(table, found, "blackout"),
                            MOST_US, "us", note="the worst of all seeds")  # fmt: skip
        yield Check.at_most(f"DPFR, {fault}: flows cut off for good",
                            worst(table, found, "cut off for good"), 0)  # fmt: skip
        yield Check.at_most(f"DPFR, {fault}: failed queue pairs",
                            worst(table, found, "failed queue pairs"), 0)  # fmt: skip
    yield Check.at_most("DPFR, nothing dies: links found dead",
                        worst(table, one(table, DPFR, NONE), "found dead"), 0)  # fmt: skip
    yield from _others(table)
    yield from _job(table)
    yield from many_cuts(table)
    yield from large_job(table)


def _others(table: Table) -> Iterator[Check]:
    """Yield the checks of what the other repairs leave undone."""
    for repair, fault, why in (
        (NOTHING, LEAF_LINK, "packets vanish to the end"),
        (WATCH, CORE_LINK, "the core has no other way down, and tells nobody"),
        (WATCH, ONE_WAY, "no port is down"),
        (CONTROLLER, ONE_WAY, "no carrier is lost, so nobody tells it"),
        (LOCAL, CORE_LINK, "the core finds it dead, and tells nobody"),
    ):
        lost = least(table, one(table, repair, fault), "cut off for good")
        row = f"{CALLED[repair]}, {fault}: flows cut off for good"
        yield Check.at_least(row, lost, 1, note=why)
    for repair in (CONTROLLER, BFD):
        row = f"DPFR over {CALLED[repair]}, {CORE_LINK}: blackout"
        yield Check.at_most(row, _ratio(table, repair, "blackout"), 1 / 100)
    row = f"{CALLED[BFD]}, {CORE_LINK}: failed queue pairs"
    yield Check.at_least(row, least(table, one(table, BFD, CORE_LINK), "failed queue pairs"), 1,
                         note="eight time-outs of 4.2 ms are over before 150 ms are")  # fmt: skip


def _job(table: Table) -> Iterator[Check]:
    """Yield the checks of the AllReduce's time with a fault over that without, probes alike."""
    for timeout in (USUAL, SHORT):
        row = f"DPFR, {CORE_LINK}, {timeout} time-out: AllReduce over undisturbed"
        yield Check.at_most(row, _penalty(table, DPFR, timeout), MOST_PENALTY)
        row = f"{CALLED[CONTROLLER]}, {CORE_LINK}, {timeout} time-out: AllReduce over undisturbed"
        note = "with fewer probes, which take some 6 % of the line in the other"
        yield Check.reported(row, _penalty(table, CONTROLLER, timeout), note=note)
    heartbeats = _penalty(table, DPFR, USUAL, NONE)
    yield Check.at_most("DPFR, nothing dies: AllReduce over that without DPFR", heartbeats, 1.005)
    row = f"DPFR, {CORE_LINK}, short time-out: runs in which the AllReduce does not end"
    ended = one(table, DPFR, CORE_LINK, SHORT)
    yield Check.at_most(row, lambda: _never(table, ended()), 0)


def _never(table: Table, variant: Variant) -> float:
    return sum(run.metrics["AllReduce"].value is None for run in table.runs(variant))


def _penalty(table: Table, repair: str, timeout: str, fault: str = CORE_LINK) -> Lookup:
    def ratio() -> Estimate:
        undisturbed = one(table, NOTHING, NONE, timeout)
        return table.paired(one(table, repair, fault, timeout)(), undisturbed(), "AllReduce")

    return ratio


def _ratio(table: Table, below: str, metric: str) -> Lookup:
    return lambda: table.paired(
        one(table, DPFR, CORE_LINK)(), one(table, below, CORE_LINK)(), metric
    )


def _live_checks(table: Table) -> Iterator[Check]:
    for fault in (LEAF_LINK, SPINE):
        found = one(table, DPFR, fault)
        for metric in ("failed work requests", "cut off for good"):
            yield Check.at_most(f"real time, {fault}: {metric}", worst(table, found, metric), 0)
        row = f"real time, {fault}: blackout, median over the simulator's"
        yield Check.within(row, _over_simulated(table, found), 0.8, 1.2)


def _over_simulated(table: Table, find: Callable[[], Variant]) -> Lookup:
    def ratio() -> Estimate:
        variant = find()
        return table.paired(variant, variant, "blackout", below_beside=True)

    return ratio
