"""Jobs in forked processes: what one does to its process, or how long it takes, is its own matter.

for result in pool.run(paths, judge, at_once=2, limit_s=60.0, lost=no_answer):
    ...

Each has a directory of its own for temporary files, which goes with it. Processes die with the one
that asked.
"""

from __future__ import annotations

import ctypes
import math
import multiprocessing
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Generic, TypeVar

Job = TypeVar("Job")
Result = TypeVar("Result")


_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Loss:
    """Why a job has no result; `ended`: its process did without one, which nobody told it to."""

    why: str
    seconds: float
    ended: bool = False


@dataclass
class _Running(Generic[Job]):
    job: Job
    process: ForkProcess
    started: float
    scratch: Path


def run(
    jobs: Sequence[Job],
    work: Callable[[Job], Result],
    *,
    at_once: int,
    limit_s: float,
    lost: Callable[[Job, Loss], Result],
    until: float = math.inf,
) -> Iterator[Result]:
    """Results of `work`, each made in a process of its own, in the order in which they end.

    At most `at_once` run at a time. A job that takes longer than `limit_s` is killed, and so are
    those that are not done `until` then (time.monotonic); for each, for those that were not begun,
    and for one whose process ends without a result, `lost(job, loss)` makes the result.
    `work` may raise nothing; its results must be picklable.
    """
    context = multiprocessing.get_context("fork")
    left = list(reversed(jobs))
    running: dict[Connection, _Running[Job]] = {}
    directory = Path(tempfile.mkdtemp(prefix="weft-jobs-"))
    try:
        while left or running:
            while left and len(running) < at_once:
                job = left.pop()
                ours, theirs = context.Pipe(duplex=False)
                scratch = directory / str(len(left))
                scratch.mkdir()
                process = context.Process(
                    target=_child, args=(work, job, theirs, scratch, os.getpid()), daemon=True
                )
                # Until the child has a handler of its own it would tell of Ctrl-C by a traceback.
                heard = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
                try:
                    process.start()
                finally:
                    signal.pthread_sigmask(signal.SIG_SETMASK, heard)
                _lead_group(process)
                theirs.close()
                running[ours] = _Running(job, process, time.monotonic(), scratch)
            next_end = min(until, min(one.started for one in running.values()) + limit_s)
            for ready in wait(list(running), timeout=max(0.0, next_end - time.monotonic())):
                assert isinstance(ready, Connection)
                yield _finished(ready, running.pop(ready), lost)
            over = time.monotonic() >= until
            for connection, one in list(running.items()):
                seconds = time.monotonic() - one.started
                if over or seconds > limit_s:
                    del running[connection]
                    _kill(one)
                    after = "when the whole time was over" if over else f"after {limit_s:g} s"
                    yield lost(one.job, Loss(f"not done {after}", seconds))
            while over and left:
                yield lost(left.pop(), Loss("not begun when the whole time was over", 0.0))
    finally:
        for one in running.values():
            _kill(one)
        shutil.rmtree(directory, ignore_errors=True)


def _child(
    work: Callable[[Job], Result], job: Job, out: Connection, scratch: Path, parent: int
) -> None:
    os.setpgid(0, 0)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return
    tempfile.tempdir = os.environ["TMPDIR"] = str(scratch)  # and of what it starts
    signal.signal(signal.SIGINT, lambda number, frame: os._exit(128 + number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    out.send(work(job))
    out.close()


def _finished(
    connection: Connection, one: _Running[Job], lost: Callable[[Job, Loss], Result]
) -> Result:
    try:
        result: Result = connection.recv()
        one.process.join()
    except EOFError:
        one.process.join()
        why = f"the process ended with code {one.process.exitcode}"
        result = lost(one.job, Loss(why, time.monotonic() - one.started, ended=True))
    connection.close()
    shutil.rmtree(one.scratch, ignore_errors=True)
    return result


def _lead_group(process: ForkProcess) -> None:
    """The process and what it starts are a group, whichever of the two runs first."""
    assert process.pid is not None
    with suppress(ProcessLookupError):
        os.setpgid(process.pid, process.pid)


def _kill(one: _Running[Job]) -> None:
    """End a job with the compilers and switches that it started, and what they have written."""
    assert one.process.pid is not None
    with suppress(ProcessLookupError):
        os.killpg(one.process.pid, signal.SIGKILL)
    one.process.join()
    shutil.rmtree(one.scratch, ignore_errors=True)
