"""The reader of p4c's simple test format, and how packets are compared."""

from __future__ import annotations

import pytest

from compat.stf.expectations import Came, compare, difference
from compat.stf.replication import Replication
from compat.stf.script import parse
from compat.stf.statements import (
    Add,
    Call,
    CheckCounter,
    Command,
    Expect,
    NoPacket,
    Packet,
    Remove,
    SetDefault,
    StfError,
    Wait,
)

CALL = Call("C.a", (("x", "1"), ("port", "0x2")))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("add t k:1 C.a(x:1, port:0x2)", Add(1, "", "t", None, (("k", "1"),), CALL, None)),
        (
            "ADD c.t 10 h.f$0.k:0x1*2 h[1].b:0b1* C.a(x:1,port:0x2) = A",
            Add(1, "", "c.t", 10, (("h.f$0.k", "0x1*2"), ("h[1].b", "0b1*")), CALL, "A"),
        ),
        ("add t k:0x0a/8 b()", Add(1, "", "t", None, (("k", "0x0a/8"),), Call("b", ()), None)),
        ('add "odd name" b()', Add(1, "", "odd name", None, (), Call("b", ()), None)),
        ('add "odd # name" b() # "why"', Add(1, "", "odd # name", None, (), Call("b", ()), None)),
        ('packet 3 01 # an " alone', Packet(1, "", 3, b"\x01")),
        ("setdefault t C.a(x:1, port:0x2)", SetDefault(1, "", "t", CALL)),
        ("remove all", Remove(1, "", None)),
        ("remove A", Remove(1, "", "A")),
        ("packet 3 0102 a B c1 # why", Packet(1, "", 3, bytes.fromhex("0102abc1"))),
        ("packet\t3\t01", Packet(1, "", 3, b"\x01")),
        ("expect 3 01 *2 aB$", Expect(1, "", 3, "01*2AB", True)),
        ("expect 3 01", Expect(1, "", 3, "01", False)),
        ("expect 3", Expect(1, "", 3, None, False)),
        ("expect 3 $", Expect(1, "", 3, "", True)),
        ("no_packet", NoPacket(1, "")),
        ("wait", Wait(1, "")),
        ("check_counter c(7) bytes >= 9", CheckCounter(1, "", "c", 7, "bytes", ">=", 9)),
        ("check_counter c(A)", CheckCounter(1, "", "c", "A", None, "==", 0)),
        ("mc_node_create 0 1 2", Command(1, "", "mc_node_create", ("0", "1", "2"))),
        ("Register_Reset r", Command(1, "", "register_reset", ("r",))),
    ],
)
def test_statement(text: str, wanted: object) -> None:
    (found,) = parse(text)
    assert repr(found) == repr(wanted).replace("text=''", f"text={found.text!r}")


def test_statement_goes_on_in_the_next_line() -> None:
    first, second = parse("# head\nadd t k:1\n   b(\n  x:1)\n\npacket 1 00\n")
    assert isinstance(first, Add) and first.call == Call("b", (("x", "1"),))
    assert (first.line, second.line) == (2, 6)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("frobnicate 1", 1, "is no statement"),
        ("wait\npacket 1 0102 0", 2, "whole bytes"),
        ("packet 1 01 0x02", 1, "hexadecimal digits, found 'x'"),
        ("packet one 00", 1, "a port is a decimal number, found 'one'"),
        ("packet", 1, "a port is a decimal number"),
        ("expect 1 01$02", 1, r"\$ at its end"),
        ("\n\nadd t k 1 a()", 3, "after k, found '1'"),
        ("add t k:1 a(x:1", 1, "expected , or \\), found the end"),
        ("add t k:1 a() b()", 1, "nothing may follow here, found 'b'"),
        ("add t k:1", 1, "expected an action, found the end"),
        ("wait 5", 1, "nothing follows wait"),
        ("no_packet 1 00", 1, "nothing follows no_packet"),
        ("mirroring_add 5", 1, "takes 2 words, found 1"),
        ("check_counter c(1) cells == 2", 1, "expected packets or bytes, found 'cells'"),
        ("check_counter c(1) bytes : 2", 1, "a condition is one of"),
        ("remove", 1, "takes `all` or the label"),
        ("setdefault t a(x:%)", 1, "can't read"),
        ("packet 4294967296 00", 1, "4294967296 is not a port of at most 32 bits"),
        ("add t 0x40000000 k:1 a()", 1, "is not a priority of at most 30 bits"),
        ("check_counter c(0x8000000000000000)", 1, "is not an index of at most 63 bits"),
    ],
)
def test_mistake(text: str, line: int, message: str) -> None:
    with pytest.raises(StfError, match=message) as caught:
        parse(text)
    assert caught.value.line == line


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("mirroring_add", ["4294967296", "1"]),
        ("mc_mgrp_create", ["4294967296"]),
        ("mc_node_create", ["1", "4294967296"]),
    ],
)
def test_numbers_that_p4runtime_can_not_hold(name: str, words: list[str]) -> None:
    written: list[object] = []
    replication = Replication(lambda *update: written.append(update), written.append)
    with pytest.raises(StfError, match="4294967296 is not a number of at most 32 bits"):
        replication.command(name, words)
    assert not written


@pytest.mark.parametrize(
    ("expected", "got", "why", "marks"),
    [
        ("0102", "0102", "", ""),
        ("01*2", "01F2", "", ""),
        ("0102", "010203", "", ""),
        ("0102$", "010203", "3 B, expected exactly 2 B", ""),
        ("010203", "0102", "2 B, expected 3 B", ""),
        ("0102", "0103", "byte 1: 1 digit differs", "   ^"),
        ("A1B2$", "A2B3", "byte 0: 2 digits differ", " ^ ^"),
        ("", "00", "", ""),
        ("$", "00", "1 B, expected exactly 0 B", ""),
    ],
)
def test_difference(expected: str, got: str, why: str, marks: str) -> None:
    (expect,) = parse(f"expect 1 {expected}")
    assert isinstance(expect, Expect)
    assert difference(expect, got) == (why, marks)


def test_packets_are_compared_by_port_in_order() -> None:
    expects = [s for s in parse("expect 1 01\nexpect 2 02\nexpect 1 03") if isinstance(s, Expect)]
    came = [Came(2, b"\x02", 9), Came(1, b"\x01", 9), Came(1, b"\x03", 9), Came(3, b"\xff", 9)]
    assert all(row.ok for row in compare(expects, came, frozenset({1, 2})))
    rows = compare(expects, [*came, Came(2, b"\x44", 12)], frozenset({1, 2, 3}))
    assert [(row.line, row.got) for row in rows if not row.ok] == [
        (12, "port 2: 44"),
        (9, "port 3: FF"),
    ]
    missing = compare(expects, came[1:], frozenset({1, 2}))
    assert [(row.line, row.why) for row in missing if not row.ok] == [(2, "no packet came out")]
