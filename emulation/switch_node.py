"""A switch process as a Mininet node: our embedded switch or BMv2, by one command line.

Both targets take `simple_switch_grpc`'s options. A switch is ready when its gRPC port accepts a
connection and, where it can say so itself, when it has written its ready file; until then the
caller polls. One that ends is reported with the last lines of its log.
"""

from __future__ import annotations

import enum
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mininet.node import Switch

from emulation.errors import SwitchDiedError, ToolMissingError
from emulation.tickers import ticker_option
from softswitch.ticker_options import TICKER_PORT, TickerOption
from topologies.model import PS_PER_NS, RECIRCULATION_PS
from topologies.own_program import CPU_PORT

READY_DEADLINE_S = 120.0
POLL_S = 0.01
LOG_LINES_SHOWN = 15
# As in p4lang's tutorials, whose scripts have these numbers in them. They are ephemeral ports, so
# that now and then somebody has one: that switch gets the next one from P4Runtime's own number on.
FIRST_GRPC_PORT = 50051
OTHER_GRPC_PORTS = 9559
FIRST_THRIFT_PORT = 9090
DROP_PORT = 511
_PORT_TAKEN = "can't listen on"  # in our daemon's last words
PRIORITY_QUEUES = 8


class Target(enum.Enum):
    """Which program runs as the switches."""

    SOFTSWITCH = "softswitch"
    BMV2 = "bmv2"


@dataclass(frozen=True)
class PortSettings:
    """One port: its number, its interface, and its link as emulated (real time, this machine).

    `send_delay_ns` is added to what the port sends, `receive_delay_ns` to what it receives;
    `rate_bps` limits what it sends, behind a queue of `queue_bytes`. None leaves it as it is.
    `weights`: (queue, weight) of queues that share what the strict ones leave.
    """

    number: int
    interface: str
    rate_bps: int | None = None
    send_delay_ns: int = 0
    receive_delay_ns: int = 0
    queue_bytes: int | None = None
    weights: tuple[tuple[int, int], ...] = ()

    def link_option(self) -> str:
        """Return the value of our switch's `--link` for this port; empty if nothing is emulated."""
        settings = []
        if self.rate_bps is not None:
            settings.append(f"rate={self.rate_bps}bps")
        if self.send_delay_ns:
            settings.append(f"delay={self.send_delay_ns}ns")
        if self.receive_delay_ns:
            settings.append(f"rx-delay={self.receive_delay_ns}ns")
        if self.queue_bytes is not None:
            settings.append(f"queue={self.queue_bytes}B")
        if self.weights:
            shares = "/".join(f"{queue}:{weight}" for queue, weight in self.weights)
            settings.append(f"weights={shares}")
        return f"{self.number}:{','.join(settings)}" if settings else ""


@dataclass(frozen=True)
class SwitchSettings:
    """How one switch process is started.

    `recirculation_ns`: how long a packet takes from egress back into ingress (our switch only).
    `bmv2_units`: whether our switch stamps and counts as BMv2 does, not in nanoseconds and cells.
    `tickers`: in real time; BMv2 gets what a process ticks by the port `ticker_interface`.
    `port_report`: the packet by which our switch reports a port's carrier to its program.
    """

    target: Target
    device_id: int
    grpc_port: int
    thrift_port: int
    ports: tuple[PortSettings, ...]
    log_path: Path
    ready_path: Path
    recirculation_ns: int = RECIRCULATION_PS // PS_PER_NS
    tickers: tuple[TickerOption, ...] = ()
    ticker_interface: str = ""
    port_report: bytes = b""
    cpu_port: int = CPU_PORT
    bmv2_units: bool = False

    @property
    def address(self) -> str:
        """Where its P4Runtime server listens: loopback only."""
        return f"127.0.0.1:{self.grpc_port}"

    def command(self) -> list[str]:
        """Return the command line, program first."""
        if self.target is Target.BMV2:
            program = ["simple_switch_grpc"]
        else:
            program = [sys.executable, "-m", "softswitch"]
        command = [*program, "--no-p4", "--device-id", str(self.device_id)]
        for port in self.ports:
            command += ["-i", f"{port.number}@{port.interface}"]
        if self.ticker_interface:
            command += ["-i", f"{TICKER_PORT}@{self.ticker_interface}"]
        if self.target is Target.BMV2:
            command += ["--thrift-port", str(self.thrift_port)]
        command += ["--log-console", "--log-level", "info"]
        command += ["--", "--grpc-server-addr", self.address]
        command += ["--cpu-port", str(self.cpu_port), "--drop-port", str(DROP_PORT)]
        command += ["--priority-queues", str(PRIORITY_QUEUES)]
        if self.target is Target.SOFTSWITCH:
            if not self.bmv2_units:
                command += ["--tick", "ns", "--depth-unit", "cells"]
            command += ["--recirculation", f"{self.recirculation_ns}ns"]
            for option in filter(None, (port.link_option() for port in self.ports)):
                command += ["--link", option]
            for ticker in self.tickers:
                command += ["--ticker", ticker_option(ticker)]
            if self.port_report:
                command += ["--port-report", f"packet={self.port_report.hex()}"]
            command += ["--ready-file", str(self.ready_path)]
        return command


