"""Jobs in processes of this machine: results as they come, time limits, deaths, Ctrl-C at once.

for result in jobs.run(paths, judge, at_once=2, limit_s=60.0, lost=no_answer):
    ...
for number, result in jobs.work(runs, simulate, workers=2, tell=show):
    ...

`run` gives each job a forked process, a process group and a folder for temporary files of its own:
for work that may crash, hang, or start programs. `work` lets processes do one job after the other.
A process that dies costs the job that it has, and no other. Processes die with the one that asked,
and only that one hears Ctrl-C.

pebble is not underneath: its workers share a channel. In pebble 5.2 a worker that exits with code 0
leaves its job unfinished forever, and one killed while it sends its result stops the others.
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
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Generic, TypeVar

Job = TypeVar("Job")
Result = TypeVar("Result")
Tell = Callable[[float, str], None]
Do = Callable[[Job, Tell], Result]

_END_S = 2.0
_PR_SET_PDEATHSIG = 1


def processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0))


@dataclass(frozen=True, slots=True)
class Loss:
    """Why a job has no result.

    `ended`: it failed by itself, and was not ended for its time. `code`: with what its process
    ended, if it did (negative: the signal).
    """

    why: str
    seconds: float = 0.0
    ended: bool = False
    code: int | None = None

    def of(self, process: str) -> str:
        """Return `why`; where a process ended, as a sentence about `process`."""
        return self.why if self.code is None else f"{process} {self.why}"


def run(
    jobs: Sequence[Job],
    do: Callable[[Job], Result],
    *,
    at_once: int,
    limit_s: float,
    lost: Callable[[Job, Loss], Result],
    until: float = math.inf,
) -> Iterator[Result]:
    """Yield the results of `do`, each made in a process of its own, in the order in which they end.

    At most `at_once` run at a time. A job that takes longer than `limit_s` is killed with all that
    it started, and so are those that are not done `until` then (time.monotonic); for each, for
    those that were not begun, and for one whose process ends without a result, `lost(job, loss)`
    makes the result. Jobs and results are pickled.
    """
    with Pool(
        jobs, partial(_untold, do), workers=at_once, fork=True, alone=True, limit_s=limit_s,
        until=until,
    ) as pool:  # fmt: skip
        for number, result in pool.results():
            if isinstance(result, Loss):
                if result.code is not None:
                    why = f"the process ended with code {result.code}"
                    result = Loss(why, result.seconds, ended=True)
                yield lost(jobs[number], result)
            else:
                yield result


def work(
    jobs: Sequence[Job],
    do: Do[Job, Result],
    *,
    workers: int,
    tell: Callable[[int, float, str], None] = lambda number, share, text: None,
) -> Iterator[tuple[int, Result | Loss]]:
    """Do all jobs; yield the number of each and its result, as they are done.

    `tell(number, share, text)`: how far job `number` is, as its `do` reports. Processes are new
    ones, so `do` must be a function of a module; `do`, jobs and results are pickled. Leaving the
    iteration ends all.
    """
    with Pool(jobs, do, workers=workers, tell=tell) as pool:
        yield from pool.results()


class Died(Exception):
    """A child ended without a result; `loss` says how."""

    def __init__(self, loss: Loss) -> None:
        super().__init__(loss.why)
        self.loss = loss


def in_child(do: Callable[[], Result]) -> Result:
    """Call `do` in a forked child, which has all that this process has, and return its result.

    For a process with one thread, such as `do` of a pool's job: the child reports its progress in
    its place. The child dies with this process. Result and exceptions are pickled. Raises what `do`
    raises, Died.
    """
    started, parent = time.monotonic(), os.getpid()
    ours, far = multiprocessing.Pipe(duplex=False)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            ours.close()
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() == parent:
                far.send(_outcome(do))
                code = 0
        finally:
            os._exit(code)  # nothing of the parent's is cleaned up or flushed here
    far.close()
    with ours:
        try:
            result, error = ours.recv()
        except EOFError:
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            seconds = time.monotonic() - started
            raise Died(Loss(_how_it_ended(code), seconds, ended=True, code=code)) from None
        except BaseException:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise
    os.waitpid(child, 0)
    if error is not None:
        raise error
    found: Result = result
    return found


def _outcome(do: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    try:
        return do(), None
    except (Exception, KeyboardInterrupt) as error:
        return None, error


class Pool(Generic[Job, Result]):
    """What both share. Entering it starts the first processes, leaving it ends all.

    `fork`: `do` may be any function, and what is loaded here is loaded there. Else processes are
    spawned: a fork copies locks that other threads hold, and Python 3.11's fork server imports from
    the current folder first, where a user may have a folder called labs.
    `alone`: a job has a process, a group and a folder for temporary files of its own.
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        do: Do[Job, Result],
        *,
        workers: int,
        fork: bool = False,
        alone: bool = False,
        limit_s: float = math.inf,
        until: float = math.inf,
        tell: Callable[[int, float, str], None] = lambda number, share, text: None,
    ) -> None:
        self._waiting = deque(enumerate(jobs))
        self._do = do
        self._workers = workers
        self._fork = fork
        self._alone = alone
        self._limit_s = limit_s
        self._until = until
        self._tell = tell
        self._there: list[_Worker] = []
        self._folder: Path | None = None

    def __enter__(self) -> Pool[Job, Result]:
        if self._alone:
            self._folder = Path(tempfile.mkdtemp(prefix="weft-jobs-"))
        try:
            self._start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def results(self) -> Iterator[tuple[int, Result | Loss]]:
        """Yield the number of each job with its result, or why it has none, as jobs finish."""
        while self._waiting or self._there:
            self._start()
            end = min(self._until, min(each.started for each in self._there) + self._limit_s)
            left_s = None if end == math.inf else max(0.0, end - time.monotonic())
            ready = set(wait([each.pipe for each in self._there], left_s))
            for worker in [each for each in self._there if each.pipe in ready]:
                said = worker.take()
                if isinstance(said, _Progress):
                    self._tell(worker.number, said.share, said.text)
                    continue
                number = worker.number
                if not self._has_next(worker, said):
                    self._there.remove(worker)
                    worker.end(done=True)
                yield number, said.result
            yield from self._late()

    def _start(self) -> None:
        while self._waiting and len(self._there) < self._workers:
            number, job = self._waiting.popleft()
            folder = self._folder and self._folder / str(number)
            self._there.append(_Worker(self._do, number, job, self._fork, folder))

    def _has_next(self, worker: _Worker, said: _Done) -> bool:
        """Give it the next job, if there is one and it lives."""
        if self._alone or said.dead or not self._waiting or not worker.give(*self._waiting[0]):
            return False
        self._waiting.popleft()
        return True

    def _late(self) -> Iterator[tuple[int, Loss]]:
        over = time.monotonic() >= self._until
        for worker in list(self._there):
            seconds = time.monotonic() - worker.started
            if over or seconds > self._limit_s:
                self._there.remove(worker)
                worker.end()
                after = "when the whole time was over" if over else f"after {self._limit_s:g} s"
                yield worker.number, Loss(f"not done {after}", seconds)
        while over and self._waiting:
            number, _ = self._waiting.popleft()
            yield number, Loss("not begun when the whole time was over")

    def _end(self) -> None:
        for worker in self._there:
            worker.end()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class _Progress:
    share: float
    text: str


