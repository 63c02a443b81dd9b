"""Primitives, stacks and hashes of generated code, each against what BMv2's source says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from softswitch.codegen import Bmv2Program, JsonError, generate_c
from softswitch.codegen.hashes import CRCS, crc_table
from tests.softswitch import tiny_program as tiny

Json = dict[str, Any]
CLONE, FLAG = 0x80000000, 0x80000000


def program() -> Any:
    """Build a program: a (4 bytes) is extracted, b of its type is not, out (8 bytes) shows
    results.
    """
    made = tiny.Tiny()
    made.type("a_t", [["x", 8, False], ["y", 24, False]])
    made.type("out_t", [["v", 64, False]])
    for name, of in (("a", "a_t"), ("b", "a_t"), ("out", "out_t")):
        made.header(name, of)
    made.emit("a", "b", "out")
    made.state("start", [tiny.extract("a")])
    return made


A, B, OUT = (tiny.header(name) for name in ("a", "b", "out"))
AX, AY, BX, BY, V = (
    tiny.field(*ref) for ref in (("a", "x"), ("a", "y"), ("b", "x"), ("b", "y"), ("out", "v"))
)
STANDARD = tiny.header("standard_metadata")
SPEC = tiny.field("standard_metadata", "egress_spec")
DATA = bytes.fromhex("11222222")


def run(made: Any, work: Path, packet: bytes = DATA, port: int = 1) -> Any:
    """Return the result of one packet."""
    return tiny.run(made.json(), [packet], work, port=port)[0]


@pytest.mark.parametrize(
    ("primitives", "headers", "length"),
    [
        # add_header clears the header and counts its bytes; twice is once
        ([tiny.call("add_header", B), tiny.call("add_header", B)], "1122222200000000", 8),
        ([tiny.call("add_header_fast", B)], "1122222200000000", 4),
        ([tiny.call("remove_header", A), tiny.call("remove_header", A)], "", 0),
        # a header that comes back is empty
        ([tiny.call("remove_header", A), tiny.call("add_header", A)], "00000000", 4),
        ([tiny.call("assign_header", B, A)], "1122222211222222", 4),
        ([tiny.call("assign_header", A, B)], "", 4),
        (
            [tiny.call("copy_header", B, A), tiny.call("assign", BX, tiny.const(5))],
            "1122222205222222",
            4,
        ),
        ([tiny.call("add_to_field", AX, tiny.const(0xF0))], "01222222", 4),
        ([tiny.call("subtract_from_field", AX, tiny.const(0x12))], "ff222222", 4),
        ([tiny.call("shift_left", AX, AX, tiny.const(3))], "88222222", 4),
        ([tiny.call("bit_xor", AY, AX, tiny.const(0xFF))], "110000ee", 4),
        # _jump_if_zero at 1 goes to 3 when x is 0
        (
            [
                tiny.call("assign", AX, tiny.const(0)),
                tiny.call("_jump_if_zero", AX, tiny.const(3)),
                tiny.call("assign", AY, tiny.const(1)),
                tiny.call("add_to_field", AX, tiny.const(2)),
            ],
            "02222222",
            4,
        ),
        (
            [
                tiny.call("_jump", tiny.const(2)),
                tiny.call("assign", AX, tiny.const(0)),
                tiny.call("no_op"),
            ],
            "11222222",
            4,
        ),
        # an endless action is stopped
        (
            [tiny.call("add_to_field", AY, tiny.const(0)), tiny.call("_jump", tiny.const(0))],
            "11222222",
            4,
        ),
        # a jump to a computed place
        (
            [
                tiny.call("_jump", tiny.arg(tiny.op("&", AX, tiny.const(3)))),
                tiny.call("assign", AX, tiny.const(7)),
                tiny.call("no_op"),
            ],
            "07222222",
            4,
        ),
    ],
)
def test_headers_and_arithmetic(
    primitives: list[Json], headers: str, length: int, tmp_path: Path
) -> None:
    made = program()
    made.action("act", *primitives)
    ran = run(made, tmp_path)
    assert (ran.headers.hex(), ran.packet_length) == (headers, length)


def test_exit_ends_the_pipeline_after_the_action(tmp_path: Path) -> None:
    made = program()
    made.action("first", tiny.call("exit"), tiny.call("assign", AX, tiny.const(1)))
    made.action("second", tiny.call("assign", AY, tiny.const(2)))
    made.action("third", tiny.call("add_to_field", AX, tiny.const(1)), pipeline=1)
    ran = run(made, tmp_path)
    assert (ran.exited, ran.headers.hex()) == (1, "02222222")


def test_mark_to_drop_takes_the_drop_port_and_no_group(tmp_path: Path) -> None:
    made = program()
    made.action(
        "group", tiny.call("assign", tiny.field("standard_metadata", "mcast_grp"), tiny.const(9))
    )
    assert run(made, tmp_path).mcast == 9
    made.action("drop", tiny.call("mark_to_drop", STANDARD))
    ran = run(made, tmp_path)
    assert (ran.egress_spec, ran.mcast) == (511, 0)


def test_mark_to_drop_marks_the_header_that_it_is_given(tmp_path: Path) -> None:
    """p4c hands an action a copy of the standard metadata, which it copies back afterwards."""
    made = program()
    made.type("copy_t", [["other", 3, False], ["mcast_grp", 16, False], ["egress_spec", 9, False]])
    made.header("copy", "copy_t", metadata=True)
    group, spec = (tiny.field("copy", name) for name in ("mcast_grp", "egress_spec"))
    made.action(
        "call",
        tiny.call("assign", SPEC, tiny.const(5)),
        tiny.call("assign", tiny.field("standard_metadata", "mcast_grp"), tiny.const(6)),
        tiny.call("assign", group, tiny.const(7)),
        tiny.call("mark_to_drop", tiny.header("copy")),
        tiny.call("assign", AX, group),
        tiny.call("assign", AY, spec),
    )
    ran = run(made, tmp_path)
    assert (ran.egress_spec, ran.mcast, ran.headers.hex()) == (5, 6, "000001ff")
    made.action("back", tiny.call("assign", SPEC, spec))
    ran = run(made, tmp_path)
    assert (ran.egress_spec, ran.mcast) == (511, 6)


def test_mark_to_drop_needs_a_port_to_set() -> None:
    made = program()
    made.action("drop", tiny.call("mark_to_drop", A))
    with pytest.raises(JsonError, match=r'"drop".*"a_t" has no field "egress_spec"'):
        generate_c(Bmv2Program.from_json(made.json()))


def test_egress_spec_keeps_its_nine_bits(tmp_path: Path) -> None:
    made = program()
    made.action("port", tiny.call("assign", SPEC, tiny.const(0x3FF)))
    assert run(made, tmp_path).egress_spec == 0x1FF


def test_requests_to_the_switch(tmp_path: Path) -> None:
    """The last clone and digest win; list 0 asks for nothing; the shortest truncation wins."""
    made = program()
    c = tiny.const
    made.action(
        "ask",
        tiny.call("clone_ingress_pkt_to_egress", c(3), c(1)),
        tiny.call("clone_ingress_pkt_to_egress", AX, c(2)),
        tiny.call("resubmit", c(4)),
        tiny.call("recirculate", c(0)),
        tiny.call("generate_digest", c(1), c(7)),
        tiny.call("truncate", c(100)),
        tiny.call("truncate", AX),
        tiny.call("truncate", c(60)),
    )
    ran = run(made, tmp_path)
    assert (ran.clone_session, ran.resubmit, ran.recirc) == (CLONE | 0x11, FLAG | 4, 0)
    assert (ran.learn, ran.truncate) == (7, 0x11)


def test_registers_keep_their_width_and_bounds(tmp_path: Path) -> None:
    made = program()
    for name, bits in (("small", 12), ("wide", 200)):
        made.register(name, bits, 4)
    small = tiny.ref("register_array", "small")
    cell = {"type": "register", "value": ["wide", AX]}
    made.action(
        "write",
        tiny.call("add_header", OUT),
        tiny.call("register_write", small, tiny.const(3), tiny.const(0x12345)),
        tiny.call("register_write", small, tiny.const(4), tiny.const(1)),
        tiny.call("register_read", AX, small, tiny.const(3)),
        tiny.call("register_read", AY, small, tiny.const(9)),  # out of bounds: y stays
        tiny.call("assign", AX, tiny.const(2)),
        tiny.call("assign", cell, tiny.arg(tiny.op("<<", tiny.const(0xABC), tiny.const(130)))),
        tiny.call("assign", V, tiny.arg(tiny.op(">>", cell, tiny.const(128)))),
        tiny.call("assign", AX, tiny.const(200)),
        tiny.call("assign", AY, tiny.arg(cell)),  # an expression reads 0 out of bounds
    )
    ran = run(made, tmp_path)
    assert ran.headers.hex() == "c8" + "000000" + f"{0xABC << 2:016x}"


def test_random_numbers_stay_in_their_range(tmp_path: Path) -> None:
    made = program()
    made.action(
        "roll",
        tiny.call("modify_field_rng_uniform", AX, tiny.const(10), tiny.const(12)),
        tiny.call("modify_field_rng_uniform", AY, tiny.const(5), tiny.const(4)),
    )
    rolled = tiny.run(made.json(), [DATA] * 64, tmp_path)
    assert {r.headers[0] for r in rolled} == {10, 11, 12}
    assert {r.headers[1:] for r in rolled} == {DATA[1:]}  # high < low leaves the field alone


def stack_program(*primitives: Json) -> Any:
    """Four labels; as many as the packet has bytes are extracted."""
    made = tiny.Tiny()
    made.type("label_t", [["value", 8, False]])
    made.type("out_t", [["v", 64, False]])
    made.stack("s", "label_t", 4)
    made.stack("t", "label_t", 4)
    made.header("out", "out_t")
    made.emit("out")
    made.state(
        "start",
        [tiny.extract("s", "stack")],
        [{"type": "lookahead", "value": [0, 8]}],
        [tiny.goto(None, "0x00"), tiny.goto("start")],
    )
    made.action("act", *primitives)
    return made


S, T = tiny.ref("header_stack", "s"), tiny.ref("header_stack", "t")
LAST = {"type": "stack_field", "value": ["s", "value"]}


def element(index: Json, stack: Json = S) -> Json:
    """Return the value of a stack's element at an index known at run time."""
    return tiny.op("access_field", tiny.op("dereference_header_stack", stack, index), 0)


