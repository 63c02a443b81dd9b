"""A notification from a P4 module, two hops on and into a host's map, in real time.

    this test -- s1 ---- s3 ---- s2 -- h3 (a namespace) -- roce_xdp -- map

Three switches run as processes, joined by veth pairs; h3's interface has the host agent's program.
h1, which is this test, asks s1 to say something (tests/p4src/alarm.p4).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import topologies
from controller import CompiledProgram, FabricPolicy, TargetFacts
from controller.diff import changes
from controller.fabric_state import FabricModel, desired_entries
from controller.session import SwitchSession
from hostagent import agent, pins
from hostagent.pinned_maps import PinnedMaps
from protocols.notification import Notification, NotificationType, datagram
from tests.free_port import free_port
from tests.hostagent.two_hosts import Host, started_host
from tests.p4src import alarm_scenario as scenario
from tests.p4src.alarm_scenario import LINK_DOWN, alarm
from tests.p4src.conftest import Program
from tests.p4src.test_fabric_on_targets import START_SECONDS, ip_command, wait_for_listener

pytestmark = pytest.mark.root

WIRES = (("h1", 0, "s1", 1), ("s1", 3, "s3", 1), ("s3", 2, "s2", 3), ("s2", 1, "h3", 0))
RELAYS = {"s1": ((3,), ()), "s3": ((), (1, 2)), "s2": ((), (1, 3))}
"""By which ports a switch sends its own, and by which it relays others'."""
QUIET_SECONDS = 60
MTU = 3000  # XDP's, in the driver


def end(node: str, port: int) -> str:
    return f"wn{os.getpid()}{node}{port}"


@contextlib.contextmanager
def wires(h3: Host) -> Iterator[socket.socket]:
    """Make the cables, h3's end in its namespace; yield h1's end."""
    try:
        for a, port, b, other in WIRES:
            names = (end(a, port), end(b, other))
            ip_command("link", "add", names[0], "mtu", str(MTU), "type", "veth", "peer", "name",
                       names[1], "mtu", str(MTU))  # fmt: skip
            for name in names:
                Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("1")
                ip_command("link", "set", name, "up", "promisc", "on")
        ip_command("link", "set", end("h3", 0), "netns", str(h3.pid))
        h3.ip(f"link set {end('h3', 0)} name near", "link set near up")
        h3.ip("addr add 10.0.2.1/24 dev near")
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as h1:
            h1.bind((end("h1", 0), 0))
            yield h1
    finally:
        for a, port, _, _ in WIRES:
            with contextlib.suppress(subprocess.CalledProcessError):
                ip_command("link", "delete", end(a, port))


@contextlib.contextmanager
def switch(kind: str, name: str, number: int, log: Path) -> Iterator[str]:
    """Run a switch on its ends of the cables; yield its P4Runtime address."""
    address = f"127.0.0.1:{free_port()}"
    ports = [port for wire in WIRES for node, port in (wire[:2], wire[2:]) if node == name]
    words = [word for port in ports for word in ("-i", f"{port}@{end(name, port)}")]
    if kind == "bmv2":
        command = ["simple_switch_grpc", "--thrift-port", str(free_port())]
    else:
        command = [sys.executable, "-m", "softswitch"]
    own = ["--grpc-server-addr", address, "--cpu-port", "255"]
    with log.open("wb") as file:
        process = subprocess.Popen(
            [*command, *words, "--device-id", str(number), "--no-p4", "--", *own],
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_for_listener(address, process, log)
        yield address
    finally:
        process.terminate()
        process.wait(60)


async def install(name: str, number: int, address: str, program: CompiledProgram) -> None:
    topology = topologies.load("leafspine")
    model = FabricModel(topology, program.p4info, TargetFacts(), FabricPolicy(class_of_dscp={}))
    own = scenario.entries(*RELAYS[name], clone_classes=False)
    async with SwitchSession(name, address, number, program, timeout=START_SECONDS) as session:
        await session.set_pipeline()
        await session.write(changes([*desired_entries(model, name), *own], (), program.p4info))


def eventually(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + QUIET_SECONDS
    while not done():
        assert time.monotonic() < deadline, "nothing more happened"
        time.sleep(0.005)


@pytest.fixture(
    params=[
        "softswitch",
        pytest.param("bmv2", marks=pytest.mark.reference("simple_switch_grpc")),
    ]
)
def row(request: Any, tmp_path: Path) -> Iterator[tuple[socket.socket, PinnedMaps]]:
    """h1's end of the first cable, and the maps of h3's agent."""
    directory = pins.BPF_FILE_SYSTEM / f"weft-test-notified-{os.getpid()}"
    json, p4info = scenario.compiled("weft")
    program = CompiledProgram.of(Program(json, p4info))
    with contextlib.ExitStack() as left:
        h3 = left.enter_context(started_host())
        h1 = left.enter_context(wires(h3))
        left.callback(pins.remove, directory)
        report = agent.run(directory, [(h3.pid, "near")])
        assert report.error is None, report.error
        maps = PinnedMaps.open(directory)
        left.callback(maps.close)
        for name in RELAYS:
            log = tmp_path / f"{name}.log"
            device = topologies.load("leafspine").switch(name).device_id
            address = left.enter_context(switch(request.param, name, device, log))
            asyncio.run(install(name, device, address, program))
        yield h1, maps


def test_the_map_of_a_host_two_hops_on_has_it(row: tuple[socket.socket, PinnedMaps]) -> None:
    h1, maps = row
    topology = topologies.load("leafspine")
    # What h1 says in a switch's name ends at s1.
    forged = bytes(alarm(topology, LINK_DOWN))[:14]
    forged += bytes(datagram(Notification(**{**LINK_DOWN, "switch_id": 66}), to="10.0.2.1"))
    h1.send(forged)
    before = time.monotonic_ns()
    for times in (1, 2):
        h1.send(bytes(alarm(topology, {**LINK_DOWN, "severity": times})))
        eventually(lambda: [each.times for each in maps.notifications()] == [times])  # noqa: B023
    quality = {**LINK_DOWN, "type": NotificationType.PATH_QUALITY}
    h1.send(bytes(alarm(topology, quality, quality=5)))
    eventually(lambda: len(list(maps.notifications())) == 2)
    last, down = sorted(maps.notifications(), key=lambda each: -each.at_ns)
    said = {**LINK_DOWN, "severity": 2, "destination": 0x0A000201, "hops": 0, "switch_id": 1}
    assert {key: getattr(down, key) for key in said} == said
    assert (down.local, down.sequence, down.times) == ("10.0.2.1", 2, 2)
    assert before < down.at_ns < last.at_ns < time.monotonic_ns()
    assert (last.kind, last.body_bytes) == (NotificationType.PATH_QUALITY, 20)
    counts = maps.notification_counts()
    assert (counts.types, counts.malformed, counts.lost) == ({2: 2, 5: 1}, 0, 0)
