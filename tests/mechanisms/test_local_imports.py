"""Imports stand at the top of a module; one within a function has a comment that says why."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator

import pytest

from tests.mechanisms import house

ORDERS = re.compile(r"#\s*(noqa(:\s*[A-Z]+\d+(,\s*[A-Z]+\d+)*)?|fmt:\s*\w+|type:\s*ignore\S*)\s*")
"""What a comment may tell tools: alone it is no reason."""


def unexplained(source: str) -> list[int]:
    """Return the lines of imports within functions that no comment explains.

    The comment stands on the import's lines or on the one above; one of the first import of a
    block holds for those that follow it.
    """
    commented = {
        token.start[0]
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT and ORDERS.sub("", token.string)
    }
    alone = {n for n, line in enumerate(source.splitlines(), 1) if line.lstrip().startswith("#")}
    found = set()
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for block in _blocks(function):
                explained = block[0].lineno - 1 in commented & alone
                for statement in block:
                    lines = range(statement.lineno, (statement.end_lineno or 0) + 1)
                    explained = explained or not commented.isdisjoint(lines)
                    if not explained:
                        found.add(statement.lineno)
    return sorted(found)


def _blocks(function: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yield the runs of imports that follow one another, however deep they stand."""
    for node in ast.walk(function):
        for _, body in ast.iter_fields(node):
            block: list[ast.stmt] = []
            for statement in body if isinstance(body, list) else ():
                if isinstance(statement, ast.Import | ast.ImportFrom):
                    block.append(statement)
                elif block:
                    yield block
                    block = []
            if block:
                yield block


def test_imports_within_functions_say_why() -> None:
    silent = {}
    for name in house.tracked():
        if name.endswith(".py") and not name.startswith("tests/"):
            lines = unexplained((house.ROOT / name).read_text(encoding="utf-8"))
            if lines:
                silent[name] = lines
    assert silent == {}, "move these to the top, or say in a comment why they stand where they do"


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        ("import a", [2]),
        ("import a  # heavy", []),
        ("# heavy\n    import a", []),
        ("# heavy\n    import a\n    import b", []),
        ("import a  # heavy\n\n    from b import c", []),
        ("import a\n    import b  # heavy", [2]),
        ("import a  # heavy\n    a()\n    import b", [4]),
        ("# heavy\n    a()\n    import b", [4]),
        ("a()  # not of the import\n    import b", [3]),
        ("import a  # noqa: F401", [2]),
        ("import a  # noqa: F401 - heavy", []),
        ("if a:\n        import b\n    else:\n        import c  # heavy", [3]),
        ("def g():\n        import a\n    x = '# heavy'", [3]),
        ("from a import (\n        b,  # heavy\n        c,\n    )", []),
    ],
)
def test_silent_imports_are_found(body: str, lines: list[int]) -> None:
    assert unexplained(f"def f():\n    {body}\n") == lines


def test_imports_outside_functions_need_no_comment() -> None:
    assert unexplained("import a\nif a:\n    import b\nclass C:\n    import d\n") == []
