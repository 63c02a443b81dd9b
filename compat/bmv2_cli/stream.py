"""A file of commands as `weft cli` reads it, and its answers in order.

Many new entries go to the switch in one request, which must not keep a script waiting that writes
a line and reads the answer. So `Lines` says when the next line is not there yet, and `Answers`
holds back what is printed after an answer that is still to come.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from typing import IO, Protocol

from observe.errors import UsageError

_CHUNK = 1 << 16


class Lines:
    """The lines of an open file. `before_waiting` is called when the next one is not there yet."""

    def __init__(self, descriptor: int, before_waiting: Callable[[], None]) -> None:
        self._descriptor = descriptor
        self._before_waiting = before_waiting
        self._read = b""
        self._lines: list[bytes] = []  # whole ones, the next one last
        self._ended = False

    def readline(self) -> str:
        """Return the next line with its end; "" after the last one. Raises UsageError."""
        while not self._lines and not self._ended:
            if not select.select([self._descriptor], [], [], 0)[0]:
                self._before_waiting()
                select.select([self._descriptor], [], [])  # it may have been opened non-blocking
            self._fill()
        if self._lines:
            line = self._lines.pop()
        else:
            line, self._read = self._read, b""
        return line.decode(errors="replace")

    def _fill(self) -> None:
        try:
            data = os.read(self._descriptor, _CHUNK)
        except OSError as error:
            raise UsageError(f"the commands can't be read: {error.strerror}") from None
        self._ended = not data
        *lines, self._read = (self._read + data).split(b"\n")
        self._lines = [line + b"\n" for line in reversed(lines)]


class Printer(Protocol):
    """Prints something that had to wait for its turn."""

    def __call__(self) -> None: ...


class Answers:
    """Standard output and error as a shell writes them: at once, or after what is `held`."""

    def __init__(self, output: IO[str], errors: IO[str]) -> None:
        self._output = output
        self._errors = errors
        self._held: list[str | Printer] = []

    def write(self, text: str) -> int:
        """Print to standard output."""
        if self._held:
            self._held.append(text)
        else:
            self._output.write(text)
        return len(text)

    def flush(self) -> None:
        """Do nothing: `show` flushes before anybody waits for the output."""

    def note(self, text: str) -> None:
        """Print to standard error."""
        if self._held:
            self._held.append(lambda: self._note(text))
        else:
            self._note(text)

    def hold(self, answer: Printer) -> None:
        """Hold back what follows until `release` has called `answer` in its turn."""
        self._held.append(answer)

    def release(self) -> None:
        """Print what is held."""
        held, self._held = self._held, []
        for each in held:
            if isinstance(each, str):
                self._output.write(each)
            else:
                each()

    def show(self) -> None:
        """Make what is printed visible."""
        self._output.flush()

    def _note(self, text: str) -> None:
        self._output.flush()
        self._errors.write(text)
        self._errors.flush()
