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

from compiler import compile_p4
from softswitch.core import CoreConfig, OutputKind, SwitchCore
from softswitch.device import Device
from softswitch.p4runtime import protos
from softswitch.p4runtime.names import Names
from softswitch.p4runtime.pipeline import read_p4info
from softswitch.p4runtime.protos import p4r
from softswitch.p4runtime.server import P4RuntimeServer
from softswitch.p4runtime.service import P4RuntimeService

PROGRAM = Path(__file__).resolve().parent / "programs" / "change.p4"
GOLDEN = Path(__file__).resolve().parent.parent / "golden"
CPU_PORT = 255
DEVICE_ID = 3
MS = 1_000_000_000  # in ps
TIMEOUT_S = 60.0

p4r_grpc: Any = importlib.import_module(f"{protos.PACKAGE}.p4.v1.p4runtime_pb2_grpc")
Action = p4r.SetForwardingPipelineConfigRequest
INSERT, MODIFY = p4r.Update.INSERT, p4r.Update.MODIFY


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
        """Arbitrate; return the status code that comes back."""
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
    """Return a function that opens clients, not yet arbitrated: connect(election_id=1, role="")."""
    clients: list[Client] = []

    def open_client(election_id: int | None = 1, role: str = "") -> Client:
        channel = grpc.insecure_channel(f"127.0.0.1:{running.server.port}")
        clients.append(Client(channel, election_id, role))
        return clients[-1]

    yield open_client
    for client in clients:
        client.close()


@pytest.fixture
def client_of() -> Iterator[Callable[[str], Client]]:
    """Return a function that makes the primary of a server: client_of("127.0.0.1:9559")."""
    clients: list[Client] = []

    def open_client(address: str) -> Client:
        clients.append(Client(grpc.insecure_channel(address)))
        assert clients[-1].arbitrate() == 0
        return clients[-1]

    yield open_client
    for client in clients:
        client.close()


@pytest.fixture
def client(connect: Connect) -> Client:
    """Return the primary of the default role."""
    client = connect()
    assert client.arbitrate() == 0
    return client


@pytest.fixture
def running() -> Iterator[Running]:
    running = Running()
    yield running
    running.server.stop(0)
    running.core.close()


# --- one program in several editions (programs/change.p4) -----------------------------------------

Edition = Callable[..., p4r.ForwardingPipelineConfig]


@pytest.fixture(scope="session")
def edition() -> Edition:
    """Return a function for the config of an edition of the program: edition("MORE", "CELLS=4")."""
    made: dict[tuple[str, ...], p4r.ForwardingPipelineConfig] = {}

    def make(*defines: str) -> p4r.ForwardingPipelineConfig:
        if defines not in made:
            result = compile_p4(PROGRAM, defines=defines)
            config = p4r.ForwardingPipelineConfig(p4_device_config=result.json_text.encode())
            config.p4info.CopyFrom(result.p4info)
            made[defines] = config
        return made[defines]

    return make


