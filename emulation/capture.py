"""Packets of one interface of a running fabric, by tcpdump: into a pcap file, or decoded."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from emulation.errors import ToolMissingError, TrafficError
from emulation.network import Network
from topologies import Topology

START_S = 60.0
STOP_S = 5.0
_POLL_S = 0.01


def find_interface(topology: Topology, network: Network, name: str) -> tuple[str, str | None]:
    """Return an interface's name here and the network namespace it is in (None: this one).

    `name`: a switch's port (s1-2 or s1-eth2), a host's interface (h1, h1-1, h1-eth1), or the name
    that the interface really has. Raises KeyError.
    """
    found = re.fullmatch(r"(.+?)(?:-(?:eth)?(\d+))?", name)
    if found is None:
        raise KeyError(name)
    node, port = found[1], int(found[2] or 0)
    for switch in topology.switches:
        for each in topology.ports_of(switch.name):
            real = network.interface_name(switch.name, each.number)
            if name == real or (node == switch.name and found[2] and port == each.number):
                return real, None
    for host in topology.hosts:
        if node == host.name and port < len(host.interfaces):
            return network.interface_name(node, port), network.namespace_name(node)
    raise KeyError(name)


def names(topology: Topology) -> list[str]:
    """Return the short names of all interfaces."""
    ports = [f"{s.name}-{p.number}" for s in topology.switches for p in topology.ports_of(s.name)]
    return ports + [f"{h.name}-eth{part.number}" for h in topology.hosts for part in h.interfaces]


def command(
    interface: str, namespace: str | None, options: Sequence[str], packet_filter: Sequence[str]
) -> list[str]:
    """Return tcpdump's command line. Raises ToolMissingError without tcpdump."""
    if shutil.which("tcpdump") is None:
        raise ToolMissingError("tcpdump is not installed", "make setup")
    enter = ["ip", "netns", "exec", namespace] if namespace else []
    # Root writes the file: tcpdump's own user could not, in most folders. Without a buffer in the
    # kernel, what has passed when a capture ends is in it.
    fixed = ["-n", "--immediate-mode", "-Z", "root", "-i", interface]
    return [*enter, "tcpdump", *fixed, *options, *packet_filter]


class Capture:
    """One tcpdump that writes a pcap file in the background."""

    def __init__(self, label: str, path: Path, process: subprocess.Popen[bytes], log: IO[bytes]):
        self.label = label
        self.path = path
        self._process = process
        self._log = log

    @classmethod
    def start(cls, label: str, path: Path, arguments: Sequence[str]) -> Capture:
        """Start tcpdump; from the return on every packet is in the file. Raises TrafficError."""
        log = tempfile.TemporaryFile()  # noqa: SIM115 - `stop` reads and closes it
        process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,  # Ctrl-C at the prompt is not meant for it
        )
        capture = cls(label, path, process, log)
        deadline = time.monotonic() + START_S
        while "listening on" not in capture._said():
            if process.poll() is not None or time.monotonic() > deadline:
                said = capture._said().strip() or "no reason given"
                capture.stop()
                raise TrafficError(f"tcpdump on {label} did not start: {said}")
            time.sleep(_POLL_S)
        return capture

    def _said(self) -> str:
        self._log.seek(0)
        return self._log.read().decode(errors="replace")

    @property
    def is_running(self) -> bool:
        """Whether tcpdump still runs."""
        return self._process.poll() is None

    def stop(self) -> str:
        """End tcpdump, with all it has seen in the file; return what it counted."""
        if self.is_running:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._log.closed:
            return ""
        said = self._said()
        self._log.close()
        counted = re.search(r"^(\d+) packets? captured", said, re.MULTILINE)
        return f"{counted[1]} packets" if counted else said.strip().splitlines()[-1:][0]
