"""Walks over the checked syntax tree: statements and expressions, dead branches left out."""

from __future__ import annotations

from collections.abc import Iterator

from softswitch.compiler import ast


def statements_of(stmt: ast.Stmt) -> Iterator[ast.Stmt]:
    """`stmt` and all statements inside, in program order; branches never taken are skipped."""
    yield stmt
    match stmt:
        case ast.Block(statements=statements):
            for each in statements:
                yield from statements_of(each)
                if isinstance(each, ast.Return):
                    return
        case ast.If(cond=cond, then=then, otherwise=otherwise):
            if cond.const_value is not False:
                yield from statements_of(then)
            if otherwise is not None and cond.const_value is not True:
                yield from statements_of(otherwise)
        case ast.Switch(cases=cases):
            for case in cases:
                if case.body is not None:
                    yield from statements_of(case.body)
        case ast.For(init=init, update=update, body=body):
            for each in [*init, *update]:
                yield from statements_of(each)
            yield from statements_of(body)
        case ast.ForIn(body=body):
            yield from statements_of(body)
        case _:
            pass


def expressions_of(node: ast.Stmt | ast.Expr) -> Iterator[ast.Expr]:
    """Expressions that stand directly in a statement (not in nested statements), with all of
    their sub-expressions; for an expression: itself and its sub-expressions.
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
    """Direct sub-expressions, in order of evaluation."""
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
    """Whether evaluating `expr` runs code (a function, a table, a lookahead)."""
    return any(isinstance(e, ast.Call) and e.kind not in PURE_CALLS for e in expressions_of(expr))
