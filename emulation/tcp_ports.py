"""TCP ports on loopback for the switches of a run, chosen so that no two runs choose the same.

Looking whether a port is free and binding it are two steps, done by two processes. So a run says
first which ports it will use, by binding a socket of a well-known name in the kernel's abstract
namespace: no other process can bind that name until this process has ended, however it ends.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence

from emulation.errors import EmulationError

PORTS_TRIED = 10000


class TcpPorts:
    """The ports that this run has set aside, until `release`."""

    def __init__(self) -> None:
        self._claims: list[socket.socket] = []

    def take(self, count: int, first: int) -> list[int]:
        """Return `count` ports from `first` upwards that are free, and keep other runs off them.

        Below the ephemeral range only a program that asks for one by number can take it before
        the switch does. Raises EmulationError when there are not so many.
        """
        ports: list[int] = []
        for port in range(first, first + PORTS_TRIED):
            if len(ports) == count:
                return ports
            if is_free(port) and self._claim(port):
                ports.append(port)
        raise EmulationError(f"no {count} free TCP ports on 127.0.0.1 from {first} on")

    def take_these(self, wanted: Sequence[int], others_from: int) -> list[int]:
        """Return `wanted`, with a port from `others_from` upwards in place of each that is taken.

        Raises EmulationError when there are not so many.
        """
        had = [is_free(port) and self._claim(port) for port in wanted]
        others = iter(self.take(had.count(False), others_from))
        return [port if ours else next(others) for port, ours in zip(wanted, had, strict=True)]

    def _claim(self, port: int) -> bool:
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            claim.bind(f"\0weft-tcp-port-{port}")
        except OSError:
            claim.close()
            return False
        self._claims.append(claim)
        return True

    def release(self) -> None:
        """Leave the ports to others."""
        for claim in self._claims:
            claim.close()
        self._claims.clear()


def is_free(port: int) -> bool:
    """Say whether a TCP port on loopback is free."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do it: a connection of the last run in TIME_WAIT holds no port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
