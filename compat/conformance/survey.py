"""A whole survey: every program through our compiler, beside p4c's words; and its numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from compat.conformance import compare, ours, p4c
from compat.conformance.compare import Refusals, Row, Warnings
from compat.conformance.findings import Said, Verdict
from compat.conformance.testdata import ERRORS, SAMPLES, Architecture, Program, Testdata
from softswitch import jobs
from softswitch.jobs import Loss

LIMIT_S = 180.0
"""What one program may take; much, for a busy machine."""


@dataclass(frozen=True, slots=True)
class Survey:
    """All rows; `compiler` is the version of p4c that was run, "" if p4c's own outputs were read.

    Programs that are not for v1model are always compared with those outputs: p4c-bm2-ss wants
    v1model. `json_alone` are the rows for v1model again, with neither compiler asked for P4Info;
    empty if p4c was not run, for its outputs are one or the other.
    """

    testdata: Testdata
    rows: Sequence[Row]
    compiler: str
    json_alone: Sequence[Row] = ()

    def of(self, suite: str, architecture: Architecture) -> list[Row]:
        """Return the rows of one suite and architecture."""
        return compare.of_suite(self.rows, suite, architecture)

    @property
    def crashes(self) -> list[Row]:
        """What made our compiler fail in another way than by an error of the program."""
        return [row for row in self.rows if row.ours.verdict is Verdict.CRASHED]

    @property
    def samples(self) -> list[Row]:
        """The good programs for v1model."""
        return self.of(SAMPLES, Architecture.V1MODEL)

    def samples_that(self, verdict: Verdict) -> list[Row]:
        """Return the samples with that verdict."""
        return [row for row in self.samples if row.ours.verdict is verdict]

    def refusals(self, architecture: Architecture) -> Refusals:
        """Sort the error tests of an architecture by result."""
        return compare.refusals(self.of(ERRORS, architecture))

    def refusals_of_json(self) -> Refusals | None:
        """Sort the error tests for v1model without P4Info; None if that was not compared."""
        if not self.json_alone:
            return None
        return compare.refusals(compare.of_suite(self.json_alone, ERRORS, Architecture.V1MODEL))

    def p4infos(self) -> dict[compare.Match, list[Row]]:
        """Sort the samples for v1model for which both compilers have P4Info."""
        found: dict[compare.Match, list[Row]] = {match: [] for match in compare.Match}
        for row in self.samples:
            match = compare.p4info_match(row)
            if match is not None:
                found[match].append(row)
        return found

    def warnings(self, architecture: Architecture) -> Warnings:
        """Return the warnings on the good programs of an architecture."""
        rows = self.of(SAMPLES, architecture)
        return compare.warnings(rows, back_end=bool(self.compiler))

    def numbers(self) -> dict[str, float]:
        """Return the numbers that limits can be set on: shares in percent, `crashes` as a count."""
        infos = self.p4infos()
        equal = len(infos[compare.Match.EQUAL])
        warned = self.warnings(Architecture.V1MODEL)
        of_json = self.refusals_of_json()
        return {
            "refusals": self.refusals(Architecture.V1MODEL).right,
            **({} if of_json is None else {"refusals-json": of_json.right}),
            "core-refusals": self.refusals(Architecture.CORE).refused,
            "unsupported": compare.share(
                len(self.samples_that(Verdict.UNSUPPORTED)), len(self.samples)
            ),
            "crashes": float(len(self.crashes)),
            "p4info": compare.share(equal, sum(map(len, infos.values()))),
            "warnings-precision": warned.precision,
            "warnings-recall": warned.recall,
        }


def run(
    testdata: Testdata, compiler: Path | None, *, at_once: int, step: Callable[[], None]
) -> Survey:
    """Survey everything in `testdata`; runs `compiler` on the programs for v1model if given.

    `step` is called after each of the `steps(...)` pieces of work.
    """
    programs = testdata.programs()
    said = _all(programs, ours.judge, ours.lost, at_once, step)
    theirs: dict[tuple[str, str], Said | None] = {
        program.key: p4c.expected(testdata, program) for program in programs
    }
    if compiler is not None:
        chosen = _for_p4c(programs)
        theirs |= _all(chosen, lambda program: p4c.run(compiler, program), ours.lost, at_once, step)
    rows = [Row(program, said[program.key], theirs[program.key]) for program in programs]
    if compiler is None:
        return Survey(testdata, rows, "")
    alone = _json_alone(rows, compiler, at_once)
    return Survey(testdata, rows, p4c.version(compiler), alone)


def _json_alone(rows: Sequence[Row], compiler: Path, at_once: int) -> list[Row]:
    """Return the rows for v1model without P4Info.

    Programs that are accepted with it are not compiled again.
    """
    rows = [row for row in rows if row.program.architecture is Architecture.V1MODEL]
    said = {row.program.key: row.ours for row in rows}
    theirs = {row.program.key: row.theirs for row in rows}
    again = [row.program for row in rows if row.ours.verdict is not Verdict.ACCEPTED]
    said |= _all(
        again, lambda program: ours.judge(program, with_p4info=False), ours.lost, at_once, _no_step
    )
    again = [row.program for row in rows if row.theirs and row.theirs.verdict is Verdict.REFUSED]
    theirs |= _all(
        again,
        lambda program: p4c.run(compiler, program, with_p4info=False),
        ours.lost,
        at_once,
        _no_step,
    )
    return [Row(row.program, said[row.program.key], theirs[row.program.key]) for row in rows]


def _no_step() -> None:
    """Do nothing: no progress bar counts the few programs that are compiled again."""


def steps(testdata: Testdata, compiler: Path | None) -> int:
    """Return how many pieces of work a survey has."""
    programs = testdata.programs()
    return len(programs) + (len(_for_p4c(programs)) if compiler is not None else 0)


def _for_p4c(programs: Sequence[Program]) -> list[Program]:
    return [program for program in programs if program.architecture is Architecture.V1MODEL]


def _all(
    programs: Sequence[Program],
    judge: Callable[[Program], Said],
    lost: Callable[[Program, Loss], Said],
    at_once: int,
    step: Callable[[], None],
) -> dict[tuple[str, str], Said]:
    found = {}
    for program, said in jobs.run(
        programs,
        lambda program: (program.key, judge(program)),
        at_once=at_once,
        limit_s=LIMIT_S,
        lost=lambda program, loss: (program.key, lost(program, loss)),
    ):
        found[program] = said
        step()
    return found
