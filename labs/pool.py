"""Jobs over processes that die with us: results as they come, progress on the way, Ctrl-C at once.

    for number, result in work(jobs, do, workers=2, tell=...): ...

`do(job, tell)` runs in another process, so it must be a function of a module, and jobs and results
are pickled. Only the parent hears Ctrl-C; it ends the others.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnContext, SpawnProcess
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

Job = TypeVar("Job")
Result = TypeVar("Result")
Tell = Callable[[float, str], None]
Do = Callable[[Job, Tell], Result]

_END_S = 2.0


def processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0))


@dataclass(frozen=True)
class Died:
    """What comes in the place of a result when the process of a job dies."""

    why: str


def work(
    jobs: Sequence[Job],
    do: Do[Job, Result],
    *,
    workers: int,
    tell: Callable[[int, float, str], None] = lambda number, share, text: None,
) -> Iterator[tuple[int, Result | Died]]:
    """Do all jobs; yields the number of each and its result, as they are done.

    `tell(number, share, text)`: how far job `number` is. `do` handles its own errors; one that
    leaves it, like a process that dies, costs that job alone. Leaving the iteration ends all.
    """
    # Neither fork, which copies locks that other threads hold, nor Python 3.11's fork server, which
    # imports from the current directory first: a user's may have a folder called labs.
    context = multiprocessing.get_context("spawn")
    waiting = deque(enumerate(jobs))
    there: list[_Worker] = []
    try:
        while waiting or there:
            while waiting and len(there) < workers:
                there.append(_Worker(context, do, *waiting.popleft()))
            ready = set(wait([worker.pipe for worker in there]))
            for worker in [worker for worker in there if worker.pipe in ready]:
                number = worker.number
                kind, value = worker.take()
                if kind == "progress":
                    tell(number, *value)
                    continue
                if kind == "died" or not waiting or not worker.give(*waiting[0]):
                    there.remove(worker)
                    worker.end()
                else:
                    waiting.popleft()
                yield number, value
    finally:
        for worker in there:
            worker.end()


def start_deaf(process: BaseProcess) -> None:
    """Start it deaf to Ctrl-C, which at a terminal goes to all, from its first instruction on."""
    heard = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, heard)


def end(process: BaseProcess) -> None:
    """Wait until it has ended, a while; then make it."""
    process.join(_END_S)
    if process.is_alive():
        process.kill()
        process.join()


def how_it_ended(process: BaseProcess) -> str:
    """Say how a process ended that nobody told to."""
    code = process.exitcode
    if code is None or code >= 0:
        return f"ended with code {code}"
    hint = " (out of memory? try fewer workers)" if code == -signal.SIGKILL else ""
    return f"was ended by {signal.Signals(-code).name}{hint}"


class _Worker:
    """A process and our end of its pipe. `number`: the job that it has."""

    def __init__(
        self, context: SpawnContext, do: Callable[..., Any], number: int, job: object
    ) -> None:
        self.pipe, far = context.Pipe()
        self._process: SpawnProcess = context.Process(target=_serve, args=(far, do), daemon=True)
        # It comes with the first child otherwise, and unblocks the signal again.
        resource_tracker.ensure_running()
        start_deaf(self._process)
        far.close()
        self.number = number
        self.give(number, job)

    def give(self, number: int, job: object) -> bool:
        """Hand it its next job; False where it has died since."""
        try:
            self.pipe.send(job)
        except OSError:
            return False
        self.number = number
        return True

    def take(self) -> tuple[str, Any]:
        """Return what it says: "progress" with (share, text), "result" with it, "died" with why."""
        try:
            kind, value = self.pipe.recv()
        except (EOFError, OSError):
            return "died", Died(self._why())
        return kind, value

    def end(self) -> None:
        self.pipe.close()
        if self._process.is_alive():
            self._process.terminate()
        end(self._process)

    def _why(self) -> str:
        self._process.join(_END_S)
        return f"its process {how_it_ended(self._process)}"


def _serve(pipe: Connection[Any, Any], do: Callable[..., Any]) -> None:
    """Do one job after the other until the parent closes the pipe or dies."""

    def tell(share: float, text: str) -> None:
        pipe.send(("progress", (share, text)))

    while True:
        try:
            job = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            result: tuple[str, Any] = ("result", do(job, tell))
        except Exception as error:
            result = ("died", Died(f"{type(error).__name__}: {error}"))
        try:
            pipe.send(result)
        except OSError:
            return
