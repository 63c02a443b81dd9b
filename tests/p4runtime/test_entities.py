"""Entities other than table entries: profiles, arrays, replication."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from softswitch.p4runtime.protos import p4d, p4r
from softswitch.p4runtime.status import Code, ReadError
from softswitch.switch import PortState, Switch

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
PROFILE = "FabricIngress.balance.members"
GROUP = "FabricIngress.balance.group"
FORWARD = "FabricIngress.balance.forward"
INSERT, MODIFY, DELETE = p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE

FRAME = bytes.fromhex(
    "0a000000001102cc00000001080045000028000100004011aec10a010001c00002010fa0138800147eab"
    "68656c6c6f20776f726c6421"
)


@pytest.fixture
def switch() -> Iterator[Switch]:
    with Switch.from_json(GOLDEN / "features.json", GOLDEN / "features.p4info.txtpb") as switch:
        yield switch


def write(switch: Switch, kind: int, **entity: Any) -> Code:
    (status,) = switch.try_write([p4r.Update(type=kind, entity=p4r.Entity(**entity))])
    return status.code


def read(switch: Switch, **entity: Any) -> list[Any]:
    (name,) = entity
    return [getattr(found, name) for found in switch.read(p4r.Entity(**entity))]


def member(switch: Switch, number: int, port: int = 2) -> p4r.ActionProfileMember:
    return p4r.ActionProfileMember(
        action_profile_id=switch.names.profile_id(PROFILE),
        member_id=number,
        action=switch.names.action(FORWARD, {"port": port, "mac": port}),
    )


def group(switch: Switch, number: int, **weights: int) -> p4r.ActionProfileGroup:
    """`group(switch, 1, m2=3)`: member 2 with weight 3."""
    message = p4r.ActionProfileGroup(
        action_profile_id=switch.names.profile_id(PROFILE), group_id=number
    )
    for name, weight in weights.items():
        message.members.add(member_id=int(name[1:]), weight=weight)
    return message


# --- action profiles ------------------------------------------------------------------------------


def test_members_and_groups_read_as_written(switch: Switch) -> None:
    members = [member(switch, 5), member(switch, 2, port=3)]
    for message in members:
        assert write(switch, INSERT, action_profile_member=message) is Code.OK
    pair = group(switch, 9, m2=3, m5=1)
    pair.max_size = 8
    assert write(switch, INSERT, action_profile_group=pair) is Code.OK
    assert read(switch, action_profile_member=p4r.ActionProfileMember()) == members
    assert read(switch, action_profile_group=p4r.ActionProfileGroup()) == [pair]
    query = p4r.ActionProfileMember(action_profile_id=members[0].action_profile_id, member_id=2)
    assert read(switch, action_profile_member=query) == [members[1]]
    query.member_id = 77
    assert read(switch, action_profile_member=query) == []


def test_member_errors(switch: Switch) -> None:
    assert write(switch, MODIFY, action_profile_member=member(switch, 1)) is Code.NOT_FOUND
    assert write(switch, DELETE, action_profile_member=member(switch, 1)) is Code.NOT_FOUND
    assert write(switch, INSERT, action_profile_member=member(switch, 0)) is Code.INVALID_ARGUMENT
    bare = member(switch, 1)
    bare.ClearField("action")
    assert write(switch, INSERT, action_profile_member=bare) is Code.INVALID_ARGUMENT
    foreign = member(switch, 1)
    foreign.action.CopyFrom(switch.names.action("FabricIngress.drop"))
    assert write(switch, INSERT, action_profile_member=foreign) is Code.INVALID_ARGUMENT
    unknown = member(switch, 1)
    unknown.action_profile_id = 7
    assert write(switch, INSERT, action_profile_member=unknown) is Code.NOT_FOUND
    assert write(switch, INSERT, action_profile_member=member(switch, 1)) is Code.OK
    assert write(switch, INSERT, action_profile_member=member(switch, 1)) is Code.ALREADY_EXISTS


def test_group_errors(switch: Switch) -> None:
    assert write(switch, INSERT, action_profile_member=member(switch, 1)) is Code.OK
    assert write(switch, INSERT, action_profile_group=group(switch, 1, m2=1)) is Code.NOT_FOUND
    bad = Code.INVALID_ARGUMENT
    assert write(switch, INSERT, action_profile_group=group(switch, 0, m1=1)) is bad
    assert write(switch, INSERT, action_profile_group=group(switch, 1, m1=0)) is bad
    twice = group(switch, 1, m1=1)
    twice.members.add(member_id=1, weight=1)
    assert write(switch, INSERT, action_profile_group=twice) is bad
    small = group(switch, 1, m1=3)
    small.max_size = 2
    assert write(switch, INSERT, action_profile_group=small) is Code.RESOURCE_EXHAUSTED
    small.members[0].weight = 2
    assert write(switch, INSERT, action_profile_group=small) is Code.OK
    assert write(switch, INSERT, action_profile_group=small) is Code.ALREADY_EXISTS
    small.max_size = 4
    assert write(switch, MODIFY, action_profile_group=small) is bad
    assert write(switch, DELETE, action_profile_group=group(switch, 2)) is Code.NOT_FOUND


def test_what_is_used_can_not_go(switch: Switch) -> None:
    needed = Code.FAILED_PRECONDITION
    for number in (1, 2):
        assert write(switch, INSERT, action_profile_member=member(switch, number)) is Code.OK
    assert write(switch, INSERT, action_profile_group=group(switch, 1, m1=1)) is Code.OK
    assert write(switch, DELETE, action_profile_member=member(switch, 1)) is needed
    switch.table_add(GROUP, {"meta.vrf": 1}, group=1)
    switch.table_add(GROUP, {"meta.vrf": 2}, member=2)
    assert write(switch, DELETE, action_profile_group=group(switch, 1)) is needed
    assert write(switch, DELETE, action_profile_member=member(switch, 2)) is needed
    switch.table_delete(GROUP, {"meta.vrf": 1})
    switch.table_delete(GROUP, {"meta.vrf": 2})
    assert write(switch, DELETE, action_profile_group=group(switch, 1)) is Code.OK
    for number in (1, 2):
        assert write(switch, DELETE, action_profile_member=member(switch, number)) is Code.OK


def test_entries_name_members_that_exist(switch: Switch) -> None:
    for target in ({"member": 4}, {"group": 4}):
        entry = switch.names.entry(GROUP, {"meta.vrf": 1}, **target)
        assert write(switch, INSERT, table_entry=entry) is Code.NOT_FOUND
    direct = switch.names.entry(GROUP, {"meta.vrf": 1}, FORWARD, {"port": 1, "mac": 1})
    assert write(switch, INSERT, table_entry=direct) is Code.INVALID_ARGUMENT


def one_shot(switch: Switch, *weights: int) -> p4r.TableEntry:
    entry = switch.names.entry(GROUP, {"meta.vrf": 1})
    for port, weight in enumerate(weights, start=1):
        item = entry.action.action_profile_action_set.action_profile_actions.add()
        item.action.CopyFrom(switch.names.action(FORWARD, {"port": port, "mac": port}))
        item.weight = weight
    return entry


def test_one_shot_reads_as_written_and_leaves_nothing(switch: Switch) -> None:
    for _ in range(40):  # 3 members each: more than the profile holds, were they left behind
        entry = one_shot(switch, 1, 2, 1)
        assert write(switch, INSERT, table_entry=entry) is Code.OK
        query = p4r.TableEntry(table_id=entry.table_id)
        assert read(switch, table_entry=query) == [entry]
        change = one_shot(switch, 4)
        assert write(switch, MODIFY, table_entry=change) is Code.OK
        assert read(switch, table_entry=query) == [change]
        assert write(switch, DELETE, table_entry=entry) is Code.OK
    assert read(switch, action_profile_member=p4r.ActionProfileMember()) == []


def test_a_refused_one_shot_leaves_nothing(switch: Switch) -> None:
    assert write(switch, INSERT, table_entry=one_shot(switch, 1, 0)) is Code.INVALID_ARGUMENT
    empty = one_shot(switch)
    empty.action.action_profile_action_set.SetInParent()
    assert write(switch, INSERT, table_entry=empty) is Code.UNIMPLEMENTED
    assert write(switch, INSERT, table_entry=one_shot(switch, 1)) is Code.OK
    for _ in range(70):
        assert write(switch, INSERT, table_entry=one_shot(switch, 1)) is Code.ALREADY_EXISTS
    assert write(switch, MODIFY, table_entry=one_shot(switch, 1, 1)) is Code.OK


def test_members_whose_port_is_down_are_left_out(switch: Switch) -> None:
    """Two next hops watch their ports; the one whose port is down gets nothing."""
    switch.table_add(
        "FabricIngress.acl", {"hdr.ipv4.$valid$": 1}, "FabricIngress.permit", priority=1
    )
    entry = one_shot(switch, 1, 1)
    for port, item in enumerate(
        entry.action.action_profile_action_set.action_profile_actions, start=1
    ):
        item.watch_port = bytes([port])
    assert write(switch, INSERT, table_entry=entry) is Code.OK

    def ports() -> set[int]:
        for sport in range(32):
            switch.inject(1, FRAME[:34] + sport.to_bytes(2, "big") + FRAME[36:])
        return {output.port for output in switch.run_until(switch.now_ns + 1_000_000)}

    assert ports() == {1, 2}
    switch.set_port(2, PortState.DOWN)
    assert ports() == {1}
    switch.set_port(2, PortState.UP)
    assert ports() == {1, 2}


# --- counters, meters, registers ------------------------------------------------------------------


def test_indirect_counters(switch: Switch) -> None:
    number = switch.names.counter_id("FabricIngress.port_counter")
    cell = p4r.CounterEntry(counter_id=number, index=p4r.Index(index=3))
    cell.data.packet_count, cell.data.byte_count = 7, 700
    assert write(switch, MODIFY, counter_entry=cell) is Code.OK
    assert switch.counter_read("port_counter", 3) == (7, 700)
    assert read(switch, counter_entry=p4r.CounterEntry(counter_id=number, index=cell.index)) == [
        cell
    ]
    assert len(read(switch, counter_entry=p4r.CounterEntry())) == 512
    assert write(switch, INSERT, counter_entry=cell) is Code.INVALID_ARGUMENT
    for index, code in ((-1, Code.INVALID_ARGUMENT), (512, Code.OUT_OF_RANGE)):
        cell.index.index = index
        assert write(switch, MODIFY, counter_entry=cell) is code
        bare = p4r.CounterEntry(counter_id=number, index=cell.index)
        assert write(switch, MODIFY, counter_entry=bare) is code
        with pytest.raises(ReadError) as refused:
            read(switch, counter_entry=cell)
        assert refused.value.statuses[0].code is code
    negative = p4r.CounterEntry(counter_id=number, data=p4r.CounterData(byte_count=-1))
    assert write(switch, MODIFY, counter_entry=negative) is Code.INVALID_ARGUMENT
    everything = p4r.CounterEntry(counter_id=number, data=p4r.CounterData(packet_count=1))
    assert write(switch, MODIFY, counter_entry=everything) is Code.OK
    assert switch.counter_read("port_counter", 511) == (1, 0)


def test_indirect_meters(switch: Switch) -> None:
    number = switch.names.meter_id("FabricIngress.port_meter")
    cell = p4r.MeterEntry(meter_id=number, index=p4r.Index(index=2))
    cell.config.CopyFrom(p4r.MeterConfig(cir=1000, cburst=100, pir=2000, pburst=200))
    assert write(switch, MODIFY, meter_entry=cell) is Code.OK
    query = p4r.MeterEntry(meter_id=number, index=cell.index)
    assert read(switch, meter_entry=query) == [cell]
    assert write(switch, MODIFY, meter_entry=query) is Code.OK
    assert read(switch, meter_entry=query) == [query]
    for wrong in ({"cir": -1}, {"cir": 2, "pir": 1}, {"eburst": 1}):
        bad = p4r.MeterEntry(meter_id=number, index=cell.index, config=p4r.MeterConfig(**wrong))
        assert write(switch, MODIFY, meter_entry=bad) is Code.INVALID_ARGUMENT


def test_registers_can_be_read_and_written(switch: Switch) -> None:
    number = switch.names.register_id("FabricIngress.last_seen")
    cell = p4r.RegisterEntry(register_id=number, index=p4r.Index(index=1023))
    cell.data.bitstring = b"\x12\x34\x56\x78\x9a\xbc"
    assert write(switch, MODIFY, register_entry=cell) is Code.OK
    assert switch.register_read("last_seen", 1023) == 0x123456789ABC
    assert read(switch, register_entry=p4r.RegisterEntry(register_id=number, index=cell.index)) == [
        cell
    ]
    cell.data.bitstring = b"\1" + bytes(6)
    assert write(switch, MODIFY, register_entry=cell) is Code.OUT_OF_RANGE
    cell.data.CopyFrom(p4d.P4Data(bool=True))
    assert write(switch, MODIFY, register_entry=cell) is Code.INVALID_ARGUMENT


# --- replication ----------------------------------------------------------------------------------


def multicast(number: int, *replicas: tuple[int, int]) -> p4r.PacketReplicationEngineEntry:
    entry = p4r.MulticastGroupEntry(multicast_group_id=number)
    for port, instance in replicas:
        entry.replicas.add(port=bytes([port]), instance=instance)
    return p4r.PacketReplicationEngineEntry(multicast_group_entry=entry)


def clone(number: int, *replicas: tuple[int, int], **extra: int) -> Any:
    entry = p4r.CloneSessionEntry(session_id=number, **extra)
    for port, instance in replicas:
        entry.replicas.add(egress_port=port, instance=instance)
    return p4r.PacketReplicationEngineEntry(clone_session_entry=entry)


def with_backups(
    place: tuple[int, int], *backups: tuple[int, int]
) -> p4r.PacketReplicationEngineEntry:
    entry = multicast(9, place)
    for port, instance in backups:
        replica = entry.multicast_group_entry.replicas[0]
        replica.backup_replicas.add(port=port.to_bytes(2, "big"), instance=instance)
    return entry


@pytest.mark.parametrize("make", [multicast, clone])
def test_replication_entries_live_and_die(switch: Switch, make: Any) -> None:
    pre = "packet_replication_engine_entry"
    entry = make(4, (2, 1), (1, 0))
    assert write(switch, MODIFY, **{pre: entry}) is Code.NOT_FOUND
    assert write(switch, INSERT, **{pre: entry}) is Code.OK
    assert write(switch, INSERT, **{pre: entry}) is Code.ALREADY_EXISTS
    assert read(switch, **{pre: make(0)}) == [entry]
    assert read(switch, **{pre: make(4)}) == [entry]
    assert read(switch, **{pre: make(5)}) == []
    empty = make(4)
    assert write(switch, MODIFY, **{pre: empty}) is Code.OK
    assert read(switch, **{pre: make(0)}) == [empty]
    assert write(switch, DELETE, **{pre: make(4)}) is Code.OK
    assert write(switch, DELETE, **{pre: make(4)}) is Code.NOT_FOUND
    assert write(switch, INSERT, **{pre: make(6)}) is Code.OK


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        (multicast(0, (1, 1)), Code.INVALID_ARGUMENT),
        (multicast(1 << 15, (1, 1)), Code.OUT_OF_RANGE),
        (multicast(1, (1, 1), (1, 1)), Code.INVALID_ARGUMENT),
        (clone(0, (1, 1)), Code.INVALID_ARGUMENT),
        (clone(1 << 15, (1, 1)), Code.INVALID_ARGUMENT),
        (clone(1, (512, 1)), Code.INVALID_ARGUMENT),
        (clone(1, (1, 1 << 16)), Code.INVALID_ARGUMENT),
        (clone(1, (1, 1), class_of_service=1), Code.INVALID_ARGUMENT),  # a port has one queue
        (with_backups((1, 1), (1, 2)), Code.INVALID_ARGUMENT),
        (with_backups((1, 1), (2, 3), (2, 3)), Code.INVALID_ARGUMENT),
        (with_backups((1, 1), (0, 3)), Code.OK),
        (with_backups((1, 1), (1 << 9, 3)), Code.INVALID_ARGUMENT),
        (clone(1, (1, 1), packet_length_bytes=-1), Code.INVALID_ARGUMENT),
        (p4r.PacketReplicationEngineEntry(), Code.INVALID_ARGUMENT),
    ],
)
def test_bad_replication_entries(switch: Switch, entry: Any, code: Code) -> None:
    assert write(switch, INSERT, packet_replication_engine_entry=entry) is code


def test_clones_are_truncated(switch: Switch) -> None:
    """The clone is cut to packet_length_bytes, the packet itself is not."""
    pre = clone(1, (4, 1), packet_length_bytes=40)
    assert write(switch, INSERT, packet_replication_engine_entry=pre) is Code.OK
    match = {"hdr.ipv4.src": ("10.0.0.0", 8), "hdr.ipv4.$valid$": 1}
    acl = "FabricIngress.acl"
    switch.table_add(acl, match, "FabricIngress.mirror", {"session": 1}, priority=1)
    assert write(switch, INSERT, table_entry=one_shot(switch, 1)) is Code.OK
    switch.inject(1, FRAME)
    outputs = {output.port: output.packet for output in switch.run_until(1_000_000)}
    assert (len(outputs[1]), len(outputs[4])) == (len(FRAME), 40)


def mirror_all(switch: Switch, session: int) -> None:
    match = {"hdr.ipv4.src": ("10.0.0.0", 8), "hdr.ipv4.$valid$": 1}
    action = ("FabricIngress.mirror", {"session": session})
    switch.table_add("FabricIngress.acl", match, *action, priority=1)


def test_clones_go_by_a_backup_while_the_port_is_down(switch: Switch) -> None:
    pre = clone(1, (4, 1), (5, 7))
    (first, _) = pre.clone_session_entry.replicas
    for port in (6, 7):
        first.backup_replicas.add(port=bytes([port]), instance=port)
    assert write(switch, INSERT, packet_replication_engine_entry=pre) is Code.OK
    assert read(switch, packet_replication_engine_entry=clone(1)) == [pre]
    mirror_all(switch, 1)

    def ports() -> set[int]:
        switch.inject(1, FRAME)
        return {output.port for output in switch.run_until(switch.now_ns + 1_000_000)} & {
            4,
            5,
            6,
            7,
        }

    assert ports() == {4, 5}
    switch.set_port(4, PortState.DOWN)
    assert ports() == {6, 5}
    switch.set_port(6, PortState.DOWN)
    assert ports() == {7, 5}
    switch.set_port(4, PortState.UP)
    assert ports() == {4, 5}


def test_a_class_of_service_sets_the_queue_of_clones() -> None:
    with Switch.from_json(
        GOLDEN / "features.json", GOLDEN / "features.p4info.txtpb", priorities=4
    ) as switch:
        pre = clone(1, (4, 1), class_of_service=3)
        assert write(switch, INSERT, packet_replication_engine_entry=pre) is Code.OK
        other = clone(2, (4, 2), class_of_service=4)
        assert write(switch, INSERT, packet_replication_engine_entry=other) is Code.INVALID_ARGUMENT
        mirror_all(switch, 1)

        def leaves_by_4_while_paused(priority: int) -> bool:
            switch.set_port(4, pause_mask=1 << priority)
            switch.inject(1, FRAME)
            return 4 in {output.port for output in switch.run_until(switch.now_ns + 1_000_000)}

        assert not leaves_by_4_while_paused(3)
        assert leaves_by_4_while_paused(0)
        pre.clone_session_entry.class_of_service = 0
        assert write(switch, MODIFY, packet_replication_engine_entry=pre) is Code.OK
        assert not leaves_by_4_while_paused(0)
        assert leaves_by_4_while_paused(3)


def test_an_entity_must_be_set(switch: Switch) -> None:
    (status,) = switch.try_write([p4r.Update(type=INSERT)])
    assert status.code is Code.INVALID_ARGUMENT
    with pytest.raises(ReadError) as refused:
        list(switch.read(p4r.Entity()))
    assert refused.value.statuses[0].code is Code.INVALID_ARGUMENT
    assert write(switch, INSERT, extern_entry=p4r.ExternEntry()) is Code.UNIMPLEMENTED
