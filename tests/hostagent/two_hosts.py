"""Two network namespaces with two wires between them: one direct, one that a test may spoil.

    h1  near 10.77.1.1 ======================= near 10.77.1.2, 10.77.1.3  h2
        far  10.77.2.1 ==== left [wire] right ==== far 10.77.2.2

The namespaces have no names: they live as long as the process that holds each, and that ends with
this one. The wire is a thread of this process in a third namespace.
"""

from __future__ import annotations

import ctypes
import errno
import ipaddress
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import TracebackType

from hostagent import agent, pins
from hostagent.agent import in_namespace
from hostagent.algorithms import Parameters
from hostagent.pinned_maps import PinnedMaps
from hostagent.rnic import interface
from hostagent.rnic.card_records import Event, EventKind, QueuePairConfig
from hostagent.rnic.endpoint import Endpoint
from hostagent.rnic.endpoint_records import EndpointConfig, Pair

MEGABYTE = 1 << 20
REPOSITORY = Path(__file__).resolve().parents[2]
MTU = 3000
CONFIG = QueuePairConfig(qpn=1, mtu=2048, ack_every=8, timeout_ps=50_000_000_000)
_ETH_P_ALL = 3
_PACKET_OUTGOING = 4
_PR_SET_PDEATHSIG = 1
_ROCE = struct.pack("!H", 4791)
_ACK_OPCODES = (0x11, 0x81)
_SEND_TRIES = 5
_SEND_PAUSE_S = 0.0002
_libc = ctypes.CDLL(None)


def number(address: str) -> int:
    """Return an address as an integer in host order."""
    return int(ipaddress.IPv4Address(address))


def _end_with_parent() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


@dataclass
class Host:
    """A namespace, held by a process."""

    process: subprocess.Popen[str]

    @property
    def pid(self) -> int:
        """The process in it."""
        return self.process.pid

    def ip(self, *commands: str) -> None:
        """Run commands of `ip` in it."""
        subprocess.run(
            ["nsenter", f"--net=/proc/{self.pid}/ns/net", "ip", "-batch", "-"],
            input="\n".join(commands),
            text=True,
            check=True,
            capture_output=True,
        )

    def endpoint(
        self, name: str, address: str, maps: PinnedMaps | None = None, **options: object
    ) -> Endpoint:
        """Open an endpoint of this process there."""

        def opened() -> Endpoint:
            config = EndpointConfig(
                name,
                number(address),
                interface.mac_of(name),
                0,
                **options,  # type: ignore[arg-type]
            )
            return Endpoint(config, maps)

        return in_namespace(self.pid, opened)

    def mac(self, name: str) -> int:
        """Return an interface's address."""
        return in_namespace(self.pid, lambda: interface.mac_of(name))

    def unreachables(self) -> int:
        """How many `destination unreachable` its kernel has sent."""

        def read() -> int:
            lines = Path("/proc/thread-self/net/snmp").read_text().splitlines()
            names, values = (line.split() for line in lines if line.startswith("Icmp: "))
            return int(values[names.index("OutDestUnreachs")])

        return in_namespace(self.pid, read)

    def daemon(self, name: str, address: str, path: Path, *options: str) -> subprocess.Popen[str]:
        """Start an endpoint daemon there; whoever calls ends it."""
        command = ["nsenter", f"--net=/proc/{self.pid}/ns/net", sys.executable]
        command += ["-m", "hostagent.rnic.service", "--interface", name, "--ip", address]
        return subprocess.Popen(
            [*command, "--socket", str(path), *options],
            cwd=REPOSITORY,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=_end_with_parent,
        )


def _host() -> Host:
    # The line says that the namespace is there.
    process = subprocess.Popen(
        ["unshare", "--net", "sh", "-c", "echo; exec sleep infinity"],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=_end_with_parent,
    )
    assert process.stdout is not None
    process.stdout.readline()
    return Host(process)


@contextmanager
def started_host() -> Iterator[Host]:
    """Make a namespace, which ends with the context."""
    host = _host()
    try:
        yield host
    finally:
        host.process.kill()
        host.process.wait()


