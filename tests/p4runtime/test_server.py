"""P4Runtime over a real TCP socket: raw gRPC stubs on one side, our server on the other.

stub --TCP--> P4RuntimeServer - P4RuntimeService - Device - SwitchCore (time moved by the test)
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from softswitch.p4runtime import protos
from softswitch.p4runtime.names import Names
from softswitch.p4runtime.pipeline import read_p4info
from softswitch.p4runtime.protos import p4r, rpc_status
from softswitch.p4runtime.server import P4RuntimeServer, ServerError

if TYPE_CHECKING:
    from conftest import Client, Connect, Running

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
CPU_PORT = 255
DEVICE_ID = 3
MS = 1_000_000_000  # in ps
TIMEOUT_S = 60.0

p4r_grpc: Any = importlib.import_module(f"{protos.PACKAGE}.p4.v1.p4runtime_pb2_grpc")
Action = p4r.SetForwardingPipelineConfigRequest

FRAME = bytes.fromhex(
    "0a000000001102cc00000001080045000028000100004011aec10a010001c00002010fa0138800147eab"
    "68656c6c6f20776f726c6421"
)
PROBE_TO_CPU = bytes.fromhex(
    "0a000000001102cc00000001080045000028000100004011aeba0a080001c00002010fa0138800147ea4"
    "68656c6c6f20776f726c6421"
)


@pytest.fixture
def l3(client: Client, running: Running) -> Names:
    client.set_config("l3")
    assert running.device.pipeline is not None
    return Names(running.device.pipeline.schema)


@pytest.fixture
def features(client: Client, running: Running) -> Names:
    client.set_config("features")
    assert running.device.pipeline is not None
    return Names(running.device.pipeline.schema)


def code_of(call: Any) -> grpc.StatusCode:
    """Return the status with which `call` fails."""
    with pytest.raises(grpc.RpcError) as refused:
        call()
    return refused.value.code()


def route(names: Names, net: str = "10.0.0.0", port: int = 2) -> p4r.TableEntry:
    return names.entry("I.route", {"h.ip.dst": (net, 8)}, "I.fwd", {"mac": 2, "port": port})


# --- arbitration ----------------------------------------------------------------------------------


def test_second_client_is_a_backup_until_the_first_leaves(connect: Connect) -> None:
    first, second = connect(), connect()
    assert first.arbitrate(10) == 0
    assert second.arbitrate(5) == 6  # ALREADY_EXISTS: there is a primary
    assert code_of(lambda: second.set_config("l3")) is grpc.StatusCode.PERMISSION_DENIED
    first.close()
    assert second.receive().arbitration.status.code == 5  # NOT_FOUND: there is none
    assert second.arbitrate(11) == 0
    second.set_config("l3")
    second.close()


def test_stream_ends_for_wrong_device_and_doubled_election_id(connect: Connect) -> None:
    wrong = connect()
    assert code_of(lambda: wrong.arbitrate(1, device_id=9)) is grpc.StatusCode.NOT_FOUND
    first, second = connect(), connect()
    assert first.arbitrate(4) == 0
    assert code_of(lambda: second.arbitrate(4)) is grpc.StatusCode.INVALID_ARGUMENT
    for client in (wrong, first, second):
        client.close()


def test_calls_for_another_device_or_role_are_not_found(client: Client) -> None:
    for request in (
        p4r.WriteRequest(device_id=9),
        p4r.WriteRequest(device_id=DEVICE_ID, role="sdn"),
    ):
        assert code_of(lambda r=request: client.stub.Write(r)) is grpc.StatusCode.NOT_FOUND
    read = p4r.ReadRequest(device_id=9)
    assert code_of(lambda: list(client.stub.Read(read))) is grpc.StatusCode.NOT_FOUND


# --- pipeline -------------------------------------------------------------------------------------


def test_before_a_config_is_set(client: Client) -> None:
    assert not client.stub.GetForwardingPipelineConfig(
        p4r.GetForwardingPipelineConfigRequest(device_id=DEVICE_ID)
    ).HasField("config")
    failed = grpc.StatusCode.FAILED_PRECONDITION
    assert code_of(lambda: client.write(p4r.Update.INSERT)) is failed
    assert code_of(lambda: client.read(table_entry=p4r.TableEntry())) is failed
    assert client.stub.Capabilities(p4r.CapabilitiesRequest()).p4runtime_api_version == "1.4.1"


def test_config_comes_back_as_it_was_set(client: Client) -> None:
    client.set_config("l3", cookie=77)
    kinds = p4r.GetForwardingPipelineConfigRequest
    whole = client.config()
    assert whole.p4_device_config == (GOLDEN / "l3.json").read_bytes()
    assert whole.p4info == read_p4info(GOLDEN / "l3.p4info.txtpb")
    assert whole.cookie.cookie == 77
    cookie = client.config(kinds.COOKIE_ONLY)
    assert (cookie.cookie.cookie, cookie.p4_device_config, cookie.HasField("p4info")) == (
        77,
        b"",
        False,
    )
    assert client.config(kinds.P4INFO_AND_COOKIE).p4info == whole.p4info
    device = client.config(kinds.DEVICE_CONFIG_AND_COOKIE)
    assert device.p4_device_config and not device.HasField("p4info")


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (b"", "empty"),
        (b"{", "JSON"),
        (b'{"pipelines": 1}', "header_types"),
        ((GOLDEN / "features.json").read_bytes(), "do not belong together"),
    ],
)
def test_a_bad_device_config_is_refused_with_the_reason(
    client: Client, config: bytes, says: str
) -> None:
    request = p4r.SetForwardingPipelineConfigRequest(
        device_id=DEVICE_ID, action=Action.VERIFY_AND_COMMIT
    )
    request.election_id.low = 1
    request.config.p4info.CopyFrom(read_p4info(GOLDEN / "l3.p4info.txtpb"))
    request.config.p4_device_config = config
    with pytest.raises(grpc.RpcError) as refused:
        client.stub.SetForwardingPipelineConfig(request)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert says in refused.value.details()
    assert "Traceback" not in refused.value.details()


def test_verify_changes_nothing(client: Client, l3: Names) -> None:
    client.write(p4r.Update.INSERT, table_entry=route(l3))
    client.set_config("features", Action.VERIFY)
    assert len(client.read(table_entry=p4r.TableEntry())) == 1


def test_saved_config_takes_writes_and_runs_after_commit(
    client: Client, l3: Names, running: Running
) -> None:
    client.write(p4r.Update.INSERT, table_entry=route(l3))
    client.set_config("l3", Action.VERIFY_AND_SAVE, cookie=5)
    assert client.read(table_entry=p4r.TableEntry()) == []
    client.write(p4r.Update.INSERT, table_entry=route(l3, port=4))
    running.arrive(1, FRAME.replace(bytes.fromhex("c0000201"), bytes([10, 0, 0, 9])))
    assert [port for port, _ in running.sent] == [2]
    client.set_config("", Action.COMMIT)
    assert client.config().cookie.cookie == 5
    running.arrive(1, FRAME.replace(bytes.fromhex("c0000201"), bytes([10, 0, 0, 9])))
    assert [port for port, _ in running.sent] == [2, 4]
    assert code_of(lambda: client.set_config("", Action.COMMIT)) is grpc.StatusCode.NOT_FOUND


def test_reconcile_with_the_same_config_takes_the_cookie(client: Client, l3: Names) -> None:
    client.write(p4r.Update.INSERT, table_entry=route(l3))
    client.set_config("l3", Action.RECONCILE_AND_COMMIT, cookie=6)
    assert len(client.read(table_entry=p4r.TableEntry())) == 1
    assert client.config().cookie.cookie == 6


def test_commit_clears_the_forwarding_state(client: Client, l3: Names) -> None:
    client.write(p4r.Update.INSERT, table_entry=route(l3))
    client.set_config("l3")
    assert client.read(table_entry=p4r.TableEntry()) == []


# --- write and read -------------------------------------------------------------------------------


def test_each_update_of_a_batch_has_its_own_status(client: Client, l3: Names) -> None:
    good, same = route(l3), route(l3)
    bad = route(l3, "11.0.0.0")
    bad.action.action.params[1].value = b"\x02\x00"
    insert = p4r.Update.INSERT
    with pytest.raises(grpc.RpcError) as refused:
        client.write_all(
            [p4r.Update(type=insert, entity=p4r.Entity(table_entry=e)) for e in (good, bad, same)]
        )
    assert refused.value.code() is grpc.StatusCode.UNKNOWN
    trailer = dict(refused.value.trailing_metadata())["grpc-status-details-bin"]
    status = rpc_status.Status.FromString(trailer)
    errors = []
    for detail in status.details:
        error = p4r.Error()
        assert detail.Unpack(error)
        errors.append(error.canonical_code)
    assert (status.code, errors) == (2, [0, 3, 6])
    assert [e.table_entry for e in client.read(table_entry=p4r.TableEntry())] == [good]


def test_a_large_read_comes_in_several_messages(client: Client, l3: Names) -> None:
    entries = [
        l3.entry("I.route", {"h.ip.dst": (n << 8, 24)}, "I.fwd", {"mac": n, "port": n % 512})
        for n in range(1, 701)
    ]
    client.write_all(
        [p4r.Update(type=p4r.Update.INSERT, entity=p4r.Entity(table_entry=e)) for e in entries]
    )
    request = p4r.ReadRequest(device_id=DEVICE_ID, entities=[p4r.Entity(table_entry={})])
    sizes = [len(response.entities) for response in client.stub.Read(request)]
    assert len(sizes) > 1
    assert sum(sizes) == 700


def test_the_good_part_of_a_read_comes_before_its_error(client: Client, l3: Names) -> None:
    client.write(p4r.Update.INSERT, table_entry=route(l3))
    request = p4r.ReadRequest(device_id=DEVICE_ID)
    request.entities.add().table_entry.table_id = 1
    request.entities.add().table_entry.SetInParent()
    responses = client.stub.Read(request)
    assert len(next(responses).entities) == 1
    with pytest.raises(grpc.RpcError) as refused:
        next(responses)
    assert refused.value.code() is grpc.StatusCode.UNKNOWN
    trailer = dict(refused.value.trailing_metadata())["grpc-status-details-bin"]
    assert len(rpc_status.Status.FromString(trailer).details) == 2


# --- packets, digests, ageing ---------------------------------------------------------------------


def test_packet_out_and_packet_in(client: Client, features: Names, running: Running) -> None:
    client.send(packet=features.packet_out(FRAME, {"egress_port": 3}))
    client.send(packet=features.packet_out(FRAME, {"egress_port": CPU_PORT}))
    message = client.receive()
    # Without a packet_in header in front, the first two bytes are taken for one.
    assert message.packet.payload == FRAME[2:]
    assert running.sent == [(3, FRAME)]


def test_a_bad_packet_out_is_answered_with_a_stream_error(
    client: Client, features: Names, running: Running
) -> None:
    bad = features.packet_out(FRAME, {"egress_port": 1})
    bad.metadata.add(metadata_id=9, value=b"\x01")
    client.send(packet=bad)
    error = client.receive().error
    assert error.canonical_code == 3
    assert error.packet_out.packet_out == bad
    assert running.sent == []


def test_packets_of_a_backup_are_dropped(
    client: Client, connect: Connect, features: Names, running: Running
) -> None:
    backup = connect()
    assert backup.arbitrate(0) == 6
    backup.send(packet=features.packet_out(FRAME, {"egress_port": 3}))
    assert backup.receive().error.canonical_code == 7
    assert running.sent == []
    backup.close()


def add_acl(client: Client, names: Names, source: str, action: str, idle_ns: int = 0) -> None:
    match = {"hdr.ipv4.src": (source, 16), "hdr.ipv4.$valid$": 1}
    entry = names.entry("FabricIngress.acl", match, action, priority=10)
    entry.idle_timeout_ns = idle_ns
    client.write(p4r.Update.INSERT, table_entry=entry)


def test_packet_in_carries_metadata(client: Client, features: Names, running: Running) -> None:
    add_acl(client, features, "10.8.0.0", "FabricIngress.to_cpu")
    running.arrive(1, PROBE_TO_CPU)
    packet = client.receive().packet
    assert [(m.metadata_id, m.value) for m in packet.metadata] == [(1, b"\x01"), (2, b"\x00")]
    assert packet.payload[14:20] == FRAME[14:20]


def test_digests_come_once_until_acknowledged(
    client: Client, features: Names, running: Running
) -> None:
    add_acl(client, features, "10.1.0.0", "FabricIngress.learn")
    digest = p4r.DigestEntry(digest_id=features.digest_id("flow_digest_t"))
    digest.config.ack_timeout_ns = 10**12
    client.write(p4r.Update.INSERT, digest_entry=digest)
    assert client.read(digest_entry=p4r.DigestEntry())[0].digest_entry == digest
    running.arrive(1, FRAME)
    first = client.receive().digest
    members = [m.bitstring for m in first.data[0].struct.members]
    assert members == [bytes([10, 1, 0, 1]), bytes([0xC0, 0, 2, 1]), b"\x01"]
    running.arrive(1, FRAME)
    client.send(digest_ack=p4r.DigestListAck(digest_id=first.digest_id, list_id=first.list_id))
    client.send(digest_ack=p4r.DigestListAck(digest_id=1))
    assert client.receive().error.canonical_code == 3  # so the good one was taken before
    running.arrive(1, FRAME)
    assert client.receive().digest.list_id == first.list_id + 1


def test_idle_entries_are_reported(client: Client, features: Names, running: Running) -> None:
    add_acl(client, features, "10.1.0.0", "FabricIngress.permit", idle_ns=5_000_000)
    running.tick(3 * MS)
    running.arrive(1, FRAME)
    running.tick(3 * MS)
    running.tick(1 * MS)
    notice = client.receive().idle_timeout_notification
    assert [e.idle_timeout_ns for e in notice.table_entry] == [5_000_000]
    assert notice.timestamp == 8_000_000  # it was hit at 3 ms


# --- addresses ------------------------------------------------------------------------------------


def test_a_port_in_use_is_said(running: Running) -> None:
    with pytest.raises(ServerError, match=f"can't listen on 127.0.0.1:{running.server.port}"):
        P4RuntimeServer(running.service, f"127.0.0.1:{running.server.port}")
