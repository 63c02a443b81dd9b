"""A host of the running network as the proofs see it: its addresses, and a way into it."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class LiveHost:
    """One host: `pid` is a process in its network namespace (Mininet's shell)."""

    name: str
    pid: int
    address: str
    mac: str
    interface: str
    gateway: str
    switch: str

    def command(self, arguments: Sequence[str]) -> list[str]:
        """Return the command line that runs `arguments` in the host's namespace."""
        return ["mnexec", "-a", str(self.pid), *arguments]

    def popen(self, arguments: Sequence[str], **options: Any) -> subprocess.Popen[str]:
        """Start a program in the host's namespace, in a session of its own, with its output piped.

        Raises OSError when the program that enters namespaces is missing.
        """
        return subprocess.Popen(
            self.command(arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            **options,
        )
