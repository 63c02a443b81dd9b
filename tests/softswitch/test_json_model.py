"""The loader: what it reads from p4c's JSON, and how it refuses what is no BMv2 JSON."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from softswitch.codegen import Bmv2Program, JsonError
from softswitch.codegen.expressions import Const, FieldRef, Op
from softswitch.codegen.generate import generate_c
from softswitch.codegen.model import Advance, Conditional, Extract, ParserCall, Set, Table, Verify

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
Json = dict[str, Any]


def golden(name: str) -> Json:
    """Return a golden document, to be changed at will."""
    document: Json = json.loads((GOLDEN / f"{name}.json").read_text())
    return document


L3, FEATURES = golden("l3"), golden("features")


def test_l3_is_read_whole() -> None:
    program = Bmv2Program.from_json(GOLDEN / "l3.json")
    assert program.name == "l3.p4"
    assert list(program.headers) == ["scalars", "standard_metadata", "eth", "ip"]
    assert [f.bits for f in program.headers["ip"].type.fields][:4] == [4, 4, 8, 16]
    route = program.tables[0]
    assert (route.name, route.match_type, route.max_size) == ("I.route", "lpm", 1024)
    assert [(k.name, k.match, k.bits, k.bytes) for k in route.key] == [("h.ip.dst", "lpm", 32, 4)]
    assert [a.name for a in route.actions] == ["I.fwd", "I.drop"]
    assert route.default_entry is not None and route.default_entry.action.name == "I.drop"
    assert [(p.name, p.bits) for p in program.actions[1].params] == [("mac", 48), ("port", 9)]
    start = program.parser.states["start"]
    assert isinstance(start.ops[0], Extract) and start.ops[0].target.name == "eth"
    assert start.key == ((FieldRef("eth", "type"), 16),)
    assert [(t.kind, t.value.hex(), t.next) for t in start.transitions] == [
        ("hexstr", "0800", "ip"),
        ("default", "", None),
    ]
    node = program.ingress.nodes["node_4"]
    assert isinstance(node, Conditional)
    assert node.expression == Op("==", FieldRef("standard_metadata", "ingress_port"), Const(1))


def test_features_is_read_whole() -> None:
    program = Bmv2Program.from_json(FEATURES)
    assert program.errors["BadVersion"] == 7
    assert program.enums == {"color_t": {"GREEN": 0, "YELLOW": 1, "RED": 2}}
    assert program.header_types["ipv4_options_t"].max_bytes == 40
    assert [h.name for h in program.stacks["hops"].headers] == [f"hops[{i}]" for i in range(4)]
    acl = next(t for t in program.tables if t.name == "FabricIngress.acl")
    assert [k.match for k in acl.key] == ["lpm", "range", "ternary", "exact", "ternary"]
    assert acl.next_is_hit_miss and (acl.hit_next, acl.miss_next) == ("tbl_act", "tbl_act_0")
    assert (acl.with_counters, acl.support_timeout) == (True, True)
    assert acl.direct_meter == "FabricIngress.acl_meter"
    queue = next(t for t in program.tables if t.name == "FabricEgress.queue")
    assert queue.immutable and [(e.key[0].value, e.key[0].high) for e in queue.entries] == [
        (8, 0x7FFFF)
    ]
    group = next(t for t in program.tables if t.name == "FabricIngress.balance.group")
    assert (group.type, group.action_profile) == ("indirect_ws", "FabricIngress.balance.members")
    selector = program.profiles[0].selector
    assert selector is not None and selector.algorithm == "crc16"
    assert [c.table for c in program.counters] == [None, "FabricIngress.acl"]
    assert program.meters[1].target == FieldRef("scalars", "metadata_t.meter_color")
    assert [f.id for f in program.field_lists] == [1, 2]
    kinds = {type(op) for state in program.parser.states.values() for op in state.ops}
    assert kinds == {Extract, Set, Verify}
    assert program.std_fields["standard_metadata", "mcast_grp"] == "mcast_grp"
    assert all(program.tables[i].index == i for i in range(len(program.tables)))


def test_an_alias_moves_a_standard_field_elsewhere() -> None:
    document = golden("l3")
    document["header_types"][0]["fields"].append(["out", 9, False])
    document["field_aliases"].append(["standard_metadata.egress_spec", ["scalars", "out"]])
    fields = Bmv2Program.from_json(document).std_fields
    assert fields["scalars", "out"] == "egress_spec"
    assert ("standard_metadata", "egress_spec") not in fields


def test_unknown_keys_are_ignored() -> None:
    document = golden("l3")
    document["something new"] = {"a": 1}
    document["headers"][2]["@annotations"] = ["x"]
    assert Bmv2Program.from_json(document).headers["eth"].name == "eth"


def test_old_indirect_tables_declare_their_profile() -> None:
    document = golden("features")
    ingress = document["pipelines"][0]
    profile = ingress["action_profiles"].pop()
    table = next(t for t in ingress["tables"] if t["type"] == "indirect_ws")
    del table["action_profile"]
    table["act_prof_name"] = "old"
    table["selector"] = profile["selector"]
    program = Bmv2Program.from_json(document)
    assert [(p.name, p.selector is not None) for p in program.profiles] == [("old", True)]


def test_the_parser_may_shift_advance_and_call() -> None:
    document = golden("l3")
    document["parsers"][0]["parse_states"][1]["parser_ops"] += [
        {"op": "shift", "parameters": [3]},
        {"op": "advance", "parameters": [{"type": "hexstr", "value": "0x10"}]},
        {"op": "primitive", "parameters": [{"op": "no_op", "parameters": []}]},
    ]
    ops = Bmv2Program.from_json(document).parser.states["ip"].ops
    assert ops[1:3] == (Advance(Const(24)), Advance(Const(16)))
    assert isinstance(ops[3], ParserCall)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "document: not JSON"),
        ("{", "document: not JSON"),
        (b"\xff\xfe{", "document: not JSON"),
        pytest.param("[" * 100_000, "document: nested too deeply", id="nested"),
        ("[]", "document: expected an object, found an array of 0"),
        ("{}", 'document: no BMv2 JSON: missing key "header_types"'),
        ('{"header_types": []}', 'document: no BMv2 JSON: missing key "headers"'),
    ],
)
def test_what_is_no_document(text: str | bytes, message: str) -> None:
    with pytest.raises(JsonError) as caught:
        Bmv2Program.from_json(text)
    assert str(caught.value).startswith(message)


def test_a_file_is_named_in_the_message(tmp_path: Path) -> None:
    path = tmp_path / "prog.json"
    path.write_text("nonsense")
    with pytest.raises(JsonError, match=r"prog\.json: not JSON"):
        Bmv2Program.from_json(path)
    with pytest.raises(OSError, match="absent"):
        Bmv2Program.from_json(tmp_path / "absent.json")


MISSING = object()


@pytest.mark.parametrize(
    ("base", "where", "value", "message"),
    [
        (L3, "__meta__.version", [3, 0], "__meta__.version[0]: BMv2 JSON version 2.x is supported"),
        (L3, "headers.2.header_type", "no_t", "headers[2].header_type: unknown header type"),
        (L3, "headers.2.id", "two", 'headers[2].id: expected an integer, found the string "two"'),
        (L3, "headers.3.name", "eth", 'headers[3]: a second header with name "eth"'),
        (
            L3,
            "header_types.2.fields.1.0",
            "dst",
            'header_types[2].fields[1][0]: a second field "dst"',
        ),
        (L3, "headers.2", MISSING, 'unknown header "eth"'),
        (L3, "headers.1.name", "std", 'unknown header "standard_metadata"'),
        (L3, "header_types.2.fields.0", ["dst"], "header_types[2].fields[0]: expected [name"),
        (L3, "header_types.2.fields.0.1", -1, "header_types[2].fields[0][1]: expected an integer"),
        (L3, "header_types.2.fields.0.1", 47, 'headers[2]: header "eth" has 111 bits'),
        (L3, "header_types.1.fields.1.0", "out", 'missing field "standard_metadata.egress_spec"'),
        (L3, "parsers.0.name", "Parser", 'parsers: no parser is named "parser"'),
        (L3, "parsers.0.init_state", "begin", 'parsers[0].init_state: unknown parse state "begin"'),
        (
            L3,
            "parsers.0.parse_states.0.transitions.0.next_state",
            "ipv6",
            "parsers[0].parse_states[0].transitions[0].next_state: unknown parse state",
        ),
        (
            L3,
            "parsers.0.parse_states.0.transitions.0.value",
            "0x08",
            "parsers[0].parse_states[0].transitions[0].value: expected a hexadecimal string of 2",
        ),
        (
            L3,
            "parsers.0.parse_states.0.parser_ops.0.op",
            "teleport",
            'parsers[0].parse_states[0].parser_ops[0].op: unsupported parser operation "teleport"',
        ),
        (L3, "deparsers.0.order.1", "udp", 'deparsers[0].order[1]: unknown header "udp"'),
        (
            L3,
            "calculations.0.algo",
            "md5",
            'calculations[0].algo: unsupported hash algorithm "md5"',
        ),
        (
            L3,
            "actions.1.primitives.0.op",
            "_my_extern_run",
            'actions[1].primitives[0].op: unsupported primitive "_my_extern_run"',
        ),
        (
            L3,
            "actions.1.primitives.0.parameters.1.value",
            2,
            "actions[1].primitives[0].parameters[1].value: no parameter 2: there are 2",
        ),
        (
            L3,
            "actions.1.primitives.0.parameters.1",
            MISSING,
            'actions[1].primitives[0]: primitive "assign" takes 2 arguments, found 1',
        ),
        (
            L3,
            "actions.1.primitives.3.parameters.1.value.value.op",
            "**",
            'actions[1].primitives[3].parameters[1].value.value.op: unsupported operation "**"',
        ),
        (
            L3,
            "actions.1.primitives.3.parameters.0.value",
            ["ip", "$valid$"],
            "actions[1].primitives[3].parameters[0]: expected a field or register to write",
        ),
        (
            L3,
            "actions.0.primitives.0.parameters.0",
            {"type": "hexstr", "value": "0x1"},
            "actions[0].primitives[0].parameters[0]: expected a header, found an integer",
        ),
        (L3, "actions.1.id", 0, "actions[1].id: a second action with id 0"),
        (L3, "pipelines.1.name", "out", 'pipelines: no pipeline is named "egress"'),
        (L3, "pipelines.0.init_table", "x", "pipelines[0].init_table: unknown control flow node"),
        (
            L3,
            "pipelines.0.tables.0.key.0.target",
            ["ip", "ttl2"],
            'pipelines[0].tables[0].key[0].target[1]: header type "ipv4_t" has no field "ttl2"',
        ),
        (
            L3,
            "pipelines.0.tables.0.key.0.match_type",
            "fuzzy",
            "pipelines[0].tables[0].key[0].match_type: expected one of exact, lpm",
        ),
        (
            L3,
            "pipelines.0.tables.0.next_tables",
            {"I.fwd": None},
            "pipelines[0].tables[0].next_tables: expected the keys ['I.drop', 'I.fwd']",
        ),
        (
            L3,
            "pipelines.0.tables.0.default_entry.action_data",
            ["0x1"],
            'pipelines[0].tables[0].default_entry.action_data: action "I.drop" takes 0 arguments',
        ),
        (
            L3,
            "pipelines.0.conditionals.1.expression.value.left",
            {"type": "bool", "value": True},
            "pipelines[0].conditionals[1].expression.value.right: expected a boolean, found",
        ),
        (
            L3,
            "checksums.0.calculation",
            "calc_9",
            'checksums[0].calculation: unknown calculation "calc_9"',
        ),
        (
            FEATURES,
            "pipelines.1.tables.1.entries.0.match_key.0.start",
            "0x080000",
            "pipelines[1].tables[1].entries[0].match_key[0].start: does not fit 19 bits",
        ),
        (
            FEATURES,
            "header_stacks.0.header_ids.1",
            2,
            'header_stacks[0].header_ids[1]: header "packet_out" has not type "hop_t"',
        ),
        (
            FEATURES,
            "pipelines.0.tables.17.action_profile",
            "nobody",
            'pipelines[0].tables[17].action_profile: unknown action profile "nobody"',
        ),
        (FEATURES, "learn_lists.0.id", 0, "learn_lists[0].id: expected an integer of at least 1"),
    ],
)
def test_bad_documents(base: Json, where: str, value: object, message: str) -> None:
    """One change to a good document; the message begins with the place."""
    document = copy.deepcopy(base)
    *path, last = where.split(".")
    node: Any = document
    for step in path:
        node = node[int(step)] if isinstance(node, list) else node[step]
    if value is MISSING:
        del node[int(last) if isinstance(node, list) else last]
    elif isinstance(node, list):
        node[int(last)] = value
    else:
        node[last] = value
    with pytest.raises(JsonError) as caught:
        Bmv2Program.from_json(document)
    text = str(caught.value)
    assert message in text, text
    assert caught.value.path and caught.value.problem


def test_no_required_key_can_be_left_out() -> None:
    """Whatever key of the golden programs is missing: a JsonError or a program, nothing else."""

    def objects(node: Any) -> list[Json]:
        if isinstance(node, list):
            return [o for item in node for o in objects(item)]
        if isinstance(node, dict):
            return [node, *(o for item in node.values() for o in objects(item))]
        return []

    for document in (golden("l3"), golden("features")):
        seen: set[tuple[str, ...]] = set()
        for target in objects(document):
            shape = tuple(sorted(target))
            if shape in seen:
                continue
            seen.add(shape)
            for key in list(target):
                kept = target.pop(key)
                try:
                    Bmv2Program.from_json(document)
                except JsonError as error:
                    assert error.problem
                target[key] = kept


def test_every_kind_of_value_in_every_place() -> None:
    """A value of the wrong type anywhere is a JsonError with a place, never another exception."""

    def places(node: Any) -> list[tuple[Any, Any]]:
        pairs = list(enumerate(node)) if isinstance(node, list) else list(node.items())
        inner = [(node, key) for key, _ in pairs]
        return inner + [
            p for _, item in pairs if isinstance(item, list | dict) for p in places(item)
        ]

    document = golden("l3")
    for container, key in places(document):
        kept = container[key]
        for wrong in (None, 7, "text", [], {}, True):
            container[key] = wrong
            try:
                program = Bmv2Program.from_json(document)
            except JsonError as error:
                assert error.problem
            else:
                assert all(isinstance(table, Table) for table in program.tables)
        container[key] = kept


def test_nesting_beyond_reason() -> None:
    document = golden("l3")
    conditional = document["pipelines"][0]["conditionals"][0]
    expression: Json = {"type": "bool", "value": True}
    for _ in range(5000):
        expression = {
            "type": "expression",
            "value": {"op": "not", "left": None, "right": expression},
        }
    conditional["expression"] = expression
    with pytest.raises(JsonError, match="nested too deeply"):
        Bmv2Program.from_json(document)


def test_what_is_too_large_is_refused_at_once() -> None:
    """A width beyond all reason would take all memory long before C is generated."""
    document = golden("features")
    document["header_types"][0]["fields"][0][1] = 1 << 70
    with pytest.raises(JsonError, match=r"header_types\[0\].fields\[0\]\[1\]: .* at most 65536"):
        Bmv2Program.from_json(document)
    document = golden("features")
    document["register_arrays"][0]["size"] = 1 << 32
    with pytest.raises(JsonError, match=r"register_arrays\[0\].size: .* at most 4294967295"):
        Bmv2Program.from_json(document)


def test_a_select_on_a_whole_header_is_refused() -> None:
    """`[stack, "last"]` means the last header where its type has no field of that name."""
    document = golden("features")
    for header_type in document["header_types"]:
        for field in header_type["fields"]:
            field[0] = "other" if field[0] == "last" else field[0]
    with pytest.raises(JsonError, match="a whole header"):
        Bmv2Program.from_json(document)


def test_a_parser_sets_no_validity_of_metadata() -> None:
    document = golden("l3")
    value = {"type": "field", "value": ["scalars", "$valid$"]}
    operation = {"op": "set", "parameters": [value, {"type": "hexstr", "value": "0x01"}]}
    document["parsers"][0]["parse_states"][0]["parser_ops"].insert(0, operation)
    with pytest.raises(JsonError, match='"scalars" is metadata: it has no validity') as caught:
        Bmv2Program.from_json(document)
    assert "parser_ops[0].parameters[0].value" in str(caught.value)
    value["value"] = ["ip", "$valid$"]
    assert generate_c(Bmv2Program.from_json(document))


def test_a_parser_extracts_no_metadata() -> None:
    document = golden("l3")
    operation = {"op": "extract", "parameters": [{"type": "regular", "value": "scalars"}]}
    document["parsers"][0]["parse_states"][0]["parser_ops"].append(operation)
    with pytest.raises(JsonError, match='"scalars" is metadata: no packet has it'):
        Bmv2Program.from_json(document)


def test_an_id_belongs_to_one_list_of_fields() -> None:
    document = golden("l3")
    fields = [{"id": 4, "name": name, "elements": []} for name in ("one", "two")]
    document["field_lists"] = fields
    with pytest.raises(JsonError, match=r"field_lists\[1\].id: a second field list with id 4"):
        Bmv2Program.from_json(document)
    fields[1]["id"] = 5
    assert generate_c(Bmv2Program.from_json(document))


def test_only_a_parser_looks_ahead() -> None:
    document = golden("l3")
    look = {"type": "lookahead", "value": [0, 8]}
    target = {"type": "field", "value": ["eth", "type"]}
    call = {"op": "assign", "parameters": [target, look]}
    document["actions"][0]["primitives"].append(call)
    with pytest.raises(JsonError, match="only a parser can look ahead") as caught:
        Bmv2Program.from_json(document)
    assert caught.value.path.startswith("actions[0].primitives")


def test_a_table_has_an_action_once() -> None:
    document = golden("l3")
    tables = document["pipelines"][0]["tables"]
    (at, table) = next((i, t) for i, t in enumerate(tables) if t["key"])
    table["action_ids"].append(table["action_ids"][0])
    table["actions"].append(table["actions"][0])
    with pytest.raises(JsonError, match="a second action") as caught:
        Bmv2Program.from_json(document)
    assert caught.value.path.startswith(f"pipelines[0].tables[{at}].action_ids[")