def require_target(target: Target) -> None:
    """Raise ToolMissingError when the program of a target is not installed."""
    if target is Target.BMV2 and shutil.which("simple_switch_grpc") is None:
        raise ToolMissingError(
            "simple_switch_grpc (BMv2) is not on PATH",
            "leave --target away to use the embedded switch, or install BMv2 (docs/parity.md)",
        )


class SwitchNode(Switch):  # type: ignore[misc]
    """A switch of either target. Its interfaces are in the root namespace, as its process is."""

    def __init__(self, name: str, settings: SwitchSettings, **params: Any) -> None:
        super().__init__(name, **params)
        self.settings = settings
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, controllers: Iterable[object]) -> None:
        """Start the process; `controllers` is Mininet's, and P4Runtime has no use for it.

        A process that is started again goes on in the same log.
        """
        self.settings.ready_path.unlink(missing_ok=True)  # one that was killed leaves its own
        with self.settings.log_path.open("ab" if self.process else "wb") as log:
            self.process = subprocess.Popen(
                self.settings.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C in the terminal is the runner's to handle
            )

    def connected(self) -> bool:
        """Say whether the switch is ready (Mininet's name for it). Raises SwitchDiedError."""
        self.check_alive()
        if self.settings.target is Target.SOFTSWITCH and not self.settings.ready_path.exists():
            return False
        try:
            with socket.create_connection(("127.0.0.1", self.settings.grpc_port), 0.2) as made:
                # While no process listens, the kernel may join a connection to itself.
                return bool(made.getsockname() != made.getpeername())
        except OSError:
            return False

    def is_alive(self) -> bool:
        """Say whether the process was started and has not ended."""
        return self.process is not None and self.process.poll() is None

    def check_alive(self) -> None:
        """Raise SwitchDiedError, with the end of the log, when the process has ended."""
        if self.process is not None and not self.is_alive():
            raise SwitchDiedError(f"switch {self.name} {self.ending()}{self._log_tail()}")

    def ending(self) -> str:
        """Say how the process ended."""
        code = self.process.poll() if self.process is not None else None
        if code is None:
            return "has not ended"
        return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"

    def found_its_port_taken(self) -> bool:
        """Say whether it ended because another process held its P4Runtime port."""
        return any(_PORT_TAKEN in line for line in self.last_log_lines())

    def last_log_lines(self, count: int = LOG_LINES_SHOWN) -> list[str]:
        """Return the last lines of the log, none if it is empty."""
        path = self.settings.log_path
        lines = path.read_text(errors="replace").splitlines() if path.exists() else []
        return lines[-count:]

    def _log_tail(self) -> str:
        path = self.settings.log_path
        lines = self.last_log_lines()
        if not lines:
            return f" and wrote nothing to its log ({path})"
        return "; the end of its log:\n" + "\n".join(f"  {line}" for line in lines) + f"\n({path})"


def wait_until_ready(switches: Iterable[SwitchNode], deadline_s: float = READY_DEADLINE_S) -> None:
    """Wait until all switches are ready. Raises SwitchDiedError with the reason, never hangs."""
    waiting = list(switches)
    deadline = time.monotonic() + deadline_s
    while waiting:
        waiting = [switch for switch in waiting if not switch.connected()]
        if not waiting:
            return
        if time.monotonic() > deadline:
            slow = waiting[0]
            raise SwitchDiedError(
                f"switch {slow.name} was not ready after {deadline_s:g} s{slow._log_tail()}",
                "a machine under heavy load is slow to start: try again, or read the log",
            )
        time.sleep(POLL_S)
