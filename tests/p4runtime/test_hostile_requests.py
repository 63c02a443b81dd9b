"""What no client may do to the switch, freeze it or fill its memory, and what it must be told."""

from __future__ import annotations

import gc
import json
import logging
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from softswitch.p4runtime import profiles, service
from softswitch.p4runtime.pipeline import parse_p4info, read_p4info
from softswitch.p4runtime.protos import p4r, rpc_status
from softswitch.p4runtime.status import (
    DETAIL_BYTES,
    TEXT_BYTES,
    Code,
    PipelineError,
    UpdateStatus,
    batch_status,
    batch_text,
)
from softswitch.switch import Switch

if TYPE_CHECKING:
    from conftest import Client, Running

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
PROFILE = "FabricIngress.balance.members"
GROUP = "FabricIngress.balance.group"
FORWARD = "FabricIngress.balance.forward"
INSERT, MODIFY, DELETE = p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE
SELECTOR_SIZE = 64
Action = p4r.SetForwardingPipelineConfigRequest
DEVICE_ID = 3
METHODS = (
    "Write",
    "Read",
    "SetForwardingPipelineConfig",
    "GetForwardingPipelineConfig",
    "Capabilities",
)
NO_PROTOBUF = b"\xff" * 40


@pytest.fixture
def switch() -> Iterator[Switch]:
    """features.p4, whose selector has no bound of its own on a group."""
    with Switch.from_json(GOLDEN / "features.json", GOLDEN / "features.p4info.txtpb") as switch:
        yield switch


def write(switch: Switch, kind: int, **entity: Any) -> Code:
    (status,) = switch.try_write([p4r.Update(type=kind, entity=p4r.Entity(**entity))])
    return status.code


def member(switch: Switch, number: int) -> p4r.ActionProfileMember:
    return p4r.ActionProfileMember(
        action_profile_id=switch.names.profile_id(PROFILE),
        member_id=number,
        action=switch.names.action(FORWARD, {"port": 2, "mac": 2}),
    )


def group(switch: Switch, number: int, *weights: int) -> p4r.ActionProfileGroup:
    """Return a group of members 1, 2... with these weights."""
    message = p4r.ActionProfileGroup(
        action_profile_id=switch.names.profile_id(PROFILE), group_id=number
    )
    for index, weight in enumerate(weights, start=1):
        message.members.add(member_id=index, weight=weight)
    return message


def one_shot(switch: Switch, *weights: int) -> p4r.TableEntry:
    entry = switch.names.entry(GROUP, {"meta.vrf": 1})
    for weight in weights:
        item = entry.action.action_profile_action_set.action_profile_actions.add(weight=weight)
        item.action.CopyFrom(switch.names.action(FORWARD, {"port": 2, "mac": 2}))
    return entry


# --- weights --------------------------------------------------------------------------------------


def test_weights_of_a_group_fit_the_selector(switch: Switch) -> None:
    for number in (1, 2):
        assert write(switch, INSERT, action_profile_member=member(switch, number)) is Code.OK
    huge = group(switch, 1, 25_913_866)
    began = time.process_time()
    assert write(switch, INSERT, action_profile_group=huge) is Code.RESOURCE_EXHAUSTED
    assert write(switch, INSERT, action_profile_group=group(switch, 1, 2**31 - 1, 2**31 - 1)) is (
        Code.RESOURCE_EXHAUSTED
    )
    assert time.process_time() - began < 1
    assert write(switch, INSERT, action_profile_group=group(switch, 1, 60, 5)) is (
        Code.RESOURCE_EXHAUSTED
    )
    full = group(switch, 1, 60, 4)
    assert write(switch, INSERT, action_profile_group=full) is Code.OK
    assert write(switch, MODIFY, action_profile_group=huge) is Code.RESOURCE_EXHAUSTED
    (found,) = switch.read(p4r.Entity(action_profile_group=p4r.ActionProfileGroup()))
    assert found.action_profile_group == full


