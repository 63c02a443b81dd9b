"""Host programs in a running fabric: a process for each host, in its network namespace.

    with HostPrograms(session, run.programs, run.directory) as programs:
        ...                                 # they run
        programs.counters()                 # so far
        counted = programs.stop()           # what each counted, as summary.json has it

All sockets are there before the first program starts. The run's record has each process, so that
stop and crash clean-up end exactly these.
"""

from __future__ import annotations

import json
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from emulation import host_service
from emulation.errors import EmulationError
from hostagent.programs.driver import LiveInterface
from hostagent.programs.program import Interface
from hostagent.programs.service import Work
from hostagent.rnic.interface import mac_number
from workloads.model import PlacedProgram

if TYPE_CHECKING:
    from emulation.session import Session

_PATIENCE_S = 60.0
_END_S = 5.0


class HostProgramError(EmulationError):
    """A program could not be started, or failed; the message names it, its host and the time."""


@dataclass
class _Process:
    process: subprocess.Popen[str]
    log: Path
    over: bool = False

    def line(self, deadline: float) -> str:
        """Return its next line of output; empty where it ends or says nothing in time."""
        output = self.process.stdout
        assert output is not None
        ready, _, _ = select.select([output], [], [], max(0.0, deadline - time.monotonic()))
        return output.readline() if ready else ""

    def say(self, line: str) -> None:
        """Write a line to its input."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended, and its log says why
            self.process.stdin.write(line)
            self.process.stdin.flush()

    def why(self) -> str:
        """Return the last thing that it said of what went wrong."""
        said = self.log.read_text().strip().splitlines()
        return said[-1].removeprefix("error: ") if said else "it says nothing"


class HostPrograms:
    """The programs of a run, from `start` (entering the block) to `stop` or the block's end."""

    def __init__(
        self,
        session: Session,
        programs: Sequence[PlacedProgram],
        directory: Path = Path(),
        *,
        record: Path | None = None,
    ) -> None:
        """`record`: a folder for what each host's programs send, in files HOST.sent (`Driver`)."""
        self._session, self._programs = session, programs
        self._directory, self._record = directory, record
        self._processes: dict[str, _Process] = {}

    def __enter__(self) -> Self:
        """Start them. Raises HostProgramError."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End their processes."""
        self.close()

    def start(self) -> None:
        """Start them all, and return when all have begun. Raises HostProgramError."""
        self.prepare()
        self.begin()

    def prepare(self) -> None:
        """Start their processes, and return when all may begin. Raises HostProgramError."""
        try:
            for host in dict.fromkeys(name for each in self._programs for name in each.hosts):
                self._processes[host] = self._launch(host)
            deadline = time.monotonic() + _PATIENCE_S
            for host, each in self._processes.items():
                if each.line(deadline) != "ready\n":
                    raise HostProgramError(f"programs of {host}: {self._died(each)}")
        except BaseException:
            self.close()
            raise

    def begin(self) -> None:
        """Let time begin for all of them."""
        for each in self._processes.values():
            each.say("start\n")

    def check(self) -> None:
        """Raise HostProgramError if a program has failed."""
        for each in self._processes.values():
            if not each.over and each.process.poll() is not None:
                raise HostProgramError(each.why(), f"its log: {each.log}")

    def counters(self) -> list[Mapping[str, Any]]:
        """Return what each has counted so far, in the order of the run file.

        Raises HostProgramError if one has failed.
        """
        return self._ask("counters\n")

    def stop(self) -> list[Mapping[str, Any]]:
        """End them; return what each program has counted, in the order of the run file.

        Raises HostProgramError if one has failed.
        """
        counted = self._ask("stop\n")
        for each in self._processes.values():
            each.over = True
        self.close()
        return counted

    def _ask(self, line: str) -> list[Mapping[str, Any]]:
        for each in self._processes.values():
            each.say(line)
        deadline = time.monotonic() + _PATIENCE_S
        counted: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
        for each in self._processes.values():
            answer = each.line(deadline)
            if not answer:
                raise HostProgramError(self._died(each), f"its log: {each.log}")
            for row in json.loads(answer):
                counted.setdefault((row["program"], row["host"]), []).append(row)
        placed = [(each.program, host) for each in self._programs for host in each.hosts]
        return [counted[key].pop(0) for key in placed]

    def close(self) -> None:
        """End the processes, whatever they do."""
        for each in self._processes.values():
            assert each.process.stdin is not None
            with suppress(BrokenPipeError):
                each.process.stdin.close()
            try:
                each.process.wait(_END_S if each.over else 0.1)
            except subprocess.TimeoutExpired:
                each.process.kill()
                each.process.wait()
            assert each.process.stdout is not None
            each.process.stdout.close()
        self._processes.clear()

    @staticmethod
    def _died(each: _Process) -> str:
        with suppress(subprocess.TimeoutExpired):
            each.process.wait(_END_S)
        return each.why()

    def _launch(self, host: str) -> _Process:
        session = self._session
        live = [
            each
            for each in session.network.live_interfaces()
            if each.name.partition(":")[0] == host
        ]
        log = session.run.log_dir / f"{host}.programs.log"
        module, what = ["hostagent.programs.service"], f"programs of {host}"
        try:
            process = host_service.start(session, live[0].namespace, module, log, what, spoken=True)
        except OSError as error:
            raise HostProgramError(f"{what}: {error}") from None
        made = _Process(process, log)
        made.say(self._work(host, [(each.interface, each.mac) for each in live]).line())
        return made

    def _work(self, host: str, devices: Sequence[tuple[str, str]]) -> Work:
        topology = self._session.topology
        interfaces = []
        for each, (device, mac) in zip(topology.host(host).interfaces, devices, strict=True):
            link = topology.link_at(host, each.number)
            interfaces.append(
                LiveInterface(
                    device,
                    Interface(
                        rate_bps=link.rate_bps,
                        mac=mac_number(mac),
                        gateway_mac=mac_number(topology.switch(each.switch).mac),
                        ip=int(each.address.ip),
                        mtu=link.mtu_bytes,
                    ),
                )
            )
        return Work(
            host=host,
            interfaces=interfaces,
            programs=[
                (each.program, each.settings) for each in self._programs if host in each.hosts
            ],
            addresses={str(each.end): int(each.address.ip) for each in topology.interfaces()},
            time_scale=topology.time_scale,
            directory=str(self._directory.resolve()),
            record=None if self._record is None else str(self._record.resolve() / f"{host}.sent"),
        )
