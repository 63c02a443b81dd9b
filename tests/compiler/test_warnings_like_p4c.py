"""Warnings of our own programs: each line that says `// warns: KIND` warns so, and no other does.

With p4c-bm2-ss on PATH the same is asked of it, so that the marks are its, too. A kind that ends
in `*` is one for which p4c names no line.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from compiler import compile_p4
from compiler.errors import Severity

PROGRAMS = Path(__file__).parent / "warnings"
NAMES = sorted(path.stem for path in PROGRAMS.glob("*.p4"))
_MARK = re.compile(r"// warns: (.*)")
_P4C = re.compile(r"^[^\s(:]+\((\d+)\): \[--Wwarn=([^\]]+)\] warning")


def expected(program: Path) -> set[tuple[int, str]]:
    """Line and kind of each mark."""
    found: set[tuple[int, str]] = set()
    for number, line in enumerate(program.read_text().splitlines(), start=1):
        mark = _MARK.search(line)
        if mark is not None:
            found |= {(number, kind.strip()) for kind in mark[1].split(",")}
    assert found
    return found


@pytest.mark.parametrize("name", NAMES)
def test_ours(name: str) -> None:
    program = PROGRAMS / f"{name}.p4"
    said = compile_p4(program).warnings
    warned = {(w.pos.line, w.code) for w in said if w.severity is Severity.WARNING}
    assert warned == {(line, kind.rstrip("*")) for line, kind in expected(program)}


@pytest.mark.reference("p4c-bm2-ss")
@pytest.mark.parametrize("name", NAMES)
def test_p4cs(name: str, tmp_path: Path) -> None:
    program = PROGRAMS / f"{name}.p4"
    command = ["p4c-bm2-ss", "--std", "p4-16", "-o", str(tmp_path / "p.json")]
    command += ["--p4runtime-files", str(tmp_path / "p.txtpb"), program.name]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=PROGRAMS)
    assert ran.returncode == 0, ran.stderr
    found = [_P4C.match(line) for line in ran.stderr.splitlines()]
    assert {(int(m[1]), m[2]) for m in found if m is not None} == {
        mark for mark in expected(program) if not mark[1].endswith("*")
    }
