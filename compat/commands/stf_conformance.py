"""`weft stf --all`: every test of a directory, each in a process of its own, and a page of it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path

import compiler.driver  # noqa: F401  # once, before processes are forked
from compat.commands import stf
from compat.conformance.page import cell, filled, one_line
from compat.conformance.testdata import Architecture, architecture_of
from compat.stf.runner import NotOnTarget
from compiler.errors import CompileError, NotSupported
from observe.errors import UsageError
from softswitch import jobs
from softswitch.jobs import Loss
from softswitch.program_cache import Job
from weft import console

PATTERN = "*-bmv2.stf"
LIMIT_S = 120.0
"""What one test may take, with its compilation."""


class Verdict(Enum):
    """How a test ended."""

    PASSED = "pass"
    FAILED = "fail"
    UNSUPPORTED = "not supported"
    ELSEWHERE = "another architecture"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One test; `stage` is what it came to: compile, run, compare, or nothing."""

    name: str
    verdict: Verdict
    stage: str = ""
    reason: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Setting:
    """Who compiles, and which switch runs: names as of the options of `weft stf`."""

    compiler: str = "weft"
    target: str = "softswitch"
    include_dirs: tuple[Path, ...] = ()
    defines: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.compiler}, {self.target}"


def run(
    directory: Path, setting: Setting, report: Path | None, *, at_once: int, in_json: bool
) -> int:
    """Run them all. Returns 0 when each test passes or is for another architecture, else 1.

    Raises UsageError.
    """
    if not directory.is_dir():
        raise UsageError(f"{directory}: no such directory")
    if at_once < 1:
        raise UsageError("--jobs: at least 1")
    check_report(report)
    tests = find(directory)
    if not tests:
        raise UsageError(f"{directory}: no {PATTERN} there")
    what = f"{len(tests)} tests of {directory}"
    with console.progress_bar(what, len(tests), quiet=in_json) as step:
        outcomes = []
        for outcome in run_all(tests, setting, at_once):
            outcomes.append(outcome)
            step()
    outcomes.sort(key=lambda outcome: outcome.name)
    if report is not None:
        report.write_text(page(outcomes, setting))
    if in_json:
        print(json.dumps([as_json(outcome) for outcome in outcomes], indent=1))
    else:
        _print(outcomes)
    good = (Verdict.PASSED, Verdict.ELSEWHERE)
    return 0 if all(outcome.verdict in good for outcome in outcomes) else 1


def check_report(path: Path | None) -> None:
    """Raise UsageError if the page can't be written, before minutes of work are spent."""
    if path is not None and (path.is_dir() or not path.parent.is_dir()):
        what = "is a directory" if path.is_dir() else f"there is no directory {path.parent}"
        raise UsageError(f"--report {path}: {what}")


def find(directory: Path) -> list[Path]:
    """Return the tests of a directory, by name."""
    return sorted(directory.glob(PATTERN))


def run_all(tests: Sequence[Path], setting: Setting, at_once: int) -> Iterator[Outcome]:
    """Run each of `tests` in a process of its own; yield their outcomes as they end."""
    return jobs.run(
        tests, partial(_outcome, setting=setting), at_once=at_once, limit_s=LIMIT_S, lost=_lost
    )


def _outcome(test: Path, setting: Setting) -> Outcome:
    started = time.monotonic()
    verdict, stage, reason = _judge(test, setting)
    return Outcome(
        test.stem, verdict, stage, one_line(reason), round(time.monotonic() - started, 2)
    )


def _lost(test: Path, loss: Loss) -> Outcome:
    return Outcome(test.stem, Verdict.FAILED, "run", loss.why, round(loss.seconds, 2))


