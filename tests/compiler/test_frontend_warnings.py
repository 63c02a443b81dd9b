"""Warnings: told at the right place, silenced by @noWarn, never for our own include files."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler import frontend

ONE_CONTROL = Path(__file__).parent / "bad" / "include"
GOLDEN = Path(__file__).parents[1] / "golden"


def warnings_of(tmp_path: Path, text: str) -> list[tuple[int, int, str, str]]:
    program = tmp_path / "program.p4"
    program.write_text('#include "one_control.p4"\n' + text)
    checked = frontend.check(program, [ONE_CONTROL])
    return [
        (w.pos.line, w.pos.column, w.code, w.message)
        for w in checked.warnings
        if w.pos.file == str(program)
    ]


UNUSED = """const bit<8> K = 1;
typedef bit<8> byte_t;
bit<8> f(in bit<8> x) { return 1; }
control D(inout H h) { apply { } }
control C(inout H hdr) {
    counter_t(4) c;
    bit<8> v;
    action a(bit<8> data) { bit<8> w = 1; }
    table t { actions = { NoAction; } }
    apply { bit<8> x; }
}
Top(C()) main;
"""


def test_unused_declarations(tmp_path: Path) -> None:
    found = warnings_of(tmp_path, UNUSED)
    assert {code for _, _, code, _ in found} == {"unused"}
    assert sorted((line, column, text) for line, column, _, text in found) == [
        (2, 14, '"K" is unused'),
        (3, 16, '"byte_t" is unused'),
        (4, 8, '"f" is unused'),
        (5, 9, 'control "D" is unused'),
        (7, 18, '"c" is unused'),
        (8, 12, '"v" is unused'),
        (9, 12, '"a" is unused'),
        (9, 21, '"data" is unused'),
        (9, 36, '"w" is unused'),
        (10, 11, 'table "t" is unused'),
        (11, 20, '"x" is unused'),
    ]


def test_no_warn(tmp_path: Path) -> None:
    text = '@noWarn("unused") const bit<8> K = 1;\ncontrol C(inout H hdr) { apply { } }\n'
    assert warnings_of(tmp_path, text + "Top(C()) main;\n") == []


@pytest.mark.parametrize(
    ("body", "local", "warning"),
    [
        ("hdr.h.a = 300;", "", (3, 11, "overflow", "value 300 does not fit in bit<8>, ")),
        ("hdr.h.a = -1;", "", (3, 11, "mismatch", "negative value -1 in unsigned bit<8>")),
        ("hdr.h.a = hdr.h.a << 8;", "", (3, 11, "overflow", "shift of bit<8> by 8: no bit")),
        (
            "bit<8> v = 1; hdr.h.a = v;",
            "bit<8> v = hdr.h.a; action use() { hdr.h.a = v; } table t { actions = { use; } }",
            (3, 8, "shadow", '"v" shadows '),
        ),
        ("f();", "", (3, 1, "deprecated", '"f" is deprecated: use g')),
        ("switch (hdr.h.a) { 1: }", "", (3, 20, "missing", "the last label falls through")),
    ],
)
def test_other_warnings(
    tmp_path: Path, body: str, local: str, warning: tuple[int, int, str, str]
) -> None:
    declared = f'@deprecated("use g") extern void f(); control C(inout H hdr) {{ {local}'
    text = f"{declared} apply {{\n{body}\n}} }}\nTop(C()) main;\n"
    found = [w for w in warnings_of(tmp_path, text) if w[2] != "unused"]
    assert len(found) == 1
    assert found[0][:3] == warning[:3]
    assert found[0][3].startswith(warning[3])


def test_state_without_transition(tmp_path: Path) -> None:
    text = (
        "parser P(packet_in packet, out H hdr) {\n state start { }\n}\n"
        "control C(inout H hdr) { apply { } }\nBoth(P(), C()) main;\n"
    )
    assert warnings_of(tmp_path, text) == [
        (3, 8, "parser-transition", 'state "start" has no transition: it goes to reject'),
        (2, 8, "unreachable", 'parser "P" never reaches accept'),
    ]


def test_unknown_table_property(tmp_path: Path) -> None:
    text = (
        "control C(inout H hdr) { table t {\nactions = { NoAction; }\nsise = 5; }\n"
        "apply { t.apply(); } }\nTop(C()) main;\n"
    )
    assert warnings_of(tmp_path, text) == [
        (4, 1, "ignore-prop", 'unknown table property "sise"; did you mean "size"?')
    ]


@pytest.mark.parametrize("name", ["l3", "features"])
def test_good_programs_have_none(name: str) -> None:
    assert frontend.check(GOLDEN / f"{name}.p4").warnings == []
