"""Forms of BMv2 JSON that p4c writes and docs/JSON_format.md lacks; seen from p4c 1.2.5.16."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from softswitch.codegen import Bmv2Program, JsonError, build_pipeline
from softswitch.core import CoreConfig, Spec, SwitchCore, Target
from tests.softswitch import tiny_program as tiny

Json = dict[str, Any]
AT = tiny.field("h", "at")
STACK = tiny.ref("header_stack", "s")
PORT = tiny.field("standard_metadata", "egress_spec")


def program() -> Any:
    """h.at is an index into s, of which as many elements are extracted as h.n says (0 to 2)."""
    made = tiny.Tiny()
    made.type("h_t", [["n", 8, False], ["at", 8, False]])
    made.type("item_t", [["a", 4, False], ["b", 12, False]])
    made.type("out_t", [["x", 8, False]])
    made.header("h", "h_t")
    made.emit("h")
    made.stack("s", "item_t", 3)
    for name, of in (("copy", "item_t"), ("out", "out_t")):
        made.header(name, of)
        made.emit(name)
    item = tiny.extract("s", "stack")
    numbers = [tiny.goto("one", "0x01"), tiny.goto("two", "0x02"), tiny.goto("end")]
    made.state("start", [tiny.extract("h")], [tiny.field("h", "n")], numbers)
    made.state("one", [item], None, [tiny.goto("end")])
    made.state("two", [item, item], None, [tiny.goto("end")])
    return made


def run(made: Any, work: Path, *packets: str) -> list[str]:
    """Return what follows h in each packet afterwards."""
    ran = tiny.run(made.json(), [bytes.fromhex(packet) for packet in packets], work)
    return [result.headers.hex()[4:] for result in ran]


def test_a_bool_field_is_told_to_be_unsigned_by_a_number(tmp_path: Path) -> None:
    made = program()
    made.type("flags_t", [["yes", 1, 0], ["rest", 7, False], ["minus", 8, 1]])
    made.header("flags", "flags_t")
    made.emit("flags")
    made.state("end", [])
    yes, minus = tiny.field("flags", "yes"), tiny.field("flags", "minus")
    made.action(
        "act",
        tiny.call("add_header", tiny.header("flags")),
        tiny.call("assign", minus, tiny.const(0xFF)),
        tiny.call("assign", yes, tiny.arg(tiny.op("b2d", None, tiny.op("<", minus, yes)))),
    )
    assert run(made, tmp_path, "0000") == ["80ff"]  # -1 is less than 0
    made.doc["header_types"][-1]["fields"][0][2] = "no"
    with pytest.raises(JsonError, match=r"fields\[0\]\[2\]: expected true or false, found"):
        Bmv2Program.from_json(made.json())


def test_log_msg_of_no_values(tmp_path: Path) -> None:
    made = program()
    made.state("end", [])
    text = {"type": "string", "value": "just this: {}"}
    made.action("log", tiny.call("log_msg", text, {"type": "parameters_vector", "value": {}}))
    core = SwitchCore()
    lines: list[str] = []
    core.set_log(lambda _level, line: lines.append(line))
    core.load(build_pipeline(Bmv2Program.from_json(made.json()), cache_dir=tmp_path))
    core.inject(1, bytes(2))
    assert lines == ["just this: {}"]
    made.doc["actions"][0]["primitives"][0]["parameters"][1]["value"] = {"a": 1}
    with pytest.raises(JsonError, match="expected an array, found an object"):
        Bmv2Program.from_json(made.json())


@pytest.mark.parametrize("typed", [False, True])
def test_a_field_of_an_element_at_a_run_time_index(typed: bool, tmp_path: Path) -> None:
    """The pair of a field reference has the expression where the header's name would be."""
    made = program()
    made.state("end", [])
    element: Json = tiny.op("dereference_header_stack", STACK, AT)
    if not typed:
        element = element["value"]
    valid, b = ({"type": "field", "value": [element, name]} for name in ("$valid$", "b"))
    out = tiny.field("out", "x")
    made.action(
        "act",
        tiny.call("add_header", tiny.header("out")),
        tiny.call("assign", out, tiny.arg(tiny.op("<<", valid, tiny.const(7)))),
        tiny.call("assign", out, tiny.arg(tiny.op("+", out, b))),
        tiny.call("assign", b, tiny.const(0xAB)),
    )
    packets = ["0100" + "1012", "0101" + "1012", "0201" + "10122034", "0109" + "1012"]
    assert run(made, tmp_path, *packets) == ["10ab92", "101200", "101220abb4", "101200"]


def test_an_element_that_is_no_element_is_refused() -> None:
    made = program()
    made.state("end", [])
    made.action("act", tiny.call("assign", {"type": "field", "value": [AT, "b"]}, tiny.const(1)))
    with pytest.raises(JsonError, match=r"value\[0\]: expected a header, found an integer"):
        Bmv2Program.from_json(made.json())


def test_the_last_element_as_a_whole(tmp_path: Path) -> None:
    made = program()
    last = {"type": "stack_field", "value": ["s", "last"]}
    copy = tiny.call("assign_header", tiny.header("copy"), tiny.arg(last))
    made.state("end", [{"op": "primitive", "parameters": [copy]}])
    made.action("act")
    packets = ["0000", "0100" + "1012", "0200" + "10122034"]
    assert run(made, tmp_path, *packets) == ["", "10121012", "101220342034"]


def test_a_key_of_an_element_at_a_run_time_index(tmp_path: Path) -> None:
    """An element that is not there counts as 0."""
    made = program()
    made.state("end", [])
    for name in ("hit", "miss"):
        made.table_action(name, [], tiny.call("assign", PORT, tiny.const(2 + (name == "miss"))))
    target = tiny.op("access_field", tiny.op("dereference_header_stack", STACK, AT), 1)
    key = {"match_type": "exact", "name": "s[at].b", "target": target, "mask": None}
    other = {"match_type": "exact", "name": "n", "target": ["h", "n"], "mask": None}
    made.table("t", [key, other], {"hit": None, "miss": None}, ["hit", "miss"], "miss")
    loaded = Bmv2Program.from_json(made.json())
    assert [(k.name, k.header, k.field, k.bits) for k in loaded.tables[0].key] == [
        ("s[at].b", "s[0]", "b", 12),
        ("n", "h", "n", 8),
    ]
    core = SwitchCore(CoreConfig())
    core.load(build_pipeline(loaded, cache_dir=tmp_path))
    core.table_set_default(0, Spec(target=Target.ACTION, action=1))
    for wanted in ("003402", "000001"):
        core.table_insert(0, bytes.fromhex(wanted), None, 0, Spec(target=Target.ACTION, action=0))
    packets = ["0201" + "10122034", "0200" + "10122034", "0101" + "1012", "0109" + "1012"]
    for packet in packets:
        core.inject(1, bytes.fromhex(packet))
    assert [output.port for output in core.take_output()] == [2, 3, 2, 2]


def test_a_key_that_is_computed_is_refused() -> None:
    made = program()
    made.state("end", [])
    made.table_action("hit", [])
    key = {"match_type": "exact", "target": tiny.op("+", AT, AT), "mask": None}
    made.table("t", [key], {"hit": None}, ["hit"], "hit")
    with pytest.raises(JsonError, match=r"key\[0\].target: expected a field of a header stack's"):
        Bmv2Program.from_json(made.json())
