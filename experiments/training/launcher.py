"""Starts a job's ranks: imports torch once, then forks a process a rank into its host's namespace.

    python -m experiments.training.launcher < JOBS          a line of JSON a rank (`job.RankJob`)

What ranks say comes out as lines of JSON, and of each rank that ends `{"rank": 2, "ended": 0}`; a
rank that fails says why before. The exit code is 0 if all ranks ended with 0.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

from experiments.training.job import RankJob
from experiments.training.rank import run

_NETNS = Path("/run/netns")
_CLONE_NEWNET = 0x40000000
_PR_SET_PDEATHSIG = 1

FAILED = 1


def say(said: dict[str, Any]) -> None:
    """Write a line at once: ranks share the pipe, and a line of this length is written whole."""
    os.write(1, json.dumps(said).encode() + b"\n")


def main() -> int:
    """Start the ranks and wait for them; return the exit code."""
    importlib.import_module("torch._dynamo")  # optimizers do, with the first step of each rank
    jobs = [RankJob.of(json.loads(line)) for line in sys.stdin if line.strip()]
    ranks = {_fork(job): job.rank for job in jobs}
    failed = False
    while ranks:
        pid, status = os.wait()
        code = os.waitstatus_to_exitcode(status)
        failed |= code != 0
        say({"rank": ranks.pop(pid), "ended": code})
    return FAILED if failed else 0


def _fork(job: RankJob) -> int:
    launcher = os.getpid()
    child = os.fork()
    if not child:
        _be(job, launcher)
    return child


def _be(job: RankJob, launcher: int) -> NoReturn:
    """Be a rank, and end."""
    code = FAILED
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == launcher:
            if job.namespace:
                _enter(libc, job.namespace)
            run(job, say)
            code = 0
    except Exception as error:  # of torch, of sockets, of ours: all of them end the rank
        say({"rank": job.rank, "failure": _said(error)})
    finally:
        sys.stderr.flush()
        os._exit(code)  # torch's threads have nothing to do any more


def _enter(libc: ctypes.CDLL, namespace: str) -> None:
    there = os.open(_NETNS / namespace, os.O_RDONLY | os.O_CLOEXEC)
    if libc.setns(there, _CLONE_NEWNET) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"can't enter {namespace}: {os.strerror(code)}")
    os.close(there)


def _said(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [""]
    kind = type(error).__name__
    return lines[0] if kind == "CollectiveError" else f"{kind}: {lines[0]}"


if __name__ == "__main__":
    sys.exit(main())
