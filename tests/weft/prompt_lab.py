"""A run with a prompt on a pipe, for tests of its commands."""

from __future__ import annotations

import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from emulation import run_state, teardown
from emulation.run_state import RunRecord, read_record

REPOSITORY = Path(run_state.__file__).resolve().parent.parent
PATIENCE_S = 60.0


class Lab:
    """A run with a prompt on a pipe: `do` gives a command and returns what it printed."""

    def __init__(
        self,
        root: Path,
        target: str = "softswitch",
        topology: str = "leafspine",
        more: tuple[str, ...] = (),
    ) -> None:
        self.root = root
        self.environment = {
            **os.environ,
            run_state.RUN_ROOT_VARIABLE: str(root / "run"),
            run_state.LOG_ROOT_VARIABLE: str(root / "log"),
        }
        options = ("--cli", "--json", "--seconds", "1")
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "weft.cli",
                "run-topo",
                topology,
                "--target",
                target,
                *options,
                *more,
            ],
            cwd=REPOSITORY,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,  # in the order in which a person sees it
            text=True,
        )
        assert self.process.stdout is not None
        self._lines: queue.Queue[str] = queue.Queue()
        self._heard = ""
        self.said = ""  # all that was shown
        threading.Thread(target=self._follow, args=(self.process.stdout,), daemon=True).start()
        line = self._line()
        while not line.startswith("{"):
            line = self._line()
        self.result = json.loads(line)

    def _follow(self, stream: IO[str]) -> None:
        for line in stream:
            self._lines.put(line)
        self._lines.put("")

    def _line(self) -> str:
        try:
            line = self._lines.get(timeout=PATIENCE_S)
        except queue.Empty:
            line = ""
        assert line, f"nothing after {self._heard!r}"
        self._heard += line
        self.said += line
        return line

    def do(self, command: str) -> str:
        """Return what is shown for a command, with what is reported meanwhile."""
        assert self.process.stdin is not None
        # The echo of the next line marks the end: a comment does nothing.
        self.process.stdin.write(f"{command}\n# end\n")
        self.process.stdin.flush()
        shown = []
        while not (line := self._line()).endswith("weft> # end\n"):  # IPython leaves its line open
            shown.append(line)
        shown.remove(f"weft> {command}\n")
        return "".join(shown)

    def hears(self, pattern: str) -> str:
        """All that was shown since the last `kill` or `forget`, until the pattern is in it."""
        while not re.search(pattern, self._heard):
            self._line()
        return self._heard

    def other_terminal(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `weft` beside it."""
        return subprocess.run(
            [sys.executable, "-m", "weft.cli", *arguments],
            cwd=REPOSITORY,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )

    def record(self) -> RunRecord:
        """Return the run's record as it is now."""
        record = read_record(self.root / "run" / self.result["run"])
        assert record is not None
        return record

    def forget(self) -> None:
        """Forget what was shown so far: `hears` waits for what is said from now on."""
        self._heard = ""

    def kill(self, switch: str) -> None:
        """Kill a switch's process."""
        self.forget()
        *_, last = [p for p in self.record().processes if p.role == f"switch {switch}"]
        os.kill(last.pid, signal.SIGKILL)
        until(lambda: not last.is_alive())

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def until(condition: Callable[[], bool]) -> None:
    """Poll a condition; fail when it does not come true."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@contextmanager
def opened(
    root: Path, target: str, topology: str = "leafspine", more: tuple[str, ...] = ()
) -> Iterator[Lab]:
    """Open a lab that is gone afterwards, whatever happened. `more`: further options."""
    lab = Lab(root, target, topology, more)
    yield lab
    lab.close()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(run_state.RUN_ROOT_VARIABLE, str(root / "run"))
        patch.setenv(run_state.LOG_ROOT_VARIABLE, str(root / "log"))
        teardown.stop()


def rows(table: str) -> list[list[str]]:
    """Return the cells of a printed table, which two blanks or more keep apart."""
    return [re.split(r" {2,}", line.strip()) for line in table.splitlines() if line.strip()]
