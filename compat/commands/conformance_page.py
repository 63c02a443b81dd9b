"""The page that `weft conformance --report` writes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from compat.commands import stf_conformance
from compat.commands.conformance_limits import COUNTS
from compat.commands.stf_conformance import Outcome, Setting, Verdict
from compat.conformance import page
from compat.conformance.survey import Survey

_MEANING = {
    "stf": "packet tests for v1model that pass",
    "refusals": "v1model programs that p4c refuses, refused at p4c's line",
    "refusals-json": "the same when neither is asked for P4Info",
    "core-refusals": "core-language programs that p4c refuses, refused",
    "unsupported": "samples for v1model that are not supported",
    "crashes": "files that crash the compiler",
    "p4info": "samples for v1model with p4c's P4Info",
    "warnings-precision": "warnings on v1model samples that p4c gives too",
    "warnings-recall": "p4c's warnings on v1model samples that we give too",
}


def number(name: str, value: float) -> str:
    """Format a result with its unit."""
    return f"{value:g}" if name in COUNTS else f"{value:.1f} %"


def text(
    survey: Survey,
    packets: Mapping[Setting, Sequence[Outcome]],
    numbers: Mapping[str, float],
    seconds: float,
) -> str:
    """Return the whole page, in Markdown."""
    pairings = " --pairings" if len(packets) > 1 else ""
    lines = [
        "# Conformance: p4c's own test programs",
        "",
        "This page is written by a command, with a checkout of p4c and nothing else needed:",
        "",
        f"    weft conformance P4C{pairings} --report docs/CONFORMANCE.md",
        "",
        *_against(survey),
        f"It took {seconds:.0f} s on {len(os.sched_getaffinity(0))} cores.",
        "",
        "| | |",
        "|---|---|",
    ]
    lines += [
        f"| {meaning} | {number(name, numbers[name])} |"
        for name, meaning in _MEANING.items()
        if name in numbers
    ]
    lines += [*page.sections(survey), *_packets(packets)]
    return "\n".join(lines) + "\n"


def _against(survey: Survey) -> list[str]:
    version = survey.testdata.version
    outputs = f"the outputs that p4c {version} keeps" if version else "the outputs that p4c keeps"
    if survey.compiler:
        return [
            f"Programs for v1model are compared with what p4c-bm2-ss {survey.compiler} says of "
            "them when asked for P4Info too,",
            f"the others with {outputs} beside its tests.",
        ]
    return [f"All is compared with {outputs} beside its tests; p4c itself was not run."]


def _packets(packets: Mapping[Setting, Sequence[Outcome]]) -> list[str]:
    if not packets:
        return []
    lines = ["", "## Packets: p4c's simple test format", ""]
    if len(packets) > 1:
        lines += ["| compiler, switch | pass | fail | not supported |", "|---|---|---|---|"]
        for setting, outcomes in packets.items():
            counts = [
                sum(outcome.verdict is verdict for outcome in outcomes)
                for verdict in (Verdict.PASSED, Verdict.FAILED, Verdict.UNSUPPORTED)
            ]
            lines.append(f"| {setting} | {' | '.join(map(str, counts))} |")
        lines.append("")
    first = next(iter(packets))
    lines += stf_conformance.section(packets[first], first, level=3)
    for setting, outcomes in list(packets.items())[1:]:
        bad = [o for o in outcomes if o.verdict in (Verdict.FAILED, Verdict.UNSUPPORTED)]
        if bad:
            lines += [
                "",
                f"### Not passed: {setting}",
                "",
                "| test | at | reason |",
                "|---|---|---|",
            ]
            lines += [f"| {o.name} | {o.stage} | {page.cell(o.reason)} |" for o in bad]
    return lines
