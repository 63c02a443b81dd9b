"""Warnings on parameters of actions that are named, yet decide nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from compiler.errors import Reporter
from compiler.syntax import ast


def warn_actions(nodes: Sequence[ast.Node], reporter: Reporter) -> None:
    """Report a control plane's parameter, among `nodes`, that only goes to what is never used.

    That is: to variables of a control that nothing reads, and to such parameters of actions.
    """
    uses = _uses(nodes)
    variables: set[ast.Node] = {decl for decl in uses if isinstance(decl, ast.VarDecl)}
    read = variables - _only_written(nodes, uses)
    params = [p for node in nodes if isinstance(node, ast.ActionDecl) for p in node.params]
    unnamed: set[ast.Node] = {param for param in params if param not in uses}
    going = _going(nodes, read)
    idle, before = set(unnamed), -1
    while len(idle) > before:
        before = len(idle)
        for param in params:
            without_effect = sum(to is None or to in idle for to in going.get(param, ()))
            if not param.direction and without_effect == uses.get(param, 0):
                idle.add(param)
    for param in params:
        if param in idle - unnamed:
            text = f'what "{param.name}" is used for has no effect'
            reporter.warn(param.pos, text, "unused", back_end=True)


def _uses(nodes: Sequence[ast.Node]) -> Counter[ast.Node]:
    """Return how often variables and parameters are named."""
    kinds = (ast.VarDecl, ast.Parameter)
    names = (node.decl for node in nodes if isinstance(node, ast.Name))
    return Counter(decl for decl in names if isinstance(decl, kinds))


def _only_written(nodes: Sequence[ast.Node], uses: Counter[ast.Node]) -> set[ast.Node]:
    """Return the variables that are named nowhere but as the left side of assignments."""
    written: Counter[ast.Node] = Counter()
    for node in nodes:
        target = _assigned(node)
        if target is not None:
            written[target] += 1
    return {decl for decl, count in written.items() if count == uses[decl]}


def _assigned(node: ast.Node) -> ast.VarDecl | None:
    """Return the variable that a plain assignment gives its whole value to."""
    if isinstance(node, ast.Assign) and node.op is None and isinstance(node.left, ast.Name):
        return node.left.decl if isinstance(node.left.decl, ast.VarDecl) else None
    return None


def _going(
    nodes: Sequence[ast.Node], read: set[ast.Node]
) -> dict[ast.Node, list[ast.Parameter | None]]:
    """Return where parameters go unchanged: into a parameter of an action, or (None) nowhere."""
    found: dict[ast.Node, list[ast.Parameter | None]] = {}
    for node in nodes:
        target = _assigned(node)
        if target is not None and target not in read and isinstance(node, ast.Assign):
            source = _parameter(node.right)
            if source is not None:
                found.setdefault(source, []).append(None)
        if isinstance(node, ast.Call) and node.kind is ast.CallKind.ACTION:
            for each in node.binding:
                source = None if each.arg is None else _parameter(each.arg)
                if source is not None and each.param.decl is not None:
                    found.setdefault(source, []).append(each.param.decl)
    return found


def _parameter(expr: ast.Expr) -> ast.Parameter | None:
    while isinstance(expr, ast.Cast):
        expr = expr.operand
    found = expr.decl if isinstance(expr, ast.Name) else None
    return found if isinstance(found, ast.Parameter) else None
