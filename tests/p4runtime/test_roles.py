"""Controllers of several roles on one switch, through raw stubs over TCP.

stub (default role)  --TCP--> server - device
stub (role "acl")    --TCP-->   config: the acl table, packets from port 1
stub (role "any")    --TCP-->   no config: everything
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from softswitch.p4runtime.names import Names
from softswitch.p4runtime.protos import p4r, rpc_status, stratum

if TYPE_CHECKING:
    from conftest import Client, Connect, Running

MS = 1_000_000_000  # in ps
INSERT, DENIED = p4r.Update.INSERT, grpc.StatusCode.PERMISSION_DENIED
FRAME = bytes.fromhex(
    "0a000000001102cc00000001080045000028000100004011aec10a010001c00002010fa0138800147eab"
    "68656c6c6f20776f726c6421"
)


@pytest.fixture
def names(client: Client, running: Running) -> Names:
    client.set_config("features")
    assert running.device.pipeline is not None
    return Names(running.device.pipeline.schema)


@pytest.fixture
def acl_role(connect: Connect, names: Names) -> Client:
    client = connect(1, role="acl")
    config = stratum.P4RoleConfig(
        exclusive_p4_ids=[names.table("FabricIngress.acl").id],
        shared_p4_ids=[names.digest_id("flow_digest_t")],
        receives_packet_ins=True,
    )
    config.packet_in_filter.metadata_id = 1
    config.packet_in_filter.value = b"\1"
    assert client.arbitrate(role_config=config) == 0
    return client


def acl(names: Names, source: str, action: str = "FabricIngress.to_cpu") -> p4r.TableEntry:
    match: Any = {"hdr.ipv4.src": (source, 16), "hdr.ipv4.$valid$": 1}
    return names.entry("FabricIngress.acl", match, action, priority=10)


def counter(names: Names) -> p4r.CounterEntry:
    info = names.schema.p4info.counters[0]
    return p4r.CounterEntry(counter_id=info.preamble.id, index=p4r.Index(index=0))


def codes_of(call: Callable[[], object]) -> list[int]:
    """Return the code of each update of a Write that fails."""
    with pytest.raises(grpc.RpcError) as refused:
        call()
    trailer = dict(refused.value.trailing_metadata())["grpc-status-details-bin"]
    codes = []
    for detail in rpc_status.Status.FromString(trailer).details:
        error = p4r.Error()
        assert detail.Unpack(error)
        codes.append(error.canonical_code)
    return codes


def multicast() -> p4r.Entity:
    entity = p4r.Entity()
    group = entity.packet_replication_engine_entry.multicast_group_entry
    group.multicast_group_id = 9
    group.replicas.add(egress_port=1, instance=1)
    return entity


def test_a_role_writes_only_what_is_its(acl_role: Client, names: Names) -> None:
    updates = [
        p4r.Update(type=INSERT, entity=p4r.Entity(table_entry=acl(names, "10.1.0.0"))),
        p4r.Update(type=p4r.Update.MODIFY, entity=p4r.Entity(counter_entry=counter(names))),
        p4r.Update(type=INSERT, entity=multicast()),
        p4r.Update(type=INSERT, entity=p4r.Entity(table_entry=acl(names, "10.2.0.0"))),
    ]
    assert codes_of(lambda: acl_role.write_all(updates)) == [0, 7, 7, 0]
    assert len(acl_role.read(table_entry=p4r.TableEntry())) == 2
    whole = p4r.WriteRequest.ROLLBACK_ON_ERROR
    updates[0].entity.table_entry.priority = updates[3].entity.table_entry.priority = 11
    assert codes_of(lambda: acl_role.write_all(updates, whole)) == [10, 7, 7, 10]
    assert len(acl_role.read(table_entry=p4r.TableEntry())) == 2


def test_a_role_reads_only_what_is_its(client: Client, acl_role: Client, names: Names) -> None:
    client.write(INSERT, table_entry=acl(names, "10.1.0.0"))
    hop = names.entry("FabricIngress.balance.group", {"meta.vrf": 1})
    item = hop.action.action_profile_action_set.action_profile_actions.add(weight=1)
    item.action.CopyFrom(names.action("FabricIngress.balance.forward", {"port": 1, "mac": 1}))
    client.write(INSERT, table_entry=hop)
    own = 3  # constant entries of the program
    assert len(client.read(table_entry=p4r.TableEntry())) == own + 2
    assert len(acl_role.read(table_entry=p4r.TableEntry())) == 1
    assert acl_role.read(counter_entry=counter(names)) == []


def test_a_pipeline_needs_the_permission(connect: Connect, acl_role: Client, names: Names) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        acl_role.set_config("l3")
    assert refused.value.code() is DENIED
    pusher = connect(1, role="pusher")
    assert pusher.arbitrate(role_config=stratum.P4RoleConfig(can_push_pipeline=True)) == 0
    pusher.set_config("l3")


def test_packet_ins_go_to_each_primary_that_takes_them(
    client: Client, connect: Connect, acl_role: Client, names: Names, running: Running
) -> None:
    anyone, deaf = connect(1, role="any"), connect(1, role="deaf")
    assert anyone.arbitrate() == 0
    assert deaf.arbitrate(role_config=stratum.P4RoleConfig()) == 0
    client.write(INSERT, table_entry=acl(names, "10.1.0.0"))
    for port in (2, 1):
        running.arrive(port, FRAME)
    ports = {
        who: [receiver.receive().packet.metadata[0].value for _ in range(n)]
        for who, receiver, n in (("all", client, 2), ("any", anyone, 2), ("acl", acl_role, 1))
    }
    assert ports == {"all": [b"\2", b"\1"], "any": [b"\2", b"\1"], "acl": [b"\1"]}
    deaf.send(digest_ack=p4r.DigestListAck(digest_id=names.digest_id("flow_digest_t")))
    assert deaf.receive().error.canonical_code == 7  # the first message that it gets


def test_idle_notices_and_digests_follow_the_scope(
    client: Client, connect: Connect, acl_role: Client, names: Names, running: Running
) -> None:
    other = connect(1, role="other")
    assert other.arbitrate(role_config=stratum.P4RoleConfig(shared_p4_ids=[1])) == 0
    entry = acl(names, "10.1.0.0", "FabricIngress.learn")
    entry.idle_timeout_ns = 5_000_000
    client.write(INSERT, table_entry=entry)
    digest = p4r.DigestEntry(digest_id=names.digest_id("flow_digest_t"))
    acl_role.write(INSERT, digest_entry=digest)
    running.arrive(1, FRAME)
    running.tick(6 * MS)
    for receiver in (client, acl_role):
        assert receiver.receive().digest.digest_id == digest.digest_id
        notice = receiver.receive().idle_timeout_notification
        assert [e.table_id for e in notice.table_entry] == [entry.table_id]
    other.send(packet=p4r.PacketOut(payload=FRAME, metadata=[p4r.PacketMetadata(metadata_id=99)]))
    assert other.receive().HasField("error")  # the first message that it gets


def test_a_backup_becomes_primary_and_writes(
    client: Client, connect: Connect, names: Names
) -> None:
    """The classic hand-over: read as a backup, take over, the old one is told and refused."""
    backup = connect(0)
    assert backup.arbitrate() == 6
    client.write(INSERT, table_entry=acl(names, "10.1.0.0"))
    assert len(backup.read(table_entry=names.key("FabricIngress.acl", {}))) == 1
    with pytest.raises(grpc.RpcError) as refused:
        backup.write(INSERT, table_entry=acl(names, "10.2.0.0"))
    assert refused.value.code() is DENIED
    assert backup.arbitrate(5) == 0
    assert client.receive().arbitration.status.code == 6
    backup.write(INSERT, table_entry=acl(names, "10.2.0.0"))
    with pytest.raises(grpc.RpcError) as refused:
        client.write(INSERT, table_entry=acl(names, "10.3.0.0"))
    assert refused.value.code() is DENIED
    backup.close()
    assert client.receive().arbitration.status.code == 5
    assert client.arbitrate(5) == 0
    client.write(INSERT, table_entry=acl(names, "10.3.0.0"))


def test_without_a_stream_a_role_does_not_exist(client: Client) -> None:
    request = p4r.ReadRequest(device_id=3, role="nobody")
    with pytest.raises(grpc.RpcError) as refused:
        list(client.stub.Read(request))
    assert refused.value.code() is grpc.StatusCode.NOT_FOUND
