"""Walks over the checked syntax tree: statements and expressions, dead branches left out.

`below` alone leaves out nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from compiler.syntax import ast


def statements_of(stmt: ast.Stmt) -> Iterator[ast.Stmt]:
    """Yield `stmt` and all statements inside, in program order; what is never reached is left out.

    That is: branches and cases that constants rule out, and what follows a return on every path.
    An exit alone hides nothing, as in p4c, which only looks where a body has a return, too.
    """
    yield from _reached(stmt, _has_return(stmt))


def _reached(stmt: ast.Stmt, returns: bool) -> Iterator[ast.Stmt]:
    yield stmt
    match stmt:
        case ast.Block(statements=statements):
            for each in statements:
                yield from _reached(each, returns)
                if returns and _ends(each):
                    return
        case ast.If():
            for branch in _branches(stmt):
                yield from _reached(branch, returns)
        case ast.Switch():
            for body in _bodies(stmt):
                yield from _reached(body, returns)
        case ast.For(init=init, update=update, body=body):
            for each in [*init, *update]:
                yield from _reached(each, returns)
            yield from _reached(body, returns)
        case ast.ForIn(body=body):
            yield from _reached(body, returns)
        case _:
            pass


def constant_case(stmt: ast.Switch) -> list[ast.Block] | None:
    """Return the one body that a switch on a constant runs, or none.

    None if the value depends on the packet.
    """
    value = stmt.expr.const_value
    labels = [case.label for case in stmt.cases]
    if value is None or stmt.table is not None:
        return None
    if any(not isinstance(e, ast.DefaultKey) and e.const_value is None for e in labels):
        return None
    wanted: ast.Expr | None = next((e for e in labels if e.const_value == value), None)
    if wanted is None:
        wanted = next((e for e in labels if isinstance(e, ast.DefaultKey)), None)
    if wanted is None:
        return []
    bodies = [case.body for case in stmt.cases[labels.index(wanted) :]]
    return [body for body in bodies if body is not None][:1]


def _branches(stmt: ast.If) -> list[ast.Stmt]:
    known = stmt.cond.const_value
    then = [stmt.then] if known is not False else []
    return then + ([stmt.otherwise] if stmt.otherwise is not None and known is not True else [])


def _bodies(stmt: ast.Switch) -> list[ast.Block]:
    known = constant_case(stmt)
    return [c.body for c in stmt.cases if c.body is not None] if known is None else known


def _has_return(stmt: ast.Stmt) -> bool:
    match stmt:
        case ast.Return():
            return True
        case ast.Block(statements=statements):
            return any(_has_return(each) for each in statements)
        case ast.If():
            return any(_has_return(each) for each in _branches(stmt))
        case ast.Switch():
            return any(_has_return(each) for each in _bodies(stmt))
        case ast.For(body=body) | ast.ForIn(body=body):
            return _has_return(body)
        case _:
            return False


def _ends(stmt: ast.Stmt) -> bool:
    """Return whether nothing behind `stmt` is reached, as far as p4c sees: of a switch it does
    not.
    """
    match stmt:
        case ast.Return() | ast.Exit():
            return True
        case ast.Block(statements=statements):
            return any(_ends(each) for each in statements)
        case ast.If(cond=cond, otherwise=otherwise):
            both = isinstance(cond.const_value, bool) or otherwise is not None
            return both and all(_ends(each) for each in _branches(stmt)) and bool(_branches(stmt))
        case _:
            return False


def successors(state: ast.ParserState) -> list[str]:
    """Return the names of the states that a parser's state may go to."""
    match state.transition:
        case ast.Name(name=name):
            return [name]
        case ast.Select(cases=cases):
            return [case.target.name for case in cases]
        case _:
            return ["reject"]


def expressions_of(node: ast.Stmt | ast.Expr) -> Iterator[ast.Expr]:
    """Yield the expressions that stand directly in a statement, and their sub-expressions.

    Those of nested statements are left out. For an expression: itself and its sub-expressions.
    """
    match node:
        case ast.Expr():
            yield from _inside(node)
        case ast.Assign(left=left, right=right):
            yield from _inside(right)
            yield from _inside(left)
        case ast.CallStmt(call=call):
            yield from _inside(call)
        case ast.If(cond=cond):
            yield from _inside(cond)
        case ast.Switch(expr=expr):
            yield from _inside(expr)
        case ast.Return(value=value) if value is not None:
            yield from _inside(value)
        case ast.DeclStmt(decl=ast.VarDecl(init=init)) if init is not None:
            yield from _inside(init)
        case ast.For(cond=cond):
            yield from _inside(cond)
        case ast.ForIn(collection=collection):
            yield from _inside(collection)
        case _:
            pass


def _inside(expr: ast.Expr) -> Iterator[ast.Expr]:
    yield expr
    for child in children(expr):
        yield from _inside(child)


def children(expr: ast.Expr) -> list[ast.Expr]:
    """Return the direct sub-expressions, in order of evaluation."""
    match expr:
        case ast.Member(base=base):
            return [base]
        case ast.Index(base=base, index=index):
            return [base, index]
        case ast.Slice(base=base, hi=hi, lo=lo):
            return [base, hi, lo]
        case ast.Unary(operand=operand) | ast.Cast(operand=operand):
            return [operand]
        case ast.Binary(op=ast.BinaryOp.AND, left=left) if left.const_value is False:
            return []
        case ast.Binary(op=ast.BinaryOp.OR, left=left) if left.const_value is True:
            return []
        case ast.Binary(left=left, right=right):
            return [left, right]
        case ast.Ternary(cond=cond, then=then, otherwise=otherwise):
            if cond.const_value is True:
                return [then]
            return [otherwise] if cond.const_value is False else [cond, then, otherwise]
        case ast.ListExpr(elements=elements):
            return elements
        case ast.StructExpr(fields=fields):
            return [each.value for each in fields]
        case ast.Mask(value=value, mask=mask):
            return [value, mask]
        case ast.Range(low=low, high=high):
            return [low, high]
        case ast.Call(receiver=receiver, binding=binding, args=args):
            inner = [receiver] if receiver is not None else []
            if binding:
                return inner + [b.arg for b in binding if b.arg is not None]
            return inner + [a.value for a in args]
        case _:
            return []


PURE_CALLS = frozenset(
    {ast.CallKind.IS_VALID, ast.CallKind.SIZE_IN_BITS, ast.CallKind.STATIC_ASSERT}
)


def has_side_effects(expr: ast.Expr) -> bool:
    """Return whether evaluating `expr` runs code (a function, a table, a lookahead)."""
    return any(isinstance(e, ast.Call) and e.kind not in PURE_CALLS for e in expressions_of(expr))


# Links that the checker makes from uses to declarations; not part of the tree.
_LINKS = frozenset({"decl", "table", "type", "receiver", "binding", "pos"})

_FIELDS: dict[type[ast.Node], tuple[str, ...]] = {}


def below(node: object) -> Iterator[ast.Node]:
    """Yield all nodes of the tree at and below `node`."""
    todo: list[object] = [node]
    while todo:
        current = todo.pop()
        if isinstance(current, list | tuple):
            todo += reversed(current)
        elif isinstance(current, ast.Node):
            yield current
            names = _FIELDS.get(type(current))
            if names is None:
                names = tuple(f.name for f in fields(current) if f.name not in _LINKS)
                _FIELDS[type(current)] = names
            for name in reversed(names):
                value = getattr(current, name)
                if isinstance(value, ast.Node | list | tuple):
                    todo.append(value)
            if isinstance(current, ast.DeclStmt):
                todo.append(current.decl)
