"""`weft dcqcn`: where the fluid model rests and how stably; whose each parameter is. Tables."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import click

from experiments.perf_request import MTUS
from mechanisms.dcqcn.fluid_model import FluidModel, Solution
from mechanisms.dcqcn.parameters import SETS, parameters, thresholds
from mechanisms.dcqcn.sources import Source, sources
from observe.errors import UsageError
from topologies.units import format_duration, format_rate, parse_duration, parse_rate
from weft import console
from weft.command_line import as_json, command, flag, option
from workloads.slow_motion import ParameterError

MOST_FLOWS = 100_000
LEAST_DELAY_PS = 1000
PS_A_S = 10**12
COLUMNS = ("set", "link", "flows", "marked", "queue - Kmin", "alpha", "phase margin", "crossover")
SOLVED = ("marked, mean", "queue, mean", "queue, most")


@dataclass(frozen=True)
class Row:
    """One set on one link; the fixed point's values, and means over time where asked for."""

    set: str
    rate_bps: int
    flows: int
    marking: float
    above_kmin_bytes: float
    kmin_bytes: int
    alpha: float
    beyond_kmax: bool
    phase_margin_deg: float
    crossover_rad_s: float
    growth_per_s: float
    solution: Solution | None

    @property
    def stable(self) -> bool:
        return self.growth_per_s < 0 and not self.beyond_kmax

    def cells(self) -> tuple[str, ...]:
        """Return it as the table's text."""
        margin = f"{self.phase_margin_deg:.1f} deg" + ("" if self.stable else ", unstable")
        cells = (
            self.set,
            format_rate(self.rate_bps),
            str(self.flows),
            f"{self.marking:.3%}",
            f"{self.above_kmin_bytes / 1000:.1f} kB",
            f"{self.alpha:.4f}",
            "beyond Kmax" if self.beyond_kmax else margin,
            f"{self.crossover_rad_s:.0f} rad/s",
        )
        if self.solution is None:
            return cells
        found = self.solution
        queues = (found.queue_bytes, found.most_bytes)
        return (*cells, f"{found.marking:.3%}", *(f"{size / 1000:.1f} kB" for size in queues))


@dataclass(frozen=True)
class _Asked:
    """The options; `set` None: all of them."""

    set: str | None
    rate: str
    flows: str
    delay: str
    mtu: int
    hyper: bool
    solve: bool
    sources: bool


@command("""
    examples:
      weft dcqcn                                     all sets, 2 and 10 flows
      weft dcqcn --set hpcc-dcqcn --rate 400Gbps,800Gbps --flows 32 --delay 20us
      weft dcqcn --solve                             solve the equations over time, too
      weft dcqcn --sources --set hpcc-dcqcn          the source of each parameter

    exit codes: 0 done, 2 wrong arguments
    """)
@option("--set", metavar="NAME", help="one parameter set (default: all)")
@option("--rate", default="25Gbps,100Gbps,400Gbps", metavar="R,...",
        help="rates of the link and the senders (default)")  # fmt: skip
@option("--flows", default="2,10", metavar="N,...", help="how many flows share the link (default)")
@option("--delay", default="4us", metavar="T",
        help="from a mark until the changed rate reaches the queue (default)")  # fmt: skip
@option("--mtu", type=click.Choice(MTUS), default=MTUS[-1], metavar="BYTES",
        help="payload of a packet (default)")  # fmt: skip
@flag("--hyper", help="include hyper increase, which the published model leaves out")
@flag("--solve", help="also solve the equations over 1 s and print the means "
      "(takes seconds for each row)")  # fmt: skip
@flag("--sources", help="print the source of every parameter instead of the model's results")
@as_json
def run(as_json: bool, **options: Any) -> int:
    """Print the table. Returns the exit code; raises UsageError."""
    asked = _Asked(**options)
    try:
        if asked.sources:
            return _print_sources(asked, as_json=as_json)
        rows = list(_rows(asked))
    except (ParameterError, ValueError) as error:
        raise UsageError(str(error)) from None
    if as_json:
        print(json.dumps([{**asdict(row), "stable": row.stable} for row in rows], indent=2))
        return 0
    columns = COLUMNS + (SOLVED if asked.solve else ())
    console.table(
        columns,
        [row.cells() for row in rows],
        title="DCQCN's fixed points in the fluid model"
        + (" with hyper increase" if asked.hyper else ""),
        caption=f"packets of {asked.mtu} B, feedback after {asked.delay}",
        right=columns[2:],
    )
    return 0


def _print_sources(asked: _Asked, *, as_json: bool) -> int:
    """Print each number of the sets asked for, at the first rate, with its source."""
    rate = parse_rate(asked.rate.split(",")[0].strip())
    names = [asked.set] if asked.set else SETS
    found = {name: sources(name) for name in names}
    if as_json:
        rows = [
            {"set": name, "field": field, "value": value, **_said(source)}
            for name in names
            for field, value, source in _with_values(name, rate, found[name])
        ]
        print(json.dumps(rows, indent=2))
        return 0
    for name in names:
        console.table(
            ("field", "value", "read in", "it says", "ours"),
            [
                (field, str(value), source.place, source.says, source.ours)
                for field, value, source in _with_values(name, rate, found[name])
            ],
            title=f"{name} at {format_rate(rate)}: {_repository(found[name])}",
            right=("value",),
        )
    return 0


def _with_values(
    name: str, rate: int, found: Mapping[str, Source]
) -> Iterator[tuple[str, int | bool, Source]]:
    """Yield each field of a set and of its thresholds, in their order, with value and source."""
    for numbers in (parameters(name, rate), thresholds(name, rate)):
        for each in fields(numbers):
            if each.name in found:
                yield each.name, getattr(numbers, each.name), found[each.name]


def _said(source: Source) -> dict[str, str]:
    return {"url": source.url, "says": source.says, "ours": source.ours}


def _repository(found: Mapping[str, Source]) -> str:
    first = next(iter(found.values())).repository
    return f"{first.name} at {first.commit[:12]}"


def _rows(asked: _Asked) -> Iterator[Row]:
    rates = [parse_rate(text.strip()) for text in asked.rate.split(",")]
    flows = _flows(asked.flows.split(","))
    delay_ps = parse_duration(asked.delay)
    if delay_ps < LEAST_DELAY_PS:
        least = format_duration(LEAST_DELAY_PS)
        raise UsageError(f"--delay {asked.delay}: at least {least}, light takes that long")
    for name in [asked.set] if asked.set else SETS:
        for rate in rates:
            for number in flows:
                yield _row(name, rate, number, delay_ps / PS_A_S, asked)


def _flows(words: Sequence[str]) -> list[int]:
    for word in words:
        if not word.strip().isdecimal() or not 0 < int(word) <= MOST_FLOWS:
            raise UsageError(f"--flows {word}: a number from 1 to {MOST_FLOWS} is wanted")
    return [int(word) for word in words]


def _row(name: str, rate: int, flows: int, delay_s: float, asked: _Asked) -> Row:
    marks = thresholds(name, rate)
    model = FluidModel.of(
        parameters(name, rate), marks, rate, flows=flows, payload=asked.mtu, delay_s=delay_s
    )
    if not asked.hyper:
        model = model.without_hyper()
    point, stability = model.fixed_point(), model.stability()
    return Row(
        name,
        rate,
        flows,
        point.marking,
        point.queue_bytes - marks.min_bytes,
        marks.min_bytes,
        point.alpha,
        point.queue_bytes > marks.max_bytes,
        stability.phase_margin_deg,
        stability.crossover_rad_s,
        stability.growth,
        model.solve(1.0) if asked.solve else None,
    )
