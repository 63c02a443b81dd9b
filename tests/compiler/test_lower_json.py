"""The JSON is whole: every name, id and field that is referred to exists and fits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compiler import compile_p4

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = [
    *sorted((Path(__file__).parent / "programs").glob("*.p4")),
    ROOT / "tests/golden/l3.p4",
    ROOT / "tests/golden/features.p4",
    *sorted(path for path in (ROOT / "p4src").glob("*.p4") if path.stem != "mechanisms"),
]
TOP_LEVEL = {
    "header_types", "headers", "header_stacks", "header_union_types", "header_unions",
    "header_union_stacks", "field_lists", "errors", "enums", "parsers", "parse_vsets",
    "deparsers", "meter_arrays", "counter_arrays", "register_arrays", "calculations",
    "learn_lists", "actions", "pipelines", "checksums", "force_arith", "extern_instances",
    "field_aliases", "program", "__meta__",
}  # fmt: skip
OPERATORS = {
    "+", "-", "*", "/", "%", "<<", ">>", "==", "!=", "<", "<=", ">", ">=", "and", "or", "not",
    "&", "|", "^", "~", "d2b", "b2d", "two_comp_mod", "sat_cast", "usat_cast", "?",
    "dereference_header_stack", "access_field", "last_stack_index", "valid_union",
}  # fmt: skip
PARAMETERS = {
    "assign": 2, "assign_VL": 2, "assign_header": 2, "assign_union": 2, "assign_header_stack": 2,
    "assign_union_stack": 2, "add_header": 1, "remove_header": 1, "push": 2, "pop": 2, "exit": 0,
    "_jump": 1, "_jump_if_zero": 2, "assert": 1, "assume": 1, "log_msg": 2, "mark_to_drop": 1,
    "modify_field_with_hash_based_offset": 4, "generate_digest": 2,
    "modify_field_rng_uniform": 3, "truncate": 1, "clone_ingress_pkt_to_egress": 2,
    "clone_egress_pkt_to_egress": 2, "resubmit": 1, "recirculate": 1, "count": 2,
    "execute_meter": 3, "register_read": 3, "register_write": 3,
}  # fmt: skip


class Checker:
    """Everything that is wrong with one JSON, as sentences."""

    def __init__(self, json: dict[str, Any]) -> None:
        self.json = json
        self.found: list[str] = []
        types = {t["name"]: t for t in json["header_types"]}
        self.fields: dict[str, dict[str, object]] = {}
        for header in json["headers"]:
            if header["header_type"] not in types:
                self.found.append(f"header {header['name']}: no type {header['header_type']}")
                continue
            fields = types[header["header_type"]]["fields"]
            self.fields[header["name"]] = {f[0]: f[1] for f in fields}
        self.names = {
            kind: {each["name"] for each in json[array]}
            for kind, array in (
                ("header", "headers"),
                ("header_stack", "header_stacks"),
                ("header_union", "header_unions"),
                ("header_union_stack", "header_union_stacks"),
                ("calculation", "calculations"),
                ("meter_array", "meter_arrays"),
                ("counter_array", "counter_arrays"),
                ("register_array", "register_arrays"),
            )
        }
        self.stack_types = {
            s["name"]: {f[0] for f in types[s["header_type"]]["fields"]}
            for s in json["header_stacks"]
        }

    def problems(self) -> list[str]:
        if set(self.json) != TOP_LEVEL:
            self.found.append(f"top-level keys: {set(self.json) ^ TOP_LEVEL}")
        self.ids()
        if self.found:
            return self.found
        self.headers()
        self.parsers()
        self.actions()
        for pipeline in self.json["pipelines"]:
            self.pipeline(pipeline)
        self.rest()
        return self.found

    def ids(self) -> None:
        pipelines = self.json["pipelines"]
        groups = {
            "tables": [t for p in pipelines for t in p["tables"]],
            "conditionals": [c for p in pipelines for c in p["conditionals"]],
            "action_profiles": [a for p in pipelines for a in p["action_profiles"]],
            "states": [s for p in self.json["parsers"] for s in p["parse_states"]],
        }
        for key in (
            "header_types",
            "headers",
            "header_stacks",
            "actions",
            "calculations",
            "checksums",
            "register_arrays",
            "counter_arrays",
            "meter_arrays",
            "field_lists",
            "learn_lists",
            "parsers",
            "deparsers",
            "pipelines",
        ):
            groups[key] = self.json[key]
        for name, objects in groups.items():
            ids = [o["id"] for o in objects]
            names = [o["name"] for o in objects]
            if len(set(ids)) != len(ids):
                self.found.append(f"{name}: ids are not unique: {ids}")
            if name not in ("actions", "learn_lists") and len(set(names)) != len(names):
                self.found.append(f"{name}: names are not unique: {names}")
        nodes = [n["name"] for p in pipelines for n in [*p["tables"], *p["conditionals"]]]
        if len(set(nodes)) != len(nodes):
            self.found.append("a table and a conditional share a name")
        for lists in ("field_lists", "learn_lists"):
            if any(each["id"] < 1 for each in self.json[lists]):
                self.found.append(f"{lists}: 0 means no list")

    def headers(self) -> None:
        for t in self.json["header_types"]:
            names = [f[0] for f in t["fields"]]
            if len(set(names)) != len(names):
                self.found.append(f"header type {t['name']}: duplicate fields")
            widths = [f[1] for f in t["fields"]]
            if "*" in widths:
                if not t.get("max_length"):
                    self.found.append(f"header type {t['name']}: varbit without max_length")
            elif sum(widths) % 8:
                self.found.append(f"header type {t['name']}: {sum(widths)} bits")
        by_id = {h["id"]: h for h in self.json["headers"]}
        for stack in self.json["header_stacks"]:
            wanted = [f"{stack['name']}[{i}]" for i in range(stack["size"])]
            if [by_id[i]["name"] for i in stack["header_ids"]] != wanted:
                self.found.append(f"stack {stack['name']}: header_ids")

    # ---------------------------------------------------------- expressions

    def field(self, value: list[str], where: str) -> None:
        header, name = value
        if header not in self.fields or (name != "$valid$" and name not in self.fields[header]):
            self.found.append(f"{where}: no field {header}.{name}")

    def tree(self, node: Any, where: str, params: int) -> str:
        """Check an expression; whether it is of BMv2's type "bool", "header" or "data"."""
        kind, value = node["type"], node["value"]
        match kind:
            case "field":
                self.field(value, where)
            case "hexstr":
                int(value, 16)
            case "bool":
                return "bool"
            case "local":
                if not 0 <= value < params:
                    self.found.append(f"{where}: no parameter {value}")
            case "stack_field":
                if value[1] not in self.stack_types.get(value[0], set()):
                    self.found.append(f"{where}: no stack field {value}")
            case "expression":
                return self.operation(value, where, params)
            case _:
                self.found.append(f"{where}: {kind} in an expression")
        return "data"

    def operation(self, value: Any, where: str, params: int) -> str:
        op, left, right = value["op"], value["left"], value["right"]
        if op not in OPERATORS:
            self.found.append(f"{where}: operator {op}")
            return "data"
        if op == "access_field":
            if self.tree(left, where, params) != "header" or not isinstance(right, int):
                self.found.append(f"{where}: access_field of no header")
            return "data"
        if op == "dereference_header_stack":
            if left["value"] not in self.names["header_stack"]:
                self.found.append(f"{where}: no stack {left['value']}")
            self.tree(right, where, params)
            return "header"
        if op in ("last_stack_index", "valid_union"):
            kind = "header_stack" if op == "last_stack_index" else "header_union"
            if right["type"] != kind or right["value"] not in self.names[kind]:
                self.found.append(f"{where}: no {kind} {right}")
            return "data" if op == "last_stack_index" else "bool"
        types = [self.tree(n, where, params) for n in (left, right) if n is not None]
        if op == "?":
            if self.tree(value["cond"], where, params) != "bool" or len(set(types)) != 1:
                self.found.append(f"{where}: types of ?: {types}")
            return types[0]
        wanted = {"and": "bool", "or": "bool", "not": "bool", "b2d": "bool"}.get(op, "data")
        if op in ("==", "!="):
            if len(set(types)) != 1:
                self.found.append(f"{where}: {op} of {types}")
        elif any(t != wanted for t in types):
            self.found.append(f"{where}: {op} of {types}")
        comparisons = ("==", "!=", "<", "<=", ">", ">=", "and", "or", "not", "d2b")
        return "bool" if op in comparisons else "data"

    def argument(self, arg: Any, where: str, params: int) -> None:
        kind, value = arg["type"], arg["value"]
        match kind:
            case "field":
                self.field(value, where)
            case "hexstr":
                int(value, 16)
            case "runtime_data":
                if not 0 <= value < params:
                    self.found.append(f"{where}: no parameter {value}")
            case "expression":
                if self.tree(value, where, params) == "bool":
                    self.found.append(f"{where}: a bool as an argument")
            case "parameters_vector":
                for each in value:
                    self.argument(each, where, params)
            case "string":
                pass
            case "lookahead" if "parser" in where:
                pass
            case _:
                if value not in self.names.get(kind, set()):
                    self.found.append(f"{where}: no {kind} {value}")

    def primitive(self, p: Any, where: str, params: int) -> None:
        where = f"{where} {p['op']}"
        if len(p["parameters"]) != PARAMETERS.get(p["op"], -1):
            self.found.append(f"{where}: {len(p['parameters'])} parameters")
        for arg in p["parameters"]:
            self.argument(arg, where, params)

    # ---------------------------------------------------------- parts

    def parsers(self) -> None:
        for parser in self.json["parsers"]:
            states = {s["name"] for s in parser["parse_states"]}
            if parser["init_state"] not in states:
                self.found.append(f"no state {parser['init_state']}")
            for state in parser["parse_states"]:
                self.state(state, states)

    def state(self, state: Any, states: set[str]) -> None:
        where = f"parser state {state['name']}"
        for op in state["parser_ops"]:
            args = op["parameters"]
            match op["op"]:
                case "extract" | "extract_VL":
                    kinds = {
                        "regular": "header",
                        "stack": "header_stack",
                        "union_stack": "header_union_stack",
                    }
                    value, kind = args[0]["value"], kinds[args[0]["type"]]
                    name = value[0] if kind == "header_union_stack" else value
                    if name not in self.names[kind]:
                        self.found.append(f"{where}: extract of {args[0]['value']}")
                    if op["op"] == "extract_VL":
                        assert args[1]["type"] == "expression"
                        self.tree(args[1]["value"], where, 0)
                case "set":
                    assert args[0]["type"] == "field"
                    for arg in args:
                        self.argument(arg, where, 0)
                case "verify":
                    if self.tree(args[0], where, 0) != "bool":
                        self.found.append(f"{where}: verify of a number")
                    self.tree(args[1], where, 0)
                case "advance":
                    assert args[0]["type"] in ("hexstr", "field")
                    self.argument(args[0], where, 0)
                case "primitive":
                    self.primitive(args[0], where, 0)
                case other:
                    self.found.append(f"{where}: {other}")
        size = 0
        for key in state["transition_key"]:
            if key["type"] == "field":
                self.field(key["value"], where)
                header, name = key["value"]
                width = 1 if name == "$valid$" else self.fields[header][name]
            else:
                stack = next(s for s in self.json["header_stacks"] if s["name"] == key["value"][0])
                width = self.fields[f"{stack['name']}[0]"][key["value"][1]]
            assert isinstance(width, int)
            size += (width + 7) // 8
        for t in state["transitions"]:
            if t["next_state"] is not None and t["next_state"] not in states:
                self.found.append(f"{where}: no state {t['next_state']}")
            if t["type"] == "hexstr":
                for text in (t["value"], t["mask"]):
                    if text is not None and len(text) != 2 + 2 * size:
                        self.found.append(f"{where}: {text} is not of {size} bytes")

    def actions(self) -> None:
        for action in self.json["actions"]:
            params, where = len(action["runtime_data"]), f"action {action['name']}"
            assert all(p["bitwidth"] > 0 for p in action["runtime_data"])
            for p in action["primitives"]:
                self.primitive(p, where, params)
                if p["op"].startswith("_jump"):
                    goal = int(p["parameters"][-1]["value"], 16)
                    if goal > len(action["primitives"]):
                        self.found.append(f"{where}: jump to {goal}")

    def pipeline(self, pipeline: Any) -> None:
        nodes = {n["name"] for n in [*pipeline["tables"], *pipeline["conditionals"]]}
        actions = {a["id"]: a for a in self.json["actions"]}
        profiles = {p["name"]: p for p in pipeline["action_profiles"]}

        def follow(name: str | None, where: str) -> None:
            if name is not None and name not in nodes:
                self.found.append(f"{where}: no node {name}")

        follow(pipeline["init_table"], pipeline["name"])
        for c in pipeline["conditionals"]:
            follow(c["true_next"], c["name"])
            follow(c["false_next"], c["name"])
            if self.tree(c["expression"], c["name"], 0) != "bool":
                self.found.append(f"{c['name']}: a number as condition")
        for t in pipeline["tables"]:
            where = f"table {t['name']}"
            follow(t["base_default_next"], where)
            for target in t["next_tables"].values():
                follow(target, where)
            own = [actions[i]["name"] for i in t["action_ids"]]
            if own != t["actions"] or len(set(own)) != len(own):
                self.found.append(f"{where}: actions {own}, {t['actions']}")
            if not (
                {"__HIT__", "__MISS__"} >= set(t["next_tables"])
                or set(t["next_tables"]) == set(own)
            ):
                self.found.append(f"{where}: next_tables {t['next_tables']}")
            for key in t["key"]:
                self.field(key["target"], where)
            if t["type"] == "simple":
                self.entry(t["default_entry"], t, actions, where)
            elif t["action_profile"] not in profiles:
                self.found.append(f"{where}: no profile {t['action_profile']}")
            elif (t["type"] == "indirect_ws") != ("selector" in profiles[t["action_profile"]]):
                self.found.append(f"{where}: selector")
            if t["direct_meters"] is not None:
                self.named("meter_arrays", t["direct_meters"], where)
            self.entries(t, actions, where)

    def entry(self, entry: Any, table: Any, actions: dict[int, Any], where: str) -> None:
        if entry["action_id"] not in table["action_ids"]:
            self.found.append(f"{where}: action {entry['action_id']} of an entry")
        elif len(entry["action_data"]) != len(actions[entry["action_id"]]["runtime_data"]):
            self.found.append(f"{where}: action data of an entry")

    def entries(self, table: Any, actions: dict[int, Any], where: str) -> None:
        for entry in table.get("entries", []):
            self.entry(entry["action_entry"], table, actions, where)
            if [m["match_type"] for m in entry["match_key"]] != [
                k["match_type"] for k in table["key"]
            ]:
                self.found.append(f"{where}: match types of an entry")

    def named(self, array: str, name: str, where: str) -> None:
        if name not in {each["name"] for each in self.json[array]}:
            self.found.append(f"{where}: no {name} in {array}")

    def rest(self) -> None:
        for name in (n for d in self.json["deparsers"] for n in d["order"]):
            if name not in self.names["header"]:
                self.found.append(f"deparser: no header {name}")
        for each in [*self.json["field_lists"], *self.json["learn_lists"]]:
            for element in each["elements"]:
                self.field(element["value"], each["name"])
        for calc in self.json["calculations"]:
            for e in calc["input"]:
                if e["type"] == "field":
                    self.field(e["value"], calc["name"])
                elif e["type"] == "hexstr":
                    assert e["bitwidth"] > 0
                else:
                    assert e["type"] == "payload"
        for c in self.json["checksums"]:
            self.field(c["target"], c["name"])
            self.named("calculations", c["calculation"], c["name"])
            self.tree(c["if_cond"], c["name"], 0)
        tables = {t["name"] for p in self.json["pipelines"] for t in p["tables"]}
        for array in ("counter_arrays", "meter_arrays"):
            for each in self.json[array]:
                if each["is_direct"] and each["binding"] not in tables:
                    self.found.append(f"{each['name']}: bound to no table")
        for _, target in self.json["field_aliases"]:
            self.field(target, "alias")


