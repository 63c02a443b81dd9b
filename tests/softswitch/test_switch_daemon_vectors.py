"""BMv2's recorded answers once more, through the whole daemon: TCP, packet sockets, real time.

    port n: [softswitch] we<n>s ---veth--- we<n>h [this test]      controller: gRPC over TCP

Cases that need an order, exact gaps or a long wait are left to the in-process switch.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import queue
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from softswitch.diagnostics import DiagnosticsClient
from softswitch.p4runtime import protos
from softswitch.p4runtime.named_updates import NamedUpdates
from softswitch.p4runtime.names import Names
from softswitch.p4runtime.pipeline import prepare_program, read_p4info
from softswitch.p4runtime.protos import p4r
from softswitch.p4runtime.schema import bind
from tests.softswitch import vectors

DEADLINE_S = 60.0
ETH_P_ALL = 3
QUIET_S = 0.02
"""How long nothing may come after what was expected; a packet needs some 50 us."""

p4r_grpc: Any = importlib.import_module(f"{protos.PACKAGE}.p4.v1.p4runtime_pb2_grpc")


class Bench:
    """A daemon with the recording's ports, and its controller."""

    def __init__(self, program: str, ready: Path, hosts: dict[int, socket.socket]) -> None:
        self.hosts = hosts
        self.data = vectors.recording(program)
        ports = [word for n in hosts for word in ("-i", f"{n}@{_interface(n, 's')}")]
        target = ["--grpc-server-addr", "127.0.0.1:0", "--ready-file", str(ready)]
        target += ["--cpu-port", str(self.data["cpu_port"])]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "softswitch", "--no-p4", *ports, "--", *target],
            stdout=subprocess.DEVNULL,
        )
        try:
            self._connect(program, ready)
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise

    def _connect(self, program: str, ready: Path) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not ready.exists():
            assert self.process.poll() is None and time.monotonic() < deadline
            time.sleep(0.005)
        address = ready.read_text().split()[1]
        self.diagnostics = DiagnosticsClient(address)
        self.channel = grpc.insecure_channel(address)
        self.stub = p4r_grpc.P4RuntimeStub(self.channel)
        self.outgoing: queue.SimpleQueue[p4r.StreamMessageRequest | None] = queue.SimpleQueue()
        self.incoming: queue.SimpleQueue[p4r.StreamMessageResponse] = queue.SimpleQueue()
        self._stream = self.stub.StreamChannel(iter(self.outgoing.get, None))
        arbitration = p4r.MasterArbitrationUpdate()
        arbitration.election_id.low = 1
        self.outgoing.put(p4r.StreamMessageRequest(arbitration=arbitration))
        assert next(self._stream).arbitration.status.code == 0
        threading.Thread(target=self._receive, daemon=True).start()
        self.names = self._load(program)
        self.entities = NamedUpdates(self.names)
        for update in self.data["setup"]:
            self.write(update)

    def _load(self, program: str) -> Names:
        request = p4r.SetForwardingPipelineConfigRequest(
            action=p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT
        )
        request.election_id.low = 1
        info = read_p4info(vectors.GOLDEN / f"{program}.p4info.txtpb")
        request.config.p4info.CopyFrom(info)
        request.config.p4_device_config = (vectors.GOLDEN / f"{program}.json").read_bytes()
        self.stub.SetForwardingPipelineConfig(request)
        model, _ = prepare_program(request.config.p4_device_config)
        return Names(bind(info, model))

    def _receive(self) -> None:
        try:
            for message in self._stream:
                self.incoming.put(message)
        except grpc.RpcError:
            pass  # the daemon or the test ended

    def write(self, update: Any) -> None:
        request = p4r.WriteRequest(updates=[self.entities.update(update)])
        request.election_id.low = 1
        self.stub.Write(request)

    def problems(self, case: Any) -> list[str]:
        """Run one case; what is not as recorded."""
        for update in case.get("before", ()):
            self.write(update)
        sent = [case["in"]] if isinstance(case["in"], dict) else case["in"]
        before = self._taken()
        for packet in sent:
            self._send(packet)
        self._wait_until_taken(before, sent)
        frames, packet_ins = self._collect(len(case["out"]), len(case.get("packet_in", ())))
        found = []
        for port in self.hosts:
            wanted = [w for w in case["out"] if w["port"] == port]
            found += vectors._frames(f"port {port}", frames[port], wanted)
        payloads = [packet.payload for packet in packet_ins]
        found += vectors._frames("packet-in", payloads, case.get("packet_in", ()))
        for update in case.get("after", ()):
            self.write(update)
        return found

    def _send(self, packet: Any) -> None:
        if "packet_out" in packet:
            out = packet["packet_out"]
            message = self.names.packet_out(bytes.fromhex(out["hex"]), out["metadata"])
            self.outgoing.put(p4r.StreamMessageRequest(packet=message))
        else:
            self.hosts[packet["port"]].send(bytes.fromhex(packet["hex"]))

    def _taken(self) -> tuple[int, int]:
        """How many frames the daemon has read so far, and how many packets have entered."""
        stats = self.diagnostics.switch_stats()
        return stats["loop"]["rx"], stats["switch"]["ingress"]

    def _wait_until_taken(self, before: tuple[int, int], sent: list[Any]) -> None:
        """Until what was sent has been through: what it meets must not change before."""
        frames = sum("packet_out" not in packet for packet in sent)
        deadline = time.monotonic() + DEADLINE_S
        while True:
            rx, ingress = self._taken()
            if rx >= before[0] + frames and ingress >= before[1] + len(sent):
                return
            assert time.monotonic() < deadline, f"{sent} has not been taken"

    def _collect(
        self, wanted_frames: int, wanted_packets: int
    ) -> tuple[dict[int, list[bytes]], list[p4r.PacketIn]]:
        """Return what comes until all that is wanted is there, and in the quiet after that."""
        frames: dict[int, list[bytes]] = {port: [] for port in self.hosts}
        packets: list[p4r.PacketIn] = []
        deadline = time.monotonic() + DEADLINE_S
        quiet_since = time.monotonic()
        while time.monotonic() < deadline:
            before = sum(map(len, frames.values())) + len(packets)
            self._poll(frames, packets)
            count = sum(map(len, frames.values()))
            if count + len(packets) != before:
                quiet_since = time.monotonic()
            complete = count >= wanted_frames and len(packets) >= wanted_packets
            if complete and time.monotonic() - quiet_since > QUIET_S:
                break
        return frames, packets

    def _poll(self, frames: dict[int, list[bytes]], packets: list[p4r.PacketIn]) -> None:
        ports = {host: port for port, host in self.hosts.items()}
        for host in select.select(list(ports), [], [], QUIET_S / 4)[0]:
            frame, address = host.recvfrom(65536)
            if address[2] != socket.PACKET_OUTGOING:
                frames[ports[host]].append(frame)
        while not self.incoming.empty():
            message = self.incoming.get()
            match message.WhichOneof("update"):
                case "packet":
                    packets.append(message.packet)
                case "digest":
                    ack = p4r.DigestListAck(
                        digest_id=message.digest.digest_id, list_id=message.digest.list_id
                    )
                    self.outgoing.put(p4r.StreamMessageRequest(digest_ack=ack))

    def close(self) -> int:
        self.outgoing.put(None)
        self.channel.close()
        self.diagnostics.close()
        self.process.terminate()
        return self.process.wait(DEADLINE_S)


