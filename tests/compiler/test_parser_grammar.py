"""Lexer and parser: literals, precedence, the places where P4's grammar needs to know types."""

from __future__ import annotations

import pytest

from compiler.errors import CompileError, Reporter
from compiler.syntax import ast
from compiler.syntax.lexer import parse_integer, tokenize
from compiler.syntax.parser import Parser, parse


def program_of(text: str) -> ast.Program:
    reporter = Reporter()
    program = parse(tokenize(text, "test.p4"), reporter)
    reporter.raise_if_errors()
    return program


def shape(expr: ast.Expr) -> str:
    """Return the tree of an expression with every operator in parentheses."""
    match expr:
        case ast.Name():
            return expr.name
        case ast.IntLiteral():
            return expr.text
        case ast.BoolLiteral():
            return str(expr.value).lower()
        case ast.Binary():
            return f"({shape(expr.left)} {expr.op.value} {shape(expr.right)})"
        case ast.Unary():
            return f"({expr.op.value}{shape(expr.operand)})"
        case ast.Ternary():
            return f"({shape(expr.cond)} ? {shape(expr.then)} : {shape(expr.otherwise)})"
        case ast.Cast():
            return f"(cast {shape(expr.operand)})"
        case ast.Member():
            return f"{shape(expr.base)}.{expr.member}"
        case ast.Index():
            return f"{shape(expr.base)}[{shape(expr.index)}]"
        case ast.Slice():
            mark = "+:" if expr.plus else ":"
            return f"{shape(expr.base)}[{shape(expr.hi)}{mark}{shape(expr.lo)}]"
        case ast.Call():
            types = f"<{len(expr.type_args)}>" if expr.type_args else ""
            args = ", ".join(shape(arg.value) for arg in expr.args)
            return f"{shape(expr.callee)}{types}({args})"
        case ast.TypeExpr():
            return "type"
        case ast.ListExpr():
            return "{" + ", ".join(map(shape, expr.elements)) + (", ..." if expr.rest else "") + "}"
        case ast.StructExpr():
            return "{" + ", ".join(f"{f.name} = {shape(f.value)}" for f in expr.fields) + "}"
        case _:
            return type(expr).__name__


def expression(text: str) -> str:
    """Shape of an expression in which T is a type and everything else is none."""
    parser = Parser(tokenize(f"typedef bit<8> T; const bit<8> x = {text};", "test.p4"), Reporter())
    parser.declaration()
    decl = parser.declaration()
    assert isinstance(decl, ast.ConstDecl)
    return shape(decl.init)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a + b * c", "(a + (b * c))"),
        ("a - b - c", "((a - b) - c)"),
        ("a | b == c", "((a | b) == c)"),
        ("a & b == c & d", "((a & b) == (c & d))"),
        ("a == b && c == d || e", "(((a == b) && (c == d)) || e)"),
        ("a & b | c ^ d", "((a & b) | (c ^ d))"),
        ("a << 1 + b", "(a << (1 + b))"),
        ("a >> b >> c", "((a >> b) >> c)"),
        ("a > b", "(a > b)"),
        ("a |+| b |-| c", "((a |+| b) |-| c)"),
        ("a ++ b ++ c", "((a ++ b) ++ c)"),
        ("-a + ~b", "((-a) + (~b))"),
        ("!a.b && c", "((!a.b) && c)"),
        ("a ? b : c ? d : e", "((a ? b : c) ? d : e)"),  # as p4c's grammar has it
        ("a ? b ? c : d : e", "(a ? (b ? c : d) : e)"),
        ("a ? b : c || d ? e : f", "((a ? b : (c || d)) ? e : f)"),
        ("a < b ? c : d", "((a < b) ? c : d)"),
        ("(a + b) * c", "((a + b) * c)"),
        ("a[7:0] ++ b[3 +: c]", "(a[7:0] ++ b[c+:3])"),
        ("a.b[1].c", "a.b[1].c"),
        ("(T) a + b", "((cast a) + b)"),
        ("(T)(a + b)", "(cast (a + b))"),
        ("(T) -a", "(cast (-a))"),
        ("(a) - b", "(a - b)"),
        ("(bit<4>)(T) a", "(cast (cast a))"),
        ("(bit<(1 > 0 ? 4 : 8)>) a", "(cast a)"),
        ("f<T>(a)", "f<1>(a)"),
        ("f<bit<8>, _>(a)", "f<2>(a)"),
        ("a < b", "(a < b)"),
        ("p.look<tuple<T, bit<4>>>()", "p.look<1>()"),
        ("a < T.size && b", "((a < T.size) && b)"),
        ("f(x = a, y = _)", "f(a, Wildcard)"),
        ("{a, b, ...}", "{a, b, ...}"),
        ("{x = a, y = {b, c}}", "{x = a, y = {b, c}}"),
        ("{}", "{}"),
        ("{#}", "InvalidExpr"),
        ("error.NoError", "error.NoError"),
        ("T.minSizeInBits()", "T.minSizeInBits()"),
        (".a + key", "(a + key)"),
    ],
)
def test_expressions(text: str, tree: str) -> None:
    assert expression(text) == tree


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("10", (10, None, False)),
        ("0x1F", (31, None, False)),
        ("0b1010_1010", (170, None, False)),
        ("0o17", (15, None, False)),
        ("0d19", (19, None, False)),
        ("8w255", (255, 8, False)),
        ("16s0xFFFF", (65535, 16, True)),
        ("1_000_000", (1000000, None, False)),
        ("128w0xFFFF_FFFF_FFFF_FFFF_FFFF_FFFF_FFFF_FFFF", (2**128 - 1, 128, False)),
        ("0", (0, None, False)),
        ("010", (10, None, False)),
    ],
)
def test_integers(text: str, value: tuple[int, int | None, bool]) -> None:
    assert parse_integer(text) == value
    assert [token.kind for token in tokenize(text, "test.p4")] == ["integer", "end"]


