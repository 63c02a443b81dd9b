"""The bench on which p4src is tested: one in-process switch, or the whole default fabric.

What the switches hold is what the controller would install, so its logic is tested here too.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format
from scapy.layers.inet import IP
from scapy.layers.l2 import Ether
from scapy.packet import Packet

import topologies
from compiler import compile_p4
from controller.diff import Change, changes
from controller.entries import Entry
from controller.fabric_state import (
    FabricModel,
    LinkChanged,
    SwitchReady,
    Writes,
    desired_entries,
    step,
)
from controller.p4info import P4Info
from controller.policy import FabricPolicy
from controller.target_facts import TargetFacts
from softswitch import Switch
from softswitch.core import CoreConfig
from softswitch.p4runtime.protos import p4i
from topologies import Host, Topology

P4SRC = Path(__file__).parents[2] / "p4src"
CPU_PORT = 255
SETTLED_NS = 1_000_000  # far more than a packet needs where no rate is set


@dataclass(frozen=True)
class Program:
    """A compiled fabric.p4, whoever compiled it."""

    json_text: str
    p4info: p4i.P4Info

    @property
    def p4info_text(self) -> str:
        """P4Info as text protobuf."""
        return text_format.MessageToString(self.p4info)


@pytest.fixture(
    scope="session",
    params=["weft", pytest.param("p4c", marks=pytest.mark.reference("p4c-bm2-ss"))],
)
def fabric_program(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Program:
    """fabric.p4, compiled once by our compiler and, where it is installed, by p4c."""
    source = P4SRC / "fabric.p4"
    if request.param == "weft":
        result = compile_p4(source)
        return Program(result.json_text, result.p4info)
    folder = tmp_path_factory.mktemp("p4c")
    json_path, p4info_path = folder / "fabric.json", folder / "fabric.p4info.txtpb"
    outputs = ["-o", str(json_path), "--p4runtime-files", str(p4info_path)]
    command = ["p4c-bm2-ss", "--std", "p4-16", *outputs, str(source)]
    subprocess.run(command, check=True, capture_output=True)
    p4info = text_format.Parse(p4info_path.read_text(), p4i.P4Info())
    return Program(json_path.read_text(), p4info)


def new_switch(program: Program, **config: int) -> Switch:
    options = {"cpu_port": CPU_PORT, "priorities": 8, **config}
    return Switch.from_json(
        program.json_text.encode(), program.p4info, config=CoreConfig(**options)
    )


class Bench:
    """One switch: send frames, expect exactly the frames that must come out, read counters."""

    def __init__(self, switch: Switch, p4info: P4Info, name: str, topology: Topology) -> None:
        self.switch = switch
        self.p4info = p4info
        self.me = topology.switch(name)
        self.topology = topology
        self.pending: list[tuple[int, bytes]] = []

    def host(self, name: str) -> Host:
        return self.topology.host(name)

    def apply(self, updates: tuple[Change, ...]) -> None:
        self.switch.write([change.encode(self.p4info) for change in updates])

    def install(self, *entries: Entry) -> None:
        self.apply(changes(entries, (), self.p4info))

    def apply_delete(self, *entries: Entry) -> None:
        """Take entries away that are there."""
        self.apply(changes((), entries, self.p4info))

    def send(self, port: int, *frames: Packet | bytes) -> None:
        """Frames arrive at a port back to back."""
        for frame in frames:
            self.switch.inject(port, bytes(frame))
        self.settle()

    def settle(self, ns: int = SETTLED_NS) -> None:
        outputs = self.switch.run_until(self.switch.now_ns + ns)
        self.pending += [(output.port, output.packet) for output in outputs]

    def take(self, port: int) -> list[bytes]:
        """Everything that has left by a port since the last look."""
        taken = [frame for at, frame in self.pending if at == port]
        self.pending = [(at, frame) for at, frame in self.pending if at != port]
        return taken

    def expect(self, port: int, *frames: Packet | bytes) -> None:
        """Check that these frames and no others have left, all by this port."""
        assert [at for at, _ in self.pending] == [port] * len(frames)
        for got, wanted in zip(self.take(port), frames, strict=True):
            assert got == bytes(wanted), show(got, bytes(wanted))

    def expect_nothing(self) -> None:
        assert self.pending == []
        assert self.switch.packet_ins == []

    def rx(self, port: int) -> tuple[int, int]:
        """(packets, bytes) that a port received."""
        return self.switch.counter_read("port_rx", port)

    def tx(self, port: int) -> tuple[int, int]:
        return self.switch.counter_read("port_tx", port)

    def dropped(self) -> dict[int, int]:
        """Packets dropped in ingress, by DropReason; reasons without any are left out."""
        counts = {i: self.switch.counter_read("dropped", i)[0] for i in range(16)}
        return {reason: packets for reason, packets in counts.items() if packets}


def show(got: bytes, wanted: bytes) -> str:
    """Both frames as scapy reads them, for a failing test's output."""
    return f"\n--- got\n{Ether(got).show2(dump=True)}\n--- wanted\n{Ether(wanted).show2(dump=True)}"


