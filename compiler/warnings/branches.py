"""Warnings on `@likely` and `@unlikely` where a constant decides; off unless asked for."""

from __future__ import annotations

from collections.abc import Iterable

from compiler.errors import Reporter
from compiler.syntax import ast


def warn_branches(nodes: Iterable[ast.Node], reporter: Reporter) -> None:
    """Report hints that the condition itself contradicts."""
    for node in nodes:
        if not isinstance(node, ast.If) or not isinstance(node.cond.const_value, bool):
            continue
        branches = [node.then, node.otherwise]
        if node.cond.const_value is False:
            branches.reverse()
        _hint(branches[0], "unlikely", "this is always taken", reporter)
        _hint(branches[1], "likely", "this is never taken", reporter)


def _hint(stmt: ast.Stmt | None, name: str, why: str, reporter: Reporter) -> None:
    for annotation in stmt.annotations if isinstance(stmt, ast.Block) else ():
        if annotation.name == name:
            reporter.warn(annotation.pos, f"@{name} is ignored: {why}", "branch")
