"""Two compilers' words on the same programs, compared: refusals, samples, P4Info, warnings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from finsy.proto import p4i
from google.protobuf import text_format

from compat.conformance.findings import Finding, Said, Verdict
from compat.conformance.testdata import SYSTEM_FILES, Architecture, Program

_NO_MAIN = "missing"
"""p4c's kind for a program without `main`, of which each compiler speaks in its own way."""


@dataclass(frozen=True, slots=True)
class Row:
    """One program; `theirs` is None where p4c's tests say nothing of it."""

    program: Program
    ours: Said
    theirs: Said | None


class Refusal(Enum):
    """How our compiler takes a program that p4c refuses."""

    RIGHT = "refused at p4c's line"
    SECOND = "refused at another line that p4c names"
    ELSEWHERE = "refused at another line"
    UNSUPPORTED = "not supported"
    ACCEPTED = "accepted"
    CRASHED = "crashed"
    NOT_DONE = "not done"


def refusal(row: Row) -> Refusal:
    """Return how we take `row`'s program, which p4c must have refused.

    An error of ours is at the right place if p4c has one on that line, or has none with a place in
    the user's files.
    What is "not supported" counts as such only where nothing else is wrong.
    """
    assert row.theirs is not None and row.theirs.verdict is Verdict.REFUSED
    kinds = {
        Verdict.UNSUPPORTED: Refusal.UNSUPPORTED,
        Verdict.ACCEPTED: Refusal.ACCEPTED,
        Verdict.CRASHED: Refusal.CRASHED,
        Verdict.NOT_DONE: Refusal.NOT_DONE,
    }
    if row.ours.verdict in kinds:
        return kinds[row.ours.verdict]
    ours = {finding.where for finding in row.ours.errors}
    theirs = {finding.where for finding in row.theirs.errors if _is_users(finding)}
    if ours & theirs or not theirs:
        return Refusal.RIGHT
    return Refusal.SECOND if ours & row.theirs.also else Refusal.ELSEWHERE


def _is_users(finding: Finding) -> bool:
    return finding.line > 0 and finding.file not in SYSTEM_FILES


@dataclass(slots=True)
class Refusals:
    """Programs that p4c refuses, by how we take them; and those of its error tests it accepts."""

    found: dict[Refusal, list[Row]] = field(default_factory=lambda: {r: [] for r in Refusal})
    accepted_by_p4c: list[Row] = field(default_factory=list)
    unknown: list[Row] = field(default_factory=list)

    @property
    def total(self) -> int:
        """How many p4c refuses."""
        return sum(len(rows) for rows in self.found.values())

    @property
    def right(self) -> float:
        """The share of them that we refuse at p4c's line, in percent."""
        return share(len(self.found[Refusal.RIGHT]), self.total)

    @property
    def refused(self) -> float:
        """The share of them that we refuse at whatever line, in percent."""
        kinds = (Refusal.RIGHT, Refusal.SECOND, Refusal.ELSEWHERE)
        return share(sum(len(self.found[kind]) for kind in kinds), self.total)


def refusals(rows: Iterable[Row]) -> Refusals:
    """Sort programs of p4c's error tests."""
    result = Refusals()
    for row in rows:
        if row.theirs is None:
            result.unknown.append(row)
        elif row.theirs.verdict is Verdict.REFUSED:
            result.found[refusal(row)].append(row)
        else:
            result.accepted_by_p4c.append(row)
    return result


class Match(Enum):
    """How two P4Infos compare."""

    EQUAL = "equal"
    DIFFERENT = "different"


def p4info_match(row: Row) -> Match | None:
    """Compare P4Info, all fields in order; None where one of the compilers has none."""
    if row.theirs is None or row.theirs.verdict is not Verdict.ACCEPTED or not row.theirs.p4info:
        return None
    if not row.ours.p4info:
        return None
    if row.ours.p4info == row.theirs.p4info:
        return Match.EQUAL
    ours, theirs = (
        text_format.Parse(text, p4i.P4Info()) for text in (row.ours.p4info, row.theirs.p4info)
    )
    return Match.EQUAL if ours == theirs else Match.DIFFERENT


@dataclass(slots=True)
class Warnings:
    """Warnings by kind: given by both at the same line, by us only, by p4c only."""

    programs: int = 0
    both: Counter[str] = field(default_factory=Counter)
    extra: list[tuple[Program, Finding]] = field(default_factory=list)
    missed: list[tuple[Program, Finding]] = field(default_factory=list)

    @property
    def precision(self) -> float:
        """The share of our warnings that p4c gives too, in percent."""
        both = self.both.total()
        return share(both, both + len(self.extra))

    @property
    def recall(self) -> float:
        """The share of p4c's warnings that we give too, in percent."""
        both = self.both.total()
        return share(both, both + len(self.missed))

    def kinds(self) -> list[tuple[str, int, int, int]]:
        """Return rows of kind, how many both give, how many only we do, how many only p4c does."""
        extra = Counter(finding.kind for _, finding in self.extra)
        missed = Counter(finding.kind for _, finding in self.missed)
        kinds = sorted({*self.both, *extra, *missed})
        return [(kind, self.both[kind], extra[kind], missed[kind]) for kind in kinds]


def warnings(rows: Iterable[Row], *, back_end: bool = True) -> Warnings:
    """Compare warnings of the programs that both accept: the same kind at the same line.

    Without `back_end`, what ours says of BMv2 alone is left out: p4c's outputs have none of that.
    Where p4c names no line (it speaks of a temporary of its own), any of ours of that kind will do.
    """
    result = Warnings()
    for row in rows:
        if row.theirs is None or row.theirs.verdict is not Verdict.ACCEPTED:
            continue
        if row.ours.verdict is not Verdict.ACCEPTED:
            continue
        result.programs += 1
        said = [each for each in row.ours.warnings if back_end or not each.back_end]
        ours, theirs = _by_place(said), _by_place(row.theirs.warnings)
        without_place = {kind for _, line, kind in theirs if not line}
        for key, finding in theirs.items():
            same = key in ours if finding.line else any(kind == finding.kind for *_, kind in ours)
            if same:
                result.both[finding.kind] += 1
            else:
                result.missed.append((row.program, finding))
        for key, finding in ours.items():
            if key not in theirs and finding.kind not in without_place:
                result.extra.append((row.program, finding))
    return result


def _by_place(found: Iterable[Finding]) -> dict[tuple[str, int, str], Finding]:
    return {
        (one.file, one.line, one.kind): one for one in found if one.line or one.kind != _NO_MAIN
    }


def of_suite(rows: Iterable[Row], suite: str, architecture: Architecture) -> list[Row]:
    """Return the rows of one suite and architecture, without parts of other programs."""
    return [
        row
        for row in rows
        if row.program.suite == suite
        and row.program.architecture is architecture
        and not row.program.part
    ]


def share(part: int, whole: int) -> float:
    """Return a share in percent; 100 of nothing."""
    return 100.0 * part / whole if whole else 100.0
