"""Files of entries: what they say becomes what the switch is given, or a line for each mistake."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from controller.entry_files import EntryFileError, OwnEntries, read_entries
from controller.program import CompiledProgram
from softswitch import program_cache
from softswitch.p4runtime.protos import p4r

SOURCE = """
#include <core.p4>
#include <v1model.p4>
header h_t { bit<32> dst; bit<12> low; bit<4> kind; }
struct headers { h_t h; }
struct meta { }
parser P(packet_in p, out headers hdr, inout meta m, inout standard_metadata_t s) {
    state start { p.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout meta m) { apply { } }
control I(inout headers hdr, inout meta m, inout standard_metadata_t s) {
    register<bit<16>>(4) seen;
    action drop() { mark_to_drop(s); }
    action forward(bit<9> port, bit<48> mac) { s.egress_spec = port; }
    action flood() { s.mcast_grp = 1; }
    table route { key = { hdr.h.dst: lpm; } actions = { forward; flood; drop; } size = 4; }
    table acl {
        key = { hdr.h.low: range; hdr.h.kind: ternary; }
        actions = { drop; NoAction; }
        default_action = NoAction();
    }
    table wide { key = { hdr.h.dst: exact; } actions = { drop; } size = 16384; }
    apply { route.apply(); acl.apply(); wide.apply(); seen.write(0, 1); }
}
control E(inout headers hdr, inout meta m, inout standard_metadata_t s) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
"""

ROUTE = {
    "table": "I.route",
    "match": {"hdr.h.dst": ["10.0.1.0", 24]},
    "action_name": "I.forward",
    "action_params": {"port": 2, "mac": "02:00:00:00:00:07"},
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> CompiledProgram:
    path = tmp_path_factory.mktemp("p4") / "small.p4"
    path.write_text(SOURCE)
    return CompiledProgram.of(program_cache.compile_program(program_cache.Job(path)), path)


def read(folder: Path, program: CompiledProgram, text: str, name: str) -> OwnEntries:
    path = folder / name
    path.write_text(text)
    return read_entries(path, program, [1, 2, 3])


def refused(folder: Path, program: CompiledProgram, text: str, name: str) -> list[str]:
    with pytest.raises(EntryFileError) as caught:
        read(folder, program, text, name)
    return [line.removeprefix(f"{folder}/") for line in str(caught.value).splitlines()]


def of_kind(entries: OwnEntries) -> list[str]:
    kinds = {p4r.Update.INSERT: "INSERT", p4r.Update.MODIFY: "MODIFY", p4r.Update.DELETE: "DELETE"}
    return [f"{kinds[u.type]} {u.entity.WhichOneof('entity')}" for u in entries.updates]


def test_json_of_the_tutorials_becomes_updates_with_their_places(
    tmp_path: Path, program: CompiledProgram
) -> None:
    data = {
        "target": "bmv2",
        "p4info": "build/x.p4info.txt",
        "table_entries": [
            {"table": "I.route", "default_action": True, "action_name": "I.drop"},
            ROUTE,
            {
                "table": "I.acl",
                "match": {"hdr.h.low": [5, 9], "hdr.h.kind": [3, 15]},
                "priority": 7,
                "action_name": "I.drop",
                "action_params": {},
            },
        ],
        "multicast_group_entries": [
            {"multicast_group_id": 1, "replicas": [{"egress_port": 1}, {"egress_port": 3}]}
        ],
        "clone_session_entries": [
            {"clone_session_id": 5, "replicas": [{"egress_port": 255, "instance": 1}]}
        ],
    }
    found = read(tmp_path, program, json.dumps(data, indent=1), "s1-runtime.json")
    table, engine = "table_entry", "packet_replication_engine_entry"
    assert of_kind(found) == [
        f"MODIFY {table}", f"INSERT {table}", f"INSERT {table}",
        f"INSERT {engine}", f"INSERT {engine}",
    ]  # fmt: skip
    route = found.updates[1].entity.table_entry
    assert (route.match[0].lpm.value, route.match[0].lpm.prefix_len) == (b"\x0a\x00\x01\x00", 24)
    assert {p.param_id: p.value for p in route.action.action.params} == {
        1: b"\x02",
        2: b"\x02\x00\x00\x00\x00\x07",
    }
    acl = found.updates[2].entity.table_entry
    assert (acl.match[0].range.low, acl.match[0].range.high, acl.priority) == (b"\x05", b"\x09", 7)
    lines = (tmp_path / "s1-runtime.json").read_text().splitlines()
    place, _, line = found.place(2).rpartition(":")
    assert place == str(tmp_path / "s1-runtime.json")
    assert lines[int(line)].strip() == '"table": "I.acl",'  # the line after the entry's first


def test_commands_of_p4_utils_become_the_same_updates(
    tmp_path: Path, program: CompiledProgram
) -> None:
    text = """
        # by prefix
        table_set_default route drop

        table_add I.route forward 10.0.1.0/24 => 2 02:00:00:00:00:07
        mc_mgrp_create 1
        mc_node_create 0 1 3
        mc_node_associate 1 0
        register_write seen 2 77
        table_add acl drop 5->9 3&&&15 => 1
        table_modify route drop 0
        mirroring_add 5 3
    """
    found = read(tmp_path, program, text, "s1-commands.txt")
    same = read(tmp_path, program, json.dumps({"table_entries": [ROUTE]}), "s1-runtime.json")
    assert found.updates[1] == same.updates[0]
    assert found.place(1) == f"{tmp_path}/s1-commands.txt:5"
    group = found.updates[3].entity.packet_replication_engine_entry.multicast_group_entry
    assert sorted(each.egress_port for each in group.replicas) == [1, 3]
    assert found.updates[4].entity.WhichOneof("entity") == "register_entry"
    assert of_kind(found)[-2:] == [
        "MODIFY table_entry",
        "INSERT packet_replication_engine_entry",
    ]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"table": "I.rout"}, "P4Info has no table 'I.rout'; did you mean 'I.route'?"),
        ({"action_name": "I.go"}, "P4Info has no action 'I.go'"),
        ({"match": {"hdr.h.dts": ["10.0.1.0", 24]}}, "has no match field 'hdr.h.dts'"),
        ({"match": {"hdr.h.dst": ["10.0.1", 24]}}, "'10.0.1' is not a value"),
        ({"match": {"hdr.h.dst": ["10.0.1.0", 24, 1]}}, "must be a value, or [value, prefix"),
        ({"match": {"hdr.h.dst": ["10.0.1.0", 33]}}, "33"),
        ({"action_params": {"port": 2}}, "mac"),
        ({"action_params": {"port": 2, "mac": 1 << 48}}, "48"),
        ({"action_params": {"port": 9, "mac": 1}}, "no link at port 9: it has 1, 2, 3"),
        ({"priority": 3}, "priority"),
        ({"prioritty": 3}, "unknown key 'prioritty'; did you mean 'priority'?"),
        ({"match": 7}, "match must be an object, not 7"),
    ],
)
def test_a_mistake_in_json_is_one_line_with_its_place(
    tmp_path: Path, program: CompiledProgram, change: dict[str, object], said: str
) -> None:
    data = {"table_entries": [ROUTE | {"match": {"hdr.h.dst": ["10.9.0.0", 16]}}, ROUTE | change]}
    (line,) = refused(tmp_path, program, json.dumps(data, indent=1), "s1-runtime.json")
    place, _, message = line.partition(": ")
    assert said in message
    name, _, number = place.partition(":")
    assert name == "s1-runtime.json"
    second = json.dumps({"table_entries": data["table_entries"][:1]}, indent=1).count("\n") - 1
    assert int(number) > second


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("table_add rout forward 10.0.1.0/24 => 2 7", "Invalid table name (rout)"),
        ("table_add route go 10.0.1.0/24 => 2 7", "Table route has no action go"),
        ("table_add route forward 10.0.1/24 => 2 7", "Invalid IPv4 address"),
        ("table_add route forward 10.0.1.0/40 => 2 7", "prefix length 40: h.dst has 32 bits"),
        ("table_add route forward 10.0.1.0/24 => 2", "needs 2 parameters"),
        ("table_add route forward 10.0.1.0/24 => 512 7", "port has 9 bits, too few for 512"),
        ("table_add route forward 10.0.1.0/24 => 9 7", "no link at port 9"),
        ("table_add acl drop 5->9 0x1f&&&0x1f => 1", "h.kind has 4 bits, too few for 31"),
        ("table_ad route forward 10.0.1.0/24 => 2 7", "no command 'table_ad'"),
        ("register_write seen 9 1", "I.seen has indices from 0 to 3"),
        ("set_queue_rate 5 1", "not in a file of entries"),
        ("load_new_config_file other.json", "not in a file of entries"),
        ("!touch nothing", "not in a file of entries"),
    ],
)
def test_a_mistake_in_commands_is_one_line_with_its_place(
    tmp_path: Path, program: CompiledProgram, line: str, said: str
) -> None:
    text = f"table_set_default route drop\n\n{line}\n"
    (told,) = refused(tmp_path, program, text, "s1-commands.txt")
    assert told.startswith("s1-commands.txt:3: ")
    assert said in told


def test_every_mistake_of_a_file_is_told_and_duplicates_are_mistakes(
    tmp_path: Path, program: CompiledProgram
) -> None:
    data = {"table_entries": [ROUTE, ROUTE, {"table": "I.route"}], "tables": []}
    lines = refused(tmp_path, program, json.dumps(data, indent=1), "s1-runtime.json")
    assert [line.partition(": ")[2][:14] for line in lines] == [
        "ALREADY_EXISTS",
        "'action_name' ",
        "unknown key 't",
    ]


def test_a_full_table_and_bad_json_are_mistakes(tmp_path: Path, program: CompiledProgram) -> None:
    many = [ROUTE | {"match": {"hdr.h.dst": [f"10.0.{i}.0", 24]}} for i in range(5)]
    (line,) = refused(tmp_path, program, json.dumps({"table_entries": many}), "s1-runtime.json")
    assert "RESOURCE_EXHAUSTED" in line
    (line,) = refused(tmp_path, program, '{"table_entries": [\n}', "s1-runtime.json")
    assert line.startswith("s1-runtime.json:2: not valid JSON")
    (line,) = refused(tmp_path, program, "[]", "s1-runtime.json")
    assert "must be an object" in line
    with pytest.raises(EntryFileError, match="can't be read: No such file"):
        read_entries(tmp_path / "none.json", program, [1])


def test_ten_thousand_entries_are_read_in_seconds(tmp_path: Path, program: CompiledProgram) -> None:
    entry = {"table": "I.wide", "action_name": "I.drop"}
    entries = [entry | {"match": {"hdr.h.dst": i}} for i in range(10_000)]
    started = time.process_time()
    found = read(tmp_path, program, json.dumps({"table_entries": entries}), "s1-runtime.json")
    assert len(found.updates) == 10_000
    assert time.process_time() - started < 5
