"""Processes named so that only ours can be hit: by id and start time, or by the run's marker.

A process id alone is not an identity, since the kernel reuses it. The start time (clock ticks
since boot, field 22 of /proc/PID/stat) makes it one. A process that was started but not yet
written down is found by the marker that every process of a run inherits in its environment.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MARKER_VARIABLE = "WEFT_RUN"

_PROC = Path("/proc")


@dataclass(frozen=True)
class ProcessIdentity:
    """One process for as long as it lives: id, start time in clock ticks, what it is."""

    pid: int
    start_ticks: int
    role: str = ""

    def is_alive(self) -> bool:
        """Say whether this very process still runs (a zombie does not)."""
        return start_ticks(self.pid) == self.start_ticks


def start_ticks(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; None if gone or a zombie."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    # The name in parentheses may hold anything, a ')' too: fields count from the last one.
    fields = stat[stat.rindex(")") + 2 :].split()
    state, started = fields[0], int(fields[19])
    return None if state in "ZX" else started


def identify(pid: int, role: str = "") -> ProcessIdentity | None:
    """Return the identity of a running process, or None when it has ended."""
    ticks = start_ticks(pid)
    return None if ticks is None else ProcessIdentity(pid, ticks, role)


def marked(run: str) -> Iterator[ProcessIdentity]:
    """Yield each process that was started with the run's marker in its environment.

    The runner itself is not among them: it marks the environment that its children get.
    """
    wanted = f"{MARKER_VARIABLE}={run}".encode()
    for entry in _PROC.iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with suppress(OSError):
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                found = identify(int(entry.name), "marked")
                if found is not None:
                    yield found


def end(
    processes: Iterable[ProcessIdentity],
    grace_s: float = 2.0,
    request: signal.Signals = signal.SIGTERM,
) -> list[ProcessIdentity]:
    """End processes: `request` to all, SIGKILL to those left after `grace_s` seconds.

    Signals go through a pidfd whose process was checked after it was opened, so a reused id is
    never hit. Returns the processes that survive even SIGKILL (stuck in the kernel).
    """
    open_fds: dict[int, ProcessIdentity] = {}
    try:
        for process in {found.pid: found for found in processes}.values():
            with suppress(ProcessLookupError):
                fd = os.pidfd_open(process.pid)
                if process.is_alive():
                    open_fds[fd] = process
                else:
                    os.close(fd)
        for number, patience_s in ((request, grace_s), (signal.SIGKILL, grace_s)):
            for fd in open_fds:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(fd, number)
            _wait_for_end(open_fds, patience_s)
        return list(open_fds.values())
    finally:
        for fd in open_fds:
            os.close(fd)


def _wait_for_end(open_fds: dict[int, ProcessIdentity], patience_s: float) -> None:
    """Wait until the processes ended; take those that did out of `open_fds`."""
    deadline = time.monotonic() + patience_s
    poller = select.poll()
    for fd in open_fds:
        poller.register(fd, select.POLLIN)
    while open_fds:
        left_ms = (deadline - time.monotonic()) * 1000
        ready = poller.poll(max(0.0, left_ms))
        for fd, _ in ready:
            poller.unregister(fd)
            del open_fds[fd]
            os.close(fd)
        if not ready:
            return
