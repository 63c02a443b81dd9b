"""The same network in real time: a running switch, endpoints on veth pairs, one namespace.

    endpoint 1 -- wire1 ---veth--- port 1 \\
                                           switch  port 3 ---veth--- wire3 -- endpoint 3
    endpoint 2 -- wire2 ---veth--- port 2 /

The namespace has no name: it lives as long as this process and the switch, and takes the links
along. Our switch emulates its ports' rates itself. BMv2 has none: there the kernel's token bucket
holds port 3 back, and BMv2's queue builds behind it (in packets, beside what the kernel holds).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from compat.parity.client import Client
from compat.parity.wires import Wires
from hostagent.algorithms import Parameters
from hostagent.rnic.card_records import Operation, QueuePairConfig
from hostagent.rnic.endpoint import Endpoint
from hostagent.rnic.endpoint_records import EndpointConfig, Pair, Task, TaskKind
from labs import LabError, Runtime
from softswitch.diagnostics import DiagnosticsClient
from softswitch.p4runtime.names import Names
from softswitch.p4runtime.pipeline import Pipeline

from .control_plane import Connection, Host, Setup, updates

START_S = 20.0
POLL_S = 0.01
MESSAGE_BYTES = 1 << 16
DEPTH = 8
MTU = 1024
TIMEOUT_PS = 2 * 10**12  # the queue is long in real time: 1 MB at 10 Mb/s wait 0.8 s
QUEUE_BYTES = 8_000_000
KERNEL_QUEUE_BYTES = 1_000_000
LOG_LINES = 4
CNP_OPCODE = 0x81


@dataclass
class LiveStory:
    """What happened. Times in ns, of the run's clock, from when the sources began; rates as run."""

    samples: list[tuple[int, tuple[int, ...], int | None]] = field(default_factory=list)
    """(time, rate of each source in bits/s, bytes in the queue or None where that can't be seen)"""
    made: list[bytes] = field(default_factory=list)
    cnps_received: int = 0
    notifications: int = 0
    delivered_bytes: int = 0
    ended_at: int = 0


class _Space(Wires):
    """The namespace, and what is done inside it."""

    def endpoint(self, host: Host, router_mac: int, rate_bps: int) -> Endpoint:
        """Open a host's endpoint on its end of the link."""
        config = EndpointConfig(
            f"wire{host.port}",
            host.ip,
            host.mac,
            router_mac,
            line_rate_bps=rate_bps,
            af_packet=True,
        )
        with self._inside():
            return Endpoint(config)

    def hold_back(self, port: int, rate_bps: int) -> None:
        """Let the kernel send no faster than that out of a port of the switch. Raises LabError."""
        bucket = ["tbf", "rate", f"{rate_bps}bit", "burst", "4kb", "limit", str(KERNEL_QUEUE_BYTES)]
        command = ["tc", "qdisc", "add", "dev", self.interface(port), "root", *bucket]
        with self._inside():
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise LabError(f"{' '.join(command)}: {done.stderr.strip()}")


