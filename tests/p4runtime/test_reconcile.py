"""RECONCILE_AND_COMMIT: what a changed pipeline keeps, through raw stubs over TCP.

    stub --TCP--> server - device - core: programs/change.p4, then another edition of it

The editions are made by preprocessor symbols; what each changes stands in the program.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest

from softswitch.compiler import compile_p4
from softswitch.p4runtime.names import Names
from softswitch.p4runtime.protos import p4r, rpc_status

if TYPE_CHECKING:
    from conftest import Client, Running

PROGRAM = Path(__file__).resolve().parent / "programs" / "change.p4"
MS = 1_000_000_000  # in ps
INSERT, MODIFY, DELETE = p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE
RECONCILE = p4r.SetForwardingPipelineConfigRequest.RECONCILE_AND_COMMIT

Edition = Callable[..., p4r.ForwardingPipelineConfig]


@pytest.fixture(scope="session")
def edition() -> Edition:
    """The config of one edition of the program: edition("MORE", "CELLS=4")."""
    made: dict[tuple[str, ...], p4r.ForwardingPipelineConfig] = {}

    def make(*defines: str) -> p4r.ForwardingPipelineConfig:
        if defines not in made:
            result = compile_p4(PROGRAM, defines=defines)
            config = p4r.ForwardingPipelineConfig(p4_device_config=result.json_text.encode())
            config.p4info.CopyFrom(result.p4info)
            made[defines] = config
        return made[defines]

    return make


def names_of(running: Running) -> Names:
    assert running.device.pipeline is not None
    return Names(running.device.pipeline.schema)


@pytest.fixture
def names(client: Client, running: Running, edition: Edition) -> Names:
    """The first edition runs."""
    client.push(edition())
    return names_of(running)


def frame(dst: int, src: int = 1, kind: int = 0x800) -> bytes:
    return dst.to_bytes(6, "big") + src.to_bytes(6, "big") + kind.to_bytes(2, "big") + bytes(46)


def forward(names: Names, dst: int, port: int) -> p4r.TableEntry:
    return names.entry("I.forward", {"dst": dst}, "I.to_port", {"port": port})


def acl(names: Names, src: int, action: str, priority: int = 5) -> p4r.TableEntry:
    return names.entry("I.acl", {"src": (src, 0xFF)}, action, {}, priority=priority)


def refusal(call: Callable[[], object]) -> tuple[str, list[str]]:
    """The message of an INVALID_ARGUMENT, and those of its details."""
    with pytest.raises(grpc.RpcError) as refused:
        call()
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    trailer = dict(refused.value.trailing_metadata())["grpc-status-details-bin"]
    errors = []
    for detail in rpc_status.Status.FromString(trailer).details:
        error = p4r.Error()
        assert detail.Unpack(error)
        errors.append(error.message)
    return refused.value.details(), errors


def write_everything(client: Client, names: Names) -> None:
    """One or more of each entity that the program can have."""
    entry = forward(names, 0xA, 2)
    entry.idle_timeout_ns = 50_000_000
    entry.controller_metadata = 77
    entry.meter_config.cir = entry.meter_config.pir = 1
    entry.meter_config.cburst = entry.meter_config.pburst = 100
    client.write(INSERT, table_entry=entry)
    group = names.entry("I.forward", {"dst": 0xB}, "I.to_group", {"group": 7})
    client.write(INSERT, table_entry=group)
    client.write(INSERT, table_entry=acl(names, 1, "I.mirror"))
    client.write(INSERT, table_entry=acl(names, 2, "I.learn", priority=6))
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


def read_everything(client: Client) -> list[p4r.Entity]:
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


def sent(running: Running, port: int, data: bytes) -> list[int]:
    """The ports where a frame leaves."""
    running.sent.clear()
    running.arrive(port, data)
    return sorted(where for where, _ in running.sent)


def test_everything_stays_as_it_was(
    client: Client, names: Names, running: Running, edition: Edition
) -> None:
    write_everything(client, names)
    flows = [frame(1, src=n * 77, kind=0x8888) for n in range(16)]
    for dst in (0xA, 0xA, 0xB, 0xC):
        running.arrive(1, frame(dst, src=0x22))
    spread = [sent(running, 1, flow) for flow in flows]
    before = read_everything(client)
    client.push(edition("MORE"), RECONCILE)
    after = read_everything(client)
    assert sorted(map(str, after)) == sorted(map(str, before))
    assert [sent(running, 1, flow) for flow in flows] == spread
    assert len({tuple(ports) for ports in spread}) == 2
    assert sent(running, 1, frame(0xB, src=1)) == [3, 4, 6]  # multicast, and a clone


def test_entities_follow_their_names_to_new_ids(
    client: Client, names: Names, running: Running, edition: Edition
) -> None:
    write_everything(client, names)
    running.arrive(1, frame(0xA))
    client.push(edition("MORE", "NEW_IDS"), RECONCILE)
    new = names_of(running)
    assert new.table("I.forward").id != names.table("I.forward").id
    query = new.key("I.forward", {"dst": 0xA})
    query.counter_data.SetInParent()
    query.meter_config.SetInParent()
    entry = client.read(table_entry=query)[0].table_entry
    assert entry.action.action == new.action("I.to_port", {"port": 2})
    assert (entry.idle_timeout_ns, entry.controller_metadata) == (50_000_000, 77)
    assert (entry.meter_config.cburst, entry.counter_data.packet_count) == (100, 1)
    rows = [e.table_entry for e in client.read(table_entry=p4r.TableEntry(table_id=0))]
    assert acl(new, 1, "I.mirror") in rows
    assert sent(running, 1, frame(0xA)) == [2, 6]


def test_a_renamed_table_keeps_its_entries_by_its_id(
    client: Client, running: Running, edition: Edition
) -> None:
    client.push(edition("FIXED_ID"))
    client.write(INSERT, table_entry=forward(names_of(running), 0xA, 2))
    client.push(edition("RENAMED"), RECONCILE)
    assert names_of(running).table("I.onward").id == 0x02000042
    assert sent(running, 1, frame(0xA)) == [2]


def test_meters_and_registers_go_on_counting(
    client: Client, names: Names, running: Running, edition: Edition
) -> None:
    client.write(INSERT, table_entry=forward(names, 0xA, 2))
    meter = p4r.MeterEntry(meter_id=names.meter_id("I.limits"), index=p4r.Index(index=3))
    meter.config.cir = meter.config.pir = 1
    meter.config.cburst = meter.config.pburst = 2
    client.write(MODIFY, meter_entry=meter)
    assert sent(running, 3, frame(0xA)) == [2]
    client.push(edition("MORE"), RECONCILE)
    assert sent(running, 3, frame(0xA)) == [2]
    assert sent(running, 3, frame(0xA)) == []  # the third packet of a burst of two
    register = p4r.RegisterEntry(
        register_id=names.register_id("I.arrivals"), index=p4r.Index(index=3)
    )
    assert client.read(register_entry=register)[0].register_entry.data.bitstring == b"\3"


def test_idle_timers_and_digests_go_on(
    client: Client, names: Names, running: Running, edition: Edition
) -> None:
    write_everything(client, names)
    running.arrive(1, frame(0xA, src=2))
    first = client.receive().digest
    running.tick(30 * MS)
    client.push(edition("MORE", "NEW_IDS"), RECONCILE)
    running.arrive(1, frame(0xA, src=2))  # a duplicate of what was sent and not acknowledged
    running.arrive(1, frame(0xC, src=0x102))
    second = client.receive().digest
    assert second.digest_id == names_of(running).digest_id("seen_t")
    assert (second.list_id, second.data[0].struct.members[0].bitstring) == (2, b"\1\2")
    client.send(digest_ack=p4r.DigestListAck(digest_id=second.digest_id, list_id=first.list_id))
    client.send(digest_ack=p4r.DigestListAck(digest_id=second.digest_id, list_id=second.list_id))
    running.tick(51 * MS)
    notice = client.receive().idle_timeout_notification
    assert [e.controller_metadata for e in notice.table_entry] == [77]


def test_the_programs_own_entries_are_the_new_programs(
    client: Client, names: Names, running: Running, edition: Edition
) -> None:
    own = names.table("I.own").id
    mine = names.entry("I.own", {"type": 0x9004}, "I.to_port", {"port": 4})
    client.write(DELETE, table_entry=names.key("I.own", {"type": 0x9001}))
    client.write(INSERT, table_entry=mine)
    client.push(edition("OTHER_OWN"), RECONCILE)
    keys = [
        e.table_entry.match[0].exact.value.hex()
        for e in client.read(table_entry=p4r.TableEntry(table_id=own))
    ]
    # 9001 was deleted by the controller, 9002 by the new program, which has 9003 instead.
    assert sorted(keys) == ["9003", "9004"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("TAGGED", ["action 'I.to_port': its parameters were (port), now they are (port, type)"]),
        ("BY_PORT", ["its key was (dst exact 48), now it is (dst exact 48, port exact 9)"]),
        ("NO_ACL", ["table 'I.acl' is not in the new program", "2 entries and its default"]),
        ("NO_MIRROR", ["I.acl[src=0x01&0xff, priority 5]", "'I.mirror' is not in the new"]),
    ],
)
def test_what_cannot_stay_is_said_and_nothing_changes(
    client: Client,
    names: Names,
    running: Running,
    edition: Edition,
    change: str,
    says: list[str],
) -> None:
    write_everything(client, names)
    before = read_everything(client)
    message, details = refusal(lambda: client.push(edition(change), RECONCILE))
    assert "so the old one stays" in message
    for text in says:
        assert text in message
        assert any(text in detail for detail in details)
    assert "Traceback" not in message
    assert read_everything(client) == before
    assert client.config().p4_device_config == edition().p4_device_config
    assert sent(running, 1, frame(0xA)) == [2, 6]


def test_arrays_of_another_size_or_width(
    client: Client, names: Names, running: Running, edition: Edition
) -> None:
    client.write(INSERT, table_entry=forward(names, 0xA, 2))
    for port in (1, 1, 5):
        running.arrive(port, frame(0xA))
    client.push(edition("CELLS=4"), RECONCILE)
    counts = [
        e.counter_entry.data.packet_count for e in client.read(counter_entry=p4r.CounterEntry())
    ]
    assert counts == [0, 2, 0, 0]
    client.push(edition("PORT_WORD=bit<16>"), RECONCILE)
    cells = client.read(register_entry=p4r.RegisterEntry())
    assert {c.register_entry.data.bitstring for c in cells} == {b"\0"}  # another type: anew
    meter = p4r.MeterEntry(meter_id=names.meter_id("I.limits"), index=p4r.Index(index=6))
    meter.config.cir = meter.config.pir = 1
    client.write(MODIFY, meter_entry=meter)
    message, _ = refusal(lambda: client.push(edition("CELLS=4"), RECONCILE))
    assert "meter 'I.limits' has only 4 cells in the new program" in message


def test_the_first_config_may_come_this_way(
    client: Client, running: Running, edition: Edition
) -> None:
    client.push(edition(), RECONCILE)
    client.write(INSERT, table_entry=forward(names_of(running), 0xA, 2))
    assert sent(running, 1, frame(0xA)) == [2]


def test_a_config_that_is_no_program_changes_nothing(
    client: Client, names: Names, edition: Edition
) -> None:
    client.write(INSERT, table_entry=forward(names, 0xA, 2))
    broken = p4r.ForwardingPipelineConfig(p4info=edition().p4info, p4_device_config=b"{}")
    for config in (broken, None):
        with pytest.raises(grpc.RpcError) as refused:
            client.push(config, RECONCILE)
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert len(client.read(table_entry=names.key("I.forward", {}))) == 1
