"""What a lab's `checks.py` is written against: runs, measured values, the table of all, checks.

A lab is a folder: README.md, lab.yaml and checks.py with some of these functions (docs/labs.md):

    def measure(run: Run) -> dict[str, Measured]          simulator: a variant and seed that ran
    def measure_live(context: Context) -> dict[str, Measured]        softswitch, bmv2: it runs it
    def measure_simulator(context: Context) -> dict[str, Measured]   for `measure`, where it runs it
    def measure_beside(context: Context) -> dict[str, Measured]      simulator, beside a live run
    def prepare(simulation: Simulation, context: Context) -> None    simulator: before it runs
    def check_answer(path: Path) -> None    reads what --answer names; ValueError: it is refused
    def checks(table: Table) -> Iterable[Check]
    def figures(table: Table, out: Path) -> Iterable[Figure]

Values are in fabric time and bytes whatever the runtime: a time that was read off a run with
`time_scale` 10000 is divided by it before it goes into a `Measured`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.errors import NotRunError
from experiments.statistics import Estimate
from topologies.document import Document
from workloads.loader import run_of

if TYPE_CHECKING:
    from controller.program import CompiledProgram
    from simulator.result_model import RunEnd
    from simulator.result_reader import ResultFolder
    from topologies.own_program import OwnProgram
    from workloads.model import RunFile


class Runtime(enum.StrEnum):
    """Where a lab runs: in virtual time, or in real time over namespaces."""

    SIMULATOR = "simulator"
    SOFTSWITCH = "softswitch"
    BMV2 = "bmv2"

    @property
    def is_live(self) -> bool:
        """Say whether it runs in real time."""
        return self is not Runtime.SIMULATOR


@dataclass(frozen=True)
class Measured:
    """A value with its unit ("us", "MB", "Gb/s"; "" for a ratio or a count), in fabric time.

    None: it did not happen in this run, such as the first cut of a source that never slowed down.
    """

    value: float | None
    unit: str = ""


@dataclass(frozen=True)
class Variant:
    """One column of a lab: its name, what it is called in tables, and its place in the comparison.

    `labels`: what the lab sorts by, such as {"end": "near", "senders": "4", "control": "ecn"}.
    `quick`: of those that `--quick` runs; `full`: of those that only `--full` runs.
    """

    name: str
    title: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    quick: bool = False
    full: bool = False

    def fits(self, labels: Mapping[str, str]) -> bool:
        """Say whether it has all these labels."""
        return all(self.labels.get(axis) == choice for axis, choice in labels.items())


def _tell_nobody(share: float, text: str) -> None:
    """Keep it to oneself. (A function of the module, so that contexts can be pickled.)"""


@dataclass(frozen=True)
class Context:
    """One variant and seed that is to be run, for the hooks that run it themselves.

    `mapping`: the run file, base and overrides merged, in fabric time; `source`: the same with the
    places where it stands. `out`: an empty folder of its own, for what figures are drawn from.
    `settings`: lab.yaml's `settings`, as they stand. `tell(share, text)`: how far it is (0 to 1),
    for the progress bar. `program`: the variant's; `own`: what single switches run and hold, where
    lab.yaml says it. `full`: all that the lab can do is asked for (`--full`). `answer`: what the
    user hands in where that is no P4 program (`--answer`).
    """

    lab: str
    folder: Path  # of the lab
    variant: Variant
    mapping: Mapping[str, Any]
    seed: int
    runtime: Runtime
    time_scale: int
    out: Path
    program: CompiledProgram
    settings: Mapping[str, Any] = field(default_factory=dict)
    tell: Callable[[float, str], None] = _tell_nobody
    source: Document | None = field(default=None, repr=False)
    own: OwnProgram | None = None
    full: bool = False
    answer: Path | None = None

    def run_file(self) -> RunFile:
        """Return `mapping`, checked and read, as the simulator takes it. Raises TopologyError."""
        document = self.source or Document("lab.yaml", self.mapping, {})
        run = run_of(document, self.variant.name, self.folder)
        return (
            run if self.own is None else replace(run, topology=replace(run.topology, own=self.own))
        )


@dataclass(frozen=True)
class Run:
    """One variant and seed that ran in the simulator.

    `summary` is summary.json (docs/results.md). `end` has the engine's own numbers (arrays of
    sim.h's structs). Times in both are the run's: divide by `time_scale`. `results` reads tables.
    """

    context: Context
    summary: Mapping[str, Any]
    end: RunEnd

    @property
    def variant(self) -> Variant:
        """The variant that ran."""
        return self.context.variant

    @property
    def mapping(self) -> Mapping[str, Any]:
        """The run file, merged."""
        return self.context.mapping

    @property
    def seed(self) -> int:
        """The seed it ran with."""
        return self.context.seed

    @property
    def time_scale(self) -> int:
        """What the run's times are divided by, to be fabric time."""
        return self.context.time_scale

    @property
    def folder(self) -> Path:
        """The folder of its results."""
        return self.context.out

    @cached_property
    def results(self) -> ResultFolder:
        """The result folder, to read tables from. Raises ResultError."""
        from simulator.result_reader import ResultFolder  # half a second, for pyarrow

        return ResultFolder(self.folder)


