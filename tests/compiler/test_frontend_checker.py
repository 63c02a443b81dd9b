"""What the checker writes into the tree: types, constants, casts, resolved calls and bindings."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

from compiler import frontend
from compiler.errors import CompileError, Reporter, TooManyErrors
from compiler.syntax import ast, cpp, lexer, parser
from compiler.syntax.ast import CallKind
from compiler.types import types as ty
from compiler.types.checker import Checker
from tests.call_count import calls

GOLDEN = Path(__file__).parents[1] / "golden"
ONE_CONTROL = Path(__file__).parent / "bad" / "include"


def check_text(tmp_path: Path, text: str) -> frontend.CheckedProgram:
    program = tmp_path / "program.p4"
    program.write_text(text)
    return frontend.check(program, [ONE_CONTROL])


def check_body(tmp_path: Path, body: str, local: str = "", top: str = "") -> ast.ControlDecl:
    """Return the checked control C with `body` in its apply."""
    checked = check_text(
        tmp_path,
        f'#include "one_control.p4"\n{top}\ncontrol C(inout H hdr) {{ {local} apply {{ {body} }} }}'
        "\nTop(C()) main;\n",
    )
    control = next(d for d in checked.program.decls if d.name == "C")
    assert isinstance(control, ast.ControlDecl)
    return control


def nodes(node: object) -> Iterator[ast.Node]:
    """Every node of the tree below `node` that was written (annotations' links not followed)."""
    if isinstance(node, list):
        for each in node:
            yield from nodes(each)
    elif isinstance(node, ast.Argument | ast.Binding):
        yield from nodes(node.arg if isinstance(node, ast.Binding) else node.value)
    elif isinstance(node, ast.Node):
        yield node
        if is_dataclass(node):
            for each_field in fields(node):
                if each_field.name not in ("decl", "table", "receiver", "annotations"):
                    yield from nodes(getattr(node, each_field.name))


def only_call(control: ast.ControlDecl) -> ast.Call:
    stmt = control.body.statements[0]
    assert isinstance(stmt, ast.CallStmt)
    return stmt.call


# ------------------------------------------------------------ constants


@pytest.mark.parametrize(
    ("declared", "text", "value"),
    [
        ("bit<8>", "255 + 1 - 1", 255),
        ("bit<8>", "8w255 + 1", 0),
        ("bit<8>", "8w3 - 4", 255),
        ("bit<8>", "8w250 |+| 10", 255),
        ("bit<8>", "8w3 |-| 10", 0),
        ("int<8>", "8s100 |+| 100", 127),
        ("int<8>", "8s127 + 1", -128),
        ("int<8>", "-8s1", -1),
        ("bit<8>", "~8w0x0f", 0xF0),
        ("int", "-7", -7),
        ("int", "7 / 2 * 2 + 7 % 2", 7),
        ("int", "1 << 100", 1 << 100),
        ("int", "-5 >> 1", -3),
        ("int<8>", "-8s5 >> 1", -3),
        ("bit<8>", "8w1 << 9", 0),
        ("bit<12>", "8w0xab ++ 4w0xc", 0xABC),
        ("bit<4>", "8w0xab[7:4]", 0xA),
        ("bit<8>", "(bit<8>)16w0x1234", 0x34),
        ("bit<8>", "(bit<8>)(int<8>)-1", 255),
        ("int<8>", "(int<8>)8w255", -1),
        ("bit<1>", "(bit<1>)true", 1),
        ("bool", "(bool)1w1", True),
        ("bool", "3 < 4 && !(8w1 == 2)", True),
        ("bool", "false && hidden == 1", None),
        ("bit<8>", "true ? 8w1 : 2", 1),
        ("bit<8>", "proto_t.UDP", 17),
        ("bool", "proto_t.UDP == 17", True),
        ("bit<32>", "pair.y + 1", 6),
        ("bit<8>", "H_SIZE", 33),
        ("bit<128>", "0xffffffffffffffffffffffffffffffff", 2**128 - 1),
        ("int", "h_t.minSizeInBytes()", 5),
        ("int", "v_t.maxSizeInBits()", 72),
        ("string", '"a" ++ "b"', "ab"),
        ("port_id_t", "(port_id_t)9w5", 5),
    ],
)
def test_constants(tmp_path: Path, declared: str, text: str, value: object) -> None:
    top = (
        '#include "one_control.p4"\n'
        "struct pair_t { bit<8> x; bit<32> y; }\nconst pair_t pair = { 1, 5 };\n"
        "const bit<8> H_SIZE = h_t.minSizeInBits();\nconst bit<8> hidden = 2;\n"
        f"const {declared} k = {text};\ncontrol C(inout H hdr) {{ apply {{ }} }}\nTop(C()) main;\n"
    )
    checked = check_text(tmp_path, top)
    decl = next(d for d in checked.program.decls if d.name == "k")
    assert isinstance(decl, ast.ConstDecl)
    assert str(decl.init.type) == declared
    if value is None:
        value = False
    assert decl.init.const_value == value and type(decl.init.const_value) is type(value)


def test_values_that_do_not_fit_are_warned_of(tmp_path: Path) -> None:
    checked = check_text(
        tmp_path,
        '#include "one_control.p4"\nconst bit<8> a = 256;\nconst bit<8> b = -1;\n'
        "const bit<4> c = 4w16;\ncontrol C(inout H hdr) { apply { } }\nTop(C()) main;\n",
    )
    assert [(w.pos.line, w.message) for w in checked.warnings if w.code != "unused"] == [
        (2, "value 256 does not fit in bit<8>, it becomes 0"),
        (3, "negative value -1 in unsigned bit<8>, it becomes 255"),
        (4, "value 16 does not fit in bit<4>, it becomes 0"),
    ]


# ------------------------------------------------------------ conversions


def test_implicit_casts_are_in_the_tree(tmp_path: Path) -> None:
    control = check_body(
        tmp_path,
        "hdr.h.b = 1; hdr.h.a = proto_t.TCP; hdr.h.b = hdr.h.b + 1; bool x = hdr.h.a == 3;"
        "hdr.h = {1, 2, 3, 1};",
    )
    one, proto, plus, equal, whole = control.body.statements
    assert isinstance(one, ast.Assign) and isinstance(one.right, ast.Cast) and one.right.implicit
    assert (one.right.type, one.right.const_value) == (ty.Bit(16), 1)
    assert isinstance(proto, ast.Assign) and isinstance(proto.right, ast.Cast)
    assert (str(proto.right.operand.type), proto.right.const_value) == ("proto_t", 6)
    assert isinstance(plus, ast.Assign) and isinstance(plus.right, ast.Binary)
    assert plus.right.left.type == plus.right.right.type == plus.right.type == ty.Bit(16)
    assert isinstance(equal, ast.DeclStmt) and isinstance(equal.decl, ast.VarDecl)
    assert isinstance(equal.decl.init, ast.Binary)
    assert equal.decl.init.right.type == ty.Bit(8) and equal.decl.init.type == ty.BOOL
    assert isinstance(whole, ast.Assign) and isinstance(whole.right, ast.ListExpr)
    assert [str(e.type) for e in whole.right.elements] == ["bit<8>", "bit<16>", "int<8>", "bit<1>"]


def test_division_by_a_power_of_two_becomes_a_shift(tmp_path: Path) -> None:
    control = check_body(tmp_path, "hdr.h.b = hdr.h.b / 8; hdr.h.b = hdr.h.b % 8;")
    found = [
        (s.right.op, s.right.right.const_value)
        for s in control.body.statements
        if isinstance(s, ast.Assign) and isinstance(s.right, ast.Binary)
    ]
    assert found == [(ast.BinaryOp.SHR, 3), (ast.BinaryOp.BIT_AND, 7)]


# ------------------------------------------------------------ calls


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("hdr.h.setValid();", CallKind.SET_VALID),
        ("hdr.stack.push_front(1);", CallKind.PUSH_FRONT),
        ("a(1, 2);", CallKind.ACTION),
        ("t.apply();", CallKind.TABLE_APPLY),
        ("f(hdr.h.a);", CallKind.FUNCTION),
        ("c.count(1);", CallKind.EXTERN_METHOD),
        ("compute(hdr.h, hdr.h.b);", CallKind.EXTERN_FUNCTION),
        ("sub.apply(hdr);", CallKind.CONTROL_APPLY),
        ("Sub.apply(hdr);", CallKind.CONTROL_APPLY),
        ("static_assert(true);", CallKind.STATIC_ASSERT),
    ],
)
def test_kinds_of_calls(tmp_path: Path, body: str, kind: CallKind) -> None:
    control = check_body(
        tmp_path,
        body,
        "action a(in bit<8> x, bit<8> y) { } table t { actions = { NoAction; } }"
        "counter_t(4) c; Sub() sub;",
        "void f(inout bit<8> x) { } control Sub(inout H h) { apply { } }",
    )
    call = only_call(control)
    assert call.kind is kind
    assert call.direct == body.startswith("Sub")