@dataclass
class Faults:
    """What the wire does to each RoCEv2 frame, in parts of one; `hold`: how many may overtake."""

    loss: float = 0.0
    duplicates: float = 0.0
    late: float = 0.0
    hold: int = 16
    mark: bool = False
    random: Random = field(default_factory=lambda: Random(1))


class Wire:
    """Carries frames between two interfaces of a namespace, as `faults` says."""

    def __init__(self, left: socket.socket, right: socket.socket) -> None:
        self.faults = Faults()
        self._sides = (left, right)
        self._late: list[tuple[int, int, bytes]] = []  # frame number that frees it, to where
        self._carried = 0
        self.lost = 0  # frames that found their side down
        self.watch: Callable[[bytes], None] = lambda frame: None  # RoCEv2 frames that come
        self._end, self._ended = socket.socketpair()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End it."""
        self._end.close()
        self._thread.join()
        for each in (*self._sides, self._ended):
            each.close()

    def _run(self) -> None:
        while True:
            ready, _, _ = select.select([*self._sides, self._ended], [], [], 0.005)
            if self._ended in ready:
                return
            if not ready:
                self._free(everything=True)
            for side in ready:
                self._take(side, 1 - self._sides.index(side))

    def _take(self, side: socket.socket, to: int) -> None:
        for _ in range(64):
            try:
                frame, address = side.recvfrom(1 << 16, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            if address[2] != _PACKET_OUTGOING:
                self._carry(frame, to)

    def _carry(self, frame: bytes, to: int) -> None:
        faults = self.faults
        if frame[12:14] != b"\x08\x00" or frame[36:38] != _ROCE:
            self._send(to, frame)
            return
        self._carried += 1
        self.watch(frame)
        if faults.mark and frame[42] not in _ACK_OPCODES:
            frame = marked(frame)
        fate = faults.random.random()
        if fate < faults.loss:
            pass
        elif fate < faults.loss + faults.duplicates:
            self._send(to, frame)
            self._send(to, frame)
        elif fate < faults.loss + faults.duplicates + faults.late:
            self._late.append((self._carried + faults.random.randint(1, faults.hold), to, frame))
        else:
            self._send(to, frame)
        self._free()

    def _free(self, everything: bool = False) -> None:
        if not self._late:
            return
        due = [each for each in self._late if everything or each[0] <= self._carried]
        self._late = [each for each in self._late if each not in due]
        for _, to, frame in due:
            self._send(to, frame)

    def _send(self, to: int, frame: bytes) -> None:
        """Put a frame on a side; one that goes down at that moment loses it, as a wire does."""
        for _ in range(_SEND_TRIES):
            try:
                self._sides[to].send(frame)
                return
            except OSError as error:
                if error.errno not in (errno.ENOBUFS, errno.ENETDOWN):
                    raise
            time.sleep(_SEND_PAUSE_S)  # what waits there may only be full
        self.lost += 1


def marked(frame: bytes) -> bytes:
    """Return the same frame with CE in its IPv4 header, whose checksum is right."""
    header = bytearray(frame[14:34])
    header[1] |= 3
    header[10:12] = b"\0\0"
    total = sum(struct.unpack("!10H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    header[10:12] = struct.pack("!H", ~total & 0xFFFF)
    return frame[:14] + bytes(header) + frame[34:]


class TwoHosts:
    """The picture above; a context manager."""

    def __init__(self) -> None:
        self._left = ExitStack()
        self.h1, self.h2, middle = (self._started() for _ in range(3))
        hosts = (self.h1, self.h2)
        self._veth(self.h1, "near", self.h2, "near")
        self._veth(self.h1, "far", middle, "left")
        self._veth(self.h2, "far", middle, "right")
        for place, host in enumerate(hosts, 1):
            for net, name in enumerate(("near", "far"), 1):
                host.ip(f"addr add 10.77.{net}.{place}/24 dev {name}")
        self.h2.ip("addr add 10.77.1.3/24 dev near")
        sides = [self._tap(middle, name) for name in ("left", "right")]
        self.wire = Wire(*sides)
        self._left.callback(self.wire.close)

    def _started(self) -> Host:
        host = _host()
        self._left.callback(host.process.wait)
        self._left.callback(host.process.kill)
        return host

    def _veth(self, one: Host, name: str, other: Host, its: str) -> None:
        add = ["ip", "link", "add", name, "mtu", str(MTU), "netns", str(one.pid), "type", "veth"]
        add += ["peer", "name", its, "mtu", str(MTU), "netns", str(other.pid)]
        subprocess.run(add, check=True, capture_output=True)
        for host, interface_name in ((one, name), (other, its)):
            host.ip(f"link set {interface_name} up")

    def _tap(self, host: Host, name: str) -> socket.socket:
        def opened() -> socket.socket:
            tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
            tap.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
            tap.bind((name, _ETH_P_ALL))
            return tap

        return in_namespace(host.pid, opened)

    def interfaces(self) -> Sequence[tuple[int, str]]:
        """Where the host agent's program belongs."""
        return [(host.pid, name) for host in (self.h1, self.h2) for name in ("near", "far")]

    def __enter__(self) -> TwoHosts:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._left.close()


