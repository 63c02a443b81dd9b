"""A network namespace of this process's own, with a veth pair for each port of a switch.

    this process: wire n ---veth--- port n of the switch

The namespace lives as long as a process holds it: when this process and the switch have ended,
however they did, nothing is left.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import socket
import struct
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from compat.parity.cases import PORTS
from compat.parity.targets import TargetError

_CLONE_NEWNET = 0x40000000
_PR_SET_PDEATHSIG = 1
_ETH_P_ALL = 3
_PACKET_OUTGOING = 4
_SOL_PACKET = 263
_PACKET_AUXDATA = 8
_AUXDATA = struct.Struct("=IIIHHHH")
_VLAN_VALID = 0x10
_VLAN_TPID_VALID = 0x40
_ETH_P_8021Q = 0x8100
_ETH_P_8021AD = 0x88A8
_MAC_BYTES = 12
_TAGGED_BYTES = _MAC_BYTES + 2 + 4 + 2
"""What a tagged frame needs for the kernel to take its tag out: it drops a shorter one."""
MTU = 9500

_libc = ctypes.CDLL(None, use_errno=True)


def carries(frame: bytes) -> bool:
    """Return whether a link takes the frame to its other end: short ones with a VLAN tag get
    lost.
    """
    tag = int.from_bytes(frame[_MAC_BYTES : _MAC_BYTES + 2], "big")
    return tag not in (_ETH_P_8021Q, _ETH_P_8021AD) or len(frame) >= _TAGGED_BYTES


class Wires:
    """The namespace and our ends of its links."""

    def __init__(self) -> None:
        """Make it all. Raises TargetError where the kernel refuses."""
        self._home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        self._space = -1
        self._ends: dict[int, socket.socket] = {}
        try:
            if _libc.unshare(_CLONE_NEWNET) != 0:
                reason = os.strerror(ctypes.get_errno())
                raise TargetError(f"can't make a network namespace: {reason}")
            try:
                self._space = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
                self._make_links()
            finally:
                self._enter(self._home)
        except BaseException:
            self.close()
            raise

    @staticmethod
    def interface(port: int) -> str:
        """Return the switch's interface of a port, inside the namespace."""
        return f"port{port}"

    def start(self, command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
        """Start a process inside the namespace; it ends with this one. Raises TargetError."""
        with self._inside(), log.open("wb") as out:
            try:
                return subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=die_with_parent,
                )
            except OSError as error:
                raise TargetError(f"can't start {command[0]}: {error.strerror}") from error

    def send(self, port: int, frame: bytes) -> None:
        """Send a frame into a port. Raises TargetError for one that no link carries."""
        try:
            self._ends[port].send(frame)
        except OSError as error:
            raise TargetError(f"port {port}: a frame of {len(frame)} B: {error}") from error

    def receive(self, timeout_s: float, other: int = -1) -> list[tuple[int, bytes]]:
        """Wait for the first packet that comes out; return (port, frame) of all that did.

        `other`: a file descriptor that ends the waiting too when it can be read.
        """
        poll = select.poll()
        ports = {end.fileno(): port for port, end in self._ends.items()}
        for number in [*ports, *([other] if other >= 0 else [])]:
            poll.register(number, select.POLLIN)
        found = []
        for number, _ in poll.poll(max(0.0, timeout_s) * 1000):
            if number in ports:
                found += [(ports[number], frame) for frame in self._read(ports[number])]
        return found

    def close(self) -> None:
        """Let go of everything; the links vanish with the namespace."""
        for end in self._ends.values():
            end.close()
        self._ends.clear()
        for fd in (self._space, self._home):
            if fd >= 0:
                os.close(fd)
        self._space = self._home = -1

    # --- inside ---------------------------------------------------------------------------------

    def _make_links(self) -> None:
        for port in PORTS:
            name, wire = self.interface(port), f"wire{port}"
            _ip("link", "add", name, "type", "veth", "peer", "name", wire)
            for end in (name, wire):
                # Without addresses the kernel sends nothing of its own.
                _ip("link", "set", end, "addrgenmode", "none", "mtu", str(MTU), "up")
            # Protocol 0 until it is bound: it would take frames of every interface meanwhile.
            opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0)
            opened.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)
            opened.bind((wire, _ETH_P_ALL))
            self._ends[port] = opened

    @contextmanager
    def _inside(self) -> Iterator[None]:
        self._enter(self._space)
        try:
            yield
        finally:
            self._enter(self._home)

    @staticmethod
    def _enter(fd: int) -> None:
        if _libc.setns(fd, _CLONE_NEWNET) != 0:
            reason = os.strerror(ctypes.get_errno())
            raise TargetError(f"can't enter a network namespace: {reason}")

    def _read(self, port: int) -> Iterator[bytes]:
        while True:
            try:
                data, ancillary, _, address = self._ends[port].recvmsg(65536, 256)
            except BlockingIOError:
                return
            if address[2] != _PACKET_OUTGOING:
                yield _with_vlan_tag(data, ancillary)


def _with_vlan_tag(data: bytes, ancillary: list[tuple[int, int, bytes]]) -> bytes:
    """Return the frame as it was sent: the kernel moves its VLAN tag to the ancillary data."""
    for level, kind, content in ancillary:
        if (level, kind) == (_SOL_PACKET, _PACKET_AUXDATA) and len(content) >= _AUXDATA.size:
            status, _, _, _, _, tci, tpid = _AUXDATA.unpack(content[: _AUXDATA.size])
            if status & _VLAN_VALID:
                tag = tpid if status & _VLAN_TPID_VALID else _ETH_P_8021Q
                return data[:_MAC_BYTES] + struct.pack("!HH", tag, tci) + data[_MAC_BYTES:]
    return data


def die_with_parent() -> None:
    """Make a started process die when this one ends, however it does."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _ip(*words: str) -> None:
    try:
        subprocess.run(["ip", *words], check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise TargetError("`ip` (Debian: iproute2) is not installed") from error
    except subprocess.CalledProcessError as error:
        raise TargetError(f"ip {' '.join(words)}: {error.stderr.strip()}") from error
