"""RECONCILE_AND_COMMIT: what a changed pipeline keeps, through raw stubs over TCP.

    stub --TCP--> server - device - core: programs/change.p4, then another edition of it

The editions are made by preprocessor symbols; what each changes stands in the program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import grpc
import pytest

from softswitch.p4runtime.protos import p4r, rpc_status

if TYPE_CHECKING:
    from conftest import Changing

MS = 1_000_000_000  # in ps
INSERT, MODIFY, DELETE = p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE
RECONCILE = p4r.SetForwardingPipelineConfigRequest.RECONCILE_AND_COMMIT


def refusal(call: Callable[[], object]) -> tuple[str, list[str]]:
    """Return the message of an INVALID_ARGUMENT, and those of its details."""
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


def test_everything_stays_as_it_was(changing: Changing) -> None:
    changing.populate()
    flows = [changing.frame(1, src=n * 77, kind=0x8888) for n in range(16)]
    for dst in (0xA, 0xA, 0xB, 0xC):
        changing.running.arrive(1, changing.frame(dst, src=0x22))
    spread = [changing.sent(1, flow) for flow in flows]
    before = changing.dump()
    changing.push("MORE", action=RECONCILE)
    after = changing.dump()
    assert sorted(map(str, after)) == sorted(map(str, before))
    assert [changing.sent(1, flow) for flow in flows] == spread
    assert len({tuple(ports) for ports in spread}) == 2
    assert changing.sent(1, changing.frame(0xB, src=1)) == [3, 4, 6]  # multicast, and a clone


def test_entities_follow_their_names_to_new_ids(changing: Changing) -> None:
    changing.populate()
    changing.running.arrive(1, changing.frame(0xA))
    old = changing.names
    changing.push("MORE", "NEW_IDS", action=RECONCILE)
    new = changing.names
    assert new.table("I.forward").id != old.table("I.forward").id
    query = new.key("I.forward", {"dst": 0xA})
    query.counter_data.SetInParent()
    query.meter_config.SetInParent()
    entry = changing.client.read(table_entry=query)[0].table_entry
    assert entry.action.action == new.action("I.to_port", {"port": 2})
    assert (entry.idle_timeout_ns, entry.controller_metadata) == (50_000_000, 77)
    assert (entry.meter_config.cburst, entry.counter_data.packet_count) == (100, 1)
    rows = [e.table_entry for e in changing.client.read(table_entry=p4r.TableEntry(table_id=0))]
    assert changing.acl(1, "I.mirror") in rows
    assert changing.sent(1, changing.frame(0xA)) == [2, 6]


def test_a_renamed_table_keeps_its_entries_by_its_id(changing: Changing) -> None:
    changing.push("FIXED_ID")
    changing.client.write(INSERT, table_entry=changing.forward(0xA, 2))
    changing.push("RENAMED", action=RECONCILE)
    assert changing.names.table("I.onward").id == 0x02000042
    assert changing.sent(1, changing.frame(0xA)) == [2]


def test_meters_and_registers_go_on_counting(changing: Changing) -> None:
    changing.client.write(INSERT, table_entry=changing.forward(0xA, 2))
    meter = p4r.MeterEntry(meter_id=changing.names.meter_id("I.limits"), index=p4r.Index(index=3))
    meter.config.cir = meter.config.pir = 1
    meter.config.cburst = meter.config.pburst = 2
    changing.client.write(MODIFY, meter_entry=meter)
    assert changing.sent(3, changing.frame(0xA)) == [2]
    changing.push("MORE", action=RECONCILE)
    assert changing.sent(3, changing.frame(0xA)) == [2]
    assert changing.sent(3, changing.frame(0xA)) == []  # the third packet of a burst of two
    register = p4r.RegisterEntry(
        register_id=changing.names.register_id("I.arrivals"), index=p4r.Index(index=3)
    )
    assert changing.client.read(register_entry=register)[0].register_entry.data.bitstring == b"\3"


def test_idle_timers_and_digests_go_on(changing: Changing) -> None:
    changing.populate()
    changing.running.arrive(1, changing.frame(0xA, src=2))
    first = changing.client.receive().digest
    changing.running.tick(30 * MS)
    changing.push("MORE", "NEW_IDS", action=RECONCILE)
    again = changing.frame(0xA, src=2)  # was sent and not acknowledged
    changing.running.arrive(1, again)
    changing.running.arrive(1, changing.frame(0xC, src=0x102))
    second = changing.client.receive().digest
    assert second.digest_id == changing.names.digest_id("seen_t")
    assert (second.list_id, second.data[0].struct.members[0].bitstring) == (2, b"\1\2")
    changing.client.send(
        digest_ack=p4r.DigestListAck(digest_id=second.digest_id, list_id=first.list_id)
    )
    changing.client.send(
        digest_ack=p4r.DigestListAck(digest_id=second.digest_id, list_id=second.list_id)
    )
    changing.running.tick(51 * MS)
    notice = changing.client.receive().idle_timeout_notification
    assert [e.controller_metadata for e in notice.table_entry] == [77]


def test_the_programs_own_entries_are_the_new_programs(changing: Changing) -> None:
    own = changing.names.table("I.own").id
    mine = changing.names.entry("I.own", {"type": 0x9004}, "I.to_port", {"port": 4})
    changing.client.write(DELETE, table_entry=changing.names.key("I.own", {"type": 0x9001}))
    changing.client.write(INSERT, table_entry=mine)
    changing.push("OTHER_OWN", action=RECONCILE)
    keys = [
        e.table_entry.match[0].exact.value.hex()
        for e in changing.client.read(table_entry=p4r.TableEntry(table_id=own))
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
    changing: Changing,
    change: str,
    says: list[str],
) -> None:
    changing.populate()
    before = changing.dump()
    message, details = refusal(lambda: changing.push(change, action=RECONCILE))
    assert "so the old one stays" in message
    for text in says:
        assert text in message
        assert any(text in detail for detail in details)
    assert "Traceback" not in message
    assert changing.dump() == before
    assert changing.client.config().p4_device_config == changing.edition().p4_device_config
    assert changing.sent(1, changing.frame(0xA)) == [2, 6]


def test_arrays_of_another_size_or_width(changing: Changing) -> None:
    changing.client.write(INSERT, table_entry=changing.forward(0xA, 2))
    for port in (1, 1, 5):
        changing.running.arrive(port, changing.frame(0xA))
    changing.push("CELLS=4", action=RECONCILE)
    counts = [
        e.counter_entry.data.packet_count
        for e in changing.client.read(counter_entry=p4r.CounterEntry())
    ]
    assert counts == [0, 2, 0, 0]
    changing.push("PORT_WORD=bit<16>", action=RECONCILE)
    cells = changing.client.read(register_entry=p4r.RegisterEntry())
    assert {c.register_entry.data.bitstring for c in cells} == {b"\0"}  # another type: anew
    meter = p4r.MeterEntry(meter_id=changing.names.meter_id("I.limits"), index=p4r.Index(index=6))
    meter.config.cir = meter.config.pir = 1
    changing.client.write(MODIFY, meter_entry=meter)
    message, _ = refusal(lambda: changing.push("CELLS=4", action=RECONCILE))
    assert "meter 'I.limits' has only 4 cells in the new program" in message


def test_the_first_config_may_come_this_way(changing: Changing) -> None:
    changing.push(action=RECONCILE)
    changing.client.write(INSERT, table_entry=changing.forward(0xA, 2))
    assert changing.sent(1, changing.frame(0xA)) == [2]


def test_a_config_that_is_no_program_changes_nothing(changing: Changing) -> None:
    changing.client.write(INSERT, table_entry=changing.forward(0xA, 2))
    broken = p4r.ForwardingPipelineConfig(p4info=changing.edition().p4info, p4_device_config=b"{}")
    for config in (broken, None):
        with pytest.raises(grpc.RpcError) as refused:
            changing.client.push(config, RECONCILE)
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert len(changing.client.read(table_entry=changing.names.key("I.forward", {}))) == 1