@contextmanager
def agent_maps(hosts: TwoHosts) -> Iterator[PinnedMaps]:
    """Attach the host agent's program to all interfaces; yield its maps."""
    directory = pins.BPF_FILE_SYSTEM / f"weft-test-endpoint-{os.getpid()}"
    try:
        report = agent.run(directory, hosts.interfaces())
        assert report.error is None, report.error
        found = PinnedMaps.open(directory)
        yield found
        found.close()
    finally:
        pins.remove(directory)


@dataclass
class Joined:
    """Two endpoints and a queue pair between them; events as they came."""

    one: Endpoint
    other: Endpoint
    near: Pair
    far: Pair
    seen: dict[int, list[Event]] = field(default_factory=lambda: {0: [], 1: []})

    def events(self, end: int, kind: EventKind) -> list[Event]:
        """Return the events so far at one end (0, 1)."""
        self.seen[end] += (self.one, self.other)[end].events()
        return [event for event in self.seen[end] if event.kind == kind]


@contextmanager
def joined(
    hosts: TwoHosts,
    name: str,
    way: tuple[str, PinnedMaps | None],
    config: QueuePairConfig = CONFIG,
    congestion: Parameters | None = None,
    buffer_bytes: int = 2 * MEGABYTE,
) -> Iterator[Joined]:
    """Open an endpoint at each end of a wire and join a queue pair; `way`: mode, kernel's maps."""
    mode, maps = way
    net = 1 if name == "near" else 2
    with ExitStack() as stack:
        ends = [
            stack.enter_context(
                host.endpoint(name, f"10.77.{net}.{place}", maps, af_packet=mode == "af_packet")
            )
            for place, host in enumerate((hosts.h1, hosts.h2), 1)
        ]
        assert [end.mode for end in ends] == [mode, mode], [end.mode_reason for end in ends]
        pairs = [
            end.open(config, buffer_bytes=buffer_bytes, congestion_control=congestion)
            for end in ends
        ]
        for here, there in ((0, 1), (1, 0)):
            ends[here].connect(
                pairs[here].qpn,
                ends[there].config.ip,
                peer_qpn=pairs[there].qpn,
                peer_psn=pairs[there].psn,
                peer_mac=ends[there].config.mac,
            )
        yield Joined(ends[0], ends[1], pairs[0], pairs[1])


@contextmanager
def daemon(
    host: Host, address: str, path: Path, *options: str, name: str = "near"
) -> Iterator[subprocess.Popen[str]]:
    """Run an endpoint daemon on a host's interface; the block begins once it accepts clients."""
    process = host.daemon(name, address, path, *options)
    try:
        assert process.stdout is not None and process.stderr is not None
        line = process.stdout.readline()
        assert line.startswith(f"ready: {name} by "), line + process.stderr.read()
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=60)


def until(done: Callable[[], bool], endpoint: Endpoint, timeout_s: float = 60.0) -> None:
    """Wait for what an endpoint brings about."""
    assert endpoint.wait(done, timeout_s), "nothing more happened"
