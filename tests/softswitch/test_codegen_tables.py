"""Tables of generated pipelines on the real core: keys, what runs, and what comes next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from softswitch.codegen import Bmv2Program, build_pipeline
from softswitch.core import CoreConfig, Spec, SwitchCore, Target
from tests.softswitch import tiny_program as tiny

Json = dict[str, Any]
PORT = tiny.field("standard_metadata", "egress_spec")


def part(match: str, *target: str, mask: str | None = None) -> Json:
    """Return a key field."""
    if match == "valid":
        return {"match_type": match, "target": target[0], "mask": None}
    return {"match_type": match, "target": list(target), "mask": mask}


def program() -> Any:
    """h (27 bytes) is extracted, then w where h.more is 1; out takes what tables write."""
    made = tiny.Tiny()
    made.type("h_t", [["more", 3, False], ["mid", 13, False], ["big", 200, False]])
    made.type("w_t", [["x", 8, False]])
    made.type("out_t", [["a", 8, False], ["b", 8, False]])
    for name in ("h", "w", "out"):
        made.header(name, f"{name}_t")
    made.emit("out")
    made.state(
        "start",
        [tiny.extract("h")],
        [tiny.field("h", "more")],
        [tiny.goto("w", "0x01"), tiny.goto(None)],
    )
    made.state("w", [tiny.extract("w")])
    made.table_action(
        "show",
        [8],
        tiny.call("add_header", tiny.header("out")),
        tiny.call("assign", tiny.field("out", "a"), {"type": "runtime_data", "value": 0}),
        tiny.call("assign", PORT, tiny.const(2)),
    )
    made.table_action(
        "miss",
        [],
        tiny.call("add_header", tiny.header("out")),
        tiny.call("assign", tiny.field("out", "a"), tiny.const(0xEE)),
        tiny.call("assign", PORT, tiny.const(2)),
    )
    made.table_action("nothing", [])
    return made


def packet(more: int = 0, mid: int = 0, big: int = 0, x: int | None = None) -> bytes:
    """h, and w's byte where x is given."""
    head = (more << 213 | mid << 200 | big).to_bytes(27, "big")
    return head + (b"" if x is None else bytes([x]))


@pytest.fixture
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def start(made: Any, cache: Path) -> SwitchCore:
    """Return a switch that runs the program; every table has its default."""
    loaded = Bmv2Program.from_json(made.json())
    core = SwitchCore()
    core.load(build_pipeline(loaded, cache_dir=cache))
    for table in loaded.tables:
        entry = table.default_entry
        assert entry is not None
        spec = Spec(target=Target.ACTION, action=entry.action.index, args=entry.args)
        core.table_set_default(table.index, spec)
    return core


def send(core: SwitchCore, data: bytes) -> bytes:
    """Return the out header that a packet leaves with.

    Nothing when it is not forwarded to port 2.
    """
    core.inject(1, data)
    outputs = [o for o in core.take_output() if o.port == 2]
    return outputs[0].data[:2] if outputs else b""


def show(value: int) -> Spec:
    """Return a call of `show` (the first action) with one byte."""
    return Spec(target=Target.ACTION, action=0, args=(value,))


def test_key_bytes_follow_the_json_order(cache: Path) -> None:
    made = program()
    made.table(
        "t",
        [
            part("exact", "h", "big"),
            part("valid", "w"),
            part("exact", "h", "mid"),
            part("exact", "w", "$valid$"),
            part("exact", "w", "x"),
        ],
        {"show": None, "miss": None},
        ["show", "miss"],
        "miss",
    )
    core = start(made, cache)
    big = 0xA5 << 192 | 0x5A
    core.table_insert(
        0, big.to_bytes(25, "big") + b"\x01" + b"\x1f\xff" + b"\x01\x07", None, 0, show(1)
    )
    # w is not there: its field counts as 0
    core.table_insert(
        0, big.to_bytes(25, "big") + b"\x00" + b"\x1f\xff" + b"\x00\x00", None, 0, show(2)
    )
    assert send(core, packet(1, 0x1FFF, big, 7)) == b"\x01\x00"
    assert send(core, packet(1, 0x1FFF, big, 8)) == b"\xee\x00"
    assert send(core, packet(0, 0x1FFF, big, 7)) == b"\x02\x00"
    assert send(core, packet(0, 0x1FFF, big + 1)) == b"\xee\x00"


def test_static_masks(cache: Path) -> None:
    made = program()
    made.table(
        "t",
        [part("exact", "h", "mid", mask="0x0ff0")],
        {"show": None, "miss": None},
        ["show", "miss"],
        "miss",
    )
    core = start(made, cache)
    core.table_insert(0, b"\x05\x60", None, 0, show(3))
    assert send(core, packet(mid=0x156F)) == b"\x03\x00"
    assert send(core, packet(mid=0x157F)) == b"\xee\x00"


