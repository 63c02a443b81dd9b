"""Every program under bad/ is refused with exactly the errors that its comments announce.

    hdr.h.bb = 1;
//        ^ h_t has no field "bb"; did you mean "b"?

The caret stands under the column of the error, in the line before; `// ^1 text` gives a column
that a caret can't reach, `// whole file: text` an error without a line.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from compiler import frontend
from compiler.errors import CompileError, NotSupported, Severity

BAD = Path(__file__).parent / "bad"
PROGRAMS = sorted(BAD.glob("*.p4"))

_CARET = re.compile(r"//(?P<space> *)\^(?P<column>\d*) (?P<text>.*)")
_WHOLE = re.compile(r"// whole file: (?P<text>.*)")


def announced(program: Path) -> list[tuple[int, int, str]]:
    """(line, column, text) of the errors that the comments announce."""
    found: list[tuple[int, int, str]] = []
    code_line = 0
    for number, line in enumerate(program.read_text().splitlines(), 1):
        whole, caret = _WHOLE.fullmatch(line), _CARET.fullmatch(line)
        if whole:
            found.append((0, 0, whole["text"]))
        elif caret:
            column = int(caret["column"]) if caret["column"] else len(caret["space"]) + 3
            found.append((code_line, column, caret["text"]))
        else:
            code_line = number
    return found


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.stem)
def test_errors_are_those_announced(program: Path) -> None:
    expected = announced(program)
    assert expected, "the program announces no error"
    with pytest.raises(CompileError) as caught:
        frontend.check(program, [BAD / "include"])
    assert isinstance(caught.value, NotSupported) == program.stem.startswith("unsupported_")
    diagnostics = caught.value.diagnostics
    got = [(d.pos.line, d.pos.column, d.message) for d in diagnostics]
    assert sorted(got) == sorted(expected)
    for diagnostic in diagnostics:
        assert diagnostic.severity is Severity.ERROR
        assert str(diagnostic).startswith(str(program))


def test_rendering_has_file_line_column_and_notes() -> None:
    program = BAD / "duplicate_field.p4"
    with pytest.raises(CompileError) as caught:
        frontend.check(program, [BAD / "include"])
    assert str(caught.value).splitlines() == [
        f'{program}:5:12: error: duplicate field "x" in "s_t"',
        f"{program}:4:12: note: first declared here",
    ]


def test_at_most_twenty_errors(tmp_path: Path) -> None:
    program = tmp_path / "many.p4"
    program.write_text("".join(f"const bit<8> c{i} = unknown{i};\n" for i in range(100)))
    with pytest.raises(CompileError) as caught:
        frontend.check(program)
    assert len(caught.value.diagnostics) == 20
