"""What pauses do in each variant: goodput, losses, victims, and whether anything still moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from labs import Check, Estimate, Figure, Measured, Run, Table
from labs.drawing import bars, drawing, where

PS_PER_US = 1_000_000
GOODPUT, SLOWEST, FIRST = "goodput", "slowest flow", "first flow"
STOPS, STUCK, DROPPED, HEADROOM = "stops", "deadlocked queues", "watchdog drops", "headroom drops"
RING = ("deadlock", "watchdog", "two-classes", "without-a-link", "dcqcn-late", "dcqcn")


def measure(run: Run) -> dict[str, Measured]:
    """One finished run as numbers. Rates are those of the second half: a start is no steady state.

    `stops`: the time of the last packet that arrived, None where they arrive to the end.
    """
    until = run.summary["end"]["now_ps"]
    names = [str(each) for each in run.results.table("flows", ["flow"])["flow"].to_pylist()]
    late = dict.fromkeys(names, 0)
    last = 0
    for row in run.results.table("flow_rates", ["at_ps", "flow", "bytes"]).to_pylist():
        if row["bytes"]:
            last = max(last, row["at_ps"])
        if row["at_ps"] > until // 2:
            late[str(row["flow"])] += row["bytes"]
    gbps = [8000 * size / (until / 2) for size in late.values()]
    moves = until - last < until // 20
    deadlocks = run.summary["blocking"]["deadlocks"]
    lost = run.summary["drops"]["by_reason"]
    return {
        GOODPUT: Measured(sum(gbps), "Gb/s"),
        SLOWEST: Measured(min(gbps), "Gb/s"),
        FIRST: Measured(gbps[0], "Gb/s"),
        STOPS: Measured(None if moves else last / PS_PER_US, "us"),
        STUCK: Measured(sum(len(cycle) for cycle in deadlocks)),
        DROPPED: Measured(lost.get("watchdog", 0)),
        HEADROOM: Measured(lost.get("headroom", 0)),
        "pauses": Measured(_pauses(run)),
    }


def _pauses(run: Run) -> int:
    sent = run.results.table("pauses", ["xoff_sent"])["xoff_sent"].to_pylist()
    return sum(count or 0 for count in sent)  # none of hosts


def checks(table: Table) -> Iterator[Check]:
    """Yield what a learner should see."""
    for name in ("deadlock", "dcqcn-late"):
        yield Check.at_most(f"{name}: goodput", _of(table, name, GOODPUT), 0, "Gb/s",
                            note="nothing moves any more")  # fmt: skip
        yield Check.at_most(f"{name}: stops after", _of(table, name, STOPS), 100, "us")
        yield Check.at_least(f"{name}: queues in the cycle", _of(table, name, STUCK), 5)
    yield Check.at_least("watchdog: goodput", _of(table, "watchdog", GOODPUT), 10, "Gb/s",
                         note="it ends a deadlock, and the next one forms")  # fmt: skip
    yield Check.at_least("watchdog: dropped", _of(table, "watchdog", DROPPED), 1, "packets")
    for name in ("two-classes", "without-a-link", "dcqcn"):
        yield Check.at_most(f"{name}: queues in a cycle", _of(table, name, STUCK), 0)
        yield Check.at_least(f"{name}: slowest flow", _of(table, name, SLOWEST), 15, "Gb/s")
    yield Check.below(
        "a second class beats the watchdog",
        _of(table, "watchdog", GOODPUT), _of(table, "two-classes", GOODPUT),
    )  # fmt: skip
    yield Check.at_most("victim: h1 to h6", _of(table, "victim", FIRST), 40, "Gb/s",
                        note="its own path has room for all it sends beside h2's")  # fmt: skip
    yield Check.at_least("victim-apart: h1 to h6", _of(table, "victim-apart", FIRST), 60, "Gb/s")
    for name, most in (("victim", True), ("headroom-short", False), ("headroom-none", False)):
        row, look = f"{name}: lost for want of headroom", _of(table, name, HEADROOM)
        if most:
            yield Check.at_most(row, look, 0, "packets")
        else:
            yield Check.at_least(row, look, 1, "packets")
    yield Check.reported("deadlock: pauses sent", _of(table, "deadlock", "pauses"))


def _of(table: Table, variant: str, metric: str) -> Callable[[], Estimate]:
    return lambda: table.estimate(variant, metric)


def figures(table: Table, out: Path) -> Iterator[Figure]:
    """Draw what five flows of the ring carry, by remedy."""
    ring = [each for each in table.variants() if each.name in RING]
    with drawing(out / "goodput.png", where(table)) as figure:
        bars(figure.subplots(), table, ring, GOODPUT)
    yield Figure(out / "goodput.png", "Goodput of the ring's five flows in the second half of the "
                 "run, median and 95 % interval over seeds.")  # fmt: skip