def test_weights_of_an_action_set_fit_the_selector(switch: Switch) -> None:
    huge = one_shot(switch, 25_913_866)
    assert write(switch, INSERT, table_entry=huge) is Code.RESOURCE_EXHAUSTED
    assert write(switch, INSERT, table_entry=one_shot(switch, SELECTOR_SIZE, 1)) is (
        Code.RESOURCE_EXHAUSTED
    )
    assert write(switch, INSERT, table_entry=one_shot(switch, SELECTOR_SIZE)) is Code.OK
    assert write(switch, MODIFY, table_entry=huge) is Code.RESOURCE_EXHAUSTED
    (found,) = switch.read(p4r.Entity(table_entry=p4r.TableEntry(table_id=huge.table_id)))
    assert found.table_entry == one_shot(switch, SELECTOR_SIZE)


def test_no_p4info_allows_weights_without_bound(tmp_path: Path) -> None:
    text = (GOLDEN / "features.p4info.txtpb").read_text()
    own, most = f"  size: {SELECTOR_SIZE}\n", f"  size: {2**62}\n  max_group_size: {2**31 - 1}\n"
    assert text.count(own) == 1
    endless = tmp_path / "endless.p4info.txtpb"
    endless.write_text(text.replace(own, most))
    with Switch.from_json(GOLDEN / "features.json", endless) as switch:
        assert write(switch, INSERT, action_profile_member=member(switch, 1)) is Code.OK
        for weight, code in (
            (profiles.MOST_SLOTS + 1, Code.RESOURCE_EXHAUSTED),
            (profiles.MOST_SLOTS, Code.OK),
        ):
            message = group(switch, 1, weight)
            message.max_size = 2**31 - 1
            assert write(switch, INSERT, action_profile_group=message) is code


def test_refused_watch_leaves_no_group(switch: Switch) -> None:
    assert write(switch, INSERT, action_profile_member=member(switch, 1)) is Code.OK
    bad = group(switch, 1, 2)
    bad.members[0].watch = -1
    assert write(switch, INSERT, action_profile_group=bad) is Code.INVALID_ARGUMENT
    assert not list(switch.read(p4r.Entity(action_profile_group=p4r.ActionProfileGroup())))
    assert write(switch, INSERT, action_profile_group=group(switch, 1, 2)) is Code.OK
    assert write(switch, MODIFY, action_profile_group=bad) is Code.INVALID_ARGUMENT
    (found,) = switch.read(p4r.Entity(action_profile_group=p4r.ActionProfileGroup()))
    assert found.action_profile_group == group(switch, 1, 2)
    shot = one_shot(switch, 1)
    shot.action.action_profile_action_set.action_profile_actions[0].watch = -1
    assert write(switch, INSERT, table_entry=shot) is Code.INVALID_ARGUMENT
    assert write(switch, DELETE, action_profile_group=group(switch, 1)) is Code.OK


# --- configs --------------------------------------------------------------------------------------


def refusal(document: Any, p4info: Any = None) -> str:
    """Why a config is refused."""
    p4info = p4info or read_p4info(GOLDEN / "features.p4info.txtpb")
    with Switch() as switch, pytest.raises(PipelineError) as refused:
        switch.device.set_pipeline(p4info, json.dumps(document).encode())
    return str(refused.value)


def test_scope_of_an_action_that_there_is_not() -> None:
    p4info = read_p4info(GOLDEN / "features.p4info.txtpb")
    p4info.tables[0].action_refs[0].scope = 99
    document = json.loads((GOLDEN / "features.json").read_text())
    assert "there is no scope 99" in refusal(document, p4info)


@pytest.mark.parametrize("mask", ["0x1ffffffffffffffffffffff", "-0x1"])
def test_mask_that_does_not_fit_its_key(mask: str) -> None:
    document = json.loads((GOLDEN / "features.json").read_text())
    tables = [table for table in document["pipelines"][0]["tables"] if table["key"]]
    tables[0]["key"][0]["mask"] = mask
    assert "does not fit" in refusal(document)


def test_value_set_named_twice() -> None:
    document = json.loads((GOLDEN / "features.json").read_text())
    document["parse_vsets"] = [{"name": "P.vs", "id": n, "max_size": 4} for n in range(2)]
    assert 'parse_vsets[1].name: a second value set "P.vs"' in refusal(document)


# --- bytes and texts ------------------------------------------------------------------------------


def call(client: Client, method: str, data: bytes) -> grpc.StatusCode:
    """How the server answers bytes of our own."""
    path = f"/p4.v1.P4Runtime/{method}"
    try:
        if method == "StreamChannel":
            list(client.channel.stream_stream(path)(iter([data]), timeout=30))
        elif method == "Read":
            list(client.channel.unary_stream(path)(data, timeout=30))
        else:
            client.channel.unary_unary(path)(data, timeout=30)
    except grpc.RpcError as refused:
        return refused.code()
    return grpc.StatusCode.OK


