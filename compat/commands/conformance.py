"""`weft conformance`: p4c's own test programs and packets, our compiler and switch, one page."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from compat.commands import conformance_page, stf_conformance
from compat.commands.conformance_limits import Limit, parse
from compat.commands.stf_conformance import Outcome, Setting, Verdict
from compat.conformance import p4c as p4c_program
from compat.conformance import page, survey, testdata
from compat.conformance.survey import Survey
from compat.conformance.testdata import Testdata
from observe.errors import UsageError
from weft import console
from weft.command_line import argument, as_json, command, flag, jobs_option, option

BMV2 = "simple_switch_grpc"


@dataclass(frozen=True, slots=True)
class Results:
    """All that a run found; `packets` by who compiled and what ran."""

    survey: Survey
    packets: Mapping[Setting, Sequence[Outcome]]
    seconds: float

    def numbers(self) -> dict[str, float]:
        """Return the numbers that `--require` can name."""
        numbers = self.survey.numbers()
        if Setting() in self.packets:
            passed = sum(o.verdict is Verdict.PASSED for o in self.packets[Setting()])
            numbers["stf"] = float(passed)
        return numbers


@command("""
    examples:
      weft conformance P4C                     P4C is a checkout of p4c, or its testdata
      weft conformance P4C --report docs/CONFORMANCE.md
      weft conformance P4C --no-stf --require refusals=90%,unsupported=5%,crashes=0
      weft conformance P4C --pairings          packets on each compiler and switch

    With p4c-bm2-ss on PATH, programs for v1model are compared with what it says now;
    without, with the outputs that p4c keeps beside its tests.

    exit codes: 0 nothing is worse than required, 1 something is, 2 wrong arguments
    """)
@argument("p4c", type=Path)
@option("--report", type=Path, metavar="FILE", help="write the results as Markdown")
@option("--require", default="", metavar="NAME=LIMIT,...",
        help="limits: stf (tests passed, at least); refusals, refusals-json (without P4Info; only "
        "with p4c-bm2-ss on PATH), core-refusals, p4info, warnings-precision, warnings-recall "
        "(at least N%); unsupported (at most N%); crashes (at most)")  # fmt: skip
@flag("--outputs", help="compare with the outputs kept in the checkout even if p4c is on PATH")
@flag("--no-stf", help="skip the packet tests")
@flag("--pairings", help="run packets on every pairing of {weft, p4c} x {softswitch, bmv2} on PATH")
@jobs_option
@as_json
def run(
    p4c: Path, report: Path | None, require: str, outputs: bool, no_stf: bool, pairings: bool,
    jobs: int, as_json: bool,
) -> int:  # fmt: skip
    """Do the whole command. Returns 1 where a number is worse than required, else 0.

    Raises UsageError, TestdataError.
    """
    if no_stf and pairings:
        raise UsageError("conformance: --no-stf and --pairings exclude each other")
    limits = parse(require)
    if jobs < 1:
        raise UsageError("--jobs: at least 1")
    compiler = None if outputs else p4c_program.executable()
    required = {limit.name for limit in limits}
    if no_stf and "stf" in required:
        raise UsageError("--require stf needs the packets: leave --no-stf out")
    if compiler is None and "refusals-json" in required:
        raise UsageError(
            f"--require refusals-json needs {p4c_program.PROGRAM} on PATH (and no --outputs): p4c "
            "keeps no outputs of programs compiled without P4Info"
        )
    stf_conformance.check_report(report)
    found = testdata.find(p4c)
    started = time.monotonic()
    total = survey.steps(found, compiler)
    what = f"{total} compilations of {found.directory}"
    with console.progress_bar(what, total, quiet=as_json) as step:
        compiled = survey.run(found, compiler, at_once=jobs, step=step)
    settings = [] if no_stf else _settings(pairings)
    packets = {setting: _packets(found, setting, jobs, as_json) for setting in settings}
    results = Results(compiled, packets, time.monotonic() - started)
    numbers = results.numbers()
    if report is not None:
        text = conformance_page.text(compiled, packets, numbers, results.seconds)
        report.write_text(text, encoding="utf-8")
    missed = [limit for limit in limits if not limit.holds(numbers)]
    if as_json:
        print(json.dumps(_as_json(results, missed), indent=1))
    else:
        _print(results, limits)
    return 1 if missed else 0


def _settings(pairings: bool) -> list[Setting]:
    if not pairings:
        return [Setting()]
    compilers = ["weft"] + (["p4c"] if p4c_program.executable() is not None else [])
    targets = ["softswitch"] + (["bmv2"] if shutil.which(BMV2) is not None else [])
    return [Setting(compiler, target) for compiler in compilers for target in targets]


def _packets(found: Testdata, setting: Setting, jobs: int, quiet: bool) -> list[Outcome]:
    tests = stf_conformance.find(found.directory / testdata.SAMPLES)
    what = f"{len(tests)} packet tests: {setting}"
    outcomes = []
    with console.progress_bar(what, len(tests), quiet=quiet) as step:
        for outcome in stf_conformance.run_all(tests, setting, jobs):
            outcomes.append(outcome)
            step()
    return sorted(outcomes, key=lambda outcome: outcome.name)


def _print(results: Results, limits: Sequence[Limit]) -> None:
    numbers = results.numbers()
    wanted = {limit.name: limit for limit in limits}
    rows = []
    for name, value in numbers.items():
        limit = wanted.get(name)
        judged = "" if limit is None else "ok" if limit.holds(numbers) else "FAILED"
        rows.append([name, conformance_page.number(name, value), str(limit or ""), judged])
    console.table(["", "", "required", ""], rows)
    against = results.survey.compiler or results.survey.testdata.version or "of unknown version"
    how = "run" if results.survey.compiler else "its outputs"
    print(f"p4c {against} ({how}), {results.seconds:.0f} s")


def _as_json(results: Results, missed: Sequence[Limit]) -> dict[str, object]:
    programs = []
    for row in results.survey.rows:
        theirs = row.theirs
        programs.append(
            {
                "suite": row.program.suite,
                "program": row.program.name,
                "architecture": row.program.architecture.value,
                "ours": row.ours.verdict.value,
                "p4c": theirs.verdict.value if theirs is not None else None,
                "errors": [page.one_line(str(each)) for each in row.ours.errors],
                "warnings": [page.one_line(str(each)) for each in row.ours.warnings],
                "p4c_errors": [str(each) for each in theirs.errors] if theirs else [],
                "p4c_warnings": [str(each) for each in theirs.warnings] if theirs else [],
                "reason": row.ours.reason,
                "seconds": row.ours.seconds,
            }
        )
    return {
        "numbers": results.numbers(),
        "worse_than_required": [str(limit) for limit in missed],
        "p4c_run": results.survey.compiler,
        "p4c_outputs": results.survey.testdata.version,
        "seconds": round(results.seconds, 1),
        "programs": programs,
        "packets": {
            str(setting): [stf_conformance.as_json(outcome) for outcome in outcomes]
            for setting, outcomes in results.packets.items()
        },
    }
