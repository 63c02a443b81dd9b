"""A switch behind a P4Runtime server on a free TCP port, whose time the test moves."""

from __future__ import annotations

import importlib
import queue
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message

from softswitch.core import CoreConfig, OutputKind, SwitchCore
from softswitch.device import Device
from softswitch.p4runtime import protos
from softswitch.p4runtime.pipeline import read_p4info
from softswitch.p4runtime.protos import p4r
from softswitch.p4runtime.server import P4RuntimeServer
from softswitch.p4runtime.service import P4RuntimeService

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
CPU_PORT = 255
DEVICE_ID = 3
MS = 1_000_000_000  # in ps
TIMEOUT_S = 20.0

p4r_grpc: Any = importlib.import_module(f"{protos.PACKAGE}.p4.v1.p4runtime_pb2_grpc")
Action = p4r.SetForwardingPipelineConfigRequest


class Running:
    """A switch with its server; a packet-out moves time on by a millisecond."""

    def __init__(self) -> None:
        self.core = SwitchCore(CoreConfig(cpu_port=CPU_PORT))
        self.now_ps = 0
        self.sent: list[tuple[int, bytes]] = []
        self.device = Device(self.core, clock=lambda: self.now_ps)
        self.service = P4RuntimeService(
            self.device, DEVICE_ID, packet_out=self.packet_out, make_draft=self.make_draft
        )
        self.server = P4RuntimeServer(self.service, "127.0.0.1:0")
        self.server.start()

    def make_draft(self) -> Device:
        return Device(SwitchCore(CoreConfig(cpu_port=CPU_PORT)), clock=lambda: 0)

    def packet_out(self, data: bytes) -> None:
        self.arrive(CPU_PORT, data)

    def arrive(self, port: int, data: bytes) -> None:
        with self.service.lock:
            self.core.inject(port, data, self.now_ps)
            self.now_ps += MS
            self.core.advance(self.now_ps)
            for output in self.core.take_output(self.now_ps):
                if output.kind is OutputKind.PACKET:
                    self.sent.append((output.port, output.data))
                elif (message := self.device.notification(output)) is not None:
                    self.service.notify(message)

    def tick(self, ps: int) -> None:
        with self.service.lock:
            self.now_ps += ps
            for message in self.device.timers(self.now_ps):
                self.service.notify(message)


class Client:
    """A controller with an open stream."""

    def __init__(self, channel: grpc.Channel, election_id: int | None = 1, role: str = "") -> None:
        self.channel = channel
        self.stub = p4r_grpc.P4RuntimeStub(self.channel)
        self.election_id = election_id
        self.role = role
        self._outgoing: queue.SimpleQueue[p4r.StreamMessageRequest | None] = queue.SimpleQueue()
        self._stream = self.stub.StreamChannel(iter(self._outgoing.get, None), timeout=TIMEOUT_S)

    def send(self, **message: Any) -> None:
        self._outgoing.put(p4r.StreamMessageRequest(**message))

    def receive(self) -> p4r.StreamMessageResponse:
        return next(self._stream)

    def arbitrate(
        self,
        election_id: int | None = None,
        device_id: int = DEVICE_ID,
        role_config: Message | None = None,
    ) -> int:
        """Arbitrate; returns the status code that comes back."""
        update = p4r.MasterArbitrationUpdate(device_id=device_id)
        if self.role:
            update.role.name = self.role
        if role_config is not None:
            update.role.config.Pack(role_config)
        number = self.election_id if election_id is None else election_id
        if number is not None:
            update.election_id.low = number
            self.election_id = number
        self.send(arbitration=update)
        return self.receive().arbitration.status.code

    def set_config(
        self, program: str, action: Any = Action.VERIFY_AND_COMMIT, cookie: int = 0
    ) -> None:
        """SetForwardingPipelineConfig with a program of tests/golden; "": without a config."""
        config = None
        if program:
            config = p4r.ForwardingPipelineConfig(
                p4info=read_p4info(GOLDEN / f"{program}.p4info.txtpb"),
                p4_device_config=(GOLDEN / f"{program}.json").read_bytes(),
            )
            config.cookie.cookie = cookie
        self.push(config, action)

    def push(
        self, config: p4r.ForwardingPipelineConfig | None, action: Any = Action.VERIFY_AND_COMMIT
    ) -> None:
        request = p4r.SetForwardingPipelineConfigRequest(
            device_id=DEVICE_ID, action=action, config=config
        )
        self._sign(request)
        self.stub.SetForwardingPipelineConfig(request)

    def write(self, kind: Any, **entity: Any) -> None:
        self.write_all([p4r.Update(type=kind, entity=p4r.Entity(**entity))])

    def write_all(self, updates: list[p4r.Update], atomicity: Any = 0) -> None:
        request = p4r.WriteRequest(device_id=DEVICE_ID, updates=updates, atomicity=atomicity)
        self._sign(request)
        self.stub.Write(request)

    def read(self, **entity: Any) -> list[p4r.Entity]:
        request = p4r.ReadRequest(
            device_id=DEVICE_ID, role=self.role, entities=[p4r.Entity(**entity)]
        )
        return [e for response in self.stub.Read(request) for e in response.entities]

    def config(self, response_type: Any = 0) -> p4r.ForwardingPipelineConfig:
        request = p4r.GetForwardingPipelineConfigRequest(
            device_id=DEVICE_ID, response_type=response_type
        )
        return self.stub.GetForwardingPipelineConfig(request).config

    def close(self) -> None:
        self._outgoing.put(None)
        self._stream.cancel()
        self.channel.close()

    def _sign(self, request: Any) -> None:
        request.role = self.role
        if self.election_id is not None:
            request.election_id.low = self.election_id


Connect = Callable[..., Client]


@pytest.fixture
def connect(running: Running) -> Iterator[Connect]:
    """Opens clients: connect(election_id=1, role="") -> Client, not yet arbitrated."""
    clients: list[Client] = []

    def open_client(election_id: int | None = 1, role: str = "") -> Client:
        channel = grpc.insecure_channel(f"127.0.0.1:{running.server.port}")
        clients.append(Client(channel, election_id, role))
        return clients[-1]

    yield open_client
    for client in clients:
        client.close()


@pytest.fixture
def client(connect: Connect) -> Client:
    """The primary of the default role."""
    client = connect()
    assert client.arbitrate() == 0
    return client


@pytest.fixture
def running() -> Iterator[Running]:
    running = Running()
    yield running
    running.server.stop(0)
    running.core.close()
