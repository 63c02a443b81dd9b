"""Playing runs in processes of this machine.

Processes are forked, so that the caller's `measure` may be any function. One that dies takes one
run with it and no other: it is told as failed, and another process takes its place. Players die
with the process that asked.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from labs import pool
from labs.sweep_point import Assignment, Played, leave_interrupts_alone, play

Task = tuple[int, int | None]  # a point and a seed

_PR_SET_PDEATHSIG = 1


@dataclass
class _Player:
    process: BaseProcess
    pipe: Connection
    task: Task


def played_here(
    assignment: Assignment, tasks: Sequence[Task], workers: int, scratch: Path
) -> Generator[Played | None, None, None]:
    """Yield None when all play, then each run as it ends. Closing the iterator ends all processes.

    Results are in `scratch` for a while.
    """
    waiting = deque(tasks)
    players: list[_Player] = []

    def start() -> None:
        if waiting:
            others = [player.pipe for player in players]
            players.append(_started(assignment, scratch, waiting.popleft(), others))

    try:
        for _ in range(workers):
            start()
        yield None  # a caller may start threads from here on: they are not forked
        while players:
            ready = wait([player.pipe for player in players])
            for player in [each for each in players if each.pipe in ready]:
                result = _result(player)
                if result is not None and waiting and _told(player, waiting[0]):
                    waiting.popleft()
                else:
                    players.remove(player)
                    _ended(player)
                    start()
                yield result or Played(*player.task, failure=_why(player.process))
    finally:
        for player in players:
            player.process.terminate()
        for player in players:
            _ended(player)


def _started(
    assignment: Assignment, scratch: Path, task: Task, others: Sequence[Connection]
) -> _Player:
    context = multiprocessing.get_context("fork")
    mine, theirs = context.Pipe()
    process = context.Process(
        target=_serve, args=(assignment, scratch, theirs, (mine, *others), os.getpid()), daemon=True
    )
    pool.start_deaf(process)
    theirs.close()
    player = _Player(process, mine, task)
    _told(player, task)
    return player


def _told(player: _Player, task: Task) -> bool:
    try:
        player.pipe.send(task)
    except OSError:  # it died since
        return False
    player.task = task
    return True


def _result(player: _Player) -> Played | None:
    """Return what a player says; None of one that died."""
    try:
        result = player.pipe.recv()
    except (EOFError, OSError):
        return None
    if isinstance(result, Exception):
        raise result
    assert isinstance(result, Played)
    return result


def _why(process: BaseProcess) -> str:
    return f"the process that played it {pool.how_it_ended(process)}"


def _ended(player: _Player) -> None:
    player.pipe.close()
    pool.end(player.process)


def _serve(
    assignment: Assignment,
    scratch: Path,
    pipe: Connection,
    inherited: Sequence[Connection],
    parent: int,
) -> None:
    """Play what is asked until nobody asks any more."""
    leave_interrupts_alone()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return
    for other in inherited:  # else nobody would see that the one who asks is gone
        other.close()
    while True:
        try:
            point, seed = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            result: Played | Exception = play(assignment, point, seed, scratch)
        except Exception as error:
            result = error
        pipe.send(result)
