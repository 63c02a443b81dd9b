"""The host agent of a run: its process loads the hosts' XDP program, attaches it, and ends.

The process works while the switches start. What it pins is in the run's record before it starts,
and what it attached goes with the hosts' interfaces. A machine without bcc or XDP has a run all
the same: `notice` says why, the pins are removed, and endpoints use AF_PACKET.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hostagent import agent, pins

if TYPE_CHECKING:
    from emulation.fabric_record import FabricRecord
    from emulation.live_host import LiveHost
    from emulation.run_state import Run

NAMESPACES = Path("/run/netns")
LOG = "host-agent-verifier.log"


@dataclass(frozen=True)
class AgentOutcome:
    """What became of it: how many interfaces have the program, how many of them natively.

    `problem`: why none has; empty if it worked.
    """

    interfaces: int = 0
    native: int = 0
    problem: str = ""

    @property
    def notice(self) -> str:
        """What the user should know; empty where there is nothing to report."""
        if self.problem:
            return f"no host agent: {self.problem}; RoCE endpoints use AF_PACKET"
        if self.native < self.interfaces:
            generic = self.interfaces - self.native
            return (
                f"XDP runs in the kernel's generic path on {generic} of {self.interfaces} host "
                "interfaces (native ends at an MTU of 3506): slower, with the same results"
            )
        return ""


def host_interfaces(record: FabricRecord) -> list[tuple[int | Path, str]]:
    """Return where the program belongs in a fabric that is up: namespaces and interfaces."""
    return [
        (NAMESPACES / f"{record.run}-{part.host}", f"{part.host}-eth{part.number}")
        for part in record.topology.interfaces()
    ]


class HostAgent:
    """The agent of one run."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._process: subprocess.Popen[str] | None = None
        self.pins = pins.pins_of(run.name)

    def start(self) -> None:
        """Start the process; it compiles and loads beside what the caller does next."""
        self._run.will_make(files=pins.pins_in(self.pins), directories=[self.pins])
        command = agent.command(self.pins, self._run.log_dir / LOG)
        with suppress(OSError):  # `finish` says so
            self._process = subprocess.Popen(
                command,
                cwd=agent.ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            self._run.started_processes([(self._process.pid, "host agent")])

    def attach(self, interfaces: Sequence[LiveHost]) -> None:
        """Say which interfaces there are, once there are."""
        if self._process is not None:
            assert self._process.stdin is not None
            hosts = [(NAMESPACES / each.namespace, each.interface) for each in interfaces]
            with suppress(BrokenPipeError):  # it has ended; `finish` says why
                self._process.stdin.write(agent.attach_lines(hosts))
                self._process.stdin.close()
            self._process.stdin = None

    def finish(self) -> AgentOutcome:
        """Wait until it has done its work, and say what came of it. Never raises."""
        process, self._process = self._process, None
        if process is None:
            return self._without("the agent's process could not be started")
        try:
            output, errors = process.communicate(timeout=agent.TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return self._without(f"it did not end within {agent.TIMEOUT_S:.0f} s")
        report = agent.read_report(self.pins, output, errors, process.returncode)
        if report.error is not None:
            whole = f" (whole log: {report.log})" if report.log else ""
            return self._without(report.error + whole)
        native = sum(each.native for each in report.attached)
        return AgentOutcome(len(report.attached), native)

    def _without(self, problem: str) -> AgentOutcome:
        with suppress(OSError):
            pins.remove(self.pins)
        return AgentOutcome(problem=problem)
