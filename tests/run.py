"""Runs a tier of the tests: what can run side by side on all cores, then the rest one by one.

    python tests/run.py [--long] [pytest's arguments]

Tests marked `realtime` measure real time or share names of the machine, so nothing runs beside
them. Up to MOST_AGAIN tests of a phase that fail run once more, alone, since others' work on a
shared machine can disturb whatever runs in real processes: what fails twice has failed, and what
passes the second time is named, so that it does not stay unseen. The last line counts both phases.
`-m` narrows the tier; `--most-skipped` holds for both phases together. The exit code is that of the
first phase that went wrong, and pytest's for "no tests" only if neither phase has any.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BY_CTRL_C = 130
STOPPED = (BY_CTRL_C, pytest.ExitCode.INTERRUPTED)
MOST_AGAIN = 3
PATIENCE_S = 60.0  # for what interrupted tests have to remove
# Work stealing moves single tests, and only once a worker has none left: what a module's fixtures
# make is rarely made twice.
SIDE_BY_SIDE = ("-n", str(len(os.sched_getaffinity(0))), "--dist", "worksteal")
ALONE = ("-n", "0", "--dist", "no")


@dataclass
class Phase:
    """One run of pytest and what came of it."""

    name: str
    marks: str
    defaults: tuple[str, ...] = ()
    musts: tuple[str, ...] = ()
    code: int = 0
    seconds: float = 0.0
    tally: dict[str, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)  # the tests that failed or broke

    def run(self, arguments: list[str], most_skipped: int | None) -> None:
        """Run it, and read what tests/conftest.py counted."""
        with tempfile.TemporaryDirectory(prefix="weft-tests-") as folder:
            tally = Path(folder, "tally.json")
            command = [sys.executable, "-m", "pytest", *self.defaults, *arguments, *self.musts]
            command += ["-m", self.marks, "--tally", str(tally)]
            if most_skipped is not None:
                command.append(f"--most-skipped={most_skipped}")
            began = time.monotonic()
            try:
                self.code = _wait_for(command)
            finally:
                self.seconds = time.monotonic() - began
                if tally.exists():
                    counted = json.loads(tally.read_text())
                    self.wrong = counted.pop("wrong")
                    self.tally = counted

    def again(self, arguments: list[str]) -> None:
        """Run those that went wrong once more, and count them as they do then."""
        if self.code != pytest.ExitCode.TESTS_FAILED or not 0 < len(self.wrong) <= MOST_AGAIN:
            return
        if self.tally.get("problems"):
            return  # CI failed for what was skipped, which no second time mends
        print(f"--- {self.name}, once more: {' '.join(self.wrong)}", flush=True)
        second = Phase(self.name, self.marks, musts=ALONE)
        with tempfile.TemporaryDirectory(prefix="weft-tests-") as folder:
            only = Path(folder, "only")
            only.write_text("\n".join(self.wrong))
            second.run([*arguments, f"--only={only}"], None)
        self.seconds += second.seconds
        if second.tally.get("passed", 0) + second.tally.get("failed", 0) < len(self.wrong):
            return  # not all of them ran
        for test in self.wrong:
            if test not in second.wrong:
                print(f"=== passed only the second time: {test} ===", flush=True)
        for what in ("passed", "failed"):
            self.tally[what] = self.tally.get(what, 0) + second.tally.get(what, 0)
        self.tally["failed"] -= len(self.wrong)
        self.code = second.code


def main() -> int:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n")[0], allow_abbrev=False
    )
    parser.add_argument("--long", action="store_true", help="the tests marked `long`, not others")
    parser.add_argument("-m", dest="marks", metavar="MARKEXPR", help="only these of the tier")
    parser.add_argument("--most-skipped", type=int, metavar="N", help="as tests/conftest.py has it")
    given, arguments = parser.parse_known_args()
    marks = "long" if given.long else "not long"
    if given.marks:
        marks += f" and ({given.marks})"
    phases = [
        Phase("side by side", f"not realtime and {marks}", defaults=SIDE_BY_SIDE),
        Phase("alone", f"realtime and {marks}", musts=ALONE),
    ]
    left = given.most_skipped
    code = 0
    try:
        for phase in phases:
            print(f"--- {phase.name}: {phase.marks}", flush=True)
            phase.run(arguments, left)
            phase.again(arguments)
            if left is not None:
                left = max(0, left - phase.tally.get("reference", 0))
            if phase.code in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.USAGE_ERROR):
                break  # also what cannot be collected, which the next phase could not either
        code = _exit_code(phases)
    except KeyboardInterrupt:
        code = BY_CTRL_C
    _report("test-long" if given.long else "test", phases, code in STOPPED)
    return code


def _wait_for(command: list[str]) -> int:
    """Run a command. What ends this process lets it clean up; a second time ends it at once."""
    process = subprocess.Popen(command, cwd=ROOT)

    def end(*_: object) -> None:
        process.send_signal(signal.SIGINT)  # the terminal's Ctrl-C reaches it without our help
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        return process.wait()
    except KeyboardInterrupt:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE_S)
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
        process.kill()
        process.wait()


def _exit_code(phases: list[Phase]) -> int:
    none = pytest.ExitCode.NO_TESTS_COLLECTED
    wrong = [phase.code for phase in phases if phase.code not in (pytest.ExitCode.OK, none)]
    if wrong:
        return wrong[0]
    return int(none) if all(phase.code == none for phase in phases) else 0


def _report(tier: str, phases: list[Phase], interrupted: bool) -> None:
    parts = [f"{phase.name}: {_counts([phase])}" for phase in phases]
    end = ", INTERRUPTED" if interrupted else ""
    print(f"=== {tier}: {_counts(phases)}{end} ({'; '.join(parts)}) ===", flush=True)


def _counts(phases: list[Phase]) -> str:
    sums = [
        f"{sum(phase.tally.get(what, 0) for phase in phases)} {what}"
        for what in ("passed", "failed", "skipped")
    ]
    return f"{', '.join(sums)} in {sum(phase.seconds for phase in phases):.0f} s"


if __name__ == "__main__":
    raise SystemExit(main())