def test_binding_by_name_with_defaults_and_wildcards(tmp_path: Path) -> None:
    top = "extern void g<T>(in T x, out bit<8> r, in bit<4> d = 7, @optional in bit<4> o);"
    by_name = only_call(check_body(tmp_path, "g(r = _, x = hdr.h.b);", top=top))
    assert [b.param.name for b in by_name.binding] == ["x", "r", "d", "o"]
    x, r, d, o = (b.arg for b in by_name.binding)
    assert isinstance(x, ast.Member) and isinstance(r, ast.Wildcard) and r.type == ty.Bit(8)
    assert d is not None and d.const_value == 7 and d.type == ty.Bit(4)
    assert o is None
    assert by_name.bound_type_args == {"T": ty.Bit(16)}
    assert by_name.binding[0].param.type == ty.Bit(16)


@pytest.mark.parametrize(
    ("arguments", "inferred"),
    [
        ("{hdr.h.a, hdr.h.b}", "tuple<bit<8>, bit<16>>"),
        ("hdr.h", "h_t"),
        ("8w1", "bit<8>"),
        ("hdr.stack", "h_t[3]"),
        ("{hdr.h.a, {true, hdr.h.s}}", "tuple<bit<8>, tuple<bool, int<8>>>"),
    ],
)
def test_type_arguments_are_inferred(tmp_path: Path, arguments: str, inferred: str) -> None:
    call = only_call(check_body(tmp_path, f"compute({arguments}, hdr.h.b);"))
    assert {name: str(t) for name, t in call.bound_type_args.items()} == {"T": inferred}


