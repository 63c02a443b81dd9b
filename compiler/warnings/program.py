"""All warnings that need the whole checked program, in the order in which p4c gives them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from compiler.errors import Reporter
from compiler.passes.usage import warn_unused
from compiler.syntax import ast
from compiler.syntax.cpp import INCLUDE_DIR
from compiler.syntax.walk import below
from compiler.types import types as ty
from compiler.warnings.actions import warn_actions
from compiler.warnings.branches import warn_branches
from compiler.warnings.flow import FlowWarnings
from compiler.warnings.names import warn_deprecated
from compiler.warnings.order import warn_order
from compiler.warnings.parsers import warn_parser
from compiler.warnings.silenced import Silenced
from compiler.warnings.storage import Storage
from compiler.warnings.tables import warn_tables


def warn(program: ast.Program, reporter: Reporter) -> None:
    """Report what is worth a warning in a program without errors."""
    nodes = {decl: list(below(decl)) for decl in program.decls}
    own = [decl for decl in program.decls if _is_users(decl)]
    own_nodes = [node for decl in own for node in nodes[decl]]
    silenced = Silenced(own_nodes, reporter)
    warn_unused(nodes, own, reporter)
    found = [decl for decl in _needed(nodes) if _is_users(decl)]
    found_nodes = [node for decl in found for node in nodes[decl]]
    warn_deprecated(own_nodes, reporter)
    for parser in own:
        if isinstance(parser, ast.ParserDecl):
            warn_parser(parser, reporter, needed=parser in found)
    warn_tables(_tables(found, found_nodes), reporter)
    warn_actions(found_nodes, reporter)
    warn_order(found_nodes, reporter)
    warn_branches(found_nodes, reporter)
    storage = Storage()
    flow = FlowWarnings(reporter, storage)
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
    flow = FlowWarnings(reporter, storage, inline=True)
    applied = _applied(found_nodes)
    for decl in found:
        if decl in applied:
            continue
        if isinstance(decl, ast.ParserDecl):
            flow.parser(decl)
        elif isinstance(decl, ast.ControlDecl):
            flow.control(decl)
    reporter.warnings[:] = [each for each in reporter.warnings if not silenced.hides(each)]


def _is_users(decl: ast.Decl) -> bool:
    return not decl.pos.file.startswith(str(INCLUDE_DIR))


def _tables(decls: list[ast.Decl], nodes: Iterable[ast.Node]) -> list[ast.TableDecl]:
    """Return the tables of `decls` that are applied, as far as names among `nodes` show."""
    used = {node.decl for node in nodes if isinstance(node, ast.Name)}
    return [
        table
        for decl in decls
        if isinstance(decl, ast.ControlDecl)
        for table in decl.locals
        if isinstance(table, ast.TableDecl) and table in used
    ]


def _applied(nodes: Iterable[ast.Node]) -> set[ast.Node]:
    """Return the controls and parsers that are checked where they are applied."""
    kinds = (ast.CallKind.CONTROL_APPLY, ast.CallKind.PARSER_APPLY)
    calls = (node for node in nodes if isinstance(node, ast.Call) and node.kind in kinds)
    return {call.decl for call in calls if call.decl is not None}


def _needed(nodes: Mapping[ast.Decl, Iterable[ast.Node]]) -> list[ast.Decl]:
    """Return the top-level declarations that `main` and externs at top level need, in the file's
    order.
    """
    found: set[ast.Node] = set()
    todo: list[ast.Decl] = [
        decl
        for decl in nodes
        if isinstance(decl, ast.InstanceDecl)
        and (decl.name == "main" or isinstance(decl.type, ty.Extern))
    ]
    while todo:
        decl = todo.pop()
        if decl in found:
            continue
        found.add(decl)
        for node in nodes[decl]:
            target = getattr(node, "decl", None)
            if isinstance(target, ast.Decl) and target in nodes:
                todo.append(target)
    return [decl for decl in nodes if decl in found]
