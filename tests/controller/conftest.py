"""Real switches to talk to: our daemon, and BMv2 where it is installed, on free local ports."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import topologies
from compiler import compile_p4
from controller import CompiledProgram
from tests.free_port import free_port
from topologies import Topology

P4SRC = Path(__file__).parents[2] / "p4src"
CPU_PORT = 255
START_SECONDS = 60


@pytest.fixture(scope="session")
def program() -> CompiledProgram:
    """fabric.p4, compiled once."""
    result = compile_p4(P4SRC / "fabric.p4")
    return CompiledProgram.of(result)


@pytest.fixture
def topology() -> Topology:
    return topologies.load("leafspine")


class Switches:
    """Switch processes of one target without interfaces; ended when the test is over."""

    def __init__(self, target: str, folder: Path) -> None:
        self.target = target
        self.folder = folder
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, device_id: int, address: str | None = None) -> str:
        """Start a switch without a program; return its P4Runtime address once it listens."""
        address = self._launch(name, device_id, address)
        self._wait(name, address)
        return address

    def start_all(self, topology: Topology) -> dict[str, str]:
        """Start all switches of a topology at once; return their addresses when all listen."""
        addresses = {s.name: self._launch(s.name, s.device_id) for s in topology.switches}
        for name, address in addresses.items():
            self._wait(name, address)
        return addresses

    def _launch(self, name: str, device_id: int, address: str | None = None) -> str:
        address = address or f"127.0.0.1:{free_port()}"
        if self.target == "softswitch":
            start = [sys.executable, "-m", "softswitch", "--device-id", str(device_id), "--no-p4"]
        else:
            thrift = ["--thrift-port", str(free_port())]
            start = ["simple_switch_grpc", "--device-id", str(device_id), "--no-p4", *thrift]
        rest = ["--", "--grpc-server-addr", address, "--cpu-port", str(CPU_PORT)]
        log = (self.folder / f"{name}.log").open("wb")
        with log:
            self.processes[name] = subprocess.Popen(
                [*start, *rest], stdout=log, stderr=subprocess.STDOUT
            )
        return address

    def _wait(self, name: str, address: str) -> None:
        host, port = address.split(":")
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            ended = self.processes[name].poll()
            assert ended is None, (self.folder / f"{name}.log").read_text()
            with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 0.1):
                return
            self._pause(name)
        raise AssertionError(f"{name} does not listen on {address}")

    def _pause(self, name: str) -> None:
        """Wait a little, or until the process ends."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.processes[name].wait(0.02)

    def kill(self, name: str) -> None:
        self.processes[name].kill()
        self.processes[name].wait()

    def stop(self) -> None:
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(START_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


TARGETS = [
    "softswitch",
    pytest.param("simple_switch_grpc", marks=pytest.mark.reference("simple_switch_grpc")),
]


@pytest.fixture(params=TARGETS)
def switches(request: Any, tmp_path: Path) -> Iterator[Switches]:
    """Start switches of both targets (BMv2 only where it is installed)."""
    started = Switches(request.param, tmp_path)
    yield started
    started.stop()


@pytest.fixture
def softswitches(tmp_path: Path) -> Iterator[Switches]:
    """Start switches of ours only."""
    started = Switches("softswitch", tmp_path)
    yield started
    started.stop()


@pytest.fixture
def fabric(switches: Switches, topology: Topology) -> dict[str, str]:
    """Addresses of running switches for the whole default fabric."""
    return switches.start_all(topology)


@pytest.fixture
def wait_for() -> Callable[[Callable[[], bool]], None]:
    """Return a function that polls a condition, and fails when only a fault can take so long."""

    def wait(condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not condition():
            assert time.monotonic() < deadline, "the condition never came true"
            time.sleep(0.005)

    return wait
