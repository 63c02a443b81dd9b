"""Doing something inside a host's network namespace from this process, without a new process.

A socket belongs forever to the namespace it was opened in, so a probe opens its sockets with
`open_socket` and then uses them from here like any other.
"""

from __future__ import annotations

import ctypes
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from emulation.errors import EmulationError

_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def _setns(fd: int) -> None:
    if _libc.setns(fd, _CLONE_NEWNET) != 0:
        code = ctypes.get_errno()
        raise EmulationError(f"can't enter a network namespace: {os.strerror(code)}")


@contextmanager
def entered(pid: int) -> Iterator[None]:
    """Put the calling thread into the network namespace of process `pid` for the block.

    Other threads stay where they are. Raises EmulationError when the process is gone.
    """
    try:
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            there = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            os.close(home)
            raise
    except OSError as error:
        raise EmulationError(
            f"can't open the network namespace of process {pid}: {error.strerror}"
        ) from None
    try:
        _setns(there)
        try:
            yield
        finally:
            _setns(home)
    finally:
        os.close(home)
        os.close(there)


def open_socket(pid: int, family: int, kind: int, protocol: int = 0) -> socket.socket:
    """Open a socket in the network namespace of process `pid`. Raises OSError as `socket` does."""
    with entered(pid):
        return socket.socket(family, kind, protocol)


def neighbours(pid: int) -> dict[str, str]:
    """Return a namespace's complete ARP entries, IP address -> MAC address."""
    lines = Path(f"/proc/{pid}/net/arp").read_text().splitlines()[1:]
    complete = 0x2
    entries = (line.split() for line in lines)
    return {entry[0]: entry[3] for entry in entries if int(entry[2], 16) & complete}


def has_listener(pid: int, port: int) -> bool:
    """Say whether a TCP socket listens on `port` (IPv4 or IPv6) in a namespace."""
    wanted = f":{port:04X}"
    listening = "0A"
    for table in ("tcp", "tcp6"):
        path = Path(f"/proc/{pid}/net/{table}")
        if not path.exists():
            continue
        for line in path.read_text().splitlines()[1:]:
            _, local, _, state = line.split()[:4]
            if local.endswith(wanted) and state == listening:
                return True
    return False