def problems(source: Path) -> list[str]:
    include = [ROOT / "p4src", ROOT / "p4src/include"]
    return Checker(compile_p4(source, include_dirs=include).json).problems()


@pytest.mark.parametrize("source", PROGRAMS, ids=lambda p: p.stem)
def test_every_reference_leads_somewhere(source: Path) -> None:
    assert problems(source) == []


def mutations() -> Iterator[tuple[str, list[Any]]]:
    yield "no node nowhere", ["pipelines", 0, "conditionals", 0, "true_next", "nowhere"]
    yield "no field ipv4.nothing", ["checksums", 0, "target", ["ipv4", "nothing"]]
    yield "no header ghost", ["deparsers", 0, "order", 0, "ghost"]
    yield "ids are not unique", ["actions", 1, "id", 0]
    yield "2 parameters", ["actions", 0, "primitives", 0, "op", "mark_to_drop"]
    yield "no state lost", ["parsers", 0, "parse_states", 1, "transitions", 0, "next_state", "lost"]


@pytest.mark.parametrize(("complaint", "change"), list(mutations()), ids=lambda x: str(x)[:20])
def test_the_checker_notices(complaint: str, change: list[Any]) -> None:
    json = compile_p4(ROOT / "tests/golden/features.p4").json
    *path, key, value = change
    target: Any = json
    for step in path:
        target = target[step]
    target[key] = value
    assert any(complaint in each for each in Checker(json).problems())


