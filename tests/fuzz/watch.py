"""Runs a fuzzer in processes of its own: sees exceptions, signals, hangs and memory that grows."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from softswitch.core import build
from tests.fuzz.fuzzers import SANITIZED

ROOT = Path(__file__).resolve().parents[2]
WORKER = ("-m", "tests.fuzz.worker")
HANG_S = 120.0
"""A case that takes longer hangs. The C compiler alone may take a minute on a busy machine."""
GROWTH_KB = 64 * 1024
"""What a process may grow by after its first part: caches fill, and nothing else is kept."""
SETTLED = 4
"""The part of a process's memory samples, one in so many, in which caches fill."""
_SAID = 4000


@dataclass(frozen=True)
class Finding:
    """Case `number` of a kind: `what` is an exception's text, a signal, or a hang."""

    kind: str
    number: int
    what: str

    def __str__(self) -> str:
        again = f"python -m tests.fuzz {self.kind} --first {self.number} --cases 1"
        return f"{self.kind}, case {self.number} (once more: {again}):\n{self.what}"


@dataclass
class Outcome:
    """What a run of one kind came to."""

    cases: int = 0
    findings: list[Finding] = field(default_factory=list)
    memory_kb: list[int] = field(default_factory=list)


def run(
    kind: str,
    first: int,
    count: int,
    *,
    say: Callable[[int], None] = lambda _number: None,
    hang_s: float = HANG_S,
) -> Outcome:
    """Run cases first .. first + count - 1, in as many processes as their ends make necessary."""
    if kind in SANITIZED:
        build.ensure(sanitize=True)  # here, where the compiler runs without the sanitizers
    outcome = Outcome()
    following, end = first, first + count
    while following < end:
        following = _process(kind, following, end - following, outcome, say, hang_s)
        if len(outcome.findings) >= 20:
            break
    return outcome


def _environment(kind: str) -> dict[str, str]:
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    if kind not in SANITIZED:
        return environment
    libraries = [
        subprocess.run(
            ["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for name in ("libasan.so", "libubsan.so")
    ]
    return {
        **environment,
        "LD_PRELOAD": " ".join(libraries),
        "PYTHONMALLOC": "malloc",
        "ASAN_OPTIONS": "detect_leaks=0",  # the interpreter itself never frees everything
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    }


def _process(
    kind: str,
    first: int,
    count: int,
    outcome: Outcome,
    say: Callable[[int], None],
    hang_s: float,
) -> int:
    """One worker; return the case that is next."""
    command = [sys.executable, *WORKER, kind, str(first), str(count)]
    at, done = first - 1, False
    memory: list[int] = []
    with tempfile.TemporaryFile() as said:
        worker = subprocess.Popen(
            command, cwd=ROOT, env=_environment(kind), stdout=subprocess.PIPE, stderr=said
        )
        assert worker.stdout is not None
        lines = _Lines(worker.stdout.fileno())
        try:
            while (line := lines.next(hang_s)) is not None:
                word, _, rest = line.partition(" ")
                if word == "at":
                    at = int(rest)
                    outcome.cases += 1
                    say(at)
                elif word == "fault":
                    number, _, text = rest.partition(" ")
                    outcome.findings.append(Finding(kind, int(number), json.loads(text)))
                elif word == "memory":
                    memory.append(int(rest))
                elif word == "done":
                    done = True
            hung = lines.hung
        finally:
            worker.kill()
            worker.wait()
        said.seek(0)
        text = said.read().decode(errors="replace")[-_SAID:]
    outcome.memory_kb += memory
    if hung:
        outcome.findings.append(Finding(kind, at, f"no end after {hang_s:.0f} s\n{text}"))
    elif not done:
        why = f"the process ended ({worker.returncode})\n{text}"
        outcome.findings.append(Finding(kind, max(at, first), why))
    elif kind not in SANITIZED and (grown := _growth(memory)) > GROWTH_KB:
        outcome.findings.append(Finding(kind, first, f"memory grew by {grown} kB in {count} cases"))
    if at < first and not done:  # it does not even begin, and will not
        return first + count
    return first + count if done else at + 1


def _growth(memory: list[int]) -> int:
    settled = memory[len(memory) // SETTLED :]
    return settled[-1] - settled[0] if len(memory) >= SETTLED else 0


class _Lines:
    """Lines of a pipe, each within a time."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._selector = selectors.DefaultSelector()
        self._selector.register(descriptor, selectors.EVENT_READ)
        self._rest = b""
        self.hung = False

    def next(self, seconds: float) -> str | None:
        """Return the next line; None at the end, or when it does not come (`hung`)."""
        deadline = time.monotonic() + seconds
        while b"\n" not in self._rest:
            if not self._selector.select(max(0.0, deadline - time.monotonic())):
                self.hung = True
                return None
            data = os.read(self._descriptor, 1 << 16)
            if not data:
                return None
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode(errors="replace")
