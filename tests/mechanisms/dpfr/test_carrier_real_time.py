"""Carrier in real time: switch processes on veth pairs, whose interfaces `ip link` takes down.

s3    s4        two spines; s3's interface to s1 goes down, then s1's to h1
| \\  / |
s1    s2        two leaves, two hosts each: h1 and h2 behind s1, h3 and h4 behind s2

A silent link is dead after twenty seconds here (250 periods of 80 ms), one without carrier at once.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import topologies
from compiler import compile_p4
from controller import CompiledProgram
from emulation import proofs, run_state
from emulation.session import Session
from emulation.switch_node import Target
from hostagent import pins
from hostagent.notifications import Heard
from hostagent.pinned_maps import PinnedMaps
from mechanisms import registry
from mechanisms.dpfr.counters import DPFR
from mechanisms.program import FABRIC
from protocols.notification_types import NotificationType
from topologies.model import Endpoint

pytestmark = [pytest.mark.root, pytest.mark.realtime]

PERIOD_S, MISSES = 0.08, 250
TOPOLOGY = f"""\
time_scale: 10000
generator: leaf_spine
spines: 2
leaves: 2
hosts_per_leaf: 2
link: {{rate: 400Gbps, delay: 500ns, queue: 1MB, mtu: 2200B}}
dpfr: {{period: 8us, misses: {MISSES}, hold: 8}}
"""
PATIENCE_S = 60.0
PORT = 7777
SEND = f"""
import socket, sys, time
mouth = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while True:
    mouth.sendto(b"numbers", (sys.argv[1], {PORT}))
    time.sleep(0.01)
"""


class Fabric:
    """A fabric that is up, with what its switches have counted."""

    def __init__(self) -> None:
        self.session = Session(topologies.loads(TOPOLOGY), Target.SOFTSWITCH)

    def up(self) -> None:
        topology = self.session.topology
        self.session.claim()
        self.session.build_network()
        self.session.wait_for_switches()
        program = compile_p4(FABRIC, defines=registry.defines(topology))
        self.session.bring_up(CompiledProgram.of(program))
        self.session.host_agent_outcome()

    def port(self, switch: str, to: str) -> int:
        ports = self.session.topology.ports_of(switch)
        return next(port.number for port in ports if port.peer.node == to)

    def counts(self, switch: str, to: str) -> dict[str, int]:
        cells = DPFR.cells(self.port(switch, to))
        packets = self.session.controller.read_cells(DPFR.name, {switch: list(cells)})[switch]
        return {outcome: packets[index] for index, outcome in cells.items()}

    def ip_link(self, end: Endpoint, state: str) -> None:
        network = self.session.network
        inside = [] if self.session.topology.is_switch(end.node) else [
            "ip", "netns", "exec", network.namespace_name(end.node)
        ]  # fmt: skip
        name = network.interface_name(end.node, end.port)
        subprocess.run([*inside, "ip", "link", "set", "dev", name, state], check=True)

    @contextmanager
    def sending(self, host: str, to: str) -> Iterator[None]:
        """Datagrams from one host to another, a hundred a second, for the block."""
        namespace = self.session.network.namespace_name(host)
        address = str(self.session.topology.host(to).address.ip)
        command = ["ip", "netns", "exec", namespace, sys.executable, "-c", SEND, address]
        process = subprocess.Popen(command)
        try:
            yield
        finally:
            process.kill()
            process.wait()

    def notified(self, host: str) -> list[Heard]:
        """Return the notifications that the kernel of a host has kept."""
        maps = PinnedMaps.open(pins.pins_of(self.session.run.name))
        try:
            address = int(self.session.topology.host(host).address.ip)
            return [each for each in maps.notifications() if each.local_ip == address]
        finally:
            maps.close()


def until(holds: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.01)


@pytest.fixture(scope="module")
def fabric(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fabric]:
    root: Path = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(run_state.RUN_ROOT_VARIABLE, str(root / "run"))
        patch.setenv(run_state.LOG_ROOT_VARIABLE, str(root / "log"))
        made = Fabric()
        try:
            made.up()
            yield made
        finally:
            made.session.close()


def test_a_link_without_carrier_is_dead_long_before_heartbeats_would_say_so(
    fabric: Fabric,
) -> None:
    """Silence takes MISSES periods, twenty seconds. Then it is held down, and used again."""
    far = Endpoint("s3", fabric.port("s3", "s1"))
    with fabric.sending("h1", "h3"):
        began = time.monotonic()
        fabric.ip_link(far, "down")
        ends = (("s1", "s3"), ("s3", "s1"))
        until(lambda: all(fabric.counts(*end)["went_down"] for end in ends), "dead at both ends")
        took = time.monotonic() - began
        for end in ends:
            counts = fabric.counts(*end)
            assert (counts["lost_carrier"], counts["went_down"], counts["came_up"]) == (1, 1, 0)
        assert took < (MISSES - 1) * PERIOD_S
        until(lambda: fabric.counts("s2", "s3")["masked"] > 0, "s3's notification at s2")
        assert proofs.all_pairs_ping(fabric.session).ok  # the controller does not know of it
        fabric.ip_link(far, "up")
        until(lambda: all(fabric.counts(*end)["came_up"] for end in ends), "used again")
    for end in ends:
        counts = fabric.counts(*end)
        assert (counts["lost_carrier"], counts["went_down"], counts["came_up"]) == (1, 1, 1)


def test_senders_are_notified_of_a_host_whose_port_dies(fabric: Fabric) -> None:
    """h2 behind the same leaf and h3 behind another one; h4, which sends h1 nothing, is not."""
    topology, gone = fabric.session.topology, Endpoint("h1", 0)
    address = int(topology.host("h1").address.ip)
    with fabric.sending("h2", "h1"), fabric.sending("h3", "h1"), fabric.sending("h4", "h3"):
        fabric.ip_link(gone, "down")
        for host in ("h2", "h3"):
            until(lambda: bool(fabric.notified(host)), f"a notification at {host}")  # noqa: B023
            (heard,) = fabric.notified(host)
            assert heard.kind is NotificationType.LINK_DOWN
            assert (heard.destination, heard.destination_qp) == (address, 0)
            assert (heard.switch_id, heard.port) == (1, fabric.port("s1", "h1"))
            assert (heard.severity, heard.hops, heard.validity) == (15, 0, 7)
        assert fabric.notified("h4") == []
        assert fabric.counts("s1", "h1")["lost_carrier"] == 1
        fabric.ip_link(gone, "up")

        def unplugged() -> int:
            return fabric.counts("s1", "h1")["unplugged"]

        def passes() -> bool:
            before = unplugged()
            time.sleep(0.1)
            return unplugged() == before

        until(passes, "packets go to h1 again")
