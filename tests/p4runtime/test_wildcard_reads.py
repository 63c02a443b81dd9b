"""Every form of a Read that selects more than one entity, through raw stubs over TCP.

stub --Read--> server - device: programs/change.p4 with one or more of each entity
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from softswitch.p4runtime.protos import p4r

if TYPE_CHECKING:
    from conftest import Changing

CELLS = 8
TABLE_ENTRIES = 7
"""forward 2, acl 2, balance 1, and own 2 that the program brings."""


def group(number: int) -> p4r.PacketReplicationEngineEntry:
    entry = p4r.PacketReplicationEngineEntry()
    entry.multicast_group_entry.multicast_group_id = number
    return entry


def session(number: int) -> p4r.PacketReplicationEngineEntry:
    entry = p4r.PacketReplicationEngineEntry()
    entry.clone_session_entry.session_id = number
    return entry


Query = Callable[["Changing"], dict[str, Any]]

FORMS: list[tuple[str, Query, int]] = [
    ("all tables", lambda c: {"table_entry": p4r.TableEntry()}, TABLE_ENTRIES),
    ("a table", lambda c: {"table_entry": c.names.key("I.acl", {})}, 2),
    ("by key", lambda c: {"table_entry": c.names.key("I.forward", {"dst": 0xA})}, 1),
    ("by priority", lambda c: {"table_entry": c.names.key("I.acl", {}, 6)}, 1),
    ("by action", lambda c: {"table_entry": c.by_action("I.to_group")}, 1),
    ("by controller metadata", lambda c: {"table_entry": c.by_metadata(77)}, 1),
    ("by other metadata", lambda c: {"table_entry": c.by_metadata(78)}, 0),
    ("default entry", lambda c: {"table_entry": c.names.entry("I.acl", None)}, 1),
    (
        "all direct counters",
        lambda c: {"direct_counter_entry": p4r.DirectCounterEntry(table_entry={})},
        2,
    ),
    (
        "a table's direct counters",
        lambda c: {
            "direct_counter_entry": p4r.DirectCounterEntry(table_entry=c.names.key("I.forward", {}))
        },
        2,
    ),
    (
        "all direct meters",
        lambda c: {"direct_meter_entry": p4r.DirectMeterEntry(table_entry={})},
        2,
    ),
    ("all members", lambda c: {"action_profile_member": p4r.ActionProfileMember()}, 3),
    (
        "a profile's members",
        lambda c: {
            "action_profile_member": p4r.ActionProfileMember(
                action_profile_id=c.names.profile_id("I.uplinks")
            )
        },
        3,
    ),
    (
        "one member",
        lambda c: {
            "action_profile_member": p4r.ActionProfileMember(
                action_profile_id=c.names.profile_id("I.uplinks"), member_id=5
            )
        },
        1,
    ),
    ("all groups", lambda c: {"action_profile_group": p4r.ActionProfileGroup()}, 1),
    ("all counters", lambda c: {"counter_entry": p4r.CounterEntry()}, CELLS),
    (
        "a counter",
        lambda c: {"counter_entry": p4r.CounterEntry(counter_id=c.names.counter_id("I.arrived"))},
        CELLS,
    ),
    ("all meters", lambda c: {"meter_entry": p4r.MeterEntry()}, CELLS),
    ("all registers", lambda c: {"register_entry": p4r.RegisterEntry()}, CELLS),
    (
        "a cell",
        lambda c: {
            "register_entry": p4r.RegisterEntry(
                register_id=c.names.register_id("I.arrivals"), index=p4r.Index(index=0)
            )
        },
        1,
    ),
    ("all multicast groups", lambda c: {"packet_replication_engine_entry": group(0)}, 1),
    ("a multicast group", lambda c: {"packet_replication_engine_entry": group(7)}, 1),
    ("no such multicast group", lambda c: {"packet_replication_engine_entry": group(8)}, 0),
    ("all clone sessions", lambda c: {"packet_replication_engine_entry": session(0)}, 1),
    ("all digests", lambda c: {"digest_entry": p4r.DigestEntry()}, 1),
    ("all value sets", lambda c: {"value_set_entry": p4r.ValueSetEntry()}, 0),
]


@pytest.fixture
def populated(changing: Changing) -> Changing:
    changing.populate()
    return changing


@pytest.mark.parametrize(
    ("query", "found"), [form[1:] for form in FORMS], ids=[form[0] for form in FORMS]
)
def test_each_form_selects(populated: Changing, query: Query, found: int) -> None:
    entities = populated.client.read(**query(populated))
    assert len(entities) == found
    assert len({str(e) for e in entities}) == found


def test_a_read_of_everything_is_one_request(populated: Changing) -> None:
    request = p4r.ReadRequest(device_id=3)
    for entity in (
        p4r.Entity(table_entry={}),
        p4r.Entity(action_profile_member={}),
        p4r.Entity(action_profile_group={}),
        p4r.Entity(counter_entry={}),
        p4r.Entity(packet_replication_engine_entry=group(0)),
        p4r.Entity(packet_replication_engine_entry=session(0)),
    ):
        request.entities.append(entity)
    answers = list(populated.client.stub.Read(request))
    assert sum(len(a.entities) for a in answers) == TABLE_ENTRIES + 3 + 1 + CELLS + 1 + 1


def test_details_come_where_they_are_asked_for(populated: Changing) -> None:
    populated.running.arrive(1, populated.frame(0xA))
    populated.running.tick(5_000_000_000)
    plain = p4r.TableEntry()
    assert not any(
        e.table_entry.HasField(name)
        for e in populated.client.read(table_entry=plain)
        for name in ("counter_data", "meter_config", "time_since_last_hit")
    )
    full = p4r.TableEntry(counter_data={}, meter_config={}, time_since_last_hit={})
    entries = [e.table_entry for e in populated.client.read(table_entry=full)]
    have = {
        name: sum(e.HasField(name) for e in entries)
        for name in ("counter_data", "meter_config", "time_since_last_hit")
    }
    # Two entries are in the table with counter, meter and time-outs, one has rates.
    assert have == {"counter_data": 2, "meter_config": 1, "time_since_last_hit": 2}
    (hit,) = [e for e in entries if e.controller_metadata == 77]
    assert hit.counter_data.packet_count == 1
    assert hit.time_since_last_hit.elapsed_ns == 6_000_000


def test_what_no_table_has_is_refused(populated: Changing) -> None:
    names = populated.names
    acl = names.key("I.acl", {})
    acl.time_since_last_hit.SetInParent()
    colours = names.key("I.forward", {})
    colours.meter_counter_data.SetInParent()
    meter = p4r.MeterEntry(counter_data={})
    direct = p4r.DirectMeterEntry(table_entry=names.key("I.forward", {}), counter_data={})
    for query, code in (
        ({"table_entry": acl}, 3),
        ({"table_entry": colours}, 12),
        ({"meter_entry": meter}, 12),
        ({"direct_meter_entry": direct}, 12),
        ({"counter_entry": p4r.CounterEntry(counter_id=7)}, 5),
    ):
        with pytest.raises(grpc.RpcError) as refused:
            populated.client.read(**query)
        assert _codes(refused.value) == [code]


def _codes(error: grpc.RpcError) -> list[int]:
    from softswitch.p4runtime.protos import rpc_status

    trailer = dict(error.trailing_metadata())["grpc-status-details-bin"]
    codes = []
    for detail in rpc_status.Status.FromString(trailer).details:
        one = p4r.Error()
        assert detail.Unpack(one)
        codes.append(one.canonical_code)
    return codes
