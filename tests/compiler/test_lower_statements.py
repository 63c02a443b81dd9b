"""Statements and calls mean what P4 says: small programs on the in-process switch.

The packet is one header of eight bytes `a b c d e f g h`, then three one-byte headers of a stack;
the program starts with its output port set to 1. Each case says what becomes of which bytes.
"""

# ruff: noqa: E501 (one program fragment a line reads better than broken ones)

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from compiler import CompileError, NotSupported, compile_p4
from softswitch import Switch

PROGRAM = """
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; bit<8> b; bit<8> c; bit<8> d; bit<8> e; bit<8> f; bit<8> g; bit<8> h; }
header one_t { bit<8> v; }
struct pair_t { bit<8> x; bit<8> y; }
struct headers { h_t h; one_t[3] s; one_t extra; }
struct metadata { bit<8> m; pair_t p; bool flag; one_t spare; }
%(top)s
parser P(packet_in p, out headers hdr, inout metadata meta, inout standard_metadata_t std) {
    %(parser)s
}
control V(inout headers hdr, inout metadata meta) { apply { } }
%(before)s
control I(inout headers hdr, inout metadata meta, inout standard_metadata_t std) {
    %(locals)s
    apply { std.egress_spec = 1; %(body)s }
}
control E(inout headers hdr, inout metadata meta, inout standard_metadata_t std) {
    apply { %(egress)s }
}
control C(inout headers hdr, inout metadata meta) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""
PARSER = """state start {
    p.extract(hdr.h); p.extract(hdr.s.next); p.extract(hdr.s.next); p.extract(hdr.s.next);
    transition accept;
}"""
IN = "0102030405060708 111213"


@dataclass(frozen=True)
class Case:
    """A program and its answer: `out` None means dropped."""

    name: str
    out: str | None
    body: str = ""
    top: str = ""
    before: str = ""
    locals: str = ""
    egress: str = ""
    parser: str = PARSER
    packet: str = IN

    def write(self, folder: Path) -> Path:
        """Return the program as a file."""
        source = folder / "case.p4"
        parts = {
            part: getattr(self, part)
            for part in ("top", "parser", "before", "locals", "body", "egress")
        }
        source.write_text(PROGRAM % parts)
        return source


CASES = [
    Case("assignments run in order", "0202030405060708 111213",
         body="hdr.h.a = hdr.h.b; hdr.h.c = hdr.h.a + 1;"),
    Case("a struct may take its own parts crosswise", "0201030405060708 111213",
         body="meta.p = { hdr.h.a, hdr.h.b }; meta.p = { meta.p.y, meta.p.x };"
              "hdr.h.a = meta.p.x; hdr.h.b = meta.p.y;"),
    Case("a header takes a list whose items are its own fields", "0807060504030201 111213",
         body="hdr.h = { hdr.h.h, hdr.h.g, hdr.h.f, hdr.h.e, hdr.h.d, hdr.h.c, hdr.h.b, hdr.h.a };"),
    Case("bits of a field", "0132030405060708 111213", body="hdr.h.b[6:4] = hdr.h.c[2:0];"),
    Case("compound assignment", "0902030405060708 111213", body="hdr.h.a += hdr.h.h;"),
    Case("compound division by powers of 2", "0102030405060302 111213",
         body="hdr.h.g %= 4; hdr.h.h /= 4;"),
    Case("if, else if, else", "010203aa05060708 111213",
         body="if (hdr.h.a == 2) hdr.h.d = 1; else if (hdr.h.a == 1 && hdr.h.b == 2) hdr.h.d = 0xaa;"
              "else hdr.h.d = 2;"),
    Case("return leaves the control only", "01020304050607ff 111213",
         before="""control Inner(inout headers hdr) { apply {
                     if (hdr.h.a == 1) { return; } hdr.h.b = 9; } }""",
         locals="Inner() inner;",
         body="inner.apply(hdr); hdr.h.h = 0xff; if (hdr.h.a == 1) return; hdr.h.c = 9;"),
    Case("exit leaves the pipeline, egress still runs", "01020304050607ee 111213",
         before="control Inner(inout headers hdr) { apply { exit; } }",
         locals="Inner() inner;",
         body="inner.apply(hdr); hdr.h.a = 0xff;", egress="hdr.h.h = 0xee;"),
    Case("exit in a table's action", "0102030405060777 111213",
         locals="""action stop() { hdr.h.h = 0x77; exit; }
                   table t { actions = { stop; } const default_action = stop(); }""",
         body="t.apply(); hdr.h.a = 0xff;"),
    Case("actions with conditions", "0a02030405060708 111213",
         locals="""action big(bit<8> x) {
                     if (hdr.h.a > 3) { hdr.h.a = 1; } else if (hdr.h.b == 2) { hdr.h.a = x; return; }
                     else { hdr.h.a = 3; }
                     hdr.h.h = 0xff; }
                   table t { actions = { big; } const default_action = big(10); }""",
         body="t.apply();"),
    Case("keys are evaluated in order", "02020304050607ff 111213",
         top="bit<8> f(inout bit<8> x) { x = x + 1; return 7; }",
         locals="""action yes() { hdr.h.h = 0xff; }
                   table t { key = { hdr.h.a: exact; f(hdr.h.a): exact @name("f"); hdr.h.a: exact @name("b"); }
                             actions = { yes; NoAction; } const entries = { (1, 7, 2): yes(); } }""",
         body="t.apply();"),
    Case("a key is another table's hit", "010203040506ffff 111213",
         locals="""action yes() { hdr.h.h = 0xff; } action seen() { hdr.h.g = 0xff; }
                   table inner { key = { hdr.h.b: exact; } actions = { seen; NoAction; } const entries = { 2: seen(); } }
                   table t { key = { inner.apply().hit: exact @name("hit"); }
                             actions = { yes; NoAction; } const entries = { true: yes(); } }""",
         body="t.apply();"),
    Case("an action's data divided by powers of 2", "0302030405060708 111213",
         locals="""action half(bit<8> x) { hdr.h.a = x / 4; hdr.h.b = x % 4; }
                   table t { actions = { half; } const default_action = half(14); }""",
         body="t.apply();"),
    Case("nothing divided by a run-time value", "0002000905060708 111213",
         top="bit<8> f(inout bit<8> x) { x = 9; return 2; }",
         body="hdr.h.a = 0 / hdr.h.b; hdr.h.c = 0 % f(hdr.h.d);"),
    Case("signed action parameters", "0102030405060aff 111213",
         locals="""action f(int<8> x, bit<1> y) { if (x < 0 && y == 1) { hdr.h.g = 10; } hdr.h.h = (bit<8>)(x + 1); }
                   table t { actions = { f; } const default_action = f(-2, 1); }""",
         body="t.apply();"),
    Case("names that BMv2 uses too", "0102030405060755 111213",
         top="header scalars_0 { bit<8> x; }", before="""
         control Own(inout headers hdr) { apply { scalars_0 scalars; scalars.setValid(); scalars.x = 0x55;
           one_t standard_metadata; standard_metadata.setValid(); standard_metadata.v = scalars.x;
           hdr.h.h = standard_metadata.v; } }""",
         locals="Own() own;", body="own.apply(hdr);"),
    Case("a switch on the action that ran", "0102030405060722 111213",
         locals="""action one() { } action two() { } action three() { }
                   table t { key = { hdr.h.a: exact; } actions = { one; two; three; }
                     const default_action = three(); const entries = { 1: two(); } }""",
         body="""switch (t.apply().action_run) {
                   one: { hdr.h.h = 0x11; } two: three: { hdr.h.h = 0x22; } }"""),
    Case("a switch on a value, with fall-through and default", "0102037705060708 111213",
         body="switch (hdr.h.c) { 1: { hdr.h.d = 1; } 2: 3: { hdr.h.d = 0x77; } default: { hdr.h.d = 4; } }"),
    Case("hit and miss", "0102030405060a0b 111213",
         locals="""table t { key = { hdr.h.a: exact; } actions = { NoAction; }
                     const entries = { 1: NoAction(); } }
                   table u { key = { hdr.h.b: exact; } actions = { NoAction; }
                     const entries = { 1: NoAction(); } }""",
         body="if (t.apply().hit) hdr.h.g = 10; if (!u.apply().hit && hdr.h.a == 1) hdr.h.h = 11;"),
    Case("the right side of && runs only if it must", "01020304050607ff 111213",
         locals="""action count() { hdr.h.h = 0xff; } action never() { hdr.h.g = 0xee; }
                   table t { key = { hdr.h.a: exact; } actions = { count; }
                     const default_action = count(); }
                   table u { key = { hdr.h.a: exact; } actions = { never; }
                     const default_action = never(); }""",
         body="bool x = hdr.h.a == 2 && u.apply().hit; bool y = hdr.h.a == 2 || t.apply().miss;"
              "if (x || !y) hdr.h.a = 0xff;"),
    Case("arguments are copied in and out", "0303020405060708 111213",
         locals="""action swap(inout bit<8> x, in bit<8> y) { x = y; hdr.h.c = 2; x = x + hdr.h.c - y; x = x + 1; }""",
         body="hdr.h.a = 2; swap(hdr.h.c, hdr.h.b); hdr.h.a = hdr.h.c; hdr.h.b = hdr.h.c; hdr.h.c = 2;"),
    Case("an argument that the action also names", "0102050405060708 111213",
         locals="action a(inout bit<8> x) { hdr.h.c = 9; x = x + 2; }", body="a(hdr.h.c);"),
    Case("out parameters that are written crosswise", "0201030405060708 111213",
         locals="action a(out bit<8> x, out bit<8> y, in bit<8> v, in bit<8> w) { x = w; y = v; }",
         body="a(hdr.h.a, hdr.h.b, hdr.h.a, hdr.h.b);"),
    Case("a bit slice as an inout argument", "0192030405060708 111213",
         locals="action a(inout bit<4> x) { x = x + 9; }", body="a(hdr.h.b[7:4]);"),
    Case("functions, generic ones too", "0902080405060708 111213",
         top="""bit<8> biggest(in bit<8> x, in bit<8> y) { if (x > y) { return x; } return y; }
                T second<T>(in T x, in T y) { return y; }
                void bump(inout bit<8> x) { x = x + 1; }""",
         body="hdr.h.a = biggest(hdr.h.a, hdr.h.h); bump(hdr.h.a); hdr.h.c = second(hdr.h.a, hdr.h.h);"),
    Case("left before right", "0102030405060703 111213",
         top="bit<8> next(inout bit<8> x) { x = x + 1; return x; }",
         body="bit<8> n = 1; hdr.h.h = n + next(n); if (n != 2) hdr.h.a = 0xff;"),
    Case("controls with constructor arguments, applied twice", "0405030405060708 111213",
         before="""control Add(inout bit<8> x)(bit<8> by) {
                     action add() { x = x + by; }
                     table t { actions = { add; } const default_action = add(); }
                     apply { t.apply(); } }""",
         locals="Add(3) three; Add(3) other;",
         body="three.apply(hdr.h.a); other.apply(hdr.h.b);"),
    Case("header validity", "12 111213",
         body="hdr.extra.setValid(); hdr.extra.v = 0x12; hdr.h.setInvalid(); hdr.s[0] = hdr.extra;"
              "hdr.s.pop_front(1); hdr.s.push_front(1); hdr.s[0] = hdr.extra; hdr.extra.setInvalid();",
         parser="""state start { p.extract(hdr.h); transition accept; }""", packet="0102030405060708 111213"),
    Case("an out header starts invalid", "0102030405060708 111213",
         before="control Make(out one_t o, in bit<8> way) { apply { if (way == 2) { o.setValid(); o.v = 1; } } }",
         locals="Make() make;",
         body="hdr.extra.setValid(); make.apply(hdr.extra, hdr.h.a);"),
    Case("comparison of headers and stacks", "0102030405060701 111213",
         body="one_t x = hdr.s[0]; if (x == hdr.s[0] && x != hdr.s[1] && hdr.extra != x) hdr.h.h = 1;"),
    Case("push and pop", "0102030405060708 aa1112",
         body="hdr.s.push_front(1); hdr.s[0].setValid(); hdr.s[0].v = 0xaa;"),
    Case("a stack at a run-time index", "0102030405061213 117713",
         body="hdr.h.g = hdr.s[hdr.h.a].v; hdr.s[hdr.h.a].v = 0x77; hdr.h.h = hdr.s[hdr.h.b].v;"),
    Case("nothing is written outside of a stack", "0102030405060700 111213",
         body="hdr.s[hdr.h.c].v = 0x77; hdr.s[hdr.h.d].setInvalid(); hdr.s[hdr.h.h] = hdr.extra;"
              "hdr.h.h = hdr.s[hdr.h.h].v;"),
    Case("what is outside of a stack reads as an invalid header", "0002030005060700 111213",
         body="if (hdr.s[hdr.h.h].isValid()) hdr.h.b = 0xff; hdr.s[hdr.h.g].v += 1; hdr.h.a = hdr.s[hdr.h.h].v;"
              "one_t x = hdr.s[0]; x = hdr.s[hdr.h.c]; if (!x.isValid()) hdr.h.d = 0; "
              "int<8> below = (int<8>)hdr.h.h - 9; hdr.s[below].v = 0xff; hdr.h.h = hdr.s[below].v;"),
    Case("what an action list gives for out is written afresh", "0902030405060708 1213",
         locals="""action fill(out one_t o, out bit<8> x, inout bit<8> y) {
                     if (o.isValid()) { y = 0xff; } x = 9; }
                   table u { actions = { fill(hdr.s[0], hdr.h.a, hdr.h.b); } const default_action = fill(hdr.s[0], hdr.h.a, hdr.h.b); }""",
         body="u.apply();"),
    Case("what an action list gives is copied in and out", "0304030405060708 111213",
         locals="""action both(inout bit<8> x) { x = x + 1; hdr.h.b = hdr.h.a + 3; x = x + 1; }
                   table t { actions = { both(hdr.h.a); } const default_action = both(hdr.h.a); }""",
         body="t.apply();"),
    Case("named arguments in another order than the parameters", "0104030405060708 111213",
         locals="""action add(in bit<8> x, inout bit<8> y, bit<8> z) { y = x + z; }
                   table t { actions = { add(y = hdr.h.b, x = hdr.h.a); }
                     const default_action = add(z = 3, y = hdr.h.b, x = hdr.h.a); }""",
         body="t.apply();"),
    Case("a look at more than there is", "01021112",
         parser="""state start { h_t h = p.lookahead<h_t>(); one_t one = p.lookahead<one_t>();
                     p.extract(hdr.s.next); hdr.s[0].v = h.a; transition accept; }""",
         packet="01021112", body="if (std.parser_error != error.PacketTooShort) hdr.extra.setValid();"),
    Case("a look at all that there is", "0701031112130715",
         parser="""state start { h_t h = p.lookahead<h_t>();
                     p.extract(hdr.s.next); hdr.s[0].v = h.g; transition accept; }""",
         packet="0001031112130715"),
    Case("an index too narrow for its stack", "0102030405060700 1213",
         body="hdr.s[0].setInvalid(); bit<1> i = hdr.h.b[0:0]; if (!hdr.s[i].isValid()) hdr.h.h = 0;"),
    Case("headers at a run-time index", "0102030405060708 1112",
         body="one_t x = hdr.s[hdr.h.a]; hdr.s[hdr.h.b] = x; if (hdr.s[hdr.h.a].isValid()) hdr.s[hdr.h.a].setInvalid();"),
    Case("a key that is computed", "0102030405060755 111213",
         locals="""action yes() { hdr.h.h = 0x55; }
                   table t { key = { hdr.h.a + hdr.h.b: exact @name("sum"); } actions = { yes; NoAction; }
                     const entries = { 3: yes(); } }""",
         body="t.apply();"),
    Case(
        "lpm and range entries", "0102030405aa07cc 111213",
        locals="""action f(bit<8> v) { hdr.h.f = v; } action h(bit<8> v) { hdr.h.h = v; }
                  table l { key = { hdr.h.a: lpm; } actions = { f; NoAction; }
                    const entries = { 0 &&& 0xf0: f(1); 0 &&& 0xfe: f(0xaa); 2 &&& 0xfe: f(3); } }
                  table r { key = { hdr.h.d: range; } actions = { h; NoAction; }
                    const entries = { 5 .. 9: h(1); 2 .. 4: h(0xcc); _: h(2); } }""",
        body="l.apply(); r.apply();",
    ),
    Case("ternary entries: the first that fits", "01020304050607bb 111213",
         locals="""action g(bit<8> v) { hdr.h.h = v; }
                   table t { key = { hdr.h.b: ternary; hdr.h.c: exact; } actions = { g; NoAction; }
                     const entries = { (_, 4): g(1); (2 &&& 3, 3): g(0xbb); (_, 3): g(2); } }""",
         body="t.apply();"),
    Case("select with masks, ranges and booleans", "0102030405060708 111213 ee",
         parser="""state start { p.extract(hdr.h); p.extract(hdr.s.next); p.extract(hdr.s.next); p.extract(hdr.s.next);
             transition select(hdr.h.a, hdr.h.b, hdr.h.c == 3) {
                 (0x80 &&& 0x80, _, _): reject; (1, 3 .. 9, _): accept; (0 .. 5, 1 .. 2, true): more;
                 default: accept; } }
             state more { hdr.extra.setValid(); hdr.extra.v = 0xee; transition accept; }"""),
    Case("an empty range matches nothing", "01ff030405060708 111213",
         parser="""state start { p.extract(hdr.h); p.extract(hdr.s.next); p.extract(hdr.s.next);
             p.extract(hdr.s.next); transition select(hdr.h.a) { 2 .. 0: more; 0 .. 1: right; default: more; } }
             state more { hdr.h.b = 0xee; transition accept; }
             state right { hdr.h.b = 0xff; transition accept; }"""),
    Case("lookahead, advance and if in a parser", "0102030405060708 13",
         parser="""state start { p.extract(hdr.h);
             pair_t ahead = p.lookahead<pair_t>();
             if (ahead.x == 0x11 && p.lookahead<bit<16>>()[7:0] == 0x12) { p.advance(16); }
             p.extract(hdr.s.next); transition accept; }"""),
    Case("a parser calls a parser", "0102030405060708 111213",
         top="""parser Sub(packet_in p, inout one_t[3] s, in bit<8> n) {
                  state start { p.extract(s.next); transition select(n) { 1: again; default: accept; } }
                  state again { p.extract(s.next); p.extract(s.next); transition accept; } }""",
         parser="""Sub() sub;
             state start { p.extract(hdr.h); sub.apply(p, hdr.s, hdr.h.a); transition accept; }"""),
    Case("loops", "0102060405060f08 111213",
         locals="""action sum() { hdr.h.g = 0;
                     for (bit<8> i = 1; i < 10; i = i + 1) { if (i == 3) { continue; } if (i == 7) { break; }
                       hdr.h.g = hdr.h.g + i; }
                     hdr.h.g = hdr.h.g - 3; }
                   table t { actions = { sum; } const default_action = sum(); }""",
         body="t.apply(); hdr.h.c = 0; for (bit<8> i in 1 .. 3) { hdr.h.c = hdr.h.c + i; }"),
    Case("for-in goes through copies", "0905030405040241 111200",
         body="""for (one_t x in hdr.s) { hdr.s[2].v = 0; x.v = x.v + 1; hdr.h.h = hdr.h.h + x.v; }
                 for (bit<8> x in (list<bit<8>>){ hdr.h.a, hdr.h.b }) {
                   hdr.h.a = 9; hdr.h.b = hdr.h.b + x; hdr.h.g = x; }
                 for (bit<8> x in 1 .. 3) { x = x + 1; hdr.h.f = x; }"""),
    Case("for-in through a stack that an argument is part of", "0177030405060708 021213",
         locals="""action sum(inout bit<8> x) { x = 2; hdr.h.b = 0x41;
                     for (one_t each in hdr.s) { hdr.h.b = hdr.h.b + each.v; } }""",
         body="sum(hdr.s[0].v);"),
    Case("metadata goes from parser to egress", "0102030405060742 111213",
         parser=PARSER.replace("transition", "meta.m = 0x42; meta.flag = true; transition"),
         egress="if (meta.flag) { hdr.h.h = meta.m; }"),
    Case("mark_to_drop", None, body="mark_to_drop(std);"),
    Case("mark_to_drop through parameters", None,
         locals="""action drop(inout standard_metadata_t s) { mark_to_drop(s); }
                   action both(inout standard_metadata_t s, inout bit<9> port) { drop(s); port = port; }""",
         body="bit<9> p = 1; both(std, p); drop(std);"),
    Case("mark_to_drop of a copy", "0102030405060701 111213",
         body="standard_metadata_t copy = std; mark_to_drop(copy); if (copy.egress_spec == 511) hdr.h.h = 1;"),
    Case("mark_to_drop of a parameter that has to be copied", None,
         locals="action drop(inout standard_metadata_t s) { std.egress_spec = 2; mark_to_drop(s); }",
         body="drop(std);"),
    Case("registers keep what an atomic block does", "0102030405060705 111213",
         locals="register<bit<8>>(4) r;",
         body="""@atomic { bit<8> v; r.read(v, 2); if (v == 0) { v = 5; } else { v = 7; } r.write(2, v); }
                 bit<8> w; r.read(w, 2); hdr.h.h = w;"""),
    Case("a variable that never changes divides as its constant does", "0a02030405060703 111213",
         body="bit<8> a = 31; bit<8> b = 3; bit<8> c = 4; hdr.h.a = a / b; hdr.h.h = (hdr.h.g + c) % c;"),
    Case("arrays of numbers and structs are copied, compared and passed whole",
         "0903040505060702 111213",
         top="""struct with_t { bit<8>[2] n; }
                bit<8>[2] swap(in bit<8>[2] a) { bit<8>[2] r; r[0] = a[1]; r[1] = a[0]; return r; }""",
         locals="action set(inout pair_t[2] p, in bit<8>[2] n) { p[1].x = n[0]; p[0] = p[1]; }",
         body="""bit<8>[2] n = { 2, 3 }; with_t w; w.n = swap(n); pair_t[2] p; p[1] = { 0, 4 };
                 set(p, w.n); hdr.h.b = p[0].x; hdr.h.c = p[1].y; hdr.h.h = w.n[1];
                 n[0][3:2] = 1; n[1] += 2; if (n != w.n && p[0] == p[1]) { hdr.h.a = n[0] + hdr.h.c - 1; }
                 hdr.h.d = n[1];"""),
    Case("bits of numbers without a width", "3402fd0405060700 111213",
         top="const int N = 0x1234; const bit<8> R = N[7:0];",
         body="hdr.h.a = R; hdr.h.c = (-3)[7:0]; hdr.h.h = (N << 80)[79:72];"),
    Case("a list that is only known while compiling takes no place", "0302030405060708 111213",
         body="list<bit<8>> none; list<bit<8>> l = (list<bit<8>>){ 1, 2 }; for (bit<8> x in l) { hdr.h.a = x + 1; }"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_packet_comes_out_as_the_program_says(case: Case, tmp_path: Path) -> None:
    with Switch.from_p4(case.write(tmp_path)) as switch:
        for port in (1, 2):
            switch.set_port(port)
        switch.inject(2, bytes.fromhex(case.packet), at_ns=1_000)
        outputs = switch.run_until(1_000_000)
    if case.out is None:
        assert not outputs
        return
    assert [(o.port, o.packet.hex()) for o in outputs] == [(1, case.out.replace(" ", ""))]


def test_an_atomic_block_is_one_action(tmp_path: Path) -> None:
    case = next(c for c in CASES if "atomic" in c.name)
    json = compile_p4(case.write(tmp_path)).json
    bodies = [[p["op"] for p in a["primitives"]] for a in json["actions"]]
    assert any("register_read" in b and "register_write" in b for b in bodies)


UNIONS = "header_union either_t { one_t one; h_t h; } struct unions_t { either_t[2] e; }"

REFUSED = [
    (Case("", None, body="t.apply(); t.apply();", locals="table t { actions = { NoAction; } }"),
     CompileError, "two places that go on differently"),
    (Case("", None, locals="action a(bool f) { } table t { actions = { a; } default_action = a(true); }",
          body="t.apply();"), CompileError, "only bit<> and int<>"),
    (Case("", None, body="bit<16> x; hash(x, HashAlgorithm.crc16, 16w0, hdr.h.a, 16w9);"),
     CompileError, "a hash takes a list"),
    (Case("", None, body="hdr.s[3].v = 1;"), CompileError, "3"),
    (Case("", None, body="clone(CloneType.E2E, 5);"), CompileError, "only be made in egress"),
    (Case("", None, locals="action a() { switch (hdr.h.a) { 1: { hdr.h.b = 2; } } }", body="a();"),
     CompileError, "no switch statements in actions"),
    (Case("", None, body="random(meta.p, meta.p, meta.p);"),
     CompileError, "can't write a struct as a result"),
    (Case("", None, body="hdr.h.a = hdr.h.a / 3;"), CompileError, 'no "/" at run time'),
    (Case("", None, body="bit<8> b = 4; hdr.h.b = 3; b = 8; hdr.h.a = hdr.h.a / b;"),
     CompileError, 'no "/" at run time'),
    (Case("", None, locals="register<bit<0>>(4) r;", body="bit<0> x; r.read(x, 0);"),
     CompileError, "registers hold"),
    (Case("", None, body="hdr.h.a %= hdr.h.b;"), CompileError, 'no "%" at run time'),
    (Case("", None, egress="resubmit_preserving_field_list(1);"), CompileError, "only be called in"),
    (Case("", None, top="header odd_t { bit<3> x; }", before="""
        control O(inout headers hdr) { apply { odd_t o; o.setValid(); o.x = 1; hdr.h.a = (bit<8>)o.x; } }""",
          locals="O() o;", body="o.apply(hdr);"), CompileError, "whole bytes"),
    (Case("", None, locals="""table t { key = { hdr.h.a: lpm; hdr.h.b: lpm; } actions = { NoAction; } }""",
          body="t.apply();"), CompileError, "more than one lpm"),
    (Case("", None, body="bit<32> n = p; "), CompileError, "p"),
    (Case("", None, top=UNIONS, locals="""bit<1> at = 0; action move() { at = 1; }
          table t { actions = { move; } const default_action = move(); }""",
          body="t.apply(); unions_t u; hdr.h.a = u.e[at].one.v;"),
     CompileError, "only constant indices into a stack of header unions"),
    (Case("", None, top=UNIONS, locals="""action move() { bit<1> at = 0; unions_t u; at = 1; hdr.h.a = u.e[at].one.v; }
          table t { actions = { move; } const default_action = move(); }""", body="t.apply();"),
     CompileError, "only constant indices into a stack of header unions"),
    (Case("", None, top=UNIONS, locals="""bit<1> at = 0; action move(out bit<1> to) { to = 1; }
          table t { actions = { move(at); } const default_action = move(at); }""",
          body="t.apply(); unions_t u; hdr.h.a = u.e[at].one.v;"),
     CompileError, "only constant indices into a stack of header unions"),
    (Case("", None, body="digest(1, hdr);"), CompileError, "a header stack or header union into"),
    (Case("", None, top="header long_t { varbit<16> v; }", locals="long_t l;", body="digest(1, { l.v });"),
     CompileError, "can't put a varbit field into a digest"),
    (Case("", None, body="bit<8>[2] a = { 1, 2 }; hdr.h.a = a[hdr.h.b];"),
     CompileError, "no arrays at run time"),
    (Case("", None, body="list<bit<8>> l; l = (list<bit<8>>){ 1 };"), CompileError, "can't change"),
    (Case("", None, locals="""table t { key = { hdr.h.a : range; } actions = { NoAction; }
          const entries = { 3 .. 3 : NoAction(); 5 .. 3 : NoAction(); } }""", body="t.apply();"),
     CompileError, "from 5 to 3 matches nothing"),
    (Case("", None, top="struct reg_t { bit<8> v; }", locals="register<reg_t>(2) r;"),
     CompileError, "registers hold"),
    (Case("", None, parser="state start { p.extract(hdr.s.next); hdr.h.a = hdr.s.next.v; transition accept; }"),
     CompileError, "what extract fills"),
    (Case("", None, parser="state start { hdr.s.next = { 1 }; transition accept; }"),
     CompileError, "what extract fills"),
    (Case("", None, body="hash(hdr.h.a, HashAlgorithm.crc16, 8w0, { hdr.s }, 8w9);"),
     CompileError, "a header stack or header union into"),
]  # fmt: skip


@pytest.mark.parametrize(("case", "error", "complaint"), REFUSED)
def test_what_can_not_be_done_is_said_with_its_place(
    case: Case, error: type[CompileError], complaint: str, tmp_path: Path
) -> None:
    source = case.write(tmp_path)
    with pytest.raises(error, match=complaint) as caught:
        compile_p4(source)
    first = caught.value.diagnostics[0]
    assert first.pos.file == str(source)
    assert first.pos.line > 0


OWN = "extern own_t { own_t(); void run(); }\nextern void act();\nextern bit<8> value();"


@pytest.mark.parametrize(
    ("case", "line", "complaint"),
    [
        (Case("", None, top=OWN, locals="own_t() o;"), "extern own_t", "the extern own_t"),
        (Case("", None, top=OWN, locals="own_t() o;", body="o.run();"), "extern own_t", "own_t.run"),
        (Case("", None, top=OWN, body="act();"), "extern void act", "the extern function act"),
        (Case("", None, top=OWN, body="hdr.h.a = value();"), "apply { std", "function value"),
        (Case("", None, top=OWN, parser="state start { act(); transition accept; }"),
         "state start", "function act"),
    ],
)  # fmt: skip
def test_externs_of_ones_own_are_refused_where_p4c_refuses_them(
    case: Case, line: str, complaint: str, tmp_path: Path
) -> None:
    source = case.write(tmp_path)
    with pytest.raises(CompileError, match=f"v1model does not have .*{complaint}") as caught:
        compile_p4(source)
    assert not isinstance(caught.value, NotSupported)
    (diagnostic,) = caught.value.diagnostics
    assert line in source.read_text().splitlines()[diagnostic.pos.line - 1]


def test_an_extern_that_nothing_uses_is_no_fault(tmp_path: Path) -> None:
    compile_p4(Case("", None, top=OWN).write(tmp_path))
