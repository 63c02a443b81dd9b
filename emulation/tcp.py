"""A TCP transfer between two hosts by iperf3, with its rate as the receiver saw it."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from emulation import namespace
from emulation.errors import ToolMissingError, TrafficError
from emulation.live_host import LiveHost

SECONDS = 2
PORT = 5201

_LISTEN_DEADLINE_S = 30.0
_POLL_S = 0.005
_PATIENCE_S = 15.0  # beyond the transfer itself: connecting, and the queues running empty


@dataclass(frozen=True)
class TransferReport:
    """One transfer: payload bytes received, over how many seconds, and packets sent again."""

    source: str
    destination: str
    received_bytes: int
    seconds: float
    retransmits: int
    error: str = ""

    @property
    def bits_per_second(self) -> float:
        """The rate of payload at the receiver."""
        return self.received_bytes * 8 / self.seconds if self.seconds else 0.0

    @property
    def ok(self) -> bool:
        """Whether anything was transferred and the program had nothing to complain about."""
        return not self.error and self.received_bytes > 0


def transfer(
    source: LiveHost,
    destination: LiveHost,
    *,
    seconds: int = SECONDS,
    started: Callable[[int, str], None] = lambda pid, role: None,
) -> TransferReport:
    """Send for `seconds` from one host to another.

    `started` gets each process's id and role. Raises ToolMissingError without iperf3, and
    TrafficError when it can't be started; a transfer that fails is a report with `error`.
    """
    if shutil.which("iperf3") is None:
        raise ToolMissingError("iperf3 is not installed", "make setup (or: apt-get install iperf3)")
    server = destination.popen(["iperf3", "--server", "--one-off", "--json", "--port", str(PORT)])
    try:
        started(server.pid, f"iperf3 server on {destination.name}")
        _wait_for_listener(destination, server)
        to = ["--client", destination.address, "--port", str(PORT), "--connect-timeout", "5000"]
        to += ["--bind", source.address]
        client = source.popen(["iperf3", *to, "--time", str(seconds), "--json"])
        try:
            started(client.pid, f"iperf3 client on {source.name}")
            output, _ = client.communicate(timeout=seconds + _PATIENCE_S)
        except subprocess.TimeoutExpired:
            return TransferReport(
                source.name, destination.name, 0, 0.0, 0, "it did not end in time"
            )
        finally:
            _end(client)
    finally:
        _end(server)
    return _report(source, destination, output)


def _wait_for_listener(host: LiveHost, server: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + _LISTEN_DEADLINE_S
    while not namespace.has_listener(host.pid, PORT):
        if server.poll() is not None or time.monotonic() > deadline:
            server.kill()
            said = "".join(server.communicate()).strip()
            raise TrafficError(
                f"iperf3's server on {host.name} did not start: {said or 'no reason'}"
            )
        time.sleep(_POLL_S)


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.kill()
    process.communicate()


def _report(source: LiveHost, destination: LiveHost, output: str) -> TransferReport:
    try:
        data: dict[str, Any] = json.loads(output)
    except ValueError:
        last = output.strip().splitlines()[-1:] or ["no output"]
        return TransferReport(source.name, destination.name, 0, 0.0, 0, f"iperf3: {last[0]}")
    ends = data.get("end", {})
    received, sent = ends.get("sum_received", {}), ends.get("sum_sent", {})
    return TransferReport(
        source.name,
        destination.name,
        int(received.get("bytes", 0)),
        float(received.get("seconds", 0.0)),
        int(sent.get("retransmits", 0)),
        str(data.get("error", "")),
    )
