"""One exercise of p4lang/tutorials, played as its README says, in namespaces of its own.

    with Exercise(checkout, "basic", programs, folder) as exercise:      solution in, `make run`
        exercise.says("pingall")                                          what Mininet's CLI prints

`make run` runs on a terminal in new network, mount and process namespaces: its switches' names,
ports and processes meet nobody else's, and nothing of it outlives the exercise.
"""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

PROMPT = "mininet> "
START_S = 180.0
ANSWER_S = 120.0
KEY_S = 0.03
"""How long a key takes."""

_OWN_NAMESPACES = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
_PREPARE = 'mount -t sysfs sysfs /sys && ip link set lo up && exec "$@"'


class ExerciseError(AssertionError):
    """The exercise did not do what was waited for; the message ends with what it printed."""


def isolated(command: list[str]) -> list[str]:
    """`command` in new namespaces, with a loopback interface that is up."""
    return [*_OWN_NAMESPACES, "sh", "-c", _PREPARE, "sh", *command]


def environment(programs: Path) -> dict[str, str]:
    """Return the environment with `programs` first on PATH."""
    variables = dict(os.environ)
    variables["PATH"] = f"{programs}:{variables['PATH']}"
    variables["TERM"] = "dumb"
    return variables


def copy_of(checkout: Path, name: str, folder: Path) -> Path:
    """Copy what an exercise needs into `folder`, the solution in its place; return its folder."""
    for part in ("utils", "bin"):
        shutil.copytree(checkout / part, folder / part)
    exercise = folder / "exercises" / name
    shutil.copytree(checkout / "exercises" / name, exercise)
    solve(exercise)
    return exercise


def solve(exercise: Path) -> None:
    """Put an exercise's solution into its place."""
    for solved in (exercise / "solution").iterdir():
        places = list(exercise.glob(f"*-topo/{solved.name}")) or [exercise / solved.name]
        for place in places:
            shutil.copy(solved, place)


class Exercise:
    """An exercise whose Mininet CLI waits for commands."""

    def __init__(self, checkout: Path, name: str, programs: Path, folder: Path) -> None:
        self.name = name
        self.folder = copy_of(checkout, name, folder)
        self._environment = environment(programs)
        self._text = ""
        self._read_to = 0

    def __enter__(self) -> Exercise:
        master, slave = pty.openpty()
        self._terminal = master
        self._process = subprocess.Popen(
            isolated(["make", "run"]),
            cwd=self.folder,
            env=self._environment,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=_take_terminal,
        )
        os.close(slave)
        try:
            self._until(PROMPT, START_S)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self.type("exit")
                self._wait_for_end(ANSWER_S)
        finally:
            self._end()

    # ------------------------------------------------------------------ at the prompt

    def type(self, line: str) -> None:
        """Type `line` and Enter, key by key.

        Mininet hands a host's program one key each time that its terminal has something new.
        """
        for key in f"{line}\r":
            os.write(self._terminal, key.encode())
            pressed = time.monotonic()
            while (left := pressed + KEY_S - time.monotonic()) > 0:
                self._read(left)

    def says(self, command: str, *, seconds: float = ANSWER_S) -> str:
        """Give the CLI a command; return what it prints until the next prompt."""
        os.write(self._terminal, f"{command}\r".encode())
        return self._until(PROMPT, seconds)

    def waits_for(self, text: str, *, seconds: float = ANSWER_S) -> str:
        """Wait until the terminal shows `text`; return all up to it that was not returned yet."""
        return self._until(text, seconds)

    # ------------------------------------------------------------------ beside the prompt

    def starts(self, host: str, command: str, log: str) -> None:
        """Run `command` on `host` in the background, as in an xterm, with its output in `log`."""
        where = f"{host} " if host else "sh "
        self.says(f"{where}{command} > {log} 2>&1 &")

    def sniffs(self, host: str, command: str, log: str) -> None:
        """Start a program that captures packets, and wait until it does."""
        before = self._captures(host)
        self.starts(host, command, log)
        self.until(lambda: self._captures(host) > before, f"{command} captures on {host}")

    def _captures(self, host: str) -> int:
        """How many packet sockets `host` has (a header line comes first)."""
        return len(re.findall(r"^[0-9a-f]{8,} ", self.says(f"{host} cat /proc/net/packet"), re.M))

    def log(self, name: str) -> str:
        """Return what a background program has printed."""
        path = self.folder / name
        return path.read_text(errors="replace") if path.exists() else ""

    def until(self, condition: Callable[[], bool], what: str, *, seconds: float = ANSWER_S) -> None:
        """Wait until `condition` holds; raises ExerciseError saying `what` has not come."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise ExerciseError(f"not within {seconds:.0f} s: {what}\n{self._logs()}")
            self._read(0.2)

    # ------------------------------------------------------------------ the terminal

    def _until(self, text: str, seconds: float) -> str:
        deadline = time.monotonic() + seconds
        while True:
            at = self._text.find(text, self._read_to)
            if at >= 0:
                found = self._text[self._read_to : at]
                self._read_to = at + len(text)
                return found
            left = deadline - time.monotonic()
            if left <= 0 or not self._read(left):
                raise ExerciseError(
                    f"{self.name}: waited for {text!r}\n{self._text[-3000:]}\n{self._logs()}"
                )

    def _read(self, seconds: float) -> bool:
        """Read what the terminal has within `seconds`; False when it is closed."""
        ready, _, _ = select.select([self._terminal], [], [], max(seconds, 0))
        if not ready:
            return True
        try:
            data = os.read(self._terminal, 65536)
        except OSError:
            return False
        self._text += data.decode(errors="replace").replace("\r", "")
        return bool(data)

    def _logs(self) -> str:
        return "\n".join(
            f"--- {path.name}\n{path.read_text(errors='replace')[-1500:]}"
            for path in sorted(self.folder.glob("logs/*.log"))
        )

    def _wait_for_end(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while self._process.poll() is None:
            if time.monotonic() > deadline:
                raise ExerciseError(f"{self.name}: make does not end\n{self._text[-2000:]}")
            self._read(0.1)
        if self._process.returncode != 0:
            raise ExerciseError(f"{self.name}: make failed\n{self._text[-2000:]}")

    def _end(self) -> None:
        """End what still runs: the namespaces' first process takes all others along."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
        os.close(self._terminal)


def _take_terminal() -> None:
    """Make standard input the session's terminal, as a shell that a reader types at has it."""
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
