"""Preprocessing: includes, definitions, and positions in the user's files."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler import frontend
from compiler.errors import CompileError
from compiler.syntax import cpp

END = """
control Block();
package Top(Block b);
control C() { apply { } }
Top(C()) main;
"""


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def error_of(program: Path, **options: object) -> str:
    with pytest.raises(CompileError) as caught:
        frontend.check(program, **options)  # type: ignore[arg-type]
    return str(caught.value)


def test_include_directories_and_definitions(tmp_path: Path) -> None:
    library = tmp_path / "library"
    library.mkdir()
    write(library / "sizes.p4", "const bit<8> SIZE = WIDTH;\n")
    program = write(tmp_path / "p.p4", '#include "sizes.p4"\n' + END)
    checked = frontend.check(program, [library], ["WIDTH=7", "UNUSED"])
    size = checked.program.decls[0]
    assert size.name == "SIZE"
    assert size.init.const_value == 7  # type: ignore[attr-defined]


def test_error_in_an_included_file_is_placed_there(tmp_path: Path) -> None:
    included = write(tmp_path / "types.p4", "\nheader h_t { bit<8>   a;  nothing_t b; }\n")
    program = write(tmp_path / "p.p4", '#include "types.p4"\n' + END)
    assert error_of(program) == f'{included}:2:27: error: unknown type "nothing_t"'


@pytest.mark.parametrize(
    ("line", "column"),
    [
        ("const   bit<8>  x  =  y;", 23),
        ("const bit<8> x = /* a comment */ y;", 34),
        ("const bit<8> z = TWICE + y;", 18),
        ("const bit<EIGHT> x = y;", 22),
        ("const bit<8> x = LATER;", 18),
    ],
)
def test_columns_are_those_of_the_source(tmp_path: Path, line: str, column: int) -> None:
    definitions = "#define EIGHT 8\n#define TWICE x\n#define LATER 1 + y\n"
    program = write(tmp_path / "p.p4", definitions + line + "\n" + END)
    first = error_of(program).splitlines()[0]
    assert first.startswith(f"{program}:4:{column}: error: unknown name")


def test_missing_include(tmp_path: Path) -> None:
    program = write(tmp_path / "p.p4", '\n#include "nowhere.p4"\n')
    assert error_of(program) == f"{program}:2:10: error: nowhere.p4: No such file or directory"


def test_error_directive(tmp_path: Path) -> None:
    program = write(tmp_path / "p.p4", "#ifndef PORTS\n#error define PORTS\n#endif\n" + END)
    assert f"{program}:2:2: error: #error define PORTS" in error_of(program)
    assert frontend.check(program, defines=["PORTS=4"]).main.name == "main"


def test_unreadable_programs(tmp_path: Path) -> None:
    missing = tmp_path / "missing.p4"
    assert error_of(missing) == (
        f"{missing}: error: can't read the program: No such file or directory"
    )
    assert error_of(tmp_path) == f"{tmp_path}: error: is a directory, not a P4 program"


def test_malformed_definition(tmp_path: Path) -> None:
    program = write(tmp_path / "p.p4", END)
    assert '"1x" is not NAME or NAME=VALUE' in error_of(program, defines=["1x"])


def test_other_languages_are_refused(tmp_path: Path) -> None:
    program = write(tmp_path / "p.p4", END)
    assert 'language "p4-14" is not known' in error_of(program, std="p4-14")


def test_without_a_preprocessor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    program = write(tmp_path / "p.p4", END)
    assert "apt install cpp" in error_of(program)


def test_architecture_is_known_without_include_directories(tmp_path: Path) -> None:
    program = write(tmp_path / "p.p4", "#include <core.p4>\n#include <v1model.p4>\n")
    text = cpp.preprocess(program, [], [])
    assert "standard_metadata_t" in text and "packet_in" in text
