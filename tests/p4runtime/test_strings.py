"""Types that the controller calls by strings: `@p4runtime_translation` to `string`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from softswitch.p4runtime.protos import p4r
from softswitch.p4runtime.status import Code, EntityError, WriteError
from softswitch.p4runtime.strings import Strings
from softswitch.switch import Switch

PROGRAM = """
#include <core.p4>
#include <v1model.p4>
@p4runtime_translation("", string) type bit<9> port_t;
@p4runtime_translation("", string) type bit<8> hop_t;
header h_t { bit<8> v; }
@controller_header("packet_in") header in_t { port_t port; bit<7> pad; }
@controller_header("packet_out") header out_t { port_t port; bit<7> pad; }
struct headers { in_t to_controller; out_t from_controller; h_t h; }
struct meta_t { hop_t hop; port_t in_port; }
parser P(packet_in p, out headers h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        m.hop = (hop_t)0;
        m.in_port = (port_t)s.ingress_port;
        transition select(s.ingress_port) { 255: controller; default: data; }
    }
    state controller { p.extract(h.from_controller); transition data; }
    state data { p.extract(h.h); transition accept; }
}
control V(inout headers h, inout meta_t m) { apply {} }
control I(inout headers h, inout meta_t m, inout standard_metadata_t s) {
    action use(hop_t hop) { m.hop = hop; }
    action fwd(port_t port) { s.egress_spec = (bit<9>)port; }
    table hops {
        key = { h.h.v: exact; m.in_port: optional; }
        actions = { use; @defaultonly NoAction; }
        const default_action = NoAction;
    }
    table ports { key = { m.hop: exact; } actions = { fwd; NoAction; } }
    table masked { key = { m.hop: ternary; } actions = { fwd; NoAction; } }
    apply {
        mark_to_drop(s);
        hops.apply();
        ports.apply();
        masked.apply();
        if (h.from_controller.isValid()) {
            s.egress_spec = (bit<9>)h.from_controller.port;
            h.from_controller.setInvalid();
        } else if (s.egress_spec == 255) {
            h.to_controller = {m.in_port, 0};
        }
    }
}
control E(inout headers h, inout meta_t m, inout standard_metadata_t s) { apply {} }
control C(inout headers h, inout meta_t m) { apply {} }
control D(packet_out p, in headers h) { apply { p.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""
MS = 1_000_000


@pytest.fixture
def switch(tmp_path: Path) -> Iterator[Switch]:
    source = tmp_path / "strings.p4"
    source.write_text(PROGRAM)
    with Switch.from_p4(source, cpu_port=255) as switch:
        yield switch


def test_packets_go_by_entries_that_only_strings_name(switch: Switch) -> None:
    switch.table_add("I.hops", {"h.h.v": 1}, "I.use", {"hop": "spine-1"}, priority=1)
    switch.table_add("I.hops", {"h.h.v": 2}, "I.use", {"hop": "spine-2"}, priority=1)
    switch.table_add("I.ports", {"m.hop": "spine-1"}, "I.fwd", {"port": "4"})
    switch.table_add("I.ports", {"m.hop": "spine-2"}, "I.fwd", {"port": "0x5"})
    for value in (1, 2, 3):
        switch.inject(1, bytes([value]))
    assert [(o.port, o.packet) for o in switch.run_until(MS)] == [(4, b"\1"), (5, b"\2")]


def test_where_a_mask_is_numbers_stand_as_they_are(switch: Switch) -> None:
    switch.table_add("I.hops", {"h.h.v": 1}, "I.use", {"hop": "9"}, priority=1)
    switch.table_add("I.masked", {"m.hop": (8, 0xF8)}, "I.fwd", {"port": "4"}, priority=1)
    switch.inject(1, b"\1")
    switch.inject(1, b"\2")
    assert [(o.port, o.packet) for o in switch.run_until(MS)] == [(4, b"\1")]


def test_an_optional_match_and_packets_of_the_controller(switch: Switch) -> None:
    switch.table_add("I.hops", {"h.h.v": 1, "m.in_port": "7"}, "I.use", {"hop": "up"}, priority=1)
    switch.table_add("I.ports", {"m.hop": "up"}, "I.fwd", {"port": "255"})
    switch.inject(6, b"\1")
    switch.inject(7, b"\1")
    switch.run_until(MS)
    (told,) = switch.packet_ins
    assert told.payload == b"\1" and told.metadata["port"] == 7
    switch.packet_out(b"\3", {"port": "3"})
    assert [(o.port, o.packet) for o in switch.run_until(2 * MS)] == [(3, b"\3")]


def test_entries_read_back_as_they_were_written(switch: Switch) -> None:
    switch.table_add("I.ports", {"m.hop": "spine-1"}, "I.fwd", {"port": "4"})
    switch.table_add("I.ports", {"m.hop": "9"}, "I.fwd", {"port": "uplink"})
    entries = [e.table_entry for e in switch.read(p4r.Entity(table_entry=p4r.TableEntry()))]
    rows = {e.match[0].exact.value: e.action.action.params[0].value for e in entries if e.match}
    assert rows == {b"spine-1": b"4", b"9": b"uplink"}


@pytest.mark.parametrize("value", [b"", b"\xff\xfe"])
def test_what_is_no_string_is_refused(switch: Switch, value: bytes) -> None:
    table = switch.names.table("I.ports")
    entry = p4r.TableEntry(table_id=table.id)
    entry.match.add(field_id=table.fields[0].id).exact.value = value
    entry.action.action.CopyFrom(switch.names.action("I.fwd", {"port": "4"}))
    update = p4r.Update(type=p4r.Update.INSERT, entity=p4r.Entity(table_entry=entry))
    with pytest.raises(WriteError, match="a string is expected"):
        switch.write([update])


def test_numbers_stand_for_themselves_and_others_come_from_the_top() -> None:
    strings = Strings("t", 2)
    assert [strings.number(s, "x") for s in (b"a", b"1", b"b", b"a")] == [3, 1, 2, 3]
    assert strings.number(b"01", "x") == 0  # not how 1 is written: a name like any other
    for one_more in (b"3", b"9" * 5000):  # Python itself refuses to read so many digits
        with pytest.raises(EntityError) as caught:
            strings.number(one_more, "x")
    assert caught.value.code is Code.RESOURCE_EXHAUSTED
    assert [strings.string(n) for n in range(4)] == [b"01", b"1", b"b", b"a"]
    assert Strings("t", 2).string(2) == b"2"


def test_what_is_forgotten_frees_its_number() -> None:
    strings = Strings("t", 2)
    strings.number(b"a", "x")
    known = strings.known
    for _ in range(3):
        assert [strings.number(s, "x") for s in (b"b", b"0", b"c")] == [2, 0, 1]
        strings.keep(known)
    assert [strings.number(s, "x") for s in (b"1", b"a", b"d")] == [1, 3, 2]


def test_what_is_refused_or_only_asked_for_takes_no_numbers(switch: Switch) -> None:
    """bit<8> has 256 of them, and each of these would take one."""
    ports = switch.names.table("I.ports")

    def entry(hop: str, port: str) -> p4r.TableEntry:
        made = p4r.TableEntry(table_id=ports.id)
        made.match.add(field_id=ports.fields[0].id).exact.value = hop.encode()
        made.action.action.CopyFrom(switch.names.action("I.fwd", {"port": port}))
        return made

    def write(*entries: p4r.TableEntry, atomicity: int = 0, kind: int = p4r.Update.INSERT) -> int:
        updates = [p4r.Update(type=kind, entity=p4r.Entity(table_entry=e)) for e in entries]
        statuses = switch.device.write(updates, atomicity)
        return sum(status.code is Code.OK for status in statuses)

    assert write(entry("kept", "4")) == 1
    for n in range(300):
        made = entry(f"in vain {n}", "4")
        made.priority = 1  # after the key was read: none belongs here
        assert write(made) == 0
        assert write(entry(f"not there {n}", "4"), kind=p4r.Update.DELETE) == 0
        query = entry(f"asked for {n}", "4")
        query.ClearField("action")
        assert list(switch.read(p4r.Entity(table_entry=query))) == []
        batch = entry(f"undone {n}", "5"), entry("kept", "6")  # which is there already
        assert write(*batch, atomicity=p4r.WriteRequest.ROLLBACK_ON_ERROR) == 0
        message = p4r.PacketOut(payload=b"x")
        for number, value in ((1, b"port %d" % n), (2, b"\xff")):  # 2: more than its 7 bits
            message.metadata.add(metadata_id=number, value=value)
        with pytest.raises(EntityError):
            switch.device.packet_out(message)
    assert write(entry("also kept", "4")) == 1
    assert write(entry("kept", "4"), entry("also kept", "5"), kind=p4r.Update.MODIFY) == 2
    switch.table_add("I.hops", {"h.h.v": 1}, "I.use", {"hop": "also kept"}, priority=1)
    switch.inject(1, b"\1")
    assert [(o.port, o.packet) for o in switch.run_until(MS)] == [(5, b"\1")]
