"""A call of a communicator that is under way, and the error with which it may end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class CollectiveError(Exception):
    """A collective can't be had or did not complete; the message says which, and why."""


class Handle:
    """A call under way."""

    def __init__(self, what: str, finish: Callable[[], Any]) -> None:
        """Create the handle of call `what`; `finish` makes the call's result when it is done."""
        self.what = what
        self._finish = finish
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[Handle], object]] = []
        self._error: str | None = None
        self._result: Any = None

    @property
    def done(self) -> bool:
        """Whether `wait` would return, or raise, at once."""
        return self._event.is_set()

    def wait(self, timeout_s: float | None = None) -> Any:
        """Wait until the call is done; return its result (an array, or None for a barrier).

        Raises CollectiveError (the communicator gave up or was closed), TimeoutError.
        """
        if not self._event.wait(timeout_s):
            raise TimeoutError(f"{self.what} is not done after {timeout_s} s")
        if self._error is not None:
            raise CollectiveError(self._error)
        return self._result

    def add_done_callback(self, call: Callable[[Handle], object]) -> None:
        """Call `call(handle)` when the call is done, from the communicator's own thread.

        At once, from this thread, if it is done already. It must not wait for other calls.
        """
        with self._lock:
            if not self._event.is_set():
                self._callbacks.append(call)
                return
        call(self)

    def end(self, error: str | None = None) -> None:
        """Let waiters go on; `error`: why there is no result."""
        self._error = error
        if error is None:
            self._result = self._finish()
        with self._lock:
            self._event.set()
            callbacks, self._callbacks = self._callbacks, []
        for call in callbacks:
            call(self)
