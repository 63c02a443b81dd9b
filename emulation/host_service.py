"""Starts what serves one host: a process of ours in the host's network namespace."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from emulation.session import Session

_REPOSITORY = Path(__file__).resolve().parent.parent


def start(
    session: Session, namespace: str, module: Sequence[str], log: Path, what: str, *, spoken: bool
) -> subprocess.Popen[str]:
    """Start `python -m MODULE ...`; the run's state file has it, as `what`.

    Its output is piped, errors go to `log`, and with `spoken` its input is ours. Ctrl-C in the
    terminal does not reach it. Raises OSError.
    """
    # Not `ip netns exec`: its mount namespace has a /sys of its own, without the maps' pins.
    command = ["nsenter", f"--net=/run/netns/{namespace}", sys.executable, "-m", *module]
    with log.open("w") as written:
        process = subprocess.Popen(
            command,
            cwd=_REPOSITORY,
            stdin=subprocess.PIPE if spoken else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=written,
            text=True,
            start_new_session=True,
        )
    session.run.started_processes([(process.pid, what)])
    return process
