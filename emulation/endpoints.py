"""Hosts' RoCEv2 endpoints: a daemon in a host's namespace, started when first needed.

The run's record has each one, so that stop and crash clean-up end exactly these. Where the run
has a host agent (eBPF), the daemon uses its maps.
"""

from __future__ import annotations

import select
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from emulation import host_service
from emulation.errors import EmulationError
from emulation.live_host import LiveHost
from hostagent.pins import MAPS, pins_of

if TYPE_CHECKING:
    from emulation.session import Session

START_DEADLINE_S = 60.0
_END_S = 2.0


class EndpointError(EmulationError):
    """A host's endpoint could not be started; the message has its own words."""


@dataclass
class _Daemon:
    process: subprocess.Popen[str]
    socket: Path
    log: Path
    ready: bool = False


class Endpoints:
    """The endpoints of one run, by the name of a host's interface (h1, h1:1)."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._daemons: dict[str, _Daemon] = {}
        self._lock = threading.Lock()  # the prompt and other terminals may ask at once

    def sockets(self, hosts: Sequence[LiveHost]) -> dict[str, Path]:
        """Return where the endpoints of these interfaces take clients; those missing are started.

        Raises EndpointError with what a daemon said.
        """
        with self._lock:
            self._prepare(hosts)
            for host in hosts:
                if not self._daemons[host.name].ready:
                    self._wait(host)
            return {host.name: self._daemons[host.name].socket for host in hosts}

    def _prepare(self, hosts: Sequence[LiveHost]) -> None:
        for host in hosts:
            if not self._is_up(host.name):
                self._daemons[host.name] = self._start(host)

    def _is_up(self, name: str) -> bool:
        daemon = self._daemons.get(name)
        return daemon is not None and daemon.process.poll() is None

    def pins(self) -> Path | None:
        """Return where the host agent's maps of this run are, None if it has none."""
        directory = pins_of(self._session.run.name)
        return directory if (directory / MAPS[0]).exists() else None

    def _start(self, host: LiveHost) -> _Daemon:
        session = self._session
        node, _, number = host.name.partition(":")
        rate = session.topology.real_rate_bps(session.topology.link_at(node, int(number or 0)))
        socket = session.run.directory / f"{host.name.replace(':', '-')}.rnic"
        log = session.run.log_dir / f"{host.name.replace(':', '-')}.rnic.log"
        command = ["hostagent.rnic.service", "--interface", host.interface]
        command += ["--ip", host.address, "--mac", host.mac, "--socket", str(socket)]
        command += ["--gateway-mac", session.topology.switch(host.switch).mac]
        command += ["--line-rate", str(rate)]
        pins = self.pins()
        if pins is not None:
            command += ["--maps", str(pins)]
        what = f"endpoint of {host.name}"
        try:
            process = host_service.start(session, host.namespace, command, log, what, spoken=False)
        except OSError as error:
            raise EndpointError(f"{host.name}: no endpoint: {error}") from None
        return _Daemon(process, socket, log)

    def _wait(self, host: LiveHost) -> None:
        """Wait for the daemon's line `ready: ...`."""
        daemon = self._daemons[host.name]
        output = daemon.process.stdout
        assert output is not None
        deadline = time.monotonic() + START_DEADLINE_S
        ready, _, _ = select.select([output], [], [], max(0.0, deadline - time.monotonic()))
        line = output.readline() if ready else ""
        if line.startswith("ready"):
            daemon.ready = True
            return
        said = daemon.log.read_text().strip().splitlines()
        why = said[-1].removeprefix("error: ") if said else "it says nothing"
        if not ready:
            why = f"not ready within {START_DEADLINE_S:g} s: {why}"
        self._end(self._daemons.pop(host.name))
        raise EndpointError(f"{host.name} has no endpoint: {why}", f"its log: {daemon.log}")

    def end(self, name: str) -> None:
        """End one daemon; the next one who needs it starts it again."""
        with self._lock:
            daemon = self._daemons.pop(name, None)
            if daemon is not None:
                self._end(daemon)

    @staticmethod
    def _end(daemon: _Daemon) -> None:
        daemon.process.terminate()
        try:
            daemon.process.wait(_END_S)
        except subprocess.TimeoutExpired:
            daemon.process.kill()
            daemon.process.wait()
