"""`weft stf --all`: every test of a directory, each in a process of its own, and a page of it."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from pathlib import Path

from weft import console, stf
from weft.errors import UsageError

PATTERN = "*-bmv2.stf"
LIMIT_S = 120.0
"""What one test may take, with its compilation."""
REASON_LENGTH = 300
_V1MODEL = re.compile(r"^\s*#\s*include\s*[<\"][^>\"]*\bv1model\.p4[>\"]", re.MULTILINE)
_INCLUDED = re.compile(r"^\s*#\s*include\s*\"([^\"]+)\"", re.MULTILINE)
_OWN_PATHS = re.compile(r"(?:/[^\s/:]+)+/([^\s/:]+)")


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


def run(arguments: argparse.Namespace) -> int:
    """Run them all. Returns 0 when each test passes or is for another architecture, else 1."""
    if arguments.program is not None:
        raise UsageError("--all takes no program")
    if not arguments.all.is_dir():
        raise UsageError(f"{arguments.all}: no such directory")
    if arguments.jobs < 1:
        raise UsageError("--jobs: at least 1")
    tests = sorted(arguments.all.glob(PATTERN))
    if not tests:
        raise UsageError(f"{arguments.all}: no {PATTERN} there")
    outcomes = []
    with console.progress(f"{len(tests)} tests of {arguments.all}", quiet=arguments.json):
        for outcome in _run_all(tests, arguments):
            outcomes.append(outcome)
    outcomes.sort(key=lambda outcome: outcome.name)
    if arguments.report is not None:
        arguments.report.write_text(page(outcomes, arguments.compiler, arguments.target))
    if arguments.json:
        print(json.dumps([_as_json(outcome) for outcome in outcomes], indent=1))
    else:
        _print(outcomes)
    good = (Verdict.PASSED, Verdict.ELSEWHERE)
    return 0 if all(outcome.verdict in good for outcome in outcomes) else 1


@dataclass
class _Running:
    test: Path
    process: ForkProcess
    started: float


def _run_all(tests: Sequence[Path], arguments: argparse.Namespace) -> Iterator[Outcome]:
    """Each in a forked process: what one does to it, or how long it takes, is its own matter."""
    context = multiprocessing.get_context("fork")
    _import_all()
    left = list(reversed(tests))
    running: dict[Connection, _Running] = {}
    while left or running:
        while left and len(running) < arguments.jobs:
            test = left.pop()
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(target=_child, args=(test, arguments, theirs), daemon=True)
            process.start()
            theirs.close()
            running[ours] = _Running(test, process, time.monotonic())
        now = time.monotonic()
        next_end = min(one.started for one in running.values()) + LIMIT_S
        for ready in wait(list(running), timeout=max(0.0, next_end - now)):
            assert isinstance(ready, Connection)
            yield _finished(ready, running.pop(ready))
        for connection, one in list(running.items()):
            if time.monotonic() - one.started > LIMIT_S:
                del running[connection]
                one.process.kill()
                one.process.join()
                why = f"not done after {LIMIT_S:g} s"
                yield Outcome(one.test.stem, Verdict.FAILED, "run", why, LIMIT_S)


def _finished(connection: Connection, one: _Running) -> Outcome:
    seconds = time.monotonic() - one.started
    try:
        verdict, stage, reason = connection.recv()
    except EOFError:
        one.process.join()
        verdict, stage = Verdict.FAILED, "run"
        reason = f"the process ended with code {one.process.exitcode}"
    connection.close()
    one.process.join()
    return Outcome(one.test.stem, verdict, stage, _one_line(reason), round(seconds, 2))


def _import_all() -> None:
    """What every test needs, imported once."""
    import softswitch.compiler.driver
    import softswitch.stf.in_process
    import softswitch.stf.script  # noqa: F401


def _child(test: Path, arguments: argparse.Namespace, out: Connection) -> None:
    out.send(_judge(test, arguments))
    out.close()


def _judge(test: Path, arguments: argparse.Namespace) -> tuple[Verdict, str, str]:
    """The verdict, the stage and the reason."""
    from softswitch.compiler.errors import CompileError, NotSupported
    from softswitch.stf.runner import NotOnTarget

    program = test.with_suffix(".p4")
    if not program.is_file():
        return Verdict.FAILED, "compile", f"there is no {program.name}"
    if not _is_for_v1model(program):
        return Verdict.ELSEWHERE, "", "does not include v1model.p4"
    stage = "compile"
    try:
        pipeline = stf.build(stf.job_of(arguments, program))
        stage = "run"
        result = stf.run_script(stf.read(test), pipeline, arguments.target, test)
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


def _is_for_v1model(program: Path, depth: int = 3) -> bool:
    """Whether it, or a file beside it that it includes, includes v1model.p4."""
    text = program.read_text(encoding="utf-8", errors="replace")
    if _V1MODEL.search(text):
        return True
    beside = [program.parent / name for name in _INCLUDED.findall(text)]
    return depth > 0 and any(_is_for_v1model(path, depth - 1) for path in beside if path.is_file())


def _one_line(text: str) -> str:
    """A reason on one line, without the directories of this machine."""
    line = " ".join(_OWN_PATHS.sub(r"\1", text).split())
    return line if len(line) <= REASON_LENGTH else line[:REASON_LENGTH] + "..."


# --- results ------------------------------------------------------------------------------------


def _as_json(outcome: Outcome) -> dict[str, object]:
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


def page(outcomes: Sequence[Outcome], compiler: str, target: str) -> str:
    """The page of a run, in Markdown."""
    counts = dict(_counts(outcomes))
    tried = len(outcomes) - counts[Verdict.ELSEWHERE]
    lines = [
        "# Conformance: p4c's own tests",
        "",
        "This page is written by a command:",
        "",
        "    weft stf --all P4C/testdata/p4_16_samples --report docs/CONFORMANCE.md",
        "",
        f"It runs every `{PATTERN}` of p4c's `testdata/p4_16_samples` that is for v1model,",
        f"compiled by `{compiler}`, on `{target}`: packets in, packets expected, digit by digit",
        "([how](stf.md)).",
        "",
        f"**{counts[Verdict.PASSED]} of {tried} pass.** {counts[Verdict.FAILED]} fail, "
        f"{counts[Verdict.UNSUPPORTED]} need what is not supported;",
        f"{counts[Verdict.ELSEWHERE]} more are for other architectures and were not run.",
    ]
    for verdict, title in ((Verdict.FAILED, "Fail"), (Verdict.UNSUPPORTED, "Not supported")):
        found = [outcome for outcome in outcomes if outcome.verdict is verdict]
        if found:
            lines += ["", f"## {title}", "", "| test | at | reason |", "|---|---|---|"]
            lines += [f"| {o.name} | {o.stage} | {_cell(o.reason)} |" for o in found]
    for verdict, title in ((Verdict.PASSED, "Pass"), (Verdict.ELSEWHERE, "Other architectures")):
        names = [outcome.name for outcome in outcomes if outcome.verdict is verdict]
        if names:
            lines += ["", f"## {title}", "", *_filled(names)]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")


def _filled(names: Sequence[str], width: int = 110) -> list[str]:
    lines = [""]
    for name in names:
        if lines[-1] and len(lines[-1]) + len(name) + 2 > width:
            lines.append("")
        lines[-1] += f"{name}, " if name != names[-1] else name
    return [line.rstrip() for line in lines]