@dataclass(frozen=True)
class Finished:
    """What is kept of one variant and seed. `failure`: why it has no metrics.

    `transports`: the parameters that it ran with, as summary.json of a simulation has them.
    """

    variant: Variant
    seed: int
    runtime: Runtime
    time_scale: int
    folder: Path
    metrics: Mapping[str, Measured] = field(default_factory=dict)
    transports: Sequence[Mapping[str, Any]] = ()
    wall_s: float = 0.0
    failure: str = ""


class Table:
    """All that ran: metrics by variant, over seeds.

    In a lab whose lab.yaml says `live: {beside: simulator}`, a live run has every variant in the
    simulator beside it, at the same time scale: `table.median("ecn", "goodput", beside=True)`.
    """

    def __init__(
        self, runtime: Runtime, time_scale: int, runs: Sequence[Finished], known: Sequence[Variant]
    ) -> None:
        """`known`: all variants of the lab, whether they run on this runtime or not."""
        self.runtime = runtime
        self.time_scale = time_scale
        self.known = tuple(known)
        self._runs = tuple(runs)

    def variants(self, **labels: str) -> tuple[Variant, ...]:
        """Return the variants that ran and have these labels, in the order of lab.yaml."""
        ran = {run.variant.name for run in self._runs}
        return tuple(each for each in self.known if each.name in ran and each.fits(labels))

    def variant(self, name: str = "", **labels: str) -> Variant:
        """Return the one variant of this name, or with these labels.

        Raises NotRunError if it did not run, LookupError if there is none or more than one.
        """
        found = [v for v in self.known if (not name or v.name == name) and v.fits(labels)]
        what = name or ", ".join(f"{axis} {choice}" for axis, choice in labels.items())
        if len(found) != 1:
            count = "no variant" if not found else f"{len(found)} variants"
            raise LookupError(f"the lab has {count} of {what}")
        if not any(run.variant.name == found[0].name for run in self._runs):
            raise NotRunError(found[0].name)
        return found[0]

    def runs(self, variant: Variant | str, *, beside: bool = False) -> tuple[Finished, ...]:
        """Return a variant's runs, one a seed; `beside`: those in the simulator, of a live run.

        Raises NotRunError.
        """
        name = variant if isinstance(variant, str) else variant.name
        if all(name != each.name for each in self.known):
            raise LookupError(f"the lab has no variant {name!r}")
        runtime = Runtime.SIMULATOR if beside else self.runtime
        found = tuple(r for r in self._runs if r.variant.name == name and r.runtime is runtime)
        if not found:
            raise NotRunError(f"{name} in the simulator" if beside else name)
        return found

    def metrics(self, variant: Variant | str, *, beside: bool = False) -> tuple[str, ...]:
        """Return the names of a variant's metrics, in the order in which they were measured."""
        runs = self.runs(variant, beside=beside)
        return tuple(dict.fromkeys(name for run in runs for name in run.metrics))

    def estimate(self, variant: Variant | str, metric: str, *, beside: bool = False) -> Estimate:
        """Return median and 95 % interval over the seeds.

        Raises NotRunError if the variant did not run or failed, LookupError for an unknown metric.
        """
        runs = self.runs(variant, beside=beside)
        for run in runs:
            if run.failure:
                raise NotRunError(f"{run.variant.name}, seed {run.seed}", failed=True)
            if metric not in run.metrics:
                there = ", ".join(run.metrics)
                raise LookupError(f"{run.variant.name} has no metric {metric!r}: it has {there}")
        values = [run.metrics[metric] for run in runs]
        return Estimate.of([each.value for each in values], values[0].unit)

    def median(self, variant: Variant | str, metric: str, *, beside: bool = False) -> float | None:
        """Return the median over the seeds; None where it did not happen. Raises as `estimate`."""
        return self.estimate(variant, metric, beside=beside).median

    def ratio(
        self, above: Variant | str, below: Variant | str, metric: str, *, beside: bool = False
    ) -> float | None:
        """Return median over median; None where one did not happen or the lower is 0.

        It has no interval: what is checked against a threshold is `paired`.
        """
        upper = self.median(above, metric, beside=beside)
        lower = self.median(below, metric, beside=beside)
        return upper / lower if upper is not None and lower else None

    def paired(
        self,
        above: Variant | str,
        below: Variant | str,
        metric: str,
        *,
        beside: bool = False,
        below_beside: bool | None = None,
    ) -> Estimate:
        """Return the ratio of a metric seed by seed, as a median with its 95 % interval.

        `below_beside`: whether the lower one is the simulator's, if not as `beside` says. Raises as
        `estimate`, and LookupError where the two did not run with the same seeds.
        """
        lower = beside if below_beside is None else below_beside
        seeds = [
            [run.seed for run in self.runs(name, beside=where)]
            for name, where in ((above, beside), (below, lower))
        ]
        if seeds[0] != seeds[1]:
            raise LookupError(f"no pairs: one ran with seeds {seeds[0]}, the other {seeds[1]}")
        upper = self.estimate(above, metric, beside=beside)
        return upper.over(self.estimate(below, metric, beside=lower))

    def __iter__(self) -> Iterator[Finished]:
        """Go through all runs, those in the simulator beside a live run included."""
        return iter(self._runs)


