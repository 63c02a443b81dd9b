"""Which variables a body touches: so that inlining can tell when an argument needs a copy."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.syntax import ast
from compiler.syntax.walk import below, children, expressions_of, statements_of
from compiler.types.types import Direction

_OUT = (Direction.OUT, Direction.INOUT)
_CHANGES_RECEIVER = frozenset(
    {
        ast.CallKind.SET_VALID,
        ast.CallKind.SET_INVALID,
        ast.CallKind.PUSH_FRONT,
        ast.CallKind.POP_FRONT,
    }
)


def mentioned(body: ast.Stmt) -> Iterator[ast.Expr]:
    """Yield the longest `a.b[i].c` paths that a body and the actions it calls read or write."""
    for expr in _all_expressions(body, set()):
        yield from _paths(expr)


def written(body: ast.Stmt) -> Iterator[ast.Expr]:
    """Yield the l-values that a body and the actions it calls may write."""
    for stmt in _all_statements(body, set()):
        yield from _written_by(stmt)
        for expr in expressions_of(stmt):
            yield from _written_by(expr)


def _written_by(node: ast.Node) -> Iterator[ast.Expr]:
    """Yield the l-values that a node itself may write, not those written by nodes inside it."""
    match node:
        case ast.Assign(left=left):
            yield _base_of_slice(left)
        case ast.Call(binding=binding) | ast.ActionRef(binding=binding):
            if isinstance(node, ast.Call) and node.kind in _CHANGES_RECEIVER and node.receiver:
                yield node.receiver
            for each in binding:
                if each.param.direction in _OUT and each.arg is not None:
                    yield _base_of_slice(each.arg)
        case _:
            pass


def fixed_value(expr: ast.Expr, block: ast.ControlDecl | ast.ParserDecl) -> int | None:
    """Return the value of a variable that `block` initialises with a constant and never changes."""
    if not isinstance(expr, ast.Name) or not isinstance(expr.decl, ast.VarDecl):
        return None
    init = expr.decl.init
    if init is None or not isinstance(init.const_value, int):
        return None
    # All of the block counts: its tables run actions, and tables' keys and action lists write, too.
    targets = (target for node in below(block) for target in _written_by(node))
    if any(isinstance(target, ast.Name) and target.decl is expr.decl for target in targets):
        return None
    return int(init.const_value)


def _all_statements(body: ast.Stmt, seen: set[int]) -> Iterator[ast.Stmt]:
    for stmt in statements_of(body):
        yield stmt
        for expr in expressions_of(stmt):
            if (
                isinstance(expr, ast.Call)
                and isinstance(expr.decl, ast.ActionDecl | ast.FunctionDecl)
                and id(expr.decl) not in seen
            ):
                seen.add(id(expr.decl))
                yield from _all_statements(expr.decl.body, seen)


def _all_expressions(body: ast.Stmt, seen: set[int]) -> Iterator[ast.Expr]:
    for stmt in _all_statements(body, seen):
        match stmt:
            case ast.Assign(left=left, right=right):
                yield left
                yield right
            case ast.CallStmt(call=call):
                yield call
            case ast.If(cond=cond) | ast.For(cond=cond):
                yield cond
            case ast.Switch(expr=expr):
                yield expr
            case ast.ForIn(collection=collection):
                yield collection
            case ast.Return(value=value) if value is not None:
                yield value
            case ast.DeclStmt(decl=ast.VarDecl(init=init)) if init is not None:
                yield init
            case _:
                pass


def _paths(expr: ast.Expr) -> Iterator[ast.Expr]:
    if _is_path(expr):
        yield expr
        return
    for child in children(expr):
        yield from _paths(child)


def _is_path(expr: ast.Expr) -> bool:
    match expr:
        case ast.Name(decl=ast.VarDecl() | ast.Parameter()):
            return True
        case ast.Member(kind=ast.MemberKind.FIELD, base=base):
            return _is_path(base)
        case ast.Index(base=base, index=index):
            return index.const_value is not None and _is_path(base)
        case _:
            return False


def _base_of_slice(expr: ast.Expr) -> ast.Expr:
    while isinstance(expr, ast.Slice):
        expr = expr.base
    return expr