@pytest.mark.parametrize(
    ("primitives", "headers"),
    [
        ([], "0102"),
        # push_front makes room with invalid headers; what falls off the end is gone
        ([tiny.call("push", S, tiny.const(1))], "0102"),
        (
            [tiny.call("push", S, tiny.const(1)), tiny.call("add_header", tiny.header("s[0]"))],
            "000102",
        ),
        ([tiny.call("push", S, tiny.const(3))], "01"),
        ([tiny.call("push", S, tiny.const(9))], ""),
        ([tiny.call("pop", S, tiny.const(1))], "02"),
        ([tiny.call("pop", S, tiny.const(5))], ""),
        (
            [tiny.call("pop", S, tiny.const(1)), tiny.call("add_header", tiny.header("s[1]"))],
            "0200",
        ),
        # next moves with the stack
        ([tiny.call("push", S, tiny.const(1)), tiny.call("assign", LAST, tiny.const(9))], "0109"),
        ([tiny.call("pop", S, tiny.const(1)), tiny.call("assign", LAST, tiny.const(9))], "09"),
        ([tiny.call("assign_header_stack", T, S)], "01020102"),
        # the last of an empty stack and an index outside write nowhere
        ([tiny.call("pop", S, tiny.const(2)), tiny.call("assign", LAST, tiny.const(9))], ""),
        ([tiny.call("assign", tiny.arg(element(tiny.const(77))), tiny.const(9))], "0102"),
        (
            [tiny.call("assign", tiny.arg(element(tiny.field("s[0]", "value"))), tiny.const(9))],
            "0109",
        ),
        (
            [
                tiny.call("add_header", OUT),
                tiny.call("assign", V, tiny.arg(tiny.op("last_stack_index", None, S))),
            ],
            "0102" + "0000000000000001",
        ),
        (
            [
                tiny.call("add_header", OUT),
                tiny.call("pop", S, tiny.const(2)),
                tiny.call("assign", V, tiny.arg(tiny.op("last_stack_index", None, S))),
            ],
            "f" * 16,
        ),
        (
            [
                tiny.call("add_header", OUT),
                tiny.call("assign", V, tiny.arg(tiny.op("size_stack", None, S))),
            ],
            "0102" + "0000000000000002",
        ),
        (
            [
                tiny.call("add_header", OUT),
                tiny.call(
                    "assign",
                    V,
                    tiny.arg(
                        tiny.op(
                            "b2d", None, tiny.op("==", tiny.header("s[0]"), tiny.header("s[1]"))
                        )
                    ),
                ),
            ],
            "0102" + "0" * 16,
        ),
        (
            [
                tiny.call("add_header", OUT),
                tiny.call("assign", tiny.field("s[1]", "value"), tiny.const(1)),
                tiny.call(
                    "assign",
                    V,
                    tiny.arg(
                        tiny.op(
                            "b2d", None, tiny.op("==", tiny.header("s[0]"), tiny.header("s[1]"))
                        )
                    ),
                ),
            ],
            "0101" + "0" * 15 + "1",
        ),
        # two invalid headers are not equal
        (
            [
                tiny.call("add_header", OUT),
                tiny.call(
                    "assign",
                    V,
                    tiny.arg(
                        tiny.op(
                            "b2d", None, tiny.op("!=", tiny.header("s[2]"), tiny.header("s[3]"))
                        )
                    ),
                ),
            ],
            "0102" + "0" * 15 + "1",
        ),
    ],
)
def test_header_stacks(primitives: list[Json], headers: str, tmp_path: Path) -> None:
    ran = run(stack_program(*primitives), tmp_path, bytes.fromhex("010200"))
    assert ran.headers.hex() == headers


