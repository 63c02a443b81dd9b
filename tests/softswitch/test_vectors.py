"""Every recorded answer of BMv2 is ours too: from p4c's JSON and from our compiler's.

`tests/golden/open.txt` lists what is known not to pass yet, one `PROGRAM COMPILER CASE` a line
(CASE `*`: the program does not compile). A listed case that passes fails here: the list is true.
`python tests/softswitch/vectors.py` prints the reasons.
"""

from __future__ import annotations

import functools

import pytest

from compiler import CompileError
from tests.softswitch import vectors


@functools.cache
def problems(program: str, compiler: str) -> dict[str, list[str]]:
    """Run all cases once; reasons by case, the empty list where it passed."""
    try:
        results = vectors.run(program, compiler)
    except CompileError as error:
        names = [case["name"] for case in vectors.recording(program)["cases"]]
        return {name: [str(error)] for name in [*names, "*"]}
    return {result.case: result.problems for result in results} | {"*": []}


def cases() -> list[tuple[str, str, str]]:
    """(program, compiler, case) of everything recorded."""
    found = []
    for program in vectors.PROGRAMS:
        data = vectors.recording(program)
        names = [case["name"] for case in data["cases"]] + ["counters"] * bool(data["counters"])
        for compiler in vectors.COMPILERS:
            found += [(program, compiler, name) for name in names]
    return found


@pytest.mark.parametrize(("program", "compiler", "case"), cases())
def test_case_is_as_recorded(program: str, compiler: str, case: str) -> None:
    reasons = problems(program, compiler).get(case, ["it did not run"])
    known = vectors.open_cases()
    if f"{program} {compiler} {case}" in known or f"{program} {compiler} *" in known:
        if case in problems(program, compiler) and not reasons:
            pytest.fail("passes now: take it off tests/golden/open.txt")
        return
    assert not reasons, "\n".join(reasons)


def test_open_list_names_recorded_cases_only() -> None:
    recorded = {" ".join(case) for case in cases()}
    recorded |= {f"{p} {c} *" for p in vectors.PROGRAMS for c in vectors.COMPILERS}
    assert vectors.open_cases() <= recorded


def test_whole_programs_are_open_only_while_they_do_not_compile() -> None:
    for line in vectors.open_cases():
        program, compiler, case = line.split()
        if case == "*":
            assert problems(program, compiler)["*"], f"{line}: it compiles; list its open cases"


def test_a_wrong_answer_is_noticed() -> None:
    """The comparison itself: one flipped bit, one missing and one extra frame are problems."""
    want = [{"port": 1, "hex": "0102", "mask": "ff0f"}]
    assert not list(vectors._frames("port 1", [b"\x01\xf2"], [{**want[0], "hex": "0102"}]))
    assert list(vectors._frames("port 1", [b"\x01\x03"], want))
    assert list(vectors._frames("port 1", [], want))
    assert list(vectors._frames("port 1", [b"\x01\x02", b"\x01\x02"], want))
    assert list(vectors._frames("port 1", [b"\x01\x02\x00"], want))
