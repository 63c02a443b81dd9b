"""fabric.p4 on running switches: BMv2 and our daemon do, frame for frame, what the in-process
switch does, down to the path that each flow is hashed to.

     this test -- veth -- ports 1 to 4 of s1 -- P4Runtime -- the controller's entries
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scapy.contrib.roce import BTH
from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption_NOP
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Packet, Raw

from controller import CompiledProgram, FabricPolicy, TargetFacts
from controller.diff import changes
from controller.fabric_state import FabricModel, desired_entries
from controller.session import SwitchSession
from tests.free_port import free_port

pytestmark = pytest.mark.root

PORTS = (1, 2, 3, 4)
CPU_PORT = 255
START_SECONDS = 60
QUIET_SECONDS = 60
PACKET_OUTGOING = 4
ETH_P_ALL = 3
NO_FACTS = TargetFacts()


def sentinel(port: int) -> bytes:
    """Return an ARP request that s1 answers out of the port it came by: the last frame of a run."""
    ask = ARP(hwsrc="02:00:00:00:00:99", psrc=f"10.0.1.{200 + port}", pdst="10.0.1.254")
    return bytes(Ether(src="02:00:00:00:00:99", dst="ff:ff:ff:ff:ff:ff") / ask)


def is_sentinels(frame: bytes) -> bool:
    return frame[:6] == bytes.fromhex("020000000099")


def frames(topology: Any) -> list[tuple[int, bytes]]:
    """Return the frames to send, by port: for all that the fabric does, and for what it drops."""
    h1, s1 = topology.host("h1"), topology.switch("s1")
    to_s1 = Ether(src=h1.mac, dst=s1.mac)

    def ip(dst: str, **fields: Any) -> Packet:
        return to_s1 / IP(src="10.0.1.1", dst=dst, **fields)

    who_has = ARP(hwsrc=h1.mac, psrc="10.0.1.1", pdst="10.0.1.2")
    one_each = [
        Ether(src=h1.mac, dst="ff:ff:ff:ff:ff:ff") / who_has,
        ip("10.0.1.2") / UDP() / Raw(bytes(1400)),
        ip("10.0.1.2", ttl=2) / TCP(),
        ip("10.0.1.2", ttl=1) / TCP(),
        ip("10.0.1.2", chksum=1) / UDP(),
        ip("10.0.1.2", options=[IPOption_NOP()] * 8) / UDP() / Raw(b"options"),
        ip("10.0.1.2", ihl=3) / UDP() / Raw(bytes(40)),
        ip("10.0.1.2", flags="MF") / UDP() / Raw(bytes(64)),
        ip("10.0.1.2", proto=99) / Raw(b"unknown"),
        ip("10.0.1.77") / UDP(),
        ip("10.0.1.254") / ICMP(id=1, seq=1) / Raw(b"ping"),
        ip("10.0.1.254") / UDP(),
        ip("10.0.2.1", tos=0xFF) / ICMP() / Raw(bytes(56)),
        Ether(src=h1.mac, dst="02:00:00:00:00:77") / IP(dst="10.0.1.2") / UDP(),
        Ether(src=h1.mac, dst=s1.mac, type=0x86DD) / Raw(bytes(60)),
    ]
    opcodes = (0x04, 0x06, 0x0C, 0x11)  # send, write, read, acknowledge
    flows = [
        ip("10.0.2.1") / UDP(sport=49152 + i) / BTH(opcode=opcodes[i % 4], psn=i) / Raw(bytes(80))
        for i in range(40)
    ]
    back = Ether(src=topology.switch("s3").mac, dst=s1.mac)
    down = [(3, bytes(back / IP(src="10.0.2.1", dst="10.0.1.1") / TCP(sport=80) / Raw(bytes(9))))]
    return [(1, bytes(frame)) for frame in one_each + flows] + down


class Wires:
    """veth pairs with names of this process: `ends` are ours, `names` the switch's."""

    def __init__(self) -> None:
        self.names = {port: f"wt{os.getpid()}s{port}" for port in PORTS}
        self.mine = {port: f"wt{os.getpid()}t{port}" for port in PORTS}
        self.ends: dict[int, socket.socket] = {}

    def __enter__(self) -> Wires:
        for port in PORTS:
            pair = [self.names[port], "type", "veth", "peer", "name", self.mine[port]]
            ip_command("link", "add", *pair)
            for name in (self.names[port], self.mine[port]):
                Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("1")
                ip_command("link", "set", name, "up", "promisc", "on")
            # Protocol 0 until it is bound: it would take frames of every interface meanwhile.
            end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            end.bind((self.mine[port], ETH_P_ALL))
            end.settimeout(QUIET_SECONDS)
            self.ends[port] = end
        return self

    def __exit__(self, *_: object) -> None:
        for end in self.ends.values():
            end.close()
        for name in self.names.values():
            with contextlib.suppress(subprocess.CalledProcessError):
                ip_command("link", "delete", name)

    def send(self, port: int, frame: bytes) -> None:
        self.ends[port].send(frame)

    def receive(self, port: int) -> bytes | None:
        """Return the next frame that the switch sent out of a port.

        None if it stays quiet for long.
        """
        while True:
            try:
                data, (_, _, kind, *_) = self.ends[port].recvfrom(65535)
            except TimeoutError:
                return None
            if kind != PACKET_OUTGOING:
                return data


