"""Jobs over processes that die with us: results as they come, progress on the way, Ctrl-C at once.

    for number, result in work(jobs, do, workers=2, tell=...): ...

`do(job, tell)` runs in another process, so it must be a function of a module, and jobs and results
are pickled. Only the parent hears Ctrl-C; it ends the others.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any, TypeVar

from labs.errors import WorkerDiedError

Job = TypeVar("Job")
Result = TypeVar("Result")
Tell = Callable[[float, str], None]
Do = Callable[[Job, Tell], Result]

_END_S = 2.0


def processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0))


def work(
    jobs: Sequence[Job],
    do: Do[Job, Result],
    *,
    workers: int,
    tell: Callable[[int, float, str], None] = lambda number, share, text: None,
) -> Iterator[tuple[int, Result]]:
    """Do all jobs; yields the number of each and its result, as they are done.

    `tell(number, share, text)`: how far job `number` is. `do` handles its own errors: one that
    leaves it, or a process that dies, raises WorkerDiedError here. Leaving the iteration ends all.
    """
    # Neither fork, which copies locks that other threads hold, nor Python 3.11's fork server, which
    # imports from the current directory first: a user's may have a folder called labs.
    context = multiprocessing.get_context("spawn")
    there = [_Worker(context, do) for _ in range(min(workers, len(jobs)))]
    waiting = list(enumerate(jobs))[::-1]
    try:
        for worker in there:
            worker.give(*waiting.pop())
        while busy := [worker for worker in there if worker.number is not None]:
            ready = set(wait([worker.pipe for worker in busy]))
            for worker in busy:
                if worker.pipe not in ready:
                    continue
                number = worker.number
                assert number is not None
                kind, value = worker.take()
                if kind == "progress":
                    tell(number, *value)
                    continue
                worker.number = None
                if waiting:
                    worker.give(*waiting.pop())
                yield number, value
    finally:
        for worker in there:
            worker.end()


class _Worker:
    """A process and our end of its pipe. `number`: the job that it has."""

    def __init__(self, context: SpawnContext, do: Callable[..., Any]) -> None:
        self.number: int | None = None
        self.pipe, far = context.Pipe()
        self._process: SpawnProcess = context.Process(target=_serve, args=(far, do), daemon=True)
        self._process.start()
        far.close()

    def give(self, number: int, job: object) -> None:
        self.number = number
        try:
            self.pipe.send(job)
        except OSError:
            raise self._dead() from None

    def take(self) -> tuple[str, Any]:
        try:
            kind, value = self.pipe.recv()
        except (EOFError, OSError):
            raise self._dead() from None
        if kind == "error":
            raise WorkerDiedError(f"a run's process failed: {value}")
        return kind, value

    def end(self) -> None:
        self.pipe.close()
        if self._process.is_alive():
            self._process.terminate()
        self._process.join(_END_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def _dead(self) -> WorkerDiedError:
        self._process.join(_END_S)
        code = self._process.exitcode
        why = f"signal {signal.Signals(-code).name}" if code and code < 0 else f"code {code}"
        remedy = "out of memory, perhaps: fewer --workers" if code == -signal.SIGKILL else ""
        return WorkerDiedError(f"the process of a run died ({why})", remedy)


def _serve(pipe: Connection[Any, Any], do: Callable[..., Any]) -> None:
    """Do one job after the other until the parent closes the pipe or dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def tell(share: float, text: str) -> None:
        pipe.send(("progress", (share, text)))

    while True:
        try:
            job = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            result = ("result", do(job, tell))
        except Exception as error:
            result = ("error", f"{type(error).__name__}: {error}")
        try:
            pipe.send(result)
        except OSError:
            return
