"""Warnings on calls where two arguments that are written share fields."""

from __future__ import annotations

from collections.abc import Iterable

from compiler.errors import Reporter
from compiler.syntax import ast
from compiler.syntax.walk import below
from compiler.types import types as ty

_WRITTEN = (ty.Direction.OUT, ty.Direction.INOUT)


def warn_order(nodes: Iterable[ast.Node], reporter: Reporter) -> None:
    """Report an argument that a call writes and that shares fields with what else it writes.

    What else it writes are its other out and inout arguments, and those of the calls inside of
    its arguments.
    """
    for call in nodes:
        if not isinstance(call, ast.Call) or call.kind is ast.CallKind.TABLE_APPLY:
            continue
        written = [each for inner in _calls(call) for each in outputs(inner)]
        for each in outputs(call):
            if any(other is not each and _overlap(each, other) for other in written):
                text = "what this call writes here shares fields with what else it writes"
                reporter.warn(each.pos, text, "ordering")


def _calls(call: ast.Call) -> list[ast.Call]:
    inner = below([binding.arg for binding in call.binding if binding.arg is not None])
    return [call, *(node for node in inner if isinstance(node, ast.Call))]


def outputs(call: ast.Call) -> list[ast.Expr]:
    """Return the arguments that a call writes."""
    return [
        binding.arg
        for binding in call.binding
        if binding.param.direction in _WRITTEN
        and binding.arg is not None
        and not isinstance(binding.arg, ast.Wildcard)
    ]


def _overlap(left: ast.Expr, right: ast.Expr) -> bool:
    """Return whether two l-values may share something: one is, or may be, a part of the other."""
    one, other = _path(left), _path(right)
    if one is None or other is None or one[0] is not other[0]:
        return False
    return all(a is None or b is None or a == b for a, b in zip(one[1:], other[1:], strict=False))


def _path(expr: ast.Expr) -> list[object] | None:
    """Return the declaration, then fields and indexes.

    None for an unknown index or stack element.
    """
    match expr:
        case ast.Name(decl=decl):
            return [decl]
        case ast.Member(base=base, member=member):
            path = _path(base)
            known = not isinstance(base.type, ty.Stack)
            return None if path is None else [*path, member if known else None]
        case ast.Index(base=base, index=index):
            path = _path(base)
            return None if path is None else [*path, index.const_value]
        case ast.Slice(base=base) | ast.Cast(operand=base):
            return _path(base)
        case _:
            return None
