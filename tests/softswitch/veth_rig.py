"""Veth pairs in a network namespace of a test's own, and a packet loop on their near ends.

    far1 ===veth=== near1 [port 1 | switch | port 2] near2 ===veth=== far2

The namespace has no name and belongs to one thread: it goes with it, whatever happens.
"""

from __future__ import annotations

import ctypes
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from pathlib import Path

from softswitch.core import DaemonLoop, PortState, SwitchCore

CLONE_NEWNET = 0x40000000
ETH_P_ALL = 3
DEADLINE = 60.0
"""For what has to happen: only a fault takes so long, however busy the machine is."""


def in_namespace(test: Callable[..., None]) -> Callable[..., None]:
    """Wrap a test to run in a thread that has a network namespace to itself."""

    @wraps(test)
    def run(*args: object, **kwargs: object) -> None:
        failure: list[BaseException] = []

        def body() -> None:
            try:
                if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET):
                    raise OSError(ctypes.get_errno(), "unshare")
                test(*args, **kwargs)
            except BaseException as error:
                failure.append(error)

        thread = threading.Thread(target=body)
        thread.start()
        thread.join()
        if failure:
            raise failure[0]

    return run


def ip(command: str) -> None:
    subprocess.run(["ip", *command.split()], check=True, capture_output=True)


def tc(command: str) -> None:
    subprocess.run(["tc", *command.split()], check=True, capture_output=True)


def link(n: int, mtu: int = 1500) -> None:
    ip(f"link add near{n} mtu {mtu} type veth peer name far{n} mtu {mtu}")
    for name in (f"near{n}", f"far{n}"):
        Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("1")
        ip(f"link set {name} up")


def tap(name: str) -> socket.socket:
    """Open a raw socket on the far end of a link."""
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    raw.setsockopt(263, 23, 1)  # SOL_PACKET, PACKET_IGNORE_OUTGOING
    raw.setsockopt(socket.SOL_SOCKET, 33, 4 << 20)  # SO_RCVBUFFORCE
    raw.bind((name, 0))
    raw.settimeout(DEADLINE)
    return raw


def take(raw: socket.socket, count: int) -> list[bytes]:
    """Return the next frames, however slowly they come; no more than these may be there then."""
    raw.settimeout(DEADLINE)
    found = [raw.recv(65536) for _ in range(count)]
    raw.setblocking(False)
    with suppress(BlockingIOError):
        raise AssertionError(f"one more than {count}: {raw.recv(65536).hex()}")
    raw.settimeout(DEADLINE)
    return found


def until(condition: Callable[[], bool], what: str, within_s: float = DEADLINE) -> None:
    """Poll; fail after so long."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {within_s} s: {what}"
        time.sleep(0.001)


class Rig:
    """A running loop with ports 1..n on near1..nearn and a raw socket at each far end."""

    def __init__(self, core: SwitchCore, ports: int, pcap: Path | None, mtu: int) -> None:
        self.core = core
        self.lines: list[str] = []
        self.core.set_log(lambda level, line: self.lines.append(f"{level} {line}"))
        self.loop = DaemonLoop(self.core)
        self.taps = {}
        for n in range(1, ports + 1):
            link(n, mtu)
            self.loop.add_port(n, f"near{n}", pcap=pcap / f"s1-near{n}" if pcap else None)
            self.taps[n] = tap(f"far{n}")
        self.loop.start()

    def state(self, port: int) -> PortState:
        with self.loop.locked() as core:
            return core.port_state(port)[0]

    def link(self, name: str, *, up: bool) -> None:
        ip(f"link set {name} {'up' if up else 'down'}")

    def close(self) -> None:
        for raw in self.taps.values():
            raw.close()
        self.loop.close()
        self.core.close()
        for _index, name in socket.if_nameindex():
            if name.startswith("far"):
                ip(f"link delete {name}")
