"""The prompt on a terminal: Ctrl-C cancels the line or the command, Ctrl-D ends the run."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from emulation import run_state, teardown

pytestmark = pytest.mark.root

REPOSITORY = Path(run_state.__file__).resolve().parent.parent
PATIENCE_S = 60.0
PROMPT = "weft> "


class Terminal:
    """`weft run-topo --cli` on a pseudo-terminal."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._master, slave = pty.openpty()
        self._seen = ""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "weft.cli", "run-topo", "--cli", "--seconds", "1"],
            cwd=REPOSITORY,
            env=environment,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            # A session of its own with the terminal as its own: Ctrl-C then reaches it as a signal.
            preexec_fn=_take_terminal,
        )
        os.close(slave)

    def type(self, text: str) -> None:
        """Type something; control characters are keys."""
        os.write(self._master, text.encode())

    def press_until(self, key: str, text: str) -> None:
        """Press a key until `text` is shown.

        Once is not always enough: readline loses a signal that comes between its last look for
        one and its wait for the next key.
        """
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            self.type(key)
            with suppress(AssertionError):
                self.expect(text, 1.0)
                return
        raise AssertionError(f"no {text!r} in {self._seen!r}")

    def expect(self, text: str, patience_s: float = PATIENCE_S) -> str:
        """Return what was shown until `text` is, and forget it."""
        deadline = time.monotonic() + patience_s
        while text not in self._seen:
            left = deadline - time.monotonic()
            assert left > 0, f"no {text!r} in {self._seen!r}"
            if select.select([self._master], [], [], left)[0]:
                self._seen += self._read()
        before, _, self._seen = self._seen.partition(text)
        return before

    def _read(self) -> str:
        try:
            data = os.read(self._master, 1 << 16)
        except OSError as error:
            raise AssertionError(f"it ended after {self._seen!r}") from error
        return re.sub(r"\033\[[?0-9;]*[a-zA-Z]", "", data.decode()).replace("\r", "")

    def rest(self) -> str:
        """Wait for the end; return what was shown until then."""
        while True:
            try:
                self._seen += self._read()
            except AssertionError:
                break
        self.process.wait(PATIENCE_S)
        return self._seen

    def close(self) -> None:
        """End it by force if it is still there."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._master)


def _take_terminal() -> None:
    import fcntl
    import termios

    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    monkeypatch.setenv(run_state.RUN_ROOT_VARIABLE, str(tmp_path / "run"))
    monkeypatch.setenv(run_state.LOG_ROOT_VARIABLE, str(tmp_path / "log"))
    opened = Terminal({**os.environ, "TERM": "xterm", "COLUMNS": "160"})
    yield opened
    opened.close()
    teardown.stop()


def test_keys_and_commands_on_a_terminal(terminal: Terminal, tmp_path: Path) -> None:
    shown = terminal.expect(PROMPT)
    assert "all-pairs ping" in shown
    assert "type help" in shown

    terminal.type("half a lin")
    terminal.expect("half a lin")
    terminal.press_until("\x03", PROMPT)  # Ctrl-C: the line is given up

    terminal.type("exec h1 echo started; sleep 1000\n")
    terminal.expect("\nstarted\n")
    terminal.type("\x03")  # Ctrl-C: the command is ended
    terminal.expect(PROMPT)

    terminal.type("exec h1 echo listening; cat\n")  # a command may read the terminal
    terminal.expect("\nlistening\n")
    terminal.type("marble\n")
    terminal.expect("marble\nmarble\n")
    terminal.type("\x04")
    terminal.expect(PROMPT)

    for line in ("h1 bash", "exec h2 bash"):
        terminal.type(f"{line}\n")
        terminal.expect(f"{line.split()[-2]}:{REPOSITORY}# ")  # the shell says where it is
        terminal.type("exit\n")
        terminal.expect(PROMPT)
    terminal.type("h3 sh\n")
    terminal.expect("h3# ")
    terminal.type("exit\n")
    terminal.expect(PROMPT)
    terminal.type("nonsense\n")
    assert "no command 'nonsense'" in terminal.expect(PROMPT)
    terminal.type("pingall\n")
    assert "12 pairs, 0 % lost" in terminal.expect(PROMPT)

    terminal.type("tables s1 ipv4_r\t\n")  # Tab completes what may follow
    assert "10.0.2.0/24" in terminal.expect(PROMPT)
    terminal.type("link s1 s4 d\t\n")
    assert "s1:4 - s4:1: down" in terminal.expect(PROMPT)
    terminal.type("capture s1-2\n")
    terminal.expect("listening on")
    terminal.type("\x03")
    terminal.expect(PROMPT)

    terminal.type("p4rt-shell s1 write\n")
    terminal.expect("IPython shell for P4Runtime")
    terminal.expect(">>>")
    terminal.type("print(len(list(TableEntry('ipv4_route').read())), 'ent' 'ries')\r")
    terminal.expect("3 entries")
    terminal.type("exit\r")
    terminal.expect(PROMPT)
    terminal.type("controller restart\n")  # the controller's place is free again
    assert "0 updates written" in terminal.expect(PROMPT)

    terminal.type("\x04")  # Ctrl-D ends the run
    terminal.rest()
    assert terminal.process.returncode == 0
    assert not (tmp_path / "run").exists()
    history = (tmp_path / "log" / "prompt-history").read_text().splitlines()
    assert "tables s1 ipv4_route" in [line.strip() for line in history]
