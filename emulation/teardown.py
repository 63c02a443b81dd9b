"""Removing what a run made: exactly what its record lists, also when its runner has crashed.

Nothing is looked up by pattern, and no other process, link or namespace is touched.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from emulation import interface, processes, run_state
from emulation.errors import EmulationError
from emulation.processes import ProcessIdentity
from emulation.run_state import SHELL_ROLE, RunLock, RunRecord

STOP_PATIENCE_S = 15.0
POLL_S = 0.02

_NAMESPACES = Path("/run/netns")


@dataclass(frozen=True)
class Removed:
    """How much was removed of one run."""

    run: str
    processes: int
    links: int
    namespaces: int

    def __str__(self) -> str:
        parts = (
            _count(self.processes, "process", "processes"),
            _count(self.links, "link", "links"),
            _count(self.namespaces, "namespace", "namespaces"),
        )
        return f"run {self.run}: {', '.join(part for part in parts if part) or 'nothing left'}"


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}" if number else ""


def remove(record: RunRecord, grace_s: float = 2.0) -> Removed:
    """Remove all that a record lists, processes first, and the run's directory last.

    Safe to call again. Raises EmulationError naming what could not be removed; the record then
    stays, so that a later call can finish.
    """
    ended, stuck = _end_processes(record, grace_s)
    links = [name for name in record.links if interface.exists(name)]
    namespaces = [name for name in record.namespaces if (_NAMESPACES / name).exists()]
    # A link's other end goes with it, and a namespace's links go with the namespace, so some of
    # these commands may find their work done: what counts is the look afterwards.
    _ip_batch([f"link del {name}" for name in links] + [f"netns del {name}" for name in namespaces])
    for name in record.files:
        Path(name).unlink(missing_ok=True)
    for name in record.directories:
        with suppress(OSError):  # gone, or somebody put something of their own there
            Path(name).rmdir()
    left = [f"process {process.pid} ({process.role})" for process in stuck]
    left += [f"link {name}" for name in links if interface.exists(name)]
    left += [f"namespace {name}" for name in namespaces if (_NAMESPACES / name).exists()]
    if left:
        raise EmulationError(f"run {record.run}: could not remove {', '.join(left)}", "weft clean")
    shutil.rmtree(record.directory, ignore_errors=True)
    return Removed(record.run, ended, len(links), len(namespaces))


def _end_processes(record: RunRecord, grace_s: float) -> tuple[int, list[ProcessIdentity]]:
    """End what the run started; return how many processes that were, and those that stay.

    Looks again until none is found: one that was just being started shows no marker yet.
    """
    ended: set[int] = set()
    stuck: list[ProcessIdentity] = []
    while True:
        running = {process.pid: process for process in processes.marked(record.run)}
        running |= {process.pid: process for process in record.processes if process.is_alive()}
        if not running or stuck:
            return len(ended), stuck
        # An interactive shell ignores SIGTERM, and ends at once when its terminal hangs up.
        shells = [found for found in running.values() if found.role.startswith(SHELL_ROLE)]
        others = [found for found in running.values() if found not in shells]
        stuck = processes.end(others, grace_s) + processes.end(shells, grace_s, signal.SIGHUP)
        ended.update(running)


def _ip_batch(commands: Iterable[str]) -> None:
    """Run `ip` once for many commands; each failure leaves its thing for the caller to see."""
    text = "\n".join(commands)
    if text:
        subprocess.run(
            ["ip", "-force", "-batch", "-"],
            input=text,
            text=True,
            capture_output=True,
            check=False,
        )


def remove_crashed() -> list[Removed]:
    """Remove what crashed runs left. The caller holds the lock, so no run on record is live."""
    removed = []
    for directory in run_state.recorded_runs():
        record = run_state.read_record(directory)
        if record is None:
            shutil.rmtree(directory, ignore_errors=True)
        else:
            removed.append(remove(record))
    return removed


def claim() -> tuple[RunLock, list[Removed]]:
    """Take the lock for a new run and remove what a crashed one left.

    Raises RunActiveError while another run is up.
    """
    lock = RunLock.take()
    if lock is None:
        raise run_state.refuse_second_run()
    try:
        return lock, remove_crashed()
    except BaseException:
        lock.release()
        raise


def clean() -> list[Removed]:
    """Remove what crashed runs left; nothing to do is no error.

    Raises RunActiveError while a run is up: that one is for `stop`.
    """
    lock, removed = claim()
    lock.release()
    return removed


def stop(patience_s: float = STOP_PATIENCE_S) -> tuple[str | None, list[Removed]]:
    """End the run that is up, with all it made, and remove what crashed runs left.

    The runner is asked first (it removes its things itself); one that does not end within
    `patience_s` seconds is killed. Returns the id of the run that was up, or None.
    """
    stopped = None
    deadline = time.monotonic() + 2 * patience_s
    while (lock := RunLock.take()) is None:
        who = run_state.holder()
        if who is not None and who[0] != stopped:
            stopped = who[0]
            processes.end([who[1]], patience_s)
        elif time.monotonic() > deadline:
            raise run_state.refuse_second_run()
        else:
            time.sleep(POLL_S)
    try:
        return stopped, remove_crashed()
    finally:
        lock.release()