def test_unions_in_actions(tmp_path: Path) -> None:
    """add_header and assign_header keep one member valid; a union is assigned as a whole."""
    made = tiny.Tiny()
    made.type("one_t", [["x", 8, False]])
    made.type("two_t", [["x", 16, False]])
    made.type("out_t", [["v", 8, False]])
    made.union_type("either_t", [["one", "one_t"], ["two", "two_t"]])
    made.union("u", "either_t")
    made.union("w", "either_t")
    made.union_stack("s", "either_t", 2)
    made.header("spare", "two_t")
    made.header("out", "out_t")
    made.emit("out")
    made.state("start", [tiny.extract("u.one")])
    u, w = tiny.ref("header_union", "u"), tiny.ref("header_union", "w")
    first = tiny.op("dereference_union_stack", tiny.ref("header_union_stack", "s"), tiny.const(1))
    equal = tiny.op("b2d", None, tiny.op("==", u, w))
    valid = tiny.op("b2d", None, tiny.op("valid_union", None, first))
    made.action(
        "act",
        tiny.call("add_header", tiny.header("spare")),
        tiny.call("assign_union", w, u),
        tiny.call("add_header", tiny.header("out")),
        tiny.call("assign", tiny.field("out", "v"), tiny.arg(equal)),
        tiny.call("add_header", tiny.header("u.two")),
        tiny.call("assign", tiny.field("u.two", "x"), tiny.const(0x1234)),
        tiny.call(
            "assign_header",
            tiny.arg(tiny.op("access_union_header", first, 1)),
            tiny.header("u.two"),
        ),
        tiny.call("add_header", tiny.arg(tiny.op("access_union_header", first, 0))),
        tiny.call("shift_left", tiny.field("out", "v"), tiny.field("out", "v"), tiny.const(4)),
        tiny.call("add_to_field", tiny.field("out", "v"), tiny.arg(valid)),
        tiny.call("push", tiny.ref("header_union_stack", "s"), tiny.const(1)),
    )
    ran = run(made, tmp_path, b"\x55")
    assert ran.headers.hex() == "1234" + "55" + "" + "11"