def test_positions_of_tokens() -> None:
    tokens = tokenize('a\n  /* two\nlines */ b // rest\n# 40 "other.p4"\n\tc "x\ny" d', "test.p4")
    at = [(t.text, t.pos.file, t.pos.line, t.pos.column) for t in tokens]
    assert at == [
        ("a", "test.p4", 1, 1),
        ("b", "test.p4", 3, 10),
        ("c", "other.p4", 40, 2),
        ('"x\ny"', "other.p4", 40, 4),
        ("d", "other.p4", 41, 4),
        ("end of file", "other.p4", 41, 4),
    ]


GRAMMAR = """
@pure extern T f<T>(in T x);
extern E<T> { E(bit<32> size); @x void m<U>(in U u, out T t = 1); abstract T g(); }
extern Opaque;
typedef struct P { bit<8> x; } Q;
typedef tuple<bit<8>, bool> pair_t;
header h_t { varbit<32> v; @a(1) bit<8> b; }
header_union u_t { h_t h; }
enum bit<(4 + 4)> e_t { A = 1, B = 2, }
enum plain_t { X, Y }
error { Mine }
match_kind { fuzzy }
type bit<9> port_t;
package Pack<H>(@optional E<H> e, bit<8> n = 4);
parser Parse<H>(packet_t p, out H h);
control Sub<T>(in T t) { apply { } }
control Ctrl(inout h_t h)(bit<8> n) {
    E<bit<8>>(16) e;
    h_t[2] stack;
    const bit<8> K = 3;
    @name("t1") table t {
        key = { h.b : exact @name("b"); stack[0].b & 0xf : ternary; }
        actions = { @defaultonly nop; .outer(1); a(h.b); }
        const default_action = a(h.b, 2);
        @x const entries = {
            const priority = 10: (1, 2 &&& 3) : nop();
            (_, default) : a(h.b, 1) @late;
            priority = (1 + 2): (1 .. 2, 0) : nop;
        }
        size = 16;
        implementation = E<bit<8>>(4);
    }
    action nop() { }
    apply {
        bit<8> x;
        h_t other = { ... };
        x = 1; x += 2; x <<= 1; x >>= 1; x |+|= 3; x[3:0] = 1;
        if (x > 1) x = 2; else if (x == 2) { ; } else return;
        switch (t.apply().action_run) { nop: a: { } default: { exit; } }
        switch (x) { 1: { } -1: { } 8w2: { } }
        for (bit<8> i = 0, bit<8> j = 1; i < 4; i = i + 1, j += 1) { continue; }
        for (bit<8> i in 1 .. 8) { break; }
        for (h_t each in stack) { }
        @atomic { f<bit<8>>(x); e.m<bool>(true, _); }
        Sub<bit<8>>.apply(x);
        return f(x);
    }
}
parser MyParser(packet_t p, out h_t h) {
    value_set<bit<8>>(4) vs;
    bit<8> left = 0;
    state start {
        p.extract(h);
        transition select(h.b, left[1:0]) {
            (1, 2): start;
            (1 &&& 2, 3 .. 4): next;
            (vs, _): accept;
            default: reject;
        }
    }
    @name("n") state next { transition select(h.b) { vs: accept; (bit<8>) 1: accept; (1): start; } }
    state last { }
}
@pragma name words "and more"
@my(anything [ goes ( { ) @here ' too) @s[a = 1, b = "x"] @l[1, 2]
bit<8> max(in bit<8> a, in bit<8> b) { return a > b ? a : b; }
void generic<T>(in T t) { }
E<bit<8>>(4) instance = { bit<8> g() { return 1; } };
;
"""


def test_the_whole_grammar_parses() -> None:
    program = program_of("extern packet_t { void extract<T>(out T t); }\n" + GRAMMAR)
    kinds = {type(decl).__name__ for decl in program.decls}
    assert kinds == {
        "MethodDecl", "ExternDecl", "TypedefDecl", "HeaderDecl", "HeaderUnionDecl", "EnumDecl",
        "ErrorDecl", "MatchKindDecl", "NewtypeDecl", "PackageDecl", "ParserTypeDecl",
        "ControlDecl", "ParserDecl", "FunctionDecl", "InstanceDecl",
    }  # fmt: skip


def test_annotations_keep_their_text() -> None:
    program = program_of('@my(a [1]  "x") @s[k = 1 + 2] @l["a", 3] @flag bit<8> f() { return 1; }')
    mine, pairs, items, flag = program.decls[0].annotations
    assert (mine.name, mine.text) == ("my", 'a [1] "x"')
    assert mine.tokens == ["a", "[", "1", "]", '"x"']
    assert [key for key, _ in pairs.pairs] == ["k"] and pairs.structured
    assert len(items.exprs) == 2
    assert (flag.name, flag.text, flag.structured) == ("flag", "", False)


def test_several_syntax_errors_are_found() -> None:
    text = """
const bit<8> a = ;
control c() { apply { a = ; b = 1; c + ; } }
header h_t { bit<8> }
const bit<8> b = );
"""
    with pytest.raises(CompileError) as caught:
        program_of(text)
    assert [d.pos.line for d in caught.value.diagnostics] == [2, 3, 3, 4, 5]


def test_deep_nesting_parses() -> None:
    depth = 60
    assert expression("(" * depth + "a" + ")" * depth) == "a"