class LiveNetwork:
    """All of it, running, with the lab's control plane written."""

    def __init__(
        self,
        runtime: Runtime,
        pipeline: Pipeline,
        setup: Setup,
        *,
        rate_bps: int,
        congestion_control: Parameters,
    ) -> None:
        """Start everything. Raises LabError, TargetError, UnknownName."""
        self.runtime = runtime
        self.setup = setup
        self.rate_bps = rate_bps
        self._stack = ExitStack()
        self._diagnostics: DiagnosticsClient | None = None
        try:
            self._start(pipeline)
            self._join(Names(pipeline.schema), congestion_control)
        except BaseException:
            self.close()
            raise

    def _start(self, pipeline: Pipeline) -> None:
        stack = self._stack
        self._scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weft-cnp-")))
        self._space = _Space()
        stack.callback(self._space.close)
        address = f"unix:{self._scratch / 'p4runtime'}"
        process = self._space.start(self._command(address), self._log)
        stack.callback(_end, process)
        self._wait_for(process)
        self._client = Client(address)
        stack.callback(self._client.close)
        self._client.set_pipeline(pipeline.p4info, pipeline.device_config)
        if self.runtime is Runtime.BMV2:
            self._space.hold_back(self.setup.sink.port, self.rate_bps)
        else:
            self._diagnostics = stack.enter_context(DiagnosticsClient(address))
        self._endpoints = {
            host.port: stack.enter_context(
                self._space.endpoint(host, self.setup.router_mac, self.rate_bps)
            )
            for host in self.setup.hosts
        }

    @property
    def _log(self) -> Path:
        return self._scratch / "switch.log"

    def _command(self, address: str) -> list[str]:
        hosts = self.setup.hosts
        ports = [w for h in hosts for w in ("-i", f"{h.port}@{self._space.interface(h.port)}")]
        if self.runtime is Runtime.BMV2:
            program = ["simple_switch_grpc", "--log-console", "--log-level", "warn"]
            own: list[str] = []
        else:
            program = [sys.executable, "-m", "softswitch"]
            links = [f"{h.port}:rate={self.rate_bps}bps,queue={QUEUE_BYTES}B" for h in hosts]
            own = ["--depth-unit", "cells", *(w for link in links for w in ("--link", link))]
        return [
            *program, "--no-p4", "--device-id", "1", *ports, "--", "--grpc-server-addr", address,
            *own,
        ]  # fmt: skip

    def _wait_for(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + START_S
        while not (self._scratch / "p4runtime").exists():
            if process.poll() is not None or time.monotonic() > deadline:
                lines = self._log.read_text(errors="replace").splitlines()[-LOG_LINES:]
                raise LabError(f"the switch did not start: {' | '.join(lines) or 'no log'}")
            time.sleep(0.005)

    def _join(self, names: Names, control: Parameters) -> None:
        sink = self.setup.sink
        flows, self._pairs = [], list[tuple[Pair, Pair]]()
        for source in self.setup.sources:
            here, there = self._endpoints[source.port], self._endpoints[sink.port]
            config = QueuePairConfig(qpn=1, mtu=MTU, ack_every=16, timeout_ps=TIMEOUT_PS)
            ours = here.open(config, buffer_bytes=MESSAGE_BYTES, congestion_control=control)
            theirs = there.open(config, buffer_bytes=MESSAGE_BYTES)
            here.connect(ours.qpn, sink.ip, peer_qpn=theirs.qpn, peer_psn=theirs.psn)
            there.connect(theirs.qpn, source.ip, peer_qpn=ours.qpn, peer_psn=ours.psn)
            flows.append(Connection(source, ours.qpn, sink, theirs.qpn, 0))
            self._pairs.append((ours, theirs))
        self.setup = replace(self.setup, connections=flows)
        for update in updates(names, self.setup):
            refused = self._client.write(update)
            if refused:
                raise LabError(f"the switch refuses an entry: {refused}")

    def play(self, seconds: float, tell: Callable[[float], None]) -> LiveStory:
        """Let both sources send as fast as they may, for so long."""
        story = LiveStory()
        started = time.monotonic_ns()
        for source, (ours, theirs) in zip(self.setup.sources, self._pairs, strict=True):
            task = Task(
                TaskKind.BANDWIDTH,
                Operation.WRITE,
                MESSAGE_BYTES,
                count=int(seconds * self.rate_bps / 8 / MESSAGE_BYTES) + DEPTH,
                depth=DEPTH,
                rkey=theirs.rkey,
                remote_address=theirs.address,
            )
            self._endpoints[source.port].task(ours.qpn, task)
        while (now := time.monotonic_ns() - started) < seconds * 1e9:
            story.made += self._cnps(POLL_S)
            self._sample(now, story)
            tell(now / 1e9 / seconds)
        story.ended_at = time.monotonic_ns() - started
        for source, (ours, theirs) in zip(self.setup.sources, self._pairs, strict=True):
            stats = self._endpoints[source.port].pair_stats(ours.qpn)
            story.cnps_received += stats.cnps_received
            story.notifications += stats.notified_received
            sink = self._endpoints[self.setup.sink.port].pair_stats(theirs.qpn)
            story.delivered_bytes += sink.received_bytes
        return story

    def _cnps(self, wait_s: float) -> Iterator[bytes]:
        """Yield what CNPs the switch has sent to the sources."""
        for port, frame in self._space.receive(wait_s):
            if port != self.setup.sink.port and len(frame) > 42 and frame[42] == CNP_OPCODE:
                yield frame

    def _sample(self, now: int, story: LiveStory) -> None:
        last = story.samples[-1][0] if story.samples else None
        if last is not None and now - last < POLL_S * 1e9:
            return
        rates = tuple(
            self._endpoints[source.port].pair_stats(ours.qpn).rate_bps or self.rate_bps
            for source, (ours, _) in zip(self.setup.sources, self._pairs, strict=True)
        )
        queue = None
        if self._diagnostics is not None:
            queue = int(self._diagnostics.port_stats()[self.setup.sink.port]["depth_bytes"])
        story.samples.append((now, rates, queue))

    def close(self) -> None:
        """End everything; nothing is left."""
        self._stack.close()


@contextmanager
def running(network: LiveNetwork) -> Iterator[LiveNetwork]:
    """Close the network at the end."""
    try:
        yield network
    finally:
        network.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