def test_overloads_are_chosen_by_number_and_name(tmp_path: Path) -> None:
    top = "extern void o(in bit<8> a); extern void o(in bit<8> a, in bit<8> b);"
    top += "extern void o(in bit<16> c);"
    control = check_body(tmp_path, "o(1, 2); o(c = 1); o(hdr.h.b);", top=top)
    chosen = [
        [p.name for p in s.call.decl.params]
        for s in control.body.statements
        if isinstance(s, ast.CallStmt) and isinstance(s.call.decl, ast.MethodDecl)
    ]
    assert chosen == [["a", "b"], ["c"], ["c"]]


def test_an_action_may_be_named_as_the_function_it_calls(tmp_path: Path) -> None:
    control = check_body(tmp_path, "", "action compute() { compute(hdr.h, hdr.h.b); }")
    action = control.locals[0]
    assert isinstance(action, ast.ActionDecl)
    call = action.body.statements[0]
    assert isinstance(call, ast.CallStmt) and call.call.kind is CallKind.EXTERN_FUNCTION


def test_main_and_constructors(tmp_path: Path) -> None:
    checked = check_text(
        tmp_path,
        '#include "one_control.p4"\ncontrol C(inout H hdr)(bit<32> n, bit<8> k) {'
        "counter_t(n) c; apply { hdr.h.a = k; } }\nTop(b = C(k = 2, n = 16)) main;\n",
    )
    (block,) = checked.main.call.binding
    made = block.arg
    assert isinstance(made, ast.Call) and made.kind is CallKind.CONSTRUCTOR
    assert isinstance(made.decl, ast.ControlDecl) and made.decl.name == "C"
    values = [(b.param.name, b.arg.const_value) for b in made.binding if b.arg is not None]
    assert values == [("n", 16), ("k", 2)]
    assert all(param.of_constructor for param in made.decl.ctor_params)


# ------------------------------------------------------------ tables and parsers


def test_table_parts_are_resolved(tmp_path: Path) -> None:
    control = check_body(
        tmp_path,
        "switch (t.apply().action_run) { b: { } default: { } }",
        "action a() { } action b(in bit<8> x, bit<16> y) { } table t {"
        " key = { hdr.h.a: ternary; hdr.h.isValid(): exact; } actions = { a; b(hdr.h.a); }"
        " default_action = b(hdr.h.a, 9);"
        " entries = { priority = 3: (1 &&& 3, true): b(5); (_, false): a(); } size = 4 * 4; }",
    )
    table = control.locals[2]
    assert isinstance(table, ast.TableDecl) and table.keys and table.entries
    assert [key.match_kind.name for key in table.keys] == ["ternary", "exact"]
    assert [[b.param.name for b in ref.binding] for ref in table.actions] == [[], ["x"]]
    assert table.default_action is not None
    assert [b.param.name for b in table.default_action.binding] == ["x", "y"]
    first, second = table.entries
    mask = first.keysets[0]
    assert isinstance(mask, ast.Mask) and mask.value.type == mask.mask.type == ty.Bit(8)
    assert [b.param.name for b in first.action.binding] == ["x", "y"]
    assert first.priority is not None and first.priority.const_value == 3
    assert isinstance(second.keysets[0], ast.Wildcard)
    size = table.prop("size")
    assert size is not None and size.value is not None and size.value.const_value == 16
    switch = control.body.statements[0]
    assert isinstance(switch, ast.Switch) and switch.table is table
    assert isinstance(switch.cases[0].label, ast.Name)
    assert isinstance(switch.cases[0].label.decl, ast.ActionDecl)