# --- hashes ---------------------------------------------------------------------------------------

CHECK = b"123456789"


@pytest.mark.parametrize(
    ("algorithm", "data", "wanted"),
    [
        # check values of the catalogue of parametrised CRC algorithms
        ("crc16", CHECK, 0xBB3D),
        ("crc32", CHECK, 0xCBF43926),
        ("crcCCITT", CHECK, 0x29B1),
        ("crc8_custom", CHECK, 0xF4),
        ("crc16_custom", CHECK, 0xBB3D),
        ("crc32_custom", CHECK, 0xCBF43926),
        # RFC 1071, section 3: the sum of these bytes is ddf2
        ("csum16", bytes.fromhex("0001f203f4f5f6f7"), 0x220D),
        ("csum16", bytes.fromhex("0001f203f4f5f6f701"), 0x210D),
        # of xxHash's own documentation
        ("xxh64", b"a", 0xD24EC4F1A98C6E5B),
        ("xxh64", b"abc", 0x44BC2CF5AD770999),
        ("xxh64", b"Nobody inspects the spammish repetition", 0xFBCEA83C8A378BF1),
        ("identity", CHECK, int.from_bytes(CHECK[:8], "big")),
        ("identity", b"\x01\x02", 0x0102),
        ("xor16", bytes.fromhex("ff00 0ff0 aa"), 0xFF00 ^ 0x0FF0 ^ 0xAA00),
        ("xor32", bytes.fromhex("ff000ff0 aa"), 0xFF000FF0 ^ 0xAA000000),
    ],
)
def test_hash_algorithms(algorithm: str, data: bytes, wanted: int, tmp_path: Path) -> None:
    """The same from fields, from the payload, and from both."""
    made = program()
    bits = 8 * len(data)
    constant = {"type": "hexstr", "value": "0x" + data.hex(), "bitwidth": bits}
    first = {"type": "hexstr", "value": "0x" + data[:1].hex(), "bitwidth": 8}
    payload = {"type": "payload", "value": None}
    made.doc["header_types"].append(
        {"name": "more_t", "id": 99, "fields": [["w1", 64, False], ["w2", 64, False]]}
    )
    made.header("more", "more_t")
    made.emit("more")
    made.calculation("fields", algorithm, [constant])
    made.calculation("payload", algorithm, [payload])
    made.calculation("both", algorithm, [first, payload])
    most = tiny.const(2**64 - 1)
    made.action(
        "hash",
        tiny.call("add_header", OUT),
        tiny.call("add_header", tiny.header("more")),
        *(
            tiny.call(
                "modify_field_with_hash_based_offset",
                target,
                tiny.const(0),
                tiny.ref("calculation", name),
                most,
            )
            for target, name in (
                (V, "fields"),
                (tiny.field("more", "w1"), "payload"),
                (tiny.field("more", "w2"), "both"),
            )
        ),
    )
    whole, rest = tiny.run(made.json(), [DATA + data, DATA + data[1:]], tmp_path)
    got = [int.from_bytes(whole.headers[at : at + 8], "big") for at in (4, 12)]
    assert [f"{value:x}" for value in got] == [f"{wanted:x}"] * 2
    assert int.from_bytes(rest.headers[20:28], "big") == wanted


