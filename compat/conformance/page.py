"""The results of a survey as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from compat.conformance.compare import Match, Refusal, Refusals, Row, Warnings
from compat.conformance.findings import Verdict
from compat.conformance.survey import Survey
from compat.conformance.testdata import Architecture

REASON_LENGTH = 300
WIDTH = 110
_OWN_PATHS = re.compile(r"(?:/[^\s/:]+)+/([^\s/:]+)")


def sections(survey: Survey) -> list[str]:
    """Return the lines of the page's sections on compilation: refusals, samples, P4Info,
    warnings.
    """
    return [
        *_refusals("Refusals: v1model", survey.refusals(Architecture.V1MODEL)),
        *_refusals_of_json(survey),
        *_refusals("Refusals: the core language", survey.refusals(Architecture.CORE)),
        *_samples(survey),
        *_p4info(survey),
        *_warnings("Warnings: v1model", survey.warnings(Architecture.V1MODEL)),
        *_warnings("Warnings: the core language", survey.warnings(Architecture.CORE)),
    ]


def _counted(found: Mapping[str, int]) -> str:
    """Format how many there are of each.

    "not done", which depends on the machine, only if there are.
    """
    rare = Verdict.NOT_DONE.value
    return ", ".join(f"{count} {name}" for name, count in found.items() if count or name != rare)


def _refusals(title: str, found: Refusals) -> list[str]:
    counted = _counted({kind.value: len(found.found[kind]) for kind in Refusal})
    lines = [
        "",
        f"## {title}",
        "",
        f"p4c refuses {found.total} of these programs of `p4_16_errors`. Ours: {counted}.",
    ]
    wrong = [
        (kind, row) for kind in Refusal if kind is not Refusal.RIGHT for row in found.found[kind]
    ]
    if wrong:
        lines += ["", "| program | ours | p4c says | we say |", "|---|---|---|---|"]
        for kind, row in wrong:
            assert row.theirs is not None
            theirs = str(row.theirs.errors[0]) if row.theirs.errors else row.theirs.reason
            lines.append(_row(row.program.name, kind.value, theirs, _said(row)))
    if found.accepted_by_p4c:
        too = sum(row.ours.verdict is Verdict.ACCEPTED for row in found.accepted_by_p4c)
        lines += ["", f"p4c accepts {len(found.accepted_by_p4c)} more; of them ours accepts {too}."]
        others = [r for r in found.accepted_by_p4c if r.ours.verdict is not Verdict.ACCEPTED]
        lines += _ours_only(others)
    return lines


def _refusals_of_json(survey: Survey) -> list[str]:
    found = survey.refusals_of_json()
    return [] if found is None else _refusals("Refusals: v1model, without P4Info", found)


def _samples(survey: Survey) -> list[str]:
    rows = survey.samples
    counted = _counted({v.value: len(survey.samples_that(v)) for v in Verdict})
    others = [row for row in rows if row.ours.verdict is not Verdict.ACCEPTED]
    by_p4c = [r for r in others if r.theirs is not None and r.theirs.verdict is Verdict.ACCEPTED]
    lines = [
        "",
        "## Samples for v1model",
        "",
        f"{len(rows)} programs of `p4_16_samples` include v1model.p4: {counted}.",
        f"Of those that ours does not compile, p4c compiles {len(by_p4c)}.",
    ]
    if others:
        lines += ["", "| program | ours | p4c | we say |", "|---|---|---|---|"]
        for row in others:
            p4c = row.theirs.verdict.value if row.theirs is not None else "unknown"
            lines.append(_row(row.program.name, row.ours.verdict.value, p4c, _said(row)))
    lines += [
        "",
        f"Over all {len(survey.rows)} files of both suites, whatever architecture they are for, "
        f"the compiler crashes {len(survey.crashes)} times.",
    ]
    if survey.crashes:
        lines += ["", "| program | reason |", "|---|---|"]
        lines += [_row(row.program.name, row.ours.reason) for row in survey.crashes]
    return lines


def _p4info(survey: Survey) -> list[str]:
    found = survey.p4infos()
    total = sum(map(len, found.values()))
    lines = [
        "",
        "## P4Info",
        "",
        f"Of {total} samples for v1model both compilers have P4Info: {len(found[Match.EQUAL])} are "
        f"equal in every field and in order, {len(found[Match.DIFFERENT])} are not.",
    ]
    names = [row.program.name for row in found[Match.DIFFERENT]]
    return lines + (["", *filled(names)] if names else [])


def _warnings(title: str, found: Warnings) -> list[str]:
    lines = [
        "",
        f"## {title}",
        "",
        f"On the {found.programs} samples that both compilers accept; the same is a warning of the "
        f"same kind at the same line. p4c gives {found.precision:.1f} % of ours too, and we give "
        f"{found.recall:.1f} % of p4c's.",
        "",
        "| kind | both | only ours | only p4c |",
        "|---|---|---|---|",
    ]
    lines += [_row(*map(str, row)) for row in found.kinds()]
    for name, left in (("Only ours", found.extra), ("Only p4c", found.missed)):
        if left:
            lines += ["", f"{name}:", "", "| program | warning |", "|---|---|"]
            lines += [_row(program.name, str(finding)) for program, finding in left]
    return lines


def _ours_only(rows: Sequence[Row]) -> list[str]:
    if not rows:
        return []
    lines = ["", "| program | ours | we say |", "|---|---|---|"]
    return lines + [_row(r.program.name, r.ours.verdict.value, _said(r)) for r in rows]


def _said(row: Row) -> str:
    return str(row.ours.errors[0]) if row.ours.errors else row.ours.reason


def _row(name: str, *cells: str) -> str:
    return f"| {' | '.join([name, *(cell(one_line(each)) for each in cells)])} |"


def one_line(text: str) -> str:
    """Return a reason on one line, without the directories of this machine."""
    line = " ".join(_OWN_PATHS.sub(r"\1", text).split())
    return line if len(line) <= REASON_LENGTH else line[:REASON_LENGTH] + "..."


def cell(text: str) -> str:
    """Format text for a cell of a table."""
    return text.replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")


def filled(names: Iterable[str]) -> list[str]:
    """Join names with commas, in lines of at most `WIDTH`."""
    lines = [""]
    for name in names:
        if lines[-1] and len(lines[-1]) + len(name) + 2 > WIDTH:
            lines.append("")
        lines[-1] += f"{name}, "
    return [line.rstrip() for line in lines[:-1]] + [lines[-1].removesuffix(", ")]
