"""What has to come out in the large fabric: many cuts, one at a time, and a ring of all hosts."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from functools import partial

from labs import Check, Estimate, NotRunError, Table, Variant

from .faults import BFD, CONTROLLER, DPFR, NOTHING
from .lookups import CALLED, SHORT, USUAL, least, worst
from .many import CUTS

MANY = {"8400ns": (60, 0.02), "1700ns": (15, 0.1)}
"""Of many cuts: heartbeats' period -> the longest blackout in us, and their share of a link."""

TIERS = {"leaf": "-", "core": "--"}
SHARES = (10, 25, 50, 75, 90, 99)

MOST_LARGE_PENALTY = 1.01


def many_cuts(table: Table) -> Iterator[Check]:
    """Yield the checks of a large fabric in which one link after another fails."""
    for period, (most_us, most_share) in MANY.items():

        def found(period: str = period) -> Variant:
            return table.variant(cuts=period)

        row = f"cuts, {period}"
        note = _spread(table, period)
        yield Check.at_most(f"{row}: longest blackout", worst(table, found, "blackout"), most_us,
                            "us", note=note)  # fmt: skip
        for metric in ("cut off for good", "found dead in vain"):
            yield Check.at_most(f"{row}: {metric}", worst(table, found, metric), 0)
        share = "heartbeats, share of a link"
        yield Check.at_most(f"{row}: {share}", worst(table, found, share), most_share, "%")


def _spread(table: Table, period: str) -> str:
    """Say how many cuts were off for how long at most."""
    longest = sorted(us for tier in TIERS for us in longest_us(table, period, tier))
    if not longest:
        return ""
    parts = (f"{share} %: {_rank(longest, share):g}" for share in SHARES)
    return f"{len(longest)} cuts, of these {', '.join(parts)}, all: {longest[-1]:g} us"


def _rank(values: list[float], share: int) -> float:
    return values[max(0, -(-len(values) * share // 100) - 1)]


def longest_us(table: Table, period: str, tier: str) -> list[float]:
    """Return of each cut of a tier how long the flow was cut off that was so longest."""
    try:
        runs = table.runs(table.variant(cuts=period))
    except NotRunError:
        return []
    seen = [
        each
        for run in runs
        if not run.failure
        for each in json.loads((run.folder / CUTS).read_text())
    ]
    return [
        max(math.inf if us is None else us for us in (*each["down"], *each["up"]))
        for each in seen
        if each["tier"] == tier
    ]


def large_job(table: Table) -> Iterator[Check]:
    """Yield the checks of a ring over all hosts of a large fabric with a core link that fails."""
    for who, timer, most in (
        (DPFR, SHORT, MOST_LARGE_PENALTY),
        (DPFR, USUAL, None),
        (CONTROLLER, USUAL, None),
        (BFD, USUAL, None),
    ):

        def ratio(who: str = who, timer: str = timer) -> Estimate:
            cut = table.variant(who=who, timer=timer)
            return table.paired(cut, table.variant(who=NOTHING), "AllReduce")

        def once(who: str = who, timer: str = timer) -> float | None:
            """Return the ratio of the first seed: where no threshold hangs on it, one is run."""
            run = table.runs(table.variant(who=who, timer=timer))[0]
            took = run.metrics["AllReduce"].value
            bare = {each.seed: each for each in table.runs(table.variant(who=NOTHING))}[run.seed]
            undisturbed = bare.metrics["AllReduce"].value
            return None if took is None or undisturbed is None else took / undisturbed

        row = f"ring of all hosts, {CALLED[who]}, {timer} time-out: over undisturbed"
        if most is None:
            yield Check.reported(row, once)
        else:
            yield Check.at_most(row, ratio, most)
    row = f"ring of all hosts, {CALLED[DPFR]}, {SHORT} time-out: packets sent again"
    hit = partial(table.variant, who=DPFR, timer=SHORT)
    note = "so the link was one that the ring needs"
    yield Check.at_least(row, least(table, hit, "repeated packets"), 1, note=note)