class Changing:
    """A switch that runs the first edition, and its controller."""

    def __init__(self, client: Client, running: Running, edition: Edition) -> None:
        self.client, self.running, self.edition = client, running, edition
        self.push()

    def push(self, *defines: str, action: Any = Action.VERIFY_AND_COMMIT) -> None:
        self.client.push(self.edition(*defines), action)

    @property
    def names(self) -> Names:
        """Of the edition that runs."""
        assert self.running.device.pipeline is not None
        return Names(self.running.device.pipeline.schema)

    def frame(self, dst: int, src: int = 1, kind: int = 0x800) -> bytes:
        head = dst.to_bytes(6, "big") + src.to_bytes(6, "big") + kind.to_bytes(2, "big")
        return head + bytes(46)

    def sent(self, port: int, data: bytes) -> list[int]:
        """Return the ports where a frame leaves that arrives at `port`."""
        self.running.sent.clear()
        self.running.arrive(port, data)
        return sorted(where for where, _ in self.running.sent)

    def forward(self, dst: int, port: int) -> p4r.TableEntry:
        return self.names.entry("I.forward", {"dst": dst}, "I.to_port", {"port": port})

    def acl(self, src: int, action: str, priority: int = 5) -> p4r.TableEntry:
        return self.names.entry("I.acl", {"src": (src, 0xFF)}, action, {}, priority=priority)

    def by_action(self, name: str) -> p4r.TableEntry:
        """Select the entries of `forward` with an action."""
        query = self.names.key("I.forward", {})
        query.action.action.action_id = self.names.action(name).action_id
        return query

    def by_metadata(self, value: int) -> p4r.TableEntry:
        """Select the entries of `forward` with a controller's metadata."""
        query = self.names.key("I.forward", {})
        query.controller_metadata = value
        return query

    def populate(self) -> None:
        """Write one or more of each entity that the program can have."""
        client, names = self.client, self.names
        entry = self.forward(0xA, 2)
        entry.idle_timeout_ns = 50_000_000
        entry.controller_metadata = 77
        entry.meter_config.cir = entry.meter_config.pir = 1
        entry.meter_config.cburst = entry.meter_config.pburst = 100
        client.write(INSERT, table_entry=entry)
        group = names.entry("I.forward", {"dst": 0xB}, "I.to_group", {"group": 7})
        client.write(INSERT, table_entry=group)
        client.write(INSERT, table_entry=self.acl(1, "I.mirror"))
        client.write(INSERT, table_entry=self.acl(2, "I.learn", priority=6))
        client.write(MODIFY, table_entry=names.entry("I.acl", None, "I.learn"))
        for member in (9, 3, 5):
            message = p4r.ActionProfileMember(
                action_profile_id=names.profile_id("I.uplinks"), member_id=member
            )
            message.action.CopyFrom(names.action("I.to_port", {"port": member}))
            client.write(INSERT, action_profile_member=message)
        selector = p4r.ActionProfileGroup(
            action_profile_id=names.profile_id("I.uplinks"), group_id=1, max_size=16
        )
        for member in (3, 5):
            selector.members.add(member_id=member, weight=2)
        client.write(INSERT, action_profile_group=selector)
        balance = names.entry("I.balance", {"hdr.ethernet.type": 0x8888}, group=1)
        client.write(INSERT, table_entry=balance)
        pre = p4r.PacketReplicationEngineEntry()
        pre.multicast_group_entry.multicast_group_id = 7
        pre.multicast_group_entry.replicas.add(egress_port=3, instance=1)
        pre.multicast_group_entry.replicas.add(egress_port=4, instance=1)
        client.write(INSERT, packet_replication_engine_entry=pre)
        session = p4r.PacketReplicationEngineEntry()
        session.clone_session_entry.session_id = 5
        session.clone_session_entry.replicas.add(egress_port=6, instance=1)
        client.write(INSERT, packet_replication_engine_entry=session)
        digest = p4r.DigestEntry(digest_id=names.digest_id("seen_t"))
        digest.config.ack_timeout_ns = 10**12
        client.write(INSERT, digest_entry=digest)
        meter = p4r.MeterEntry(meter_id=names.meter_id("I.limits"), index=p4r.Index(index=3))
        meter.config.cir = meter.config.pir = 1
        meter.config.cburst = meter.config.pburst = 2
        client.write(MODIFY, meter_entry=meter)

    def dump(self) -> list[p4r.Entity]:
        """Everything that can be read, counters, meters' rates and registers included."""
        client = self.client
        found = client.read(table_entry=p4r.TableEntry(table_id=0))
        found += client.read(action_profile_member=p4r.ActionProfileMember())
        found += client.read(action_profile_group=p4r.ActionProfileGroup())
        for kind in ("multicast_group_entry", "clone_session_entry"):
            pre = p4r.PacketReplicationEngineEntry()
            getattr(pre, kind).SetInParent()
            found += client.read(packet_replication_engine_entry=pre)
        found += client.read(digest_entry=p4r.DigestEntry())
        found += client.read(meter_entry=p4r.MeterEntry())
        found += client.read(register_entry=p4r.RegisterEntry())
        found += client.read(counter_entry=p4r.CounterEntry())
        return found + client.read(direct_counter_entry=p4r.DirectCounterEntry(table_entry={}))


@pytest.fixture
def changing(client: Client, running: Running, edition: Edition) -> Changing:
    return Changing(client, running, edition)
