"""The lab's figures."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from labs import Figure, NotRunError, Runtime, Table, Variant
from labs.drawing import COLOURS, GREY, drawing, where

from .faults import CONTROLLER, CORE_LINK, DPFR, FAULTS, LOCAL, REPAIRS, WATCH
from .large import MANY, TIERS, longest_us
from .lookups import CALLED, USUAL, one
from .simulated import COURSE, FLOWS


def figures(table: Table, out: Path) -> Iterator[Figure]:
    """Draw the longest blackouts, those of all flows, and the AllReduce around the cut."""
    if table.runtime is not Runtime.SIMULATOR:
        return
    if any("repair" in variant.labels for variant in table.variants()):
        yield from _of_repairs(table, out)
    drawn = sum(len(longest_us(table, period, tier)) for period in MANY for tier in TIERS)
    if not drawn:
        return
    path = out / "cuts.png"
    with drawing(path, where(table)) as figure:
        _many(figure.subplots(), table)
    yield Figure(path, f"{drawn} cuts of a link in a large fabric: the share of them after which "
                 "no flow was cut off for longer, by tier and heartbeats' period.")  # fmt: skip


def _of_repairs(table: Table, out: Path) -> Iterator[Figure]:
    """Those of the comparison in the small fabric."""
    path = out / "blackout.png"
    with drawing(path, where(table)) as figure:
        _blackouts(figure.subplots(), table)
    yield Figure(path, "The longest time for which a pair of leaves was cut off, by who repairs "
                 "it. Hatched: until the end of the run.")  # fmt: skip
    path = out / "flows.png"
    with drawing(path, where(table)) as figure:
        _flows(figure.subplots(), table)
    yield Figure(path, "Of all flows that lost something, over all kinds of faults: the share that "
                 "was cut off for at most so long. What never came back is missing.")  # fmt: skip
    path = out / "course.png"
    with drawing(path, where(table)) as figure:
        _courses(figure.subplots(), table)
    yield Figure(path, f"What hosts receive of the AllReduce, {CORE_LINK}, the first seed.")


def _ran(table: Table, repair: str, fault: str, timeout: str = USUAL) -> Variant | None:
    try:
        return one(table, repair, fault, timeout)()
    except NotRunError:
        return None


def _blackouts(axes: Any, table: Table) -> None:
    forever, height = 10**6, 0.8 / len(REPAIRS)
    for n, repair in enumerate(REPAIRS):
        for place, fault in enumerate(FAULTS):
            variant = _ran(table, repair, fault)
            if variant is None:
                continue
            values = [run.metrics["blackout"].value for run in table.runs(variant)]
            never = None in values
            length = forever if never else max(v for v in values if v is not None)
            axes.barh(
                place + (n - 2.5) * height, length, height=height * 0.9, color=COLOURS[n],
                hatch="//" if never else None, alpha=0.45 if never else 1,
                label=CALLED[repair] if place == 0 else None,
            )  # fmt: skip
    axes.set_xscale("log")
    axes.set_xlim(10, forever)
    axes.set_ylim(len(FAULTS) - 0.5, -0.5)
    axes.set_yticks(range(len(FAULTS)), FAULTS)
    axes.set_xlabel("longest blackout of all pairs, worst seed [us]; hatched: never healed")
    _legend(axes)


def _flows(axes: Any, table: Table) -> None:
    for n, repair in enumerate(REPAIRS):
        gaps: list[float] = []
        total = 0
        for fault in FAULTS:
            variant = _ran(table, repair, fault)
            for run in table.runs(variant) if variant is not None else ():
                every_us = min(_gaps_us(run.folder), default=0)
                found = _gaps_us(run.folder, with_lost=True)
                cut = [gap for gap in found if gap is None or gap > 1.9 * every_us]
                total += len(cut)
                gaps += [gap for gap in cut if gap is not None]
        if total:
            gaps.sort()
            shares = [(i + 1) / total for i in range(len(gaps))]
            axes.step(gaps, shares, where="post", color=COLOURS[n], label=CALLED[repair])
    axes.set_xscale("log")
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("cut off for [us]")
    axes.set_ylabel("share of the flows that lost something")
    _legend(axes)


def _gaps_us(folder: Path, *, with_lost: bool = False) -> list[Any]:
    _, longest = json.loads((folder / FLOWS).read_text())
    found = [None if ns is None else ns / 1000 for ns in longest.values()]
    return found if with_lost else [gap for gap in found if gap is not None]


def _many(axes: Any, table: Table) -> None:
    """Draw how blackouts of many cuts are distributed."""
    for n, (period, (most_us, _)) in enumerate(MANY.items()):
        for tier, dashes in TIERS.items():
            values = sorted(longest_us(table, period, tier))
            finite = [us for us in values if us != math.inf]
            if finite:
                shares = [(i + 1) / len(values) for i in range(len(finite))]
                axes.step([0, *finite], [0, *shares], where="post", color=COLOURS[n],
                          linestyle=dashes, label=f"{period}, link of a {tier}")  # fmt: skip
        axes.axvline(most_us, color=COLOURS[n], linestyle=":")
    axes.set_xlim(0, None)
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("longest blackout of a cut [us]; dotted: what is allowed")
    axes.set_ylabel("share of the cuts")
    _legend(axes)


def _courses(axes: Any, table: Table) -> None:
    for n, repair in enumerate((CONTROLLER, WATCH, LOCAL, DPFR)):
        variant = _ran(table, repair, CORE_LINK)
        if variant is None:
            continue
        at_ps, received = json.loads((table.runs(variant)[0].folder / COURSE).read_text())
        rates: dict[int, float] = dict.fromkeys(range(0, 1000, 10), 0.0)
        for at, number in zip(at_ps, received, strict=True):
            slot = round(at / 1e7) * 10
            if slot in rates:
                rates[slot] = 8 * number / 1e4
        axes.plot(list(rates), list(rates.values()), color=COLOURS[n], label=CALLED[repair])
    axes.axvline(300, color=GREY, linestyle=":")
    axes.set_xlabel("time [us]; dotted: the link dies")
    axes.set_ylabel("received of the AllReduce [Gb/s]")
    _legend(axes)


def _legend(axes: Any) -> None:
    """Say beside the axes which is which, if anything is there."""
    if axes.get_legend_handles_labels()[1]:
        axes.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