def ip_command(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture(
    params=[
        "softswitch",
        pytest.param("bmv2", marks=pytest.mark.reference("simple_switch_grpc")),
    ]
)
def target(request: Any, tmp_path: Path) -> Iterator[tuple[Wires, str]]:
    """Run a switch with four veth ports; yield the wires and its P4Runtime address."""
    address = f"127.0.0.1:{free_port()}"
    with Wires() as wires, (tmp_path / "switch.log").open("wb") as log:
        ports = [word for port in PORTS for word in ("-i", f"{port}@{wires.names[port]}")]
        if request.param == "bmv2":
            command = ["simple_switch_grpc", "--thrift-port", str(free_port())]
        else:
            command = [sys.executable, "-m", "softswitch"]
        own = ["--grpc-server-addr", address, "--cpu-port", str(CPU_PORT)]
        process = subprocess.Popen(
            [*command, *ports, "--device-id", "1", "--no-p4", "--", *own],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            wait_for_listener(address, process, tmp_path / "switch.log")
            yield wires, address
        finally:
            process.terminate()
            process.wait(60)


def wait_for_listener(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    host, port = address.split(":")
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 0.1):
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.02)
    raise AssertionError(f"the switch does not listen on {address}: {log.read_text()}")


async def install(address: str, program: CompiledProgram, topology: Any) -> None:
    """Install the controller's program and entries of s1."""
    async with SwitchSession("s1", address, 1, program, timeout=START_SECONDS) as session:
        await session.set_pipeline()
        policy = FabricPolicy(class_of_dscp={})  # the targets' default is one queue a port
        model = FabricModel(topology, program.p4info, NO_FACTS, policy)
        await session.write(changes(desired_entries(model, "s1"), (), program.p4info))


def test_frame_for_frame_as_in_process(
    target: tuple[Wires, str], leaf: Any, topology: Any, fabric_program: Any
) -> None:
    wires, address = target
    program = CompiledProgram.of(fabric_program)
    asyncio.run(install(address, program, topology))
    passed = 0
    for port, frame in frames(topology):
        wires.send(port, frame)
        leaf.send(port, frame)
        # In step: BMv2 leaves frames that come close together lying until the next one comes.
        for out, wanted in leaf.pending:
            got = wires.receive(out)
            assert (got or b"").hex() == wanted.hex(), f"port {out}, after {Ether(frame).summary()}"
            passed += 1
        leaf.pending.clear()
    assert passed == 49  # of the 56 sent, 7 are dropped
    for port in PORTS:  # and nothing else has come out
        wires.send(port, sentinel(port))
        assert is_sentinels(wires.receive(port) or b"")
