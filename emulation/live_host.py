"""A host of the running network as the proofs see it: an interface of it, and a way into it."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class LiveHost:
    """One host, by one of its interfaces: `name` is h1 for the first, h1:1 for the second.

    `pid` is a process in its network namespace (Mininet's shell), `namespace` the name by which
    `ip netns` knows it, `switch` the one that the interface is attached to.
    """

    name: str
    pid: int
    namespace: str
    address: str
    mac: str
    interface: str
    gateway: str
    switch: str

    def command(self, arguments: Sequence[str]) -> list[str]:
        """Return the command line that runs `arguments` in the host's namespace."""
        # Not `mnexec -a`: that enters the mount namespace of Mininet's shell too, where the names
        # of the namespaces made after it are dead files that `ip` stumbles over.
        return ["ip", "netns", "exec", self.namespace, *arguments]

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
