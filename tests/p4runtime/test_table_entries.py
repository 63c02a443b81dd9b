"""Table entries on the in-process switch: what is accepted, refused (with which code) and read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from softswitch.p4runtime.pipeline import read_p4info
from softswitch.p4runtime.protos import p4i, p4r
from softswitch.p4runtime.status import Code, WriteError
from softswitch.switch import Switch

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
ACL = "FabricIngress.acl"
PERMIT = "FabricIngress.permit"
VALID = {"hdr.ipv4.$valid$": 1}
INSERT, MODIFY, DELETE = p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE


@pytest.fixture
def switch() -> Iterator[Switch]:
    with Switch.from_json(GOLDEN / "features.json", GOLDEN / "features.p4info.txtpb") as switch:
        yield switch


@pytest.fixture
def l3() -> Iterator[Switch]:
    with Switch.from_json(GOLDEN / "l3.json", GOLDEN / "l3.p4info.txtpb") as switch:
        yield switch


def write(switch: Switch, kind: int, entry: p4r.TableEntry) -> Code:
    """Return the code that one update gives."""
    update = p4r.Update(type=kind, entity=p4r.Entity(table_entry=entry))
    (status,) = switch.try_write([update])
    return status.code


def read(switch: Switch, query: p4r.TableEntry | None = None) -> list[p4r.TableEntry]:
    """Return the entries that `query` (default: everything) selects."""
    query = p4r.TableEntry() if query is None else query
    return [entity.table_entry for entity in switch.read(p4r.Entity(table_entry=query))]


def acl(switch: Switch, **extra: object) -> p4r.TableEntry:
    """Return a good entry of the acl table."""
    match = {"hdr.ipv4.src": ("10.0.0.0", 8), **VALID}
    entry = switch.names.entry(ACL, match, PERMIT, priority=5)
    for name, value in extra.items():
        setattr(entry, name, value)
    return entry


# --- read-write symmetry --------------------------------------------------------------------------


def test_an_entry_reads_as_it_was_written(switch: Switch) -> None:
    match = {
        "hdr.ipv4.src": ("10.1.0.0", 16),
        "hdr.udp.dport": (53, 99),
        "hdr.ipv4.dscp": (8, 0x38),
        "has_udp": 1,
        **VALID,
    }
    entry = switch.names.entry(ACL, match, "FabricIngress.mirror", {"session": 7}, priority=3)
    entry.metadata = b"mine"
    entry.idle_timeout_ns = 10**9
    assert write(switch, INSERT, entry) is Code.OK
    assert read(switch, p4r.TableEntry(table_id=entry.table_id)) == [entry]


def test_long_byte_strings_are_accepted_and_read_in_the_short_form(switch: Switch) -> None:
    entry = acl(switch)
    wanted = p4r.TableEntry()
    wanted.CopyFrom(entry)
    entry.match[0].lpm.value = b"\0\0" + entry.match[0].lpm.value
    assert write(switch, INSERT, entry) is Code.OK
    assert read(switch, p4r.TableEntry(table_id=entry.table_id)) == [wanted]


def test_match_fields_in_any_order_are_the_same_key(switch: Switch) -> None:
    entry = acl(switch)
    assert write(switch, INSERT, entry) is Code.OK
    turned = p4r.TableEntry()
    turned.CopyFrom(entry)
    del turned.match[:]
    turned.match.extend(reversed(entry.match))
    assert write(switch, INSERT, turned) is Code.ALREADY_EXISTS
    assert write(switch, DELETE, turned) is Code.OK


def test_the_same_key_with_another_priority_is_another_entry(switch: Switch) -> None:
    assert write(switch, INSERT, acl(switch)) is Code.OK
    assert write(switch, INSERT, acl(switch, priority=6)) is Code.OK
    assert len(read(switch, p4r.TableEntry(table_id=acl(switch).table_id))) == 2


# --- what is refused, and with which code ---------------------------------------------------------

Change = Callable[[p4r.TableEntry], None]


def _set_field(index: int, **value: object) -> Change:
    def change(entry: p4r.TableEntry) -> None:
        field_id = entry.match[index].field_id
        entry.match[index].CopyFrom(p4r.FieldMatch(field_id=field_id, **value))

    return change


def _add_field(field_id: int, **value: object) -> Change:
    return lambda entry: entry.match.append(p4r.FieldMatch(field_id=field_id, **value))


def _set(**values: object) -> Change:
    def change(entry: p4r.TableEntry) -> None:
        for name, value in values.items():
            setattr(entry, name, value)

    return change


def _action(entry: p4r.TableEntry, **values: object) -> None:
    entry.action.Clear()
    for name, value in values.items():
        setattr(entry.action, name, value)


LPM = p4r.FieldMatch.LPM
TERNARY = p4r.FieldMatch.Ternary
RANGE = p4r.FieldMatch.Range
EXACT = p4r.FieldMatch.Exact
BAD = Code.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (_set(table_id=33554433), Code.NOT_FOUND),
        (_set_field(0, lpm=LPM(value=b"\n\0\0\0", prefix_len=0)), BAD),
        (_set_field(0, lpm=LPM(value=b"\n\0\0\0", prefix_len=33)), BAD),
        (_set_field(0, lpm=LPM(value=b"\n\0\0\1", prefix_len=8)), BAD),
        (_set_field(0, lpm=LPM(value=b"\1\n\0\0\0", prefix_len=8)), Code.OUT_OF_RANGE),
        (_set_field(0, lpm=LPM(value=b"", prefix_len=8)), Code.OUT_OF_RANGE),
        (_set_field(0, exact=EXACT(value=b"\n\0\0\0")), BAD),
        (_set_field(0), BAD),
        (_add_field(2, range=RANGE(low=b"\0", high=b"\xff\xff")), BAD),
        (_add_field(2, range=RANGE(low=b"\2", high=b"\1")), BAD),
        (_add_field(2, range=RANGE(low=b"\0", high=b"\1\0\0")), Code.OUT_OF_RANGE),
        (_add_field(3, ternary=TERNARY(value=b"\0", mask=b"\0")), BAD),
        (_add_field(3, ternary=TERNARY(value=b"\3", mask=b"\1")), BAD),
        (_add_field(3, ternary=TERNARY(value=b"\0", mask=b"\x40")), Code.OUT_OF_RANGE),
        (_add_field(1, lpm=LPM(value=b"\n\0\0\0", prefix_len=8)), BAD),
        (_add_field(77, exact=EXACT(value=b"\1")), BAD),
        (lambda entry: entry.match.pop(), BAD),
        (_set(priority=0), BAD),
        (_set(priority=-1), BAD),
        (_set(is_const=True), BAD),
        (_set(idle_timeout_ns=-1), BAD),
        (lambda entry: entry.time_since_last_hit.SetInParent(), BAD),
        (lambda entry: entry.ClearField("action"), BAD),
        (lambda entry: _action(entry, action_profile_member_id=1), BAD),
        (lambda entry: entry.action.Clear(), BAD),
        (lambda entry: setattr(entry.action.action, "action_id", 1), BAD),
        (lambda entry: setattr(entry.action.action, "action_id", 24185911), BAD),
        (lambda entry: entry.action.action.params.add(param_id=1, value=b"\1"), BAD),
        (lambda entry: entry.meter_counter_data.SetInParent(), Code.UNIMPLEMENTED),
        (lambda entry: setattr(entry.meter_config, "cir", -2), BAD),
        (lambda entry: setattr(entry.counter_data, "packet_count", -1), BAD),
    ],
)
def test_a_bad_entry_is_refused_and_nothing_is_left(
    switch: Switch, change: Change, code: Code
) -> None:
    entry = acl(switch)
    change(entry)
    assert write(switch, INSERT, entry) is code
    assert read(switch, p4r.TableEntry(table_id=acl(switch).table_id)) == []


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ([(1, b"\2"), (2, b"\2")], Code.OK),
        ([(2, b"\2"), (1, b"\0\2")], Code.OK),
        ([(1, b"\2")], BAD),
        ([(1, b"\2"), (2, b"\2\0")], BAD),
        ([(1, b"\2"), (2, b"")], BAD),
        ([(1, b"\2"), (1, b"\2"), (2, b"\2")], BAD),
        ([(1, b"\2"), (2, b"\2"), (3, b"\2")], BAD),
    ],
)
def test_action_parameters(l3: Switch, params: list[tuple[int, bytes]], code: Code) -> None:
    entry = l3.names.entry("I.route", {"h.ip.dst": ("10.0.0.0", 8)}, "I.fwd")
    for number, value in params:
        entry.action.action.params.add(param_id=number, value=value)
    assert write(l3, INSERT, entry) is code


def test_resources_that_a_table_lacks_are_refused(l3: Switch) -> None:
    entry = l3.names.entry("I.route", {"h.ip.dst": ("10.0.0.0", 8)}, "I.drop")
    for name, value in (
        ("counter_data", p4r.CounterData(packet_count=1)),
        ("meter_config", p4r.MeterConfig(cir=1, pir=1)),
        ("idle_timeout_ns", 5),
        ("priority", 5),
    ):
        bad = p4r.TableEntry(**{name: value})
        bad.MergeFrom(entry)
        assert write(l3, INSERT, bad) is BAD, name


def test_modify_and_delete_need_the_entry(switch: Switch) -> None:
    assert write(switch, MODIFY, acl(switch)) is Code.NOT_FOUND
    assert write(switch, DELETE, acl(switch)) is Code.NOT_FOUND
    assert write(switch, p4r.Update.UNSPECIFIED, acl(switch)) is BAD


def test_delete_looks_at_the_key_only(switch: Switch) -> None:
    assert write(switch, INSERT, acl(switch)) is Code.OK
    nonsense = acl(switch)
    nonsense.action.action.action_id = 99
    nonsense.idle_timeout_ns = -7
    assert write(switch, DELETE, nonsense) is Code.OK


def test_a_full_table_says_so(l3: Switch) -> None:
    updates = [
        p4r.Update(
            type=INSERT,
            entity=p4r.Entity(
                table_entry=l3.names.entry("I.route", {"h.ip.dst": (n, 32)}, "I.drop")
            ),
        )
        for n in range(1, 1026)
    ]
    codes = [status.code for status in l3.try_write(updates)]
    assert codes == [Code.OK] * 1024 + [Code.RESOURCE_EXHAUSTED]


def test_the_error_names_entry_and_reason(l3: Switch) -> None:
    l3.table_add("I.route", {"h.ip.dst": ("10.0.0.0", 8)}, "I.drop")
    with pytest.raises(WriteError, match=r"I\.route\[h\.ip\.dst=0x0a000000/8\] is there already"):
        l3.table_add("I.route", {"h.ip.dst": ("10.0.0.0", 8)}, "I.drop")


# --- modify ---------------------------------------------------------------------------------------


def test_modify_replaces_everything_but_the_key(switch: Switch) -> None:
    first = acl(switch, metadata=b"a", idle_timeout_ns=10**9)
    first.meter_config.CopyFrom(p4r.MeterConfig(cir=1, cburst=1, pir=2, pburst=2))
    assert write(switch, INSERT, first) is Code.OK
    second = acl(switch, metadata=b"b")
    second.action.CopyFrom(p4r.TableAction(action=switch.names.action("FabricIngress.drop")))
    assert write(switch, MODIFY, second) is Code.OK
    query = p4r.TableEntry(table_id=first.table_id, meter_config=p4r.MeterConfig())
    assert read(switch, query) == [second]


def test_modify_without_action_keeps_the_action(switch: Switch) -> None:
    entry = acl(switch)
    assert write(switch, INSERT, entry) is Code.OK
    change = acl(switch, metadata=b"new")
    change.ClearField("action")
    assert write(switch, MODIFY, change) is Code.OK
    (found,) = read(switch, p4r.TableEntry(table_id=entry.table_id))
    assert (found.action, found.metadata) == (entry.action, b"new")


# --- default entries ------------------------------------------------------------------------------


def test_default_action_can_be_set_and_reset(switch: Switch) -> None:
    query = switch.names.entry(ACL, None)
    (initial,) = read(switch, query)
    switch.table_default(ACL, "FabricIngress.mirror", {"session": 3})
    (changed,) = read(switch, query)
    assert changed == switch.names.entry(ACL, None, "FabricIngress.mirror", {"session": 3})
    assert write(switch, MODIFY, query) is Code.OK
    assert read(switch, query) == [initial]


@pytest.mark.parametrize(
    ("kind", "table", "change", "code"),
    [
        (INSERT, ACL, _set(), BAD),
        (DELETE, ACL, _set(), BAD),
        (MODIFY, ACL, _set(priority=1), BAD),
        (MODIFY, ACL, _add_field(4, exact=EXACT(value=b"\1")), BAD),
        (MODIFY, ACL, _set(idle_timeout_ns=1), BAD),
        (MODIFY, "FabricIngress.vrf_map", _set(), Code.PERMISSION_DENIED),
        (MODIFY, "FabricIngress.balance.group", _set(), BAD),
    ],
)
def test_default_entries_that_are_refused(
    switch: Switch, kind: int, table: str, change: Change, code: Code
) -> None:
    entry = switch.names.entry(table, None)
    change(entry)
    assert write(switch, kind, entry) is code


@pytest.mark.parametrize(
    ("scope", "default", "code"),
    [
        (p4i.ActionRef.TABLE_AND_DEFAULT, False, Code.OK),
        (p4i.ActionRef.TABLE_AND_DEFAULT, True, Code.OK),
        (p4i.ActionRef.DEFAULT_ONLY, False, Code.PERMISSION_DENIED),
        (p4i.ActionRef.DEFAULT_ONLY, True, Code.OK),
        (p4i.ActionRef.TABLE_ONLY, False, Code.OK),
        (p4i.ActionRef.TABLE_ONLY, True, Code.PERMISSION_DENIED),
    ],
)
def test_action_scope(scope: int, default: bool, code: Code) -> None:
    info = read_p4info(GOLDEN / "l3.p4info.txtpb")
    for ref in info.tables[0].action_refs:
        ref.scope = scope
    with Switch.from_json((GOLDEN / "l3.json").read_bytes(), info) as switch:
        match = None if default else {"h.ip.dst": ("10.0.0.0", 8)}
        entry = switch.names.entry("I.route", match, "I.drop")
        assert write(switch, MODIFY if default else INSERT, entry) is code


def test_numbers_of_a_translated_type_are_taken_as_they_are() -> None:
    """P4Info may say 32 bits for a port type that has 9 in the program."""
    info = read_p4info(GOLDEN / "l3.p4info.txtpb")
    port = info.actions[1].params[1]
    assert port.name == "port"
    port.bitwidth = 32
    port.type_name.name = "port_id_t"
    with Switch.from_json((GOLDEN / "l3.json").read_bytes(), info) as switch:
        for number, code in ((511, Code.OK), (512, Code.INVALID_ARGUMENT)):
            match = {"h.ip.dst": (number << 16, 16)}
            hop = {"mac": 1, "port": number}
            entry = switch.names.entry("I.route", match, "I.fwd", hop)
            assert write(switch, INSERT, entry) is code


# --- constant tables ------------------------------------------------------------------------------


def test_constant_entries_are_read_and_stay(switch: Switch) -> None:
    table = switch.names.table("FabricIngress.vrf_map")
    entries = read(switch, p4r.TableEntry(table_id=table.id))
    assert [e.is_const for e in entries] == [True, True]
    first, second = entries
    assert first.priority > second.priority > 0
    assert [m.field_id for m in first.match] == [1, 2]
    assert [m.field_id for m in second.match] == [1]
    for entry in entries:
        copy = p4r.TableEntry()
        copy.CopyFrom(entry)
        copy.is_const = False
        assert write(switch, DELETE, copy) is Code.PERMISSION_DENIED
        assert write(switch, MODIFY, copy) is Code.PERMISSION_DENIED
    assert len(read(switch, p4r.TableEntry(table_id=table.id))) == 2


# --- reading a part -------------------------------------------------------------------------------


def test_reads_can_be_narrowed(switch: Switch) -> None:
    other = acl(switch, priority=9, metadata=b"x")
    other.action.CopyFrom(p4r.TableAction(action=switch.names.action("FabricIngress.drop")))
    for entry in (acl(switch), other):
        assert write(switch, INSERT, entry) is Code.OK
    table = other.table_id
    drop = p4r.TableAction(action=switch.names.action("FabricIngress.drop"))
    for query in (
        p4r.TableEntry(table_id=table, priority=9),
        p4r.TableEntry(table_id=table, metadata=b"x"),
        p4r.TableEntry(table_id=table, action=drop),
        p4r.TableEntry(table_id=table, match=other.match, priority=9),
    ):
        assert read(switch, query) == [other]
    assert len(read(switch, p4r.TableEntry(table_id=table, match=other.match))) == 2
    assert len(read(switch)) == 2 + 3  # and the constant ones


# --- direct counters and meters -------------------------------------------------------------------


def test_counter_comes_when_asked_for(switch: Switch) -> None:
    entry = acl(switch)
    assert write(switch, INSERT, entry) is Code.OK
    query = p4r.TableEntry(table_id=entry.table_id)
    assert not read(switch, query)[0].HasField("counter_data")
    switch.modify(
        direct_counter_entry=p4r.DirectCounterEntry(
            table_entry=entry, data=p4r.CounterData(packet_count=12, byte_count=5)
        )
    )
    query.counter_data.SetInParent()
    (found,) = read(switch, query)
    assert found.counter_data == p4r.CounterData(packet_count=12)  # it counts packets only
    change = acl(switch)
    assert write(switch, MODIFY, change) is Code.OK
    assert read(switch, query)[0].counter_data.packet_count == 12
    (direct,) = switch.read(
        p4r.Entity(direct_counter_entry=p4r.DirectCounterEntry(table_entry=entry))
    )
    assert direct.direct_counter_entry.data.packet_count == 12


def test_meter_config_is_kept_and_reset(switch: Switch) -> None:
    entry = acl(switch)
    entry.meter_config.CopyFrom(p4r.MeterConfig(cir=5, cburst=6, pir=7, pburst=8))
    assert write(switch, INSERT, entry) is Code.OK
    query = p4r.Entity(direct_meter_entry=p4r.DirectMeterEntry(table_entry=entry))
    (found,) = switch.read(query)
    assert found.direct_meter_entry.config == entry.meter_config
    switch.modify(direct_meter_entry=p4r.DirectMeterEntry(table_entry=entry))
    (found,) = switch.read(query)
    assert not found.direct_meter_entry.HasField("config")
