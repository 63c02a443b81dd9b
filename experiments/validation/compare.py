"""Ours beside theirs: slowdowns of the same flows by size decile, and their ratios."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from experiments.validation.cases import CASES
from experiments.validation.ns3 import Control, Facts, FactsError, controls, digest, recorded
from experiments.validation.ours import Result, simulate
from experiments.validation.slowdown import SHARES, Decile
from simulator.runner import Progress

WITHIN = 0.15
"""By how much two simulators may differ without a reason being named."""


@dataclass(frozen=True)
class Cell:
    """A percentile of a decile in both: medians and ranges over runs, ours over theirs."""

    theirs: float
    theirs_range: tuple[float, float]
    ours: float
    ours_range: tuple[float, float]

    @property
    def ratio(self) -> float:
        return self.ours / self.theirs

    def is_within(self, share: float) -> bool:
        """Say whether the medians are as near as that, or the ranges overlap."""
        if abs(self.ratio - 1) <= share:
            return True
        (low, high), (least, most) = self.ours_range, self.theirs_range
        return len({low, high, least, most}) == 4 and low <= most and least <= high


@dataclass(frozen=True)
class Comparison:
    """A case under a control. `cells`: by decile, then by percentile."""

    case: str
    control: str
    variant: str | None
    ours: Sequence[Result]
    theirs: Sequence[Facts]

    @property
    def cells(self) -> list[Mapping[str, Cell]]:
        ours = [result.deciles for result in self.ours]
        theirs = [facts.to_last_byte for facts in self.theirs]
        return [
            {name: _cell([run[at] for run in theirs], [run[at] for run in ours], name)
             for name, _ in SHARES}
            for at in range(len(ours[0]))
        ]  # fmt: skip

    def typical(self, name: str) -> float:
        """Return the median of the ten ratios of a percentile, ours over theirs."""
        return statistics.median(cells[name].ratio for cells in self.cells)

    def outside(self, share: float) -> list[str]:
        """Return the percentiles that differ by more, by decile from 1."""
        return [
            f"decile {number} {name}: {cell.ratio:.2f}"
            for number, cells in enumerate(self.cells, start=1)
            for name, cell in cells.items()
            if not cell.is_within(share)
        ]

    def plain(self, share: float) -> dict[str, Any]:
        """Return it as data."""
        rows = [
            {"most_bytes": decile.most_bytes, "flows": decile.flows,
             **{name: {**asdict(cell), "ratio": cell.ratio} for name, cell in cells.items()}}
            for decile, cells in zip(self.ours[0].deciles, self.cells, strict=True)
        ]  # fmt: skip
        return {
            "case": self.case,
            "control": self.control,
            "variant": self.variant,
            "deciles": rows,
            "typical": {name: self.typical(name) for name, _ in SHARES},
            "outside": self.outside(share),
            "ours": [{k: v for k, v in asdict(run).items() if k != "deciles"} for run in self.ours],
            "theirs": [
                {key: getattr(run, key) for key in ("port", "cpu_s", "pauses", "last_ms")}
                for run in self.theirs
            ],
        }


def _cell(theirs: Sequence[Decile], ours: Sequence[Decile], name: str) -> Cell:
    their, our = ([float(getattr(decile, name)) for decile in runs] for runs in (theirs, ours))
    return Cell(
        statistics.median(their), (min(their), max(their)), statistics.median(our),
        (min(our), max(our)),
    )  # fmt: skip


def pairs() -> list[tuple[str, str]]:
    """Return the cases and controls of which there are facts."""
    return list(dict.fromkeys((facts.case, facts.control) for facts in recorded()))


def compare(
    case_name: str,
    control_name: str,
    seeds: Sequence[int],
    variant: str | None = None,
    tell: Callable[[int, Progress], None] | None = None,
) -> Comparison:
    """Run a case, once a seed, and put it beside what is recorded of it.

    `variant`: of the control. Raises FactsError where nothing is, or where the flows are not those
    that were recorded.
    """
    case = CASES[case_name]
    theirs = list(_facts_of(case_name, control_name))
    for facts in theirs:
        if digest(case, facts.port) != facts.flow_file_sha256:
            raise FactsError(f"{case_name}: facts of port {facts.port} are of other flows")
    control: Control = controls()[control_name]
    if variant is not None:
        control = control.variant(variant)
    ours = []
    for seed in seeds:
        step = None if tell is None else partial(tell, seed)
        ours.append(simulate(case, control, seed, step))
    return Comparison(case_name, control_name, variant, ours, theirs)


def _facts_of(case: str, control: str) -> Iterator[Facts]:
    found = [each for each in recorded() if (each.case, each.control) == (case, control)]
    if not found:
        there = ", ".join(" ".join(pair) for pair in pairs())
        raise FactsError(f"nothing is recorded of {case} under {control}; available: {there}")
    yield from found