CHECKSUMS = """
#include <core.p4>
#include <v1model.p4>
header h_t { bit<16> sum; bit<16> a; bit<16> b; }
struct headers { h_t outer; h_t inner; }
struct metadata { }
parser P(packet_in p, out headers hdr, inout metadata m, inout standard_metadata_t std) {
    state start { p.extract(hdr.outer); p.extract(hdr.inner); transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply { } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t std) { apply { } }
control E(inout headers hdr, inout metadata m, inout standard_metadata_t std) { apply { } }
control Sum(inout h_t h, in h_t other) {
    apply {
        update_checksum(h.isValid(), { h.a, other.b }, h.sum, HashAlgorithm.csum16);
    }
}
control C(inout headers hdr, inout metadata m) {
    Sum() outer;
    Sum() inner;
    apply {
        outer.apply(hdr.outer, hdr.inner);
        if (hdr.outer.isValid()) { inner.apply(hdr.inner, hdr.outer); }
    }
}
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""


def test_checksums_of_applied_controls(tmp_path: Path) -> None:
    source = tmp_path / "sums.p4"
    source.write_text(CHECKSUMS)
    json = compile_p4(source).json
    inputs = {
        each["name"]: [part["value"] for part in each["input"]] for each in json["calculations"]
    }
    assert [(each["target"], inputs[each["calculation"]]) for each in json["checksums"]] == [
        (["outer", "sum"], [["outer", "a"], ["inner", "b"]]),
        (["inner", "sum"], [["inner", "a"], ["outer", "b"]]),
    ]