def chain(following: dict[str, str | None], **more: Any) -> Any:
    """t, then `second`, which adds 1 to out.b, or `third`, which adds 2."""
    made = program()
    for name, step in (("one", 1), ("two", 2)):
        made.table_action(
            name, [], tiny.call("add_to_field", tiny.field("out", "b"), tiny.const(step))
        )
    made.table("t", [part("exact", "h", "mid")], following, ["show", "miss"], "miss", **more)
    constant = {"action_const": True, "action_data": [], "action_entry_const": True}
    made.table(
        "second",
        [],
        {"one": "third"},
        ["one"],
        "one",
        default_entry={"action_id": 3, **constant},
        base_default_next="third",
    )
    made.table(
        "third", [], {"two": None}, ["two"], "two", default_entry={"action_id": 4, **constant}
    )
    return made


@pytest.mark.parametrize(
    ("following", "hit", "miss"),
    [
        ({"show": "second", "miss": "third"}, b"\x09\x03", b"\xee\x02"),
        ({"show": None, "miss": "second"}, b"\x09\x00", b"\xee\x03"),
        ({"__HIT__": "third", "__MISS__": None}, b"\x09\x02", b"\xee\x00"),
        ({"__HIT__": None, "__MISS__": "second"}, b"\x09\x00", b"\xee\x03"),
    ],
)
def test_what_comes_next(
    following: dict[str, str | None], hit: bytes, miss: bytes, cache: Path
) -> None:
    core = start(chain(following), cache)
    core.table_insert(0, b"\x00\x05", None, 0, show(9))
    assert send(core, packet(mid=5)) == hit
    assert send(core, packet(mid=6)) == miss


def test_a_default_without_action_goes_to_the_base(cache: Path) -> None:
    made = chain({"show": "second", "miss": None}, base_default_next="third")
    made.doc["actions"][3]["primitives"].insert(0, tiny.call("add_header", tiny.header("out")))
    made.doc["actions"][4]["primitives"] += [
        tiny.call("assign", PORT, tiny.const(2)),
        tiny.call("add_header", tiny.header("out")),
    ]
    core = start(made, cache)
    core.table_set_default(0, None)
    assert send(core, packet(mid=6)) == b"\x00\x00"  # third ran: it forwards


def test_exit_in_a_table_action(cache: Path) -> None:
    made = chain({"show": "second", "miss": "second"})
    made.doc["actions"][0]["primitives"].append(tiny.call("exit"))
    core = start(made, cache)
    core.table_insert(0, b"\x00\x05", None, 0, show(9))
    assert send(core, packet(mid=5)) == b"\x09\x00"
    assert send(core, packet(mid=6)) == b"\xee\x03"


def test_direct_counters_count_hits(cache: Path) -> None:
    made = program()
    made.table(
        "t",
        [part("exact", "h", "mid")],
        {"show": None, "miss": None},
        ["show", "miss"],
        "miss",
        with_counters=True,
    )
    core = start(made, cache)
    handle = core.table_insert(0, b"\x00\x05", None, 0, show(9))
    for mid in (5, 5, 6):
        send(core, packet(mid=mid))
    counted = core.table_counter(0, handle)
    assert (counted.packets, counted.bytes) == (2, 54)
    missed = core.table_counter(0, 0)
    assert (missed.packets, missed.bytes) == (0, 0)


def test_action_data_wider_than_a_limb(cache: Path) -> None:
    made = program()
    made.type("wide_t", [["v", 136, False]])
    made.header("wide", "wide_t")
    made.doc["deparsers"][0]["order"].insert(0, "wide")
    values = [{"type": "runtime_data", "value": i} for i in range(3)]
    total = tiny.op("+", tiny.op("+", values[0], values[1]), values[2])
    made.table_action(
        "sum",
        [136, 8, 65],
        tiny.call("add_header", tiny.header("wide")),
        tiny.call("assign", tiny.field("wide", "v"), tiny.arg(total)),
        tiny.call("assign", PORT, tiny.const(2)),
    )
    made.table(
        "t", [part("exact", "h", "mid")], {"sum": None, "miss": None}, ["sum", "miss"], "miss"
    )
    core = start(made, cache)
    numbers = (2**135 + 5, 200, 2**65 - 1)
    core.table_insert(0, b"\x00\x05", None, 0, Spec(target=Target.ACTION, action=3, args=numbers))
    core.inject(1, packet(mid=5))
    assert core.take_output()[0].data[:17] == sum(numbers).to_bytes(17, "big")


def test_drop_port_is_the_switchs(cache: Path) -> None:

    made = program()
    made.table_action("drop", [], tiny.call("mark_to_drop", tiny.header("standard_metadata")))
    made.table("t", [part("exact", "h", "mid")], {"drop": None}, ["drop"], "drop")
    core = SwitchCore(CoreConfig(drop_port=300))
    loaded = Bmv2Program.from_json(made.json())
    core.load(build_pipeline(loaded, cache_dir=cache))
    core.table_set_default(0, Spec(target=Target.ACTION, action=3))
    core.inject(1, packet())
    assert core.take_output() == []
    assert core.stats().drop_ingress == 1
