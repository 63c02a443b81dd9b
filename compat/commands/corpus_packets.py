"""Generated packets through each program of `weft corpus`, as `weft parity` sends them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial

from compat.commands.parity import compile_both
from compat.conformance.corpus import Judged, Source
from compat.parity.report import Compiler, Report
from compat.parity.session import ParitySession, Plan, Program
from softswitch import jobs
from softswitch.jobs import Loss


class Status(Enum):
    """What packets showed of a program."""

    EQUAL = "equal"
    DIFFERENT = "different"
    NOT_DONE = "not done"


@dataclass(frozen=True, slots=True)
class Packets:
    """What generated packets showed of one program.

    `cases` packets were sent, `on_bmv2` of them there too; `reasons`: a line for each pairing with
    a difference, or why nothing ran; `coverage`: how far they got (compat.parity.coverage).
    """

    source: Source
    status: Status
    cases: int = 0
    on_bmv2: int = 0
    answered: int = 0
    undefined: int = 0
    reasons: tuple[str, ...] = ()
    coverage: dict[str, int] = field(default_factory=dict)

    def as_json(self) -> dict[str, object]:
        """Return all fields but the source."""
        return {
            "status": self.status.value,
            "cases": self.cases,
            "on_bmv2": self.on_bmv2,
            "answered": self.answered,
            "undefined": self.undefined,
            "reasons": list(self.reasons),
            "coverage": self.coverage,
        }


def through(
    programs: Sequence[Judged],
    *,
    packets: int,
    live_packets: int,
    at_once: int,
    limit_s: float,
    until: float = math.inf,
) -> Iterator[Packets]:
    """Send so many packets through each program, each in a process of its own.

    What takes longer than `limit_s`, or is not done `until` then (time.monotonic), is lost.
    """
    work = partial(_run, packets=packets, live=live_packets)
    return jobs.run(programs, work, at_once=at_once, limit_s=limit_s, lost=_lost, until=until)


def _run(program: Judged, packets: int, live: int) -> Packets:
    try:
        return _compared(program, packets, live)
    except Exception as error:  # whatever it is, it is this program's result
        return _lost(program, Loss(f"{type(error).__name__}: {error}", 0.0, ended=True))


def _compared(program: Judged, packets: int, live: int) -> Packets:
    source = program.source
    programs = compile_both(
        source.path,
        source.include_dirs,
        source.defines,
        quiet=True,
        made={Compiler.WEFT: Program(program.json_text, program.p4info_text)},
    )
    plan = Plan(
        str(source.path), packets=packets, live_packets=live, live=live > 0, minimised=False
    )
    session = ParitySession(plan, programs)
    try:
        return _result(source, session.run())
    finally:
        session.close()


def _result(source: Source, report: Report) -> Packets:
    ran = [row for row in report.rows if not row.missing]
    reasons = []
    for row in report.rows:
        if row.failed:
            reasons.append(f"{row.name}: {row.missing}")
        elif row.against and not row.agrees:
            what = [*(example.what for example in row.examples), *row.other][0]
            packets = f"{row.different} of {row.cases} packets differ"
            reasons.append(f"{row.name}: {packets if row.different else 'packets equal'}; {what}")
    return Packets(
        source,
        Status.DIFFERENT if reasons else Status.EQUAL,
        max((row.cases for row in ran), default=0),
        max((row.cases for row in ran if row.target == "BMv2"), default=0),
        report.answered,
        max((row.undefined for row in ran), default=0),
        tuple(reasons),
        report.coverage.as_json(),
    )


def _lost(program: Judged, loss: Loss) -> Packets:
    return Packets(program.source, Status.NOT_DONE, reasons=(loss.why,))
