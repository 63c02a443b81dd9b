"""Warnings on parameters of actions that are named, yet decide nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from softswitch.compiler import ast
from softswitch.compiler.errors import Reporter
from softswitch.compiler.usage import below


def warn_actions(decls: Iterable[ast.Decl], reporter: Reporter) -> None:
    """Report a control plane's parameter that only goes to what is never used.

    That is: to variables of a control that nothing reads, and to such parameters of actions.
    """
    nodes = list(below(list(decls)))
    actions = [node for node in nodes if isinstance(node, ast.ActionDecl)]
    params = [(action, param) for action in actions for param in action.params]
    read = _read(nodes)
    unnamed: set[ast.Node] = {param for action, param in params if not _uses(action, param)}
    idle = set(unnamed)
    before = -1
    while len(idle) > before:
        before = len(idle)
        idle |= {param for action, param in params if _is_idle(action, param, read, idle)}
    for _, param in params:
        if param in idle - unnamed:
            text = f'what "{param.name}" is used for has no effect'
            reporter.warn(param.pos, text, "unused", back_end=True)


def _read(nodes: list[ast.Node]) -> set[ast.Node]:
    """Variables that are named elsewhere than as the left side of an assignment."""
    named: Counter[ast.Node | None] = Counter()
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.decl, ast.VarDecl):
            named[node.decl] += 1
        if isinstance(node, ast.Assign) and node.op is None and isinstance(node.left, ast.Name):
            target = node.left.decl
            named[target] -= isinstance(target, ast.VarDecl)
    return {decl for decl, count in named.items() if decl is not None and count > 0}


def _is_idle(
    action: ast.ActionDecl, param: ast.Parameter, read: set[ast.Node], idle: set[ast.Node]
) -> bool:
    if param.direction:
        return False
    without_effect = 0
    for node in below(action.body):
        if isinstance(node, ast.Assign) and node.op is None and isinstance(node.left, ast.Name):
            target = node.left.decl
            if isinstance(target, ast.VarDecl) and target not in read and _is(node.right, param):
                without_effect += 1
        elif isinstance(node, ast.Call) and node.kind is ast.CallKind.ACTION:
            without_effect += sum(
                each.arg is not None and _is(each.arg, param) and each.param.decl in idle
                for each in node.binding
            )
    return _uses(action, param) == without_effect


def _uses(action: ast.ActionDecl, param: ast.Parameter) -> int:
    return sum(isinstance(n, ast.Name) and n.decl is param for n in below(action.body))


def _is(expr: ast.Expr, param: ast.Parameter) -> bool:
    while isinstance(expr, ast.Cast):
        expr = expr.operand
    return isinstance(expr, ast.Name) and expr.decl is param
