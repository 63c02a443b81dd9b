"""Work in a process of its own, with a time limit: what a crash or an endless loop can't take down.

story = apart(lambda: play(card), seconds=20)
"""

from __future__ import annotations

import faulthandler
import os
import signal
import traceback
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, TypeVar, cast

Result = TypeVar("Result")


class ApartError(Exception):
    """The work did not end well: it died, took too long, or raised; the message says which."""


def apart(work: Callable[[], Result], *, seconds: float, what: str = "the header") -> Result:
    """Do some work in a copy of this process and return its result, which has to be picklable.

    Raises ApartError if it dies ("the header died: SIGSEGV"), is busy for longer than `seconds` of
    time, or raises: then with its words.
    """
    context = get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(theirs, work), daemon=True)
    process.start()
    theirs.close()
    try:
        if not ours.poll(seconds):
            raise ApartError(f"{what} was still busy after {seconds:g} s: a loop that never ends?")
        try:
            went_well, said = ours.recv()
        except EOFError:
            process.join(1)
            raise ApartError(f"{what} died: {_cause(process.exitcode)}") from None
    finally:
        process.kill()
        process.join()
        ours.close()
    if not went_well:
        raise ApartError(str(said))
    return cast(Result, said)


def _cause(code: int | None) -> str:
    if code is None:
        return "it closed its pipe"
    return signal.Signals(-code).name if code < 0 else f"it ended with code {code}"


def _work(pipe: Connection, work: Callable[[], Any]) -> None:
    faulthandler.disable()  # the parent says what happened
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's, who ends this process
    try:
        pipe.send((True, work()))
    except BaseException as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f" ({last.filename}:{last.lineno})" if type(error).__module__ == "builtins" else ""
        pipe.send((False, f"{type(error).__name__}: {error}{place}"))
    pipe.close()
    os._exit(0)  # nothing of the parent's is to be tidied up twice
