"""What has to come out: half the goodput while a plane is gone, all of it after, and no failure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from labs import Check, Estimate, Figure, NotRunError, Runtime, Table
from labs.drawing import COLOURS, GREY, drawing, where

from . import real
from .runs import TIMELINE, measure

Lookup = Callable[[], Estimate]

OURS = "shared"
NICS = {
    "single": "one port alone",
    "bond": "bond, by hash",
    "nccl": "NCCL-like",
    OURS: "planes, shared",
}
OTHERS = ("single", "bond", "nccl")
FAILURES = ("link", "silent", "there", "back", "leaf", "spine", "lossy", "slow")
KEPT = ("spine", "lossy", "slow")
"""No plane is lost: DPFR mends it, or it carries what it can."""
HALF = 48.0
FULL = 98.0
measure_simulator = measure
measure_live = real.measure_live
measure_beside = real.measure_beside


def checks(table: Table) -> Iterator[Check]:
    """Yield the rows of the lab's table."""
    if table.runtime is not Runtime.SIMULATOR:
        yield from real.checks(table)
        return
    yield Check.at_least("healthy: goodput over that of one port", _twice(table), 2 * 0.98)
    yield Check.at_most("healthy: packets sent again", _of(table, OURS, "none", "repeated"), 0)
    for failure in FAILURES:
        row = f"{failure}: goodput 0.5 to 1 ms after the cut"
        yield Check.at_least(row, _of(table, OURS, failure, "after the cut"), HALF, "%")
        yield Check.at_most(
            f"{failure}: queue pairs that failed", _of(table, OURS, failure, "failed"), 0
        )
        if failure in KEPT[1:]:
            found = _of(table, OURS, failure, "at the end")
            yield Check.reported(f"{failure}: goodput 1 to 2 ms after, {NICS[OURS]}", found, "%")
        if failure not in KEPT:
            noticed = _of(table, OURS, failure, "noticed")
            yield Check.reported(f"{failure}: noticed by all who send after", noticed, "us")
        for nic in OTHERS if failure in ("link", "silent", "leaf") else ():
            found = _of(table, nic, failure, "at the end")
            yield Check.reported(
                f"{failure}: goodput 1 to 2 ms after the cut, {NICS[nic]}", found, "%"
            )
    row = "restored"
    yield Check.at_least(
        f"{row}: goodput at the end", _of(table, OURS, row, "at the end"), FULL, "%"
    )
    yield Check.at_most(
        f"{row}: all of it is back after", _of(table, OURS, row, "back after"), 20, "ms"
    )
    longest = _of(table, OURS, row, "queue before")
    yield Check.reported(f"{row}: longest queue of the plane before the cut", longest, "kB")
    longest = _of(table, OURS, row, "queue on return")
    yield Check.reported(f"{row}: longest queue of the plane on return", longest, "kB")
    longest = _of(table, OURS, "steady", "longest queue")
    yield Check.reported("healthy for as long: longest queue of a plane", longest, "kB")
    for nic in (OURS, "nccl"):
        row = f"a link gone for 100 ms every 10 s: step rate, {NICS[nic]}"
        rate = partial(table.estimate, f"hour-{nic}", "step rate")
        yield Check.at_least(row, rate, 99, "%") if nic == OURS else Check.reported(row, rate, "%")


def _of(table: Table, nic: str, failure: str, metric: str) -> Lookup:
    return lambda: table.estimate(table.variant(nic=nic, failure=failure), metric)


def _twice(table: Table) -> Lookup:
    def ratio() -> Estimate:
        ours, single = (table.variant(nic=nic, failure="none") for nic in (OURS, "single"))
        return table.paired(ours, single, "goodput before")

    return ratio


def figures(table: Table, out: Path) -> Iterator[Figure]:
    """Goodput over time, of the first seed: a failure for good, and one that is mended."""
    for failure, text in (
        ("silent", "One host's link into one plane dies, and both its ends keep their carrier."),
        ("restored", "One host's link into one plane is cut, and mended 1 ms later."),
    ):
        lines = {nic: found for nic in NICS if (found := _timeline(table, nic, failure))}
        if not lines:
            continue
        path = out / f"{failure}.png"
        with drawing(path, where(table)) as figure:
            _draw(figure.subplots(), lines)
        yield Figure(path, f"{text} What a host receives of the AllReduce, the first seed.")


def _timeline(table: Table, nic: str, failure: str) -> dict[str, Any] | None:
    try:
        first = table.runs(table.variant(nic=nic, failure=failure))[0]
    except (LookupError, NotRunError):
        return None
    return dict(json.loads((first.folder / TIMELINE).read_text()))


def _draw(axes: Any, lines: Mapping[str, Mapping[str, Any]]) -> None:
    for colour, (nic, line) in zip(COLOURS, lines.items(), strict=False):
        times = [i * line["step_us"] / 1000 for i in range(len(line["gbps"]))]
        axes.step(times, line["gbps"], where="post", color=colour, label=NICS[nic])
        axes.axvline(line["cut_us"] / 1000, color=GREY, linestyle=":")
        if line["back_us"]:
            axes.axvline(line["back_us"] / 1000, color=GREY, linestyle="--")
    axes.set_xlabel("ms")
    axes.set_ylabel("Gb/s a host")
    axes.set_ylim(bottom=0)
    axes.legend()