def model_of(p4info: P4Info, topology: Topology, policy: FabricPolicy) -> FabricModel:
    """Return a fabric of eight queues a port, with all mechanisms."""
    return FabricModel(topology, p4info, TargetFacts(priorities=8, clone_classes=True), policy)


class Network:
    """All switches of a topology, joined by wires without delay; the tests are its hosts."""

    def __init__(self, program: Program, topology: Topology, policy: FabricPolicy) -> None:
        self.topology = topology
        p4info = P4Info(program.p4info)
        self.model = model_of(p4info, topology, policy)
        self.switches = {
            switch.name: Bench(new_switch(program), p4info, switch.name, topology)
            for switch in topology.switches
        }
        for name in self.switches:
            self.model, writes = step(self.model, SwitchReady(name, ()), now=0)
            self.apply(writes)

    def apply(self, writes: Writes) -> None:
        for name, updates in writes.items():
            self.switches[name].apply(updates)

    def set_link(self, a: str, port: int, up: bool) -> Writes:
        """Tell the controller's logic of a link and write what it answers."""
        change = LinkChanged(self.topology.link_at(a, port), up)
        self.model, writes = step(self.model, change, now=0)
        self.apply(writes)
        return writes

    def send(self, host: str, *frames: Packet | bytes) -> None:
        at = self.topology.host(host)
        for frame in frames:
            self.switches[at.switch].switch.inject(at.port, bytes(frame))

    def settle(self) -> dict[str, list[bytes]]:
        """Run until nothing moves any more; return the frames that reached each host."""
        arrived: dict[str, list[bytes]] = {host.name: [] for host in self.topology.hosts}
        moved = True
        while moved:
            moved = False
            for name, bench in self.switches.items():
                bench.settle()
                for port, frame in bench.pending:
                    peer = self.topology.peer(name, port)
                    moved = True
                    if self.topology.is_switch(peer.node):
                        self.switches[peer.node].switch.inject(peer.port, frame)
                    else:
                        arrived[peer.node].append(frame)
                bench.pending = []
        return arrived


@pytest.fixture
def topology() -> Topology:
    return topologies.load("leafspine")


@pytest.fixture
def policy() -> FabricPolicy:
    """Return what the operator chose.

    Tests override it by indirect parametrisation or a fixture.
    """
    return FabricPolicy()


def bench_of(program: Program, name: str, topology: Topology, policy: FabricPolicy) -> Bench:
    p4info = P4Info(program.p4info)
    bench = Bench(new_switch(program), p4info, name, topology)
    model = model_of(p4info, topology, policy)
    bench.install(*desired_entries(model, name))
    return bench


@pytest.fixture
def leaf(fabric_program: Program, topology: Topology, policy: FabricPolicy) -> Iterator[Bench]:
    """s1 of the default fabric with the controller's entries."""
    bench = bench_of(fabric_program, "s1", topology, policy)
    yield bench
    bench.switch.close()


@pytest.fixture
def network(fabric_program: Program, topology: Topology, policy: FabricPolicy) -> Iterator[Network]:
    """Yield the whole default fabric with the controller's entries."""
    network = Network(fabric_program, topology, policy)
    yield network
    for bench in network.switches.values():
        bench.switch.close()


def routed_once(frame: Packet, src_mac: str, dst_mac: str) -> Packet:
    """Return the frame as the next node must see it: MAC addresses, TTL and IPv4 checksum, no
    more.
    """
    after = frame.copy()
    after.src, after.dst = src_mac, dst_mac
    after[IP].ttl -= 1
    del after[IP].chksum
    return after


@pytest.fixture
def routed() -> Any:
    return routed_once
