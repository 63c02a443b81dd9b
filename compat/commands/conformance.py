"""`weft conformance`: p4c's own test programs and packets, our compiler and switch, one page."""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compat.commands import conformance_page, stf_conformance
from compat.commands.conformance_limits import Limit, parse
from compat.commands.stf_conformance import Outcome, Setting, Verdict
from compat.conformance import p4c, page, survey, testdata
from compat.conformance.survey import Survey
from compat.conformance.testdata import Testdata
from observe.errors import UsageError
from weft import console

BMV2 = "simple_switch_grpc"


@dataclass(frozen=True, slots=True)
class Results:
    """All that a run found; `packets` by who compiled and what ran."""

    survey: Survey
    packets: Mapping[Setting, Sequence[Outcome]]
    seconds: float

    def numbers(self) -> dict[str, float]:
        """What `--require` can name."""
        numbers = self.survey.numbers()
        if Setting() in self.packets:
            passed = sum(o.verdict is Verdict.PASSED for o in self.packets[Setting()])
            numbers["stf"] = float(passed)
        return numbers


def run(arguments: argparse.Namespace) -> int:
    """Do the whole command. Returns 1 where a number is worse than required, else 0.

    Raises UsageError, TestdataError.
    """
    limits = parse(arguments.require)
    if arguments.jobs < 1:
        raise UsageError("--jobs: at least 1")
    compiler = None if arguments.outputs else p4c.executable()
    required = {limit.name for limit in limits}
    if arguments.no_stf and "stf" in required:
        raise UsageError("--require stf needs the packets: leave --no-stf out")
    if compiler is None and "refusals-json" in required:
        raise UsageError(
            f"--require refusals-json needs {p4c.PROGRAM} on PATH (and no --outputs): p4c keeps no "
            "outputs of programs compiled without P4Info"
        )
    stf_conformance.check_report(arguments.report)
    found = testdata.find(arguments.testdata)
    started = time.monotonic()
    total = survey.steps(found, compiler)
    what = f"{total} compilations of {found.directory}"
    with console.progress_bar(what, total, quiet=arguments.json) as step:
        compiled = survey.run(found, compiler, at_once=arguments.jobs, step=step)
    settings = [] if arguments.no_stf else _settings(arguments.pairings)
    packets = {
        setting: _packets(found, setting, arguments.jobs, arguments.json) for setting in settings
    }
    results = Results(compiled, packets, time.monotonic() - started)
    numbers = results.numbers()
    if arguments.report is not None:
        text = conformance_page.text(compiled, packets, numbers, results.seconds)
        arguments.report.write_text(text, encoding="utf-8")
    missed = [limit for limit in limits if not limit.holds(numbers)]
    if arguments.json:
        print(json.dumps(_as_json(results, missed), indent=1))
    else:
        _print(results, limits)
    return 1 if missed else 0


def _settings(pairings: bool) -> list[Setting]:
    if not pairings:
        return [Setting()]
    compilers = ["weft"] + (["p4c"] if p4c.executable() is not None else [])
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
