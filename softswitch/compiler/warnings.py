"""All warnings that need the whole checked program, in the order in which p4c gives them."""

from __future__ import annotations

from softswitch.compiler import ast
from softswitch.compiler import types as ty
from softswitch.compiler.cpp import INCLUDE_DIR
from softswitch.compiler.errors import Reporter
from softswitch.compiler.usage import below, warn_unused
from softswitch.compiler.warnings_flow import FlowWarnings


def warn(program: ast.Program, reporter: Reporter) -> None:
    """Report what is worth a warning in a program without errors."""
    warn_unused(program, reporter)
    found = [d for d in needed(program) if not d.pos.file.startswith(str(INCLUDE_DIR))]
    flow = FlowWarnings(reporter)
    for decl in found:
        match decl:
            case ast.ParserDecl():
                flow.parser(decl)
            case ast.ControlDecl():
                flow.control(decl)
            case ast.FunctionDecl(type_params=[]):
                flow.function(decl)
            case _:
                pass
    flow = FlowWarnings(reporter, inline=True)
    applied = _applied(found)
    for decl in found:
        if decl in applied:
            continue
        if isinstance(decl, ast.ParserDecl):
            flow.parser(decl)
        elif isinstance(decl, ast.ControlDecl):
            flow.control(decl)


def _applied(decls: list[ast.Decl]) -> set[ast.Node]:
    """What is walked through where it is called."""
    kinds = (ast.CallKind.CONTROL_APPLY, ast.CallKind.PARSER_APPLY)
    calls = (node for node in below(decls) if isinstance(node, ast.Call) and node.kind in kinds)
    return {call.decl for call in calls if call.decl is not None}


def needed(program: ast.Program) -> list[ast.Decl]:
    """Top-level declarations that `main` and externs at top level need, in the file's order."""
    found: set[ast.Node] = set()
    todo: list[ast.Node] = [
        decl
        for decl in program.decls
        if isinstance(decl, ast.InstanceDecl)
        and (decl.name == "main" or isinstance(decl.type, ty.Extern))
    ]
    top = set(program.decls)
    while todo:
        decl = todo.pop()
        if decl in found:
            continue
        found.add(decl)
        for node in below(decl):
            target = getattr(node, "decl", None)
            if isinstance(target, ast.Node) and target in top:
                todo.append(target)
    return [decl for decl in program.decls if decl in found]
