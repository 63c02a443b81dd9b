"""Batches that are applied as a whole or not at all, through raw stubs over TCP.

stub --Write(ROLLBACK_ON_ERROR | DATAPLANE_ATOMIC)--> server - device - core
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from softswitch.p4runtime.protos import p4r, rpc_status

if TYPE_CHECKING:
    from conftest import Changing

MS = 1_000_000_000  # in ps
INSERT, MODIFY, DELETE = p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE
ATOMICITIES = [p4r.WriteRequest.ROLLBACK_ON_ERROR, p4r.WriteRequest.DATAPLANE_ATOMIC]

both = pytest.mark.parametrize("atomicity", ATOMICITIES, ids=["rollback", "dataplane"])


def update(kind: Any, **entity: Any) -> p4r.Update:
    return p4r.Update(type=kind, entity=p4r.Entity(**entity))


def codes_of(call: Callable[[], object]) -> list[int]:
    with pytest.raises(grpc.RpcError) as refused:
        call()
    assert refused.value.code() is grpc.StatusCode.UNKNOWN
    trailer = dict(refused.value.trailing_metadata())["grpc-status-details-bin"]
    codes = []
    for detail in rpc_status.Status.FromString(trailer).details:
        error = p4r.Error()
        assert detail.Unpack(error)
        codes.append(error.canonical_code)
    return codes


def member(changing: Changing, number: int, port: int) -> p4r.ActionProfileMember:
    message = p4r.ActionProfileMember(
        action_profile_id=changing.names.profile_id("I.uplinks"), member_id=number
    )
    message.action.CopyFrom(changing.names.action("I.to_port", {"port": port}))
    return message


def group(changing: Changing, *members: int) -> p4r.ActionProfileGroup:
    message = p4r.ActionProfileGroup(
        action_profile_id=changing.names.profile_id("I.uplinks"), group_id=1
    )
    for number in members:
        message.members.add(member_id=number, weight=2)
    return message


def one_shot(changing: Changing, kind: int, *ports: int) -> p4r.TableEntry:
    entry = changing.names.entry("I.balance", {"hdr.ethernet.type": kind})
    actions = entry.action.action_profile_action_set.action_profile_actions
    for port in ports:
        actions.add(weight=1).action.CopyFrom(changing.names.action("I.to_port", {"port": port}))
    return entry


def cells(changing: Changing) -> tuple[p4r.MeterEntry, p4r.CounterEntry, p4r.RegisterEntry]:
    names = changing.names
    meter = p4r.MeterEntry(meter_id=names.meter_id("I.limits"))
    meter.config.cir = meter.config.pir = 9
    meter.config.cburst = meter.config.pburst = 9
    counter = p4r.CounterEntry(
        counter_id=names.counter_id("I.arrived"), data=p4r.CounterData(packet_count=4)
    )
    register = p4r.RegisterEntry(register_id=names.register_id("I.arrivals"))
    register.data.bitstring = b"\5"
    return meter, counter, register


def batch(changing: Changing) -> list[p4r.Update]:
    """Return changes of every kind to what `populate` wrote: all of them succeed."""
    names = changing.names
    changed = changing.forward(0xA, 5)
    changed.idle_timeout_ns = 1_000
    sessions, groups = p4r.PacketReplicationEngineEntry(), p4r.PacketReplicationEngineEntry()
    sessions.clone_session_entry.session_id = 5
    groups.multicast_group_entry.multicast_group_id = 7
    groups.multicast_group_entry.replicas.add(egress_port=1, instance=9)
    direct = p4r.DirectCounterEntry(table_entry=names.key("I.forward", {"dst": 0xA}))
    direct.data.packet_count = 1000
    meter, counter, register = cells(changing)
    digest = p4r.DigestEntry(digest_id=names.digest_id("seen_t"))
    return [
        update(INSERT, table_entry=changing.forward(0xC, 1)),
        update(DELETE, table_entry=names.key("I.forward", {"dst": 0xB})),
        update(MODIFY, table_entry=changed),
        update(MODIFY, direct_counter_entry=direct),
        update(MODIFY, table_entry=names.entry("I.acl", None, "I.mirror")),
        update(DELETE, table_entry=changing.acl(2, "I.learn", priority=6)),
        update(DELETE, action_profile_member=member(changing, 9, 9)),
        update(INSERT, action_profile_member=member(changing, 4, 4)),
        update(MODIFY, action_profile_group=group(changing, 4, 5)),
        update(DELETE, action_profile_member=member(changing, 3, 3)),
        update(INSERT, action_profile_member=member(changing, 7, 7)),
        update(DELETE, table_entry=one_shot(changing, 0x8889)),
        update(INSERT, table_entry=one_shot(changing, 0x888A, 1, 2)),
        update(DELETE, packet_replication_engine_entry=sessions),
        update(MODIFY, packet_replication_engine_entry=groups),
        update(DELETE, digest_entry=digest),
        update(MODIFY, meter_entry=meter),
        update(MODIFY, counter_entry=counter),
        update(MODIFY, register_entry=register),
    ]


@pytest.fixture
def populated(changing: Changing) -> Changing:
    changing.populate()
    changing.client.write(INSERT, table_entry=one_shot(changing, 0x8889, 2, 3, 4))
    for dst in (0xA, 0xA, 0xB):
        changing.running.arrive(1, changing.frame(dst, src=0x22))
    return changing


@both
def test_a_batch_without_errors_is_applied(populated: Changing, atomicity: Any) -> None:
    populated.client.write_all(batch(populated), atomicity)
    assert populated.sent(1, populated.frame(0xC, src=0x22)) == [1]
    assert populated.sent(1, populated.frame(0xB)) == []
    register = p4r.RegisterEntry(
        register_id=populated.names.register_id("I.arrivals"), index=p4r.Index(index=6)
    )
    found = populated.client.read(register_entry=register)[0].register_entry
    assert found.data.bitstring == b"\5"


@both
@pytest.mark.parametrize("failing", range(20))
def test_after_an_error_all_is_as_before(populated: Changing, atomicity: Any, failing: int) -> None:
    """The batch cut after `failing` updates, each of which has then to be undone."""
    flows = [
        populated.frame(1, src=n * 77, kind=kind) for n in range(8) for kind in (0x8888, 0x8889)
    ]
    spread = [populated.sent(1, flow) for flow in flows]
    before = populated.dump()
    bad = update(DELETE, table_entry=populated.names.key("I.forward", {"dst": 0xFFFF}))
    updates = [*batch(populated)[:failing], bad]
    codes = codes_of(lambda: populated.client.write_all(updates, atomicity))
    assert codes == [10] * failing + [5]  # ABORTED, NOT_FOUND
    assert sorted(map(str, populated.dump())) == sorted(map(str, before))
    assert [populated.sent(1, flow) for flow in flows] == spread


@both
def test_idle_timers_survive_a_rollback(populated: Changing, atomicity: Any) -> None:
    bad = update(DELETE, table_entry=populated.names.key("I.forward", {"dst": 0xFFFF}))
    populated.running.tick(40 * MS)
    updates = [update(DELETE, table_entry=populated.names.key("I.forward", {"dst": 0xA})), bad]
    assert codes_of(lambda: populated.client.write_all(updates, atomicity)) == [10, 5]
    populated.running.tick(11 * MS)  # 50 ms after the last hit, not after the rollback
    assert populated.client.receive().HasField("digest")  # of the packets before
    notice = populated.client.receive().idle_timeout_notification
    assert [e.controller_metadata for e in notice.table_entry] == [77]


def test_other_atomicities_are_refused(changing: Changing) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        changing.client.write_all([update(INSERT, table_entry=changing.forward(1, 1))], 9)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
