"""Warnings on names: what is marked as deprecated."""

from __future__ import annotations

from collections.abc import Iterable

from compiler.errors import Reporter
from compiler.syntax import ast


def warn_deprecated(nodes: Iterable[ast.Node], reporter: Reporter) -> None:
    """Report each use of what carries @deprecated."""
    for node in nodes:
        if not isinstance(node, ast.Name | ast.NamedTypeRef) or node.decl is None:
            continue
        found = node.decl.annotation("deprecated")
        if found is not None:
            text = " ".join(str(each) for each in found.values)
            reporter.warn(node.pos, f'"{node.decl.name}" is deprecated: {text}', "deprecated")