def _interface(port: int, end: str) -> str:
    return f"we{os.getpid() % 100000}p{port}{end}"


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def make_bench(tmp_path: Path) -> Iterator[Callable[[str], Bench]]:
    hosts: dict[int, socket.socket] = {}
    benches: list[Bench] = []

    def make(program: str) -> Bench:
        for port in vectors.recording(program)["ports"]:
            ours, theirs = _interface(port, "s"), _interface(port, "h")
            _ip("link", "add", ours, "type", "veth", "peer", "name", theirs)
            # Protocol 0: before it is bound a socket of all protocols hears every interface.
            hosts[port] = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            for name in (ours, theirs):
                _ip("link", "set", name, "addrgenmode", "none", "mtu", "9500", "up")
            hosts[port].bind((theirs, ETH_P_ALL))
        benches.append(Bench(program, tmp_path / "ready", hosts))
        return benches[-1]

    try:
        yield make
    finally:
        for bench in benches:
            if bench.process.poll() is None:
                bench.process.kill()
                bench.process.wait()
        for port, host in hosts.items():
            host.close()
            subprocess.run(["ip", "link", "del", _interface(port, "s")], check=False)


def _cases(program: str) -> list[Any]:
    """Cases that depend on no others, nor on gaps or waits that a busy machine can't keep."""
    hard = ("sequence", "idle_timeout", "timing")
    return [c for c in vectors.recording(program)["cases"] if not any(key in c for key in hard)]


@pytest.mark.root
@pytest.mark.parametrize("program", vectors.PROGRAMS)
def test_the_daemon_answers_as_recorded(program: str, make_bench: Callable[[str], Bench]) -> None:
    bench = make_bench(program)
    answers = {case["name"]: bench.problems(case) for case in _cases(program)}
    assert {name: problems for name, problems in answers.items() if problems} == {}
    assert bench.close() == 0
