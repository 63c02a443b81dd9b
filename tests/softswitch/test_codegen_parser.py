"""Generated parsers: what is extracted, where they stop, and with which error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.softswitch import tiny_program as tiny

Json = dict[str, Any]
GOLDEN = Path(__file__).resolve().parents[1] / "golden"

TOO_SHORT, OUT_OF_BOUNDS, HEADER_SHORT, TIMEOUT, BAD_ARGUMENT = 1, 3, 4, 5, 6


def two_headers() -> Any:
    """Build a program with a (2 bytes), then b (3 bytes) where a.kind is 7."""
    made = tiny.Tiny()
    made.type("a_t", [["kind", 8, False], ["rest", 8, False]])
    made.type("b_t", [["x", 12, False], ["y", 12, False]])
    made.header("a", "a_t")
    made.header("b", "b_t")
    made.emit("a", "b")
    made.state(
        "start",
        [tiny.extract("a")],
        [tiny.field("a", "kind")],
        [tiny.goto("b", "0x07"), tiny.goto(None)],
    )
    made.state("b", [tiny.extract("b")])
    return made


@pytest.mark.parametrize(
    ("packet", "error", "parsed", "headers"),
    [
        ("", TOO_SHORT, 0, ""),
        ("07", TOO_SHORT, 0, ""),
        ("0701", TOO_SHORT, 2, "0701"),
        ("0701abcd", TOO_SHORT, 2, "0701"),
        ("0701abcdef", 0, 5, "0701abcdef"),
        ("0701abcdef99", 0, 5, "0701abcdef"),
        ("0801abcdef", 0, 2, "0801"),
    ],
)
def test_a_short_packet_keeps_what_was_extracted(
    packet: str, error: int, parsed: int, headers: str, tmp_path: Path
) -> None:
    ran = tiny.run(two_headers().json(), [bytes.fromhex(packet)], tmp_path)[0]
    assert (ran.parser_error, ran.parsed_len, ran.headers.hex()) == (error, parsed, headers)


def test_verify_stops_with_the_programs_error(tmp_path: Path) -> None:
    made = two_headers()
    made.doc["errors"].append(["Mine", 42])
    start = made.doc["parsers"][0]["parse_states"][0]
    small = tiny.op("<", tiny.field("a", "rest"), tiny.const(16))
    start["parser_ops"].append({"op": "verify", "parameters": [small, tiny.const(42)]})
    packets = [bytes.fromhex("0701abcdef"), bytes.fromhex("0710abcdef")]
    good, bad = tiny.run(made.json(), packets, tmp_path)
    assert (good.parser_error, good.headers.hex()) == (0, "0701abcdef")
    assert (bad.parser_error, bad.headers.hex()) == (42, "0710")


def test_the_program_without_core_errors_gets_codes_of_its_own(tmp_path: Path) -> None:
    made = two_headers()
    made.doc["errors"] = [["NoError", 0], ["Mine", 9]]
    ran = tiny.run(made.json(), [b"\x07"], tmp_path)[0]
    assert ran.parser_error == 10  # PacketTooShort: the first code after the largest one


def stack_program(size: int = 3) -> Any:
    """Build a stack of 1-byte labels; the low bit ends it. A last state keeps the last label."""
    made = tiny.Tiny()
    made.type("label_t", [["value", 7, False], ["last", 1, False]])
    made.type("out_t", [["seen", 8, False]])
    made.stack("labels", "label_t", size)
    made.header("out", "out_t")
    made.emit("out")
    made.state(
        "start",
        [tiny.extract("labels", "stack")],
        [{"type": "stack_field", "value": ["labels", "last"]}],
        [tiny.goto("end", "0x01"), tiny.goto("start")],
    )
    last = {"type": "stack_field", "value": ["labels", "value"]}
    made.state(
        "end",
        [
            {
                "op": "primitive",
                "parameters": [tiny.call("add_header", tiny.header("out"))],
            },
            {"op": "set", "parameters": [tiny.field("out", "seen"), tiny.arg(last)]},
        ],
    )
    return made


@pytest.mark.parametrize(
    ("packet", "error", "headers"),
    [
        ("03", 0, "0301"),
        ("020405", 0, "02040502"),
        ("0204060809", OUT_OF_BOUNDS, "020406"),
        ("0204", TOO_SHORT, "0204"),
    ],
)
def test_header_stack(packet: str, error: int, headers: str, tmp_path: Path) -> None:
    ran = tiny.run(stack_program().json(), [bytes.fromhex(packet)], tmp_path)[0]
    assert (ran.parser_error, ran.headers.hex()) == (error, headers)


def test_a_parser_that_never_ends_is_stopped(tmp_path: Path) -> None:
    made = two_headers()
    made.state(
        "around", [], [tiny.field("a", "kind")], [tiny.goto("b", "0x01"), tiny.goto("around")]
    )
    made.doc["parsers"][0]["parse_states"][0]["transitions"][1]["next_state"] = "around"
    ran = tiny.run(made.json(), [b"\x05\x00"], tmp_path)[0]
    assert (ran.parser_error, ran.headers.hex()) == (TIMEOUT, "0500")


def test_transitions_with_masks_wide_keys_lookahead_and_value_sets(tmp_path: Path) -> None:
    made = tiny.Tiny()
    made.type("k_t", [["wide", 72, False], ["nibble", 4, False], ["pad", 4, False]])
    made.type("out_t", [["state", 8, False]])
    made.header("k", "k_t")
    made.header("out", "out_t")
    made.emit("out")
    made.doc["parse_vsets"] = [{"name": "set", "id": 0, "compressed_bitwidth": 84}]
    wide = "010203040506070809"
    made.state(
        "start",
        [tiny.extract("k")],
        [
            tiny.field("k", "wide"),
            tiny.field("k", "nibble"),
            {"type": "lookahead", "value": [4, 12]},
        ],
        [
            tiny.goto("one", "set", kind="parse_vset"),
            tiny.goto("one", f"0x{wide}0a0bcd"),
            tiny.goto("two", f"0x{wide}000000", f"0x{'ff' * 9}000000"),
            tiny.goto("three", "0x" + "00" * 9 + "050000", "0x" + "00" * 9 + "0f0000"),
            tiny.goto(None),
        ],
    )
    for i, name in enumerate(("one", "two", "three"), 1):
        made.state(
            name,
            [
                {"op": "primitive", "parameters": [tiny.call("add_header", tiny.header("out"))]},
                {"op": "set", "parameters": [tiny.field("out", "state"), tiny.const(i)]},
            ],
        )
    other = "0f" * 9
    packets = [
        wide + "a0" + "0bcd",
        wide + "a0" + "0bce",
        wide + "a0",
        other + "50" + "0000",
        other + "60" + "0bcd",
        wide + "a0" + "fbcd",
    ]
    ran = tiny.run(made.json(), [bytes.fromhex(p) for p in packets], tmp_path)
    assert [r.headers.hex() for r in ran] == ["01", "02", "02", "03", "", "01"]
    assert {r.parser_error for r in ran} == {0}


@pytest.mark.parametrize(
    ("amount", "packet", "error", "parsed"),
    [
        (tiny.const(16), "0102030405", 0, 4),
        (tiny.const(8 * 3), "01020304", TOO_SHORT, 2),
        (tiny.const(9), "0102030405", BAD_ARGUMENT, 2),
        (tiny.field("a", "rest"), "0008030405", 0, 3),
        (tiny.field("a", "rest"), "0007030405", BAD_ARGUMENT, 2),
        (tiny.field("a", "rest"), "00f8030405", TOO_SHORT, 2),
        (tiny.arg(tiny.op("<<", tiny.field("a", "rest"), tiny.const(3))), "0002030405", 0, 4),
        (
            tiny.arg(tiny.op("<<", tiny.field("a", "rest"), tiny.const(40))),
            "00ff030405",
            TOO_SHORT,
            2,
        ),
    ],
)
def test_advance(amount: Json, packet: str, error: int, parsed: int, tmp_path: Path) -> None:
    made = two_headers()
    made.doc["parsers"][0]["parse_states"][0]["parser_ops"].append(
        {"op": "advance", "parameters": [amount]}
    )
    ran = tiny.run(made.json(), [bytes.fromhex(packet)], tmp_path)[0]
    assert (ran.parser_error, ran.parsed_len) == (error, parsed)


def test_lookahead_sets_a_field_and_needs_its_bytes(tmp_path: Path) -> None:
    made = two_headers()
    made.type("out_t", [["bits", 100, False], ["pad", 4, False]])
    made.header("out", "out_t")
    made.emit("out")
    ops = made.doc["parsers"][0]["parse_states"][0]["parser_ops"]
    ops += [
        {
            "op": "set",
            "parameters": [tiny.field("out", "bits"), {"type": "lookahead", "value": [4, 100]}],
        },
        {"op": "primitive", "parameters": [tiny.call("add_header_fast", tiny.header("out"))]},
    ]
    whole, short = (
        bytes.fromhex("0000" + "f123456789abcdef0123456789"),
        bytes.fromhex("0000" + "f123456789abcdef01234567"),
    )
    good, bad = tiny.run(made.json(), [whole, short], tmp_path)
    assert (good.parser_error, good.headers.hex()) == (0, "0000" + "123456789abcdef01234567890")
    assert (bad.parser_error, bad.headers.hex()) == (TOO_SHORT, "0000")


def varbit_program(before: int = 0, after: int = 0) -> Any:
    """a.rest gives the length in bits, from 0 to 255; at most 4 bytes fit."""
    made = two_headers()
    fields = [["data", "*"]]
    if before:
        fields.insert(0, ["before", before, False])
    if after:
        fields.append(["after", after, False])
    made.type("v_t", fields, max_length=4 + (before + after) // 8)
    made.header("v", "v_t")
    made.header("w", "v_t")
    made.emit("v", "w")
    made.doc["parsers"][0]["parse_states"][0]["parser_ops"].append(
        {
            "op": "extract_VL",
            "parameters": [{"type": "regular", "value": "v"}, tiny.arg(tiny.field("a", "rest"))],
        }
    )
    return made


@pytest.mark.parametrize(
    ("packet", "error", "headers"),
    [
        ("0000", 0, "0000"),
        ("0008aabb", 0, "0008aa"),
        ("0020aabbccdd", 0, "0020aabbccdd"),
        ("0020aabbcc", TOO_SHORT, "0020"),
        ("0028aabbccddee", HEADER_SHORT, "0028"),
        ("0009aabbccdd", BAD_ARGUMENT, "0009"),
    ],
)
def test_varbit(packet: str, error: int, headers: str, tmp_path: Path) -> None:
    ran = tiny.run(varbit_program().json(), [bytes.fromhex(packet)], tmp_path)[0]
    assert (ran.parser_error, ran.headers.hex()) == (error, headers)


def test_varbit_between_fields_that_are_not_aligned(tmp_path: Path) -> None:
    made = varbit_program(4, 12)
    made.action(
        "copy",
        tiny.call("assign_header", tiny.header("w"), tiny.header("v")),
        tiny.call("assign", tiny.field("w", "after"), tiny.const(0x123)),
    )
    packets = [bytes.fromhex("0010" + "1aaabbb2"), bytes.fromhex("0018" + "1aaaaaab22")]
    first, second = tiny.run(made.json(), packets, tmp_path)
    assert first.headers.hex() == "0010" + "1aaabbb2" + "1aaab123"
    assert second.headers.hex() == "0018" + "1aaaaaab22" + "1aaaaaa123"


def test_varbit_length_of_the_header_itself(tmp_path: Path) -> None:
    """length_exp, as compilers for P4_14 write it: (len - 1) * 8, len counting the header."""
    made = tiny.Tiny()
    length = tiny.op("*", tiny.op("-", {"type": "local", "value": 0}, tiny.const(1)), tiny.const(8))
    made.type("o_t", [["len", 8, False], ["data", "*"]], length_exp=length, max_length=4)
    made.header("o", "o_t")
    made.emit("o")
    made.state("start", [tiny.extract("o")])
    packets = [bytes.fromhex(p) for p in ("0111", "03aabbcc", "03aa", "05aabbccdd", "00aa")]
    ran = tiny.run(made.json(), packets, tmp_path)
    assert [(r.parser_error, r.headers.hex()) for r in ran] == [
        (0, "01"),
        (0, "03aabb"),
        (TOO_SHORT, ""),
        (HEADER_SHORT, ""),
        (BAD_ARGUMENT, ""),
    ]


def test_union_has_one_valid_member(tmp_path: Path) -> None:
    made = tiny.Tiny()
    made.type("one_t", [["x", 8, False]])
    made.type("two_t", [["x", 16, False]])
    made.union_type("either_t", [["one", "one_t"], ["two", "two_t"]])
    made.union("u", "either_t")
    made.union_stack("s", "either_t", 2)
    push_one, push_two = (
        {"op": "extract", "parameters": [{"type": "union_stack", "value": ["s", member]}]}
        for member in ("one", "two")
    )
    made.state(
        "start", [tiny.extract("u.one"), tiny.extract("u.two"), push_one, push_two, push_one]
    )
    ran = tiny.run(made.json(), [bytes.fromhex("01020304050607")], tmp_path)[0]
    assert (ran.parser_error, ran.headers.hex()) == (OUT_OF_BOUNDS, "0203" + "04" + "0506")


@pytest.mark.parametrize("name", ["l3", "features"])
def test_every_cut_of_a_recorded_packet(name: str, tmp_path: Path) -> None:
    """All prefixes of some packets, with random entries: nothing outside is read or written."""
    document = json.loads((GOLDEN / f"{name}.json").read_text())
    recorded = json.loads((GOLDEN / f"{name}.vectors.json").read_text())["cases"]
    frames = {
        case["in"]["hex"]
        for case in recorded
        if isinstance(case.get("in"), dict) and "hex" in case["in"]
    }
    ordered = sorted(frames, key=lambda frame: (len(frame), frame))
    packets = [
        bytes.fromhex(frame)[:cut]
        for frame in ordered[:: max(1, len(ordered) // 12)]
        for cut in range(min(len(frame) // 2, 120) + 1)
    ]
    for entries in (False, True):
        results = tiny.run(document, packets, tmp_path, entries=entries)
        for ran, packet in zip(results, packets, strict=True):
            assert ran.parsed_len <= len(packet)