@pytest.mark.parametrize("method", [*METHODS, "StreamChannel"])
def test_bytes_that_are_no_protobuf(
    method: str, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    assert call(client, method, NO_PROTOBUF) is grpc.StatusCode.INVALID_ARGUMENT
    assert not caplog.records


def test_bytes_that_are_no_protobuf_take_no_memory(client: Client) -> None:
    def used_kb() -> int:
        gc.collect()
        resident = int(Path("/proc/self/statm").read_text().split()[1])
        return resident * resource.getpagesize() // 1024

    def send(times: int) -> None:
        for _ in range(times):
            call(client, "Write", NO_PROTOBUF)

    send(200)
    before = used_kb()
    send(600)  # 13 KB each would be 7 800 KB
    assert used_kb() - before < 3000


def test_failure_that_nobody_expected_is_logged_and_said(
    client: Client, running: Running, caplog: pytest.LogCaptureFixture, monkeypatch: Any
) -> None:
    def fail(_request: object) -> None:
        raise RuntimeError("out of order")

    monkeypatch.setattr(running.service, "write", fail)
    with caplog.at_level(logging.ERROR, "softswitch"), pytest.raises(grpc.RpcError) as refused:
        client.write_all([])
    assert refused.value.code() is grpc.StatusCode.INTERNAL
    assert "out of order" in refused.value.details()
    assert "Traceback" in caplog.text


@pytest.mark.parametrize(("count", "kept"), [(2, True), (100, True), (240, True), (5000, False)])
def test_statuses_of_a_batch_fit_what_a_client_takes(
    client: Client, count: int, kept: bool
) -> None:
    client.set_config("l3")
    bad = p4r.Update(type=INSERT, entity=p4r.Entity(table_entry={"table_id": 12345}))
    with pytest.raises(grpc.RpcError) as refused:
        client.write_all([bad] * count)
    assert refused.value.code() is grpc.StatusCode.UNKNOWN
    assert "update 0: NOT_FOUND: P4Info has no table" in refused.value.details()
    trailer = dict(refused.value.trailing_metadata())["grpc-status-details-bin"]
    found = rpc_status.Status.FromString(trailer).details
    assert len(found) == (count if kept else 0)
    for detail in found:
        error = p4r.Error()
        assert detail.Unpack(error)
        assert error.canonical_code == Code.NOT_FOUND


def test_failures_keep_their_messages_as_long_as_there_is_room() -> None:
    failed = UpdateStatus(Code.NOT_FOUND, "x" * 100)
    statuses = [UpdateStatus(Code.OK)] * 30 + [failed] * 60
    errors = []
    for detail in batch_status(statuses).details:
        errors.append(p4r.Error())
        assert detail.Unpack(errors[-1])
    assert [e.canonical_code for e in errors] == [0] * 30 + [5] * 60
    assert errors[30].message == failed.message
    assert errors[-1].message == ""
    assert batch_status(statuses).ByteSize() <= DETAIL_BYTES
    text = batch_text(statuses)
    assert text.startswith("update 30: NOT_FOUND: xxx")
    assert text.endswith("more of 90 updates failed")
    assert len(text) < TEXT_BYTES + 50
    assert batch_text([UpdateStatus(Code.NOT_FOUND, "y" * 5000)]).startswith("update 0: NOT_FOUND")


def test_writes_to_a_saved_config_are_bounded(client: Client, monkeypatch: Any) -> None:
    monkeypatch.setattr(service, "MOST_SAVED_BYTES", 10_000)
    client.set_config("features", Action.VERIFY_AND_SAVE)
    names = parse_p4info((GOLDEN / "features.p4info.txtpb").read_bytes(), "features")
    (digest,) = names.digests
    entry = p4r.DigestEntry(digest_id=digest.preamble.id)
    client.write(INSERT, digest_entry=entry)
    with pytest.raises(grpc.RpcError) as refused:
        for _ in range(1000):
            client.write(MODIFY, digest_entry=entry)
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "COMMIT" in refused.value.details()
    client.set_config("", Action.COMMIT)
    client.write(MODIFY, digest_entry=entry)
