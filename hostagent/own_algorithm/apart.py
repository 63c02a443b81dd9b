"""Work in a process of its own, with a time limit: what a crash or an endless loop can't take down.

story = apart(lambda: play(card), seconds=20)
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import pickle
import select
import signal
import time
import traceback
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar, cast

Result = TypeVar("Result")

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_CHUNK = 1 << 16


class ApartError(Exception):
    """The work did not end well: it died, took too long, or raised; the message says which."""


def apart(work: Callable[[], Result], *, seconds: float, what: str = "the header") -> Result:
    """Do some work in a copy of this process and return its result, which has to be picklable.

    Raises ApartError if it dies ("the header died: SIGSEGV"), is busy for longer than `seconds` of
    time, or raises: then with its words.
    """
    source, sink = os.pipe()
    child = os.fork()  # no multiprocessing: labs run in its daemons, which may have no children
    if not child:
        os.close(source)
        _work(sink, work)
    os.close(sink)
    status: int | None = None
    try:
        said = _heard(source, time.monotonic() + seconds)
        if said is None:
            raise ApartError(f"{what} was still busy after {seconds:g} s: a loop that never ends?")
        status = os.waitpid(child, 0)[1]
    finally:
        os.close(source)
        if status is None:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    try:
        went_well, result = pickle.loads(said)
    except (EOFError, pickle.UnpicklingError):
        raise ApartError(f"{what} died: {_cause(os.waitstatus_to_exitcode(status))}") from None
    if not went_well:
        raise ApartError(str(result))
    return cast(Result, result)


def _heard(source: int, until: float) -> bytes | None:
    """Read all that comes until the other end is closed; None: it was too late."""
    chunks: list[bytes] = []
    while True:
        left = until - time.monotonic()
        if left <= 0 or not select.select([source], [], [], left)[0]:
            return None
        chunk = os.read(source, _CHUNK)
        if not chunk:
            return b"".join(chunks)
        chunks.append(chunk)


def _cause(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"it ended with code {code}"


def _work(sink: int, work: Callable[[], Any]) -> NoReturn:
    """Do it, say what came of it, and leave without tidying up what is the parent's."""
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        faulthandler.disable()  # the parent says what happened
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's, who ends this one
        try:
            said = pickle.dumps((True, work()))
        except BaseException as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            is_ours = type(error).__module__ != "builtins"
            place = "" if is_ours else f" ({last.filename}:{last.lineno})"
            said = pickle.dumps((False, f"{type(error).__name__}: {error}{place}"))
        with os.fdopen(sink, "wb") as file:
            file.write(said)
    finally:
        os._exit(0)