def _judge(test: Path, setting: Setting) -> tuple[Verdict, str, str]:
    """Return the verdict, the stage and the reason."""
    program = test.with_suffix(".p4")
    if not program.is_file():
        return Verdict.FAILED, "compile", f"there is no {program.name}"
    if architecture_of(program) is not Architecture.V1MODEL:
        return Verdict.ELSEWHERE, "", "does not include v1model.p4"
    stage = "compile"
    try:
        job = Job(program, setting.include_dirs, setting.defines, compiler=setting.compiler)
        pipeline = stf.build(job)
        stage = "run"
        result = stf.run_script(stf.read(test), pipeline, setting.target, test)
    except (NotSupported, NotOnTarget) as error:
        return Verdict.UNSUPPORTED, stage, str(error)
    except CompileError as error:
        return Verdict.FAILED, stage, f"refused: {error}"
    except Exception as error:  # a bug of ours is one test's reason, not the end of all of them
        return Verdict.FAILED, stage, f"{type(error).__name__}: {error}"
    wrong = [row for row in result.rows if not row.ok]
    if not wrong:
        return Verdict.PASSED, "compare", ""
    first = wrong[0]
    where = f"line {first.line}" if first.line else "at the end"
    more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    reason = f"{where}: expected {first.expected}, got {first.got}: {first.why}{more}"
    return Verdict.FAILED, "compare", reason


# --- results ------------------------------------------------------------------------------------


def as_json(outcome: Outcome) -> dict[str, object]:
    """Return an outcome in machine-readable form."""
    return {
        "test": outcome.name,
        "verdict": outcome.verdict.value,
        "stage": outcome.stage,
        "reason": outcome.reason,
        "seconds": outcome.seconds,
    }


def _print(outcomes: Sequence[Outcome]) -> None:
    rows = [
        [o.name, o.verdict.value, o.reason]
        for o in outcomes
        if o.verdict in (Verdict.FAILED, Verdict.UNSUPPORTED)
    ]
    if rows:
        console.table(["test", "verdict", "reason"], rows)
    print(", ".join(f"{n} {verdict.value}" for verdict, n in _counts(outcomes)))


def _counts(outcomes: Sequence[Outcome]) -> list[tuple[Verdict, int]]:
    return [(v, sum(outcome.verdict is v for outcome in outcomes)) for v in Verdict]


def page(outcomes: Sequence[Outcome], setting: Setting) -> str:
    """Return the page of a run, in Markdown."""
    lines = [
        "# p4c's own tests in its simple test format",
        "",
        "This page is written by a command:",
        "",
        "    weft stf --all DIRECTORY --report FILE",
        "",
        *section(outcomes, setting, level=2),
    ]
    return "\n".join(lines) + "\n"


def section(outcomes: Sequence[Outcome], setting: Setting, *, level: int) -> list[str]:
    """Return the lines on the outcomes of a run; its headings are of `level`."""
    counts = dict(_counts(outcomes))
    tried = len(outcomes) - counts[Verdict.ELSEWHERE]
    lines = [
        f"Every `{PATTERN}` of p4c's `p4_16_samples` that is for v1model, compiled by "
        f"`{setting.compiler}`,",
        f"on `{setting.target}`: packets in, packets expected, digit by digit.",
        "",
        f"**{counts[Verdict.PASSED]} of {tried} pass.** {counts[Verdict.FAILED]} fail, "
        f"{counts[Verdict.UNSUPPORTED]} need what is not supported;",
        f"{counts[Verdict.ELSEWHERE]} more are for other architectures and were not run.",
    ]
    mark = "#" * level
    for verdict, title in ((Verdict.FAILED, "Fail"), (Verdict.UNSUPPORTED, "Not supported")):
        found = [outcome for outcome in outcomes if outcome.verdict is verdict]
        if found:
            lines += ["", f"{mark} {title}", "", "| test | at | reason |", "|---|---|---|"]
            lines += [f"| {o.name} | {o.stage} | {cell(o.reason)} |" for o in found]
    for verdict, title in ((Verdict.PASSED, "Pass"), (Verdict.ELSEWHERE, "Other architectures")):
        names = [outcome.name for outcome in outcomes if outcome.verdict is verdict]
        if names:
            lines += ["", f"{mark} {title}", "", *filled(names)]
    return lines
