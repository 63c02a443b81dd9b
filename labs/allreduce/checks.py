"""What has to come out: how near switches come to the line, and how far ahead of hosts they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from labs import Check, Context, Estimate, Figure, Measured, Table, Variant
from labs.drawing import bars, drawing, where

from .runs import measure

Lookup = Callable[[], Estimate]

TIMEOUT_US = 100
"""Of workers: `timeout_ns` of hostagent/programs/allreduce.c."""

ATP_GAIN = 1.38
"""What ATP claims at least over parameter servers alone (Lao et al., NSDI 2021: 38 to 66 %)."""

MOST_STALL_US = 1000 + TIMEOUT_US
OF_BOUND = 95
LEVELS = ("1", "2", "3")


def measure_simulator(context: Context) -> dict[str, Measured]:
    """In virtual time."""
    return measure(context)


def checks(table: Table) -> Iterator[Check]:
    """Yield the rows of the lab's table."""
    for levels in LEVELS:
        yield from _beside_hosts(table, levels)
    eight = _named(table, "eight-switches", "of the bound")
    yield Check.at_least("8 jobs at once: the slowest, of the bound", eight, OF_BOUND, "%")
    yield Check.reported("8 jobs at once: rings over switches",
                         _times(table, "eight-rings", "eight-switches"))  # fmt: skip
    for trouble in ("link", "root"):
        row = "the root dies" if trouble == "root" else "a link of the tree dies"
        stall = _named(table, trouble, "stall")
        yield Check.at_most(f"{row}: longest stall", stall, MOST_STALL_US, "us")
        yield Check.at_most(f"{row}: wrong sums", _named(table, trouble, "wrong sums"), 0)
        yield Check.at_least(f"{row}: moves", _named(table, trouble, "moves"), 1)
    yield Check.at_most(
        "1 % loss on every link: wrong sums", _named(table, "loss", "wrong sums"), 0
    )
    yield Check.at_least("1 % loss on every link: packets sent again",
                         _named(table, "loss", "repeated"), 1000)  # fmt: skip
    yield Check.reported("1 % loss on every link: AllReduce", _named(table, "loss", "AllReduce"),
                         "us")  # fmt: skip
    yield from _shared(table)
    yield from _spread(table)
    yield from _all_hosts(table)


def _shared(table: Table) -> Iterator[Check]:
    """Best effort: eight jobs on cells for four, beside what they would have without."""
    row = "8 jobs on cells for 4, best effort"
    for name, text in (("shared-servers", "no cells"), ("shared-half", "cells for 4")):
        wrong = _named(table, name, "wrong sums")
        yield Check.at_most(f"8 jobs, a server each, {text}: wrong sums", wrong, 0)
    pair = ("shared-half", "shared-servers", "a job's throughput")
    yield Check.at_least(f"{row}: throughput over servers alone", lambda: table.paired(*pair),
                         ATP_GAIN)  # fmt: skip
    yield Check.reported(f"{row}: summed by the switch alone",
                         _named(table, "shared-half", "summed by the switch alone"),
                         "%")  # fmt: skip
    for other, text in (
        ("shared-all", "cells for 8"),
        ("shared-slots", "slots for 4, an eighth each"),
        ("shared-rings", "rings"),
    ):
        yield Check.reported(f"8 jobs, {text}: throughput over cells for 4",
                             _over_half(table, other))  # fmt: skip


def _over_half(table: Table, other: str) -> Lookup:
    return lambda: table.paired(other, "shared-half", "a job's throughput")


def _spread(table: Table) -> Iterator[Check]:
    """AllGather and Broadcast by multicast, beside rings: bytes and time."""
    pair = ("gather-switches", "gather-ring")
    row = "64 hosts, AllGather of 8 MB: switches over ring"
    yield Check.at_most(f"{row}, bytes on hosts' links",
                        lambda: table.paired(*pair, "on hosts' links"), 0.51)  # fmt: skip
    yield Check.at_most(f"{row}, time", lambda: table.paired(*pair, "took"), 1)
    for size, most in (("64kB", 0.5), ("1MB", 0.5), ("8MB", None)):
        row = f"64 hosts, Broadcast of {size.replace('k', ' k').replace('M', ' M')}"
        ratio = _broadcasts(table, size)
        if most is None:
            yield Check.reported(f"{row}: switches over ring, time", ratio)
        else:
            yield Check.at_most(f"{row}: switches over ring, time", ratio, most)


def _broadcasts(table: Table, size: str) -> Lookup:
    return lambda: table.paired(f"broadcast-switches-{size}", f"broadcast-ring-{size}", "took")


def _beside_hosts(table: Table, levels: str) -> Iterator[Check]:
    what = f"{levels} level{'s' if levels != '1' else ''}"
    found = _of(table, "switches", levels, "large")
    bound = lambda: table.estimate(found(), "of the bound")  # noqa: E731
    yield Check.at_least(f"{what}, 2 MB: of the bound", bound, OF_BOUND, "%")
    for by in ("ring", "tree"):
        for size, least in (("large", 1.8), ("small", 2)):
            row = f"{what}, {'2 MB' if size == 'large' else '4 kB'}: {by} over switches"
            yield Check.at_least(row, _ratio(table, by, levels, size), least)


def _all_hosts(table: Table) -> Iterator[Check]:
    """Yield the checks of the long runs: 1,024 hosts, with --full."""
    for name in ("all-switches-8MB", "all-switches-64MB", "all-eight-64MB"):
        row = f"1,024 hosts, {name.removeprefix('all-')}: of the bound"
        yield Check.at_least(row, _named(table, name, "of the bound"), OF_BOUND, "%")
    for by in ("ring", "tree"):
        row = f"1,024 hosts, 4 kB: {by} over switches"
        yield Check.at_least(row, _times(table, f"all-{by}-4kB", "all-switches-4kB"), 5)
        row = f"1,024 hosts, 8 MB: {by} over switches"
        yield Check.at_least(row, _times(table, f"all-{by}-8MB", "all-switches-8MB"), 1.8)


def figures(table: Table, out: Path) -> Iterator[Figure]:
    """Draw the times of 2 MB, by who adds and over how many levels."""
    with drawing(out / "large.png", where(table)) as figure:
        bars(figure.subplots(), table, table.variants(size="large"), "AllReduce")
    yield Figure(out / "large.png", "AllReduce of 2 MB over 16 hosts, median and 95 % interval.")


def _of(table: Table, by: str, levels: str, size: str) -> Callable[[], Variant]:
    return lambda: table.variant(by=by, levels=levels, size=size)


def _named(table: Table, name: str, metric: str) -> Lookup:
    return lambda: table.estimate(name, metric)


def _times(table: Table, above: str, below: str) -> Lookup:
    return lambda: table.paired(above, below, "AllReduce")


def _ratio(table: Table, by: str, levels: str, size: str) -> Lookup:
    return lambda: table.paired(
        _of(table, by, levels, size)(), _of(table, "switches", levels, size)(), "AllReduce"
    )
