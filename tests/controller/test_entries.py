"""Entries by name to P4Runtime and back, canonical bytes, and words for what doesn't fit."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller import CompiledProgram, ControllerError, UnknownName
from controller.entries import (
    ActionCall,
    CloneSession,
    DefaultEntry,
    Entry,
    Exact,
    Group,
    GroupRef,
    Lpm,
    Member,
    MulticastGroup,
    Range,
    TableEntry,
    Ternary,
    call,
    decode,
    describe,
    encode,
    match,
    to_bytes,
)
from controller.p4info import P4Info
from controller.table_rows import table_rows

DENY = call("deny_packet")
SAMPLES: list[Entry] = [
    TableEntry("ipv4_route", match(dst=Lpm(0x0A000100, 24)), call("route_to", next_hop=3)),
    TableEntry("ipv4_route", match(), call("drop_unrouted")),
    TableEntry("arp_targets", match(target_ip=Exact(0)), call("answer_request", mac=2**48 - 1)),
    TableEntry("ecmp_group", match(group=Exact(1)), GroupRef(1)),
    TableEntry("acl", match(dst=Ternary(0x0A000000, 0xFF000000)), DENY, priority=5),
    TableEntry("acl", match(), DENY, priority=1),
    DefaultEntry("router", call("set_router_mac", mac=7)),
    Member("ecmp_members", 3, call("choose_next_hop", next_hop=3)),
    Group("ecmp_members", 1, ((3, 1), (4, 2))),
    CloneSession(20, ((3, 1), (4, 1)), class_of_service=7, packet_length=100),
    MulticastGroup(7, ((1, 1), (2, 0), (2, 1))),
]


@pytest.fixture(scope="module")
def p4info(program: CompiledProgram) -> P4Info:
    return program.p4info


@pytest.mark.parametrize("entry", SAMPLES, ids=describe)
def test_there_and_back(p4info: P4Info, entry: Entry) -> None:
    assert decode(encode(entry, p4info), p4info) == entry


def test_full_names_are_aliases(p4info: P4Info) -> None:
    entry = TableEntry(
        "FabricIngress.routing.ipv4_route",
        match(dst=Lpm(0x0A000100, 24)),
        ActionCall("FabricIngress.routing.route_to", (("next_hop", 3),)),
    )
    assert decode(encode(entry, p4info), p4info) == SAMPLES[0]


@settings(deadline=None)  # other tests share the processor
@given(value=st.integers(0, 2**48 - 1))
def test_bytes_are_canonical(value: int) -> None:
    data = to_bytes(value, 48, "x")
    assert int.from_bytes(data, "big") == value
    assert data == b"\0" or data[0] != 0


def test_bits_outside_a_prefix_or_mask_are_cleared(p4info: P4Info) -> None:
    entry = TableEntry("ipv4_route", match(dst=Lpm(0x0A0001FF, 24)), call("drop_unrouted"))
    assert encode(entry, p4info).table_entry.match[0].lpm.value == bytes((10, 0, 1, 0))
    entry = TableEntry("acl", match(dst=Ternary(0xFFFFFFFF, 0xFF)), DENY, priority=1)
    assert encode(entry, p4info).table_entry.match[0].ternary.value == b"\xff"


def test_matching_everything_is_left_out(p4info: P4Info) -> None:
    entry = TableEntry("acl", match(dst=Ternary(0, 0)), DENY, priority=1)
    assert not encode(entry, p4info).table_entry.match
    entry = TableEntry("ipv4_route", match(dst=Lpm(0, 0)), call("drop_unrouted"))
    assert not encode(entry, p4info).table_entry.match


ROUTE = match(dst=Lpm(0x0A000100, 24))
MISTAKES = [
    (TableEntry("ipv4_rout", ROUTE, call("drop_unrouted")), "no table 'ipv4_rout'; did you mean"),
    (TableEntry("ipv4_route", match(dest=Lpm(0, 8)), DENY), "no match field 'dest': it has dst"),
    (TableEntry("ipv4_route", match(dst=Exact(1)), DENY), "does not fit: this is a lpm match"),
    (TableEntry("ipv4_route", match(dst=Lpm(0, 33)), DENY), "does not fit: this is a lpm match"),
    (TableEntry("acl", match(dst=Range(1, 2)), DENY, priority=1), "this is a ternary match"),
    (TableEntry("ipv4_route", ROUTE, call("route_too")), "no action 'route_too'; did you mean"),
    (TableEntry("ipv4_route", ROUTE, call("route_to")), "ipv4_route: route_to needs next_hop"),
    (
        TableEntry("ipv4_route", ROUTE, call("route_to", next_hop=1, x=2)),
        "action 'route_to' has no parameter 'x': it has next_hop",
    ),
    (
        TableEntry("ipv4_route", ROUTE, call("route_to", next_hop=0x10000)),
        "route_to.next_hop: 65536 does not fit into 16 bits",
    ),
    (TableEntry("ipv4_route", ROUTE, call("drop_unrouted"), priority=1), "takes no priority"),
    (TableEntry("acl", match(), DENY), "table acl needs a priority above 0"),
    (
        TableEntry("arp_targets", match(), call("answer_request", mac=1)),
        "needs a value for target_ip",
    ),
    (
        TableEntry("arp_targets", match(target_ip=Exact(2**32)), call("answer_request", mac=1)),
        "arp_targets.target_ip: 4294967296 does not fit into 32 bits",
    ),
    (Member("members", 1, call("choose_next_hop", next_hop=1)), "no action profile 'members'"),
]


@pytest.mark.parametrize(("entry", "message"), MISTAKES, ids=lambda m: str(m)[:40])
def test_a_mistake_is_named(p4info: P4Info, entry: Entry, message: str) -> None:
    with pytest.raises((ControllerError, UnknownName)) as caught:
        encode(entry, p4info)
    assert message in str(caught.value)


def test_rows_to_read(p4info: P4Info) -> None:
    rows = table_rows(SAMPLES, p4info)
    assert [(row.table, row.key, row.action, row.priority) for row in rows] == [
        ("router", "(default)", "set_router_mac(mac=00:00:00:00:00:07)", 0),
        ("acl", "dst 10.0.0.0 & 0xff000000", "deny_packet()", 5),
        ("acl", "any", "deny_packet()", 1),
        ("arp_targets", "target_ip 0.0.0.0", "answer_request(mac=ff:ff:ff:ff:ff:ff)", 0),
        ("ipv4_route", "dst 10.0.1.0/24", "route_to(next_hop=3)", 0),
        ("ipv4_route", "any", "drop_unrouted()", 0),
        ("ecmp_group", "group 1", "group 1", 0),
        ("ecmp_members", "member 3", "choose_next_hop(next_hop=3)", 0),
        ("ecmp_members", "group 1", "one of members 3, 4 x2", 0),
        ("clone session", "20", "to port 3, port 4", 0),
        ("multicast group", "7", "to port 1, port 2, port 2", 0),
    ]


def test_a_number_as_wide_as_an_address_is_a_number(p4info: P4Info) -> None:
    # Marking's slope was 0.6.181.55 once.
    call = ActionCall("mark_between", (("low", 1171), ("high", 3125), ("slope", 439607)))
    (row,) = table_rows([DefaultEntry("ecn_threshold", call)], p4info)
    assert row.action == "mark_between(low=1171, high=3125, slope=439607)"