def test_crc_tables_divide_bit_by_bit() -> None:
    for crc in CRCS.values():
        table = crc_table(crc)
        assert len(set(table)) == 256 and table[0] == 0
        for byte in (1, 0x80, 0xFF):
            if crc.reflected:
                value = int(f"{byte:08b}"[::-1], 2) << (crc.bits - 8)
            else:
                value = byte << (crc.bits - 8)
            for _ in range(8):
                value <<= 1
                if value >> crc.bits:
                    value ^= 1 << crc.bits | crc.polynomial
            wanted = int(f"{value:0{crc.bits}b}"[::-1], 2) if crc.reflected else value
            assert table[byte] == wanted


def hash_program(inputs: list[Json], *before: Json) -> Any:
    made = program()
    made.calculation("c", "identity", inputs)
    made.action(
        "hash",
        *before,
        tiny.call("add_header", OUT),
        tiny.call(
            "modify_field_with_hash_based_offset",
            V,
            tiny.const(0),
            tiny.ref("calculation", "c"),
            tiny.const(2**64 - 1),
        ),
    )
    return made


def test_calculation_input_is_packed_by_bits_and_skips_invalid_headers(tmp_path: Path) -> None:
    three = {"type": "hexstr", "value": "0x5", "bitwidth": 3}
    ran = run(hash_program([three, AX, BX, three]), tmp_path)
    bits = f"{5:03b}{0x11:08b}{5:03b}00"
    assert ran.headers[4:].hex() == f"{int(bits, 2):016x}"