# ------------------------------------------------------------ whole programs


@pytest.mark.parametrize("name", ["l3", "features"])
def test_golden_programs_check_without_warnings(name: str) -> None:
    checked = frontend.check(GOLDEN / f"{name}.p4")
    assert checked.warnings == []
    untyped = [n for n in nodes(_bodies(checked.program)) if _lacks_type(n)]
    assert untyped == []


def _bodies(program: ast.Program) -> list[ast.Decl]:
    return [d for d in program.decls if isinstance(d, ast.ControlDecl | ast.ParserDecl)]


def _lacks_type(node: ast.Node) -> bool:
    return isinstance(node, ast.Expr) and node.type is None and not isinstance(node, ast.Member)


def test_every_v1model_version_checks(tmp_path: Path) -> None:
    text = (
        "#include <v1model.p4>\nstruct E {}\nparser P(packet_in p, out E h, inout E m,"
        " inout standard_metadata_t s) { state start { transition accept; } }\n"
        "control V(inout E h, inout E m) { apply { } }\n"
        "control I(inout E h, inout E m, inout standard_metadata_t s) {\n"
        "#if V1MODEL_VERSION >= 20200408\n register<bit<8>, bit<4>>(16) r;\n"
        "#else\n register<bit<8>>(16) r;\n#endif\n"
        " apply { bit<8> x; r.read(x, 3); r.write(3, x); } }\n"
        "control D(packet_out p, in E h) { apply { } }\n"
        "V1Switch(P(), V(), I(), I(), V(), D()) main;\n"
    )
    program = tmp_path / "p.p4"
    program.write_text(text)
    for defines in ([], ["V1MODEL_VERSION=20180101"], ["V1MODEL_VERSION=20200408"]):
        assert frontend.check(program, defines=defines).main.type is not None
    unknown = frontend.check(program, defines=["V1MODEL_VERSION=20190101"])
    assert any("V1MODEL_VERSION 20190101 is not known" in str(w) for w in unknown.warnings)


def test_speed() -> None:
    """Parsing and checking v1model and a 200-line program: some hundredths of a second."""
    assert calls(lambda: frontend.check(GOLDEN / "features.p4")) < 1_000_000


def test_long_chains_and_deep_nesting(tmp_path: Path) -> None:
    chain = " else ".join(f"if (hdr.h.a == {i}) {{ hdr.h.b = {i}; }}" for i in range(500))
    assert check_body(tmp_path, chain).body.statements
    with pytest.raises(CompileError) as caught:
        check_body(tmp_path, "hdr.h.a = " + "(" * 5000 + "1" + ")" * 5000 + ";")
    assert "nested too deeply" in str(caught.value)


def test_damaged_programs_never_crash() -> None:
    """Tokens deleted, doubled, swapped or replaced: the front end reports errors or accepts."""
    path = GOLDEN / "l3.p4"
    tokens = lexer.tokenize(cpp.preprocess(path, [], []), str(path))
    first = next(i for i, t in enumerate(tokens) if t.pos.file == str(path))
    words = "( ) { } ; < > = 8w1 hdr h bit apply table @ in true header action . , : error - _ [ ]"
    random_numbers = random.Random(16)
    refused = 0
    for _ in range(150):
        damaged = list(tokens)
        for _ in range(random_numbers.randint(1, 3)):
            at = random_numbers.randrange(first, len(damaged) - 1)
            other = random_numbers.randrange(first, len(damaged) - 1)
            match random_numbers.randrange(4):
                case 0:
                    del damaged[at]
                case 1:
                    damaged.insert(at, damaged[other])
                case 2:
                    damaged[at], damaged[other] = damaged[other], damaged[at]
                case 3:
                    word = lexer.tokenize(random_numbers.choice(words.split()), "word")[0]
                    word.pos = damaged[at].pos
                    damaged[at] = word
        refused += _refused(damaged, str(path))
    assert refused > 100


def _refused(tokens: list[lexer.Token], path: str) -> bool:
    reporter = Reporter()
    try:
        program = parser.parse(tokens, reporter)
        reporter.raise_if_errors()
        Checker(reporter, path).program(program)
        reporter.raise_if_errors()
    except (CompileError, TooManyErrors):
        return True
    return False
