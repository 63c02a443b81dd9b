"""p4c's options for warnings, `@diagnostic`, `@noWarn`: what is shown, what becomes an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler import frontend
from compiler.errors import CompileError, Diagnostic, Pos, Severity
from compiler.passes.diagnostic_actions import DiagnosticActions, UnknownKind

POS = Pos("l3.p4", 3, 7)
UNUSED = Diagnostic(POS, "x is unused", Severity.WARNING, "unused")
SHADOW = Diagnostic(POS, "x shadows y", Severity.WARNING, "shadow")
BRANCH = Diagnostic(POS, "never taken", Severity.WARNING, "branch")
BMV2 = Diagnostic(POS, "BMv2 has no reject", Severity.WARNING, "unused", back_end=True)
NOTE = Diagnostic(POS, "an atomic block", Severity.INFO)
ALL = (UNUSED, SHADOW, BRANCH, BMV2, NOTE)


@pytest.mark.parametrize(
    ("options", "kept", "errors"),
    [
        ([], (UNUSED, SHADOW, BMV2, NOTE), ()),
        (["Wdisable"], (BMV2, NOTE), ()),
        (["Wdisable=unused"], (SHADOW, BMV2, NOTE), ()),
        (["Wwarn=branch"], ALL, ()),
        (["Wdisable", "Wwarn=shadow"], (SHADOW, BMV2, NOTE), ()),
        (["Werror"], (), ("unused", "shadow")),
        (["Werror=shadow"], (), ("shadow",)),
        (["Werror", "Wdisable=unused"], (), ("shadow",)),
        (["Werror=unsupported"], (UNUSED, SHADOW, BMV2, NOTE), ()),
    ],
)
def test_options(options: list[str], kept: tuple[Diagnostic, ...], errors: tuple[str, ...]) -> None:
    actions = DiagnosticActions.of(options)
    if not errors:
        assert tuple(actions.apply(ALL)) == kept
        return
    with pytest.raises(CompileError) as raised:
        actions.apply(ALL)
    assert tuple(each.code for each in raised.value.diagnostics) == errors
    assert str(raised.value).startswith("l3.p4:3:7: error: ")


@pytest.mark.parametrize("option", ["Werror=unusd", "Wall", "Wdisable="])
def test_unknown_options(option: str) -> None:
    with pytest.raises(UnknownKind, match=option):
        DiagnosticActions.of([option])


def test_kind_is_shown() -> None:
    assert str(UNUSED) == "l3.p4:3:7: warning: x is unused [unused]"
    assert str(NOTE) == "l3.p4:3:7: info: an atomic block"


def warnings_of(tmp_path: Path, text: str) -> list[tuple[int, str]]:
    program = tmp_path / "library.p4"
    program.write_text(text)
    found = frontend.check_library(program)
    return [(each.pos.line, each.code) for each in found if each.code != "missing"]


def test_diagnostic_annotation(tmp_path: Path) -> None:
    text = "const bit<8> A = 300;\nconst bit<8> B = 1;\n"
    assert warnings_of(tmp_path, text) == [(1, "overflow"), (1, "unused"), (2, "unused")]
    quiet = '@diagnostic("unused", "disable")\nconst bit<8> C = 1;\n'
    assert warnings_of(tmp_path, text + quiet) == [(1, "overflow")]
    with pytest.raises(CompileError, match=r"300 does not fit"):
        warnings_of(tmp_path, text + '@diagnostic("overflow", "error")\nconst bit<8> C = 1;\n')
    with pytest.raises(CompileError, match=r'no kind of warning "unusd"'):
        warnings_of(tmp_path, '@diagnostic("unusd", "disable")\nconst bit<8> C = 1;\n')
    with pytest.raises(CompileError, match="should look like"):
        warnings_of(tmp_path, '@diagnostic("unused")\nconst bit<8> C = 1;\n')


def test_no_warn_covers_what_carries_it(tmp_path: Path) -> None:
    action = "action a() {\n bit<8> x;\n}\n"
    assert warnings_of(tmp_path, action) == [(1, "unused"), (2, "unused")]
    assert warnings_of(tmp_path, '@noWarn("unused") ' + action) == []
    assert warnings_of(tmp_path, '@noWarn("shadow") ' + action) == [(1, "unused"), (2, "unused")]
    unknown = warnings_of(tmp_path, '@noWarn("unusd") ' + action)
    assert unknown == [(1, "unknown"), (1, "unused"), (2, "unused")]


HINTS = """#include <core.p4>
control Inner(inout bit<8> x);
package Top(Inner inner);
control Hints(inout bit<8> x) {
    apply {
        if (true) @unlikely { x = 1; }
        else @likely { x = 2; }
        if (x == 1) @unlikely { x = 3; }
    }
}
Top(Hints()) main;
"""


def test_hints_on_branches_are_told_of_when_asked_for(tmp_path: Path) -> None:
    program = tmp_path / "hints.p4"
    program.write_text(HINTS)
    found = frontend.check(program).warnings
    assert [(each.pos.line, each.code) for each in found] == [(6, "branch"), (7, "branch")]
    assert DiagnosticActions.of([]).apply(found) == []
    assert DiagnosticActions.of(["Wwarn=branch"]).apply(found) == found