class Verdict(enum.StrEnum):
    """How a check ended."""

    PASS = "pass"
    FAIL = "fail"
    REPORTED = "reported"  # a value without a threshold
    NOT_RUN = "not run"  # what it compares did not run: --variant, --quick


Found = float | Estimate | None
Value = Found | Callable[[], Found]
"""A value, or what looks it up: a lookup may meet what did not run (`--quick`, `--variant`)."""


@dataclass(frozen=True)
class Check:
    """One row of the lab's claims: what is expected, what came, and whether that is it.

        Check.at_most("reaction, near end", lambda: table.paired("fast", "slow", "reaction"), 1/150)

    An `Estimate` meets a threshold if its whole 95 % interval does, and the metric happened in all
    runs; a number, and the one value of a single run, by itself. `value`: the number, or the
    median, `low` and `high` its interval. `row`: its name in the issue or the README. `expected`:
    the threshold in words. `note`: what a reader should know, such as why a value is only reported.
    """

    row: str
    expected: str
    value: float | None
    verdict: Verdict
    unit: str = ""
    threshold: float | tuple[float, float] | None = None
    note: str = ""
    low: float | None = None
    high: float | None = None

    @classmethod
    def at_most(
        cls, row: str, value: Value, most: float, unit: str = "", *, note: str = ""
    ) -> Check:
        """Pass if the value is there and at most `most`."""
        return cls._judged(row, value, lambda v: v <= most, f"at most {_number(most)}", most,
                           unit, note)  # fmt: skip

    @classmethod
    def at_least(
        cls, row: str, value: Value, least: float, unit: str = "", *, note: str = ""
    ) -> Check:
        """Pass if the value is there and at least `least`."""
        return cls._judged(row, value, lambda v: v >= least, f"at least {_number(least)}", least,
                           unit, note)  # fmt: skip

    @classmethod
    def within(
        cls, row: str, value: Value, low: float, high: float, unit: str = "", *, note: str = ""
    ) -> Check:
        """Pass if the value is there and from `low` to `high`."""
        expected = f"{_number(low)} to {_number(high)}"
        return cls._judged(
            row, value, lambda v: low <= v <= high, expected, (low, high), unit, note
        )

    @classmethod
    def that(
        cls, row: str, expected: str, holds: bool | Callable[[], bool], *, note: str = ""
    ) -> Check:
        """Pass if a condition holds, such as that two intervals are apart."""
        try:
            true = holds() if callable(holds) else holds
        except NotRunError as error:
            return cls(row, expected, None, error.verdict, note=_joined(str(error), note))
        return cls(row, expected, None, Verdict.PASS if true else Verdict.FAIL, note=note)

    @classmethod
    def below(
        cls,
        row: str,
        lower: Callable[[], Estimate],
        higher: Callable[[], Estimate],
        *,
        note: str = "",
    ) -> Check:
        """Pass if the whole interval of `lower` lies below that of `higher`.

        The note says both. Single runs have no intervals: then it could not be judged, and is
        "not run".
        """
        expected = "95 % intervals disjoint"
        try:
            less, more = lower(), higher()
        except NotRunError as error:
            return cls(row, expected, None, error.verdict, note=_joined(str(error), note))
        note = _joined(f"{less} below {more}", _missing(less), _missing(more), note)
        if less.missing or more.missing:
            return cls(row, expected, None, Verdict.FAIL, note=note)
        if not less.has_interval or not more.has_interval:
            note = _joined(note, "one run has no interval")
            return cls(row, expected, None, Verdict.NOT_RUN, note=note)
        assert less.high is not None and more.low is not None
        if less.high < more.low:
            return cls(row, expected, None, Verdict.PASS, note=note)
        note = _joined(note, "the intervals are not disjoint in this order")
        return cls(row, expected, None, Verdict.FAIL, note=note)

    @classmethod
    def reported(cls, row: str, value: Value, unit: str = "", *, note: str = "") -> Check:
        """Give a value that has no threshold."""
        try:
            found = value() if callable(value) else value
        except NotRunError as error:
            verdict = error.verdict
            return cls(row, "reported", None, verdict, unit, note=_joined(str(error), note))
        if isinstance(found, Estimate):
            note = _joined(_missing(found), note)
        return cls(row, "reported", verdict=Verdict.REPORTED, unit=unit, note=note, **_parts(found))

    @classmethod
    def _judged(
        cls,
        row: str,
        value: Value,
        right: Callable[[float], bool],
        expected: str,
        threshold: float | tuple[float, float],
        unit: str,
        note: str,
    ) -> Check:
        text = f"{expected} {unit}".strip()
        try:
            found = value() if callable(value) else value
        except NotRunError as error:
            note = _joined(str(error), note)
            return cls(row, text, None, error.verdict, unit, threshold, note)
        parts = _parts(found)
        if found is None or (isinstance(found, Estimate) and found.missing):
            why = "it did not happen" if found is None else _missing(found)
            return cls(row, text, verdict=Verdict.FAIL, unit=unit, threshold=threshold,
                       note=_joined(why, note), **parts)  # fmt: skip
        ends = found.ends if isinstance(found, Estimate) else (found,)
        holds = [right(each) for each in ends]
        if holds[0] and not all(holds):
            note = _joined("the median meets it, its 95 % interval does not", note)
        verdict = Verdict.PASS if all(holds) else Verdict.FAIL
        return cls(row, text, verdict=verdict, unit=unit, threshold=threshold, note=note, **parts)


@dataclass(frozen=True)
class Figure:
    """A PNG in the folder of results, and what it shows, in a sentence or two."""

    path: Path
    caption: str


def _parts(found: Found) -> dict[str, float | None]:
    """Return a check's `value`, `low` and `high`."""
    if isinstance(found, Estimate):
        return {"value": found.median, "low": found.low, "high": found.high}
    return {"value": found, "low": None, "high": None}


def _missing(found: Found) -> str:
    """Say in how many runs a metric did not happen; nothing where it always did."""
    if not isinstance(found, Estimate) or not found.missing:
        return ""
    return f"it did not happen in {found.missing} of {len(found.values)} runs"


def _number(value: float) -> str:
    return f"{value:.4g}"


def _joined(*texts: str) -> str:
    return "; ".join(text for text in texts if text)