def test_calculation_takes_whole_headers(tmp_path: Path) -> None:
    ran = run(hash_program([A, B, {"type": "hexstr", "value": "0xff", "bitwidth": 8}]), tmp_path)
    assert ran.headers[4:].hex() == f"{0x11222222FF:016x}"


@pytest.mark.parametrize(
    ("base", "size", "wanted"), [(100, 10, 100 + 0x11222222 % 10), (7, 0, 7), (0, 1, 0)]
)
def test_hash_base_and_size(base: int, size: int, wanted: int, tmp_path: Path) -> None:
    for size_arg in (tiny.const(size), tiny.arg(tiny.op("+", BX, tiny.const(size)))):
        made = program()
        made.calculation("c", "identity", [A])
        made.action(
            "hash",
            tiny.call("add_header", OUT),
            tiny.call(
                "modify_field_with_hash_based_offset",
                V,
                tiny.const(base),
                tiny.ref("calculation", "c"),
                size_arg,
            ),
        )
        assert int.from_bytes(run(made, tmp_path).headers[4:], "big") == wanted


def checksum_program(**more: Any) -> Any:
    """y's low 16 bits are the checksum of x, in a header of their own."""
    made = tiny.Tiny()
    made.type("h_t", [["x", 16, False], ["sum", 16, False]])
    made.header("h", "h_t")
    made.emit("h")
    made.state("start", [tiny.extract("h")])
    made.calculation("c", "csum16", [tiny.field("h", "x")])
    made.doc["checksums"] = [
        {
            "name": "s",
            "id": 0,
            "target": ["h", "sum"],
            "type": "generic",
            "calculation": "c",
            **more,
        }
    ]
    return made


def test_checksums_are_verified_and_updated(tmp_path: Path) -> None:
    packets = [bytes.fromhex("1234edcb"), bytes.fromhex("12340000"), b"\x12"]
    ran = tiny.run(checksum_program().json(), packets, tmp_path)
    assert [r.checksum_error for r in ran] == [0, 1, 0]  # no header, nothing to verify
    assert [r.headers.hex() for r in ran] == ["1234edcb", "1234edcb", ""]


def test_checksum_conditions(tmp_path: Path) -> None:
    seven = tiny.op("==", tiny.field("h", "x"), tiny.const(7))
    packets = [bytes.fromhex("00070000"), bytes.fromhex("00080000")]
    ran = tiny.run(checksum_program(if_cond=seven).json(), packets, tmp_path)
    assert [(r.checksum_error, r.headers.hex()) for r in ran] == [(1, "0007fff8"), (0, "00080000")]
    ran = tiny.run(checksum_program(verify=False, update=False).json(), packets, tmp_path)
    assert [(r.checksum_error, r.headers.hex()) for r in ran] == [(0, "00070000"), (0, "00080000")]


def test_checksum_of_the_old_type_covers_the_header(tmp_path: Path) -> None:
    made = checksum_program(type="ipv4")
    ran = tiny.run(made.json(), [bytes.fromhex("1234edcb")], tmp_path)[0]
    assert (ran.checksum_error, ran.headers.hex()) == (0, "1234edcb")


def test_the_same_program_gives_the_same_text() -> None:
    made = stack_program(tiny.call("push", S, tiny.const(1)))
    first, second = (generate_c(Bmv2Program.from_json(made.json())) for _ in range(2))
    assert first == second
