"""Ctrl-C, SIGTERM and a closed terminal, turned into one exception in the main thread.

The first signal raises `Interrupted` wherever the main thread is; later ones are noted and ignored,
so that a second Ctrl-C does not cut the clean-up short. Python loses an exception that a handler
raises inside a destructor or a callback; `check` at the steps of a run raises it again.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """The run was asked to end, by this signal."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class Interrupts:
    """What signals do at the moment. Make it with `handled`."""

    def __init__(self) -> None:
        self._pending: int | None = None
        self._closed = False

    def check(self) -> None:
        """Raise Interrupted when a signal has come, also if its exception got lost."""
        if self._pending is not None:
            raise Interrupted(self._pending)

    def close(self) -> None:
        """Ignore signals from now on: only the clean-up is left."""
        self._closed = True

    @contextmanager
    def cancelling(self) -> Iterator[None]:
        """Let Ctrl-C end only the block, as a KeyboardInterrupt that its caller catches.

        It is forgotten afterwards; the other signals end the run as always.
        """
        try:
            yield
        except Interrupted as interrupted:
            if interrupted.number == signal.SIGINT:
                self._pending = None
            raise

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self._closed or self._pending is not None:
            return
        self._pending = number
        raise Interrupted(number)


@contextmanager
def handled() -> Iterator[Interrupts]:
    """Handle signals as said above for the block, and as before after it."""
    interrupts = Interrupts()
    before: dict[int, Any] = {}
    try:
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
                before[number] = signal.signal(number, interrupts._handle)
        yield interrupts
    finally:
        interrupts.close()
        for handled_number, handler in before.items():
            signal.signal(handled_number, handler)
