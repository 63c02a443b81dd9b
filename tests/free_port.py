"""TCP ports for the servers of tests, none of them given twice."""

from __future__ import annotations

from emulation.tcp_ports import TcpPorts

FIRST = 20559
_TAKEN = TcpPorts()
"""Kept until this process ends: no run, no other test run and no connection takes such a port."""


def free_port() -> int:
    """Return a port on loopback that is free, below those that the system gives away by itself."""
    (port,) = _TAKEN.take(1, FIRST)
    return port