@dataclass(frozen=True, slots=True)
class _Done:
    """`result`: a Loss if there is none; `dead`: and so is the process."""

    result: Any
    dead: bool = False


class _Worker:
    """A process and our end of its pipe. `number`: the job that it has, `started`: since when.

    `folder`: of its own, for its temporary files; then it leads a process group of its own, too.
    """

    def __init__(
        self, do: Do[Any, Any], number: int, job: object, fork: bool, folder: Path | None
    ) -> None:
        context = multiprocessing.get_context("fork" if fork else "spawn")
        if folder is not None:
            folder.mkdir()
        if not fork:
            # It comes with the first child otherwise, and unblocks the signal again.
            resource_tracker.ensure_running()
        self.pipe, far = context.Pipe()
        self.number = number
        self.started = time.monotonic()
        self._folder = folder
        self._process: BaseProcess = context.Process(  # type: ignore[attr-defined]
            target=_serve, args=(far, do, os.getpid(), folder), daemon=True
        )
        _start_deaf(self._process)
        far.close()
        self._lead_group()
        self.give(number, job)

    def give(self, number: int, job: object) -> bool:
        """Hand it its next job; False where it has died since."""
        try:
            self.pipe.send(job)
        except OSError:
            return False
        self.number, self.started = number, time.monotonic()
        return True

    def take(self) -> _Progress | _Done:
        """Return what it says, or how it died."""
        try:
            said = self.pipe.recv()
        except (EOFError, OSError):
            self._process.join(_END_S)
            code = self._process.exitcode
            seconds = time.monotonic() - self.started
            return _Done(Loss(_how_it_ended(code), seconds, ended=True, code=code or 0), dead=True)
        assert isinstance(said, _Progress | _Done)
        return said

    def end(self, *, done: bool = False) -> None:
        """End it; without `done` with the compilers and switches that its job started."""
        self.pipe.close()
        if self._folder is None:
            if self._process.is_alive():
                self._process.terminate()
            self._process.join(_END_S)
            if self._process.is_alive():
                self._process.kill()
        elif not done:
            with suppress(ProcessLookupError):
                os.killpg(self._pid(), signal.SIGKILL)
        self._process.join()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _lead_group(self) -> None:
        """Make the process and what it starts a process group, whichever of the two runs first."""
        if self._folder is not None:
            with suppress(ProcessLookupError):
                os.setpgid(self._pid(), self._pid())

    def _pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid


def _start_deaf(process: BaseProcess) -> None:
    """Start it deaf to Ctrl-C, which at a terminal goes to all, from its first instruction on."""
    heard = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, heard)


def _how_it_ended(code: int | None) -> str:
    if code is None or code >= 0:
        return f"ended with code {code}"
    hint = " (out of memory? try fewer workers)" if code == -signal.SIGKILL else ""
    return f"was ended by {signal.Signals(-code).name}{hint}"


def _serve(pipe: Connection[Any, Any], do: Do[Any, Any], parent: int, folder: Path | None) -> None:
    """Do one job after the other, or one alone in `folder`, until the parent asks no more."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if folder is None:
        # Ctrl-C, and a terminal that closes, are the affair of the process that asks.
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
    else:
        # A terminal signals another group; programs that it starts hear as they usually do.
        os.setpgid(0, 0)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        tempfile.tempdir = os.environ["TMPDIR"] = str(folder)  # and of what it starts
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return

    def tell(share: float, text: str) -> None:
        pipe.send(_Progress(share, text))

    with suppress(EOFError, OSError):  # of the pipe: no caller is left
        while True:
            job = pipe.recv()
            try:
                done = _Done(do(job, tell))
            except Exception as error:
                done = _Done(Loss(f"{type(error).__name__}: {error}", ended=True))
            pipe.send(done)
            if folder is not None:
                return


def _untold(do: Callable[[Job], Result], job: Job, tell: Tell) -> Result:
    return do(job)
